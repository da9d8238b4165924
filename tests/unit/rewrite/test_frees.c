// SPDX-License-Identifier: MIT
/*
 * Rules of reused device memory that no whole program can try at will, on the fake driver: what is done around the driver's own free, who waits for whom
 * when a context ends, and how the driver is asked.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "fake/world.h"
#include "pool/pool.h"
#include "rewrite/contexts.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/rewrite.h"
#include "stage/drain.h"
#include "state/proof.h"
#include "state/state.h"

#define BYTES 5000

static unsigned long long contexts = 100;
static CUdeviceptr next_address = UINT64_C(1) << 32;
static unsigned int freed, freed_alone; /* by the driver; of those, outside a draining call */
static unsigned int unrelaxed;          /* events made or recorded outside the relaxed mode */
static int draining;

void __wrap_stage_drain_begin(void);
void __wrap_stage_drain_end(void);

void __wrap_stage_drain_begin(void)
{
	draining++;
}

void __wrap_stage_drain_end(void)
{
	draining--;
}

static CUresult device_alloc(CUdeviceptr *ret_address, size_t bytes)
{
	*ret_address = next_address;
	next_address += (bytes + 511) & ~(size_t)511;
	return CUDA_SUCCESS;
}

static CUresult device_free(CUdeviceptr address)
{
	freed++;
	freed_alone += draining != 1;
	return CUDA_SUCCESS;
}

static CUresult device_bytes(size_t *ret_bytes, CUdevice number)
{
	*ret_bytes = (size_t)8 << 30;
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *ret_context)
{
	*ret_context = (CUcontext)(uintptr_t)world_context;
	return CUDA_SUCCESS;
}

static __thread unsigned long long below;

static CUresult push(CUcontext context)
{
	below = world_context;
	world_context = (uintptr_t)context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ret_context)
{
	world_context = below;
	return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *ret_event, unsigned int flags)
{
	unrelaxed += !world_relaxed;
	*ret_event = EVENT(0);
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	unrelaxed += !world_relaxed;
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	unrelaxed += !world_relaxed;
	return CUDA_ERROR_NOT_READY;
}

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	driver.cuMemAlloc_v2 = device_alloc;
	driver.cuMemFree_v2 = device_free;
	driver.cuDeviceTotalMem_v2 = device_bytes;
	driver.cuCtxGetCurrent = get_current;
	driver.cuCtxPushCurrent_v2 = push;
	driver.cuCtxPopCurrent_v2 = pop;
	driver.cuEventCreate = event_create;
	driver.cuEventRecord = event_record;
	driver.cuEventQuery = event_query;
	config.mode = CONFIG_FIX;
	config.fix = CONFIG_FIX_FREES;
	config.relax = CONFIG_RELAX_FREE;
	stage_on = 1;
	/* One of its own for each test: blocks of others are no matter. */
	world_context = ++contexts;
	freed = freed_alone = unrelaxed = 0;
	return 0;
}

/* `known`: state hears of it. */
static CUdeviceptr allocate(bool known)
{
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;
	CUdeviceptr address = 0;

	state_before(&call);
	assert_true(rewrite_device_alloc(&call, &result, &address, BYTES));
	assert_int_equal(result, CUDA_SUCCESS);
	if (known)
		state_allocated(&call, MEMORY_DEVICE, address, BYTES);
	state_after(&call, result);
	return address;
}

static void release(CUdeviceptr address)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	CUresult result = CUDA_ERROR_UNKNOWN;

	call.subject = address;
	call.entered = 0;
	call.freed_bytes = 0;
	call.freed_flags = 0;
	state_before(&call);
	state_freeing(&call, address);
	assert_true(rewrite_device_free(&call, &result, address));
	assert_int_equal(result, CUDA_SUCCESS);
	state_freed(&call, result);
	state_after(&call, result);
}

static enum pool_state state_of(CUdeviceptr address)
{
	struct pool_block block;

	return pool_look(address, &block);
}

static void test_what_state_knows_is_kept(void **state)
{
	CUdeviceptr block = allocate(true);

	release(block);
	assert_int_equal(freed, 0);
	assert_int_equal(state_of(block), POOL_READY);
	assert_true(allocate(true) == block);
}

/* Anything may have been done with it: SYNC_MEMOPS, an export. */
static void test_what_state_does_not_know_is_freed(void **state)
{
	CUdeviceptr block = allocate(false);

	release(block);
	assert_int_equal(freed, 1);
	assert_int_equal(state_of(block), POOL_NOT_OURS);
}

/* Large staged copies keep out of the way of the driver's free, whoever makes it. */
static void test_a_real_free_drains(void **state)
{
	CUdeviceptr block = allocate(false), held = allocate(true);
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	CUresult result;

	release(block); /* state does not know it */
	release(held);
	state_before(&call);
	assert_true(rewrite_device_free(&call, &result, held)); /* a double free */
	assert_int_equal(freed, 2);
	assert_int_equal(held_give_all_back(world_context), 1);
	assert_int_equal(freed, 3);
	assert_int_equal(freed_alone, 0);
	assert_int_equal(draining, 0);
}

/* ---- a context ends while a thread is in it to give back what is held ---- */

static bool is_inside, may_leave, has_ended;
static unsigned long long own, other;

static uint32_t stay(uint64_t context)
{
	__atomic_store_n(&is_inside, true, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&may_leave, __ATOMIC_SEQ_CST))
		usleep(1000);
	assert_false(__atomic_load_n(&has_ended, __ATOMIC_SEQ_CST));
	return held_give_all_back(context);
}

static void *visit(void *data)
{
	uint32_t *ret_freed = data;

	world_context = own;
	*ret_freed = contexts_visit(contexts_find(other), stay);
	assert_true(world_context == own);
	return NULL;
}

