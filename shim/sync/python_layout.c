// SPDX-License-Identifier: MIT
/*
 * Finding CPython in this process and how its structures are laid out (python_layout.h). Called by
 * python.c.
 *
 * 3.10 to 3.12 do not describe themselves: their rows below were printed by
 * tests/programs/python/offsets.c, compiled against each version's own headers
 * (3.10.13, 3.11.7, 3.12.1; x86-64). Minor releases keep these structures. 3.13 and later begin
 * `_PyRuntime` with a table of offsets for debuggers, found by its cookie; only the order of that
 * table is fixed here. An interpreter built otherwise (tracing references) has another object head:
 * the type checks in python.c then end every walk at once, so it yields no frames, never wrong
 * ones.
 */
#include "sync/python_layout.h"

#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "emit/emit.h"
#include "sync/image.h"
#include "sync/reader.h"

#define RUNTIMES_MAX 4
#define COOKIE       UINT64_C(0x7970677562656478) /* "xdebugpy" */

static const struct python_layout known[] = {
	{
		.version = 0x030a,
		.pairs = true,
		.thread_id = 176,
		.current_frame = 24,
		.frame_previous = 24,
		.frame_code = 32,
		.frame_instruction = 96,
		.frame_line = 100,
		.code_filename = 104,
		.code_name = 112,
		.code_line_table = 120,
		.code_first_line = 40,
		.object_type = 8,
		.object_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii_data = 48,
		.text_data = 72,
	},
	{
		.version = 0x030b,
		.thread_id = 152,
		.cframe = 56,
		.current_frame = 8,
		.frame_previous = 48,
		.frame_code = 32,
		.frame_instruction = 56,
		.frame_owner = 69,
		.owner_max = 2,
		.code_filename = 112,
		.code_name = 128,
		.code_line_table = 136,
		.code_first_line = 72,
		.code_instructions = 184,
		.object_type = 8,
		.object_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii_data = 48,
		.text_data = 72,
	},
	{
		.version = 0x030c,
		.thread_id = 136,
		.cframe = 56,
		.current_frame = 0,
		.frame_previous = 8,
		.frame_code = 0,
		.frame_instruction = 56,
		.frame_owner = 70,
		.owner_max = 2,
		.code_filename = 112,
		.code_name = 128,
		.code_line_table = 136,
		.code_first_line = 68,
		.code_instructions = 192,
		.object_type = 8,
		.object_size = 16,
		.bytes_data = 32,
		.text_length = 16,
		.text_state = 32,
		.text_ascii_data = 40,
		.text_data = 56,
	},
};

enum group { THREAD, FRAME, CODE, OBJECT, BYTES, TEXT, GROUP_COUNT };

/* Where the groups of the debug offsets begin, in 64-bit words; the order within those we use is
 * the same in both. */
static const struct debug_table {
	uint16_t version;
	bool tagged;
	uint8_t start[GROUP_COUNT];
} debug_tables[] = {
	{0x030d, false, {19, 28, 34, 44, 64, 67}},
	{0x030e, true, {22, 31, 39, 50, 74, 77}},
};

#define FIELD(group, word, field)                                                                  \
	{                                                                                          \
		group, word, offsetof(struct python_layout, field)                                 \
	}
static const struct debug_field {
	uint8_t group, word, field;
} debug_fields[] = {
	FIELD(THREAD, 4, current_frame),    FIELD(THREAD, 5, thread_id),
	FIELD(FRAME, 1, frame_previous),    FIELD(FRAME, 2, frame_code),
	FIELD(FRAME, 3, frame_instruction), FIELD(FRAME, 5, frame_owner),
	FIELD(CODE, 1, code_filename),      FIELD(CODE, 3, code_name), /* the qualified one */
	FIELD(CODE, 4, code_line_table),    FIELD(CODE, 5, code_first_line),
	FIELD(CODE, 9, code_instructions),  FIELD(OBJECT, 1, object_type),
	FIELD(BYTES, 1, object_size),       FIELD(BYTES, 2, bytes_data),
	FIELD(TEXT, 0, text_data), /* size of the full string object: corrected below */
	FIELD(TEXT, 1, text_state),         FIELD(TEXT, 2, text_length),
	FIELD(TEXT, 3, text_ascii_data),
};

