// SPDX-License-Identifier: MIT
/*
 * The short way of pinned memory on the fake driver: what it serves, what it leaves to the long way, and what state knows meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "fake/world.h"
#include "pool/magazine.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "rewrite/rewrite.h"
#include "rewrite/short.h"
#include "state/internal.h"
#include "state/proof.h"
#include "state/state.h"

#define BYTES 1000 /* of a class of 1024 */

static uint32_t made, freed;
/* All memory ever given out: none is given out twice, and it stays reachable. */
static void *blocks_made[256];
static uint32_t blocks_count;
static bool no_memory;
static unsigned long long contexts = 100;

static enum memory_kind kind_at(const void *address)
{
	const uint64_t addresses[] = {(uintptr_t)address, 0};
	enum memory_kind kinds[2];

	memory_look_up(addresses, kinds);
	return kinds[0];
}

static CUresult host_alloc(void **ret_address, size_t bytes, unsigned int flags)
{
	/* What the pool keeps in the flags of a key is not the driver's business. */
	assert_int_equal(flags, 0);
	if (no_memory) {
		no_memory = false;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	made++;
	*ret_address = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
	assert_true(blocks_count < 256);
	blocks_made[blocks_count++] = *ret_address;
	memset(*ret_address, 0xee, bytes);
	return CUDA_SUCCESS;
}

static bool was_made(const void *address)
{
	for (unsigned int i = 0; i < blocks_count; i++)
		if (blocks_made[i] == address)
			return true;
	return false;
}

static CUresult host_free(void *address)
{
	if (!was_made(address))
		return CUDA_ERROR_INVALID_VALUE;
	/* From here on the address may be anybody's. */
	assert_int_equal(kind_at(address), MEMORY_NONE);
	freed++;
	return CUDA_SUCCESS;
}

/* As a wrapper does, but for the short way. */
static unsigned char *long_alloc(size_t bytes)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;
	void *address = NULL;

	state_before(&call);
	if (!rewrite_host_alloc(&call, &result, &address, bytes, 0))
		result = host_alloc(&address, bytes, 0);
	assert_int_equal(result, CUDA_SUCCESS);
	state_allocated(&call, MEMORY_PINNED, (uintptr_t)address, bytes);
	state_after(&call, result);
	return address;
}

static CUresult long_free(void *block)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;

	call.subject = (uintptr_t)block;
	state_before(&call);
	state_freeing(&call, (uintptr_t)block);
	if (!rewrite_host_free(&call, &result, block))
		result = CUDA_ERROR_INVALID_HANDLE;
	state_freed(&call, result);
	state_after(&call, result);
	return result;
}

static void *short_alloc(size_t bytes)
{
	void *address = NULL;

	return short_host_alloc(0, &address, bytes, 0) ? address : NULL;
}

static int begin(void **state)
{
	static bool once;
	int result = world_begin(state);

	driver.cuMemHostAlloc = host_alloc;
	driver.cuMemFreeHost = host_free;
	config.mode = CONFIG_FIX;
	config.fix = CONFIG_FIX_PINNED;
	config.relax = CONFIG_RELAX_FREE;
	config.zero = CONFIG_ZERO_OFF;
	if (!once)
		rewrite_start();
	once = true;
	pool_start(POOL_PINNED, (uint64_t)1 << 30);
	/* A context of its own for each test: blocks of others are no matter. */
	world_context = ++contexts;
	made = freed = 0;
	return result;
}

/* A block in the magazine, and nothing else of its context. */
static unsigned char *kept_block(size_t bytes)
{
	unsigned char *block = long_alloc(bytes);

	assert_non_null(short_magazine);
	assert_int_equal(long_free(block), CUDA_SUCCESS);
	return block;
}

static void test_pair(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;
	uint64_t ids[4];

	for (int i = 0; i < 4; i++) {
		assert_int_equal(pool_look((uintptr_t)block, &found), POOL_READY);
		assert_ptr_equal(short_alloc(BYTES - (size_t)i), block);
		assert_int_equal(pool_look((uintptr_t)block, &found), POOL_LIVE);
		assert_int_equal(found.requested, BYTES - i);
		ids[i] = found.buffer_id;
		for (int j = 0; j < i; j++)
			assert_int_not_equal(ids[i], ids[j]);
		assert_null(short_alloc(BYTES));
		assert_true(short_host_free(0, block));
		assert_false(short_host_free(0, block));
		assert_int_equal(long_free(block), CUDA_ERROR_INVALID_VALUE);
	}
	assert_int_equal(made, 1);
	assert_false(short_host_free(0, block + 16));
	assert_false(short_host_free(0, NULL));
	assert_null(short_alloc(0));
	assert_null(short_alloc(SIZE_MAX));
	assert_false(short_host_alloc(0, NULL, BYTES, 0));
	assert_false(short_host_alloc(0, (void **)&block, BYTES, CU_MEMHOSTALLOC_WRITECOMBINED));
}

