// SPDX-License-Identifier: MIT
/*
 * Stands in for libslipstream.so in the tests of `slipstream run`: at load it leaves a copy of the
 * record file named by FAKE_RECORD in SLIPSTREAM_OUT, as if made by this process now. So these
 * tests need neither the shim nor a driver.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "emit/record.h"

__attribute__((constructor)) static void leave_record(void)
{
	static char bytes[1 << 16];
	struct record_header *header = (void *)bytes;
	const char *folder = getenv("SLIPSTREAM_OUT"), *sample = getenv("FAKE_RECORD");
	struct timespec now;
	char path[4096];
	ssize_t size;
	int file;

	if (!folder || !sample)
		return;
	file = open(sample, O_RDONLY | O_CLOEXEC);
	size = file < 0 ? -1 : read(file, bytes, sizeof(bytes));
	if (file >= 0)
		close(file);
	if (size < (ssize_t)sizeof(*header))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	header->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	header->end_ns = header->start_ns + 100000000;
	header->pid = (uint32_t)getpid();
	header->parent_pid = (uint32_t)getppid();
	snprintf(path, sizeof(path), "%s/%d-%llu.slip", folder, getpid(),
		 (unsigned long long)header->start_ns);
	file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return;
	if (write(file, bytes, (size_t)size) != size)
		unlink(path);
	close(file);
}
