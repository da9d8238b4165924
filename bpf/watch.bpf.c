// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Times the driver calls of watched processes. One uprobe program at all entries, one at all
 * returns, or one at both; which function it is comes in the cookie. The scheduler's tracepoint adds how a thread
 * that is inside a call spends its time.
 *
 * Who writes and who reads the maps (watch_state.bpf.h); ids are of the loader's namespace:
 *
 * threads	open calls of each thread. Its own probes, system calls, exec and exit, and sched_switch when
 *		it goes and comes; nobody else, the loader neither. It goes with the thread.
 * watched	processes. In: the loader (roots, those added later), fork (their children), with `all` the
 *		first call. Their end: exit, or the loader where exit was before it. Out: the loader, once
 *		it knows of the end; or whoever has the id next writes over it. The loader reads all of it
 *		after records of processes were lost.
 * counts, losses	programs, each processor its own; the loader reads the sums.
 * callers	programs at entries, of all processors; the loader reads.
 * probe_shapes	the loader, before it attaches the probe of that slot; programs at USDT probes read.
 * ring		programs; the loader takes out. Nobody is woken.
 *
 * Programs at uprobes may be preempted, so counters of a processor are added to atomically. One that is
 * preempted finds what sched_switch has made of its thread meanwhile: `depth` is raised last, when the
 * call is complete.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch_arguments.bpf.h"
#include "watch_scopes.bpf.h"
#include "watch_state.bpf.h"
#include "watch_system_calls.h"

/* Of kernels that have sessions; elsewhere `passed` is not loaded. */
extern bool bpf_session_is_return(void) __ksym __weak;

static void count_caller(const struct thread *thread, __u32 function, __u64 return_address)
{
	struct caller_key key = {
		.process = thread->process,
		.function = function,
		.return_address = return_address,
	};
	__u64 one = 1, *count = bpf_map_lookup_elem(&callers, &key);

	if (!count) {
		/* Another processor may have been first: then its entry is counted up below. */
		if (!bpf_map_update_elem(&callers, &key, &one, BPF_NOEXIST))
			return;
		count = bpf_map_lookup_elem(&callers, &key);
		if (!count) {
			count_loss(LOSS_CALLER);
			return;
		}
	}
	__sync_fetch_and_add(count, 1);
}

/*
 * Open calls that were left without a return (longjmp, an exception): the stack has been taken down
 * below them. At the same place: a jump from one function to another shares it, the same function
 * again does not.
 */
static void drop_left(struct thread *thread, __u64 stack_pointer, __u32 function)
{
	for (int i = 0; i < WATCH_DEPTH; i++) {
		__u32 last = thread->depth - 1;

		if (last >= WATCH_DEPTH)
			return;
		if (open_at(thread, last)->stack_pointer > stack_pointer ||
		    (open_at(thread, last)->stack_pointer == stack_pointer &&
		     open_at(thread, last)->function != function))
			return;
		thread->depth = last;
		count_loss(LOSS_LEFT);
	}
}

/* False: of no interest, and neither is its return. */
static bool enter(struct pt_regs *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(registers);
	__u32 function = (__u32)cookie, depth;
	struct thread *thread = find_thread(task, function);
	struct function_count *count;
	struct open_call *call;
	__u64 return_address = 0;

	if (!thread || is_again(&thread->entry, registers->ip, registers->sp, cookie >> 32))
		return false;
	thread->exit.address = 0;
	drop_left(thread, registers->sp, function);
	depth = thread->depth;
	count = bpf_map_lookup_elem(&counts, &function);
	if (count) {
		__sync_fetch_and_add(&count->calls, 1);
		if (depth)
			__sync_fetch_and_add(&count->nested, 1);
		if (thread->scope)
			__sync_fetch_and_add(&count->scoped, 1);
	}
	bpf_probe_read_user(&return_address, sizeof(return_address), (void *)registers->sp);
	/* A jump from another watched function: what lies there is the return probe's by now. */
	if (depth && depth <= WATCH_DEPTH &&
	    open_at(thread, depth - 1)->stack_pointer == registers->sp)
		return_address = open_at(thread, depth - 1)->return_address;
	if (keep_callers)
		count_caller(thread, function, return_address);
	if (depth >= WATCH_DEPTH) {
		thread->deep++;
		count_loss(LOSS_DEEP);
		return true;
	}
	call = open_at(thread, depth);
	__builtin_memset(call, 0, sizeof(*call));
	call->function = function;
	call->flags = depth ? CALL_NESTED : 0;
	call->scope = thread->scope;
	call->stack_pointer = registers->sp;
	call->return_address = return_address;
	read_arguments(call, registers, function);
	call->entered_ns = bpf_ktime_get_ns();
	settle(thread, task, call->entered_ns);
	for (int i = 0; i < WATCH_HOWS; i++)
		call->off_cpu[i] = thread->off_cpu[i];
	call->switches = thread->switches;
	call->preemptions = thread->preemptions;
	call->yields = thread->yields;
	if (!depth)
		mark(thread, task, call->entered_ns);
	thread->depth = depth + 1;
	return true;
}

