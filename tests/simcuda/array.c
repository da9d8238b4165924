// SPDX-License-Identifier: MIT
/*
 * CUDA arrays: device memory with rows at a pitch. Owns: create, destroy, descriptors. Called by:
 * exports.c, copy.c.
 */
#include "sim.h"

struct sim_array {
	struct sim_object object;
	struct sim_allocation *allocation;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	size_t pitch, height;
};

bool sim_array_layout(CUarray handle, uint64_t *ret_base, size_t *ret_pitch, size_t *ret_height)
{
	struct sim_array *array = sim_object_check(handle, SIM_ARRAY);

	if (!array)
		return false;
	*ret_base = array->allocation->address;
	*ret_pitch = array->pitch;
	*ret_height = array->height;
	return true;
}

static size_t element_size(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
	case 0xc2: /* CU_AD_FORMAT_UNORM_INT8X4, which older headers lack */
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

CUresult impl_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	struct sim_context *context;
	struct sim_array *array;
	CUresult result = sim_context_current(&context);
	size_t width, height, depth;

	if (result)
		return result;
	if (!pHandle || !descriptor || !descriptor->Width || !element_size(descriptor->Format) ||
	    (descriptor->NumChannels != 1 && descriptor->NumChannels != 2 &&
	     descriptor->NumChannels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	width = descriptor->Width * element_size(descriptor->Format) * descriptor->NumChannels;
	height = descriptor->Height ? descriptor->Height : 1;
	depth = descriptor->Depth ? descriptor->Depth : 1;
	array = sim_object_new(SIM_ARRAY);
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->pitch = (width + 511) & ~(size_t)511;
	array->height = height;
	array->descriptor = *descriptor;
	result = sim_memory_device_new(context, array->pitch * height * depth, 0,
				       &array->allocation);
	if (result) {
		sim_object_free(array);
		return result;
	}
	array->allocation->array = true;
	*pHandle = (CUarray)array;
	return CUDA_SUCCESS;
}

CUresult impl_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	wide = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = pAllocateArray->Width,
		.Height = pAllocateArray->Height,
		.Format = pAllocateArray->Format,
		.NumChannels = pAllocateArray->NumChannels,
	};
	return impl_cuArray3DCreate_v2(pHandle, &wide);
}

CUresult impl_cuArrayDestroy(CUarray hArray)
{
	struct sim_array *array = sim_object_check(hArray, SIM_ARRAY);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_wait_device(array->allocation->device);
	sim_memory_device_free(array->allocation);
	sim_object_free(array);
	return CUDA_SUCCESS;
}

CUresult impl_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray hArray)
{
	struct sim_array *array = sim_object_check(hArray, SIM_ARRAY);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!descriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*descriptor = array->descriptor;
	return CUDA_SUCCESS;
}

CUresult impl_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray hArray)
{
	struct sim_array *array = sim_object_check(hArray, SIM_ARRAY);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!descriptor)
		return CUDA_ERROR_INVALID_VALUE;
	descriptor->Width = array->descriptor.Width;
	descriptor->Height = array->descriptor.Height;
	descriptor->Format = array->descriptor.Format;
	descriptor->NumChannels = array->descriptor.NumChannels;
	return CUDA_SUCCESS;
}
