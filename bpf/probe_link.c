// SPDX-License-Identifier: MIT
#include "probe_link.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/bpf.h>

/* The part of the system call's argument that attaches many probes at once. */
struct argument {
	uint32_t program, target;
	uint32_t attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t count, multi_flags, process, padding;
};

int probe_link_create(const struct probe_link *link)
{
	struct argument argument = {
		.program = (uint32_t)link->program,
		.attach_type = link->type,
		.path = (uint64_t)(uintptr_t)link->path,
		.offsets = (uint64_t)(uintptr_t)link->offsets,
		.ref_ctr_offsets = (uint64_t)(uintptr_t)link->semaphores,
		.cookies = (uint64_t)(uintptr_t)link->cookies,
		.count = (uint32_t)link->count,
		.multi_flags = link->flags,
	};
	long r = syscall(SYS_bpf, BPF_LINK_CREATE, &argument, sizeof(argument));

	return r < 0 ? -errno : (int)r;
}
