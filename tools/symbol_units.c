// SPDX-License-Identifier: MIT
/*
 * Symbol units (symbol_units.h). Called by symbol_frames.c.
 *
 * libdwfl goes by .debug_aranges, which is quick but not always there: clang and rustc do not write
 * it, and among objects of several compilers it covers a part. What it does not know is looked up
 * in an index of all units' own address ranges, made once for a module and only then. It reads one
 * entry of each unit, whatever else is in there.
 */
#include "symbol_units.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>

/* What an index may take: 128 MiB. Units beyond are not found. */
#define RANGES_MAX (4 << 20)

static bool add(struct symbol_units *units, uint64_t low, uint64_t high, Dwarf_CU *unit)
{
	/* Address 0: of a function that the linker left out. */
	if (!low || low >= high)
		return true;
	if (units->count == RANGES_MAX)
		return false;
	if (units->count == units->capacity) {
		size_t capacity = units->capacity ? 2 * units->capacity : 1024;
		struct symbol_range *ranges;

		ranges = reallocarray(units->ranges, capacity, sizeof(*ranges));
		if (!ranges)
			return false;
		units->ranges = ranges;
		units->capacity = capacity;
	}
	units->ranges[units->count++] = (struct symbol_range){low, high, high, unit};
	return true;
}

static int by_low(const void *left, const void *right)
{
	const struct symbol_range *a = left, *b = right;

	return (a->low > b->low) - (a->low < b->low);
}

/* As far as it can be read. */
static void fill(struct symbol_units *units, Dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Addr base, low, high;
	Dwarf_Die entry;
	ptrdiff_t offset;
	bool room = true;
	size_t i;

	/* Not asked for split units: that opens the file of each. */
	while (room && !dwarf_get_units(dwarf, unit, &unit, NULL, NULL, &entry, NULL)) {
		for (offset = 0; room;) {
			offset = dwarf_ranges(&entry, offset, &base, &low, &high);
			if (offset <= 0)
				break;
			room = add(units, low, high, unit);
		}
	}
	if (units->count)
		qsort(units->ranges, units->count, sizeof(*units->ranges), by_low);
	for (i = 1; i < units->count; i++)
		if (units->ranges[i].reach < units->ranges[i - 1].reach)
			units->ranges[i].reach = units->ranges[i - 1].reach;
}

/* Of units around one address the one that starts last. */
static Dwarf_CU *find(const struct symbol_units *units, uint64_t address)
{
	size_t low = 0, high = units->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (units->ranges[middle].low <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low && units->ranges[low - 1].reach > address; low--)
		if (units->ranges[low - 1].high > address)
			return units->ranges[low - 1].unit;
	return NULL;
}

int symbol_units_find(struct symbol_units *units, Dwfl_Module *module, uint64_t address,
		      struct symbol_unit *ret_unit)
{
	Dwarf_Die *known, split;
	Dwarf_CU *unit;
	Dwarf *dwarf;

	known = dwfl_module_addrdie(module, address, &ret_unit->bias);
	if (known) {
		unit = known->cu;
	} else {
		dwarf = dwfl_module_getdwarf(module, &ret_unit->bias);
		if (!dwarf)
			return -ENODATA;
		if (!units->filled)
			fill(units, dwarf);
		units->filled = true;
		unit = find(units, address - ret_unit->bias);
		if (!unit)
			return -ENODATA;
	}
	if (dwarf_cu_info(unit, NULL, NULL, &ret_unit->lines, &split, NULL, NULL, NULL))
		return -ENODATA;
	/* Split, but the other file is not there: no functions, yet lines. */
	ret_unit->scopes = dwarf_tag(&split) == DW_TAG_invalid ? ret_unit->lines : split;
	return 0;
}

void symbol_units_done(struct symbol_units *units)
{
	free(units->ranges);
	*units = (struct symbol_units){.filled = false};
}
