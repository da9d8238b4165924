// SPDX-License-Identifier: MIT
/*
 * Loaded ELF images (image.h). Called by module.c and python_layout.c from within
 * dl_iterate_phdr(), which keeps the image mapped. Relies on the dynamic loader having checked the
 * dynamic section; notes nobody checked, so they are read with every length in doubt.
 */
#include "sync/image.h"

#include <elf.h>
#include <link.h>
#include <string.h>

void image_extent(const struct dl_phdr_info *info, uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t start = UINT64_MAX, end = 0;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !segment->p_memsz)
			continue;
		if (segment->p_vaddr < start)
			start = segment->p_vaddr;
		if (segment->p_vaddr + segment->p_memsz > end)
			end = segment->p_vaddr + segment->p_memsz;
	}
	*ret_start = end ? info->dlpi_addr + start : 0;
	*ret_end = end ? info->dlpi_addr + end : 0;
}

uint64_t image_frames(const struct dl_phdr_info *info)
{
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			return info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	}
	return 0;
}

uint32_t image_build_id_note(const uint8_t *bytes, size_t size, size_t align,
			     uint8_t ret_id[IMAGE_BUILD_ID_MAX])
{
	size_t position = 0;

	if (align != 8)
		align = 4;
	while (size - position >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;
		size_t name, description, left;

		memcpy(&note, bytes + position, sizeof(note));
		name = position + sizeof(note);
		left = size - name;
		if (note.n_namesz > left)
			return 0;
		/* Sizes are 32 bits, sums 64: nothing here can wrap. */
		description = (name + note.n_namesz + align - 1) & ~(align - 1);
		if (description > size || note.n_descsz > size - description)
			return 0;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU) &&
		    !memcmp(bytes + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) && note.n_descsz) {
			uint32_t length = note.n_descsz < IMAGE_BUILD_ID_MAX ? note.n_descsz
									     : IMAGE_BUILD_ID_MAX;

			memcpy(ret_id, bytes + description, length);
			return length;
		}
		position = (description + note.n_descsz + align - 1) & ~(align - 1);
		if (position > size)
			return 0;
	}
	return 0;
}

/* A note segment is only read where a loaded segment covers it: the file can say anything. */
static int is_loaded(const struct dl_phdr_info *info, uint64_t start, uint64_t size)
{
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_R &&
		    start >= segment->p_vaddr && size <= segment->p_memsz &&
		    start - segment->p_vaddr <= segment->p_memsz - size)
			return 1;
	}
	return 0;
}

uint32_t image_build_id(const struct dl_phdr_info *info, uint8_t ret_id[IMAGE_BUILD_ID_MAX])
{
	uint32_t length;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_NOTE ||
		    !is_loaded(info, segment->p_vaddr, segment->p_memsz))
			continue;
		length = image_build_id_note((const uint8_t *)(info->dlpi_addr + segment->p_vaddr),
					     segment->p_memsz, segment->p_align, ret_id);
		if (length)
			return length;
	}
	return 0;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

uint64_t image_symbol(const struct dl_phdr_info *info, const char *name)
{
	uint64_t size;

	return image_symbol_size(info, name, &size);
}

uint64_t image_symbol_size(const struct dl_phdr_info *info, const char *name, uint64_t *ret_size)
{
	const ElfW(Dyn) *dynamic = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *table = NULL, *buckets, *chain;
	const ElfW(Addr) * bloom;
	uint32_t hash = gnu_hash(name), bits = 8 * sizeof(ElfW(Addr)), index;
	ElfW(Addr) word;
	int i;

	for (i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	if (!dynamic)
		return 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		uint64_t address = dynamic->d_un.d_ptr;

		/* glibc relocates these in place, but not where the section is read-only (the
		 * vdso). */
		if (address < info->dlpi_addr)
			address += info->dlpi_addr;
		if (dynamic->d_tag == DT_GNU_HASH)
			table = (const void *)address;
		else if (dynamic->d_tag == DT_SYMTAB)
			symbols = (const void *)address;
		else if (dynamic->d_tag == DT_STRTAB)
			strings = (const void *)address;
	}
	/* Header: buckets, first hashed symbol, bloom words, bloom shift. */
	if (!table || !symbols || !strings || !table[0] || !table[2])
		return 0;
	bloom = (const void *)(table + 4);
	word = bloom[hash / bits % table[2]];
	if (!(word >> hash % bits & 1) || !(word >> (hash >> table[3]) % bits & 1))
		return 0;
	buckets = (const uint32_t *)(bloom + table[2]);
	chain = buckets + table[0];
	index = buckets[hash % table[0]];
	if (index < table[1])
		return 0;
	for (;; index++) {
		uint32_t link = chain[index - table[1]];

		if ((link | 1) == (hash | 1) && symbols[index].st_shndx != SHN_UNDEF &&
		    !strcmp(strings + symbols[index].st_name, name)) {
			*ret_size = symbols[index].st_size;
			return info->dlpi_addr + symbols[index].st_value;
		}
		if (link & 1)
			return 0;
	}
}
