// SPDX-License-Identifier: MIT
/*
 * Kinds of memory by address, and first uses of kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/place.h"
#include "state/state.h"

static struct call call;

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	state_before(&call);
	return 0;
}

static enum memory_kind kind_at(uint64_t address)
{
	const uint64_t addresses[] = {0, address};
	enum memory_kind kinds[2];

	memory_look_up(addresses, kinds);
	assert_int_equal(kinds[0], MEMORY_NONE);
	return kinds[1];
}

static void test_interior_pointers(void **state)
{
	state_allocated(&call, MEMORY_DEVICE, 0x10000, 0x1000);
	state_allocated(&call, MEMORY_PINNED, 0x11000, 0x10);
	state_host_registered(&call, (void *)0x20000, 0x1000);
	assert_int_equal(kind_at(0x10000), MEMORY_DEVICE);
	assert_int_equal(kind_at(0x10fff), MEMORY_DEVICE);
	assert_int_equal(kind_at(0x11000), MEMORY_PINNED);
	assert_int_equal(kind_at(0x11010), MEMORY_NONE);
	assert_int_equal(kind_at(0xffff), MEMORY_NONE);
	assert_int_equal(kind_at(0x20fff), MEMORY_REGISTERED);
	assert_int_equal(kind_at(UINT64_MAX), MEMORY_NONE);
	state_allocated(&call, MEMORY_DEVICE, 0x30000, 0);
	assert_int_equal(kind_at(0x30000), MEMORY_NONE);
}

/* The driver took it, so the first one ended out of our sight: the second says what is there now. */
static void test_registered_twice(void **state)
{
	struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);
	struct emit_allocation found[4];

	state_host_registered(&call, (void *)0x20000, 0x1000);
	state_host_registered(&call, (void *)0x20000, 0x2000);
	assert_int_equal(kind_at(0x21800), MEMORY_REGISTERED);
	assert_int_equal(state_open_allocations(0, found, 4), 1);
	assert_int_equal(found[0].bytes, 0x2000);
	/* One that lies over the end of another, too. */
	state_host_registered(&call, (void *)0x21000, 0x2000);
	assert_int_equal(kind_at(0x20800), MEMORY_NONE);
	assert_int_equal(kind_at(0x22800), MEMORY_REGISTERED);
	assert_int_equal(state_open_allocations(0, found, 4), 1);
	state_before(&free_call);
	state_freeing(&free_call, 0x21000);
	assert_int_equal(free_call.bytes, 0x2000);
	assert_int_equal(kind_at(0x22800), MEMORY_NONE);
	assert_int_equal(state_open_allocations(0, found, 4), 0);
}

/* The kind is that of the first byte, as for the driver; what follows is its to refuse. */
static void test_copy_across_registered(void **state)
{
	static const struct {
		uint64_t source;
		enum memory_kind kind;
	} copies[] = {
		{0x1f800, MEMORY_PAGEABLE},
		{0x20000, MEMORY_REGISTERED},
		{0x20800, MEMORY_REGISTERED},
		{0x21000, MEMORY_PAGEABLE},
	};

	state_host_registered(&call, (void *)0x20000, 0x1000);
	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
		struct call copy = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);

		copy.source = copies[i].source;
		copy.bytes = 0x1000;
		copy.flags = CALL_SOURCE_HOST;
		state_before(&copy);
		assert_int_equal(copy.source_kind, copies[i].kind);
	}
}

static void test_operands(void **state)
{
	struct call copy = world_call(FUNCTION_cuMemcpyHtoDAsync_v2, STREAM(1));

	state_allocated(&call, MEMORY_PINNED, 0x10000, 0x1000);
	copy.source = 0x10800;
	copy.destination = 0x99000;
	copy.flags = CALL_SOURCE_HOST;
	state_before(&copy);
	assert_int_equal(copy.source_kind, MEMORY_PINNED);
	/* A device pointer that nobody saw allocated is not taken for host memory. */
	assert_int_equal(copy.destination_kind, MEMORY_UNKNOWN);
	copy.source = 0x50000;
	copy.destination = 0;
	copy.destination_kind = MEMORY_ARRAY;
	state_before(&copy);
	assert_int_equal(copy.source_kind, MEMORY_PAGEABLE);
	assert_int_equal(copy.destination_kind, MEMORY_ARRAY);
}

