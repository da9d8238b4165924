// SPDX-License-Identifier: MIT
/*
 * What a call is said to have waited for, and for how long.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "emit/emit.h"
#include "emit/file.h"
#include "fake/records.h"
#include "fake/world.h"
#include "rounds.h"
#include "state/internal.h"
#include "state/state.h"
#include "sync/calibration.h"
#include "sync/idle.h"
#include "sync/region.h"
#include "sync/site.h"
#include "sync/sync.h"

#define A STREAM(0) /* blocking */
#define B STREAM(1) /* blocking */
#define N STREAM(2) /* non-blocking */

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static unsigned int sites;

uint32_t site_take(const void *return_address, const void *frame)
{
	sites++;
	errno = ENOENT; /* as looking at files leaves it */
	return 11;
}

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	idle_clear();
	sites = 0;
	config.threshold_ns = 5 * US;
	world_create_stream(A, 0);
	world_create_stream(B, 0);
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	return 0;
}

/* The whole way of a call that takes so long. */
static void go(struct call *call, uint64_t duration_ns)
{
	state_before(call);
	call->entered = 1000000;
	call->left = call->entered + duration_ns;
	sync_after(call, CUDA_SUCCESS);
	state_after(call, CUDA_SUCCESS);
}

static void make(unsigned int function, CUstream stream, uint64_t duration_ns)
{
	struct call call = world_call(function, stream);

	call.subject = function == FUNCTION_cuLaunchKernel ? KERNEL(0) : 0;
	if (function == FUNCTION_cuMemcpyHtoD_v2) {
		call.source = 0x100000;
		call.flags |= CALL_SOURCE_HOST;
		call.bytes = 4096;
	}
	go(&call, duration_ns);
}

static const struct record_wait *wait_of(uint32_t rule, unsigned int n)
{
	return records_wait(file_base(), 64 << 10, rule, n);
}

static uint32_t region_id(const char *name, uint32_t parent)
{
	uint32_t id = 0;

	assert_non_null(emit_region(parent, name, &id));
	return id;
}

static unsigned int findings(void)
{
	return records_count(file_base(), 64 << 10, RECORD_WAIT);
}

static unsigned int candidates(void)
{
	return records_count(file_base(), 64 << 10, RECORD_WAITED_FOR);
}

static void test_explicit_is_always_reported(void **state)
{
	const struct record_wait *wait;

	make(FUNCTION_cuStreamSynchronize, A, 2 * US);
	wait = wait_of(RULE_STREAM_SYNCHRONIZE, 0);
	assert_non_null(wait);
	assert_true(wait->count == 1);
	assert_int_equal(wait->site, 11);
	/* That was an idle sample: the next is measured against it. */
	world_launch(A, KERNEL(0));
	make(FUNCTION_cuStreamSynchronize, A, 5 * MS);
	wait = wait_of(RULE_STREAM_SYNCHRONIZE, 1);
	assert_non_null(wait);
	assert_int_equal(wait->idle_basis, IDLE_MINIMUM);
	assert_true(wait->blocked_ns == 5 * MS - 2 * US);
	assert_true(wait->call_ns == 5 * MS);
	assert_int_equal(candidates(), 1);
}

static void test_implicit_wait(void **state)
{
	const struct record_wait *wait;

	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 7 * US); /* idle: no finding, a sample */
	world_context_synchronize();
	assert_int_equal(findings(), 0);
	world_launch(A, KERNEL(0));
	world_launch(B, KERNEL(0));
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 2015 * US);
	wait = wait_of(RULE_PAGEABLE_H2D, 0);
	assert_non_null(wait);
	assert_true(wait->blocked_ns == 2008 * US);
	assert_true(wait->bytes == 4096);
	assert_int_equal(wait->source_kind, MEMORY_PAGEABLE);
	/* The non-blocking stream is no reason. */
	assert_int_equal(candidates(), 2);
	/* A host wait is not reported as a device join too. */
	assert_null(wait_of(RULE_LEGACY_JOIN, 0));
}

/* Pending work on a stream that the rule does not wait for, and a short call: nothing. */
/* It is ordered behind the work all the same. */
static void test_a_wait_that_was_left_out_is_none(void **state)
{
	struct call call = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);

	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 7 * US);
	world_context_synchronize();
	world_launch(A, KERNEL(0));
	call.source = 0x100000;
	call.flags |= CALL_SOURCE_HOST | CALL_UNWAITED;
	call.bytes = 4096;
	go(&call, 2 * MS);
	assert_null(wait_of(RULE_PAGEABLE_H2D, 0));
	assert_non_null(wait_of(RULE_LEGACY_JOIN, 0));
	/* And no sample. */
	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 2007 * US);
	assert_true(wait_of(RULE_PAGEABLE_H2D, 0)->blocked_ns == 2000 * US);
}

static void test_busy_non_blocking_stream_is_no_reason(void **state)
{
	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 7 * US);
	world_context_synchronize();
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuMemcpyHtoD_v2, NULL, 12 * US);
	assert_int_equal(findings(), 0);
}