int python_layout_from_table(const uint64_t table[PYTHON_DEBUG_WORDS], uint32_t version,
			     struct python_layout *ret_layout, const char **reterr_reason)
{
	const struct debug_table *order = NULL;
	struct python_layout layout;
	size_t i;

	for (i = 0; i < sizeof(debug_tables) / sizeof(*debug_tables); i++) {
		if (debug_tables[i].version == version >> 16)
			order = &debug_tables[i];
	}
	if (!order) {
		*reterr_reason = "version unknown";
		return -EPROTONOSUPPORT;
	}
	if (table[0] != COOKIE || table[1] >> 16 != order->version) {
		*reterr_reason = "no table of offsets";
		return -EPROTONOSUPPORT;
	}
	if (table[2]) {
		*reterr_reason = "free-threaded build";
		return -EPROTONOSUPPORT;
	}
	layout = (struct python_layout){
		.version = order->version,
		.tagged = order->tagged,
		.owner_max = 2,
	};
	for (i = 0; i < sizeof(debug_fields) / sizeof(*debug_fields); i++) {
		const struct debug_field *field = &debug_fields[i];
		uint64_t offset = table[order->start[field->group] + field->word];
		uint16_t value = (uint16_t)offset;

		/* These structures are small: anything else is not the table that we know. */
		if (offset > PYTHON_OFFSET_MAX) {
			*reterr_reason = "table of offsets out of range";
			return -EPROTONOSUPPORT;
		}
		memcpy((char *)&layout + field->field, &value, sizeof(value));
	}
	/*
	 * The full string object adds one pointer to the compact one, whose characters follow it.
	 */
	layout.text_data -= sizeof(void *);
	if (layout.text_ascii_data > layout.text_data ||
	    layout.text_data > PYTHON_OFFSET_MAX - sizeof(void *)) {
		*reterr_reason = "table of offsets out of range";
		return -EPROTONOSUPPORT;
	}
	*ret_layout = layout;
	return 0;
}

/*
 * The runtimes found. `searching` is taken by one thread at a time; another finds it taken and goes
 * by what is published. Entries are only added: count is stored with release after an entry is
 * complete, read with acquire in python_runtimes(). `seen` is the generation of the last search:
 * written by the searcher, read by all, a stale value only costs another search.
 */
static struct python_runtime runtimes[RUNTIMES_MAX];
static atomic_uint count;
static _Atomic uint64_t seen;
static atomic_flag searching = ATOMIC_FLAG_INIT;
/* Unloaded: its functions must not be called any more. Written by the searcher, read by all;
 * whoever unloads an interpreter while a thread runs in it has lost already, so no order is needed.
 * Loaded again it is a new entry. */
static atomic_bool gone[RUNTIMES_MAX];
/* Only ever set; no order needed, since nothing is read that it would announce. */
static atomic_bool proven[RUNTIMES_MAX];

void python_proven(const struct python_runtime *runtime)
{
	atomic_bool *flag = &proven[runtime - runtimes];

	if (!atomic_load_explicit(flag, memory_order_relaxed))
		atomic_store_explicit(flag, true, memory_order_relaxed);
}

bool python_gone(const struct python_runtime *runtime)
{
	return atomic_load_explicit(&gone[runtime - runtimes], memory_order_relaxed);
}

bool python_doubtful(const struct python_runtime *runtime)
{
	return !atomic_load_explicit(&proven[runtime - runtimes], memory_order_relaxed) ||
	       !runtime->finalizing || runtime->finalizing();
}

/* One search: which of the runtimes known are still there, and what is wrong with another
 * interpreter, to be told once the loader's list is let go of. */
struct search {
	uint32_t present; /* bit n: runtimes[n] */
	uint32_t version;
	const char *reason;
};