/* The address is another thread's before the free returns. */
static void test_address_given_again_during_free(void **state)
{
	struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);

	state_allocated(&call, MEMORY_DEVICE, 0x10000, 0x1000);
	state_before(&free_call);
	state_freeing(&free_call, 0x10000);
	assert_int_equal(free_call.bytes, 0x1000);
	state_allocated(&call, MEMORY_MANAGED, 0x10000, 0x2000);
	state_freed(&free_call, CUDA_SUCCESS);
	state_after(&free_call, CUDA_SUCCESS);
	assert_int_equal(kind_at(0x10000), MEMORY_MANAGED);
	assert_int_equal(kind_at(0x11800), MEMORY_MANAGED);
}

static void test_refused_free(void **state)
{
	struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);

	state_allocated(&call, MEMORY_DEVICE, 0x10000, 0x1000);
	state_sync_memops(&call, 0x10010);
	state_before(&free_call);
	/* Not the block's start: the driver will refuse it, and nothing is taken out. */
	state_freeing(&free_call, 0x10800);
	assert_int_equal(kind_at(0x10800), MEMORY_DEVICE);
	state_freed(&free_call, CUDA_ERROR_INVALID_VALUE);
	state_freeing(&free_call, 0x10000);
	assert_int_equal(kind_at(0x10800), MEMORY_NONE);
	state_freed(&free_call, CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(kind_at(0x10800), MEMORY_DEVICE);
	struct call copy = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);

	copy.destination = 0x10800;
	state_before(&copy);
	assert_true(copy.flags & CALL_SYNC_MEMOPS);
}

static void test_sync_memops_of_context(void **state)
{
	struct call copy = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);

	state_before(&copy);
	assert_false(copy.flags & CALL_SYNC_MEMOPS);
	state_sync_memops(&call, 0);
	state_before(&copy);
	assert_true(copy.flags & CALL_SYNC_MEMOPS);
}

/* A context that had the flag when it was made, in sight or out of it. */
static void test_sync_memops_of_new_context(void **state)
{
	struct call copy = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);

	state_context_flags(&call, (CUcontext)(uintptr_t)2, CU_CTX_SCHED_AUTO);
	state_context_flags(&call, (CUcontext)(uintptr_t)3, CU_CTX_SYNC_MEMOPS);
	world_context = 2;
	state_before(&copy);
	assert_false(copy.flags & CALL_SYNC_MEMOPS);
	world_context = 3;
	state_before(&copy);
	assert_true(copy.flags & CALL_SYNC_MEMOPS);
	copy.flags = 0;
	world_context = 4;
	world_context_flags = CU_CTX_SYNC_MEMOPS;
	state_before(&copy);
	assert_true(copy.flags & CALL_SYNC_MEMOPS);
}

/*
 * A block of another process: its range is the driver's answer; an address without one stays
 * unknown.
 */
static void test_mapped(void **state)
{
	const uint64_t block = UINT64_C(5) << 40;

	state_mapped(&call, MEMORY_POOL, block + 0x100);
	assert_int_equal(kind_at(block), MEMORY_POOL);
	assert_int_equal(kind_at(block + 0xffff), MEMORY_POOL);
	assert_int_equal(kind_at(block + 0x10000), MEMORY_NONE);
	state_mapped(&call, MEMORY_DEVICE, 0x5000);
	assert_int_equal(kind_at(0x5000), MEMORY_NONE);
}

/* Against a plain array that a byte each stands for 16. */
static void test_random_ranges(void **state)
{
	enum { CELLS = 4096, ROUNDS = 30000 };
	static uint8_t model[CELLS];
	static uint16_t size[CELLS];
	unsigned int seed = (unsigned int)time(NULL);
	uint64_t base = UINT64_C(0x7f0000000000);
	unsigned int i, at, cells, j;

	print_message("seed %u\n", seed);
	srandom(seed);
	for (i = 0; i < ROUNDS; i++) {
		at = (unsigned int)random() % CELLS;
		if (size[at] && random() % 2) {
			struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);

			state_freeing(&free_call, base + at * 16);
			memset(&model[at], 0, size[at]);
			size[at] = 0;
		} else {
			/* Over whatever stands there: those frees were not seen. */
			cells = 1 + (unsigned int)random() % 12;
			if (at + cells > CELLS)
				continue;
			for (j = at > 12 ? at - 12 : 0; j < at + cells; j++) {
				if (size[j] && j + size[j] > at) {
					memset(&model[j], 0, size[j]);
					size[j] = 0;
				}
			}
			memset(&model[at], MEMORY_PINNED + i % 5, cells);
			size[at] = (uint16_t)cells;
			state_allocated(&call, MEMORY_PINNED + i % 5, base + at * 16, cells * 16);
		}
		if (i % 1000 == 0 || i == ROUNDS - 1)
			for (j = 0; j < CELLS; j++)
				assert_int_equal(kind_at(base + j * 16 + i % 16), model[j]);
	}
}

