// SPDX-License-Identifier: MIT
/*
 * The short way of a launch: taken only where the long way would have nothing to say, and what it
 * counts is what the long way counts. Each "not plain" case fails when the check that refuses it is
 * off.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <pthread.h>
#include <ucontext.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "clock.h"
#include "emit/file.h"
#include "fake/records.h"
#include "fake/world.h"
#include "rounds.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/state.h"

#define A STREAM(0) /* blocking */
#define B STREAM(1) /* blocking */
#define N STREAM(2) /* non-blocking */

static struct state_launch launch;
static bool untimed; /* the last launch_at() had the shortest way */

static bool is_plain(CUstream stream, uint64_t function)
{
	return state_launch_is_plain(stream, (CUfunction)(uintptr_t)function, false, &launch);
}

#define QUICK 100 /* ticks */
#define PLAIN (100 * LAUNCH_ROW)

#define NUMBER (FUNCTION_cuLaunchKernel + 1)

static uint64_t calls; /* what the remembered launches count */

static void real(void)
{
}

static bool launch_function_at(CUstream stream, uint64_t function, uint64_t entered, uint64_t left)
{
	struct launch_ready ready;

	untimed = state_launch_remembered(NUMBER, stream, (CUfunction)(uintptr_t)function, &ready);
	if (untimed) {
		assert_ptr_equal(ready.real, real);
		state_launch_succeeded(&ready);
		return true;
	}
	assert_true(is_plain(stream, function));
	if (!state_launch_done(&launch, launch.clock == LAUNCH_READ_BOTH ? entered : 0, left))
		return false;
	calls++;
	state_launch_remember(&launch, NUMBER, &calls, real);
	return true;
}

/* A plain launch that begins and returns at these ticks, as a wrapper makes it. False: to be looked at. */
static bool launch_at(CUstream stream, uint64_t entered, uint64_t left)
{
	return launch_function_at(stream, KERNEL(0), entered, left);
}

/* So many, each soon after the one before. */
static uint64_t launch_in_a_row(CUstream stream, uint64_t from, int count)
{
	int i;

	for (i = 0; i < count; i++, from += 20)
		assert_true(launch_at(stream, from, from + 10));
	return from;
}

static unsigned int notes(void)
{
	return records_count(file_base(), 64 << 10, RECORD_NOTE);
}

/* The first launch on a stream, of a function, is never plain; it fills the caches. */
static int begin(void **state)
{
	if (world_begin(state))
		return 1;
	state_launch_limits(QUICK, PLAIN);
	world_create_stream(A, 0);
	world_create_stream(N, CU_STREAM_NON_BLOCKING);
	return 0;
}

static void test_first_use(void **state)
{
	uint64_t other;

	assert_false(is_plain(N, KERNEL(0)));
	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	other = KERNEL(1);
	while (thread_slot(other, THREAD_KERNELS) == thread_slot(KERNEL(0), THREAD_KERNELS))
		other += 0x80;
	assert_false(is_plain(N, other));
	world_launch(N, other);
	assert_true(is_plain(N, other));
	assert_true(is_plain(N, KERNEL(0)));
	assert_false(is_plain(STREAM(7), KERNEL(0)));
}

static void test_counts(void **state)
{
	const CUstream all[] = {N};
	struct state_stream *stream;

	world_launch(N, KERNEL(0));
	world_synchronize(N);
	assert_int_equal(world_pending(all, 1), 0);
	stream = stream_find((uintptr_t)N);
	assert_int_equal(stream_submitted(stream), 1);
	assert_true(launch_at(N, 1000, 1010));
	assert_int_equal(stream_submitted(stream), 2);
	assert_int_equal(stream->youngest >> 32, OPERATION_KERNEL);
	assert_int_equal(world_pending(all, 1), 1);
	world_synchronize(N);
	assert_int_equal(world_pending(all, 1), 0);
}

/* Counted without a lock once the stream is claimed: the number and what is pending stay right. */
static void test_in_a_row(void **state)
{
	const CUstream all[] = {N};
	struct state_stream *stream;
	uint64_t now;

	world_launch(N, KERNEL(0));
	stream = stream_find((uintptr_t)N);
	assert_int_equal(stream->launcher, 0);
	now = launch_in_a_row(N, 1000, 20);
	assert_int_not_equal(stream->launcher, 0);
	assert_int_equal(stream_submitted(stream), 21);
	assert_true(stream->launched > 5);
	assert_true(untimed);
	world_synchronize(N);
	/* Off the list it would be missed: these launches do not look at it. */
	assert_int_equal(world_pending(all, 1), 0);
	now = launch_in_a_row(N, now, 20);
	assert_int_equal(world_pending(all, 1), 1);
	assert_int_equal(stream_submitted(stream), 41);
	world_launch(N, KERNEL(0));
	assert_int_equal(stream_submitted(stream), 42);
}

