// SPDX-License-Identifier: MIT
/*
 * Symbolizer (symbolize.h) on elfutils' libdwfl. Called by the report.
 *
 * Each file is one Dwfl of its own, reported at address 0, so that addresses are those of the file;
 * kept until the end. C++ names are demangled by the C++ run-time library, where there is one to
 * load: the tool itself does not need it. Paths and ids come out of record files, that is from
 * anywhere: only regular files are opened.
 */
#include "symbolize.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INLINED_MAX 64

struct file {
	char *path;
	uint8_t build_id[64];
	size_t build_id_length;
	int error; /* why there is no module, 0 */
	Dwfl *dwfl;
	Dwfl_Module *module;
};

struct symbolizer {
	struct file *files;
	size_t count, capacity;
	char *(*demangle)(const char *name, char *buffer, size_t *length, int *status);
	void *library; /* of demangle */
};

/* Never asked: every module is reported with its file. */
static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
		    char **path, Elf **elf)
{
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = dwfl_standard_find_debuginfo,
	.section_address = dwfl_offline_section_address,
};

struct symbolizer *symbolizer_new(void)
{
	struct symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

	if (!symbolizer)
		return NULL;
	/* libdwfl asks these servers by itself when a file has no debug information: a report must
	 * not wait for a network, nor tell it. */
	unsetenv("DEBUGINFOD_URLS");
	symbolizer->library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (symbolizer->library)
		*(void **)&symbolizer->demangle = dlsym(symbolizer->library, "__cxa_demangle");
	return symbolizer;
}

struct symbolizer *symbolizer_free(struct symbolizer *symbolizer)
{
	size_t i;

	if (!symbolizer)
		return NULL;
	for (i = 0; i < symbolizer->count; i++) {
		if (symbolizer->files[i].dwfl)
			dwfl_end(symbolizer->files[i].dwfl);
		free(symbolizer->files[i].path);
	}
	free(symbolizer->files);
	if (symbolizer->library)
		dlclose(symbolizer->library);
	free(symbolizer);
	return NULL;
}

static int open_regular(const char *path)
{
	struct stat status;
	int fd, error;

	/* Not waiting for the writer of a pipe. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		error = -errno;
	else
		error = S_ISREG(status.st_mode) ? 0 : -ENOEXEC;
	if (error) {
		close(fd);
		return error;
	}
	return fd;
}

/* Fills file->module, or says why not. */
static int file_open(struct file *file)
{
	const unsigned char *bits;
	GElf_Addr address, bias;
	int length, fd;

	/* What has no path (the vdso, generated code) has no file. */
	if (*file->path != '/')
		return -ENOENT;
	fd = open_regular(file->path);
	if (fd < 0)
		return fd;
	file->dwfl = dwfl_begin(&callbacks);
	if (!file->dwfl) {
		close(fd);
		return -ENOMEM;
	}
	dwfl_report_begin(file->dwfl);
	/* Takes the descriptor, if it succeeds. */
	file->module = dwfl_report_elf(file->dwfl, file->path, file->path, fd, 0, true);
	if (!file->module)
		close(fd);
	dwfl_report_end(file->dwfl, NULL, NULL);
	if (!file->module || !dwfl_module_getelf(file->module, &bias))
		return -ENOEXEC;
	length = dwfl_module_build_id(file->module, &bits, &address);
	if (length < 0)
		length = 0;
	/* The shim keeps 64 bytes of an id; ids are shorter. */
	if ((size_t)length != file->build_id_length ||
	    (length && memcmp(bits, file->build_id, (size_t)length)))
		return -ESTALE;
	return 0;
}

static struct file *file_get(struct symbolizer *symbolizer, const char *path,
			     const uint8_t *build_id, size_t length)
{
	struct file *file;
	size_t i;

	for (i = 0; i < symbolizer->count; i++) {
		file = &symbolizer->files[i];
		if (file->build_id_length == length &&
		    (!length || !memcmp(file->build_id, build_id, length)) &&
		    !strcmp(file->path, path))
			return file;
	}
	if (symbolizer->count == symbolizer->capacity) {
		size_t capacity = symbolizer->capacity ? 2 * symbolizer->capacity : 16;

		file = reallocarray(symbolizer->files, capacity, sizeof(*file));
		if (!file)
			return NULL;
		symbolizer->files = file;
		symbolizer->capacity = capacity;
	}
	file = &symbolizer->files[symbolizer->count];
	*file = (struct file){.path = strdup(path), .build_id_length = length};
	if (!file->path)
		return NULL;
	if (length)
		memcpy(file->build_id, build_id, length);
	symbolizer->count++;
	file->error = file_open(file);
	return file;
}

static char *readable_name(struct symbolizer *symbolizer, const char *name)
{
	char *demangled = NULL;
	int status;

	if (!name || !*name)
		return NULL;
	if (symbolizer->demangle && name[0] == '_' && name[1] == 'Z')
		demangled = symbolizer->demangle(name, NULL, NULL, &status);
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
static void add_debug_frames(struct symbolizer *symbolizer, Dwfl_Module *module, uint64_t address,
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
		if (!add(frames, readable_name(symbolizer, die_name(&scopes[i])), &place) ||
		    tag == DW_TAG_subprogram)
			break;
		call_place(unit, &scopes[i], &place);
	}
	free(scopes);
}

int symbolizer_frame(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		     size_t build_id_length, uint64_t address, struct symbol_frames *ret_frames)
{
	struct symbol_frames frames = {NULL, 0};
	struct place place = {NULL, NULL, 0};
	const char *symbol;
	struct symbol_frame *last;
	struct file *file;
	Dwfl_Line *line;
	GElf_Off offset = 0;
	GElf_Sym entry;
	int number = 0;

	if (build_id_length > sizeof(file->build_id))
		return -EINVAL;
	file = file_get(symbolizer, path, build_id, build_id_length);
	if (!file)
		return -ENOMEM;
	if (file->error)
		return file->error;
	line = dwfl_module_getsrc(file->module, address);
	if (line) {
		place.file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
		place.folder = dwfl_line_comp_dir(line);
		place.line = number > 0 ? (uint32_t)number : 0;
	}
	add_debug_frames(symbolizer, file->module, address, place, &frames);
	symbol = dwfl_module_addrinfo(file->module, address, &offset, &entry, NULL, NULL, NULL);
	/* Without a size it is only the nearest symbol before: good for assembly, wrong in a
	 * stripped file a megabyte on. */
	if (symbol && !entry.st_size && offset > 4096)
		symbol = NULL;
	if (!frames.count && (symbol || place.file))
		add(&frames, readable_name(symbolizer, symbol), &place);
	if (!frames.count)
		return -ENODATA;
	last = &frames.frames[frames.count - 1];
	if (symbol)
		last->function_offset = offset;
	*ret_frames = frames;
	return 0;
}

const char *symbolizer_error(int error)
{
	switch (error) {
	case -ESTALE:
		return "the file is not the one that ran (build id differs)";
	case -ENODATA:
		return "no symbol there";
	case -ENOEXEC:
		return "no ELF file";
	default:
		return strerror(-error);
	}
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