static void test_many_ranges(void **state)
{
	uint64_t i, count = 200000;

	for (i = 0; i < count; i++)
		state_allocated(&call, MEMORY_DEVICE, (i * 7919 % count + 1) * 4096, 4096);
	for (i = 1; i <= count; i += 97)
		assert_int_equal(kind_at(i * 4096 + 17), MEMORY_DEVICE);
	assert_int_equal(kind_at((count + 1) * 4096), MEMORY_NONE);
}

static bool is_first_use(uint64_t function)
{
	struct call launch = world_call(FUNCTION_cuLaunchKernel, STREAM(1));
	bool first;

	launch.subject = function;
	state_before(&launch);
	first = launch.flags & CALL_FIRST_USE;
	state_after(&launch, CUDA_SUCCESS);
	return first;
}

static void test_first_use(void **state)
{
	struct call launch = world_call(FUNCTION_cuLaunchKernel, STREAM(1));

	state_function_named(&call, (CUfunction)KERNEL(0), "saxpy");
	/* A launch that failed loaded nothing for certain. */
	launch.subject = KERNEL(0);
	state_before(&launch);
	assert_true(launch.flags & CALL_FIRST_USE);
	assert_int_equal(launch.name, emit_string("saxpy", 5));
	state_after(&launch, CUDA_ERROR_INVALID_VALUE);
	assert_true(is_first_use(KERNEL(0)));
	assert_false(is_first_use(KERNEL(0)));
	assert_true(is_first_use(KERNEL(1)));
	assert_false(is_first_use(KERNEL(0)));
	assert_false(is_first_use(KERNEL(1)));
	/* Asked for again: the same function. */
	state_function_named(&call, (CUfunction)KERNEL(0), "saxpy");
	assert_false(is_first_use(KERNEL(0)));
	/* The handle is another function's now. */
	state_function_named(&call, (CUfunction)KERNEL(0), "copy");
	assert_true(is_first_use(KERNEL(0)));
	/* The same name, loaded again. */
	state_module_unloading(&call);
	state_function_named(&call, (CUfunction)KERNEL(0), "copy");
	assert_true(is_first_use(KERNEL(0)));
	assert_false(is_first_use(KERNEL(0)));
}

static void test_function_of_kernel(void **state)
{
	struct call launch = world_call(FUNCTION_cuLaunchKernel, STREAM(1));

	state_kernel_named(&call, (CUkernel)KERNEL(7), "hash");
	state_kernel_function(&call, (CUfunction)KERNEL(8), (CUkernel)KERNEL(7));
	launch.subject = KERNEL(8);
	state_before(&launch);
	assert_int_equal(launch.name, emit_string("hash", 4));
}

#define BOTH (SIDES_HOST_UNKNOWN | SIDES_DEVICE_PLAIN)

/* What is remembered of a pair of addresses goes with whatever changes it. Each is looked at twice: asked, and remembered. */
static void expect_sides(uint64_t host, uint64_t device, uint64_t bytes, uint32_t expected)
{
	const uint64_t addresses[] = {host, device};
	enum memory_kind kinds[2];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		memory_look_up(addresses, kinds);
		assert_int_equal(state_sides(host, bytes, device, bytes, 3), expected);
		assert_int_equal(state_sides(host, bytes, device, bytes, 3), expected);
	}
}

