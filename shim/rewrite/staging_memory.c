// SPDX-License-Identifier: MIT
/*
 * Memory: whether both sides of a copy are what can be staged: pageable memory of the host, and plain memory of the current device.
 * Called by staging.c. What the shim has seen allocated and registered comes first (place.h); the driver is asked besides, since memory
 * can be the driver's without our having seen how. A getter each, which the driver answers from a table.
 */
#include "call.h"
#include "driver/driver.h"
#include "emit/record.h"
#include "rewrite/staging.h"
#include "state/place.h"

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
	return type == CU_MEMORYTYPE_DEVICE && !(managed & 0xff) && ordinal == device &&
	       !(sync_memops & 0xff) && address >= start && address - start < size &&
	       size - (address - start) >= span;
}

const char *staging_memory_objection(const struct call *call, const struct staging *staging)
{
	uint64_t host = (uintptr_t)staging->copy.host;
	int device = state_device(call);
	unsigned int flags = CU_CTX_SYNC_MEMOPS;
	CUdevice current;

	if (!driver.cuPointerGetAttribute || !driver.cuPointerGetAttributes)
		return "driver: it cannot be asked what memory lies where";
	if (!state_is_unknown_memory(host, staging->host_span) ||
	    !is_pageable_to_the_driver(host) ||
	    !is_pageable_to_the_driver(host + staging->host_span - 1))
		return not_pageable;
	/* Of a primary context they may have been set before it was there. */
	if (!driver.cuCtxGetFlags || driver.cuCtxGetFlags(&flags) != CUDA_SUCCESS ||
	    flags & CU_CTX_SYNC_MEMOPS)
		return "driver: SYNC_MEMOPS";
	if (device < 0) {
		if (!driver.cuCtxGetDevice || driver.cuCtxGetDevice(&current) != CUDA_SUCCESS)
			return not_plain;
		device = current;
	}
	if (!state_is_plain_device_memory(staging->copy.device, staging->device_span) ||
	    !is_plain_to_the_driver(device, staging->copy.device, staging->device_span))
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
