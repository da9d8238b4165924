// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/*
 * Times the driver calls of watched processes. One uprobe program at all entries, one at all
 * returns; which function it is comes in the cookie. The scheduler's tracepoint adds how a thread
 * that is inside a call spends its time.
 *
 * State: `threads` has the open calls of each thread, written by that thread alone: by its own
 * probes, and by sched_switch when it goes and comes. It goes with the thread. `watched` has the
 * processes, by ids of the loader's namespace; the loader puts the roots in, fork their children.
 *
 * Programs at uprobes may be preempted, so counters of a processor are added to atomically.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "watch_record.h"

/* enum watch_how, watch_stream_class, watch_direction, watch_structure of the loader. */
enum { FUTEX, POLL, IOCTL, YIELD, PREEMPTED, OTHER };
enum { STREAM_NONE, STREAM_LEGACY, STREAM_PER_THREAD, STREAM_OTHER };
enum { DIRECTION_NONE, H2D, D2H, D2D, H2H, UNKNOWN };
enum { STRUCTURE_NONE, STRUCTURE_2D, STRUCTURE_3D };

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
	__u64 off_cpu[RECORD_HOWS]; /* the thread's sums when the call began */
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

struct thread {
	__u32 process, thread; /* in the loader's namespace */
	__u32 depth, deep;     /* open calls kept; and above those */
	__u32 how, scope;      /* scope: id of the innermost, 0 none */
	__u32 scopes, reserved0;
	struct scope in[SCOPES];
	__u64 off_since_ns; /* 0: on a processor, or not inside a call */
	__u64 mark_ns, mark_start_ns,
		mark_sum_ns; /* the task's clock, last looked at inside a call */
	__u64 off_cpu[RECORD_HOWS];
	__u32 switches, preemptions, yields, reserved;
	struct open_call open[8];  /* RECORD_DEPTH used; a power of two for the verifier */
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

/* What the function was called with. */
struct arguments {
	__u64 in_register[8]; /* the first six */
	__u64 stack_pointer;
};

/* Argument `position`, from 1; from the 7th on they lie above the return address. */
static __u64 argument(const struct arguments *arguments, __u8 position, __u8 width)
{
	__u64 value = 0;

	if (!position)
		return 0;
	if (position <= 6)
		value = arguments->in_register[(position - 1) & 7];
	else if (bpf_probe_read_user(&value, sizeof(value),
				     (void *)(arguments->stack_pointer + 8 * (position - 6))))
		return 0;
	return width == 4 ? (__u32)value : value;
}

static __u64 value_of(const struct arguments *arguments, const volatile struct operand *operand)
{
	__u64 value = argument(arguments, operand->position, operand->width);

	if (operand->second)
		value *= argument(arguments, operand->second, operand->second_width);
	return value * operand->factor;
}

static __u64 address_of(__u32 type, __u64 host, __u64 device, __u64 offset)
{
	__u64 base = type == MEMORY_HOST                               ? host
		     : type == MEMORY_DEVICE || type == MEMORY_UNIFIED ? device
								       : 0;

	return base ? base + offset : 0;
}

static __u8 direction_of(__u32 source, __u32 destination)
{
	if (!source || source >= MEMORY_UNIFIED || !destination || destination >= MEMORY_UNIFIED)
		return UNKNOWN;
	if (source == MEMORY_HOST)
		return destination == MEMORY_HOST ? H2H : H2D;
	return destination == MEMORY_HOST ? D2H : D2D;
}

static __noinline int read_2d(struct open_call *call, __u64 address)
{
	struct copy_2d copy = {};

	if (!call || bpf_probe_read_user(&copy, sizeof(copy), (void *)address))
		return 0;
	call->source = address_of(copy.source_type, copy.source_host, copy.source_device,
				  copy.source_y * copy.source_pitch + copy.source_x);
	call->destination =
		address_of(copy.destination_type, copy.destination_host, copy.destination_device,
			   copy.destination_y * copy.destination_pitch + copy.destination_x);
	call->bytes = copy.width * copy.height;
	call->direction = direction_of(copy.source_type, copy.destination_type);
	return 0;
}

static __noinline int read_3d(struct open_call *call, __u64 address)
{
	struct copy_3d copy = {};

	if (!call || bpf_probe_read_user(&copy, sizeof(copy), (void *)address))
		return 0;
	call->source = address_of(copy.source_type, copy.source_host, copy.source_device,
				  (copy.source_z * copy.source_height + copy.source_y) *
						  copy.source_pitch +
					  copy.source_x);
	call->destination =
		address_of(copy.destination_type, copy.destination_host, copy.destination_device,
			   (copy.destination_z * copy.destination_height + copy.destination_y) *
					   copy.destination_pitch +
				   copy.destination_x);
	call->bytes = copy.width * copy.height * copy.depth;
	call->direction = direction_of(copy.source_type, copy.destination_type);
	return 0;
}

static void read_arguments(struct open_call *call, struct pt_regs *registers, __u32 function)
{
	const struct arguments arguments = {
		.in_register = {registers->di, registers->si, registers->dx, registers->cx,
				registers->r8, registers->r9},
		.stack_pointer = registers->sp,
	};
	const volatile struct function_shape *shape = &shapes[function & (RECORD_FUNCTIONS - 1)];

	call->direction = shape->direction;
	call->stream_class = shape->stream_class;
	call->stream = value_of(&arguments, &shape->stream);
	call->source = value_of(&arguments, &shape->source);
	call->destination = value_of(&arguments, &shape->destination);
	call->bytes = value_of(&arguments, &shape->bytes);
	if (shape->structure == STRUCTURE_2D)
		read_2d(call, argument(&arguments, shape->structure_position, 8));
	else if (shape->structure == STRUCTURE_3D)
		read_3d(call, argument(&arguments, shape->structure_position, 8));
	/* 0x1 and 0x2 mean the same under every name; 0 is what the name says. */
	if (shape->stream.position && call->stream)
		call->stream_class = call->stream == 1   ? STREAM_LEGACY
				     : call->stream == 2 ? STREAM_PER_THREAD
							 : STREAM_OTHER;
}

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
	for (int i = 0; i < RECORD_DEPTH; i++) {
		__u32 last = thread->depth - 1;

		if (last >= RECORD_DEPTH)
			return;
		if (open_at(thread, last)->stack_pointer > stack_pointer ||
		    (open_at(thread, last)->stack_pointer == stack_pointer &&
		     open_at(thread, last)->function != function))
			return;
		thread->depth = last;
		count_loss(LOSS_LEFT);
	}
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
	if (how < RECORD_HOWS)
		thread->off_cpu[how] += unseen_ns(thread, task, thread->off_since_ns, now);
	thread->off_since_ns = 0;
}

