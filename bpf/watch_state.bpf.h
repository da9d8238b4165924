/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What the watching programs keep (watch.bpf.c): settings, maps, the state of a thread, and the clock that puts
 * unseen switches right. Part of watch.bpf.c.
 */
#ifndef SLIPSTREAM_WATCH_STATE_BPF_H
#define SLIPSTREAM_WATCH_STATE_BPF_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "watch_record.h"

/* enum CUmemorytype. */
enum { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_UNIFIED };

/* Set by the loader before the programs are loaded. */
const volatile __u32 namespace_inode;
const volatile bool all, keep_callers, count_system_calls;
const volatile __u32 frames_wanted;
const volatile __u64 least_ns;
const volatile struct function_shape shapes[RECORD_FUNCTIONS];

enum { TOPS = 4 };

/* System calls by which newer kernels reach the probes themselves. */
enum { URETPROBE = 335, UPROBE = 336 };

/* One system call and how often. */
struct top {
	__u32 number, count;
};

struct open_call {
	__u64 entered_ns, stack_pointer, return_address;
	__u64 stream, bytes, source, destination;
	__u64 off_cpu[WATCH_HOWS]; /* the thread's sums when the call began */
	__u32 switches, preemptions, yields;
	__u32 function, scope;
	__u8 flags, stream_class, direction, reserved;
	struct top top[TOPS];
};

/* A wrapper's call that is open: from the shim's probe scope_enter to scope_exit. */
struct scope {
	__u32 id, reserved;
	__u64 entered_ns, waited_ns; /* the thread's sum when it began */
	__u64 driver_ns;             /* the longest watched call inside */
};

enum { SCOPES = 4 }; /* inside each other, kept; of deeper ones only the number is */

/*
 * Layered file systems that share a layer (containers of one image) give one file several names: each is probed, and each probe hits at the
 * same instruction. The first of them is taken.
 */
struct hit {
	__u64 address, stack_pointer; /* address: of the instruction, or function that returns */
	__u32 link, reserved;         /* the probed file's, or USDT probe's: in the cookie */
};

struct thread {
	__u32 process, thread; /* in the loader's namespace */
	__u32 depth, deep;     /* open calls kept; and above those */
	__u32 how, scope;      /* scope: id of the innermost, 0 none */
	__u32 scopes, reserved0;
	struct scope in[SCOPES];
	__u64 off_since_ns; /* 0: on a processor, or not inside a call */
	__u64 mark_ns, mark_start_ns,
		mark_sum_ns; /* the task's clock, last looked at inside a call */
	__u64 off_cpu[WATCH_HOWS];
	__u32 switches, preemptions, yields, reserved;
	struct hit entry, exit, scope_entry, scope_exit,
		claim;             /* the last of each kind that was taken */
	struct open_call open[8];  /* WATCH_DEPTH used; a power of two for the verifier */
	struct call_record record; /* being put together; too large for the stack */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RECORD_PROCESSES);
	__type(key, __u32);
	__type(value, struct watched);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RECORD_FUNCTIONS);
	__type(key, __u32);
	__type(value, struct function_count);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RECORD_CALLERS);
	__type(key, struct caller_key);
	__type(value, __u64);
} callers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBE_SLOTS);
	__type(key, __u32);
	__type(value, struct probe_shape);
} probe_shapes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20); /* the loader's choice instead */
} ring SEC(".maps");

/* The verifier sees that the index is small; the compiler must not reason it away. */
static __always_inline struct open_call *open_at(struct thread *thread, __u32 index)
{
	asm volatile("%0 &= 7" : "+r"(index));
	return &thread->open[index];
}

/* A hit that was taken already, by another link; else it is the last one from here on. */
static bool is_again(struct hit *last, __u64 address, __u64 stack_pointer, __u32 link)
{
	if (last->address == address && last->stack_pointer == stack_pointer && last->link != link)
		return true;
	last->address = address;
	last->stack_pointer = stack_pointer;
	last->link = link;
	return false;
}

static void count_loss(__u32 which)
{
	__u64 *count = bpf_map_lookup_elem(&losses, &which);

	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The task's id in the loader's namespace, 0 if it has none there. */
static __u32 id_of(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);

	if (!pid)
		return 0;
	for (__u32 i = 0; i < 33; i++) { /* MAX_PID_NS_LEVEL and the first */
		struct upid *number;

		if (i > level)
			break;
		number = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			 i * bpf_core_type_size(struct upid);
		if (BPF_CORE_READ(number, ns, ns.inum) == namespace_inode)
			return BPF_CORE_READ(number, nr);
	}
	return 0;
}

static void tell_process(__u32 kind, __u32 process, __u32 other, __u64 now,
			 struct task_struct *task)
{
	struct process_record record = {
		.kind = kind,
		.process = process,
		.other = other,
		.ns = now,
	};

	bpf_probe_read_kernel(record.name, sizeof(record.name), task->comm);
	if (bpf_ringbuf_output(&ring, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count_loss(LOSS_PROCESS);
}

static bool is_watched(__u32 process, struct task_struct *task)
{
	const struct watched *found = bpf_map_lookup_elem(&watched, &process);
	struct watched new = {};

	if (found && !found->ended_ns)
		return true;
	if (!all)
		return false;
	new.since_ns = bpf_ktime_get_ns();
	if (found)
		bpf_map_delete_elem(&watched, &process);
	/* Another thread may have been first; then that one has told. */
	if (!bpf_map_update_elem(&watched, &process, &new, BPF_NOEXIST))
		tell_process(RECORD_FIRST, process, 0, new.since_ns, task);
	return true;
}

static struct thread *find_thread(struct task_struct *task, __u32 function)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct task_struct *leader;
	__u32 process;

	if (thread)
		return thread;
	leader = task->group_leader;
	process = id_of(leader);
	if (!process || !is_watched(process, leader))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		struct function_count *count = bpf_map_lookup_elem(&counts, &function);

		if (count)
			__sync_fetch_and_add(&count->calls, 1);
		count_loss(LOSS_CALL);
		return 0;
	}
	thread->process = process;
	thread->thread = id_of(task);
	return thread;
}

static void mark(struct thread *thread, struct task_struct *task, __u64 now)
{
	thread->mark_ns = now;
	thread->mark_start_ns = task->se.exec_start;
	thread->mark_sum_ns = task->se.sum_exec_runtime;
}

/*
 * A switch that was not told (on Linux 6.18 one of a thousand, under load): by the task's own clock it
 * was off its processor for the time that passed less the time that it ran. Clocks of processors differ:
 * then it is what passed here, less what it is known to have run.
 */
static __u64 unseen_ns(struct thread *thread, struct task_struct *task, __u64 since, __u64 now)
{
	__u64 ran = task->se.sum_exec_runtime - thread->mark_sum_ns;
	__u64 off = task->se.exec_start - thread->mark_start_ns - ran, most = now - since;

	count_loss(LOSS_SWITCH);
	if (off <= most)
		return off;
	return most > ran ? most - ran : 0;
}

/* It runs, but was not seen to come. */
static void settle(struct thread *thread, struct task_struct *task, __u64 now)
{
	__u32 how = thread->how;

	if (!thread->off_since_ns)
		return;
	if (how < WATCH_HOWS)
		thread->off_cpu[how] += unseen_ns(thread, task, thread->off_since_ns, now);
	thread->off_since_ns = 0;
}

#endif
