// SPDX-License-Identifier: MIT
/*
 * Reads the dynamic symbol table of a loaded library: see driver_symbols.h. Called by the paired
 * benchmark's main thread alone; relies on dl_iterate_phdr and on a DT_GNU_HASH or DT_HASH table.
 */
#include "driver_symbols.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct wanted {
	const char *library, *name;
	void *address;
};

/* glibc turns these entries of a loaded library into addresses; others leave offsets. */
static const void *pointer(ElfW(Addr) base, ElfW(Addr) value)
{
	return (const void *)(value < base ? base + value : value);
}

/* How many symbols there are: the GNU table does not say so, its last chain does. */
static uint32_t count_gnu(const uint32_t *table)
{
	uint32_t buckets = table[0], first = table[1], bloom = table[2], last = 0;
	const uint32_t *bucket = table + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++) {
		if (bucket[i] > last)
			last = bucket[i];
	}
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct wanted *wanted = data;
	const char *slash = strrchr(info->dlpi_name, '/'), *strings = NULL;
	const ElfW(Sym) *symbols = NULL;
	uint32_t count = 0;

	(void)size;
	if (strncmp(slash ? slash + 1 : info->dlpi_name, wanted->library,
		    strlen(wanted->library)) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Dyn) * entry;

		if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
			continue;
		entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
		for (; entry->d_tag != DT_NULL; entry++) {
			const void *there = pointer(info->dlpi_addr, entry->d_un.d_ptr);

			if (entry->d_tag == DT_SYMTAB)
				symbols = there;
			else if (entry->d_tag == DT_STRTAB)
				strings = there;
			else if (entry->d_tag == DT_HASH)
				count = ((const uint32_t *)there)[1];
			else if (entry->d_tag == DT_GNU_HASH && !count)
				count = count_gnu(there);
		}
	}
	if (!symbols || !strings)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_value &&
		    !strcmp(strings + symbols[i].st_name, wanted->name)) {
			wanted->address = (void *)(info->dlpi_addr + symbols[i].st_value);
			return 1;
		}
	}
	return 0;
}

void *library_symbol(const char *library, const char *name)
{
	struct wanted wanted = {.library = library, .name = name};

	dl_iterate_phdr(look, &wanted);
	return wanted.address;
}