SEC("uprobe")
int entered(struct pt_regs *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 function = bpf_get_attach_cookie(registers), depth;
	struct thread *thread = find_thread(task, function);
	struct function_count *count;
	struct open_call *call;
	__u64 return_address = 0;

	if (!thread)
		return 0;
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
	if (depth && depth <= RECORD_DEPTH &&
	    open_at(thread, depth - 1)->stack_pointer == registers->sp)
		return_address = open_at(thread, depth - 1)->return_address;
	if (keep_callers)
		count_caller(thread, function, return_address);
	if (depth >= RECORD_DEPTH) {
		thread->deep++;
		count_loss(LOSS_DEEP);
		return 0;
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
	for (int i = 0; i < RECORD_HOWS; i++)
		call->off_cpu[i] = thread->off_cpu[i];
	call->switches = thread->switches;
	call->preemptions = thread->preemptions;
	call->yields = thread->yields;
	if (!depth)
		mark(thread, task, call->entered_ns);
	thread->depth = depth + 1;
	return 0;
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

	if (last >= RECORD_DEPTH)
		return;
	call = open_at(thread, last);
	thread->depth = last;
	/* What the inner call did, the outer one did too. */
	if (last && last < RECORD_DEPTH) {
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
	for (int i = 0; i < RECORD_HOWS; i++)
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

SEC("uprobe")
int left(struct pt_regs *registers)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 function = bpf_get_attach_cookie(registers), found = RECORD_DEPTH;
	__u64 now = bpf_ktime_get_ns();
	struct function_count *count;

	if (!thread)
		return 0;
	settle(thread, task, now);
	for (__u32 i = 0; i < RECORD_DEPTH; i++) {
		if (i < thread->depth && open_at(thread, i)->function == function &&
		    open_at(thread, i)->stack_pointer + 8 == registers->sp)
			found = i;
	}
	if (found >= RECORD_DEPTH) {
		if (thread->deep)
			thread->deep--;
		else
			count_loss(LOSS_LATE);
		return 0;
	}
	/* What is above it was left without a return. */
	for (int i = 0; i < RECORD_DEPTH && thread->depth > found + 1; i++) {
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
	return 0;
}

/* The verifier sees that the index is small, as above. */
static __always_inline struct scope *scope_at(struct thread *thread, __u32 index)
{
	asm volatile("%0 &= 3" : "+r"(index));
	return &thread->in[index];
}

/* What the thread spent off its processor because it waited. */
static __u64 waited(const struct thread *thread)
{
	__u64 sum = 0;

	for (int i = 0; i < RECORD_HOWS; i++) {
		if (i != PREEMPTED)
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

/* The arguments of the shim's probe. */
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

/* id, function, class, id of the scope around it */
SEC("uprobe")
int scope_entered(struct pt_regs *registers)
{
	struct thread *thread = find_thread(bpf_get_current_task_btf(), RECORD_FUNCTIONS);
	__u64 values[PROBE_ARGUMENTS] = {};

	if (!thread || !read_probe(registers, values))
		return 0;
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
	return 0;
}

SEC("uprobe")
int scope_left(struct pt_regs *registers)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 values[PROBE_ARGUMENTS] = {};

	if (!thread || !read_probe(registers, values))
		return 0;
	if (thread->scopes)
		thread->scopes--;
	if (!values[3])
		thread->scopes = 0;
	thread->scope = values[3];
	return 0;
}

/* name of the rewrite, how, function, bytes */
SEC("uprobe")
int rewritten(struct pt_regs *registers)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	__u64 values[PROBE_ARGUMENTS] = {};
	struct claim_record record = {.kind = RECORD_CLAIM};
	__u32 last;

	if (!thread || !read_probe(registers, values))
		return 0;
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
	if (bpf_ringbuf_output(&ring, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		count_loss(LOSS_RECORD);
	return 0;
}

static __u32 how_of(long number)
{
	switch (number) {
	case 202: /* futex */
	case 454: /* futex_wake, futex_wait, futex_requeue */
	case 455:
	case 456:
	case 449: /* futex_waitv */
		return FUTEX;
	case 7:   /* poll */
	case 23:  /* select */
	case 232: /* epoll_wait */
	case 270: /* pselect6 */
	case 271: /* ppoll */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
		return POLL;
	case 16:
		return IOCTL;
	case 24:
		return YIELD;
	default:
		return OTHER;
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
	if (preempt || (!task->__state && how != YIELD)) {
		thread->preemptions++;
		how = PREEMPTED;
	} else {
		if (!task->__state)
			thread->yields++;
		else
			thread->switches++;
		if (!count_system_calls && number >= 0 && depth < RECORD_DEPTH)
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

		how = number < 0 ? PREEMPTED : how_of(number);
		off = unseen_ns(thread, task, thread->mark_ns, now);
		if (how == PREEMPTED)
			thread->preemptions++;
		else if (how == YIELD)
			thread->yields++;
		else
			thread->switches++;
	}
	if (how < RECORD_HOWS)
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
	if (depth < RECORD_DEPTH)
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
		for (int i = 0; i < RECORD_DEPTH; i++) {
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

char LICENSE[] SEC("license") = "Dual MIT/GPL";
