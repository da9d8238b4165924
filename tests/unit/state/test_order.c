// SPDX-License-Identifier: MIT
/*
 * What counts as complete: streams, events, legacy order, captures, contexts. Each test that says
 * "still pending" fails when the rule that keeps state from claiming too much is off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/state.h"

#define A STREAM(0) /* blocking */
#define B STREAM(1) /* blocking */
#define N STREAM(2) /* non-blocking */

static const CUstream all[] = {LEGACY, A, B, N};
enum { ON_LEGACY = 1, ON_A = 2, ON_B = 4, ON_N = 8 };

static unsigned int pending(void)
{
	return world_pending(all, 4);
}

static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	world_create_stream(A, 0);
	world_create_stream(B, 0);
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	return 0;
}

static void launch_everywhere(void)
{
	world_launch(A, KERNEL(0));
	world_launch(B, KERNEL(0));
	world_launch(N, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
}

static void test_kinds(void **state)
{
	assert_int_equal(stream_kind(stream_find((uintptr_t)A)), STREAM_BLOCKING);
	assert_int_equal(stream_kind(stream_find((uintptr_t)N)), STREAM_NON_BLOCKING);
	assert_null(stream_find(0x77777700));
	world_launch(STREAM(9), KERNEL(0));
	assert_int_equal(stream_kind(stream_find((uintptr_t)STREAM(9))), STREAM_UNKNOWN);
}

static void test_stream_synchronize(void **state)
{
	launch_everywhere();
	assert_int_equal(pending(), ON_LEGACY | ON_A | ON_B | ON_N);
	world_synchronize(N);
	assert_int_equal(pending(), ON_LEGACY | ON_A | ON_B);
	world_synchronize(A);
	assert_int_equal(pending(), ON_LEGACY | ON_B);
}

static void test_legacy_synchronize(void **state)
{
	launch_everywhere();
	world_synchronize(LEGACY);
	assert_int_equal(pending(), ON_N);
	launch_everywhere();
	world_synchronize(CU_STREAM_LEGACY);
	assert_int_equal(pending(), ON_N);
	world_context_synchronize();
	assert_int_equal(pending(), 0);
}

/* The legacy stream has nothing of its own, and stands for the blocking ones all the same. */
static void test_legacy_synchronize_without_own_work(void **state)
{
	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	world_synchronize(LEGACY);
	assert_int_equal(pending(), ON_N);
}

/* What another thread submits while a wait is under way is not covered by it. */
static void test_submission_during_wait(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamSynchronize, A);

	world_launch(A, KERNEL(0));
	state_before(&call);
	world_launch(A, KERNEL(0));
	state_stream_observed(&call, CUDA_SUCCESS);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_A);
	world_synchronize(A);
	assert_int_equal(pending(), 0);

	call = world_call(FUNCTION_cuStreamSynchronize, LEGACY);
	world_launch(A, KERNEL(0));
	state_before(&call);
	world_launch(A, KERNEL(0));
	world_launch(B, KERNEL(0));
	state_stream_observed(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_A | ON_B);
}

static void test_failed_wait_proves_nothing(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, A);

	world_launch(A, KERNEL(0));
	state_before(&call);
	state_stream_observed(&call, CUDA_ERROR_NOT_READY);
	state_after(&call, CUDA_ERROR_NOT_READY);
	assert_int_equal(pending(), ON_A);
}

static void test_failed_launch_is_no_work(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, A);

	state_before(&call);
	state_after(&call, CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(pending(), 0);
}

static void test_event(void **state)
{
	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), 0);
	/* Work after the record is not covered. */
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	world_launch(A, KERNEL(0));
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
}

static void test_event_never_recorded(void **state)
{
	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_event_synchronize(EVENT(0));
	world_event_synchronize(EVENT(1));
	assert_int_equal(pending(), ON_A);
}

/* A re-recorded event proves its last record only. */
static void test_event_recorded_again(void **state)
{
	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	world_launch(N, KERNEL(0));
	world_record(EVENT(0), N);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
}

/* Recorded again while somebody waits for it: which record the driver waited for is not known. */
static void test_event_recorded_during_wait(void **state)
{
	struct call call = world_call(FUNCTION_cuEventSynchronize, NULL);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	call.subject = (uintptr_t)EVENT(0);
	state_before(&call);
	world_record(EVENT(0), N);
	state_event_observed(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_A);
}

