// SPDX-License-Identifier: MIT
/*
 * Registered host memory.
 *
 * Owns: cuMemHostRegister and its end. The pages that a range had when it was registered stay the
 * device's: if the program unmaps the range and maps something else there, the device still sees
 * the old pages. For a whole-page range of one private anonymous or shared mapping that is done
 * with a second mapping of the same pages; any other range (malloc'ed memory shares its pages with
 * neighbours) is used where it lies. Called by: exports.c, memory.c.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

/*
 * A second mapping of the pages of a range. Shared pages: mremap() of length 0 makes one. Private
 * anonymous pages have none to be had, so they are exchanged for pages of a memory file with the
 * same bytes. NULL: not possible.
 */
static uint8_t *alias(void *address, size_t size, bool shared)
{
	void *second;
	int file;

	if (shared) {
		second = mremap(address, 0, size, MREMAP_MAYMOVE);
		return second == MAP_FAILED ? NULL : second;
	}
	file = memfd_create("simcuda-registered", MFD_CLOEXEC);
	if (file < 0)
		return NULL;
	second = MAP_FAILED;
	if (!ftruncate(file, size))
		second = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (second != MAP_FAILED) {
		memcpy(second, address, size);
		if (mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
		    MAP_FAILED) {
			munmap(second, size);
			second = MAP_FAILED;
		}
	}
	close(file);
	return second == MAP_FAILED ? NULL : second;
}

/* Whether [address, address + size) is writable memory of this process, and whether one mapping of
 * its own holds it. */
static bool mapped(uintptr_t address, size_t size, bool *ret_own, bool *ret_shared)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t want = address, end = address + size;
	char line[512];

	*ret_own = *ret_shared = false;
	if (!maps)
		return true;
	while (want < end && fgets(line, sizeof(line), maps)) {
		unsigned long from, to, inode;
		char mode[8], name[256] = "";

		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %255s", &from, &to, mode, &inode, name) <
			    4 ||
		    to <= want)
			continue;
		if (from > want || mode[0] != 'r')
			break;
		/* Not the heap or a stack: other objects live there. */
		*ret_own = from <= address && to >= end && mode[1] == 'w' &&
			   (!inode || mode[3] == 's') && name[0] != '[';
		*ret_shared = mode[3] == 's';
		want = to;
	}
	fclose(maps);
	return want >= end;
}

CUresult impl_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	struct sim_context *context;
	struct sim_allocation *allocation, *last;
	CUresult result = sim_context_current(&context);
	bool own, shared;

	if (result)
		return result;
	if (!p || !bytesize || Flags & ~15u)
		return CUDA_ERROR_INVALID_VALUE;
	allocation = sim_memory_find((uintptr_t)p);
	last = sim_memory_find((uintptr_t)p + bytesize - 1);
	if (allocation || last) {
		if (!allocation)
			allocation = last;
		return allocation->kind == SIM_REGISTERED || allocation->kind == SIM_PINNED
			       ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
			       : CUDA_ERROR_INVALID_VALUE;
	}
	if (!mapped((uintptr_t)p, bytesize, &own, &shared))
		return CUDA_ERROR_INVALID_VALUE;
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->address = (uintptr_t)p;
	allocation->size = bytesize;
	allocation->reserved = bytesize;
	allocation->backing = p;
	allocation->kind = SIM_REGISTERED;
	allocation->flags = Flags | CU_MEMHOSTREGISTER_DEVICEMAP;
	allocation->device = context->device;
	allocation->context = context;
	allocation->context_id = context->object.id;
	if (own && !((uintptr_t)p % PAGE) && !(bytesize % PAGE)) {
		uint8_t *second = alias(p, bytesize, shared);

		if (second) {
			allocation->backing = second;
			allocation->whole_map = true;
		}
	}
	if (sim_memory_insert(allocation)) {
		sim_register_end(allocation);
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_cost(20000 + bytesize / 25);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return impl_cuMemHostRegister_v2(p, bytesize, Flags);
}

void sim_register_end(struct sim_allocation *allocation)
{
	if (allocation->whole_map)
		munmap(allocation->backing, allocation->reserved);
}

CUresult impl_cuMemHostUnregister(void *p)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	allocation = sim_memory_find((uintptr_t)p);
	if (!allocation)
		return p ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
	if (allocation->address != (uintptr_t)p || allocation->kind != SIM_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_wait_all();
	allocation = sim_memory_find((uintptr_t)p);
	if (!allocation || allocation->address != (uintptr_t)p ||
	    allocation->kind != SIM_REGISTERED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_cost(20000 + allocation->size / 40);
	sim_memory_remove(allocation);
	sim_register_end(allocation);
	free(allocation);
	return CUDA_SUCCESS;
}
