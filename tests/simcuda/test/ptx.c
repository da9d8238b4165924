// SPDX-License-Identifier: MIT
/* The PTX of kernels.h is real: the toolkit's assembler takes it. Skipped (77) where there is no
 * ptxas. */
#include "check.h"
#include <sys/wait.h>

int main(void)
{
	char path[] = "/tmp/simcuda-ptx-XXXXXX", command[256];
	int file = mkstemp(path), status;

	if (file < 0 || write(file, simcuda_ptx, strlen(simcuda_ptx)) < 0)
		return 2;
	close(file);
	snprintf(command, sizeof(command),
		 "command -v ptxas >/dev/null || exit 77; ptxas -arch=sm_90 %s -o /dev/null", path);
	status = system(command);
	unlink(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