/* Recorded elsewhere and back again during the wait: it looks as before, but the wait may have been for the one in between. */
static void test_event_recorded_twice_during_wait(void **state)
{
	struct call call = world_call(FUNCTION_cuEventSynchronize, NULL);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	call.subject = (uintptr_t)EVENT(0);
	state_before(&call);
	world_record(EVENT(0), N);
	world_record(EVENT(0), A);
	state_event_observed(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), 0);
}

/* The wait begins while another thread's record is between the driver and state_after(). */
static void test_event_record_under_way(void **state)
{
	struct call record = world_call(FUNCTION_cuEventRecord, N);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	record.subject = (uintptr_t)EVENT(0);
	state_before(&record);
	state_event_recording(&record, EVENT(0));
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
	state_event_recorded(&record, EVENT(0));
	state_after(&record, CUDA_SUCCESS);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
}

/* Two records at once: nobody knows whose the driver took last. */
static void test_event_two_recorders(void **state)
{
	struct call first = world_call(FUNCTION_cuEventRecord, A);
	struct call second = world_call(FUNCTION_cuEventRecord, N);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	first.subject = second.subject = (uintptr_t)EVENT(0);
	state_before(&first);
	state_event_recording(&first, EVENT(0));
	state_before(&second);
	state_event_recording(&second, EVENT(0));
	state_event_recorded(&second, EVENT(0));
	state_after(&second, CUDA_SUCCESS);
	state_event_recorded(&first, EVENT(0));
	state_after(&first, CUDA_SUCCESS);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A | ON_N);
	world_record(EVENT(0), A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_N);
}

static void test_event_failed_record(void **state)
{
	struct call call = world_call(FUNCTION_cuEventRecord, A);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	call.subject = (uintptr_t)EVENT(0);
	state_before(&call);
	state_event_recording(&call, EVENT(0));
	state_after(&call, CUDA_ERROR_INVALID_HANDLE);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
	world_record(EVENT(0), A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), 0);
}

static void test_event_of_others(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);

	state_before(&call);
	state_event_created(&call, EVENT(0), CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
	/* One that a graph records from now on. */
	world_create_event(EVENT(1));
	world_record(EVENT(1), A);
	state_event_foreign(&call, EVENT(1));
	world_event_synchronize(EVENT(1));
	assert_int_equal(pending(), ON_A);
}

static void test_event_handle_comes_back(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	state_before(&call);
	state_event_destroying(&call, EVENT(0));
	world_create_event(EVENT(0));
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
}

static void begin_capture(CUstream stream)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, stream);

	state_before(&call);
	state_capture_begun(&call, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	state_after(&call, CUDA_SUCCESS);
}

static void end_capture(CUstream stream, CUresult result)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, stream);

	state_before(&call);
	state_capture_ending(&call);
	state_capture_result(&call, result);
	state_after(&call, result);
}

static void test_capture(void **state)
{
	world_create_event(EVENT(0));
	begin_capture(N);
	world_launch(N, KERNEL(0));
	world_record(EVENT(0), N);
	/* Draws B in. */
	world_wait_event(B, EVENT(0));
	world_launch(B, KERNEL(0));
	world_launch(A, KERNEL(0));
	assert_int_equal(pending(), ON_A);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_A);
	end_capture(N, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	world_launch(B, KERNEL(0));
	assert_int_equal(pending(), ON_A);
	end_capture(N, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	world_launch(B, KERNEL(0));
	world_launch(N, KERNEL(0));
	assert_int_equal(pending(), ON_A | ON_B | ON_N);
	/* The event's record was in the capture: waiting for it now draws nothing in. */
	world_synchronize(B);
	world_wait_event(B, EVENT(0));
	world_launch(B, KERNEL(0));
	assert_int_equal(pending(), ON_A | ON_B | ON_N);
}

/* A record that each launch of the graph makes: it draws nobody in, and the event proves nothing any more. */
static void test_capture_records_for_the_graph(void **state)
{
	struct call call = world_call(FUNCTION_cuEventRecord, N);

	world_create_event(EVENT(0));
	begin_capture(N);
	call.subject = (uintptr_t)EVENT(0);
	state_before(&call);
	state_event_recording(&call, EVENT(0));
	state_event_recorded_with(&call, EVENT(0), CU_EVENT_RECORD_EXTERNAL);
	state_after(&call, CUDA_SUCCESS);
	world_wait_event(B, EVENT(0));
	world_launch(B, KERNEL(0));
	assert_int_equal(pending(), ON_B);
	end_capture(N, CUDA_SUCCESS);
	world_record(EVENT(0), B);
	/* A graph that is launched here records it, and is done. */
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_B);
}

