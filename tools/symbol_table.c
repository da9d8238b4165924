// SPDX-License-Identifier: MIT
/*
 * Symbol tables (symbol_table.h). Called by the symbolizer; libdwfl finds the tables (the file's
 * own, the one of its debug file, the dynamic one).
 *
 * Why not dwfl_module_addrinfo(): it walks through all symbols for every question, and machine
 * learning libraries have up to a million of them. Here all questions go along on one walk: a
 * symbol is looked up among the places, not a place among the symbols, so that nothing has to be
 * sorted or kept that is as large as the table. Names are read of what was found only: they are the
 * largest part of the table, and on a disk.
 */
#include "symbol_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sum.h"

/* A label of assembly code has no size; further off it is only the nearest symbol before, which in
 * a stripped file means nothing. */
#define LABEL_REACH 4096

struct candidate {
	int index; /* in the table; 0 none: the first entry of a table is none */
	uint64_t start, size;
	unsigned int rank;
};

/* What is known of one place while walking. `label` and `covered_to` are of the symbols that start
 * after the place before this one; they hold for all places behind, too. */
struct search {
	struct candidate symbol; /* the best with a size around the place */
	struct candidate label;  /* the nearest without a size */
	uint64_t covered_to;     /* the furthest end */
};

static unsigned int binding_rank(const GElf_Sym *symbol)
{
	switch (GELF_ST_BIND(symbol->st_info)) {
	case STB_GLOBAL:
		return 3;
	case STB_WEAK:
		return 2;
	case STB_LOCAL:
		return 1;
	default:
		return 0;
	}
}

static bool is_place_of_code(const GElf_Sym *symbol, GElf_Word section)
{
	unsigned int type = GELF_ST_TYPE(symbol->st_info);

	return symbol->st_name && section != SHN_UNDEF && type != STT_SECTION && type != STT_FILE &&
	       type != STT_TLS;
}

/* Of symbols around one place the one that starts last, then the name that is meant for others,
 * then the smallest, then the first. */
static bool is_better(const struct candidate *candidate, const struct candidate *than)
{
	if (!than->index || candidate->start != than->start)
		return !than->index || candidate->start > than->start;
	if (candidate->rank != than->rank)
		return candidate->rank > than->rank;
	return candidate->size < than->size;
}

size_t symbol_place_index(struct symbol_place *const *places, size_t count, uint64_t address)
{
	size_t from = 0;

	while (count) {
		size_t half = count / 2;

		if (places[from + half]->address < address) {
			from += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return from;
}

static void offer(struct symbol_place *const *places, size_t count, struct search *searches,
		  const struct candidate *candidate)
{
	size_t i = symbol_place_index(places, count, candidate->start);
	uint64_t end = candidate->start;

	if (i == count)
		return;
	sum_add(&end, candidate->size);
	if (end > searches[i].covered_to)
		searches[i].covered_to = end;
	if (!candidate->size && is_better(candidate, &searches[i].label))
		searches[i].label = *candidate;
	for (; i < count && places[i]->address < end; i++)
		if (is_better(candidate, &searches[i].symbol))
			searches[i].symbol = *candidate;
}

static bool is_in_section(Elf *elf, GElf_Word section, uint64_t address)
{
	GElf_Shdr header;

	return section < SHN_LORESERVE && gelf_getshdr(elf_getscn(elf, section), &header) &&
	       address >= header.sh_addr && address - header.sh_addr < header.sh_size;
}

static void answer(Dwfl_Module *module, const struct candidate *candidate,
		   struct symbol_place *place)
{
	GElf_Sym symbol;
	GElf_Addr start, bias;
	GElf_Word section;
	Elf *elf;
	const char *name;

	if (!candidate->index)
		return;
	name = dwfl_module_getsym_info(module, candidate->index, &symbol, &start, &section, &elf,
				       &bias);
	if (!name || (!candidate->size && !is_in_section(elf, section, place->address - bias)))
		return;
	place->name = name;
	place->offset = place->address - candidate->start;
}

int symbol_table_find(Dwfl_Module *module, struct symbol_place *const *places, size_t count)
{
	struct candidate candidate = {0}, label = {0};
	struct search *searches;
	uint64_t covered_to = 0;
	size_t i;
	int symbols;

	searches = calloc(count ? count : 1, sizeof(*searches));
	if (!searches)
		return -ENOMEM;
	symbols = dwfl_module_getsymtab(module);
	for (candidate.index = 1; candidate.index < symbols; candidate.index++) {
		GElf_Sym symbol;
		GElf_Word section;

		if (!dwfl_module_getsym_info(module, candidate.index, &symbol, &candidate.start,
					     &section, NULL, NULL) ||
		    !is_place_of_code(&symbol, section))
			continue;
		candidate.size = symbol.st_size;
		candidate.rank = binding_rank(&symbol);
		offer(places, count, searches, &candidate);
	}
	for (i = 0; i < count; i++) {
		const struct search *search = &searches[i];

		if (search->covered_to > covered_to)
			covered_to = search->covered_to;
		if (search->label.index)
			label = search->label;
		places[i]->name = NULL;
		places[i]->offset = 0;
		if (search->symbol.index)
			answer(module, &search->symbol, places[i]);
		else if (label.start >= covered_to &&
			 places[i]->address - label.start <= LABEL_REACH)
			answer(module, &label, places[i]);
	}
	free(searches);
	return 0;
}
