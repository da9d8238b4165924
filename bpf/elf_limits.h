// SPDX-License-Identifier: MIT
/*
 * What a file of another process may ask of us: libelf makes room for as many sections, segments and names as a header says there are, and a sparse file of
 * gigabytes costs who makes it nothing. Looked at before libelf is. Of image.c and usdt_notes.c.
 */
#ifndef SLIPSTREAM_ELF_LIMITS_H
#define SLIPSTREAM_ELF_LIMITS_H

#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <gelf.h>

#define ELF_NAMES_LIMIT (64 << 20) /* bytes of a table of names; no driver has a hundredth of it */

/* A 64-bit file that counts its sections and segments in its header, at most 65,279 and 65,534. */
static inline bool elf_limits_hold(int file)
{
	Elf64_Ehdr header;

	return pread(file, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       !memcmp(header.e_ident, ELFMAG, SELFMAG) && header.e_ident[EI_CLASS] == ELFCLASS64 &&
	       header.e_phnum != PN_XNUM && header.e_shnum < SHN_LORESERVE &&
	       (header.e_shnum || !header.e_shoff);
}

/* For elf_strptr(), which reads all of the table. */
static inline bool elf_names_fit(Elf *elf, size_t section)
{
	GElf_Shdr header;

	return gelf_getshdr(elf_getscn(elf, section), &header) && header.sh_size <= ELF_NAMES_LIMIT;
}

#endif
