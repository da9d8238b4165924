// SPDX-License-Identifier: MIT
/* A watch that is told what it saw: stands in for bpf/watch.h where the writer is tested. One thread. */
#ifndef SLIPSTREAM_TESTS_FAKE_WATCH_H
#define SLIPSTREAM_TESTS_FAKE_WATCH_H

#include "watch.h"

struct fake_mapping {
	pid_t process;
	uint64_t start, end, offset;
	ino_t inode;
	const char *path;
};

struct watch {
	const struct watch_process *processes;
	size_t process_count;
	const struct fake_mapping *mappings;
	size_t mapping_count;
	const struct watch_caller *callers;
	size_t caller_count;
	struct watch_library library;
};

#endif
