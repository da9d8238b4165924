// SPDX-License-Identifier: MIT
/*
 * Cases: copies in two and three dimensions. The gaps between rows stay as they are, on both sides.
 */
#include "cases.h"

#include <string.h>

#define GAP 0xee

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *copy);

/* What is copied, in a larger whole on either side. */
struct shape {
	size_t width, height, depth;
	size_t host_pitch, host_height, device_pitch, device_height;
	size_t x, y, z; /* of the host's side; on the device half of them */
};

static size_t host_bytes(const struct shape *shape)
{
	return shape->host_pitch * shape->host_height * (shape->depth + shape->z);
}

static size_t device_bytes(const struct shape *shape)
{
	return shape->device_pitch * shape->device_height * (shape->depth + shape->z);
}

static unsigned char value_at(size_t x, size_t y, size_t z, unsigned int seed)
{
	return (unsigned char)((x * 7 + y * 13 + z * 29 + seed) % 200);
}

/* Writes the sub-box into the whole, or says whether it is there, with gaps all around. */
static bool visit(unsigned char *whole, size_t bytes, size_t pitch, size_t rows, size_t x0,
		  size_t y0, size_t z0, const struct shape *shape, unsigned int seed, bool write)
{
	unsigned char *wanted = malloc(bytes);
	bool same;

	memset(wanted, GAP, bytes);
	for (size_t z = 0; z < shape->depth; z++)
		for (size_t y = 0; y < shape->height; y++)
			for (size_t x = 0; x < shape->width; x++)
				wanted[((z0 + z) * rows + y0 + y) * pitch + x0 + x] =
					value_at(x, y, z, seed);
	same = memcmp(whole, wanted, bytes) == 0;
	if (write)
		memcpy(whole, wanted, bytes);
	free(wanted);
	return same;
}

static CUDA_MEMCPY3D describe(const struct shape *shape, void *host, CUdeviceptr device,
			      bool to_device, bool unified)
{
	CUDA_MEMCPY3D copy = {
		.WidthInBytes = shape->width, .Height = shape->height, .Depth = shape->depth};

#define SIDE(side, is_host)                                                                        \
	copy.side##MemoryType = unified     ? CU_MEMORYTYPE_UNIFIED                                \
				: (is_host) ? CU_MEMORYTYPE_HOST                                   \
					    : CU_MEMORYTYPE_DEVICE;                                \
	copy.side##Host = host;                                                                    \
	copy.side##Device = (is_host) && unified ? (uintptr_t)host : device;                       \
	copy.side##Pitch = (is_host) ? shape->host_pitch : shape->device_pitch;                    \
	copy.side##Height = (is_host) ? shape->host_height : shape->device_height;                 \
	copy.side##XInBytes = (is_host) ? shape->x : shape->x / 2;                                 \
	copy.side##Y = (is_host) ? shape->y : shape->y / 2;                                        \
	copy.side##Z = (is_host) ? shape->z : shape->z / 2
	SIDE(src, to_device);
	SIDE(dst, !to_device);
#undef SIDE
	return copy;
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *copy)
{
	return (CUDA_MEMCPY2D){
		.srcXInBytes = copy->srcXInBytes,
		.srcY = copy->srcY,
		.srcMemoryType = copy->srcMemoryType,
		.srcHost = copy->srcHost,
		.srcDevice = copy->srcDevice,
		.srcPitch = copy->srcPitch,
		.dstXInBytes = copy->dstXInBytes,
		.dstY = copy->dstY,
		.dstMemoryType = copy->dstMemoryType,
		.dstHost = (void *)copy->dstHost,
		.dstDevice = copy->dstDevice,
		.dstPitch = copy->dstPitch,
		.WidthInBytes = copy->WidthInBytes,
		.Height = copy->Height,
	};
}

static void run_copy(const CUDA_MEMCPY3D *copy, unsigned int form, CUstream stream)
{
	CUDA_MEMCPY2D plane = flat(copy);

	switch (form) {
	case 0:
		OK(cuMemcpy3D(copy));
		break;
	case 1:
		OK(cuMemcpy3DAsync(copy, stream));
		break;
	case 2:
		OK(cuMemcpy2D(&plane));
		break;
	case 3:
		OK(cuMemcpy2DUnaligned(&plane));
		break;
	case 4:
		OK(cuMemcpy2DAsync(&plane, stream));
		break;
	default:
		OK(cuMemcpy2D_v2_ptds(&plane));
	}
	OK(cuCtxSynchronize());
}

