// SPDX-License-Identifier: MIT
/*
 * Virtual memory management: reserve addresses, create physical memory, map one to the other.
 *
 * Owns: struct sim_physical and the list of reservations. A mapping without access is there for
 * look-ups but cannot be touched. Called by: exports.c. Relies on memory.c for space and the table.
 */
#include "sim.h"
#include <stdlib.h>

#define GRANULE ((size_t)2 << 20)

struct sim_physical {
	struct sim_object object;
	int device;
	size_t size;
	CUmemAllocationProp properties;
	struct sim_allocation *backing; /* where its bytes are; its address is never given out */
};

struct reservation {
	uint64_t address;
	size_t size;
	struct reservation *next;
};

static struct reservation *reservations;

static struct sim_physical *check(CUmemGenericAllocationHandle handle)
{
	return sim_object_check((void *)(uintptr_t)handle, SIM_PHYSICAL);
}

static void physical_put(struct sim_physical *physical)
{
	if (--physical->object.references)
		return;
	sim_memory_device_free(physical->backing);
	sim_object_free(physical);
}

CUresult impl_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					    CUmemAllocationGranularity_flags option)
{
	if (!granularity || !prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	*granularity = GRANULE;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			  const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct sim_physical *physical;
	struct sim_context *context = NULL;
	CUresult result;

	if (!handle || !prop || flags || !size || size % GRANULE ||
	    prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (prop->location.id < 0 || prop->location.id >= sim.device_count)
		return CUDA_ERROR_INVALID_DEVICE;
	for (unsigned i = 0; i < sim.context_count && !context; i++)
		if (sim.contexts[i]->device == prop->location.id)
			context = sim.contexts[i];
	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	physical = sim_object_new(SIM_PHYSICAL);
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_memory_device_new(context, size, GRANULE, &physical->backing);
	if (result) {
		sim_object_free(physical);
		return result;
	}
	/* Not to be found by address, nor freed with a context: it belongs to nobody but its
	 * handle. */
	physical->backing->context = NULL;
	physical->backing->physical = physical;
	physical->backing->released = true;
	physical->device = context->device;
	physical->size = size;
	physical->properties = *prop;
	*handle = (uintptr_t)physical;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical = check(handle);

	if (!physical)
		return CUDA_ERROR_INVALID_VALUE;
	physical_put(physical);
	return CUDA_SUCCESS;
}

CUresult impl_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						     CUmemGenericAllocationHandle handle)
{
	if (!prop || !check(handle))
		return CUDA_ERROR_INVALID_VALUE;
	*prop = check(handle)->properties;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct sim_allocation *mapping = sim_memory_find((uintptr_t)addr);

	if (!handle || !mapping || !mapping->physical)
		return CUDA_ERROR_INVALID_VALUE;
	mapping->physical->object.references++;
	*handle = (uintptr_t)mapping->physical;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
				  unsigned long long flags)
{
	struct reservation *reservation;

	if (!ptr || !size || size % GRANULE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	reservation = malloc(sizeof(*reservation));
	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reservation->address = sim_memory_space(0, size);
	reservation->size = size;
	if (!reservation->address) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reservation->next = reservations;
	reservations = reservation;
	*ptr = reservation->address;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	for (struct reservation **link = &reservations; *link; link = &(*link)->next) {
		struct reservation *gone = *link;

		if (gone->address != ptr || gone->size != size)
			continue;
		*link = gone->next;
		sim_memory_space_free(0, gone->address, gone->size);
		free(gone);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static bool reserved(uint64_t address, size_t size)
{
	for (struct reservation *one = reservations; one; one = one->next)
		if (address >= one->address && address + size <= one->address + one->size)
			return true;
	return false;
}

CUresult impl_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct sim_physical *physical = check(handle);
	struct sim_allocation *mapping;

	if (!physical || !size || flags || offset || size != physical->size ||
	    !reserved(ptr, size) || sim_memory_find(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->address = ptr;
	mapping->size = mapping->reserved = size;
	mapping->backing = physical->backing->backing;
	mapping->kind = SIM_DEVICE;
	mapping->device = physical->device;
	mapping->physical = physical;
	mapping->released = true; /* until cuMemSetAccess */
	if (sim_memory_insert(mapping))
		abort();
	physical->object.references++;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
			     size_t count)
{
	uint64_t at = ptr;

	if (!desc || !count || !size)
		return CUDA_ERROR_INVALID_VALUE;
	while (at < ptr + size) {
		struct sim_allocation *mapping = sim_memory_find(at);

		if (!mapping || !mapping->physical || mapping->address != at)
			return CUDA_ERROR_INVALID_VALUE;
		mapping->released = desc[0].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
		at += mapping->size;
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			     CUdeviceptr ptr)
{
	struct sim_allocation *mapping = sim_memory_find(ptr);

	if (!flags || !location || !mapping || !mapping->physical)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = mapping->released ? CU_MEM_ACCESS_FLAGS_PROT_NONE
				   : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

CUresult impl_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	uint64_t at = ptr;

	while (at < ptr + size) {
		struct sim_allocation *mapping = sim_memory_find(at);

		if (!mapping || !mapping->physical || mapping->address != at)
			return CUDA_ERROR_INVALID_VALUE;
		sim_wait_device(mapping->device);
		mapping = sim_memory_find(at);
		if (!mapping)
			return CUDA_ERROR_INVALID_VALUE;
		at += mapping->size;
		sim_memory_remove(mapping);
		physical_put(mapping->physical);
		free(mapping);
	}
	return CUDA_SUCCESS;
}
