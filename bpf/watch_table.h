/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * The functions that can be watched: every export that the catalogue knows. Written from the
 * catalogue and the header's prototypes by tools/gen/bpf_table.py; this file owns the types. The
 * index is the function's number of the catalogue (enum function_number), so catalogue_rows[index]
 * is its row.
 */
#ifndef SLIPSTREAM_WATCH_TABLE_H
#define SLIPSTREAM_WATCH_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "watch_kinds.h"
#include "watch_table_generated.h" /* WATCH_FUNCTION_COUNT */

/*
 * Where a value lies when the function is entered: `position` is the argument's number from 1, 0 if
 * there is none. Value: (first * second, where that is given) * factor.
 */
struct watch_operand {
	uint8_t position,
		width; /* width in bytes: 4 or 8; what is above it in a register is rubbish */
	uint8_t second, second_width; /* product: another argument */
	uint8_t factor;               /* 1 to 4 */
};

struct watch_function {
	const char *name;
	bool by_default; /* can synchronize, and is neither a launch nor a query nor an event record */
	bool frequent;     /* may be called very often: not probed by default where that is dear */
	uint8_t kind;      /* enum catalogue_kind */
	uint8_t direction; /* enum watch_direction, by the name */
	/* enum watch_stream_class where the name decides it (implicit stream); else what handle 0
	 * means; WATCH_STREAM_NONE: no stream. */
	uint8_t stream_class;
	uint8_t structure,
		structure_position; /* enum watch_structure; argument that points to it */
	struct watch_operand stream, source, destination, bytes;
};

extern const struct watch_function watch_functions[WATCH_FUNCTION_COUNT];

/* Index of an exported name, or -1. */
int watch_function_index(const char *name);

#endif
