// SPDX-License-Identifier: MIT
/* A debugger that does nothing: `tracer PROGRAM` runs it traced and ends with its exit status. */
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status, number;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(77); /* not allowed here */
		execv(argv[1], argv + 1);
		_exit(126);
	}
	while (waitpid(pid, &status, 0) == pid) {
		if (!WIFSTOPPED(status))
			return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
		number = WSTOPSIG(status);
		ptrace(PTRACE_CONT, pid, NULL, (void *)(long)(number == SIGTRAP ? 0 : number));
	}
	return 125;
}
