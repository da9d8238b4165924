/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What a watched function was called with, by the loader's table. Part of watch.bpf.c.
 */
#ifndef SLIPSTREAM_WATCH_ARGUMENTS_BPF_H
#define SLIPSTREAM_WATCH_ARGUMENTS_BPF_H

#include "watch_state.bpf.h"

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
		return WATCH_UNKNOWN;
	if (source == MEMORY_HOST)
		return destination == MEMORY_HOST ? WATCH_H2H : WATCH_H2D;
	return destination == MEMORY_HOST ? WATCH_D2H : WATCH_D2D;
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
	if (shape->structure == WATCH_STRUCTURE_2D)
		read_2d(call, argument(&arguments, shape->structure_position, 8));
	else if (shape->structure == WATCH_STRUCTURE_3D)
		read_3d(call, argument(&arguments, shape->structure_position, 8));
	/* 0x1 and 0x2 mean the same under every name; 0 is what the name says. */
	if (shape->stream.position && call->stream)
		call->stream_class = call->stream == 1   ? WATCH_STREAM_LEGACY
				     : call->stream == 2 ? WATCH_STREAM_PER_THREAD
							 : WATCH_STREAM_OTHER;
}

#endif
