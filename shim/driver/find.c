// SPDX-License-Identifier: MIT
/*
 * Driver: finds the loaded libcuda.so.1 and fills the table of its functions.
 *
 * Called by entry: from the constructor (a program linked with the driver has it mapped by then),
 * from the dlsym hook, and from a thread's first driver call. Relies on libc.h for the real dlsym.
 * It never loads a driver, takes no lock of its own, and may run in several threads at once: all
 * of them store the same values.
 */
#include "driver/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "catalogue/catalogue.h"
#include "driver/find.h"
#include "libc.h"

#define SONAME "libcuda.so"

/* Members are in the order of the function numbers, so that the table is an array as well (asserted
 * in driver_ops.h). */
struct driver_ops driver __attribute__((visibility("hidden")));

struct driver_image driver_image;

/*
 * Address -> function number + 1, open addressing. Written by racing finders, complete before
 * `driver_image.found` is set (release), which readers check first (acquire).
 */
#define MAP_SIZE 2048 /* power of two; at most a third full */

static struct {
	const void *address;
	uint32_t function;
} map[MAP_SIZE];

_Static_assert(FUNCTION_COUNT * 2 < MAP_SIZE, "the address map is too full to be quick");
_Static_assert(sizeof(driver) == FUNCTION_COUNT * sizeof(void *), "one pointer a function");

static uint32_t map_slot(const void *address)
{
	uint64_t bits = (uintptr_t)address;

	return (uint32_t)((bits * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - 11));
}

/* All finders add in the same order, so that each slot gets the same pair from each of them. */
static void map_add(const void *address, uint32_t function)
{
	uint32_t slot = map_slot(address);

	for (uint32_t tries = 0; tries < MAP_SIZE; tries++, slot = (slot + 1) % MAP_SIZE) {
		const void *expected = NULL;
		uint32_t none = 0;

		if (!__atomic_compare_exchange_n(&map[slot].address, &expected, address, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		    expected != address)
			continue;
		/* Two names of one address: the first stands. Another finder may not have come to
		 * this store yet, so it is made here as well. */
		__atomic_compare_exchange_n(&map[slot].function, &none, function + 1, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		return;
	}
}

int driver_function_at(const void *address)
{
	uint32_t slot = map_slot(address);

	/* Pairs with the release store in driver_find(): the map is complete. */
	if (!address || !__atomic_load_n(&driver_image.found, __ATOMIC_ACQUIRE))
		return -1;
	for (uint32_t tries = 0; tries < MAP_SIZE; tries++, slot = (slot + 1) % MAP_SIZE) {
		const void *found = __atomic_load_n(&map[slot].address, __ATOMIC_RELAXED);

		if (!found)
			return -1;
		if (found == address)
			return (int)__atomic_load_n(&map[slot].function, __ATOMIC_RELAXED) - 1;
	}
	return -1;
}

bool driver_contains(const void *address)
{
	uintptr_t at = (uintptr_t)address;

	/* Pairs with the release store in driver_find(): the bounds are set. */
	return __atomic_load_n(&driver_image.found, __ATOMIC_ACQUIRE) && at >= driver_image.start &&
	       at < driver_image.end;
}

bool driver_is_name(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return strncmp(base, SONAME, sizeof(SONAME) - 1) == 0 &&
	       (base[sizeof(SONAME) - 1] == '.' || base[sizeof(SONAME) - 1] == '\0');
}

struct search {
	char path[DRIVER_PATH_MAX];
	uintptr_t start, end;
};

static void bounds(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end)
{
	*ret_start = UINTPTR_MAX;
	*ret_end = 0;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uintptr_t low = info->dlpi_addr + header->p_vaddr;

		if (header->p_type != PT_LOAD)
			continue;
		if (low < *ret_start)
			*ret_start = low;
		if (low + header->p_memsz > *ret_end)
			*ret_end = low + header->p_memsz;
	}
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	size_t length;

	if (!info->dlpi_name || !driver_is_name(info->dlpi_name))
		return 0;
	length = strlen(info->dlpi_name);
	if (length >= sizeof(search->path))
		return 0;
	memcpy(search->path, info->dlpi_name, length + 1);
	bounds(info, &search->start, &search->end);
	return 1;
}

bool driver_find(void)
{
	struct search search;
	void *handle;

	/* Pairs with the release store below. */
	if (__atomic_load_n(&driver_image.found, __ATOMIC_ACQUIRE))
		return true;
	search.path[0] = '\0';
	if (!dl_iterate_phdr(look, &search))
		return false;
	/* The reference keeps it mapped for good: the program remembers our wrappers, which go
	 * there. */
	handle = dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY);
	if (!handle)
		return false; /* unloaded meanwhile, or in another namespace */
	for (uint32_t function = 0; function < FUNCTION_COUNT; function++) {
		void *address = libc_dlsym(handle, function_names[function]);

		if (!address || (uintptr_t)address < search.start ||
		    (uintptr_t)address >= search.end)
			continue; /* not there, or of a library it depends on */
		__atomic_store_n(&((void **)&driver)[function], address, __ATOMIC_RELAXED);
		map_add(address, function);
	}
	/* One finder names the image; nothing else rests on this order. */
	if (!__atomic_exchange_n(&driver_image.naming, 1, __ATOMIC_ACQ_REL)) {
		memcpy(driver_image.path, search.path, sizeof(driver_image.path));
		driver_image.start = search.start;
		driver_image.end = search.end;
		/*
		 * Pairs with the acquire loads of `found`: who sees it sees table, map and bounds.
		 */
		__atomic_store_n(&driver_image.found, 1, __ATOMIC_RELEASE);
		return true;
	}
	/* Another finder is a few instructions away from the end. Bounded: it may be this thread's
	 * own, interrupted by a signal. */
	for (int i = 0; i < 1000 && !__atomic_load_n(&driver_image.found, __ATOMIC_ACQUIRE); i++)
		sched_yield();
	return true;
}