/* What the driver has is what state says of an address: kept blocks, those of a larger request, and none that the driver is to free. */
static void test_range(void **state)
{
	unsigned char *block = kept_block(BYTES);

	assert_ptr_equal(short_alloc(BYTES), block);
	assert_int_equal(kind_at(block + BYTES - 1), MEMORY_PINNED);
	assert_true(short_host_free(0, block));
	assert_int_equal(kind_at(block), MEMORY_PINNED);
	assert_ptr_equal(short_alloc(1024), block);
	assert_int_equal(kind_at(block + 1023), MEMORY_PINNED);
	assert_true(short_host_free(0, block));
	/* Freed the long way, given out the short way. */
	assert_ptr_equal(long_alloc(BYTES), block);
	assert_int_equal(long_free(block), CUDA_SUCCESS);
	assert_ptr_equal(short_alloc(BYTES), block);
	assert_int_equal(kind_at(block + BYTES - 1), MEMORY_PINNED);
	assert_true(short_host_free(0, block));
	/* All goes back: host_free() looks. */
	no_memory = true;
	long_alloc(64 * BYTES);
	assert_int_equal(freed, 1);
}

/* The same where the context ends: its memory is gone with it. */
static void test_range_ends(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;

	assert_ptr_equal(short_alloc(BYTES), block);
	assert_true(short_host_free(0, block));
	{
		struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);
		CUresult result;

		state_before(&call);
		state_context_destroying(&call, (CUcontext)(uintptr_t)world_context);
		assert_false(rewrite_context_ending(&call, &result));
		state_after(&call, CUDA_SUCCESS);
	}
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_NOT_OURS);
	assert_int_equal(kind_at(block), MEMORY_NONE);
	world_context += 1000;
	assert_null(short_alloc(BYTES));
	assert_int_equal(freed, 0);
}

static void test_open_allocations(void **state)
{
	unsigned char *first = kept_block(BYTES), *second;
	struct emit_allocation found[3];
	size_t count, have = 0;
	uint64_t after = 0;

	assert_ptr_equal(short_alloc(BYTES), first);
	second = long_alloc(BYTES);
	assert_true(short_host_free(0, first));
	/* In a larger allocation than before, and of one that is held: none of it is told. */
	do {
		count = rewrite_open_allocations(after, found, 3);
		for (size_t i = 0; i < count; i++) {
			after = found[i].address;
			assert_int_not_equal(after, (uintptr_t)first);
			if (after == (uintptr_t)second) {
				assert_int_equal(found[i].bytes, BYTES);
				have++;
			}
		}
	} while (count == 3);
	assert_int_equal(have, 1);
}

/* Beside work a free is short, too: the block is parked, and nobody has it before the work is known complete. */
static void test_parked(void **state)
{
	unsigned char *block = kept_block(BYTES);
	uint64_t parked = counts->parked, avoided = counts->waits_avoided;
	struct pool_block found;

	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	assert_ptr_equal(short_alloc(BYTES), block);
	world_launch(STREAM(0), KERNEL(0));
	assert_true(short_host_free(0, block));
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_PARKED);
	assert_true(counts->parked == parked + 1 && counts->waits_avoided == avoided + 1);
	assert_true(counts->held_bytes >= 1024);
	/* The driver has it pinned still. */
	assert_int_equal(kind_at(block + BYTES - 1), MEMORY_PINNED);
	assert_false(short_host_free(0, block));
	assert_int_equal(long_free(block), CUDA_ERROR_INVALID_VALUE);
	assert_null(short_alloc(BYTES));
	assert_ptr_not_equal(long_alloc(BYTES), block);
	world_synchronize(STREAM(0));
	assert_ptr_equal(long_alloc(BYTES), block);
	/* What is given back to the driver has no range: host_free() looks. */
	world_launch(STREAM(0), KERNEL(0));
	assert_true(short_host_free(0, block));
	world_synchronize(STREAM(0));
	no_memory = true;
	long_alloc(64 * BYTES);
	assert_int_equal(freed, 1);
}

