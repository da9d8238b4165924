/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What the watching programs in the kernel and their loader share: the records of the ring, the
 * counters, and the table of where arguments lie. Every field has its place, no padding is left to
 * chance: the ring's memory and the maps' keys are read byte by byte.
 */
#ifndef SLIPSTREAM_WATCH_RECORD_H
#define SLIPSTREAM_WATCH_RECORD_H

#include <linux/types.h>

#include "watch_kinds.h"

enum {
	RECORD_FUNCTIONS = 1024,  /* at least WATCH_FUNCTION_COUNT; a power of two */
	RECORD_CLAIM_FRAMES = 32, /* with those of the shim, which the loader leaves out */
	RECORD_PROCESSES = 65536, /* watched at a time */
	RECORD_CALLERS = 262144,  /* (process, function, return address) triples */
};

enum record_kind {
	RECORD_CALL = 1, /* struct call_record */
	RECORD_FORK,     /* up to FIRST struct process_record; `other`, of this one: the parent */
	RECORD_EXEC,
	RECORD_EXIT,  /* of the whole process */
	RECORD_FIRST, /* with `all`: first call of a process not known */
	RECORD_CLAIM, /* struct claim_record */
};

enum call_flag {
	CALL_RETURNED = 1 << 0,
	CALL_NESTED = 1 << 1,
};

/* Ends with the frames, of which only frame_count are sent. */
struct call_record {
	__u32 kind;
	__u32 process, thread;
	__u32 function;
	__u64 entered_ns, left_ns;
	__u64 stream, bytes, source, destination;
	__u64 off_cpu[WATCH_HOWS];
	__u32 switches, preemptions, yields;
	__u32 top_number, top_count;
	__u32 scope;
	__u8 flags, stream_class, direction, frame_count;
	__u32 reserved;
	__u64 frames[WATCH_FRAMES];
};

struct process_record {
	__u32 kind;
	__u32 process, other, reserved;
	__u64 ns;
	char name[16];
};

/* What the shim's probe `rewrite` said. Its stack begins in the shim. */
struct claim_record {
	__u32 kind;
	__u32 process, thread;
	__u32 function, scope, how;
	__u64 ns, call_ns, off_cpu_ns, driver_ns;
	__u32 frame_count, reserved;
	__u64 frames[RECORD_CLAIM_FRAMES];
};

/* USDT probes of the shim that are heard: upper half of a probe's cookie. */
enum probe_kind { PROBE_SCOPE_ENTER, PROBE_SCOPE_EXIT, PROBE_REWRITE, PROBE_KINDS };

/* Where an argument of a USDT probe lies. */
enum probe_form { PROBE_NONE, PROBE_CONSTANT, PROBE_REGISTER, PROBE_MEMORY };

enum {
	PROBE_ARGUMENTS = 4,
	PROBE_SLOTS = 64 * PROBE_KINDS, /* of SHIM_LIMIT files (watch_shim.c) */
};

struct probe_argument {
	__u8 form, size, is_signed;
	__u8 offset; /* of the register among the saved ones */
	__u32 reserved;
	__s64 value; /* the constant; or what is added to the register */
};

struct probe_shape {
	__u32 count, reserved;
	struct probe_argument argument[PROBE_ARGUMENTS];
};

/* As struct watch_count. */
struct function_count {
	__u64 calls, returned, ns, nested, scoped;
};

/* What was lost, and how often: struct watch_stats has it in words. */
enum loss {
	LOSS_RECORD,  /* ring full: a call's or a claim's */
	LOSS_PROCESS, /* ring full: a process's */
	LOSS_CALL,    /* no memory for a thread's state */
	LOSS_DEEP,    /* more than WATCH_DEPTH open calls */
	LOSS_LEFT,    /* an open call whose return never came */
	LOSS_LATE,    /* a return whose call is not open */
	LOSS_CALLER,  /* no room for a (process, function, return address) */
	LOSS_WATCHED, /* no room for a child */
	LOSS_SWITCH,  /* the scheduler did not tell; put right by the task's own clock */
	LOSSES,
};

struct watched {
	__u64 since_ns, ended_ns; /* ended 0: it lives */
};

/* No padding: hashed byte by byte. */
struct caller_key {
	__u32 process, function;
	__u64 return_address;
};

/* As struct watch_operand. */
struct operand {
	__u8 position, width, second, second_width, factor, reserved[3];
};

/* As struct watch_function, without what only the loader needs. */
struct function_shape {
	__u8 direction, stream_class, structure, structure_position;
	struct operand stream, source, destination, bytes;
};

/* The driver's structures as far as they are read; watch_shape.c holds them against cuda.h. */
struct copy_2d {
	__u64 source_x, source_y;
	__u32 source_type, reserved0;
	__u64 source_host, source_device, source_array, source_pitch;
	__u64 destination_x, destination_y;
	__u32 destination_type, reserved1;
	__u64 destination_host, destination_device, destination_array, destination_pitch;
	__u64 width, height;
};

struct copy_3d {
	__u64 source_x, source_y, source_z, source_level;
	__u32 source_type, reserved0;
	__u64 source_host, source_device, source_array, source_context, source_pitch, source_height;
	__u64 destination_x, destination_y, destination_z, destination_level;
	__u32 destination_type, reserved1;
	__u64 destination_host, destination_device, destination_array, destination_context,
		destination_pitch, destination_height;
	__u64 width, height, depth;
};

#endif
