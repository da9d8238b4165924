// SPDX-License-Identifier: MIT
/*
 * Stage shape (stage_shape.h).
 */
#include "stage/stage_shape.h"

#include <string.h>

#define PAGE 4096 /* the smallest */
/* What a piece spans on the host, gaps included, unless it is one row or one slice: stage_job.c's extents are few. */
#define SPAN_MAX ((size_t)4 << 20)

static size_t most(size_t one, size_t other)
{
	return one < other ? one : other;
}

size_t stage_shape_bytes(const struct stage_copy *copy)
{
	size_t bytes;

	if (__builtin_mul_overflow(copy->width, copy->height, &bytes) ||
	    __builtin_mul_overflow(bytes, copy->depth, &bytes))
		return 0;
	return bytes;
}

static void simplify(struct stage_shape *shape)
{
	if (shape->height == 1) {
		shape->height = shape->depth;
		shape->device_pitch = shape->device_slice;
		shape->host_pitch = shape->host_slice;
		shape->depth = 1;
	}
	if (shape->depth > 1 && shape->device_slice == shape->height * shape->device_pitch &&
	    shape->host_slice == shape->height * shape->host_pitch) {
		shape->height *= shape->depth;
		shape->depth = 1;
	}
	if (shape->height > 1 && shape->device_pitch == shape->width &&
	    shape->host_pitch == shape->width) {
		shape->width *= shape->height;
		shape->height = 1;
		if (shape->depth > 1)
			simplify(shape); /* slices of one row each */
	}
}

static void cut(struct stage_shape *shape, size_t piece_bytes)
{
	size_t slice = shape->width * shape->height;

	shape->per_row = shape->per_slice = 1;
	shape->slices = shape->rows = 1;
	shape->bytes = shape->width;
	if (shape->width > piece_bytes || (shape->height == 1 && shape->depth == 1)) {
		shape->kind = STAGE_BYTES;
		shape->per_row = (shape->width + piece_bytes - 1) / piece_bytes;
		/* All alike, and whole lines. */
		shape->bytes =
			((shape->width + shape->per_row - 1) / shape->per_row + 127) & ~(size_t)127;
		shape->per_row = (shape->width + shape->bytes - 1) / shape->bytes;
		shape->per_slice = shape->per_row * shape->height;
		shape->pieces = (uint64_t)shape->per_slice * shape->depth;
	} else if (shape->depth > 1 && slice <= piece_bytes && shape->host_slice <= SPAN_MAX &&
		   shape->device_slice % shape->device_pitch == 0) {
		shape->kind = STAGE_SLICES;
		shape->slices = most(piece_bytes / slice, SPAN_MAX / shape->host_slice);
		shape->pieces = (shape->depth + shape->slices - 1) / shape->slices;
	} else {
		shape->kind = STAGE_ROWS;
		shape->rows = most(piece_bytes / shape->width, shape->height);
		if (shape->rows > 1 && shape->host_pitch > shape->width)
			shape->rows = most(shape->rows, SPAN_MAX / shape->host_pitch);
		if (!shape->rows)
			shape->rows = 1;
		shape->per_slice = (shape->height + shape->rows - 1) / shape->rows;
		shape->pieces = (uint64_t)shape->per_slice * shape->depth;
	}
}

static void cut_units(struct stage_shape *shape, size_t unit_bytes)
{
	size_t rows;

	if (shape->kind == STAGE_BYTES) {
		shape->unit = unit_bytes;
		shape->units = (shape->bytes + unit_bytes - 1) / unit_bytes;
		return;
	}
	rows = shape->kind == STAGE_ROWS ? shape->rows
					 : most(shape->slices, shape->depth) * shape->height;
	shape->unit = unit_bytes / shape->width ? unit_bytes / shape->width : 1;
	shape->units = (rows + shape->unit - 1) / shape->unit;
}

/* What is as long as the address space cannot be right; sums of less do not wrap. */
static bool is_sane(const struct stage_copy *copy)
{
	static const size_t limit = (size_t)1 << 56;
	size_t bytes = stage_shape_bytes(copy), rows, slices;

	if (!bytes || bytes > limit || !copy->host || !copy->device)
		return false;
	if (copy->height > 1 &&
	    (copy->host_pitch < copy->width || copy->device_pitch < copy->width))
		return false;
	if (copy->depth > 1 && (copy->host_slice < copy->width || copy->device_slice < copy->width))
		return false;
	if (__builtin_mul_overflow(copy->height, copy->host_pitch | copy->device_pitch, &rows) ||
	    __builtin_mul_overflow(copy->depth, copy->host_slice | copy->device_slice, &slices))
		return false;
	return rows <= limit && slices <= limit;
}

