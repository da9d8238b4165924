// SPDX-License-Identifier: MIT
/* The operand macros that rows name: right values for each structure, and NULL and empty input
 * harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define __CUDA_API_VERSION_INTERNAL 1 /* as the wrappers: the first versions' structures too */
#include "entry/operands.h"

#define HOST   ((void *)0x10000)
#define DEVICE 0x7000000000u

static void test_2d(void **state)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = HOST,
		.srcPitch = 256,
		.srcY = 3,
		.srcXInBytes = 5,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = 0x7000,
		.dstPitch = 512,
		.dstY = 2,
		.dstXInBytes = 7,
		.WidthInBytes = 100,
		.Height = 9,
	};
	const CUDA_MEMCPY2D *none = NULL;

	assert_int_equal(OPERAND_SOURCE_2D(&copy), 0x10000 + 3 * 256 + 5);
	assert_int_equal(OPERAND_DESTINATION_2D(&copy), 0x7000 + 2 * 512 + 7);
	assert_int_equal(OPERAND_BYTES_2D(&copy), 900);
	copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.srcDevice = 0x9000;
	assert_int_equal(OPERAND_SOURCE_2D(&copy), 0x9000 + 3 * 256 + 5);
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	assert_int_equal(OPERAND_SOURCE_2D(&copy), 0);
	copy.srcMemoryType = (CUmemorytype)77;
	assert_int_equal(OPERAND_SOURCE_2D(&copy), 0);
	copy.dstDevice = 0;
	assert_int_equal(OPERAND_DESTINATION_2D(&copy), 0);
	copy.WidthInBytes = (size_t)1 << 40;
	assert_true(OPERAND_BYTES_2D(&copy) == (uint64_t)9 << 40);
	assert_int_equal(OPERAND_SOURCE_2D(none), 0);
	assert_int_equal(OPERAND_DESTINATION_2D(none), 0);
	assert_int_equal(OPERAND_BYTES_2D(none), 0);
}

/* The first version's fields are 32 bits wide: their products must not be. */
static void test_2d_first_version(void **state)
{
	CUDA_MEMCPY2D_v1 copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = HOST,
		.srcPitch = 0x80000000u,
		.srcY = 4,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = 0x7000,
		.WidthInBytes = 0x80000000u,
		.Height = 4,
	};

	assert_true(OPERAND_SOURCE_2D(&copy) == 0x10000 + ((uint64_t)4 << 31));
	assert_int_equal(OPERAND_DESTINATION_2D(&copy), 0x7000);
	assert_true(OPERAND_BYTES_2D(&copy) == (uint64_t)4 << 31);
}

static void test_3d(void **state)
{
	CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = DEVICE,
		.srcPitch = 64,
		.srcHeight = 10,
		.srcZ = 2,
		.srcY = 1,
		.srcXInBytes = 3,
		.dstMemoryType = CU_MEMORYTYPE_HOST,
		.dstHost = HOST,
		.dstPitch = 32,
		.dstHeight = 4,
		.dstZ = 1,
		.WidthInBytes = 8,
		.Height = 3,
		.Depth = 2,
	};
	CUDA_MEMCPY3D_PEER peer = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = DEVICE,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = DEVICE + 64,
		.srcContext = (CUcontext)0x11,
		.dstContext = (CUcontext)0x22,
		.WidthInBytes = 8,
		.Height = 1,
		.Depth = 1,
	};
	const CUDA_MEMCPY3D_PEER *none = NULL;

	assert_true(OPERAND_SOURCE_3D(&copy) == DEVICE + (2 * 10 + 1) * 64 + 3);
	assert_int_equal(OPERAND_DESTINATION_3D(&copy), 0x10000 + 4 * 32);
	assert_int_equal(OPERAND_BYTES_3D(&copy), 48);
	assert_true(OPERAND_SOURCE_3D(&peer) == DEVICE);
	assert_true(OPERAND_DESTINATION_3D(&peer) == DEVICE + 64);
	assert_ptr_equal(OPERAND_PEER_FROM_3D(&peer), (void *)0x11);
	assert_ptr_equal(OPERAND_PEER_TO_3D(&peer), (void *)0x22);
	assert_int_equal(OPERAND_SOURCE_3D(none), 0);
	assert_int_equal(OPERAND_DESTINATION_3D(none), 0);
	assert_int_equal(OPERAND_BYTES_3D(none), 0);
	assert_null(OPERAND_PEER_FROM_3D(none));
	assert_null(OPERAND_PEER_TO_3D(none));
}

