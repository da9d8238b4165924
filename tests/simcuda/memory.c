// SPDX-License-Identifier: MIT
/*
 * Memory: address ranges, device memory, pinned and managed host memory.
 *
 * Owns: the table of allocations (sorted by address) and each device's address space. A device
 * address lies in a range that the process cannot touch; the bytes are in a memory file mapped
 * elsewhere, so a host access to device memory faults as it should. Host memory of every kind has
 * the same address on both sides. Called by: exports.c, and all that moves bytes
 * (sim_memory_translate). The real frees wait for everything on the device, work submitted
 * meanwhile too.
 */
#include "sim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE ((size_t)512)
#define PAGE    ((size_t)4096)
/* Stale bytes of a freed block are kept below this; larger ones are given back to the system. */
#define KEEP_BYTES ((size_t)2 << 20)

struct hole {
	uint64_t offset, size;
};

static struct space {
	uint64_t base; /* no access */
	uint8_t *backing;
	int file;
	struct hole *holes; /* sorted by offset, never adjacent */
	unsigned hole_count, hole_space;
	size_t used;
} spaces[SIM_DEVICE_LIMIT];

static struct sim_allocation **table;
static unsigned table_count, table_space;
static uint64_t next_buffer;

/* ---- table ---- */

/* Index of the first allocation whose address is above. */
static unsigned above(uint64_t address)
{
	unsigned low = 0, high = table_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (table[middle]->address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct sim_allocation *sim_memory_find(uint64_t address)
{
	unsigned index = above(address);
	struct sim_allocation *allocation;

	if (!index)
		return NULL;
	allocation = table[index - 1];
	return address - allocation->address < allocation->size ? allocation : NULL;
}

int sim_memory_insert(struct sim_allocation *allocation)
{
	struct sim_allocation **grown = sim_grow(table, table_count, &table_space, sizeof(*table));
	unsigned index;

	if (!grown)
		return -ENOMEM;
	table = grown;
	index = above(allocation->address);
	memmove(&table[index + 1], &table[index], (table_count - index) * sizeof(*table));
	table[index] = allocation;
	table_count++;
	if (!allocation->id)
		allocation->id = ++next_buffer;
	return 0;
}

void sim_memory_remove(struct sim_allocation *allocation)
{
	for (unsigned index = above(allocation->address); index; index--) {
		if (table[index - 1] != allocation)
			continue;
		memmove(&table[index - 1], &table[index], (table_count - index) * sizeof(*table));
		table_count--;
		return;
	}
}

static bool in_device_space(uint64_t address)
{
	for (int i = 0; i < sim.device_count; i++)
		if (spaces[i].base && address - spaces[i].base < sim.device_space)
			return true;
	return false;
}

enum sim_memory sim_memory_kind(uint64_t address)
{
	struct sim_allocation *allocation = sim_memory_find(address);

	if (allocation)
		return allocation->kind;
	return in_device_space(address) ? SIM_OTHER : SIM_PAGEABLE;
}

bool sim_memory_is_host(enum sim_memory kind)
{
	return kind == SIM_PAGEABLE || kind == SIM_PINNED || kind == SIM_REGISTERED;
}

uint8_t *sim_memory_translate(uint64_t address, size_t size, bool host)
{
	struct sim_allocation *allocation = sim_memory_find(address);

	if (!allocation)
		return host && !in_device_space(address) ? (uint8_t *)address : NULL;
	if (size > allocation->size - (address - allocation->address))
		return NULL;
	if (!allocation->backing || allocation->released)
		return NULL;
	return allocation->backing + (address - allocation->address);
}

bool sim_memory_sync(uint64_t address)
{
	struct sim_allocation *allocation = sim_memory_find(address);

	return allocation && allocation->sync_memops;
}

/* ---- address space of a device ---- */

void sim_memory_setup(int device)
{
	struct space *space = &spaces[device];
	void *map;

	space->file = memfd_create("simcuda", MFD_CLOEXEC);
	map = mmap(NULL, sim.device_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	if (space->file < 0 || map == MAP_FAILED || ftruncate(space->file, sim.device_space)) {
		sim_complain("cannot reserve device memory", strerror(errno));
		return;
	}
	space->base = (uintptr_t)map;
	map = mmap(NULL, sim.device_space, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		   space->file, 0);
	space->backing = map == MAP_FAILED ? NULL : map;
	space->holes = malloc(sizeof(*space->holes));
	if (!space->holes || !space->backing) {
		sim_complain("cannot map device memory", strerror(errno));
		return;
	}
	space->hole_space = 1;
	space->hole_count = 1;
	space->holes[0] = (struct hole){.offset = 0, .size = sim.device_space};
}

static int hole_insert(struct space *space, unsigned index, struct hole hole)
{
	struct hole *grown =
		sim_grow(space->holes, space->hole_count, &space->hole_space, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	space->holes = grown;
	memmove(&grown[index + 1], &grown[index], (space->hole_count - index) * sizeof(*grown));
	grown[index] = hole;
	space->hole_count++;
	return 0;
}

/* First fit, so that a freed address is soon used again. 0: no room. */
static uint64_t space_take(struct space *space, size_t size, size_t alignment)
{
	for (unsigned i = 0; i < space->hole_count; i++) {
		struct hole *hole = &space->holes[i];
		uint64_t start = (hole->offset + alignment - 1) & ~(alignment - 1);
		uint64_t end = hole->offset + hole->size;

		if (start + size > end)
			continue;
		if (start > hole->offset) {
			hole->size = start - hole->offset;
			if (end > start + size)
				hole_insert(space, i + 1,
					    (struct hole){.offset = start + size,
							  .size = end - start - size});
		} else if (end > start + size) {
			hole->offset = start + size;
			hole->size = end - hole->offset;
		} else {
			memmove(hole, hole + 1, (space->hole_count - i - 1) * sizeof(*hole));
			space->hole_count--;
		}
		return space->base + start;
	}
	return 0;
}

static void space_give(struct space *space, uint64_t address, size_t size)
{
	uint64_t offset = address - space->base;
	unsigned i = 0;

	while (i < space->hole_count && space->holes[i].offset < offset)
		i++;
	if (i && space->holes[i - 1].offset + space->holes[i - 1].size == offset) {
		space->holes[i - 1].size += size;
		if (i < space->hole_count && space->holes[i].offset == offset + size) {
			space->holes[i - 1].size += space->holes[i].size;
			memmove(&space->holes[i], &space->holes[i + 1],
				(space->hole_count - i - 1) * sizeof(*space->holes));
			space->hole_count--;
		}
	} else if (i < space->hole_count && space->holes[i].offset == offset + size) {
		space->holes[i].offset = offset;
		space->holes[i].size += size;
	} else {
		hole_insert(space, i, (struct hole){.offset = offset, .size = size});
	}
}

uint64_t sim_memory_space(int device, size_t size)
{
	return space_take(&spaces[device], size, KEEP_BYTES);
}

void sim_memory_space_free(int device, uint64_t address, size_t size)
{
	space_give(&spaces[device], address, size);
}

size_t sim_memory_used(int device)
{
	return spaces[device].used;
}

int sim_memory_file(int device)
{
	return spaces[device].file;
}

uint64_t sim_memory_offset(const struct sim_allocation *allocation)
{
	return allocation->address - spaces[allocation->device].base;
}

/* ---- device memory ---- */

CUresult sim_memory_device_new(struct sim_context *context, size_t size, size_t alignment,
			       struct sim_allocation **ret_allocation)
{
	struct space *space = &spaces[context->device];
	struct sim_allocation *allocation;
	size_t reserved;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > sim.memory_total - space->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reserved = (size + GRANULE - 1) & ~(GRANULE - 1);
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->address =
		space_take(space, reserved, alignment > GRANULE ? alignment : GRANULE);
	if (!allocation->address) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->size = size;
	allocation->reserved = reserved;
	allocation->backing = space->backing + (allocation->address - space->base);
	allocation->kind = SIM_DEVICE;
	allocation->device = context->device;
	allocation->context = context;
	allocation->context_id = context->object.id;
	if (sim_memory_insert(allocation)) {
		space_give(space, allocation->address, reserved);
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	space->used += reserved;
	*ret_allocation = allocation;
	return CUDA_SUCCESS;
}

void sim_memory_device_free(struct sim_allocation *allocation)
{
	struct space *space = &spaces[allocation->device];

	sim_memory_remove(allocation);
	space->used -= allocation->reserved;
	if (allocation->reserved >= KEEP_BYTES) {
		uint64_t start = (sim_memory_offset(allocation) + PAGE - 1) & ~(PAGE - 1);
		uint64_t end = (sim_memory_offset(allocation) + allocation->reserved) & ~(PAGE - 1);

		if (end > start)
			madvise(space->backing + start, end - start, MADV_REMOVE);
	}
	space_give(space, allocation->address, allocation->reserved);
	free(allocation);
}

static void host_free(struct sim_allocation *allocation)
{
	sim_memory_remove(allocation);
	if (allocation->kind == SIM_REGISTERED)
		sim_register_end(allocation);
	else
		munmap((void *)allocation->address, allocation->reserved);
	if (allocation->kind == SIM_PINNED && (uintptr_t)allocation->backing != allocation->address)
		munmap(allocation->backing, allocation->reserved);
	free(allocation);
}

/* A context ends: what was allocated in it goes. Pool memory stays, it belongs to the device. */
void sim_memory_release_context(struct sim_context *context)
{
	for (unsigned i = table_count; i; i--) {
		struct sim_allocation *allocation = table[i - 1];

		if (allocation->context != context || allocation->context_id != context->object.id)
			continue;
		if (allocation->kind == SIM_DEVICE && !allocation->whole_map &&
		    !allocation->physical)
			sim_memory_device_free(allocation);
		else if (allocation->kind == SIM_PINNED || allocation->kind == SIM_REGISTERED ||
			 allocation->kind == SIM_MANAGED)
			host_free(allocation);
	}
}

CUresult impl_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!dptr)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_memory_device_new(context, bytesize, 0, &allocation);
	if (result)
		return result;
	*dptr = allocation->address;
	sim_cost(55000 + bytesize / 3500);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				 size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch = (WidthInBytes + 511) & ~(size_t)511;

	if (!dptr || !pPitch || !WidthInBytes || !Height ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	*pPitch = pitch;
	return impl_cuMemAlloc_v2(dptr, pitch * Height);
}

CUresult impl_cuMemFree_v2(CUdeviceptr dptr)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!dptr)
		return CUDA_SUCCESS;
	allocation = sim_memory_find(dptr);
	if (!allocation || allocation->address != dptr || allocation->array ||
	    allocation->imported || allocation->physical)
		return CUDA_ERROR_INVALID_VALUE;
	switch (allocation->kind) {
	case SIM_DEVICE:
	case SIM_MANAGED:
		break;
	case SIM_POOL:
		if (allocation->freed)
			return CUDA_ERROR_INVALID_VALUE;
		sim_pool_free_done(allocation);
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (allocation->kind == SIM_MANAGED)
		sim_wait_all();
	else
		sim_wait_device_and_peers(allocation->device);
	/* Another thread may have freed it meanwhile. */
	allocation = sim_memory_find(dptr);
	if (!allocation || allocation->address != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	sim_cost(45000 + allocation->size / 1600);
	if (allocation->kind == SIM_DEVICE)
		sim_memory_device_free(allocation);
	else
		host_free(allocation);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct sim_context *context;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!free_bytes || !total)
		return CUDA_ERROR_INVALID_VALUE;
	*total = sim.memory_total;
	*free_bytes = sim.memory_total - spaces[context->device].used;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	allocation = sim_memory_find(dptr);
	if (!allocation || allocation->freed)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = allocation->address;
	if (psize)
		*psize = allocation->size;
	return CUDA_SUCCESS;
}

/* ---- pinned and managed host memory ---- */

static CUresult host_new(enum sim_memory kind, size_t size, unsigned flags, void **ret_address)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);
	size_t reserved = (size + PAGE - 1) & ~(PAGE - 1);
	void *map, *backing;

	if (result)
		return result;
	if (reserved < size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation = calloc(1, sizeof(*allocation));
	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	map = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
		   MAP_ANONYMOUS | (kind == SIM_PINNED ? MAP_SHARED : MAP_PRIVATE), -1, 0);
	if (map == MAP_FAILED) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	backing = map;
	if (kind == SIM_PINNED) {
		/* The device's own mapping: it does not see how the program protects its pages. */
		backing = mremap(map, 0, reserved, MREMAP_MAYMOVE);
		if (backing == MAP_FAILED)
			backing = map;
		madvise(map, reserved, MADV_DONTFORK);
		madvise(backing, reserved, MADV_DONTFORK);
	}
	allocation->address = (uintptr_t)map;
	allocation->size = size;
	allocation->reserved = reserved;
	allocation->backing = backing;
	allocation->kind = kind;
	allocation->flags = flags;
	allocation->device = context->device;
	allocation->context = context;
	allocation->context_id = context->object.id;
	if (sim_memory_insert(allocation)) {
		munmap(map, reserved);
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_address = map;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	CUresult result;

	if (!pp || Flags & ~7u)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytesize) {
		*pp = NULL;
		return CUDA_SUCCESS;
	}
	result = host_new(SIM_PINNED, bytesize, Flags | CU_MEMHOSTALLOC_DEVICEMAP, pp);
	if (!result)
		sim_cost(1020000 + bytesize / 2);
	return result;
}

CUresult impl_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return impl_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult impl_cuMemFreeHost(void *p)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!p)
		return CUDA_SUCCESS;
	allocation = sim_memory_find((uintptr_t)p);
	if (!allocation || allocation->address != (uintptr_t)p || allocation->kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_wait_all();
	allocation = sim_memory_find((uintptr_t)p);
	if (!allocation || allocation->address != (uintptr_t)p || allocation->kind != SIM_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	sim_cost(420000 + allocation->size / 6);
	host_free(allocation);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	struct sim_allocation *allocation = sim_memory_find((uintptr_t)p);

	if (!pdptr || Flags || !allocation || !sim_memory_is_host(allocation->kind))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	struct sim_allocation *allocation = sim_memory_find((uintptr_t)p);

	if (!pFlags || !allocation || !sim_memory_is_host(allocation->kind))
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = allocation->flags;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	void *address;
	CUresult result;

	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	result = host_new(SIM_MANAGED, bytesize, flags, &address);
	if (!result)
		*dptr = (uintptr_t)address;
	return result;
}