/* One more of a system call. The rarest gives way to a new one. */
static void count_top(struct top *top, __u32 number, __u32 more)
{
	__u32 least = 0;

	for (__u32 i = 0; i < TOPS; i++) {
		if (top[i].count && top[i].number == number) {
			top[i].count += more;
			return;
		}
		if (top[i].count < top[least & (TOPS - 1)].count)
			least = i;
	}
	top[least & (TOPS - 1)].number = number;
	top[least & (TOPS - 1)].count = more;
}

/* Puts the innermost open call into the ring, and takes it off. */
static __always_inline void close_call(struct thread *thread, void *registers, __u64 now,
				       __u8 flags)
{
	struct call_record *record = &thread->record;
	__u32 last = thread->depth - 1, size;
	struct open_call *call;
	__u64 frames = 1;
	long bytes;

	if (last >= WATCH_DEPTH)
		return;
	call = open_at(thread, last);
	thread->depth = last;
	/* What the inner call did, the outer one did too. */
	if (last && last < WATCH_DEPTH) {
		struct top *outer = open_at(thread, last - 1)->top;

		for (int i = 0; i < TOPS; i++) {
			if (call->top[i].count)
				count_top(outer, call->top[i].number, call->top[i].count);
		}
	}
	if ((flags & CALL_RETURNED) && now - call->entered_ns < least_ns)
		return;
	record->kind = RECORD_CALL;
	record->process = thread->process;
	record->thread = thread->thread;
	record->function = call->function;
	record->entered_ns = call->entered_ns;
	record->left_ns = now;
	record->stream = call->stream;
	record->bytes = call->bytes;
	record->source = call->source;
	record->destination = call->destination;
	for (int i = 0; i < WATCH_HOWS; i++)
		record->off_cpu[i] = thread->off_cpu[i] - call->off_cpu[i];
	record->switches = thread->switches - call->switches;
	record->preemptions = thread->preemptions - call->preemptions;
	record->yields = thread->yields - call->yields;
	record->top_number = record->top_count = 0;
	for (int i = 0; i < TOPS; i++) {
		if (call->top[i].count > record->top_count) {
			record->top_number = call->top[i].number;
			record->top_count = call->top[i].count;
		}
	}
	record->scope = call->scope;
	record->flags = call->flags | flags;
	record->stream_class = call->stream_class;
	record->direction = call->direction;
	record->reserved = 0;
	if (registers && frames_wanted > 1) {
		/* Taken at the return: the caller's frame is as it was at the entry, and the first
		 * address is the return address. */
		bytes = bpf_get_stack(registers, record->frames, sizeof(record->frames),
				      BPF_F_USER_STACK);
		frames = bytes < 8 ? 1 : (__u64)bytes / 8;
		if (frames > frames_wanted)
			frames = frames_wanted;
	}
	record->frames[0] = call->return_address;
	record->frame_count = frames;
	size = __builtin_offsetof(struct call_record, frames) + (frames & 31) * 8;
	if (size > sizeof(*record))
		size = sizeof(*record);
	if (bpf_ringbuf_output(&ring, record, size, BPF_RB_NO_WAKEUP))
		count_loss(LOSS_RECORD);
}

static void leave(struct pt_regs *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(registers);
	__u32 function = (__u32)cookie, found = WATCH_DEPTH;
	struct function_count *count;

	/* 0 is no address. */
	if (!thread || is_again(&thread->exit, function + 1, registers->sp, cookie >> 32))
		return;
	thread->entry.address = 0;
	settle(thread, task, now);
	for (__u32 i = 0; i < WATCH_DEPTH; i++) {
		if (i < thread->depth && open_at(thread, i)->function == function &&
		    open_at(thread, i)->stack_pointer + 8 == registers->sp)
			found = i;
	}
	if (found >= WATCH_DEPTH) {
		if (thread->deep)
			thread->deep--;
		else
			count_loss(LOSS_LATE);
		return;
	}
	/* What is above it was left without a return. */
	for (int i = 0; i < WATCH_DEPTH && thread->depth > found + 1; i++) {
		thread->depth--;
		count_loss(LOSS_LEFT);
	}
	count = bpf_map_lookup_elem(&counts, &function);
	if (count) {
		__sync_fetch_and_add(&count->returned, 1);
		__sync_fetch_and_add(&count->ns, now - open_at(thread, found)->entered_ns);
	}
	for (int i = 0; i < SCOPES; i++) {
		if (i < thread->scopes &&
		    now - open_at(thread, found)->entered_ns > thread->in[i].driver_ns)
			thread->in[i].driver_ns = now - open_at(thread, found)->entered_ns;
	}
	close_call(thread, registers, now, CALL_RETURNED);
}

SEC("uprobe")
int entered(struct pt_regs *registers)
{
	enter(registers);
	return 0;
}

SEC("uprobe")
int left(struct pt_regs *registers)
{
	leave(registers);
	return 0;
}