static void round_trip(const struct shape *shape, unsigned int form, bool unified, CUstream stream)
{
	unsigned char *host = malloc(host_bytes(shape)), *device_view;
	CUdeviceptr device = device_block(device_bytes(shape));
	CUDA_MEMCPY3D copy = describe(shape, host, device, true, unified);
	void *view;

	OK(cuMemAllocHost(&view, device_bytes(shape)));
	device_view = view;
	OK(cuMemsetD8(device, GAP, device_bytes(shape)));
	visit(host, host_bytes(shape), shape->host_pitch, shape->host_height, shape->x, shape->y,
	      shape->z, shape, form, true);
	run_copy(&copy, form, stream);
	OK(cuMemcpyDtoH(view, device, device_bytes(shape)));
	EXPECT(visit(device_view, device_bytes(shape), shape->device_pitch, shape->device_height,
		     shape->x / 2, shape->y / 2, shape->z / 2, shape, form, false));
	memset(host, GAP, host_bytes(shape));
	copy = describe(shape, host, device, false, unified);
	run_copy(&copy, form, stream);
	EXPECT(visit(host, host_bytes(shape), shape->host_pitch, shape->host_height, shape->x,
		     shape->y, shape->z, shape, form, false));
	OK(cuMemFree(device));
	OK(cuMemFreeHost(view));
	free(host);
}

static const struct shape planes[] = {
	{1000, 400, 1, 1024, 410, 1100, 405, 10, 4, 0},
	{1000, 400, 1, 1000, 400, 1000, 400, 0, 0, 0}, /* without gaps */
	{1000, 400, 1, 1000, 400, 1536, 400, 0, 0, 0},
	{7, 60000, 1, 9, 60000, 8, 60000, 1, 0, 0}, /* narrow */
	{3000000, 2, 1, 3000001, 3, 3000064, 3, 0, 1, 0},
};

static const struct shape boxes[] = {
	{300, 50, 30, 320, 60, 512, 55, 8, 6, 2},
	{300, 50, 30, 300, 50, 300, 50, 0, 0, 0},
	{300, 50, 30, 300, 50, 300, 60, 0, 0, 0},
	{64, 8, 900, 64, 9, 80, 8, 0, 1, 0},
};

/* Each plane by four forms in two descriptions, each box by two: 2 copies each. run.py counts them. */
static void shapes(void)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);

	for (unsigned int unified = 0; unified < 2; unified++) {
		for (size_t i = 0; i < sizeof(planes) / sizeof(planes[0]); i++)
			for (unsigned int form = 2; form < 6; form++)
				round_trip(&planes[i], form, unified, stream);
		for (size_t i = 0; i < sizeof(boxes) / sizeof(boxes[0]); i++)
			for (unsigned int form = 0; form < 2; form++)
				round_trip(&boxes[i], form, unified, stream);
	}
}

/* Larger than a chunk, with gaps. */
static void large_shapes(void)
{
	static const struct shape wide = {6000, 3000, 1, 6100, 3000, 6144, 3000, 10, 0, 0},
				  deep = {1000, 100, 200, 1100, 110, 1024, 120, 16, 2, 0};
	CUstream stream = new_stream(CU_STREAM_DEFAULT);

	round_trip(&wide, 2, false, stream);
	round_trip(&wide, 4, false, stream);
	round_trip(&deep, 0, false, stream);
	round_trip(&deep, 1, false, stream);
}

/* What no copy may be, or what only the driver knows. Nothing of it is staged. */
static void wrong_shapes(void)
{
	static const struct shape shape = {1000, 400, 1, 1024, 400, 1024, 400, 0, 0, 0};
	unsigned char *host = calloc(1, host_bytes(&shape) * 2);
	CUdeviceptr device = device_block(device_bytes(&shape));
	CUDA_ARRAY3D_DESCRIPTOR described = {.Width = 1024,
					     .Height = 400,
					     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					     .NumChannels = 1};
	CUDA_MEMCPY3D good = describe(&shape, host, device, true, false), copy;
	CUDA_MEMCPY2D plane = flat(&good);
	CUarray array;

	EXPECT(cuMemcpy2D(NULL) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemcpy3D(NULL) == CUDA_ERROR_INVALID_VALUE);
	plane.srcPitch = 999;
	EXPECT(cuMemcpy2D(&plane) == CUDA_ERROR_INVALID_VALUE);
	plane = flat(&good);
	plane.Height = 401; /* beyond the block's end */
	EXPECT(cuMemcpy2D(&plane) == CUDA_ERROR_INVALID_VALUE);
	plane.Height = 0;
	EXPECT(cuMemcpy2D(&plane) == CUDA_SUCCESS);
	copy = good;
	copy.dstHost = host;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST; /* host to host */
	OK(cuMemcpy3D(&copy));
	copy = good;
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	EXPECT(cuMemcpy3D(&copy) != CUDA_SUCCESS);
	OK(cuArray3DCreate(&array, &described));
	copy = good;
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = array;
	OK(cuMemcpy3D(&copy));
	copy = describe(&shape, host, device, false, false);
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = array;
	OK(cuMemcpy3D(&copy));
}

const struct named_case shape_cases[] = {
	{"shapes", shapes},
	{"large-shapes", large_shapes},
	{"wrong-shapes", wrong_shapes},
	{NULL, NULL},
};
