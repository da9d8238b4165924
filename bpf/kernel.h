/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * The few kernel types that the watching programs (watch.bpf.c) look into. Offsets are the running kernel's: libbpf
 * puts them in when it loads the programs (CO-RE), so only names and types matter here, neither
 * order nor completeness. Instead of a vmlinux.h of 130,000 lines.
 */
#ifndef SLIPSTREAM_KERNEL_H
#define SLIPSTREAM_KERNEL_H

#define __VMLINUX_H__ /* bpf_tracing.h: registers have the kernel's names */

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, sp;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* level + 1 of them */
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
};

/* Brought up to date together: their differences are the time that a task ran. */
struct sched_entity {
	__u64 exec_start;       /* last brought up to date; clock of its processor */
	__u64 sum_exec_runtime; /* up to then */
};

struct task_struct {
	unsigned int __state; /* 0: ready to run */
	int pid, tgid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct sched_entity se;
	char comm[16];
};

struct linux_binprm;

#pragma clang attribute pop

#endif
