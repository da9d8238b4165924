// SPDX-License-Identifier: MIT
/* Files behind code addresses (command_modules.h). Called by the writer. */
#include "command_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "alive.h"
#include "memory.h"
#include "watch.h"

#define HEADERS_MAX 256
#define NOTES_MAX   (64 * 1024)

struct module_segment {
	uint64_t address, offset, size;
};

static bool read_at(int descriptor, void *into, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX - size &&
	       pread(descriptor, into, size, (off_t)offset) == (ssize_t)size;
}

static size_t aligned(size_t size)
{
	return (size + 3) & ~(size_t)3;
}

static void take_build_id(struct module_file *file, const uint8_t *notes, size_t size)
{
	static const char digits[] = "0123456789abcdef";

	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t name, text;

		memcpy(&note, notes, sizeof(note));
		if (note.n_namesz > size || note.n_descsz > size)
			return;
		name = sizeof(note);
		text = name + aligned(note.n_namesz);
		if (text + note.n_descsz > size)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz <= MODULE_BUILD_ID_BYTES) {
			for (size_t i = 0; i < note.n_descsz; i++) {
				file->build_id[2 * i] = digits[notes[text + i] >> 4];
				file->build_id[2 * i + 1] = digits[notes[text + i] & 15];
			}
			return;
		}
		text += aligned(note.n_descsz);
		if (text > size)
			return;
		notes += text;
		size -= text;
	}
}

static void read_notes(struct module_file *file, int descriptor, const Elf64_Phdr *header)
{
	_cleanup_free_ uint8_t *notes = NULL;

	if (header->p_filesz > NOTES_MAX || *file->build_id)
		return;
	notes = memory_new(header->p_filesz);
	if (read_at(descriptor, notes, header->p_filesz, header->p_offset))
		take_build_id(file, notes, header->p_filesz);
}

static void read_headers(struct module_file *file, int descriptor)
{
	_cleanup_free_ Elf64_Phdr *headers = NULL;
	Elf64_Ehdr header;

	if (!read_at(descriptor, &header, sizeof(header), 0) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(*headers) ||
	    header.e_phnum > HEADERS_MAX)
		return;
	headers = memory_new(header.e_phnum * sizeof(*headers));
	if (!read_at(descriptor, headers, header.e_phnum * sizeof(*headers), header.e_phoff))
		return;
	file->segments = memory_new(header.e_phnum * sizeof(*file->segments));
	for (size_t i = 0; i < header.e_phnum; i++) {
		if (headers[i].p_type == PT_NOTE)
			read_notes(file, descriptor, &headers[i]);
		if (headers[i].p_type == PT_LOAD)
			file->segments[file->segment_count++] = (struct module_segment){
				.address = headers[i].p_vaddr,
				.offset = headers[i].p_offset,
				.size = headers[i].p_filesz,
			};
	}
}

/* Never a device that acts when it is opened: only what turns out to be the mapped file is read. */
static int open_same(const char *path, const struct watch_place *place)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (descriptor < 0)
		return -1;
	/* Where layers are stacked, the mappings may name another device than stat(2). */
	if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) && status.st_ino == place->inode)
		return descriptor;
	(void)close(descriptor);
	return -1;
}

static int open_place(pid_t process, const struct watch_place *place)
{
	_cleanup_free_ char *mapped =
		memory_format("/proc/%d/map_files/%llx-%llx", process,
			      (unsigned long long)place->start, (unsigned long long)place->end);
	_cleanup_free_ char *rooted = memory_format("/proc/%d/root%s", process, place->path);
	int descriptor = open_same(mapped, place);

	if (descriptor < 0 && place->path[0] == '/')
		descriptor = open_same(rooted, place);
	if (descriptor < 0 && place->path[0] == '/')
		descriptor = open_same(place->path, place);
	return descriptor;
}

static char *path_from_here(pid_t process, const struct watch_place *place)
{
	_cleanup_free_ char *rooted = memory_format("/proc/%d/root%s", process, place->path);
	_cleanup_close_ int here = -1, there = -1;

	if (place->path[0] == '/')
		here = open_same(place->path, place);
	if (place->path[0] == '/' && here < 0)
		there = open_same(rooted, place);
	return memory_copy(there >= 0 ? rooted : place->path);
}

const struct module_file *module_file_of(struct module_files *files, pid_t process,
					 const struct watch_place *place)
{
	struct module_file *file;
	int descriptor;

	for (size_t i = files->count; i-- > 0;) {
		file = files->items[i];
		if (file->device == place->device && file->inode == place->inode &&
		    !strcmp(file->name, place->path))
			return file;
	}
	file = memory_new(sizeof(*file));
	file->device = place->device;
	file->inode = place->inode;
	file->name = memory_copy(place->path);
	/* Its first thread may have ended, and with it what /proc tells of the process. */
	process = alive_thread(process) ? alive_thread(process) : process;
	file->path = path_from_here(process, place);
	descriptor = open_place(process, place);
	if (descriptor >= 0) {
		read_headers(file, descriptor);
		(void)close(descriptor);
	}
	files->items =
		memory_grow(files->items, files->count, &files->capacity, sizeof(files->items[0]));
	return files->items[files->count++] = file;
}

void module_files_done(struct module_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->items[i]->segments);
		free(files->items[i]->path);
		free(files->items[i]->name);
		free(files->items[i]);
	}
	free(files->items);
	*files = (struct module_files){0};
}

uint64_t module_address(const struct module_file *file, const struct watch_place *place)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct module_segment *segment = &file->segments[i];

		if (place->offset >= segment->offset &&
		    place->offset - segment->offset < segment->size)
			return place->offset - segment->offset + segment->address;
	}
	/* Not readable: most libraries have their text where the file has it. */
	return place->offset;
}