/* With relax=order memory that was freed is none that the host could look into; what cannot be parked keeps its range. */
static void test_parked_with_order(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;

	config.relax |= CONFIG_RELAX_ORDER;
	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	assert_ptr_equal(short_alloc(BYTES), block);
	world_launch(STREAM(0), KERNEL(0));
	assert_true(short_host_free(0, block));
	assert_int_equal(kind_at(block), MEMORY_NONE);
	world_synchronize(STREAM(0));
	assert_ptr_equal(long_alloc(BYTES), block);
	assert_int_equal(kind_at(block), MEMORY_PINNED);
	world_launch(STREAM(0), KERNEL(0));
	world_context++;
	assert_false(short_host_free(0, block));
	world_context--;
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_LIVE);
	assert_int_equal(kind_at(block), MEMORY_PINNED);
	pool_mark_special((uintptr_t)block);
	assert_false(short_host_free(0, block));
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_LIVE);
	config.relax = CONFIG_RELAX_FREE;
	assert_false(short_host_free(0, block));
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_LIVE);
	world_synchronize(STREAM(0));
}

static void test_busy(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;

	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	assert_ptr_equal(short_alloc(BYTES), block);
	assert_true(short_host_free(0, block));
	/* What is kept was proven before: it is given out whatever works now. */
	world_launch(STREAM(0), KERNEL(0));
	assert_ptr_equal(short_alloc(BYTES), block);
	assert_int_equal(long_free(block), CUDA_SUCCESS);
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_PARKED);
	assert_null(short_alloc(BYTES));
	world_synchronize(STREAM(0));
}

static void *launch_elsewhere(void *data)
{
	world_context = *(unsigned long long *)data;
	for (int i = 0; i < 20; i++)
		world_launch(STREAM(1), KERNEL(1));
	return NULL;
}

static void test_busy_elsewhere(void **state)
{
	unsigned long long context = world_context;
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;
	pthread_t thread;

	world_create_stream(STREAM(1), CU_STREAM_NON_BLOCKING);
	assert_ptr_equal(short_alloc(BYTES), block);
	pthread_create(&thread, NULL, launch_elsewhere, &context);
	pthread_join(thread, NULL);
	assert_true(short_host_free(0, block));
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_PARKED);
	world_synchronize(STREAM(1));
}

static void test_capture(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);

	state_capture_beginning(&call);
	assert_null(short_alloc(BYTES));
	state_capture_began(&call, CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(short_alloc(BYTES), block);
	state_capture_beginning(&call);
	assert_false(short_host_free(0, block));
	state_capture_began(&call, CUDA_ERROR_INVALID_VALUE);
	assert_true(short_host_free(0, block));
}

static void test_context(void **state)
{
	unsigned char *block = kept_block(BYTES);
	unsigned long long own = world_context;

	for (int i = 0; i < 2; i++) {
		world_context = i ? 0 : own + 1000;
		assert_null(short_alloc(BYTES));
		world_context = own;
		assert_ptr_equal(short_alloc(BYTES), block);
		world_context = i ? 0 : own + 1000;
		assert_false(short_host_free(0, block));
		world_context = own;
		assert_true(short_host_free(0, block));
	}
}

static void test_special(void **state)
{
	unsigned char *block = kept_block(BYTES);
	struct pool_block found;
	CUresult result;

	assert_ptr_equal(short_alloc(BYTES), block);
	rewrite_sync_memops(NULL, &result, (uintptr_t)block);
	state_sync_memops(NULL, (uintptr_t)block);
	assert_false(short_host_free(0, block));
	assert_int_equal(long_free(block), CUDA_SUCCESS);
	assert_int_equal(freed, 1);
	assert_int_equal(pool_look((uintptr_t)block, &found), POOL_NOT_OURS);
}

static bool does_not_live(uint64_t context)
{
	return context != world_context;
}

/* Memory that a context takes along is nobody's, whether the program had freed it or not. */
static void test_context_ends(void **state)
{
	unsigned char *held = long_alloc(BYTES), *live = long_alloc(BYTES);

	assert_int_equal(long_free(held), CUDA_SUCCESS);
	assert_ptr_equal(short_alloc(BYTES), held);
	assert_true(short_host_free(0, held));
	assert_int_equal(kind_at(held), MEMORY_PINNED);
	assert_int_equal(kind_at(live), MEMORY_PINNED);
	pinned_drop(does_not_live);
	assert_int_equal(kind_at(held), MEMORY_NONE);
	assert_int_equal(kind_at(live), MEMORY_NONE);
	assert_null(short_alloc(BYTES));
	assert_int_equal(freed, 0);
}

static void *use_and_end(void *data)
{
	unsigned char **blocks = data;

	world_context = 77;
	for (int i = 0; i < 3; i++)
		blocks[i] = long_alloc(BYTES);
	for (int i = 0; i < 3; i++)
		assert_int_equal(long_free(blocks[i]), CUDA_SUCCESS);
	assert_non_null(short_magazine);
	short_thread_exit();
	assert_null(short_magazine);
	return NULL;
}

