// SPDX-License-Identifier: MIT
/*
 * Symbolizer (symbolize.h) on elfutils' libdwfl. Called by the report.
 *
 * Each file is one Dwfl of its own, reported at address 0, so that addresses are those of the file;
 * kept until the end. So are answers: call sites of one program share most of their frames. C++
 * names are demangled by the C++ run-time library, where there is one to load: the tool itself does
 * not need it. Paths and ids come out of record files, that is from anywhere: only regular files
 * are opened.
 */
#include "symbolize.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbol_frames.h"
#include "symbol_table.h"

struct question {
	struct symbol_place place; /* first: question_of() */
	struct symbol_frames frames;
	int error;
	bool answered; /* the two before are valid */
};

static struct question *question_of(struct symbol_place *place)
{
	_Static_assert(offsetof(struct question, place) == 0, "a question begins with its place");

	return (struct question *)place;
}

struct file {
	char *path;
	uint8_t build_id[64];
	size_t build_id_length;
	bool opened; /* then the places are sorted and looked up */
	int error;   /* why there is no module, 0 */
	Dwfl *dwfl;
	Dwfl_Module *module;
	struct symbol_units units;    /* of `module` */
	struct symbol_place **places; /* of questions */
	size_t count, capacity;
};

struct symbolizer {
	struct file *files;
	size_t count, capacity;
	demangle_function *demangle;
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

static void question_free(struct question *question)
{
	symbol_frames_done(&question->frames);
	free(question);
}

struct symbolizer *symbolizer_free(struct symbolizer *symbolizer)
{
	size_t i, k;

	if (!symbolizer)
		return NULL;
	for (i = 0; i < symbolizer->count; i++) {
		struct file *file = &symbolizer->files[i];

		for (k = 0; k < file->count; k++)
			question_free(question_of(file->places[k]));
		free(file->places);
		symbol_units_done(&file->units);
		if (file->dwfl)
			dwfl_end(file->dwfl);
		free(file->path);
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
	return file;
}

/* Room for one more is made first, so that adding cannot fail. */
static struct question *question_new(struct file *file, uint64_t address)
{
	struct question *question;

	if (file->count == file->capacity) {
		size_t capacity = file->capacity ? 2 * file->capacity : 16;
		struct symbol_place **places;

		places = reallocarray(file->places, capacity, sizeof(places[0]));
		if (!places)
			return NULL;
		file->places = places;
		file->capacity = capacity;
	}
	question = calloc(1, sizeof(*question));
	if (question)
		question->place.address = address;
	return question;
}

static int by_address(const void *left, const void *right)
{
	const struct symbol_place *const *a = left, *const *b = right;

	if ((*a)->address == (*b)->address)
		return 0;
	return (*a)->address < (*b)->address ? -1 : 1;
}

/* Opens the file, sorts what was announced and looks it up. */
static int file_prepare(struct file *file)
{
	size_t i, kept = 0;

	file->opened = true;
	if (file->count)
		qsort(file->places, file->count, sizeof(file->places[0]), by_address);
	for (i = 0; i < file->count; i++) {
		if (kept && file->places[kept - 1]->address == file->places[i]->address)
			question_free(question_of(file->places[i]));
		else
			file->places[kept++] = file->places[i];
	}
	file->count = kept;
	file->error = file_open(file);
	if (!file->error)
		file->error = symbol_table_find(file->module, file->places, file->count);
	return file->error;
}

/* The question about this address, looked up. */
static int question_get(struct file *file, uint64_t address, struct question **ret_question)
{
	struct question *question;
	struct symbol_place *place;
	size_t from = symbol_place_index(file->places, file->count, address);
	int error;

	if (from < file->count && file->places[from]->address == address) {
		*ret_question = question_of(file->places[from]);
		return 0;
	}
	question = question_new(file, address);
	if (!question)
		return -ENOMEM;
	place = &question->place;
	error = symbol_table_find(file->module, &place, 1);
	if (error) {
		question_free(question);
		return error;
	}
	memmove(&file->places[from + 1], &file->places[from],
		(file->count - from) * sizeof(file->places[0]));
	file->places[from] = place;
	file->count++;
	*ret_question = question;
	return 0;
}

int symbolizer_expect(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		      size_t build_id_length, uint64_t address)
{
	struct question *question;
	struct file *file;

	if (build_id_length > sizeof(file->build_id))
		return -EINVAL;
	file = file_get(symbolizer, path, build_id, build_id_length);
	if (!file)
		return -ENOMEM;
	if (file->opened)
		return 0;
	question = question_new(file, address);
	if (!question)
		return -ENOMEM;
	file->places[file->count++] = &question->place;
	return 0;
}

int symbolizer_frame(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		     size_t build_id_length, uint64_t address,
		     const struct symbol_frames **ret_frames)
{
	struct question *question;
	struct file *file;
	int error;

	if (build_id_length > sizeof(file->build_id))
		return -EINVAL;
	file = file_get(symbolizer, path, build_id, build_id_length);
	if (!file)
		return -ENOMEM;
	error = file->opened ? file->error : file_prepare(file);
	if (error)
		return error;
	error = question_get(file, address, &question);
	if (error)
		return error;
	if (!question->answered) {
		question->error = symbol_frames_find(file->module, &file->units, &question->place,
						     symbolizer->demangle, &question->frames);
		question->answered = true;
	}
	if (!question->error)
		*ret_frames = &question->frames;
	return question->error;
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
