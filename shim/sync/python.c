// SPDX-License-Identifier: MIT
/*
 * Python frames of the calling thread (python.h). Called by site.c.
 *
 * The thread state comes from PyGILState_GetThisThreadState(), which reads thread-local storage and
 * needs no GIL. From there everything is copied out by the fault-proof reader: frame, code object,
 * names, line table. The frames belong to this thread, which is here and not in the interpreter, so
 * they hold still; their code objects are kept alive by them. That holds with the GIL released too.
 * Nothing is believed: the thread state must name this thread, each object must be of its exact
 * type, each count is bounded. What fails a check ends the walk (or leaves out the name), so a
 * wrong layout gives no frames instead of wrong ones. Not seen: a thread inside a sub-interpreter
 * that it did not start in, with the GIL released, shows its first interpreter's frames.
 */
#include "sync/python.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "config.h"
#include "emit/emit.h"
#include "sync/module.h"
#include "sync/python_layout.h"
#include "sync/python_lines.h"
#include "sync/reader.h"

#define TEXT_MAX     512         /* bytes of a name */
#define TABLE_MAX    (64 * 1024) /* bytes of a line table that are looked through */
#define FRAMES_MAX   4096        /* frames passed over or taken: ends a loop in a corrupt chain */
#define OBJECT_BYTES (PYTHON_OFFSET_MAX + 8) /* most that is read of a frame or code object */

/* Strings of this walk by their address. */
#define KNOWN 16
struct known {
	uint64_t address;
	uint32_t id;
};

struct walk {
	const struct python_runtime *runtime;
	const struct python_layout *layout;
	struct reader reader;
	uint64_t at; /* the innermost frame */
	struct known known[KNOWN];
};

