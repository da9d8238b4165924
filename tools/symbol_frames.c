// SPDX-License-Identifier: MIT
/*
 * Symbol frames (symbol_frames.h). Called by the symbolizer. Debug information wins: it knows lines
 * and what was inlined; a symbol alone still gives the function.
 */
#include "symbol_frames.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INLINED_MAX 64

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
static void call_place(Dwarf_Die *unit, Dwarf_Die *inlined, struct place *place)
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
	    !dwarf_getsrcfiles(unit, &files, &count) && value < count)
		place->file = dwarf_filesrc(files, value, NULL, NULL);
}

/* Frames from debug information; none where it has no function here. */
static void add_debug_frames(demangle_function *demangle, Dwfl_Module *module, uint64_t address,
			     struct place place, struct symbol_frames *frames)
{
	Dwarf_Die *unit, *scopes = NULL, innermost;
	Dwarf_Addr bias;
	int count, i;

	unit = dwfl_module_addrdie(module, address, &bias);
	if (!unit)
		return;
	count = dwarf_getscopes(unit, address - bias, &scopes);
	if (count <= 0)
		return;
	/* Beyond an inlined function these scopes go on where it was written; asked again by entry
	 * they go on where it was inlined. */
	innermost = scopes[0];
	free(scopes);
	scopes = NULL;
	count = dwarf_getscopes_die(&innermost, &scopes);
	for (i = 0; i < count && frames->count < INLINED_MAX; i++) {
		int tag = dwarf_tag(&scopes[i]);

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		if (!add(frames, readable_name(demangle, die_name(&scopes[i])), &place) ||
		    tag == DW_TAG_subprogram)
			break;
		call_place(unit, &scopes[i], &place);
	}
	free(scopes);
}

int symbol_frames_find(Dwfl_Module *module, const struct symbol_place *symbol,
		       demangle_function *demangle, struct symbol_frames *ret_frames)
{
	struct symbol_frames frames = {NULL, 0};
	struct place place = {NULL, NULL, 0};
	Dwfl_Line *line;
	int number = 0;

	line = dwfl_module_getsrc(module, symbol->address);
	if (line) {
		place.file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
		place.folder = dwfl_line_comp_dir(line);
		place.line = number > 0 ? (uint32_t)number : 0;
	}
	add_debug_frames(demangle, module, symbol->address, place, &frames);
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
