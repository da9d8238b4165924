/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * The shim's USDT probes: which scope is open in a thread, and what is claimed in it. Part of watch.bpf.c.
 */
#ifndef SLIPSTREAM_WATCH_SCOPES_BPF_H
#define SLIPSTREAM_WATCH_SCOPES_BPF_H

#include "watch_state.bpf.h"

/* The verifier sees that the index is small, as in open_at(). */
static __always_inline struct scope *scope_at(struct thread *thread, __u32 index)
{
	asm volatile("%0 &= 3" : "+r"(index));
	return &thread->in[index];
}

/* What the thread spent off its processor because it waited. */
static __u64 waited(const struct thread *thread)
{
	__u64 sum = 0;

	for (int i = 0; i < WATCH_HOWS; i++) {
		if (i != WATCH_PREEMPTED)
			sum += thread->off_cpu[i];
	}
	return sum;
}

static __u64 probe_value(void *registers, const struct probe_argument *argument)
{
	__u64 value = 0, bits;

	if (argument->form == PROBE_CONSTANT)
		return argument->value;
	if (bpf_probe_read_kernel(&value, sizeof(value), registers + argument->offset))
		return 0;
	if (argument->form == PROBE_MEMORY) {
		__u64 address = value + argument->value;

		value = 0;
		if (bpf_probe_read_user(&value, sizeof(value), (void *)address))
			return 0;
	}
	bits = 64 - 8 * (argument->size & 15);
	if (!argument->size || argument->size > 8)
		return 0;
	value <<= bits & 63;
	return argument->is_signed ? (__u64)((__s64)value >> (bits & 63)) : value >> (bits & 63);
}

/* The arguments of the shim's probe; the lower half of the cookie is its slot. */
static bool read_probe(struct pt_regs *registers, __u64 *values)
{
	__u32 slot = bpf_get_attach_cookie(registers);
	const struct probe_shape *shape = bpf_map_lookup_elem(&probe_shapes, &slot);

	if (!shape)
		return false;
	for (int i = 0; i < PROBE_ARGUMENTS; i++)
		values[i] = probe_value(registers, &shape->argument[i]);
	return true;
}

/* Each probe of each file has a slot of its own. */
static bool probed_again(struct hit *last, struct pt_regs *registers)
{
	return is_again(last, registers->ip, registers->sp, bpf_get_attach_cookie(registers));
}

/* id, function, class, id of the scope around it */
static void scope_entered(struct pt_regs *registers)
{
	struct thread *thread = find_thread(bpf_get_current_task_btf(), RECORD_FUNCTIONS);
	__u64 values[PROBE_ARGUMENTS] = {};

	if (!thread || probed_again(&thread->scope_entry, registers) ||
	    !read_probe(registers, values))
		return;
	thread->scope_exit.address = 0;
	if (!values[3])
		thread->scopes = 0; /* the outermost: whatever was left is over */
	if (thread->scopes < SCOPES) {
		struct scope *scope = scope_at(thread, thread->scopes);

		scope->id = values[0];
		scope->entered_ns = bpf_ktime_get_ns();
		scope->waited_ns = waited(thread);
		scope->driver_ns = 0;
	}
	thread->scopes++;
	thread->scope = values[0];
}

static void scope_left(struct pt_regs *registers)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 values[PROBE_ARGUMENTS] = {};

	if (!thread || probed_again(&thread->scope_exit, registers) ||
	    !read_probe(registers, values))
		return;
	thread->scope_entry.address = 0;
	if (thread->scopes)
		thread->scopes--;
	if (!values[3])
		thread->scopes = 0;
	thread->scope = values[3];
}

/* name of the rewrite, how, function, bytes */
static void rewritten(struct pt_regs *registers)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 values[PROBE_ARGUMENTS] = {};
	struct claim_record record = {.kind = RECORD_CLAIM};
	__u32 last;
	long bytes;

	if (!thread || probed_again(&thread->claim, registers) || !read_probe(registers, values))
		return;
	settle(thread, bpf_get_current_task_btf(), bpf_ktime_get_ns());
	record.process = thread->process;
	record.thread = thread->thread;
	record.how = values[1];
	record.function = values[2];
	record.ns = bpf_ktime_get_ns();
	record.scope = thread->scope;
	last = thread->scopes - 1;
	if (last < SCOPES) {
		const struct scope *scope = scope_at(thread, last);

		record.call_ns = record.ns - scope->entered_ns;
		record.off_cpu_ns = waited(thread) - scope->waited_ns;
		record.driver_ns = scope->driver_ns;
	}
	bytes = bpf_get_stack(registers, record.frames, sizeof(record.frames), BPF_F_USER_STACK);
	record.frame_count = bytes < 0 ? 0 : (__u32)bytes / 8;
	if (bpf_ringbuf_output(&ring, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count_loss(LOSS_RECORD);
}

/* All probes of one file of the shim are in one link: which it is comes in the cookie. */
SEC("uprobe")
int probed(struct pt_regs *registers)
{
	switch (bpf_get_attach_cookie(registers) >> 32) {
	case PROBE_SCOPE_ENTER:
		scope_entered(registers);
		break;
	case PROBE_SCOPE_EXIT:
		scope_left(registers);
		break;
	case PROBE_REWRITE:
		rewritten(registers);
		break;
	}
	return 0;
}

#endif