bool stage_shape(struct stage_shape *ret_shape, const struct stage_copy *copy, size_t piece_bytes,
		 size_t unit_bytes)
{
	if (!is_sane(copy))
		return false;
	*ret_shape = (struct stage_shape){
		.device = copy->device,
		.host = copy->host,
		.to_device = copy->to_device,
		.width = copy->width,
		.height = copy->height,
		.depth = copy->depth,
		.device_pitch = copy->device_pitch,
		.device_slice = copy->device_slice,
		.host_pitch = copy->host_pitch,
		.host_slice = copy->host_slice,
	};
	simplify(ret_shape);
	cut(ret_shape, piece_bytes);
	cut_units(ret_shape, unit_bytes);
	return true;
}

void stage_shape_piece(const struct stage_shape *shape, uint64_t number,
		       struct stage_piece *ret_piece)
{
	size_t x = 0, y = 0, z;

	*ret_piece = (struct stage_piece){.width = shape->width, .height = 1, .depth = 1};
	if (shape->kind == STAGE_SLICES) {
		z = number * shape->slices;
		ret_piece->height = shape->height;
		ret_piece->depth = most(shape->slices, shape->depth - z);
	} else if (shape->kind == STAGE_ROWS) {
		z = number / shape->per_slice;
		y = number % shape->per_slice * shape->rows;
		ret_piece->height = most(shape->rows, shape->height - y);
	} else {
		z = number / shape->per_slice;
		y = number % shape->per_slice / shape->per_row;
		x = number % shape->per_row * shape->bytes;
		ret_piece->width = most(shape->bytes, shape->width - x);
	}
	/* Without rows or slices the pitches may be anything. */
	ret_piece->device = shape->device + x + (y ? y * shape->device_pitch : 0) +
			    (z ? z * shape->device_slice : 0);
	ret_piece->host =
		shape->host + x + (y ? y * shape->host_pitch : 0) + (z ? z * shape->host_slice : 0);
}

static void direct(const struct stage_shape *shape, char *host, char *chunk,
		   struct copy_rows *ret_rows)
{
	ret_rows->from = shape->to_device ? host : chunk;
	ret_rows->to = shape->to_device ? chunk : host;
	ret_rows->from_pitch = shape->to_device ? shape->host_pitch : ret_rows->width;
	ret_rows->to_pitch = shape->to_device ? ret_rows->width : shape->host_pitch;
}

bool stage_shape_run(const struct stage_shape *shape, const struct stage_piece *piece,
		     uint64_t unit, size_t run, char *chunk, struct copy_rows *ret_rows)
{
	size_t first = unit * shape->unit, left, y, z;

	if (shape->kind == STAGE_BYTES) {
		if (run || first >= piece->width)
			return false;
		ret_rows->width = most(shape->unit, piece->width - first);
		ret_rows->rows = 1;
		direct(shape, piece->host + first, chunk + first, ret_rows);
		return true;
	}
	/* Run 0 ends with its slice; each further one begins with a slice. */
	if (first >= piece->height * piece->depth)
		return false;
	left = most(shape->unit, piece->height * piece->depth - first);
	z = first / piece->height + run;
	y = run ? 0 : first % piece->height;
	if (z * piece->height + y >= first + left)
		return false;
	ret_rows->width = piece->width;
	ret_rows->rows = most(piece->height - y, first + left - (z * piece->height + y));
	direct(shape,
	       piece->host + (y ? y * shape->host_pitch : 0) + (z ? z * shape->host_slice : 0),
	       chunk + (z * piece->height + y) * piece->width, ret_rows);
	return true;
}

void stage_shape_span(const struct stage_shape *shape, uintptr_t *ret_first, uintptr_t *ret_end)
{
	*ret_first = (uintptr_t)shape->host;
	*ret_end = *ret_first + shape->width;
	if (shape->height > 1)
		*ret_end += (shape->height - 1) * shape->host_pitch;
	if (shape->depth > 1)
		*ret_end += (shape->depth - 1) * shape->host_slice;
}

bool stage_shape_is_dense(const struct stage_shape *shape)
{
	size_t rows = shape->width;

	if (shape->height > 1) {
		if (shape->host_pitch - shape->width >= PAGE)
			return false;
		rows += (shape->height - 1) * shape->host_pitch;
	}
	/* Slices that lie in each other, too. */
	return shape->depth == 1 || (shape->host_slice >= rows && shape->host_slice - rows < PAGE);
}