/* Without that flag it is as any other record. */
static void test_event_recorded_with_flags(void **state)
{
	struct call call = world_call(FUNCTION_cuEventRecord, A);

	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	call.subject = (uintptr_t)EVENT(0);
	state_before(&call);
	state_event_recording(&call, EVENT(0));
	state_event_recorded_with(&call, EVENT(0), CU_EVENT_RECORD_DEFAULT);
	state_after(&call, CUDA_SUCCESS);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), 0);
}

/* An event recorded in a capture, after a real record: the real one does not count any more. */
static void test_capture_replaces_record(void **state)
{
	world_create_event(EVENT(0));
	world_launch(N, KERNEL(0));
	world_record(EVENT(0), N);
	begin_capture(B);
	world_record(EVENT(0), B);
	end_capture(B, CUDA_SUCCESS);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_N);
}

/* A record in a capture is none: the event says nothing of the stream's real work. */
static void test_record_in_capture_proves_nothing(void **state)
{
	world_create_event(EVENT(0));
	world_launch(B, KERNEL(0));
	begin_capture(B);
	world_record(EVENT(0), B);
	end_capture(B, CUDA_SUCCESS);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_B);
}

/* Part of a stream is complete: no more of the other is than was ordered before that part. */
static void test_conclusions_from_parts(void **state)
{
	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_record(EVENT(0), A);
	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_LEGACY | ON_A);
	world_context_synchronize();

	world_launch(LEGACY, KERNEL(0));
	world_record(EVENT(0), LEGACY);
	world_launch(B, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), ON_LEGACY | ON_B);
	world_record(EVENT(0), LEGACY);
	world_event_synchronize(EVENT(0));
	assert_int_equal(pending(), 0);
}

/* Conclusions of legacy order (order.c, 2 and 3). */
static void test_blocking_done_so_legacy_done(void **state)
{
	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_synchronize(A);
	assert_int_equal(pending(), 0);
	/* Not if the legacy operation came later. */
	world_launch(A, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	world_synchronize(A);
	assert_int_equal(pending(), ON_LEGACY);
	/* Not from a non-blocking stream. */
	world_launch(N, KERNEL(0));
	world_synchronize(N);
	assert_int_equal(pending(), ON_LEGACY);
}

static void test_empty_copy_orders_nothing(void **state)
{
	struct call call = world_call(FUNCTION_cuMemcpyHtoDAsync_v2, A);

	world_launch(LEGACY, KERNEL(0));
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	world_synchronize(A);
	assert_int_equal(pending(), ON_LEGACY);
}

static void test_legacy_event_covers_joined_streams(void **state)
{
	world_create_event(EVENT(0));
	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	world_launch(B, KERNEL(0));
	world_record(EVENT(0), LEGACY);
	world_event_synchronize(EVENT(0));
	/*
	 * A is behind it for certain; B is too, as an event on NULL joins, but that is not drawn.
	 */
	assert_int_equal(pending(), ON_B | ON_N);
}

/* Streams other than the call's own that it is the first to be ordered behind. */
static uint32_t joins(struct call *call)
{
	uint32_t count = 0;
	uint32_t i;

	for (i = 0; i < call->pending_count; i++)
		count += state_in_scope(call, call->pending[i].stream, CATALOGUE_SCOPE_JOIN);
	return count;
}

static void test_joins_reported_once(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, LEGACY);

	world_launch(N, KERNEL(0));
	world_launch(A, KERNEL(0));
	call.subject = KERNEL(0);
	state_before(&call);
	assert_int_equal(call.pending_count, 1);
	assert_ptr_equal(call.pending[0].stream, stream_find((uintptr_t)A));
	assert_int_equal(joins(&call), 1);
	state_after(&call, CUDA_SUCCESS);
	/* The next one is behind A already. */
	state_before(&call);
	assert_int_equal(joins(&call), 0);
	state_after(&call, CUDA_SUCCESS);
	world_launch(A, KERNEL(0));
	state_before(&call);
	assert_int_equal(joins(&call), 1);

	/* The other way round: B's first operation behind the legacy one. */
	call = world_call(FUNCTION_cuLaunchKernel, B);
	call.subject = KERNEL(0);
	state_before(&call);
	assert_int_equal(joins(&call), 1);
	assert_int_equal(stream_kind(call.pending[0].stream), STREAM_LEGACY);
	state_after(&call, CUDA_SUCCESS);
	state_before(&call);
	assert_int_equal(joins(&call), 0);
}