static uint64_t word(const uint8_t *bytes, uint16_t offset)
{
	uint64_t value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

static int32_t number(const uint8_t *bytes, uint16_t offset)
{
	int32_t value;

	memcpy(&value, bytes + offset, sizeof(value));
	return value;
}

static size_t put_character(char *text, uint32_t character)
{
	if (character < 0x80) {
		text[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		text[0] = (char)(0xc0 | character >> 6);
		text[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	/* A lone surrogate stands for a byte of a file name that was no UTF-8. */
	if (character > 0x10ffff || (character >= 0xd800 && character <= 0xdfff))
		character = 0xfffd;
	if (character < 0x10000) {
		text[0] = (char)(0xe0 | character >> 12);
		text[1] = (char)(0x80 | (character >> 6 & 0x3f));
		text[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	text[0] = (char)(0xf0 | character >> 18);
	text[1] = (char)(0x80 | (character >> 12 & 0x3f));
	text[2] = (char)(0x80 | (character >> 6 & 0x3f));
	text[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

#define TEXT_BYTES  320 /* of a string, read at once; a longer one is read on */
#define TABLE_BYTES 512 /* of a line table, likewise */

/* String id of a str object of which `got` bytes were read, 0 if it is none. A name too long keeps
 * its end: the file, not the folders. */
static uint32_t text_id(struct walk *walk, uint64_t address, const uint8_t *object, int got)
{
	const struct python_layout *layout = walk->layout;
	uint8_t more[4 * TEXT_MAX];
	const uint8_t *bytes;
	char text[TEXT_MAX];
	uint64_t length, data, first = 0;
	uint32_t state, kind, character;
	size_t size = 0, i;

	if (got < layout->text_ascii_data ||
	    word(object, layout->object_type) != walk->runtime->text_type)
		return 0;
	length = word(object, layout->text_length);
	memcpy(&state, object + layout->text_state, sizeof(state));
	kind = state >> 2 & 7;
	/* Bit 5: compact, the characters follow the object; bit 6: ASCII, they follow a shorter
	 * one. */
	if (!(state & 0x20) || (kind != 1 && kind != 2 && kind != 4) || length > INT32_MAX)
		return 0;
	data = state & 0x40 ? layout->text_ascii_data : layout->text_data;
	if (length > TEXT_MAX)
		first = length - TEXT_MAX;
	bytes = object + data + first * kind;
	if (data + length * kind > (uint64_t)got) {
		bytes = more;
		if (reader_copy(&walk->reader, more, address + data + first * kind,
				(length - first) * kind))
			return 0;
	}
	for (i = 0; i < length - first; i++) {
		char encoded[4];
		size_t more_size;

		if (kind == 1) {
			character = bytes[i];
		} else if (kind == 2) {
			uint16_t unit;

			memcpy(&unit, bytes + 2 * i, sizeof(unit));
			character = unit;
		} else {
			memcpy(&character, bytes + 4 * i, sizeof(character));
		}
		more_size = put_character(encoded, character);
		if (size + more_size > TEXT_MAX)
			break;
		memcpy(text + size, encoded, more_size);
		size += more_size;
	}
	return emit_string(text, size);
}

/* The same by address, with what this walk has asked before: frames share files, and while they
 * live an address stays one string. */
static uint32_t text_once(struct walk *walk, uint64_t address)
{
	struct known *known = &walk->known[address >> 4 & (KNOWN - 1)];
	uint8_t object[TEXT_BYTES];
	int got;

	if (known->address == address && known->id)
		return known->id;
	/* A short string may end with its page: the shortest head must be there. */
	got = reader_copy_some(&walk->reader, object, address, walk->layout->text_ascii_data,
			       sizeof(object));
	known->address = address;
	known->id = text_id(walk, address, object, got);
	return known->id;
}

static int32_t line_of(struct walk *walk, uint64_t table, int64_t offset, int32_t first_line)
{
	const struct python_layout *layout = walk->layout;
	struct python_lines lines;
	uint8_t piece[TABLE_BYTES];
	const uint8_t *bytes = piece + layout->bytes_data;
	uint64_t size, at = 0, part;
	int64_t used;
	int32_t line;
	int got;

	got = reader_copy_some(&walk->reader, piece, table, layout->bytes_data, sizeof(piece));
	if (got < 0 || word(piece, layout->object_type) != walk->runtime->bytes_type)
		return 0;
	size = word(piece, layout->object_size);
	if (size > TABLE_MAX)
		size = TABLE_MAX;
	python_lines_start(&lines, offset, first_line);
	part = (uint64_t)got - layout->bytes_data;
	for (;;) {
		if (part > size - at)
			part = size - at;
		used = layout->pairs ? python_lines_pairs(&lines, bytes, part, &line)
				     : python_lines_locations(&lines, bytes, part, &line);
		if (used < 0)
			return line;
		/* Nothing used of a whole piece: no entry is that long. */
		if (at + part == size || (!used && part == sizeof(piece)))
			return 0;
		at += (uint64_t)used;
		part = sizeof(piece) < size - at ? sizeof(piece) : size - at;
		if (reader_copy(&walk->reader, piece, table + layout->bytes_data + at, part))
			return 0;
		bytes = piece;
	}
}

static size_t farther(size_t end, size_t offset, size_t size)
{
	return offset + size > end ? offset + size : end;
}

/* Bytes of a frame that we read: no more, it may be the last thing on its page. */
static size_t frame_bytes(const struct python_layout *layout)
{
	size_t end = farther(0, layout->frame_previous, 8);

	end = farther(end, layout->frame_code, 8);
	end = farther(end, layout->frame_instruction, 8);
	end = farther(end, layout->frame_owner, 1);
	return farther(end, layout->frame_line, 4);
}

static size_t code_bytes(const struct python_layout *layout)
{
	size_t end = farther(0, layout->code_filename, 8);

	end = farther(end, layout->code_name, 8);
	end = farther(end, layout->code_line_table, 8);
	return farther(end, layout->code_first_line, 4);
}

/* The calling thread's innermost frame, 0 if it runs no Python. */
static uint64_t current_frame(struct walk *walk)
{
	const struct python_layout *layout = walk->layout;
	uint64_t state = (uint64_t)(uintptr_t)walk->runtime->thread_state(), owner, base, frame;

	/* A thread state of another thread is a leftover of a finalized interpreter. */
	if (!state ||
	    reader_copy(&walk->reader, &owner, state + layout->thread_id, sizeof(owner)) ||
	    owner != (uint64_t)pthread_self())
		return 0;
	base = state;
	if (layout->cframe &&
	    reader_copy(&walk->reader, &base, state + layout->cframe, sizeof(base)))
		return 0;
	if (reader_copy(&walk->reader, &frame, base + layout->current_frame, sizeof(frame)))
		return 0;
	return frame;
}

/* Starts a walk in the first interpreter of which this thread runs code. */
static bool walk_start(struct walk *walk, uint64_t generation)
{
	const struct python_runtime *runtimes;
	unsigned int count, i;

	if (!config.python)
		return false;
	count = python_runtimes(generation, &runtimes);
	if (!count)
		return false;
	memset(walk->known, 0, sizeof(walk->known));
	for (i = 0; i < count; i++) {
		if (python_gone(&runtimes[i]))
			continue;
		walk->runtime = &runtimes[i];
		walk->layout = &runtimes[i].layout;
		reader_start(&walk->reader, python_doubtful(walk->runtime));
		walk->at = current_frame(walk);
		if (walk->at)
			return true;
	}
	return false;
}

/* 1: taken, 0: no Python code, pass over, -errno: not what we believe, stop. */
static int take_frame(struct walk *walk, const uint8_t *frame,
		      struct record_python_frame *ret_frame)
{
	const struct python_layout *layout = walk->layout;
	uint8_t code[OBJECT_BYTES];
	uint64_t code_at = word(frame, layout->frame_code);
	int32_t first_line;
	int64_t offset;

	if (layout->frame_owner && frame[layout->frame_owner] > layout->owner_max)
		return 0;
	if (layout->tagged)
		code_at &= ~UINT64_C(3);
	if (reader_copy(&walk->reader, code, code_at, code_bytes(layout)))
		return -EFAULT;
	/* Entries of the interpreter itself may refer to something else (None). */
	if (word(code, layout->object_type) != walk->runtime->code_type)
		return layout->version >= 0x030c ? 0 : -EPROTO;
	*ret_frame = (struct record_python_frame){
		.file = text_once(walk, word(code, layout->code_filename)),
		.function = text_once(walk, word(code, layout->code_name)),
	};
	if (!ret_frame->file && !ret_frame->function)
		return -EPROTO;
	if (layout->frame_line)
		ret_frame->line = number(frame, layout->frame_line);
	if (ret_frame->line > 0)
		return 1;
	first_line = number(code, layout->code_first_line);
	if (layout->pairs)
		offset = 2 * (int64_t)number(frame, layout->frame_instruction);
	else
		offset = (int64_t)(word(frame, layout->frame_instruction) - code_at -
				   layout->code_instructions);
	ret_frame->line = line_of(walk, word(code, layout->code_line_table), offset, first_line);
	return 1;
}

/* Kept out of python_frames(): a thread that runs no Python does not pay for this stack. */
__attribute__((noinline)) static uint32_t
take_frames(struct walk *walk, struct record_python_frame *frames, uint32_t max)
{
	uint8_t frame[OBJECT_BYTES];
	uint64_t at = walk->at;
	uint32_t taken = 0, passed;
	int kind = 0;

	for (passed = 0; at && taken < max && passed < FRAMES_MAX; passed++) {
		kind = reader_copy(&walk->reader, frame, at, frame_bytes(walk->layout));
		if (!kind)
			kind = take_frame(walk, frame, &frames[taken]);
		if (kind < 0)
			break;
		taken += (uint32_t)kind;
		at = word(frame, walk->layout->frame_previous);
	}
	if (taken && kind >= 0)
		python_proven(walk->runtime);
	return taken;
}

uint32_t python_frames(uint64_t generation, struct record_python_frame *frames, uint32_t max)
{
	int saved_errno = errno;
	struct walk walk;
	uint32_t taken = 0;

	if (walk_start(&walk, generation))
		taken = take_frames(&walk, frames, max);
	errno = saved_errno;
	return taken;
}

uint64_t python_loop(uint32_t n, uint64_t *ret_size)
{
	const struct python_runtime *runtimes;

	if (n >= python_runtimes_known(&runtimes))
		return 0;
	*ret_size = python_gone(&runtimes[n]) ? 0 : runtimes[n].loop_size;
	return runtimes[n].loop;
}
