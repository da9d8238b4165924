// SPDX-License-Identifier: MIT
/*
 * Program (program.h). Called by run; reads files only, executes nothing. ELF is read with
 * elfutils' libelf, which checks bounds: the program may be damaged.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "memory.h"

#define SCRIPTS_MAX 4 /* as the kernel: an interpreter may be a script itself, but not for ever */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static int check_file(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return errno;
	if (S_ISDIR(status.st_mode))
		return EACCES;
	return access(path, X_OK) < 0 ? errno : 0;
}

char *program_find(const char *name, int *reterr)
{
	const char *search = getenv("PATH");
	int error = ENOENT;

	if (!*name) {
		*reterr = ENOENT;
		return NULL;
	}
	if (strchr(name, '/')) {
		*reterr = check_file(name);
		return *reterr ? NULL : memory_copy(name);
	}
	if (!search)
		search = "/bin:/usr/bin"; /* glibc's default */
	for (;;) {
		size_t length = strcspn(search, ":");
		char *path = memory_format("%.*s/%s", length ? (int)length : 1,
					   length ? search : ".", name);
		int found = check_file(path);

		if (!found)
			return path;
		free(path);
		if (found == EACCES)
			error = EACCES; /* told only if nothing better follows */
		search += length;
		if (!*search++)
			break;
	}
	*reterr = error;
	return NULL;
}

/* The word that env(1) would start; NULL: none. */
static char *env_target(char *words)
{
	char *save, *word;

	for (word = strtok_r(words, " \t", &save); word; word = strtok_r(NULL, " \t", &save))
		if (word[0] != '-' && !strchr(word, '='))
			return word;
	return NULL;
}

/* The interpreter of a "#!" file; NULL: it is none. */
static char *script_interpreter(const char *path)
{
	_cleanup_close_ int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char line[512], *name, *rest, *found;
	ssize_t length;
	int error;

	if (descriptor < 0)
		return NULL;
	length = read(descriptor, line, sizeof(line) - 1);
	if (length < 3 || line[0] != '#' || line[1] != '!')
		return NULL;
	line[length] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	name = line + 2 + strspn(line + 2, " \t");
	rest = name + strcspn(name, " \t");
	if (*rest)
		*rest++ = '\0';
	if (!*name)
		return NULL;
	if (strcmp(base_name(name), "env"))
		return memory_copy(name);
	name = env_target(rest);
	if (!name)
		return NULL;
	found = program_find(name, &error);
	return found;
}

static void read_dynamic(Elf *elf, const GElf_Shdr *header, Elf_Scn *section,
			 struct program *program)
{
	Elf_Data *data = elf_getdata(section, NULL);
	GElf_Dyn entry;

	for (int i = 0; data && gelf_getdyn(data, i, &entry); i++) {
		const char *name;

		if (entry.d_tag == DT_NULL)
			return;
		if (entry.d_tag != DT_NEEDED)
			continue;
		name = elf_strptr(elf, header->sh_link, entry.d_un.d_val);
		if (name &&
		    (!strncmp(name, "libasan.so", 10) || !strncmp(name, "libclang_rt.asan", 16)))
			program->needs_asan = true;
	}
}

static void read_interpreter(Elf *elf, const GElf_Phdr *segment, struct program *program)
{
	size_t size;
	const char *bytes = elf_rawfile(elf, &size);

	if (!bytes || segment->p_offset >= size || !segment->p_filesz ||
	    segment->p_filesz > PATH_MAX || segment->p_filesz > size - segment->p_offset)
		return;
	free(program->interpreter);
	program->interpreter = memory_check(strndup(bytes + segment->p_offset, segment->p_filesz));
}

static const char *inspect_elf(Elf *elf, struct program *program)
{
	GElf_Ehdr header;
	GElf_Shdr section_header;
	Elf_Scn *section = NULL;
	size_t segments = 0;

	if (!gelf_getehdr(elf, &header))
		return "is a damaged ELF file";
	if (header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return "is a 32-bit program, libslipstream.so is a 64-bit library";
#if defined(__x86_64__)
	if (header.e_machine != EM_X86_64)
		return "is built for another processor than libslipstream.so";
#elif defined(__aarch64__)
	if (header.e_machine != EM_AARCH64)
		return "is built for another processor than libslipstream.so";
#endif
	(void)elf_getphdrnum(elf, &segments);
	for (size_t i = 0; i < segments && i < INT_MAX; i++) {
		GElf_Phdr segment;

		if (gelf_getphdr(elf, (int)i, &segment) && segment.p_type == PT_INTERP)
			read_interpreter(elf, &segment, program);
	}
	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &section_header) && section_header.sh_type == SHT_DYNAMIC)
			read_dynamic(elf, &section_header, section, program);

	/* Starting the loader itself, with the program as its argument, works. */
	if (!program->interpreter && strncmp(base_name(program->image), "ld-linux", 8))
		return "is statically linked, it ignores LD_PRELOAD";
	if (program->interpreter && strncmp(base_name(program->interpreter), "ld-linux", 8)) {
		program->foreign_libc = true;
		return strstr(program->interpreter, "musl")
			       ? "is linked to musl, libslipstream.so needs glibc"
			       : "has another dynamic loader than glibc's";
	}
	return NULL;
}

/*
 * Gaining ids or capabilities puts the loader into secure mode: LD_PRELOAD with a slash is dropped.
 */
static const char *inspect_privileges(const char *path)
{
	struct stat status;

	if (stat(path, &status) < 0)
		return NULL;
	if (status.st_mode & S_ISUID && status.st_uid != getuid())
		return "is setuid, the loader ignores LD_PRELOAD";
	if (status.st_mode & S_ISGID && status.st_mode & S_IXGRP && status.st_gid != getgid())
		return "is setgid, the loader ignores LD_PRELOAD";
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return "has file capabilities, the loader ignores LD_PRELOAD";
	return NULL;
}

static const char *inspect_image(struct program *program)
{
	_cleanup_close_ int descriptor = -1;
	const char *why = NULL;
	char magic[SELFMAG];
	Elf *elf;

	descriptor = open(program->image, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (descriptor >= 0 && pread(descriptor, magic, sizeof(magic), 0) == sizeof(magic) &&
	    !memcmp(magic, ELFMAG, SELFMAG) && elf_version(EV_CURRENT) != EV_NONE) {
		program->is_elf = !strcmp(program->image, program->path);
		elf = elf_begin(descriptor, ELF_C_READ, NULL);
		if (elf && elf_kind(elf) == ELF_K_ELF)
			why = inspect_elf(elf, program);
		elf_end(elf);
	}
	return why ? why : inspect_privileges(program->image);
}

int program_inspect(const char *name, struct program *ret_program)
{
	struct program program = {0};
	const char *why;
	int error = 0;

	program.path = program_find(name, &error);
	if (!program.path)
		return -error;
	program.image = memory_copy(program.path);
	for (int depth = 0; depth < SCRIPTS_MAX; depth++) {
		char *interpreter = script_interpreter(program.image);

		if (!interpreter)
			break;
		free(program.image);
		program.image = interpreter;
	}

	why = inspect_image(&program);
	if (why && !strcmp(program.image, program.path))
		program.blind_spot = memory_format("%s %s", program.path, why);
	else if (why)
		program.blind_spot = memory_format("%s, the interpreter of %s, %s", program.image,
						   program.path, why);
	*ret_program = program;
	return 0;
}

void program_done(struct program *program)
{
	free(program->path);
	free(program->image);
	free(program->interpreter);
	free(program->blind_spot);
	*program = (struct program){0};
}