static void test_threshold_and_own_cost(void **state)
{
	make(FUNCTION_cuMemFree_v2, NULL, 100 * US); /* the free itself takes so long */
	make(FUNCTION_cuMemFree_v2, NULL, 100 * US);
	world_launch(N, KERNEL(0));
	/* 40 us more than idle, but that is not half of what a free costs: noise. */
	make(FUNCTION_cuMemFree_v2, NULL, 140 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemFree_v2, NULL, 2 * MS);
	assert_non_null(wait_of(RULE_FREE_DRAINS_DEVICE, 0));
	assert_true(wait_of(RULE_FREE_DRAINS_DEVICE, 0)->blocked_ns == 2 * MS - 100 * US);
	config.threshold_ns = 10 * MS;
	make(FUNCTION_cuMemFree_v2, NULL, 2 * MS);
	assert_true(wait_of(RULE_FREE_DRAINS_DEVICE, 0)->count == 1);
}

/* The shim knows of no work, and the call took very long all the same: reported without candidates. */
static void test_rule_without_known_work(void **state)
{
	make(FUNCTION_cuMemFree_v2, NULL, 20 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemFree_v2, NULL, 60 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemFree_v2, NULL, 3 * MS);
	assert_int_equal(findings(), 1);
	assert_non_null(wait_of(RULE_FREE_DRAINS_DEVICE, 0));
	assert_int_equal(candidates(), 0);
}

static void test_own_cost_rule(void **state)
{
	const struct record_wait *wait;

	make(FUNCTION_cuMemHostRegister_v2, NULL, 90 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemHostRegister_v2, NULL, 400 * US);
	wait = wait_of(RULE_PINNING, 0);
	assert_non_null(wait);
	assert_int_equal(wait->idle_basis, IDLE_NONE);
	assert_true(wait->blocked_ns == 400 * US);
}

static void test_observed_unknown(void **state)
{
	make(FUNCTION_cuMemAlloc_v2, NULL, 30 * US);
	make(FUNCTION_cuEventRecord, A, 49 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemAlloc_v2, NULL, 9 * MS);
	assert_non_null(wait_of(RULE_OBSERVED_UNKNOWN, 0));
	assert_int_equal(wait_of(RULE_OBSERVED_UNKNOWN, 0)->function, FUNCTION_cuMemAlloc_v2);
	assert_int_equal(wait_of(RULE_OBSERVED_UNKNOWN, 0)->destination_kind, MEMORY_DEVICE);
	assert_int_equal(candidates(), 0);
}

/* Slow once, with nothing pending anywhere: the call's own cost. With work anywhere: a wait, and that work is named. */
static void test_observed_unknown_needs_work(void **state)
{
	make(FUNCTION_cuEventRecord, A, 900 * US);
	/* No idle cost is known: nothing to compare with. */
	make(FUNCTION_cuEventQuery, NULL, 30 * MS);
	make(FUNCTION_cuMemAlloc_v2, NULL, 30 * US);
	make(FUNCTION_cuMemAlloc_v2, NULL, 500 * US);
	assert_int_equal(findings(), 0);
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuMemAlloc_v2, NULL, 85 * US); /* a slow moment */
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemAlloc_v2, NULL, 500 * US);
	assert_non_null(wait_of(RULE_OBSERVED_UNKNOWN, 0));
	assert_true(wait_of(RULE_OBSERVED_UNKNOWN, 0)->blocked_ns == 470 * US);
	assert_int_equal(candidates(), 1);
	/* What may have been a wait is no sample; what is too short for one is. */
	make(FUNCTION_cuStreamQuery, A, 900 * US);
	assert_int_equal(findings(), 1);
	make(FUNCTION_cuStreamQuery, A, 2 * MS);
	assert_int_equal(findings(), 2);
	make(FUNCTION_cuStreamQuery, A, 40 * US);
	make(FUNCTION_cuStreamQuery, A, 900 * US);
	assert_true(wait_of(RULE_OBSERVED_UNKNOWN, 2)->blocked_ns == 860 * US);
}

/* A calibrated cost says nothing about the first call of a run: loading and first touches are not in it. */
static void test_first_call_with_calibration(void **state)
{
	assert_true(idle_calibrate(idle_key_of(FUNCTION_cuMemFree_v2, 0, 0, 0), 5 * US));
	make(FUNCTION_cuMemFree_v2, NULL, 6 * MS);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemFree_v2, NULL, 20 * US);
	make(FUNCTION_cuMemFree_v2, NULL, 350 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuMemFree_v2, NULL, 6 * MS);
	assert_int_equal(findings(), 1);
	assert_int_equal(wait_of(RULE_FREE_DRAINS_DEVICE, 0)->idle_basis, IDLE_CALIBRATED);
}

/* Submitting is short by every measurement: less than 1 ms more is the scheduler's. */
static void test_held_up_submission(void **state)
{
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuLaunchKernel, N, 900 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuLaunchKernel, N, 1100 * US);
	assert_non_null(wait_of(RULE_OBSERVED_UNKNOWN, 0));
}