static void test_thread_exit(void **state)
{
	unsigned char *blocks[3];
	uint32_t before;
	pthread_t thread;

	pthread_create(&thread, NULL, use_and_end, blocks);
	pthread_join(thread, NULL);
	world_context = 77;
	before = made;
	for (int i = 0; i < 3; i++)
		long_alloc(BYTES);
	assert_int_equal(made, before);
	assert_int_equal(freed, 0);
}

static void test_zero(void **state)
{
	unsigned char *block = kept_block(BYTES);

	memset(block, 7, 1024);
	config.zero = CONFIG_ZERO_FULL;
	assert_ptr_equal(short_alloc(BYTES), block);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(block[i], 0);
	memset(block, 7, 1024);
	assert_true(short_host_free(0, block));
	assert_ptr_equal(long_alloc(BYTES), block);
	for (int i = 0; i < BYTES; i++)
		assert_int_equal(block[i], 0);
	config.zero = CONFIG_ZERO_OFF;
}

/* Blocks of one node of memory do not serve another. */
static void test_node(void **state)
{
	unsigned long mask = 1;
	unsigned char *block;

	node_many = true;
	block = kept_block(BYTES);
	assert_ptr_equal(short_alloc(BYTES), block);
	assert_true(short_host_free(0, block));
	/* Pages of it go by turns over a set of nodes, of which this machine may have one: still not the same as here. */
	if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &mask, sizeof(mask) * 8) != 0) {
		node_many = false;
		skip();
	}
	for (int i = 0; i < 70; i++)
		(void)node_ask(); /* it is kept for a while */
	assert_null(short_alloc(BYTES));
	assert_ptr_not_equal(long_alloc(BYTES), block);
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	for (int i = 0; i < 70; i++)
		(void)node_ask();
	assert_ptr_equal(short_alloc(BYTES), block);
	node_many = false;
}

static void test_no_magazine(void **state)
{
	struct pool_magazine *own = short_magazine;

	short_magazine = NULL;
	config.relax |= CONFIG_STRICT_FREE;
	short_begin();
	assert_null(short_magazine);
	config.relax = CONFIG_RELAX_FREE;
	config.deny = "list";
	short_begin();
	assert_null(short_magazine);
	config.deny = NULL;
	short_magazine = own;
}

/* ---- device memory ---- */

static uint64_t device_next = UINT64_C(0x7000000000);
static uint32_t device_made, device_freed;

static CUresult device_alloc(CUdeviceptr *ret_address, size_t bytes)
{
	device_made++;
	*ret_address = device_next;
	device_next += (bytes + 4095) & ~(size_t)4095;
	return CUDA_SUCCESS;
}

static CUresult device_free(CUdeviceptr address)
{
	if (address < UINT64_C(0x7000000000) || address >= device_next)
		return CUDA_ERROR_INVALID_VALUE;
	device_freed++;
	return CUDA_SUCCESS;
}

static CUresult device_bytes(size_t *ret_bytes, CUdevice device)
{
	*ret_bytes = (size_t)1 << 30;
	return CUDA_SUCCESS;
}

static int begin_device(void **state)
{
	int result = begin(state);

	driver.cuMemAlloc_v2 = device_alloc;
	driver.cuMemFree_v2 = device_free;
	driver.cuDeviceTotalMem_v2 = device_bytes;
	config.fix = CONFIG_FIX_PINNED | CONFIG_FIX_FREES;
	device_made = device_freed = 0;
	return result;
}

static CUdeviceptr long_device_alloc(void)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;
	CUdeviceptr address = 0;

	state_before(&call);
	assert_true(rewrite_device_alloc(&call, &result, &address, BYTES));
	assert_int_equal(result, CUDA_SUCCESS);
	state_allocated(&call, MEMORY_DEVICE, address, BYTES);
	state_after(&call, result);
	return address;
}

static CUresult long_device_free(CUdeviceptr address)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;

	call.subject = call.source = address;
	state_before(&call);
	state_freeing(&call, address);
	if (!rewrite_device_free(&call, &result, address))
		result = device_free(address);
	state_freed(&call, result);
	state_after(&call, result);
	return result;
}

static enum pool_state device_state(CUdeviceptr address)
{
	struct pool_block found;

	return pool_look(address, &found);
}

