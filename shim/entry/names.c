// SPDX-License-Identifier: MIT
/*
 * Names: which exported driver function is meant, and what the program gets for it.
 *
 * Owns the generated hash table of exact names (a prefix would also catch cudnn and cublas). Called
 * by the dlsym hook for every look-up of the process, so the common answer, "not ours", takes a few
 * instructions and touches nothing but read-only data.
 */
#include "entry/names.h"
#include <dlfcn.h>
#include <link.h>

#include "driver/find.h"
#include "entry/entry.h"
#include "entry/thunk.h"

#include "entry/name_slots.h" /* generated: NAME_SLOTS, name_slots[] (function number + 1, 0 free) */

uint64_t *entry_thunk_counters;

/* FNV-1a, 32 bits; wrappers.py computes the same. */
LIBC_EARLY static uint32_t hash_name(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash;
}

LIBC_EARLY int entry_function(const char *name)
{
	if (!name || name[0] != 'c' || name[1] != 'u')
		return -1;
	for (uint32_t slot = hash_name(name) % NAME_SLOTS; name_slots[slot];
	     slot = (slot + 1) % NAME_SLOTS)
		if (entry_same_name(function_names[name_slots[slot] - 1], name))
			return name_slots[slot] - 1;
	return -1;
}

LIBC_EARLY bool entry_looks_like_driver_name(const char *name)
{
	return name && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

/* A thunk must not stand in for data: nobody has declared what these names are. */
static bool is_data(const void *address)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	return dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	       ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT;
}

void *entry_substitute(void *address, const char *name)
{
	int function = driver_function_at(address);

	if (function < 0) {
		/*
		 * The driver's, but none of the exports we know: newer than this build, or private.
		 */
		if (driver_contains(address)) {
			emit_note(NOTE_UNWRAPPED_HANDED_OUT, name);
			state_unseen();
			legacy_retreat();
		}
		return address;
	}
	if (function >= FUNCTION_WRAPPED_COUNT && is_data(address))
		return address;
	emit_function_handed_out((uint32_t)function);
	if (function >= FUNCTION_WRAPPED_COUNT)
		emit_note(NOTE_UNWRAPPED_HANDED_OUT, function_names[function]);
	return entry_wrappers[function];
}