static void test_sides(void **state)
{
	const uint64_t device = 0x10000, host = 0x50000;
	struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);

	expect_sides(host, device, 0x100, SIDES_HOST_UNKNOWN);
	state_allocated(&call, MEMORY_DEVICE, device, 0x1000);
	expect_sides(host, device, 0x100, BOTH);
	/* More bytes than the block has, and as many as it has. */
	expect_sides(host, device, 0x1001, SIDES_HOST_UNKNOWN);
	expect_sides(host, device, 0x1000, BOTH);
	expect_sides(host, device + 1, 0x1000, SIDES_HOST_UNKNOWN);
	/* Of all of the block, on this device only; not of more than was told of. */
	state_device_asked(device, device, 0xfff, 3);
	expect_sides(host, device, 0x100, BOTH);
	state_device_asked(device, device, 0x1000, 2);
	expect_sides(host, device, 0x100, BOTH);
	state_device_asked(device, device, 0x1000, 3);
	expect_sides(host, device, 0x100, BOTH | SIDES_DEVICE_ASKED);
	assert_int_equal(state_sides(host, 0x100, device, 0x100, 2), BOTH);
	/* In the middle of the host's bytes. */
	state_host_registered(&call, (void *)(host + 0x80), 0x10);
	expect_sides(host, device, 0x100, SIDES_DEVICE_PLAIN | SIDES_DEVICE_ASKED);
	expect_sides(host, device, 0x80, BOTH | SIDES_DEVICE_ASKED);
	state_freeing(&free_call, host + 0x80);
	expect_sides(host, device, 0x100, BOTH | SIDES_DEVICE_ASKED);
	/* The short way's. */
	state_pinned_begins(host + 0x80, 0x10);
	expect_sides(host, device, 0x100, SIDES_DEVICE_PLAIN | SIDES_DEVICE_ASKED);
	state_pinned_ends(host + 0x80);
	expect_sides(host, device, 0x100, BOTH | SIDES_DEVICE_ASKED);
	/* A block that is freed, and its place given anew: nobody has been asked. */
	state_freeing(&free_call, device);
	expect_sides(host, device, 0x100, SIDES_HOST_UNKNOWN);
	state_allocated(&call, MEMORY_DEVICE, device, 0x1000);
	expect_sides(host, device, 0x100, BOTH);
	state_device_asked(device, device, 0x1000, 3);
	/* A free that failed, and SYNC_MEMOPS. */
	state_freeing(&free_call, device);
	state_freed(&free_call, CUDA_ERROR_INVALID_VALUE);
	expect_sides(host, device, 0x100, BOTH);
	state_sync_memops(&call, device);
	expect_sides(host, device, 0x100, SIDES_HOST_UNKNOWN);
}

static void test_remembered_kinds(void **state)
{
	struct call free_call = world_call(FUNCTION_cuMemFree_v2, NULL);
	const uint64_t addresses[] = {0x50000, 0x10000};
	const uint64_t swapped[] = {0x10000, 0x50000};
	enum memory_kind kinds[2];

	state_allocated(&call, MEMORY_DEVICE, 0x10000, 0x1000);
	assert_false(memory_look_up(addresses, kinds));
	assert_int_equal(kinds[1], MEMORY_DEVICE);
	/* The same line, the other way round. */
	assert_false(memory_look_up(swapped, kinds));
	assert_int_equal(kinds[0], MEMORY_DEVICE);
	assert_int_equal(kinds[1], MEMORY_NONE);
	state_sync_memops(&call, 0x10000);
	assert_true(memory_look_up(swapped, kinds));
	assert_true(memory_look_up(swapped, kinds));
	state_freeing(&free_call, 0x10000);
	assert_false(memory_look_up(swapped, kinds));
	assert_int_equal(kinds[0], MEMORY_NONE);
	state_allocated(&call, MEMORY_MANAGED, 0x10000, 0x10);
	assert_false(memory_look_up(swapped, kinds));
	assert_int_equal(kinds[0], MEMORY_MANAGED);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, begin)
	const struct CMUnitTest tests[] = {
		TEST(sides),
		TEST(remembered_kinds),
		TEST(interior_pointers),
		TEST(registered_twice),
		TEST(copy_across_registered),
		TEST(operands),
		TEST(address_given_again_during_free),
		TEST(refused_free),
		TEST(sync_memops_of_context),
		TEST(sync_memops_of_new_context),
		TEST(mapped),
		TEST(random_ranges),
		TEST(many_ranges),
		TEST(first_use),
		TEST(function_of_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