static void test_device(void **state)
{
	CUdeviceptr block = long_device_alloc();
	struct pool_block found;

	assert_true(short_device);
	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	/* Nothing at work: ready at once. */
	assert_true(short_device_free(0, block));
	assert_int_equal(device_state(block), POOL_READY);
	assert_int_equal(kind_at((void *)block), MEMORY_NONE);
	assert_false(short_device_free(0, block)); /* twice: the driver's to say */
	assert_int_equal(long_device_free(block), CUDA_ERROR_INVALID_VALUE);
	assert_true(long_device_alloc() == block);
	/* Beside work: parked until that is known complete. */
	world_launch(STREAM(0), KERNEL(0));
	assert_true(short_device_free(0, block));
	assert_int_equal(device_state(block), POOL_PARKED);
	assert_true(long_device_alloc() != block);
	world_synchronize(STREAM(0));
	assert_true(long_device_alloc() == block);
	/* The long way is no other. */
	world_launch(STREAM(0), KERNEL(0));
	assert_int_equal(long_device_free(block), CUDA_SUCCESS);
	assert_int_equal(device_state(block), POOL_PARKED);
	world_synchronize(STREAM(0));
	assert_true(long_device_alloc() == block);
	assert_int_equal(pool_look(block, &found), POOL_LIVE);
	assert_int_equal(kind_at((void *)(block + BYTES - 1)), MEMORY_DEVICE);
	assert_int_equal(device_made, 2);
	assert_int_equal(device_freed, 0);
}

/* What has attributes of its own, or is not this context's, or not the pool's, goes the long way, with its range. */
static void test_device_refused(void **state)
{
	CUdeviceptr block = long_device_alloc(), shared = long_device_alloc();
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	unsigned char *pinned = long_alloc(BYTES);
	unsigned int i;

	assert_false(short_device_free(0, 0));
	assert_false(short_device_free(0, block + 8));
	assert_false(short_device_free(0, (uintptr_t)pinned));
	assert_false(short_host_free(0, (void *)block));
	world_context++;
	assert_false(short_device_free(0, block));
	world_context--;
	state_capture_beginning(&call);
	assert_false(short_device_free(0, block));
	state_capture_began(&call, CUDA_ERROR_INVALID_VALUE);
	state_memory_shared(shared);
	assert_false(short_device_free(0, shared));
	/* The limit. */
	pool_start(POOL_DEVICE, 0);
	assert_false(short_device_free(0, block));
	for (i = 0; i < 2; i++) {
		assert_int_equal(device_state(i ? shared : block), POOL_LIVE);
		assert_int_equal(kind_at((void *)(i ? shared : block)), MEMORY_DEVICE);
	}
	pool_start(POOL_DEVICE, (uint64_t)1 << 27);
	pool_mark_special(block);
	assert_false(short_device_free(0, block));
	assert_int_equal(long_device_free(shared), CUDA_SUCCESS);
	assert_int_equal(device_freed, 1);
	assert_int_equal(device_state(shared), POOL_NOT_OURS);
}

/* For good, so the last of these. */
static void test_device_sync_memops(void **state)
{
	CUdeviceptr block = long_device_alloc(), other = long_device_alloc();
	struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);

	state_sync_memops(NULL, block);
	assert_false(short_device_free(0, block));
	assert_int_equal(device_state(block), POOL_LIVE);
	state_before(&call);
	state_sync_memops(&call, 0);
	assert_false(short_device_free(0, other));
	assert_int_equal(device_state(other), POOL_LIVE);
	assert_int_equal(kind_at((void *)other), MEMORY_DEVICE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_pair, begin),
		cmocka_unit_test_setup(test_range, begin),
		cmocka_unit_test_setup(test_range_ends, begin),
		cmocka_unit_test_setup(test_open_allocations, begin),
		cmocka_unit_test_setup(test_parked, begin),
		cmocka_unit_test_setup(test_parked_with_order, begin),
		cmocka_unit_test_setup(test_busy, begin),
		cmocka_unit_test_setup(test_busy_elsewhere, begin),
		cmocka_unit_test_setup(test_capture, begin),
		cmocka_unit_test_setup(test_context, begin),
		cmocka_unit_test_setup(test_special, begin),
		cmocka_unit_test_setup(test_context_ends, begin),
		cmocka_unit_test_setup(test_thread_exit, begin),
		cmocka_unit_test_setup(test_zero, begin),
		cmocka_unit_test_setup(test_node, begin),
		cmocka_unit_test_setup(test_no_magazine, begin),
		cmocka_unit_test_setup(test_device, begin_device),
		cmocka_unit_test_setup(test_device_refused, begin_device),
		cmocka_unit_test_setup(test_device_sync_memops, begin_device),
	};

	return cmocka_run_group_tests_name("rewrite-short", tests, NULL, NULL);
}
