// SPDX-License-Identifier: MIT
/* The driver's structures as the kernel's part reads them, held against cuda.h when this is compiled. */
#include <stddef.h>

#include <cuda.h>

#include "watch_record.h"

#define SAME(ours, member, theirs, field)                                                          \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, field), #theirs "." #field)

SAME(copy_2d, source_x, CUDA_MEMCPY2D, srcXInBytes);
SAME(copy_2d, source_y, CUDA_MEMCPY2D, srcY);
SAME(copy_2d, source_type, CUDA_MEMCPY2D, srcMemoryType);
SAME(copy_2d, source_host, CUDA_MEMCPY2D, srcHost);
SAME(copy_2d, source_device, CUDA_MEMCPY2D, srcDevice);
SAME(copy_2d, source_pitch, CUDA_MEMCPY2D, srcPitch);
SAME(copy_2d, destination_x, CUDA_MEMCPY2D, dstXInBytes);
SAME(copy_2d, destination_y, CUDA_MEMCPY2D, dstY);
SAME(copy_2d, destination_type, CUDA_MEMCPY2D, dstMemoryType);
SAME(copy_2d, destination_host, CUDA_MEMCPY2D, dstHost);
SAME(copy_2d, destination_device, CUDA_MEMCPY2D, dstDevice);
SAME(copy_2d, destination_pitch, CUDA_MEMCPY2D, dstPitch);
SAME(copy_2d, width, CUDA_MEMCPY2D, WidthInBytes);
SAME(copy_2d, height, CUDA_MEMCPY2D, Height);

#define SAME_3D(theirs)                                                                            \
	SAME(copy_3d, source_x, theirs, srcXInBytes);                                              \
	SAME(copy_3d, source_y, theirs, srcY);                                                     \
	SAME(copy_3d, source_z, theirs, srcZ);                                                     \
	SAME(copy_3d, source_type, theirs, srcMemoryType);                                         \
	SAME(copy_3d, source_host, theirs, srcHost);                                               \
	SAME(copy_3d, source_device, theirs, srcDevice);                                           \
	SAME(copy_3d, source_pitch, theirs, srcPitch);                                             \
	SAME(copy_3d, source_height, theirs, srcHeight);                                           \
	SAME(copy_3d, destination_x, theirs, dstXInBytes);                                         \
	SAME(copy_3d, destination_y, theirs, dstY);                                                \
	SAME(copy_3d, destination_z, theirs, dstZ);                                                \
	SAME(copy_3d, destination_type, theirs, dstMemoryType);                                    \
	SAME(copy_3d, destination_host, theirs, dstHost);                                          \
	SAME(copy_3d, destination_device, theirs, dstDevice);                                      \
	SAME(copy_3d, destination_pitch, theirs, dstPitch);                                        \
	SAME(copy_3d, destination_height, theirs, dstHeight);                                      \
	SAME(copy_3d, width, theirs, WidthInBytes);                                                \
	SAME(copy_3d, height, theirs, Height);                                                     \
	SAME(copy_3d, depth, theirs, Depth)

SAME_3D(CUDA_MEMCPY3D);
SAME_3D(CUDA_MEMCPY3D_PEER);

/* For the kernel's enumeration of memory types. */
_Static_assert(CU_MEMORYTYPE_HOST == 1 && CU_MEMORYTYPE_DEVICE == 2 && CU_MEMORYTYPE_ARRAY == 3 &&
		       CU_MEMORYTYPE_UNIFIED == 4,
	       "memory types");