/* A launch that was held up for an unknown reason is still the first behind the other stream's work. */
static void test_observed_unknown_does_not_hide_a_join(void **state)
{
	world_launch(A, KERNEL(0));
	make(FUNCTION_cuLaunchKernel, LEGACY, 3 * MS);
	assert_non_null(wait_of(RULE_OBSERVED_UNKNOWN, 0));
	assert_null(wait_of(RULE_QUEUE_FULL, 0));
	assert_non_null(wait_of(RULE_LEGACY_JOIN, 0));
	assert_true(wait_of(RULE_LEGACY_JOIN, 0)->count == 1);
	assert_true(wait_of(RULE_LEGACY_JOIN, 0)->blocked_ns == 0);
}

/* The catalogue's figure is of one machine: work that is only not known complete needs a clear excess over it. */
static void test_figure_of_a_slower_machine(void **state)
{
	struct call copy;
	unsigned int i;

	/* 10 us and 0.5 us for the bytes by the catalogue. */
	static const struct {
		uint64_t took_us;
		bool busy, found;
	} cases[] = {
		{25, true, false},  {30, true, false},    {40, true, true},
		{90, false, false}, {2000, false, false},
	};
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(begin(state), 0);
		if (cases[i].busy)
			world_launch(LEGACY, KERNEL(0));
		copy = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);
		copy.flags |= CALL_DESTINATION_HOST;
		copy.destination = 0x100000;
		copy.bytes = 4096;
		go(&copy, cases[i].took_us * US);
		assert_int_equal(wait_of(RULE_D2H, 0) != NULL, cases[i].found);
	}
	/* Work on a stream that the rule does not wait for: ten times the figure. */
	assert_int_equal(begin(state), 0);
	world_launch(N, KERNEL(0));
	copy = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);
	go(&copy, 99 * US);
	assert_null(wait_of(RULE_D2H, 0));
	assert_int_equal(begin(state), 0);
	world_launch(N, KERNEL(0));
	copy = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);
	go(&copy, 102 * US);
	assert_non_null(wait_of(RULE_D2H, 0));
}

/* A destination that nobody touched yet: its page faults are the program's. */
static void test_page_faults_are_no_wait(void **state)
{
	const uint64_t bytes = 4 << 20;
	struct call copy;
	int i;

	/* 400 us; then with faults 400 us more; then behind a kernel. */
	static const uint64_t took_us[] = {400, 800, 2400};
	for (i = 0; i < 3; i++) {
		copy = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);
		copy.flags |= CALL_DESTINATION_HOST;
		copy.destination = 0x100000;
		copy.bytes = bytes;
		if (i)
			world_launch(LEGACY, KERNEL(0));
		go(&copy, took_us[i] * US);
		assert_int_equal(wait_of(RULE_D2H, 0) != NULL, i == 2);
	}
}

/* A row with a rule about its own work behind the one that waits: slow alone is that work, no wait. */
static void test_own_work_behind_a_wait(void **state)
{
	make(FUNCTION_cuModuleUnload, NULL, 40 * US);
	assert_int_equal(findings(), 0);
	make(FUNCTION_cuModuleUnload, NULL, 70 * US);
	assert_non_null(wait_of(RULE_TEARDOWN, 0));
	assert_true(wait_of(RULE_TEARDOWN, 0)->blocked_ns == 70 * US);
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuModuleUnload, NULL, 55 * US); /* pending or not: not half of its own cost */
	assert_true(wait_of(RULE_TEARDOWN, 0)->count == 2);
	assert_null(wait_of(RULE_FREE_DRAINS_DEVICE, 0));
	make(FUNCTION_cuModuleUnload, NULL, 900 * US);
	assert_non_null(wait_of(RULE_FREE_DRAINS_DEVICE, 0));
	assert_true(wait_of(RULE_FREE_DRAINS_DEVICE, 0)->blocked_ns == 860 * US);
}

static void test_first_use(void **state)
{
	make(FUNCTION_cuLaunchKernel, N, 900 * US);
	assert_non_null(wait_of(RULE_FIRST_USE, 0));
	make(FUNCTION_cuLaunchKernel, N, 4 * US);
	assert_true(wait_of(RULE_FIRST_USE, 0)->count == 1);
	assert_int_equal(findings(), 1);
}

/* What a short call was found not to be holds for as long as the cost that it was held against (idle_bound()). */
static void test_bound_goes_with_the_minimum(void **state)
{
	const struct record_wait *wait;
	int i;

	make(FUNCTION_cuMemcpyHtoD_v2, LEGACY, 10 * US);
	world_context_synchronize();
	for (i = 0; i < 3; i++) {
		world_launch(LEGACY, KERNEL(0));
		make(FUNCTION_cuMemcpyHtoD_v2, LEGACY, 14 * US);
		world_context_synchronize();
	}
	assert_null(wait_of(RULE_PAGEABLE_H2D, 0));
	/* Beyond the bound. */
	world_launch(LEGACY, KERNEL(0));
	make(FUNCTION_cuMemcpyHtoD_v2, LEGACY, 16 * US);
	wait = wait_of(RULE_PAGEABLE_H2D, 0);
	assert_non_null(wait);
	assert_true(wait->count == 1);
	world_context_synchronize();
	make(FUNCTION_cuMemcpyHtoD_v2, LEGACY, 2 * US);
	world_context_synchronize();
	world_launch(LEGACY, KERNEL(0));
	make(FUNCTION_cuMemcpyHtoD_v2, LEGACY, 14 * US);
	assert_true(wait->count == 2);
}