static void test_batches(void **state)
{
	CUdeviceptr addresses[2] = {0x100, 0x200};
	size_t sizes[3] = {10, 20, 30};
	CUdeviceptr *no_addresses = NULL;
	size_t *no_sizes = NULL;
	CUDA_MEMCPY3D_BATCH_OP operations[1];
	CUDA_MEMCPY3D_BATCH_OP *no_operations = NULL;

	assert_int_equal(OPERAND_BATCH_FIRST(addresses, 2), 0x100);
	assert_int_equal(OPERAND_BATCH_FIRST(addresses, 0), 0);
	assert_int_equal(OPERAND_BATCH_FIRST(no_addresses, 2), 0);
	assert_int_equal(OPERAND_BATCH_BYTES(sizes, 3), 60);
	assert_int_equal(OPERAND_BATCH_BYTES(sizes, 0), 0);
	assert_int_equal(OPERAND_BATCH_BYTES(no_sizes, 3), 0);
	memset(operations, 0, sizeof(operations));
	operations[0].src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	operations[0].src.op.ptr.ptr = 0x300;
	operations[0].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	operations[0].dst.op.array.array = (CUarray)0x400;
	assert_int_equal(OPERAND_SOURCE_3D_BATCH(operations, 1), 0x300);
	assert_int_equal(OPERAND_DESTINATION_3D_BATCH(operations, 1), 0);
	assert_int_equal(OPERAND_SOURCE_3D_BATCH(operations, 0), 0);
	assert_int_equal(OPERAND_SOURCE_3D_BATCH(no_operations, 1), 0);
}

static void test_launches(void **state)
{
	CUlaunchAttribute attributes[3];
	CUlaunchConfig config;
	CUDA_LAUNCH_PARAMS list[1];
	const CUlaunchConfig *none = NULL;
	CUDA_LAUNCH_PARAMS *no_list = NULL;

	memset(attributes, 0, sizeof(attributes));
	memset(&config, 0, sizeof(config));
	memset(list, 0, sizeof(list));
	config.hStream = (CUstream)0x55;
	assert_ptr_equal(OPERAND_LAUNCH_STREAM(&config), (CUstream)0x55);
	assert_null(OPERAND_LAUNCH_STREAM(none));
	assert_null(OPERAND_LAUNCH_PROGRAMMATIC_EVENT(&config));
	assert_null(OPERAND_LAUNCH_PROGRAMMATIC_EVENT(none));
	config.numAttrs = 3; /* no list: the driver refuses that */
	assert_null(OPERAND_LAUNCH_COMPLETION_EVENT(&config));
	config.attrs = attributes;
	attributes[0].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
	attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
	attributes[1].value.programmaticEvent.event = (CUevent)0x66;
	attributes[2].id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
	attributes[2].value.launchCompletionEvent.event = (CUevent)0x77;
	assert_ptr_equal(OPERAND_LAUNCH_PROGRAMMATIC_EVENT(&config), (CUevent)0x66);
	assert_ptr_equal(OPERAND_LAUNCH_COMPLETION_EVENT(&config), (CUevent)0x77);
	config.numAttrs = 1;
	assert_null(OPERAND_LAUNCH_COMPLETION_EVENT(&config));
	list[0].hStream = (CUstream)0x88;
	list[0].function = (CUfunction)0x99;
	assert_ptr_equal(OPERAND_MULTI_LAUNCH_STREAM(list, 1u), (CUstream)0x88);
	assert_ptr_equal(OPERAND_MULTI_LAUNCH_FUNCTION(list, 1u), (CUfunction)0x99);
	assert_null(OPERAND_MULTI_LAUNCH_STREAM(list, 0u));
	assert_null(OPERAND_MULTI_LAUNCH_FUNCTION(no_list, 1u));
}

static void test_events_of_nodes(void **state)
{
	CUgraphNodeParams node;
	CUgraphNodeParams *none = NULL;

	memset(&node, 0, sizeof(node));
	node.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
	node.eventRecord.event = (CUevent)0x66;
	assert_ptr_equal(OPERAND_NODE_EVENT(&node), (CUevent)0x66);
	node.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
	assert_null(OPERAND_NODE_EVENT(&node));
	assert_null(OPERAND_NODE_EVENT(none));
}

static void test_sync_memops(void **state)
{
	unsigned int on = 1, off = 0;
	const void *none = NULL;

	assert_int_equal(OPERAND_SYNC_MEMOPS(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, &on, 0x100), 0x100);
	assert_true(OPERAND_SYNC_MEMOPS(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, &off, 0x100) ==
		    OPERAND_NOWHERE);
	assert_true(OPERAND_SYNC_MEMOPS(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, none, 0x100) ==
		    OPERAND_NOWHERE);
	assert_true(OPERAND_SYNC_MEMOPS(CU_POINTER_ATTRIBUTE_CONTEXT, &on, 0x100) ==
		    OPERAND_NOWHERE);
	assert_int_equal(OPERAND_CONTEXT_SYNC_MEMOPS(CU_CTX_SYNC_MEMOPS | CU_CTX_MAP_HOST), 0);
	assert_true(OPERAND_CONTEXT_SYNC_MEMOPS(CU_CTX_MAP_HOST) == OPERAND_NOWHERE);
}

static void test_pitch(void **state)
{
	size_t pitch = 512;
	size_t *none = NULL;

	assert_int_equal(OPERAND_PITCH(&pitch), 512);
	assert_int_equal(OPERAND_PITCH(none), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_2d),          cmocka_unit_test(test_2d_first_version),
		cmocka_unit_test(test_3d),          cmocka_unit_test(test_batches),
		cmocka_unit_test(test_launches),    cmocka_unit_test(test_events_of_nodes),
		cmocka_unit_test(test_sync_memops), cmocka_unit_test(test_pitch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