static void test_synchronous_copies(void **state)
{
	struct call call = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);

	launch_everywhere();
	call.flags = CALL_DESTINATION_HOST;
	call.source = 0x7000;
	call.destination = 0x8000;
	call.bytes = 4;
	state_before(&call);
	assert_int_equal(call.source_kind, MEMORY_UNKNOWN);
	assert_int_equal(call.destination_kind, MEMORY_PAGEABLE);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_N);

	/* From pageable memory: the earlier work is done, the copy itself may not be. */
	launch_everywhere();
	call = world_call(FUNCTION_cuMemcpyHtoD_v2, NULL);
	call.flags = CALL_SOURCE_HOST;
	call.source = 0x7000;
	call.destination = 0x8000;
	call.bytes = 4;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY | ON_N);

	/* Both operands guessed (cuMemcpy): they may be device memory, and nothing waits then. */
	launch_everywhere();
	call = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);
	call.flags = CALL_SOURCE_HOST | CALL_DESTINATION_HOST;
	call.source = 0x7000;
	call.destination = 0x8000;
	call.bytes = 4;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY | ON_A | ON_B | ON_N);

	/* No bytes: no wait. */
	world_context_synchronize();
	launch_everywhere();
	call.flags = CALL_DESTINATION_HOST;
	call.bytes = 0;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY | ON_A | ON_B | ON_N);
}

/*
 * Two threads on the legacy stream: ours is first in the driver, and waits there; the other's operation, behind it, has its number first, and has joined A. What
 * ours proves is nothing of either.
 */
static void overtaken(struct call *call)
{
	state_before(call);
	world_launch(A, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	state_after(call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY | ON_A);
	/* Of the next one all of it, again. */
	state_before(call);
	state_after(call, CUDA_SUCCESS);
	assert_int_equal(pending(), 0);
}

static void test_numbers_of_two_threads(void **state)
{
	struct call call = world_call(FUNCTION_cuMemcpyDtoH_v2, NULL);

	call.flags = CALL_DESTINATION_HOST;
	call.source = 0x7000;
	call.destination = 0x8000;
	call.bytes = 4;
	overtaken(&call);

	call = world_call(FUNCTION_cuMemsetD8_v2, NULL);
	state_pinned_begins(0x8000, 4096);
	call.destination = 0x8000;
	call.bytes = 4;
	overtaken(&call);
}

static void test_destroyed_stream_works_on(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	struct state_stream *old = stream_find((uintptr_t)A);

	world_launch(A, KERNEL(0));
	world_destroy_stream(A);
	assert_null(stream_find((uintptr_t)A));
	state_before(&call);
	assert_int_equal(call.pending_count, 1);
	/* The handle comes back for another stream, of another kind. */
	world_create_stream(A, CU_STREAM_NON_BLOCKING);
	assert_ptr_not_equal(stream_find((uintptr_t)A), old);
	assert_int_equal(stream_kind(stream_find((uintptr_t)A)), STREAM_NON_BLOCKING);
	world_synchronize(A);
	state_before(&call);
	assert_int_equal(call.pending_count, 1);
	world_context_synchronize();
	state_before(&call);
	assert_int_equal(call.pending_count, 0);
	/* Known complete: the entry is taken over. */
	world_create_stream(STREAM(5), 0);
	assert_ptr_equal(stream_find((uintptr_t)STREAM(5)), old);
}

static void test_contexts(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, LEGACY);

	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_context = 2;
	/* Another context's legacy stream neither joins A nor waits for it. */
	state_before(&call);
	assert_int_equal(call.pending_count, 0);
	state_after(&call, CUDA_SUCCESS);
	world_synchronize(LEGACY);
	assert_int_equal(pending(), ON_LEGACY | ON_A);
	world_context_synchronize();
	assert_int_equal(pending(), ON_LEGACY | ON_A);
	world_context = 1;
	world_synchronize(LEGACY);
	assert_int_equal(pending(), 0);
}

/* cuCtxSynchronize_v2: not the current context, but the one that is given. */
static void test_synchronize_of_a_given_context(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);

	world_launch(A, KERNEL(0));
	world_context = 2;
	world_launch(LEGACY, KERNEL(0));
	call.subject = 1;
	state_before(&call);
	state_context_observed(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY);
	/* One that nobody has seen. */
	call.subject = 9;
	state_before(&call);
	state_context_observed(&call, CUDA_SUCCESS);
	assert_int_equal(pending(), ON_LEGACY);
}