static void *end_context(void *data)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);
	CUresult result;

	world_context = own;
	state_before(&call);
	state_context_destroying(&call, (CUcontext)(uintptr_t)other);
	assert_false(rewrite_context_ending(&call, &result));
	__atomic_store_n(&has_ended, true, __ATOMIC_SEQ_CST);
	state_after(&call, CUDA_SUCCESS);
	return NULL;
}

static void test_a_context_ends_behind_its_visitors(void **state)
{
	pthread_t visitor, ender;
	uint32_t count = 0;

	is_inside = may_leave = has_ended = false;
	own = world_context;
	other = ++contexts;
	world_launch(LEGACY, KERNEL(0)); /* state knows the context, and that all of it is done */
	world_context_synchronize();
	world_context = other;
	release(allocate(true));
	world_context = own;
	assert_int_equal(pthread_create(&visitor, NULL, visit, &count), 0);
	while (!__atomic_load_n(&is_inside, __ATOMIC_SEQ_CST))
		usleep(1000);
	assert_int_equal(pthread_create(&ender, NULL, end_context, NULL), 0);
	usleep(50000);
	assert_false(__atomic_load_n(&has_ended, __ATOMIC_SEQ_CST));
	__atomic_store_n(&may_leave, true, __ATOMIC_SEQ_CST);
	pthread_join(visitor, NULL);
	pthread_join(ender, NULL);
	assert_true(has_ended);
	assert_int_equal(count, 1);
	assert_int_equal(freed, 1);
}

static uint32_t be_cancelled(uint64_t context)
{
	__atomic_store_n(&is_inside, true, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&may_leave, __ATOMIC_SEQ_CST))
		usleep(1000);
	/* As in a driver that waits. */
	pthread_testcancel();
	return 0;
}

static void *visit_and_be_cancelled(void *data)
{
	world_context = own;
	contexts_visit(contexts_find(other), be_cancelled);
	__atomic_store_n((bool *)data, true, __ATOMIC_SEQ_CST);
	pthread_testcancel();
	return NULL;
}

/* Or its context could never end. */
static void test_no_visitor_is_cancelled(void **state)
{
	bool came_back = false;
	pthread_t visitor;
	void *status;

	is_inside = may_leave = has_ended = false;
	own = world_context;
	other = ++contexts;
	world_launch(LEGACY, KERNEL(0));
	world_context_synchronize();
	world_context = other;
	release(allocate(true));
	world_context = own;
	assert_int_equal(pthread_create(&visitor, NULL, visit_and_be_cancelled, &came_back), 0);
	while (!__atomic_load_n(&is_inside, __ATOMIC_SEQ_CST))
		usleep(1000);
	pthread_cancel(visitor);
	__atomic_store_n(&may_leave, true, __ATOMIC_SEQ_CST);
	pthread_join(visitor, &status);
	assert_true(came_back);
	assert_ptr_equal(status, PTHREAD_CANCELED);
	end_context(NULL);
	assert_true(has_ended);
}

/* ---- questions to the driver ---- */

static CUresult query_and_be_cancelled(CUstream stream)
{
	pthread_testcancel();
	return CUDA_ERROR_NOT_READY;
}

static void *ask_and_be_cancelled(void *data)
{
	world_context = own;
	pthread_cancel(pthread_self());
	(void)allocate(true);
	__atomic_store_n((bool *)data, true, __ATOMIC_SEQ_CST);
	(void)settle_work(own);
	pthread_testcancel();
	return NULL;
}

/* Or nobody could ask again: a lock is held meanwhile. */
static void test_nobody_is_cancelled_who_asks(void **state)
{
	CUdeviceptr block = allocate(true);
	bool came_back = false;
	pthread_t thread;
	void *status;

	own = world_context;
	driver.cuStreamQuery = query_and_be_cancelled;
	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	world_launch(STREAM(0), KERNEL(0));
	release(block);
	assert_int_equal(pthread_create(&thread, NULL, ask_and_be_cancelled, &came_back), 0);
	pthread_join(thread, &status);
	assert_true(came_back);
	assert_ptr_equal(status, PTHREAD_CANCELED);
	assert_true(state_asking_begin());
	state_asking_end();
}

/* A capture of another thread that nobody sees must not end by them, nor refuse them. */
static void test_questions_are_relaxed(void **state)
{
	CUdeviceptr block = allocate(true);

	world_create_stream(STREAM(0), CU_STREAM_NON_BLOCKING);
	world_launch(STREAM(0), KERNEL(0));
	release(block);
	assert_true(allocate(true) != block); /* a query, and an event */
	assert_true(allocate(true) != block); /* the event */
	assert_int_equal(world_queries, 1);
	world_query_result = CUDA_SUCCESS;
	assert_true(settle_work(world_context));
	assert_int_equal(world_queries, 2);
	assert_int_equal(world_unrelaxed_queries, 0);
	assert_int_equal(unrelaxed, 0);
	assert_false(world_relaxed); /* as the program had it */
	assert_true(allocate(true) == block);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_what_state_knows_is_kept, begin),
		cmocka_unit_test_setup(test_what_state_does_not_know_is_freed, begin),
		cmocka_unit_test_setup(test_a_real_free_drains, begin),
		cmocka_unit_test_setup(test_a_context_ends_behind_its_visitors, begin),
		cmocka_unit_test_setup(test_no_visitor_is_cancelled, begin),
		cmocka_unit_test_setup(test_nobody_is_cancelled_who_asks, begin),
		cmocka_unit_test_setup(test_questions_are_relaxed, begin),
	};

	return cmocka_run_group_tests_name("frees", tests, NULL, NULL);
}