#define LOWERED_ROUNDS 1000

/* Lowers a key's least cost step by step, a key a round. */
static void *lower(void *data)
{
	uint32_t *round = data, i, seen = 0;
	uint64_t cost;

	while (seen < LOWERED_ROUNDS) {
		while (__atomic_load_n(round, __ATOMIC_ACQUIRE) == seen)
			sched_yield();
		seen++;
		for (i = 0, cost = 100000; i < 50; i++, cost -= 1000)
			idle_sample(idle_key_of((uint16_t)seen, 0, 0, 0), cost);
		/* The answer: this round's costs are all there. */
		__atomic_store_n(round + 1, seen, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* A thread asks for the least cost, and another one lowers it before the bound that follows is there: then there is none. */
static void test_bound_is_never_of_a_cost_before(void **state)
{
	uint32_t rounds[2] = {0, 0}, key, seen, round, stale = 0;
	uint64_t cost = 0, least;
	pthread_t thread;

	key = idle_key_of(1, 2, 0, 0);
	idle_sample(key, 5000);
	seen = idle_lowered();
	assert_true(idle_minimum(key, &cost));
	idle_sample(key, 2000);
	idle_set_bound(key, cost, seen);
	assert_true(idle_bound(key) == 0);
	idle_set_bound(key, cost, idle_lowered());
	assert_true(idle_bound(key) == cost);
	assert_int_equal(pthread_create(&thread, NULL, lower, rounds), 0);
	for (round = 1; round <= LOWERED_ROUNDS; round++) {
		key = idle_key_of((uint16_t)round, 0, 0, 0);
		__atomic_store_n(rounds, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(rounds + 1, __ATOMIC_ACQUIRE) != round) {
			seen = idle_lowered();
			if (idle_minimum(key, &cost))
				idle_set_bound(key, cost, seen);
		}
		assert_true(idle_minimum(key, &least));
		stale += idle_bound(key) > least;
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stale, 0);
}

static void test_queue_full(void **state)
{
	unsigned int i;

	world_launch(A, KERNEL(0));
	for (i = 0; i < 498; i++)
		world_launch(N, KERNEL(0));
	make(FUNCTION_cuLaunchKernel, N, 300 * US); /* a slow moment: there is room */
	assert_null(wait_of(RULE_QUEUE_FULL, 0));
	make(FUNCTION_cuLaunchKernel, N, 4 * US);
	make(FUNCTION_cuLaunchKernel, N, 90 * US);
	assert_null(wait_of(RULE_QUEUE_FULL, 0));
	make(FUNCTION_cuLaunchKernel, N, 300 * US);
	assert_non_null(wait_of(RULE_QUEUE_FULL, 0));
	assert_true(wait_of(RULE_QUEUE_FULL, 0)->count == 1);
	world_synchronize(N);
	make(FUNCTION_cuLaunchKernel, N, 300 * US);
	assert_true(wait_of(RULE_QUEUE_FULL, 0)->count == 1);
}

static void test_device_join(void **state)
{
	const struct record_wait *wait;

	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuLaunchKernel, LEGACY, 4 * US);
	wait = wait_of(RULE_LEGACY_JOIN, 0);
	assert_non_null(wait);
	assert_true(wait->count == 1);
	assert_true(wait->blocked_ns == 0);
	assert_int_equal(wait->site, 11);
	assert_int_equal(candidates(), 1);
	assert_int_equal(sites, 1);
	/* No second join with the same work; B joins the legacy stream. */
	make(FUNCTION_cuLaunchKernel, LEGACY, 4 * US);
	make(FUNCTION_cuLaunchKernel, N, 4 * US);
	assert_true(wait->count == 1);
	make(FUNCTION_cuLaunchKernel, B, 4 * US);
	make(FUNCTION_cuLaunchKernel, B, 4 * US);
	assert_true(wait->count == 2);
}

/* A short launch that joins is the finding that the long way makes of it. */
static void test_short_join(void **state)
{
	struct call_pending pending[CALL_PENDING_MAX];
	struct sync_launch at = {.entered = 1000000, .left = 1000000 + 4 * US};
	const struct record_wait *wait;
	struct state_launch launch;

	state_launch_limits(UINT64_MAX, UINT64_MAX);
	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	make(FUNCTION_cuLaunchKernel, LEGACY, 4 * US);
	wait = wait_of(RULE_LEGACY_JOIN, 0);
	assert_non_null(wait);
	assert_int_equal(candidates(), 1);
	world_launch(A, KERNEL(0));
	assert_false(
		state_launch_is_plain(LEGACY, (CUfunction)(uintptr_t)KERNEL(0), false, &launch));
	assert_true(launch.is_joining);
	assert_true(state_launch_joins(&launch, pending));
	assert_true(state_launch_done(&launch, at.entered, at.left));
	errno = 5;
	sync_launch_joined(FUNCTION_cuLaunchKernel, &launch, &at);
	assert_true(wait->count == 2);
	assert_true(wait->call_ns == 8 * US);
	assert_true(wait->blocked_ns == 0);
	assert_int_equal(findings(), 1);
	assert_int_equal(candidates(), 1);
	/* Known to be done: no finding. */
	assert_true(
		state_launch_is_plain(LEGACY, (CUfunction)(uintptr_t)KERNEL(0), false, &launch));
	launch.pending_count = 0;
	sync_launch_joined(FUNCTION_cuLaunchKernel, &launch, &at);
	assert_true(wait->count == 2);
	state_launch_limits(0, 0);
}

static void test_captured_calls_wait_for_nothing(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, A);

	world_launch(LEGACY, KERNEL(0));
	state_before(&call);
	state_capture_begun(&call, A, CU_STREAM_CAPTURE_MODE_RELAXED);
	make(FUNCTION_cuLaunchKernel, A, 10 * MS);
	assert_int_equal(findings(), 0);
}

static void test_regions_and_allowed_scopes(void **state)
{
	const struct record_wait *wait;
	int i;

	world_launch(A, KERNEL(0));
	slipstream_region_begin("frame");
	slipstream_region_begin("upload");
	slipstream_allow_begin("meant");
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	slipstream_allow_end();
	slipstream_region_end();
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	slipstream_region_end();
	slipstream_region_end(); /* one too many */
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	wait = wait_of(RULE_STREAM_SYNCHRONIZE, 0);
	assert_int_equal(wait->allowed, 1);
	assert_int_equal(wait->region, region_id("upload", region_id("frame", 0)));
	wait = wait_of(RULE_STREAM_SYNCHRONIZE, 1);
	assert_int_equal(wait->allowed, 0);
	assert_int_equal(wait->region, region_id("frame", 0));
	assert_int_equal(wait_of(RULE_STREAM_SYNCHRONIZE, 2)->region, 0);
	/* Deeper than the bound: the ends still fit the begins. */
	for (i = 0; i < 40; i++)
		slipstream_region_begin("deep");
	for (i = 0; i < 40; i++)
		slipstream_region_end();
	assert_int_equal(region_current(), 0);
}

static const struct record_region *region_of(const char *name, uint32_t parent)
{
	uint32_t id;
	const struct record_region *region = emit_region(parent, name, &id);

	assert_non_null(region);
	return region;
}

/* What one entry had, not the sum; regions inside count for those around; an allowed wait counts for none. */
static void test_entries_of_regions(void **state)
{
	const struct record_region *frame, *upload;
	int i, k;

	for (i = 1; i <= 4; i++) {
		slipstream_region_begin("frame");
		world_launch(A, KERNEL(0));
		for (k = 0; k < i % 4; k++)
			make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
		slipstream_region_begin("upload");
		if (i == 2)
			make(FUNCTION_cuStreamSynchronize, A, 7 * MS);
		slipstream_allow_begin("meant");
		make(FUNCTION_cuStreamSynchronize, A, 9 * MS);
		slipstream_allow_end();
		slipstream_region_end();
		slipstream_region_end();
	}
	frame = region_of("frame", 0);
	upload = region_of("upload", frame->id);
	assert_int_equal(upload->parent, frame->id);
	assert_int_equal(frame->entries, 4);
	assert_int_equal(frame->waiting, 3);
	assert_int_equal(frame->explicit, 3);
	assert_int_equal(frame->explicit_entry, 2); /* as many in the third: the first such stays */
	assert_int_equal(frame->implicit, 0);
	assert_int_equal(frame->blocked_entry, 2);
	assert_true(frame->blocked_ns > 8 * MS && frame->blocked_ns < 10 * MS);
	assert_int_equal(upload->entries, 4);
	assert_int_equal(upload->waiting, 1);
	assert_int_equal(upload->explicit, 1);
	assert_int_equal(upload->explicit_entry, 2);
}

/* Other sources end their own regions only, in any order. */
static void test_sources_nest_by_themselves(void **state)
{
	assert_int_equal(region_begin(1, "a"), 0);
	assert_int_equal(region_begin(2, "b"), 0);
	assert_int_equal(region_begin(1, NULL), 1);
	assert_int_equal(region_begin(1, "c"), 2);
	assert_int_equal(region_current(), region_id("c", region_id("b", region_id("a", 0))));
	assert_int_equal(region_end(2), 0);
	assert_int_equal(region_current(), region_id("c", region_id("a", 0)));
	assert_int_equal(region_end(2), -1);
	assert_int_equal(region_end(1), 2);
	assert_int_equal(region_current(), region_id("a", 0));
	assert_int_equal(region_end(1), 1);
	assert_int_equal(region_current(), region_id("a", 0));
	assert_int_equal(region_end(1), 0);
	assert_int_equal(region_current(), 0);
}

/* The last test: from now on there is a step. What comes before the first belongs to none. */
static void test_steps_of_the_process(void **state)
{
	const struct record_region *step;

	world_launch(A, KERNEL(0));
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	assert_int_equal(region_current(), 0);
	slipstream_step();
	slipstream_step();
	slipstream_region_begin("frame");
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	make(FUNCTION_cuStreamSynchronize, A, 3 * MS);
	slipstream_region_end();
	slipstream_step();
	make(FUNCTION_cuStreamSynchronize, A, 2 * MS);
	step = region_of("step", 0);
	assert_int_equal(region_current(), step->id);
	assert_int_equal(step->entries, 3);
	assert_int_equal(step->waiting, 2);
	assert_int_equal(step->explicit, 2);
	assert_int_equal(step->explicit_entry, 2);
	assert_true(step->blocked_ns > 3 * MS && step->blocked_ns < 5 * MS);
	assert_int_equal(region_of("frame", step->id)->explicit, 2);
}

static void test_errno_is_kept(void **state)
{
	errno = 42;
	make(FUNCTION_cuStreamSynchronize, A, 1 * MS);
	assert_int_equal(sites, 1);
	assert_int_equal(errno, 42);
}

/* What a first launch takes is loading: no measure of the launches that follow. */
static void test_first_use_is_no_sample(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, N);
	uint64_t seen_ns = 0;

	call.subject = KERNEL(0);
	go(&call, 900 * US);
	assert_true(call.flags & CALL_FIRST_USE);
	assert_false(idle_minimum(idle_key(&call), &seen_ns));
	/* The same launch once more, its stream idle again, is one. */
	world_synchronize(N);
	call = world_call(FUNCTION_cuLaunchKernel, N);
	call.subject = KERNEL(0);
	go(&call, 800 * US);
	assert_false(call.flags & CALL_FIRST_USE);
	assert_true(idle_minimum(idle_key(&call), &seen_ns));
	assert_true(seen_ns == 800 * US);
}