/* A stream that no wrapper saw made may be non-blocking. */
static void test_legacy_proves_nothing_of_unseen_streams(void **state)
{
	CUstream unseen = STREAM(9);

	world_launch(unseen, KERNEL(0));
	world_synchronize(LEGACY);
	assert_int_equal(world_pending(&unseen, 1), 1);
	world_synchronize(unseen);
	assert_int_equal(world_pending(&unseen, 1), 0);
}

/* cudart resets the primary context: same handles, new id. */
static void test_context_reset(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);
	CUstream fresh = A;

	world_launch(A, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	state_before(&call);
	state_primary_resetting(&call, 0);
	world_context = 2;
	assert_int_equal(pending(), 0);
	assert_null(stream_find((uintptr_t)A));
	world_create_stream(fresh, CU_STREAM_NON_BLOCKING);
	world_launch(LEGACY, KERNEL(0));
	assert_int_equal(state_context_id(stream_context(stream_find((uintptr_t)fresh))), 2);
	assert_int_equal(pending(), ON_LEGACY);
	world_synchronize(LEGACY);
	assert_int_equal(pending(), 0);
}

static void test_created_context_survives_primary_reset(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);

	state_before(&call);
	state_context_created(&call, (CUcontext)(uintptr_t)7);
	world_context = 7;
	world_launch(LEGACY, KERNEL(0));
	state_primary_resetting(&call, 0);
	assert_int_equal(pending(), ON_LEGACY);
	state_context_destroying(&call, (CUcontext)(uintptr_t)7);
	assert_int_equal(pending(), 0);
}

static CUresult current_handle(CUcontext *ret_context)
{
	*ret_context = (CUcontext)(uintptr_t)(0x5000 + world_context);
	return CUDA_SUCCESS;
}

/* A driver before 12.0. */
static void test_no_context_ids(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamCreate, NULL);
	uint64_t id;

	driver.cuCtxGetId = NULL;
	driver.cuCtxGetCurrent = current_handle;
	world_launch(LEGACY, KERNEL(0));
	state_before(&call);
	id = state_context_id(call.context);
	assert_true(id != 0);
	state_before(&call);
	assert_true(state_context_id(call.context) == id);
	state_primary_resetting(&call, 0);
	state_before(&call);
	assert_true(state_context_id(call.context) != id);
	world_synchronize(LEGACY);
	assert_int_equal(pending() & ON_LEGACY, 0);
}

static void test_no_context(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, LEGACY);

	world_context = 0;
	state_before(&call);
	assert_null(call.context);
	assert_null(call.stream);
	state_after(&call, CUDA_ERROR_INVALID_CONTEXT);
}

static void test_more_pending_than_fit(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxSynchronize, NULL);
	unsigned int i;

	for (i = 0; i < 100; i++) {
		world_create_stream(STREAM(100 + i), 0);
		world_launch(STREAM(100 + i), KERNEL(0));
	}
	state_before(&call);
	assert_int_equal(call.pending_count, CALL_PENDING_MAX + 1);
	state_context_observed(&call, CUDA_SUCCESS);
	state_before(&call);
	assert_int_equal(call.pending_count, 100 - CALL_PENDING_MAX);
	state_context_observed(&call, CUDA_SUCCESS);
	state_before(&call);
	assert_int_equal(call.pending_count, 0);
}

static void test_candidates(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	struct emit_candidate candidate;

	state_function_named(&call, (CUfunction)(uintptr_t)KERNEL(3), "saxpy");
	world_launch(B, KERNEL(3));
	world_launch(LEGACY, KERNEL(4));
	state_before(&call);
	assert_int_equal(call.pending_count, 2);
	/* In the order of the streams' numbers. */
	state_candidate(&call.pending[0], &candidate);
	assert_int_equal(candidate.stream_kind, STREAM_LEGACY);
	assert_int_equal(candidate.stream, 0);
	assert_int_equal(candidate.name, 0);
	state_candidate(&call.pending[1], &candidate);
	assert_int_equal(candidate.stream_kind, STREAM_BLOCKING);
	assert_int_equal(candidate.context, 1);
	assert_int_not_equal(candidate.stream, 0);
	assert_int_equal(candidate.operation, OPERATION_KERNEL);
	assert_int_equal(candidate.name, emit_string("saxpy", 5));
	assert_int_equal(candidate.certain, 0);
}

