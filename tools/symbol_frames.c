// SPDX-License-Identifier: MIT
/*
 * Symbol frames (symbol_frames.h). Called by the symbolizer. Debug information wins: it knows lines
 * and what was inlined; a symbol alone still gives the function.
 */
#include "symbol_frames.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define INLINED_MAX 64
#define DEPTH_MAX   256 /* of blocks, namespaces and functions in each other */

static char *readable_name(demangle_function *demangle, const char *name)
{
	char *demangled = NULL;
	int status;

	if (!name || !*name)
		return NULL;
	if (demangle && name[0] == '_' && name[1] == 'Z')
		demangled = demangle(name, NULL, NULL, &status);
	return demangled ? demangled : strdup(name);
}

/*
 * The path as a reader wants it: compilers note the one they were given, often relative to the
 * build folder. "/./" and "/folder/.." are taken out by name alone, since the tree may not be on
 * this machine.
 */
static char *tidy_path(const char *folder, const char *path)
{
	char *whole, *to;
	const char *from;

	if (!path || !*path)
		return NULL;
	if (*path == '/' || !folder || *folder != '/')
		whole = strdup(path);
	else if (asprintf(&whole, "%s/%s", folder, path) < 0)
		whole = NULL;
	if (!whole || *whole != '/')
		return whole;
	for (from = whole, to = whole; *from;) {
		const char *end = strchrnul(from + 1, '/');
		size_t length = (size_t)(end - from); /* with the slash before it */

		if (length == 3 && !memcmp(from, "/..", 3)) {
			while (to > whole && *--to != '/')
				;
		} else if (length > 1 && !(length == 2 && from[1] == '.')) {
			memmove(to, from, length);
			to += length;
		}
		from = end;
	}
	*to = '\0';
	return whole;
}

/* A line of the source: file as the compiler noted it, and the folder it ran in. */
struct place {
	const char *folder, *file;
	uint32_t line;
};

static struct symbol_frame *add(struct symbol_frames *frames, char *function,
				const struct place *place)
{
	struct symbol_frame *frame;

	frame = reallocarray(frames->frames, frames->count + 1, sizeof(*frame));
	if (!frame) {
		free(function);
		return NULL;
	}
	frames->frames = frame;
	frame += frames->count++;
	*frame = (struct symbol_frame){
		.function = function,
		.file = tidy_path(place->folder, place->file),
		.line = place->line,
		.function_offset = UINT64_MAX,
	};
	return frame;
}

static const char *die_name(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;

	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
	    dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
		name = dwarf_formstring(&attribute);
	return name ? name : dwarf_diename(die);
}

/* Where an inlined function was called. */
static void call_place(struct symbol_unit *unit, Dwarf_Die *inlined, struct place *place)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;
	Dwarf_Files *files;
	size_t count;

	place->file = NULL;
	place->line = 0;
	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &value))
		place->line = (uint32_t)value;
	if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &value) &&
	    !dwarf_getsrcfiles(&unit->scopes, &files, &count) && value < count)
		place->file = dwarf_filesrc(files, value, NULL, NULL);
}

static void line_place(struct symbol_unit *unit, uint64_t address, struct place *place)
{
	Dwarf_Attribute attribute;
	Dwarf_Line *line;
	int number = 0;

	line = dwarf_getsrc_die(&unit->lines, address - unit->bias);
	if (!line)
		return;
	place->file = dwarf_linesrc(line, NULL, NULL);
	place->folder = dwarf_formstring(dwarf_attr(&unit->lines, DW_AT_comp_dir, &attribute));
	if (!dwarf_lineno(line, &number) && number > 0)
		place->line = (uint32_t)number;
}

/* Functions around one address, outermost first: one with code of its own, and what was inlined. */
struct chain {
	uint64_t address;
	Dwarf_Die entries[INLINED_MAX];
	int count;
};

/*
 * The innermost entry within `parent` last. Not dwarf_getscopes(): that looks for what was inlined
 * in the unit where it was inlined, and gives up where link-time optimization has it in another.
 */
static bool find_functions(Dwarf_Die *parent, struct chain *chain, int depth)
{
	Dwarf_Die entry;
	int more;

	if (depth == DEPTH_MAX)
		return false;
	for (more = dwarf_child(parent, &entry); !more; more = dwarf_siblingof(&entry, &entry)) {
		switch (dwarf_tag(&entry)) {
		case DW_TAG_subprogram:
		case DW_TAG_inlined_subroutine:
			if (chain->count == INLINED_MAX || dwarf_haspc(&entry, chain->address) <= 0)
				break;
			chain->entries[chain->count++] = entry;
			find_functions(&entry, chain, depth + 1);
			return true;
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			/* Some give no range of their own. */
			if (dwarf_haspc(&entry, chain->address) == 0 &&
			    (dwarf_hasattr(&entry, DW_AT_ranges) ||
			     dwarf_hasattr(&entry, DW_AT_low_pc)))
				break;
			if (find_functions(&entry, chain, depth + 1))
				return true;
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_class_type:
		case DW_TAG_structure_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type: /* rustc puts functions there */
			if (find_functions(&entry, chain, depth + 1))
				return true;
			break;
		default:
			break;
		}
	}
	return false;
}

/* Frames from debug information; none where it has no function here. */
static void add_debug_frames(demangle_function *demangle, struct symbol_unit *unit,
			     uint64_t address, struct place place, struct symbol_frames *frames)
{
	struct chain chain = {.address = address - unit->bias};

	find_functions(&unit->scopes, &chain, 0);
	while (chain.count-- > 0) {
		Dwarf_Die *entry = &chain.entries[chain.count];

		if (!add(frames, readable_name(demangle, die_name(entry)), &place) ||
		    dwarf_tag(entry) == DW_TAG_subprogram)
			break;
		call_place(unit, entry, &place);
	}
}

int symbol_frames_find(Dwfl_Module *module, struct symbol_units *units,
		       const struct symbol_place *symbol, demangle_function *demangle,
		       struct symbol_frames *ret_frames)
{
	struct symbol_frames frames = {NULL, 0};
	struct place place = {NULL, NULL, 0};
	struct symbol_unit unit;

	if (!symbol_units_find(units, module, symbol->address, &unit)) {
		line_place(&unit, symbol->address, &place);
		add_debug_frames(demangle, &unit, symbol->address, place, &frames);
	}
	if (!frames.count && (symbol->name || place.file))
		add(&frames, readable_name(demangle, symbol->name), &place);
	if (!frames.count)
		return -ENODATA;
	if (symbol->name)
		frames.frames[frames.count - 1].function_offset = symbol->offset;
	*ret_frames = frames;
	return 0;
}

void symbol_frames_done(struct symbol_frames *frames)
{
	size_t i;

	for (i = 0; i < frames->count; i++) {
		free(frames->frames[i].function);
		free(frames->frames[i].file);
	}
	free(frames->frames);
	*frames = (struct symbol_frames){NULL, 0};
}