/* Initialising, contexts and modules take what they take: slow beside pending work is no finding. */
static void test_known_slow_calls_are_no_finding(void **state)
{
	static const unsigned int slow[] = {FUNCTION_cuInit, FUNCTION_cuCtxCreate_v4,
					    FUNCTION_cuModuleLoadData};
	unsigned int i;

	for (i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		make(slow[i], NULL, 30 * US);
	make(FUNCTION_cuMemAlloc_v2, NULL, 30 * US);
	world_launch(N, KERNEL(0));
	for (i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		make(slow[i], NULL, 9 * MS);
	assert_int_equal(findings(), 0);
	/* Any other call, of the same duration. */
	make(FUNCTION_cuMemAlloc_v2, NULL, 9 * MS);
	assert_int_equal(findings(), 1);
}

/* Work that was pending must not become the measure of an idle call. */
static void test_blocked_calls_are_no_samples(void **state)
{
	enum idle_basis basis;
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);

	world_launch(N, KERNEL(0));
	make(FUNCTION_cuMemFree_v2, NULL, 2 * MS);
	call.bytes = 0;
	idle_cost(&call, idle_key(&call), &basis);
	assert_int_not_equal(basis, IDLE_MINIMUM);
}

static void test_idle_table(void **state)
{
	struct call call = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);
	enum idle_basis basis;
	uint32_t key;

	call.bytes = 4096;
	key = idle_key(&call);
	assert_int_equal(key, idle_key_of(FUNCTION_cuMemcpyHtoD_v2, 0, 0, 12));
	call.bytes = 4097;
	assert_int_equal(idle_key(&call), idle_key_of(FUNCTION_cuMemcpyHtoD_v2, 0, 0, 13));
	call.bytes = 1;
	assert_int_equal(idle_key(&call), idle_key_of(FUNCTION_cuMemcpyHtoD_v2, 0, 0, 0));
	idle_cost(&call, key, &basis);
	assert_int_equal(basis, IDLE_NONE);
	idle_sample(key, 900);
	idle_sample(key, 700);
	idle_sample(key, 800);
	assert_int_equal(idle_cost(&call, key, &basis), 700);
	assert_int_equal(basis, IDLE_MINIMUM);
	assert_true(idle_calibrate(key, 750));
	assert_int_equal(idle_cost(&call, key, &basis), 750);
	assert_int_equal(basis, IDLE_CALIBRATED);
}