static void *launch_elsewhere(void *argument)
{
	world_context = 1;
	world_launch(N, KERNEL(0));
	launch_in_a_row(N, 1000, 50);
	return argument;
}

/* A second thread counts beside the launcher; nothing is lost, and a thread that ends lets go. */
static void test_two_threads(void **state)
{
	struct state_stream *stream;
	pthread_t thread;
	uint64_t launcher;

	world_launch(N, KERNEL(0));
	stream = stream_find((uintptr_t)N);
	launch_in_a_row(N, 1000, 20);
	launcher = stream->launcher;
	assert_int_equal(pthread_create(&thread, NULL, launch_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(stream->launcher, launcher);
	assert_int_equal(stream_submitted(stream), 21 + 51);
	state_thread_exit();
	assert_int_equal(stream->launcher, 0);
}

/* Habit is needed, and ends with another call or a deep queue. */
static void test_habit(void **state)
{
	uint64_t now = clock_ticks();

	/* state_before() reads the real clock. */
	state_launch_limits(1000000000, UINT64_C(16000000000));
	world_launch(N, KERNEL(0));
	now = launch_in_a_row(N, now, LAUNCH_TIGHT + 1);
	assert_false(untimed);
	now = launch_in_a_row(N, now, 2);
	assert_true(untimed);
	world_synchronize(N);
	now = launch_in_a_row(N, now, 1);
	assert_false(untimed);
	now = launch_in_a_row(N, now, 20);
	assert_true(untimed);
	state_launch_end_row();
	now = launch_in_a_row(N, now, 1);
	assert_false(untimed);
	launch_in_a_row(N, now, 600);
	assert_false(untimed);
	assert_int_equal(notes(), 0);
}

/* Launches far apart are each timed. */
static void test_far_apart(void **state)
{
	uint64_t now = 1000;
	int i;

	world_launch(N, KERNEL(0));
	for (i = 0; i < 50; i++, now += PLAIN / LAUNCH_ROW + 20) {
		assert_true(launch_at(N, now, now + 10));
		assert_false(untimed);
	}
}

/* What is pending becomes few again, without a call in between that would end the row. */
static void forget_the_backlog(void)
{
	struct state_stream *stream = stream_find((uintptr_t)N);

	order_complete(stream, stream_submitted(stream));
}

/* In a row the clock is read often enough to prove that none of the launches took long ... */
static void test_proof(void **state)
{
	uint64_t now;
	int i, read = 0;

	world_launch(N, KERNEL(0));
	now = launch_in_a_row(N, 1000, 12);
	for (i = 0; i < 10 * LAUNCH_ROW; i++, now += 20) {
		if (i % 400 == 399)
			forget_the_backlog();
		assert_true(launch_at(N, now, now + 10));
		read += !untimed;
	}
	assert_int_equal(read, 10);
	assert_int_equal(notes(), 0);
}

/* ... and a pause that leaves it open which launch took it is counted; the next ones are timed. */
static void test_pause(void **state)
{
	uint64_t now;

	world_launch(N, KERNEL(0));
	now = launch_in_a_row(N, 1000, 10) + PLAIN;
	while (launch_at(N, now, now + 10), untimed)
		now += 20;
	assert_int_equal(notes(), 1);
	assert_true(launch_at(N, now + 20, now + 30));
	assert_int_equal(launch.clock, LAUNCH_READ_BOTH);
}

/* A legacy row does not go on looking at blocking streams that are idle, claimed or not. */
static void test_idle_streams_leave_the_list(void **state)
{
	uint64_t now;

	world_launch(A, KERNEL(0));
	now = launch_in_a_row(A, 1000, 20);
	assert_int_not_equal(stream_find((uintptr_t)A)->launcher, 0);
	assert_int_not_equal(unjoined_bits[0], 0);
	world_synchronize(A);
	world_launch(LEGACY, KERNEL(0));
	now = launch_in_a_row(LEGACY, now, 2 * LAUNCH_ROW);
	assert_true(untimed);
	assert_int_equal(unjoined_bits[0], 0);
	/* And come back with their next work. */
	world_launch(A, KERNEL(0));
	assert_int_not_equal(unjoined_bits[0], 0);
	assert_false(is_plain(LEGACY, KERNEL(0)));
}

/* One that was timed and took long is left to the long way, uncounted. */
static void test_took_long(void **state)
{
	struct state_stream *stream;

	world_launch(N, KERNEL(0));
	stream = stream_find((uintptr_t)N);
	assert_true(is_plain(N, KERNEL(0)));
	assert_false(state_launch_done(&launch, 1000, 1000 + QUICK));
	assert_int_equal(stream_submitted(stream), 1);
}

static void test_capture(void **state)
{
	struct call call;

	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	call = world_call(FUNCTION_cuStreamQuery, N);
	state_before(&call);
	state_capture_begun(&call, N, CU_STREAM_CAPTURE_MODE_RELAXED);
	state_after(&call, CUDA_SUCCESS);
	assert_false(is_plain(N, KERNEL(0)));
}

/* Drawn into a capture that has ended: the stream works again, and nobody told it. */
static void test_after_a_capture(void **state)
{
	const CUevent event = EVENT(0);
	struct call call;

	world_create_event(event);
	world_launch(N, KERNEL(0));
	call = world_call(FUNCTION_cuStreamQuery, A);
	state_before(&call);
	state_capture_begun(&call, A, CU_STREAM_CAPTURE_MODE_RELAXED);
	world_record(event, A);
	world_wait_event(N, event);
	assert_false(is_plain(N, KERNEL(0)));
	state_capture_ending(&call);
	state_capture_result(&call, CUDA_SUCCESS);
	assert_true(is_plain(N, KERNEL(0)));
}

static void test_legacy_with_new_blocking_work(void **state)
{
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	assert_true(is_plain(CU_STREAM_LEGACY, KERNEL(0)));
	world_launch(N, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	world_launch(A, KERNEL(0));
	assert_false(is_plain(LEGACY, KERNEL(0)));
	/* Joined by the long way: the next one has nothing new to join. */
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
}

static void test_blocking_with_new_legacy_work(void **state)
{
	world_launch(A, KERNEL(0));
	assert_true(is_plain(A, KERNEL(0)));
	world_launch(LEGACY, KERNEL(0));
	assert_false(is_plain(A, KERNEL(0)));
	world_launch(A, KERNEL(0));
	assert_true(is_plain(A, KERNEL(0)));
}

static struct call_pending joined[CALL_PENDING_MAX];

/* Not plain, but short. */
static bool joins(CUstream stream)
{
	return !is_plain(stream, KERNEL(0)) && launch.is_joining &&
	       state_launch_joins(&launch, joined);
}

/* The streams that the short launch is ordered behind, in the order of their lists; and its own. */
static void test_joins_what_the_long_way_finds(void **state)
{
	const struct state_stream *legacy;
	struct call call;
	uint32_t i;

	world_create_stream(B, 0);
	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_launch(A, KERNEL(0));
	world_launch(N, KERNEL(0));
	world_launch(B, KERNEL(0));
	call = world_call(FUNCTION_cuLaunchKernel, LEGACY);
	call.subject = KERNEL(0);
	state_before(&call);
	assert_true(joins(LEGACY));
	legacy = launch.stream;
	assert_int_equal(launch.pending_count, 3);
	assert_int_equal(call.pending_count, 3);
	for (i = 0; i < 3; i++) {
		assert_ptr_equal(joined[i].stream, call.pending[i].stream);
		assert_true(joined[i].submitted == call.pending[i].submitted);
		assert_true(joined[i].name == call.pending[i].name);
		assert_int_equal(joined[i].operation, call.pending[i].operation);
		assert_int_equal(joined[i].certain, 0);
	}
	assert_ptr_equal(joined[0].stream, legacy);
	assert_ptr_equal(joined[1].stream, stream_find((uintptr_t)A));
	assert_true(joined[1].submitted == 2);
	assert_ptr_equal(joined[2].stream, stream_find((uintptr_t)B));
}

/* What is concluded from it: conclusions 2 and 3 of order.c, and that there is nothing new to join then. */
static void test_joins_and_concludes(void **state)
{
	const CUstream all[] = {A, LEGACY};

	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	assert_true(joins(LEGACY));
	assert_true(state_launch_done(&launch, 1000, 1010));
	assert_int_equal(stream_submitted(launch.stream), 2);
	assert_true(is_plain(LEGACY, KERNEL(0)));
	/* Its own work only: none of A's. */
	order_complete(launch.stream, 1);
	assert_int_equal(world_pending(all, 1), 1);
	order_complete(launch.stream, 2);
	assert_int_equal(world_pending(all, 1), 0);
	assert_true(launch_at(LEGACY, 2000, 2010));
	assert_true(joins(A));
	assert_int_equal(launch.pending_count, 1);
	assert_true(state_launch_done(&launch, 3000, 3010));
	assert_true(is_plain(A, KERNEL(0)));
	order_complete(launch.stream, 2);
	assert_false(stream_is_pending(context_of(1)->legacy));
}

/* It took long: the long way goes by what was seen before it, and draws the same conclusions. */
static void test_joins_and_takes_long(void **state)
{
	const CUstream all[] = {A, B};
	struct call call;

	world_create_stream(B, 0);
	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	call = world_call(FUNCTION_cuLaunchKernel, LEGACY);
	call.subject = KERNEL(0);
	assert_false(is_plain(LEGACY, KERNEL(0)));
	assert_true(state_launch_joins(&launch, call.pending));
	world_launch(B, KERNEL(0)); /* by another thread, meanwhile */
	assert_false(state_launch_done(&launch, 1000, 1000 + QUICK));
	state_launch_late(&launch, &call);
	assert_int_equal(call.pending_count, 2);
	assert_false(call.flags & CALL_LATE);
	state_after(&call, CUDA_SUCCESS);
	order_complete(call.stream, call.submission);
	assert_int_equal(world_pending(all, 2), 2);
}

/* Between the two looks another thread ends the context, and its streams are of none. */
static void test_does_not_join_what_has_ended(void **state)
{
	struct state_stream *stream;
	struct call_pending pending[CALL_PENDING_MAX];

	world_launch(A, KERNEL(0));
	world_launch(LEGACY, KERNEL(0));
	assert_false(is_plain(A, KERNEL(0)));
	assert_true(launch.is_joining);
	stream = launch.stream;
	assert_ptr_equal(stream, stream_find((uintptr_t)A));
	stream_retire_context(context_of(1));
	assert_null(stream->context);
	assert_false(state_launch_joins(&launch, pending));
	assert_false(launch.is_joining);
	assert_int_equal(launch_thread.row.entered, launch_thread.row.numbered);
}

static void test_does_not_join(void **state)
{
	struct call call;
	int i;

	world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	assert_true(joins(LEGACY));
	/* A full queue has a rule of its own. */
	for (i = 0; i < LAUNCH_SHORT_QUEUE; i++)
		world_launch(LEGACY, KERNEL(0));
	world_launch(A, KERNEL(0));
	assert_false(joins(LEGACY));
	world_context_synchronize();
	/* Sent the long way by the legacy room. */
	world_launch(A, KERNEL(0));
	state_launch_bar(context_of(1), true);
	assert_false(joins(LEGACY));
	state_launch_bar(context_of(1), false);
	assert_true(joins(LEGACY));
	/* More streams than have room. */
	for (i = 0; i < CALL_PENDING_MAX; i++) {
		world_create_stream(STREAM(100 + i), 0);
		world_launch(STREAM(100 + i), KERNEL(0));
	}
	assert_false(joins(LEGACY));
	call = world_call(FUNCTION_cuStreamQuery, A);
	state_before(&call);
	state_capture_begun(&call, A, CU_STREAM_CAPTURE_MODE_RELAXED);
	state_after(&call, CUDA_SUCCESS);
	world_launch(LEGACY, KERNEL(0));
	assert_false(joins(A));
}

/* The first operation on a stream is the long way's, whatever this thread has forgotten of it. */
static void test_streams_that_drive_each_other_out(void **state)
{
	CUstream other = STREAM(100), new;

	world_launch(N, KERNEL(0));
	while (thread_slot((uintptr_t)other, THREAD_STREAMS) !=
	       thread_slot((uintptr_t)N, THREAD_STREAMS))
		other = (CUstream)((uintptr_t)other + 0x100);
	new = (CUstream)((uintptr_t)other + 0x100 * THREAD_STREAMS * 1024);
	world_create_stream(other, CU_STREAM_NON_BLOCKING);
	world_create_stream(new, CU_STREAM_NON_BLOCKING);
	assert_false(is_plain(other, KERNEL(0)));
	world_launch(other, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	assert_ptr_equal(launch.stream, stream_find((uintptr_t)N));
	assert_true(is_plain(other, KERNEL(0)));
	assert_ptr_equal(launch.stream, stream_find((uintptr_t)other));
	assert_false(is_plain(new, KERNEL(0)));
}

static void test_per_thread_and_unseen(void **state)
{
	world_launch(PER_THREAD_, KERNEL(0));
	assert_false(is_plain(PER_THREAD_, KERNEL(0)));
	assert_false(state_launch_is_plain(NULL, (CUfunction)(uintptr_t)KERNEL(0), true, &launch));
	world_launch(STREAM(9), KERNEL(0));
	assert_false(is_plain(STREAM(9), KERNEL(0)));
}

static void test_handles_that_come_back(void **state)
{
	const struct state_stream *old;

	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	old = launch.stream;
	world_destroy_stream(N);
	assert_false(is_plain(N, KERNEL(0)));
	world_create_stream(N, 0);
	world_launch(N, KERNEL(0));
	assert_true(is_plain(N, KERNEL(0)));
	assert_ptr_equal(launch.stream, stream_find((uintptr_t)N));
	assert_true(launch.stream != old || stream_kind(launch.stream) == STREAM_BLOCKING);
}

static void test_another_context_in_a_row(void **state)
{
	struct state_stream *first;

	world_launch(LEGACY, KERNEL(0));
	launch_in_a_row(LEGACY, 1000, 20);
	first = launch.stream;
	world_context = 2;
	/* What the wrappers of the functions that change the context do. */
	state_launch_end_row();
	assert_true(is_plain(LEGACY, KERNEL(0)));
	assert_ptr_not_equal(launch.stream, first);
	/* A change that no wrapper saw is found after a few launches all the same. */
	launch_in_a_row(LEGACY, 5000, 20);
	first = launch.stream;
	world_context = 1;
	launch_in_a_row(LEGACY, 5400, 2 * LAUNCH_ROW);
	assert_ptr_not_equal(launch.stream, first);
}

/* A row that begins in another context takes the legacy launches of the one before out of memory. */
static void test_another_context_in_a_row_elsewhere(void **state)
{
	struct launch_ready ready;
	uint64_t now;

	world_launch(LEGACY, KERNEL(0));
	world_launch(N, KERNEL(0));
	now = launch_in_a_row(LEGACY, 1000, 20);
	world_context = 2;
	state_launch_end_row();
	launch_in_a_row(N, now, 20);
	assert_true(untimed);
	assert_false(
		state_launch_remembered(NUMBER, LEGACY, (CUfunction)(uintptr_t)KERNEL(0), &ready));
}

static void test_another_context(void **state)
{
	world_launch(LEGACY, KERNEL(0));
	assert_true(is_plain(LEGACY, KERNEL(0)));
	world_context = 2;
	assert_true(is_plain(LEGACY, KERNEL(0)));
	assert_ptr_equal(launch.stream, context_current()->legacy);
	world_context = 0;
	assert_false(is_plain(LEGACY, KERNEL(0)));
}

/* A late look (CALL_LATE) may have missed what came first: nothing is concluded from it. */
static void test_late_concludes_nothing(void **state)
{
	const CUstream all[] = {A};
	struct call call;

	world_launch(A, KERNEL(0));
	call = world_call(FUNCTION_cuLaunchKernel, LEGACY);
	call.subject = KERNEL(0);
	call.flags |= CALL_LATE;
	state_before(&call);
	state_after(&call, CUDA_SUCCESS);
	/*
	 * The legacy operation is observed; had it joined, the blocking stream's work would be
	 * known complete.
	 */
	order_complete(call.stream, call.submission);
	assert_int_equal(world_pending(all, 1), 1);
}

/* ---- remembered launches: what each stamp is for ---- */

static bool is_remembered(CUstream stream)
{
	struct launch_ready ready;

	if (!state_launch_remembered(NUMBER, stream, (CUfunction)(uintptr_t)KERNEL(0), &ready))
		return false;
	state_launch_succeeded(&ready);
	return true;
}

/* A row on the stream whose next launch is remembered. */
static uint64_t remember(CUstream stream, uint64_t now)
{
	world_launch(stream, KERNEL(0));
	now = launch_in_a_row(stream, now, 20);
	assert_true(is_remembered(stream));
	return now;
}

static void test_remembered_counts_calls(void **state)
{
	calls = 0;
	world_launch(N, KERNEL(0));
	launch_in_a_row(N, 1000, 200);
	assert_int_equal(calls, 200);
	assert_int_equal(stream_submitted(stream_find((uintptr_t)N)), 201);
}

static bool is_remembered_as(uint32_t number, CUstream stream, uint64_t function)
{
	struct launch_ready ready;

	return state_launch_remembered(number, stream, (CUfunction)(uintptr_t)function, &ready);
}

static void test_remembered_is_of_one_wrapper(void **state)
{
	remember(N, 1000);
	assert_false(is_remembered_as(NUMBER + 1, N, KERNEL(0)));
	assert_false(is_remembered_as(NUMBER, A, KERNEL(0)));
	assert_false(is_remembered_as(NUMBER, N, KERNEL(1)));
}

static void test_nothing_is_remembered_of_nothing(void **state)
{
	assert_false(is_remembered_as(NUMBER, NULL, 0));
	remember(N, 1000);
	assert_false(is_remembered_as(NUMBER, NULL, 0));
}

/* A launch that the driver refuses leaves the stream's youngest operation what it was. */
static void test_refused(void **state)
{
	struct state_stream *stream;
	uint64_t youngest, other = KERNEL(1);

	while (thread_slot(other, THREAD_KERNELS) == thread_slot(KERNEL(0), THREAD_KERNELS))
		other += 0x80;
	world_launch(N, other);
	remember(N, 1000);
	assert_true(launch_function_at(N, other, 2000, 2010));
	stream = stream_find((uintptr_t)N);
	assert_true(is_remembered(N));
	/* The world's kernels have no names. */
	stream->youngest = youngest = (uint64_t)OPERATION_COPY << 32;
	assert_true(is_remembered_as(NUMBER, N, KERNEL(0)));
	assert_int_equal(stream->youngest, youngest);
}

/* ---- a signal handler that calls the driver in the middle of a launch ---- */

#if defined(__x86_64__)

#define TRAP_FLAG 0x100

static volatile int steps; /* instructions until the handler interrupts; below 0 afterwards */
static void (*interruption)(void);

static void on_step(int signal, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	if (--steps >= 0)
		return;
	*flags &= ~(greg_t)TRAP_FLAG;
	interruption();
}

static inline void set_trap_flag(bool on)
{
	if (on)
		__asm__ volatile("pushfq\n\torl %0, (%%rsp)\n\tpopfq"
				 :
				 : "i"(TRAP_FLAG)
				 : "cc", "memory");
	else
		__asm__ volatile("pushfq\n\tandl %0, (%%rsp)\n\tpopfq"
				 :
				 : "i"(~TRAP_FLAG)
				 : "cc", "memory");
}

static void real_of_other(void)
{
}

static uint64_t others[2]; /* functions that have the place of KERNEL(0) */

/* Other wrappers' rows: what they remember drives out what was there. */
static void launch_other_rows(void)
{
	static uint64_t other_calls;
	uint64_t now = launch_thread.row.returned;
	struct state_launch other;

	for (int i = 0; i < 24; i++, now += 20) {
		if (!state_launch_is_plain(N, (CUfunction)(uintptr_t)others[i / 12], false,
					   &other) ||
		    !state_launch_done(&other, other.clock == LAUNCH_READ_BOTH ? now : 0, now + 10))
			return;
		state_launch_remember(&other, NUMBER + 1, &other_calls, real_of_other);
	}
}

/*
 * Interrupted before each of its instructions (under the thread sanitizer, whose own are most of them, before some): it is this launch or none,
 * and the row's end is its end.
 */
static void interrupt_everywhere(void (*what)(void), bool is_end)
{
	struct state_stream *stream = stream_find((uintptr_t)N);
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, old;
	struct launch_ready ready;
	int step, launches;
	bool taken;

	interruption = what;
	assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
	for (step = 0;; step += ROUNDS_SHARE) {
		launch_clear();
		remember(N, 1000);
		steps = step;
		set_trap_flag(true);
		taken = state_launch_remembered(NUMBER, N, (CUfunction)(uintptr_t)KERNEL(0),
						&ready);
		set_trap_flag(false);
		if (taken) {
			assert_ptr_equal(ready.real, real);
			assert_ptr_equal(ready.stream, stream);
			state_launch_succeeded(&ready);
		}
		for (launches = 0; is_remembered(N); launches++)
			assert_true(launches < (steps < 0 && is_end ? 0 : LAUNCH_ROW));
		state_launch_end_row();
		assert_int_equal(launch_thread.row.left, 0);
		order_complete(stream, stream_submitted(stream));
		if (steps >= 0)
			break;
	}
	assert_in_range(step, 20, 20000); /* a sanitizer adds its own */
	assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
}

static void test_interrupted_by_another_call(void **state)
{
	world_launch(N, KERNEL(0));
	interrupt_everywhere(state_launch_end_row, true);
}

static bool share_a_place(uint64_t one, uint64_t two)
{
	return launch_memos_of(N, (CUfunction)(uintptr_t)one) ==
	       launch_memos_of(N, (CUfunction)(uintptr_t)two);
}

static bool share_a_slot(uint64_t one, uint64_t two)
{
	return thread_slot(one, THREAD_KERNELS) == thread_slot(two, THREAD_KERNELS);
}

static void test_interrupted_by_launches(void **state)
{
	uint64_t function = KERNEL(0);

	world_launch(N, KERNEL(0));
	for (int i = 0; i < 2; i++) {
		do {
			function += 8;
		} while (!share_a_place(function, KERNEL(0)) || share_a_slot(function, KERNEL(0)) ||
			 (i && share_a_slot(function, others[0])));
		others[i] = function;
		world_launch(N, function);
	}
	interrupt_everywhere(launch_other_rows, false);
}

#endif

/* A handler that ends the row while its last launch is in the driver does not make that one timed. */
static void test_last_of_an_interrupted_row(void **state)
{
	uint64_t now;

	world_launch(N, KERNEL(0));
	now = launch_in_a_row(N, 1000, 20);
	assert_true(is_plain(N, KERNEL(0)));
	assert_int_equal(launch.clock, LAUNCH_READ_LEFT);
	launch_thread.row.left = launch_thread.row.given = 0;
	assert_int_equal(notes(), 0);
	assert_true(state_launch_done(&launch, 0, now + PLAIN));
	assert_int_equal(notes(), 1);
	assert_int_equal(launch_thread.row.tight, 0);
}

static void test_forgotten_by_capture(void **state)
{
	struct call call;

	remember(N, 1000);
	call = world_call(FUNCTION_cuStreamQuery, A);
	call.stream = stream_find((uintptr_t)N);
	state_capture_begun(&call, N, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_false(is_remembered(N));
}

/* The launch would be another node of the graph. The memo alone is asked: the wait itself ends the row. */
static void test_forgotten_by_a_capture_that_draws_in(void **state)
{
	const CUevent event = EVENT(0);
	struct call call;

	world_create_event(event);
	call = world_call(FUNCTION_cuStreamQuery, A);
	state_before(&call);
	state_capture_begun(&call, A, CU_STREAM_CAPTURE_MODE_RELAXED);
	world_record(event, A);
	remember(N, 1000);
	world_wait_event(N, event);
	launch_thread.row.left = 1;
	assert_false(is_remembered(N));
}

/* Its counters go to another thread then. */
static void test_forgotten_by_the_end_of_the_thread(void **state)
{
	remember(N, 1000);
	state_launch_forget();
	launch_thread.row.left = 1;
	assert_false(is_remembered(N));
}

static void test_forgotten_by_destroy(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamDestroy_v2, N);

	remember(N, 1000);
	state_stream_destroying(&call, N);
	assert_false(is_remembered(N));
}

static void test_forgotten_by_a_new_name(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, N);

	remember(N, 1000);
	state_module_unloading(&call);
	state_function_named(&call, (CUfunction)(uintptr_t)KERNEL(0), "another");
	assert_false(is_remembered(N));
}

static void test_forgotten_by_the_other_turn(void **state)
{
	uint64_t now = remember(LEGACY, 1000);

	/* A call of another thread: the row goes on, the memo does not. */
	order_number(stream_find((uintptr_t)A), 0);
	launch_turn(stream_find((uintptr_t)A));
	assert_false(is_remembered(LEGACY));
	world_launch(LEGACY, KERNEL(0));
	now = remember(A, now + 1000);
	order_number(context_current()->legacy, 0);
	launch_turn(context_current()->legacy);
	assert_false(is_remembered(A));
	/* Streams that take no part in legacy order stay. */
	remember(N, now + 1000);
	launch_turn(stream_find((uintptr_t)A));
	launch_turn(context_current()->legacy);
	launch_turn(stream_find((uintptr_t)A));
	assert_true(is_remembered(N));
}

/* Two contexts, each with its own kind of work, do not take each other's launches out of memory. */
static void test_turns_of_another_context(void **state)
{
	remember(LEGACY, 1000);
	world_context = 2;
	world_create_stream(B, 0);
	world_launch(B, KERNEL(0));
	world_context = 1;
	world_launch(LEGACY, KERNEL(0));
	remember(LEGACY, 2000);
	order_number(stream_find((uintptr_t)B), 0);
	launch_turn(stream_find((uintptr_t)B));
	assert_true(is_remembered(LEGACY));
}

static void test_forgotten_by_letting_go(void **state)
{
	remember(N, 1000);
	launch_release(stream_find((uintptr_t)N));
	assert_false(is_remembered(N));
}

static void test_forgotten_with_the_context(void **state)
{
	struct call call = world_call(FUNCTION_cuStreamQuery, N);

	/* Their end would do it too. */
	world_destroy_stream(A);
	world_destroy_stream(N);
	remember(LEGACY, 1000);
	state_context_destroying(&call, (CUcontext)(uintptr_t)world_context);
	assert_false(is_remembered(LEGACY));
}

static void test_not_with_a_deep_queue(void **state)
{
	struct state_stream *stream;

	remember(N, 1000);
	stream = stream_find((uintptr_t)N);
	stream->submitted += LAUNCH_SHORT_QUEUE;
	assert_false(is_remembered(N));
	order_complete(stream, stream_submitted(stream));
	assert_true(is_remembered(N));
}

/* As the kernel leaves the page in a forked child. */
static void test_nothing_is_remembered_in_a_child(void **state)
{
	uint64_t now = remember(N, 1000);

	memset(&launch_stamps, 0, sizeof(launch_stamps));
	assert_false(is_remembered(N));
	/* Nor is anything remembered anew before the child has forgotten its parent. */
	launch_in_a_row(N, now, 20);
	assert_false(untimed);
	launch_clear();
	assert_int_not_equal(launch_stamps.stamp[LAUNCH_ALWAYS], 0);
	assert_int_not_equal(launch_stamps.stamp[LAUNCH_TURN], 0);
}

/* Two kernels that share a place do not drive each other out. */
static void test_two_of_one_place(void **state)
{
	uint64_t other = KERNEL(1), now = 1000;
	int i, timed = 0;

	while (launch_memos_of(N, (CUfunction)(uintptr_t)other) !=
		       launch_memos_of(N, (CUfunction)(uintptr_t)KERNEL(0)) ||
	       thread_slot(other, THREAD_KERNELS) == thread_slot(KERNEL(0), THREAD_KERNELS))
		other += 8;
	world_launch(N, KERNEL(0));
	world_launch(N, other);
	now = launch_in_a_row(N, now, 20);
	for (i = 0; i < 200; i++, now += 20) {
		assert_true(launch_function_at(N, i & 1 ? other : KERNEL(0), now, now + 10));
		timed += !untimed;
	}
	assert_in_range(timed, 3, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_first_use, begin),
		cmocka_unit_test_setup(test_counts, begin),
		cmocka_unit_test_setup(test_in_a_row, begin),
		cmocka_unit_test_setup(test_two_threads, begin),
		cmocka_unit_test_setup(test_habit, begin),
		cmocka_unit_test_setup(test_far_apart, begin),
		cmocka_unit_test_setup(test_proof, begin),
		cmocka_unit_test_setup(test_pause, begin),
		cmocka_unit_test_setup(test_idle_streams_leave_the_list, begin),
		cmocka_unit_test_setup(test_took_long, begin),
		cmocka_unit_test_setup(test_another_context_in_a_row, begin),
		cmocka_unit_test_setup(test_capture, begin),
		cmocka_unit_test_setup(test_after_a_capture, begin),
		cmocka_unit_test_setup(test_legacy_with_new_blocking_work, begin),
		cmocka_unit_test_setup(test_blocking_with_new_legacy_work, begin),
		cmocka_unit_test_setup(test_joins_what_the_long_way_finds, begin),
		cmocka_unit_test_setup(test_joins_and_concludes, begin),
		cmocka_unit_test_setup(test_joins_and_takes_long, begin),
		cmocka_unit_test_setup(test_does_not_join_what_has_ended, begin),
		cmocka_unit_test_setup(test_does_not_join, begin),
		cmocka_unit_test_setup(test_streams_that_drive_each_other_out, begin),
		cmocka_unit_test_setup(test_per_thread_and_unseen, begin),
		cmocka_unit_test_setup(test_handles_that_come_back, begin),
		cmocka_unit_test_setup(test_another_context_in_a_row_elsewhere, begin),
		cmocka_unit_test_setup(test_another_context, begin),
		cmocka_unit_test_setup(test_late_concludes_nothing, begin),
		cmocka_unit_test_setup(test_remembered_counts_calls, begin),
		cmocka_unit_test_setup(test_remembered_is_of_one_wrapper, begin),
		cmocka_unit_test_setup(test_nothing_is_remembered_of_nothing, begin),
		cmocka_unit_test_setup(test_refused, begin),
#if defined(__x86_64__)
		cmocka_unit_test_setup(test_interrupted_by_another_call, begin),
		cmocka_unit_test_setup(test_interrupted_by_launches, begin),
#endif
		cmocka_unit_test_setup(test_last_of_an_interrupted_row, begin),
		cmocka_unit_test_setup(test_forgotten_by_capture, begin),
		cmocka_unit_test_setup(test_forgotten_by_a_capture_that_draws_in, begin),
		cmocka_unit_test_setup(test_forgotten_by_the_end_of_the_thread, begin),
		cmocka_unit_test_setup(test_forgotten_by_destroy, begin),
		cmocka_unit_test_setup(test_forgotten_by_a_new_name, begin),
		cmocka_unit_test_setup(test_forgotten_by_the_other_turn, begin),
		cmocka_unit_test_setup(test_turns_of_another_context, begin),
		cmocka_unit_test_setup(test_forgotten_by_letting_go, begin),
		cmocka_unit_test_setup(test_forgotten_with_the_context, begin),
		cmocka_unit_test_setup(test_not_with_a_deep_queue, begin),
		cmocka_unit_test_setup(test_nothing_is_remembered_in_a_child, begin),
		cmocka_unit_test_setup(test_two_of_one_place, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
