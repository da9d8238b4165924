// SPDX-License-Identifier: MIT
/*
 * Stage shape: how a copy is cut. Pure arithmetic; no driver, no memory.
 *
 *	piece	what one operation of the copy engine moves, packed without gaps in a chunk: some slices, some rows of a slice, or a part
 *		of a row
 *	unit	what one thread copies at a time: some rows of a piece, or a part of its row. Every piece has the same number of units, of
 *		which those of a small last piece may be empty
 */
#ifndef SLIPSTREAM_STAGE_STAGE_SHAPE_H
#define SLIPSTREAM_STAGE_STAGE_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/copy_bytes.h"
#include "stage/stage.h"

struct stage_shape {
	CUdeviceptr device;
	char *host;
	bool to_device;
	/* Simplified: what lies without gaps on both sides is one row. */
	size_t width, height, depth;
	size_t device_pitch, device_slice, host_pitch, host_slice;
	/* Of a piece; `per_row`, `per_slice`: pieces that a row, a slice takes. One of slices, rows, bytes is what a piece consists of. */
	enum { STAGE_SLICES, STAGE_ROWS, STAGE_BYTES } kind;
	size_t slices, rows, bytes, per_row, per_slice;
	uint64_t pieces;
	uint64_t units; /* of a piece */
	size_t unit;    /* rows, or bytes */
};

/* Where a piece lies. Packed: `width * height * depth` bytes. */
struct stage_piece {
	CUdeviceptr device;
	char *host;
	size_t width, height, depth;
};

/* Pieces of at most `piece_bytes`, units of about `unit_bytes`. False: nothing to copy, or no sizes that can be. */
bool stage_shape(struct stage_shape *ret_shape, const struct stage_copy *copy, size_t piece_bytes,
		 size_t unit_bytes);

void stage_shape_piece(const struct stage_shape *shape, uint64_t number,
		       struct stage_piece *ret_piece);

/*
 * A unit's rows, one run of them at a time: *ret_rows is from the host to `chunk` or back. `run` counts from 0; false: there are no more.
 */
bool stage_shape_run(const struct stage_shape *shape, const struct stage_piece *piece,
		     uint64_t unit, size_t run, char *chunk, struct copy_rows *ret_rows);

/* Bytes of the copy. */
size_t stage_shape_bytes(const struct stage_copy *copy);

/* First byte on the host and the one behind the last. */
void stage_shape_span(const struct stage_shape *shape, uintptr_t *ret_first, uintptr_t *ret_end);

/* Is there a byte of the copy in each page of its span? */
bool stage_shape_is_dense(const struct stage_shape *shape);

#endif
