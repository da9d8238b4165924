// SPDX-License-Identifier: MIT
/*
 * Where the fields of CPython's structures lie, by version; and where in this process an
 * interpreter is.
 */
#ifndef SLIPSTREAM_SYNC_PYTHON_LAYOUT_H
#define SLIPSTREAM_SYNC_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Offsets in bytes. 0 in a field marked "or 0": that version has no such field. */
struct python_layout {
	uint16_t version; /* 0x030b for 3.11 */
	bool pairs;       /* line table of 3.10; and the instruction is an index, not an address */
	bool tagged;      /* the code reference carries a tag in its low bits */

	uint16_t thread_id;     /* of the thread state: pthread_self() of its thread */
	uint16_t cframe;        /* of the thread state, or 0: current_frame lies in it */
	uint16_t current_frame; /* of the cframe or, without one, the thread state */

	uint16_t frame_previous, frame_code;
	/* The current instruction; 3.11 and 3.12: the one before the next. */
	uint16_t frame_instruction;
	uint16_t frame_owner; /* or 0 */
	uint16_t frame_line;  /* or 0: line that a trace function set */
	uint8_t owner_max;    /* owners above are entries of the C stack, no Python code */

	uint16_t code_filename, code_name, code_line_table, code_first_line;
	uint16_t code_instructions; /* or 0 */

	uint16_t object_type, object_size, bytes_data;
	uint16_t text_length, text_state, text_ascii_data, text_data;
};

/* One interpreter library in this process. Written under the search, read-only once published. */
struct python_runtime {
	void *(*thread_state)(void); /* of the calling thread, GIL or not */
	int (*finalizing)(void);     /* or NULL */
	uint64_t code_type, text_type, bytes_type;
	uint64_t loop, loop_size; /* the function that runs bytecode; 0 not known */
	struct python_layout layout;
};

/* A whole walk went right: the layout is this interpreter's. */
void python_proven(const struct python_runtime *runtime);

/* It was unloaded. */
bool python_gone(const struct python_runtime *runtime);

/* Its memory may not be what we take it for: no walk has gone right yet, or it is being taken down,
 * when one thread frees the frames of others. */
bool python_doubtful(const struct python_runtime *runtime);

/* An image was loaded or unloaded since: look for interpreters again. `generation` is
 * module_generation(). Returns how many there are. */
unsigned int python_runtimes(uint64_t generation, const struct python_runtime **ret_runtimes);

/* Those found so far, without a search. */
unsigned int python_runtimes_known(const struct python_runtime **ret_runtimes);

/* The layout from a copy of `_PyRuntime`'s first bytes (3.13 and later); -errno, with the reason in
 * words. Pure. */
#define PYTHON_DEBUG_WORDS 96
#define PYTHON_OFFSET_MAX  248 /* largest offset that is believed */
int python_layout_from_table(const uint64_t table[PYTHON_DEBUG_WORDS], uint32_t version,
			     struct python_layout *ret_layout, const char **reterr_reason);

#endif