/* Of what is not less than this thread's others nothing is converted; what is less becomes the run's. */
static void test_samples_that_are_news(void **state)
{
	uint32_t key = idle_key_of(FUNCTION_cuMemcpyHtoD_v2, 0, 0, 12);
	uint32_t other = idle_key_of(FUNCTION_cuMemcpyHtoD_v2, 0, 0, 13);

	assert_true(idle_is_news(key, 100));
	assert_false(idle_is_news(key, 100));
	assert_false(idle_is_news(key, 101));
	assert_true(idle_is_news(other, 101));
	assert_true(idle_is_news(key, 99));
	assert_false(idle_is_news(key, 100));
	assert_true(idle_is_news(key + (16U << 15), UINT64_MAX)); /* drives it out */
	assert_true(idle_is_news(key, 100));
}

static uint64_t checksum(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

#define FIRST       "slipstream-calibration 1\n"
#define STAGE_WORDS "expected: stage DIRECTION FORM STATE FROM, of a copy that is known"
#define STAGE_SIZE  "size is neither 'never' nor a number from 1 to 1099511627776"

static void test_calibration_table(void **state)
{
	static const struct {
		const char *text; /* the checksum is put behind it */
		const char *problem;
		unsigned int line;
	} bad[] = {
		{"slipstream-calibration 2\n", "the first line is not 'slipstream-calibration 1'",
		 1},
		{FIRST "idle cuMemFree_v2 none none 0\n",
		 "expected: idle FUNCTION SOURCE DESTINATION SIZE_CLASS NS", 2},
		{FIRST "idle cuMemFree_v2  none none 0 5\n",
		 "expected: idle FUNCTION SOURCE DESTINATION SIZE_CLASS NS", 2},
		{FIRST "idle rm none none 0 5\n", "not the name of a driver function", 2},
		{FIRST "gpu x\nidle cuMemFree_v2 paged none 0 5\n", "unknown kind of source memory",
		 3},
		{FIRST "idle cuMemFree_v2 none 3 0 5\n", "unknown kind of destination memory", 2},
		{FIRST "idle cuMemFree_v2 none none 64 5\n", "size class is no number from 0 to 63",
		 2},
		{FIRST "idle cuMemFree_v2 none none 0 0\n",
		 "idle cost is no number from 1 to 4294967295", 2},
		{FIRST "idle cuMemFree_v2 none none 0 4294967296\n",
		 "idle cost is no number from 1 to 4294967295", 2},
		{FIRST "idle cuMemFree_v2 none none 0 -5\n",
		 "idle cost is no number from 1 to 4294967295", 2},
		{FIRST "stage to-device sync idle\n", STAGE_WORDS, 2},
		{FIRST "stage to-device sync idle  4096\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync lazy 4096\n", STAGE_WORDS, 2},
		{FIRST "stage from-device sync unwaited 4096\n", STAGE_WORDS, 2},
		{FIRST "stage to-device sync idle 0\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync idle 4K\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync idle 4096 1\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync idle Never\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync idle 1099511627777\n", STAGE_SIZE, 2},
		{FIRST "stage to-device sync idle 1\nstage to-device sync idle 1\n",
		 "the same copy for the second time", 3},
	};
	static const char good[] = FIRST "driver 13000\ngpu Some GPU\nset default\n"
					 "idle cuMemFree_v2 none none 0 47000\n"
					 "idle cuFromTheFuture none none 0 1\nfact x yes\n"
					 "stage to-device sync idle 65536\n";
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	char text[512], path[] = "/tmp/slipstream-table-XXXXXX";
	enum idle_basis basis;
	const char *problem;
	unsigned int line, i;
	int fd, length;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		length = snprintf(text, sizeof(text), "%schecksum %016llx\n", bad[i].text,
				  (unsigned long long)checksum(bad[i].text));
		assert_int_equal(
			calibration_parse(text, (size_t)length, NULL, NULL, NULL, &line, &problem),
			-EINVAL);
		assert_string_equal(problem, bad[i].problem);
		assert_int_equal(line, bad[i].line);
	}
	length = snprintf(text, sizeof(text), "%schecksum %016llx\n", good,
			  (unsigned long long)checksum(good));
	assert_int_equal(calibration_parse(text, (size_t)length, NULL, NULL, NULL, &line, &problem),
			 0);
	/* Cut anywhere, or one bit flipped: refused. */
	for (i = 0; i < (unsigned int)length; i++) {
		assert_int_equal(calibration_parse(text, i, NULL, NULL, NULL, &line, &problem),
				 -EINVAL);
		text[i] ^= 1;
		assert_int_equal(
			calibration_parse(text, (size_t)length, NULL, NULL, NULL, &line, &problem),
			-EINVAL);
		text[i] ^= 1;
	}
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, (size_t)length), length);
	assert_null(calibration_stage());
	calibration_load(path);
	assert_non_null(calibration_stage());
	assert_int_equal(calibration_stage()->from[0], 65536);
	assert_string_equal(calibration_stage()->gpu, "Some GPU");
	assert_int_equal(idle_cost(&call, idle_key(&call), &basis), 47000);
	assert_int_equal(basis, IDLE_CALIBRATED);
	close(fd);
	unlink(path);
}