static void test_attribute_off_asks_nothing(void **state)
{
	launch_everywhere();
	pending();
	assert_int_equal(world_queries, 0);
}

static void test_attribute(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);
	uint32_t i;

	config.attribute = true;
	launch_everywhere();
	assert_int_equal(world_queries, 0); /* launches are not asked about */
	state_before(&call);
	assert_int_equal(world_queries, 4);
	assert_int_equal(world_unrelaxed_queries, 0);
	assert_false(world_relaxed);
	assert_int_equal(call.pending_count, 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(call.pending[i].certain, 1);
	/* Found done: known complete for later calls too. */
	world_query_result = CUDA_SUCCESS;
	state_before(&call);
	assert_int_equal(call.pending_count, 0);
	config.attribute = false;
	assert_int_equal(pending(), 0);
}

/* Where it is rewritten, its work may be on the substitute, and the driver knows of none. */
static void test_attribute_leaves_a_rewritten_stream_alone(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);

	config.attribute = true;
	config.mode = CONFIG_FIX;
	config.fix = CONFIG_FIX_STREAMS;
	launch_everywhere();
	world_query_result = CUDA_SUCCESS;
	state_before(&call);
	assert_int_equal(world_queries, 3);
	/* The others are known done, and prove nothing of it. */
	assert_int_equal(call.pending_count, 1);
	assert_int_equal(stream_kind(call.pending[0].stream), STREAM_LEGACY);
	config.attribute = false;
	config.mode = CONFIG_OBSERVE;
	config.fix = 0;
	assert_int_equal(pending(), ON_LEGACY);
}

static void test_attribute_leaves_captures_alone(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);

	config.attribute = true;
	launch_everywhere();
	world_captures = N;
	state_before(&call);
	assert_int_equal(world_queries, 3);
	assert_int_equal(call.pending_count, 4);
	world_queries = 0;
	world_legacy_implicated = true;
	state_before(&call);
	assert_int_equal(world_queries, 0);
	assert_int_equal(call.pending_count, 4);
}

static void test_attribute_never_asks_about_destroyed_streams(void **state)
{
	struct call call = world_call(FUNCTION_cuMemFree_v2, NULL);

	config.attribute = true;
	world_launch(A, KERNEL(0));
	world_destroy_stream(A);
	state_before(&call);
	assert_int_equal(world_queries, 0);
	assert_int_equal(call.pending_count, 1);
	assert_int_equal(call.pending[0].certain, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, begin)
	const struct CMUnitTest tests[] = {
		TEST(kinds),
		TEST(stream_synchronize),
		TEST(legacy_synchronize),
		TEST(legacy_synchronize_without_own_work),
		TEST(submission_during_wait),
		TEST(failed_wait_proves_nothing),
		TEST(failed_launch_is_no_work),
		TEST(event),
		TEST(event_never_recorded),
		TEST(event_recorded_again),
		TEST(event_recorded_during_wait),
		TEST(event_recorded_twice_during_wait),
		TEST(event_recorded_with_flags),
		TEST(event_record_under_way),
		TEST(event_two_recorders),
		TEST(event_failed_record),
		TEST(event_of_others),
		TEST(event_handle_comes_back),
		TEST(capture),
		TEST(capture_replaces_record),
		TEST(capture_records_for_the_graph),
		TEST(record_in_capture_proves_nothing),
		TEST(conclusions_from_parts),
		TEST(blocking_done_so_legacy_done),
		TEST(empty_copy_orders_nothing),
		TEST(legacy_event_covers_joined_streams),
		TEST(joins_reported_once),
		TEST(synchronous_copies),
		TEST(numbers_of_two_threads),
		TEST(destroyed_stream_works_on),
		TEST(contexts),
		TEST(synchronize_of_a_given_context),
		TEST(legacy_proves_nothing_of_unseen_streams),
		TEST(context_reset),
		TEST(created_context_survives_primary_reset),
		TEST(no_context_ids),
		TEST(no_context),
		TEST(more_pending_than_fit),
		TEST(candidates),
		TEST(attribute_off_asks_nothing),
		TEST(attribute),
		TEST(attribute_leaves_a_rewritten_stream_alone),
		TEST(attribute_leaves_captures_alone),
		TEST(attribute_never_asks_about_destroyed_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
