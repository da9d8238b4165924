// SPDX-License-Identifier: MIT
/* Symbol tables: many places of one file looked up in one walk through its symbols. */
#ifndef SLIPSTREAM_TOOLS_SYMBOL_TABLE_H
#define SLIPSTREAM_TOOLS_SYMBOL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <elfutils/libdwfl.h>

struct symbol_place {
	uint64_t address; /* asked */
	const char *name; /* as in the table, whose it is; NULL: no symbol */
	uint64_t offset;  /* of the address from the symbol's start */
};

/* The first at or behind `address`, or `count`; they are sorted by address. */
size_t symbol_place_index(struct symbol_place *const *places, size_t count, uint64_t address);

/* Fills name and offset of every place; they are sorted by address. -ENOMEM or 0. */
int symbol_table_find(Dwfl_Module *module, struct symbol_place *const *places, size_t count);

#endif
