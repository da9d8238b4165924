// SPDX-License-Identifier: MIT
/*
 * Check, addresses of device memory that the program uploads (access.h): a table of pointers, or a structure with some, by which kernels reach blocks that
 * they are not given as parameters. Called by the engine with no lock held.
 *
 * Of an upload the first bytes are looked at. They are read without a fault: the pages may be guarded, and then they count as such a table.
 */
#include "check/access.h"

#include <string.h>

#include "check/memory_kinds.h"
#include "state/state.h"
#include "sync/reader.h"

/* Tables are mostly longer than that, and begin with an address. */
#define LOOKED_AT 1024
/* Addresses of user memory: what is outside is a number, and costs no look-up. */
#define LEAST_ADDRESS (UINT64_C(1) << 20)
#define MOST_ADDRESS  (UINT64_C(1) << 47)

static bool uploaded; /* atomic */

static bool is_device_word(uint64_t word)
{
	struct state_range range;

	return word >= LEAST_ADDRESS && word < MOST_ADDRESS && state_range_of(word, &range) &&
	       check_is_device(range.kind);
}

static bool has_address(uint64_t from, uint64_t bytes)
{
	uint64_t words[LOOKED_AT / sizeof(uint64_t)];
	size_t size = bytes < LOOKED_AT ? bytes : LOOKED_AT, i;
	struct reader reader;

	reader_start(&reader, true);
	if (reader_copy(&reader, words, from, size))
		return true;
	for (i = 0; i < size / sizeof(uint64_t); i++)
		if (is_device_word(words[i]))
			return true;
	return false;
}

void pointers_look(const struct call *call)
{
	if (call->operation == OPERATION_COPY && call->source && check_is_host(call->source_kind) &&
	    !check_is_host(call->destination_kind) && call->bytes >= sizeof(uint64_t) &&
	    !pointers_are_uploaded() && has_address(call->source, call->bytes))
		__atomic_store_n(&uploaded, true, __ATOMIC_RELAXED);
}

bool pointers_are_uploaded(void)
{
	return __atomic_load_n(&uploaded, __ATOMIC_RELAXED);
}

void pointers_forget(void)
{
	__atomic_store_n(&uploaded, false, __ATOMIC_RELAXED);
}
