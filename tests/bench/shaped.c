// SPDX-License-Identifier: MIT
/*
 * Shaped copies (shaped.h). Called by copies.c.
 */
#include "shaped.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HOST_PITCH   (SHAPED_ROW + 192)
#define DEVICE_PITCH (SHAPED_ROW + 256)

static struct {
	CUresult (*copy_2d)(const CUDA_MEMCPY2D *);
	CUresult (*copy_2d_async)(const CUDA_MEMCPY2D *, CUstream);
	CUresult (*copy_3d)(const CUDA_MEMCPY3D *);
	CUresult (*copy_3d_async)(const CUDA_MEMCPY3D *, CUstream);
} by[SIDES];

static void *find(int which, bool control, const char *name)
{
	void *address;

	if (which == RAW || control)
		return sides_raw_symbol(name);
	address = dlsym(side[WRAPPED].library, name);
	if (address)
		return address;
	fprintf(stderr, "no %s\n", name);
	exit(1);
}

void shaped_open(bool control)
{
	for (int which = 0; which < SIDES; which++) {
		by[which].copy_2d = find(which, control, "cuMemcpy2D_v2");
		by[which].copy_2d_async = find(which, control, "cuMemcpy2DAsync_v2");
		by[which].copy_3d = find(which, control, "cuMemcpy3D_v2");
		by[which].copy_3d_async = find(which, control, "cuMemcpy3DAsync_v2");
	}
}

static size_t planes_of(const struct shaped *shaped)
{
	return shaped->dimensions == 3 ? SHAPED_PLANES : 1;
}

/* Of a plane. */
static size_t rows_of(const struct shaped *shaped)
{
	return shaped->bytes / SHAPED_ROW / planes_of(shaped);
}

size_t shaped_span(const struct shaped *shaped)
{
	return planes_of(shaped) * (rows_of(shaped) + 1) * DEVICE_PITCH;
}

static CUDA_MEMCPY3D describe(const struct shaped *shaped, char *host, CUdeviceptr device)
{
	size_t height = rows_of(shaped) + 1;
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = SHAPED_ROW, .Height = rows_of(shaped), .Depth = planes_of(shaped)};

	if (shaped->to_device) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST;
		copy.srcHost = host;
		copy.srcPitch = HOST_PITCH;
		copy.srcHeight = height;
		copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.dstDevice = device;
		copy.dstPitch = DEVICE_PITCH;
		copy.dstHeight = height;
	} else {
		copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
		copy.srcDevice = device;
		copy.srcPitch = DEVICE_PITCH;
		copy.srcHeight = height;
		copy.dstMemoryType = CU_MEMORYTYPE_HOST;
		copy.dstHost = host;
		copy.dstPitch = HOST_PITCH;
		copy.dstHeight = height;
	}
	return copy;
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *copy)
{
	return (CUDA_MEMCPY2D){.WidthInBytes = copy->WidthInBytes,
			       .Height = copy->Height,
			       .srcMemoryType = copy->srcMemoryType,
			       .srcHost = copy->srcHost,
			       .srcDevice = copy->srcDevice,
			       .srcPitch = copy->srcPitch,
			       .dstMemoryType = copy->dstMemoryType,
			       .dstHost = copy->dstHost,
			       .dstDevice = copy->dstDevice,
			       .dstPitch = copy->dstPitch};
}

void shaped_copy(int which, const struct shaped *shaped, bool async, char *host, CUdeviceptr device,
		 CUstream stream)
{
	CUDA_MEMCPY3D copy = describe(shaped, host, device);
	CUDA_MEMCPY2D plane = flat(&copy);

	if (shaped->dimensions == 2)
		sides_check(async ? by[which].copy_2d_async(&plane, stream)
				  : by[which].copy_2d(&plane),
			    "cuMemcpy2D");
	else
		sides_check(async ? by[which].copy_3d_async(&copy, stream)
				  : by[which].copy_3d(&copy),
			    "cuMemcpy3D");
}

bool shaped_same(const struct shaped *shaped, const char *one, const char *other)
{
	size_t rows = rows_of(shaped), planes = planes_of(shaped), at;

	for (size_t plane = 0; plane < planes; plane++)
		for (size_t row = 0; row < rows; row++) {
			at = (plane * (rows + 1) + row) * HOST_PITCH;
			if (memcmp(one + at, other + at, SHAPED_ROW) != 0)
				return false;
		}
	return true;
}