static struct calibration_stage stage_of(const char *body)
{
	struct calibration_stage stage;
	char text[1024];
	const char *problem;
	unsigned int line;
	int length = snprintf(text, sizeof(text), "%schecksum %016llx\n", body,
			      (unsigned long long)checksum(body));

	assert_true(length < (int)sizeof(text));
	assert_int_equal(
		calibration_parse(text, (size_t)length, NULL, NULL, &stage, &line, &problem), 0);
	return stage;
}

/* Every kind of copy has its own line, in any order; what is not said is not there. */
static void test_stage_lines(void **state)
{
	static const char *const names[CALIBRATION_COPIES] = CALIBRATION_COPY_NAMES;
	struct calibration_stage stage;
	char text[1024];
	int length = snprintf(text, sizeof(text), FIRST "driver 13000\ngpu NVIDIA H200 x\n");

	for (int i = CALIBRATION_COPIES - 1; i >= 0; i--)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "stage %s %u\n",
				   names[i], 4096U << i);
	stage = stage_of(text);
	assert_int_equal(stage.copies, (1 << CALIBRATION_COPIES) - 1);
	for (unsigned int i = 0; i < CALIBRATION_COPIES; i++)
		assert_int_equal(stage.from[i], 4096U << i);
	assert_int_equal(stage.driver, 13000);
	assert_string_equal(stage.gpu, "NVIDIA H200 x");
	assert_string_equal(names[calibration_copy(true, false, false)], "to-device sync idle");
	assert_string_equal(names[calibration_copy(true, true, true)], "to-device async busy");
	assert_string_equal(names[calibration_copy(false, false, true)], "from-device sync busy");
	assert_string_equal(names[calibration_copy(false, true, false)], "from-device async idle");
	assert_string_equal(names[CALIBRATION_UNWAITED], "to-device sync unwaited");

	stage = stage_of(FIRST "gpu x\nstage from-device async busy never\ndriver 0x\n");
	assert_int_equal(stage.copies, 1 << calibration_copy(false, true, true));
	assert_true(stage.from[calibration_copy(false, true, true)] == CALIBRATION_NEVER);
	assert_int_equal(stage.driver, 0);
	stage = stage_of(FIRST "driver 13000\ngpu x\nidle cuMemFree_v2 none none 0 47000\n");
	assert_int_equal(stage.copies, 0);
}