/* Both in one link (uprobe.session, Linux 6.13), which is taken away in half the time. 1: the return is not wanted. */
SEC("uprobe")
int passed(struct pt_regs *registers)
{
	if (!bpf_session_is_return())
		return !enter(registers);
	leave(registers);
	return 0;
}

/* The wait class of a sleep in that system call (watch_system_calls.h). */
static __u32 how_of(long number)
{
	switch (number) {
		WATCH_FUTEX_CALLS(WATCH_CALL_CASE)
		return WATCH_FUTEX;
		WATCH_POLL_CALLS(WATCH_CALL_CASE)
		return WATCH_POLL;
		WATCH_IOCTL_CALLS(WATCH_CALL_CASE)
		return WATCH_IOCTL;
		WATCH_YIELD_CALLS(WATCH_CALL_CASE)
		return WATCH_YIELD;
	default:
		return WATCH_OTHER;
	}
}

static void goes(struct thread *thread, struct task_struct *task, bool preempt, __u64 now)
{
	struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
	/* -1 outside system calls. */
	long number = BPF_CORE_READ(registers, orig_ax);
	__u32 depth = thread->depth - 1, how = how_of(number);

	settle(thread, task, now);
	mark(thread, task, now);
	if (preempt || (!task->__state && how != WATCH_YIELD)) {
		thread->preemptions++;
		how = WATCH_PREEMPTED;
	} else {
		if (!task->__state)
			thread->yields++;
		else
			thread->switches++;
		if (!count_system_calls && number >= 0 && depth < WATCH_DEPTH)
			count_top(open_at(thread, depth)->top, number, 1);
	}
	thread->how = how;
	thread->off_since_ns = now;
}

static void comes(struct thread *thread, struct task_struct *task, __u64 now)
{
	__u32 how = thread->how;
	__u64 off = now - thread->off_since_ns;

	if (!thread->off_since_ns) { /* was not seen to go */
		struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
		long number = BPF_CORE_READ(registers, orig_ax);

		how = number < 0 ? WATCH_PREEMPTED : how_of(number);
		off = unseen_ns(thread, task, thread->mark_ns, now);
		if (how == WATCH_PREEMPTED)
			thread->preemptions++;
		else if (how == WATCH_YIELD)
			thread->yields++;
		else
			thread->switches++;
	}
	if (how < WATCH_HOWS)
		thread->off_cpu[how] += off;
	thread->off_since_ns = 0;
	mark(thread, task, now);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *previous, struct task_struct *next)
{
	struct thread *thread = bpf_task_storage_get(&threads, previous, 0, 0);
	__u64 now = 0;

	if (thread && (thread->depth || thread->scopes)) {
		now = bpf_ktime_get_ns();
		goes(thread, previous, preempt, now);
	}
	thread = bpf_task_storage_get(&threads, next, 0, 0);
	if (thread && (thread->off_since_ns || thread->depth)) {
		if (!now)
			now = bpf_ktime_get_ns();
		comes(thread, next, now);
	}
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(system_call, struct pt_regs *registers, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 depth;

	if (!thread || !thread->depth || number == URETPROBE || number == UPROBE)
		return 0;
	depth = thread->depth - 1;
	if (depth < WATCH_DEPTH)
		count_top(open_at(thread, depth)->top, number, 1);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(forked, struct task_struct *parent, struct task_struct *child)
{
	struct watched new = {};
	const struct watched *found;
	__u32 from, to;

	if (child->pid != child->tgid)
		return 0; /* a thread */
	from = id_of(parent->group_leader);
	found = from ? bpf_map_lookup_elem(&watched, &from) : 0;
	if (!found || found->ended_ns)
		return 0;
	to = id_of(child);
	new.since_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&watched, &to, &new, BPF_ANY)) {
		count_loss(LOSS_WATCHED);
		return 0;
	}
	tell_process(RECORD_FORK, to, from, new.since_ns, child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(executed, struct task_struct *task, int old, struct linux_binprm *program)
{
	__u32 process = id_of(task);
	const struct watched *found = process ? bpf_map_lookup_elem(&watched, &process) : 0;

	/* Whatever was open is gone, and the thread may have another id now. */
	bpf_task_storage_delete(&threads, task);
	if (found && !found->ended_ns)
		tell_process(RECORD_EXEC, process, 0, bpf_ktime_get_ns(), task);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(exited, struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u64 now = bpf_ktime_get_ns();
	struct watched *found;
	__u32 process;

	if (thread) {
		for (int i = 0; i < WATCH_DEPTH; i++) {
			if (!thread->depth)
				break;
			close_call(thread, 0, now, 0);
		}
		thread->depth = 0;
	}
	if (task->signal->live.counter)
		return 0; /* other threads live */
	process = id_of(task->group_leader);
	found = process ? bpf_map_lookup_elem(&watched, &process) : 0;
	if (!found || found->ended_ns)
		return 0;
	found->ended_ns = now;
	tell_process(RECORD_EXIT, process, 0, now, task);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
