// SPDX-License-Identifier: MIT
/*
 * Memory: whether both sides of a copy are what can be staged: pageable memory of the host, and plain memory of the current device.
 * Called by staging.c. What the shim has seen allocated and registered comes first (place.h); the driver is asked besides, since memory
 * can be the driver's without our having seen how. A getter each, whose answers are remembered while they hold: of the host's memory in
 * known.h, of a block of the device with the block.
 */
#include "call.h"
#include "driver/driver.h"
#include "emit/record.h"
#include "rewrite/known.h"
#include "rewrite/staging.h"
#include "state/place.h"
#include "state/state.h"

static bool writes_pageable;

static const char *const not_pageable = "driver: not all of the host's side is pageable";
static const char *const not_plain =
	"driver: the device's side is not plain memory of the current device";

/* An address that the driver knows nothing of gives an error, or a kind of memory 0 where it does not. */
static bool is_pageable_to_the_driver(uint64_t address)
{
	unsigned int type = 0;

	return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
		       CUDA_SUCCESS ||
	       !type;
}

/* Remembers it, if so. */
static bool is_plain_to_the_driver(int device, CUdeviceptr address, size_t span)
{
	unsigned int type = 0, managed = 1;
	int ordinal = -1, sync_memops = 1;
	CUdeviceptr start = 0;
	size_t size = 0;
	CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
	void *values[] = {&type, &managed, &ordinal, &start, &size, &sync_memops};

	/* Booleans of unstated width: the first byte tells, as in operands.h. */
	if (driver.cuPointerGetAttributes(sizeof(attributes) / sizeof(attributes[0]), attributes,
					  values, address) != CUDA_SUCCESS)
		return false;
	if (type != CU_MEMORYTYPE_DEVICE || managed & 0xff || ordinal != device ||
	    sync_memops & 0xff || address < start || address - start >= size ||
	    size - (address - start) < span)
		return false;
	state_device_asked(address, start, size, device);
	return true;
}

/* NULL: the host's memory is pageable, and the context has no SYNC_MEMOPS. Both are the driver's answers, in this call or remembered. */
static const char *host_objection(const struct call *call, uint64_t first, uint64_t last)
{
	const struct known_ends ends = {
		.first = first, .last = last, .context = state_context_id(call->context)};
	unsigned int flags = CU_CTX_SYNC_MEMOPS;
	uint64_t generation;

	if (known_is_pageable(&ends))
		return NULL;
	generation = known_asking();
	if (!is_pageable_to_the_driver(first) || !is_pageable_to_the_driver(last))
		return not_pageable;
	/* Of a primary context they may have been set before it was there. */
	if (!driver.cuCtxGetFlags || driver.cuCtxGetFlags(&flags) != CUDA_SUCCESS ||
	    flags & CU_CTX_SYNC_MEMOPS)
		return "driver: SYNC_MEMOPS";
	known_pageable(&ends, generation);
	return NULL;
}

const char *staging_memory_objection(const struct call *call, const struct staging *staging)
{
	uint64_t host = (uintptr_t)staging->copy.host;
	int device = state_device(call);
	const char *why;
	CUdevice current;
	uint32_t sides;

	if (!driver.cuPointerGetAttribute || !driver.cuPointerGetAttributes)
		return "driver: it cannot be asked what memory lies where";
	if (device < 0) {
		if (!driver.cuCtxGetDevice || driver.cuCtxGetDevice(&current) != CUDA_SUCCESS)
			return not_plain;
		device = current;
	}
	sides = state_sides(host, staging->host_span, staging->copy.device, staging->device_span,
			    device);
	if (!(sides & SIDES_HOST_UNKNOWN))
		return not_pageable;
	why = host_objection(call, host, host + staging->host_span - 1);
	if (why)
		return why;
	if (!(sides & SIDES_DEVICE_PLAIN) ||
	    (!(sides & SIDES_DEVICE_ASKED) &&
	     !is_plain_to_the_driver(device, staging->copy.device, staging->device_span)))
		return not_plain;
	return NULL;
}

static int attribute_of(CUdevice device, CUdevice_attribute attribute)
{
	int value = 0;

	/* Not known counts as yes: then nothing is staged. */
	return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? value : 1;
}

const char *staging_machine_objection(void)
{
	int count = 0;
	CUdevice device;

	if (!driver.cuDeviceGetCount || !driver.cuDeviceGetAttribute ||
	    driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
		return "off: the devices cannot be asked";
	for (device = 0; device < count; device++) {
		if (attribute_of(device,
				 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES))
			return "off: the device uses the host's page tables";
		if (attribute_of(device, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS))
			writes_pageable = true;
	}
	return NULL;
}

bool staging_device_writes_pageable(void)
{
	return writes_pageable;
}