static void test_corrupt_calibration_is_one_line(void **state)
{
	char text[512] = "", path[] = "/tmp/slipstream-table-XXXXXX";
	int ends[2], saved = dup(STDERR_FILENO), fd = mkstemp(path);
	char expected[256];

	assert_int_equal(write(fd, FIRST, strlen(FIRST)), (int)strlen(FIRST));
	close(fd);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	calibration_load(path);
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	close(saved);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	close(ends[0]);
	unlink(path);
	snprintf(expected, sizeof(expected),
		 "slipstream: calibration table '%s' is ignored: line 2: the checksum is missing "
		 "(cut file?)\n",
		 path);
	assert_string_equal(text, expected);
	assert_int_equal(records_count(file_base(), 64 << 10, RECORD_NOTE), 1);
}

static double time_call(unsigned int function, CUstream stream, unsigned int count)
{
	struct call call = world_call(function, stream);
	struct timespec from, to;
	unsigned int i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < count; i++) {
		/* What entry_begin() resets and the hooks do not. */
		call.flags = CALL_ASYNC;
		call.source_kind = call.destination_kind = MEMORY_NONE;
		call.context = NULL;
		call.stream = NULL;
		call.subject = KERNEL(0);
		state_before(&call);
		call.entered = 1000000;
		call.left = 1000000 + 4000;
		sync_after(&call, CUDA_SUCCESS);
		state_after(&call, CUDA_SUCCESS);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       count;
}

static void test_cost_of_a_launch(void **state)
{
	unsigned int count = ROUNDS(5000000);

	time_call(FUNCTION_cuLaunchKernel, A, 1000);
	print_message("state_before + sync_after + state_after of a launch: non-blocking %.1f ns, "
		      "blocking %.1f ns, ",
		      time_call(FUNCTION_cuLaunchKernel, N, count),
		      time_call(FUNCTION_cuLaunchKernel, A, count));
	print_message("NULL %.1f ns\n", time_call(FUNCTION_cuLaunchKernel, LEGACY, count));
	/* Whatever was pending on A joined once; B never had any. */
	assert_int_equal(findings(), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, begin)
	const struct CMUnitTest tests[] = {
		TEST(explicit_is_always_reported),
		TEST(implicit_wait),
		TEST(a_wait_that_was_left_out_is_none),
		TEST(busy_non_blocking_stream_is_no_reason),
		TEST(threshold_and_own_cost),
		TEST(rule_without_known_work),
		TEST(own_cost_rule),
		TEST(observed_unknown),
		TEST(observed_unknown_needs_work),
		TEST(observed_unknown_does_not_hide_a_join),
		TEST(first_call_with_calibration),
		TEST(held_up_submission),
		TEST(figure_of_a_slower_machine),
		TEST(page_faults_are_no_wait),
		TEST(own_work_behind_a_wait),
		TEST(first_use),
		TEST(first_use_is_no_sample),
		TEST(known_slow_calls_are_no_finding),
		TEST(bound_goes_with_the_minimum),
		TEST(bound_is_never_of_a_cost_before),
		TEST(queue_full),
		TEST(device_join),
		TEST(short_join),
		TEST(captured_calls_wait_for_nothing),
		TEST(regions_and_allowed_scopes),
		TEST(entries_of_regions),
		TEST(sources_nest_by_themselves),
		TEST(errno_is_kept),
		TEST(blocked_calls_are_no_samples),
		TEST(idle_table),
		TEST(samples_that_are_news),
		TEST(calibration_table),
		TEST(stage_lines),
		TEST(corrupt_calibration_is_one_line),
		TEST(cost_of_a_launch),
		TEST(steps_of_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
