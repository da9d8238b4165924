// SPDX-License-Identifier: MIT
/* Symbol units: which compilation unit of a file an address belongs to. */
#ifndef SLIPSTREAM_TOOLS_SYMBOL_UNITS_H
#define SLIPSTREAM_TOOLS_SYMBOL_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdwfl.h>

/* Addresses of one unit, in the debug information's own numbering. */
struct symbol_range {
	uint64_t low, high; /* behind the last */
	uint64_t reach;     /* the furthest `high` of this one and all before */
	Dwarf_CU *unit;
};

/* Of one module. Zero is empty; filled by the first question that needs it. */
struct symbol_units {
	bool filled;
	struct symbol_range *ranges; /* sorted by `low` */
	size_t count, capacity;
};

/* A unit's entries. */
struct symbol_unit {
	Dwarf_Die lines;  /* where its lines and its folder are */
	Dwarf_Die scopes; /* where its functions are: another with split debug information */
	Dwarf_Addr bias;  /* to take off an address of the module */
};

/* The unit of an address of the module. -ENODATA: none. */
int symbol_units_find(struct symbol_units *units, Dwfl_Module *module, uint64_t address,
		      struct symbol_unit *ret_unit);
void symbol_units_done(struct symbol_units *units);

#endif
