// SPDX-License-Identifier: MIT
/*
 * ELF images for the witness. Relies on libelf.
 */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gelf.h>

#include "elf_limits.h"

struct image_segment {
	uint64_t address, offset, size;
};

static int by_address(const void *a, const void *b)
{
	const struct image_function *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* More than any driver has. Each symbol is looked for in each segment: a file that is made to have many of both is not one to read. */
#define SYMBOL_TABLE_LIMIT (16 << 20)
#define SEGMENT_LIMIT      64

static int read_segments(struct image *image, Elf *elf)
{
	size_t count;

	if (elf_getphdrnum(elf, &count))
		return -EINVAL;
	image->segment = calloc(count ? count : 1, sizeof(*image->segment));
	if (!image->segment)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr header;

		if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_LOAD)
			continue;
		if (image->segments == SEGMENT_LIMIT)
			return -EINVAL;
		image->segment[image->segments++] =
			(struct image_segment){header.p_vaddr, header.p_offset, header.p_filesz};
	}
	return 0;
}

static int add_symbol(struct image *image, const char *name, const GElf_Sym *symbol)
{
	struct image_function *function = &image->function[image->count];

	for (size_t i = 0; i < image->segments; i++) {
		const struct image_segment *segment = &image->segment[i];

		if (symbol->st_value < segment->address ||
		    symbol->st_value - segment->address >= segment->size)
			continue;
		*function = (struct image_function){
			.name = strdup(name),
			.address = symbol->st_value,
			.size = symbol->st_size,
			.offset = symbol->st_value - segment->address + segment->offset,
		};
		if (!function->name)
			return -ENOMEM;
		image->count++;
		return 0;
	}
	return 0; /* defined outside what is loaded: nothing to probe */
}

static int read_symbols(struct image *image, Elf *elf, const char *prefix, int exported)
{
	Elf_Scn *section = NULL, *chosen = NULL;
	size_t symbols, length = strlen(prefix);
	GElf_Shdr header;
	Elf_Data *data;

	while ((section = elf_nextscn(elf, section))) {
		if (!gelf_getshdr(section, &header))
			return -EINVAL;
		if (header.sh_type == SHT_SYMTAB && !exported)
			chosen = section;
		else if (header.sh_type == SHT_DYNSYM && !chosen)
			chosen = section;
	}
	if (!chosen || !gelf_getshdr(chosen, &header) || !header.sh_entsize ||
	    header.sh_size > SYMBOL_TABLE_LIMIT || !elf_names_fit(elf, header.sh_link))
		return -EINVAL;
	data = elf_getdata(chosen, NULL);
	if (!data)
		return -EINVAL;
	/* Of what is there: the header of a damaged file may say anything. */
	symbols = data->d_size / header.sh_entsize;
	image->function = calloc(symbols ? symbols : 1, sizeof(*image->function));
	if (!image->function)
		return -ENOMEM;
	for (size_t i = 0; i < symbols; i++) {
		const char *name;
		GElf_Sym symbol;
		int r;

		if (!gelf_getsym(data, (int)i, &symbol) || symbol.st_shndx == SHN_UNDEF ||
		    GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
			continue;
		name = elf_strptr(elf, header.sh_link, symbol.st_name);
		if (!name || strncmp(name, prefix, length))
			continue;
		r = add_symbol(image, name, &symbol);
		if (r)
			return r;
	}
	qsort(image->function, image->count, sizeof(*image->function), by_address);
	return 0;
}

int image_read(struct image *ret_image, int file, const char *prefix, int exported)
{
	struct image image = {0};
	struct stat status;
	Elf *elf;
	int r;

	if (fstat(file, &status))
		return -errno;
	image.device = status.st_dev;
	image.inode = status.st_ino;
	if (!elf_limits_hold(file))
		return -EINVAL;
	elf_version(EV_CURRENT);
	elf = elf_begin(file, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		r = -EINVAL;
	else
		r = read_segments(&image, elf);
	if (!r)
		r = read_symbols(&image, elf, prefix, exported);
	if (elf)
		elf_end(elf);
	if (r) {
		image_done(&image);
		return r;
	}
	*ret_image = image;
	return 0;
}

int image_open(struct image *ret_image, const char *path, const char *prefix, int exported)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	int r = file < 0 ? -errno : image_read(ret_image, file, prefix, exported);

	if (file >= 0)
		close(file);
	if (!r) {
		ret_image->path = realpath(path, NULL);
		if (!ret_image->path) {
			image_done(ret_image);
			r = -ENOMEM;
		}
	}
	if (r)
		fprintf(stderr, "slipstream-witness: %s: %s\n", path,
			r == -EINVAL ? "no ELF library with a symbol table" : strerror(-r));
	return r;
}

void image_done(struct image *image)
{
	for (size_t i = 0; i < image->count; i++)
		free(image->function[i].name);
	free(image->function);
	free(image->segment);
	free(image->path);
	*image = (struct image){0};
}

int image_cover(const struct image *image, uint64_t offset,
		int (*each)(const struct image_function *function, void *data), void *data)
{
	for (size_t i = 0; i < image->count; i++) {
		const struct image_function *function = &image->function[i];
		int r;

		if (offset < function->offset || offset - function->offset >= function->size)
			continue;
		r = each(function, data);
		if (r)
			return r;
	}
	return 0;
}