/* "3.10.13 (main, ..." as 0x030a0000 */
static uint32_t version_of_text(const char *text)
{
	unsigned int part[2] = {0, 0}, i;

	for (i = 0; i < 2; i++) {
		while (*text >= '0' && *text <= '9' && part[i] < 100)
			part[i] = part[i] * 10 + (unsigned int)(*text++ - '0');
		if (!i && *text++ != '.')
			return 0;
	}
	return part[0] << 24 | part[1] << 16;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	unsigned int number = atomic_load_explicit(&count, memory_order_relaxed), i;
	struct python_runtime *runtime = &runtimes[number];
	uint64_t state, finalizing, version_at, text_at, table[PYTHON_DEBUG_WORDS];
	const char *reason = "version unknown";
	uint32_t version = 0;
	struct reader reader;

	state = image_symbol(info, "PyGILState_GetThisThreadState");
	if (!state)
		return 0;
	for (i = 0; i < number; i++) {
		if ((uint64_t)(uintptr_t)runtimes[i].thread_state == state &&
		    !atomic_load_explicit(&gone[i], memory_order_relaxed)) {
			search->present |= 1U << i;
			return 0;
		}
	}
	if (number == RUNTIMES_MAX)
		return 0;
	version_at = image_symbol(info, "Py_Version");
	text_at = image_symbol(info, "Py_GetVersion");
	if (version_at) {
		memcpy(&version, (const void *)(uintptr_t)version_at, sizeof(version));
	} else if (text_at) { /* up to 3.10: only as text */
		version = version_of_text(((const char *(*)(void))(uintptr_t)text_at)());
	}
	if (!version)
		return 0; /* something else with a function of that name */
	finalizing = image_symbol(info, "Py_IsFinalizing"); /* 3.13 */
	if (!finalizing)
		finalizing = image_symbol(info, "_Py_IsFinalizing");
	*runtime = (struct python_runtime){
		.thread_state = (void *(*)(void))(uintptr_t)state,
		.finalizing = (int (*)(void))(uintptr_t)finalizing,
		.code_type = image_symbol(info, "PyCode_Type"),
		.text_type = image_symbol(info, "PyUnicode_Type"),
		.bytes_type = image_symbol(info, "PyBytes_Type"),
	};
	runtime->loop = image_symbol_size(info, "_PyEval_EvalFrameDefault", &runtime->loop_size);
	if (!runtime->code_type || !runtime->text_type || !runtime->bytes_type) {
		search->version = version;
		search->reason = "types not exported";
		return 0;
	}
	for (i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (known[i].version == version >> 16)
			runtime->layout = known[i];
	}
	if (!runtime->layout.version) {
		reader_start(&reader, true);
		if (reader_copy(&reader, table, image_symbol(info, "_PyRuntime"), sizeof(table)))
			memset(table, 0, sizeof(table));
		if (python_layout_from_table(table, version, &runtime->layout, &reason)) {
			search->version = version;
			search->reason = reason;
			return 0;
		}
	}
	search->present |= 1U << number;
	/* Paired with the acquire in python_runtimes(): the entry before the count. */
	atomic_store_explicit(&count, number + 1, memory_order_release);
	return 0;
}

unsigned int python_runtimes(uint64_t generation, const struct python_runtime **ret_runtimes)
{
	struct search search = {0, 0, NULL};
	unsigned int i;
	char text[96];

	if (atomic_load_explicit(&seen, memory_order_relaxed) != generation &&
	    !atomic_flag_test_and_set_explicit(&searching, memory_order_acquire)) {
		dl_iterate_phdr(look, &search);
		for (i = 0; i < atomic_load_explicit(&count, memory_order_relaxed); i++) {
			if (!(search.present >> i & 1))
				atomic_store_explicit(&gone[i], true, memory_order_relaxed);
		}

		atomic_store_explicit(&seen, generation, memory_order_relaxed);
		atomic_flag_clear_explicit(&searching, memory_order_release);
	}
	if (search.reason) {
		snprintf(text, sizeof(text), "CPython %u.%u: %s", search.version >> 24,
			 search.version >> 16 & 255, search.reason);
		emit_note(NOTE_PYTHON, text);
	}
	return python_runtimes_known(ret_runtimes);
}

unsigned int python_runtimes_known(const struct python_runtime **ret_runtimes)
{
	*ret_runtimes = runtimes;
	/* Paired with the release in look(). */
	return atomic_load_explicit(&count, memory_order_acquire);
}
