/* SPDX-License-Identifier: MIT */
/*
 * future.h: the public header, second part: completion futures. A future stands for the work that
 * a stream has at the moment; it ends when that work is done. Waiting for it is a wait on a
 * condition variable, never on the stream: the driver is only ever asked, by cuEventQuery.
 *
 *	struct slipstream_future *done;
 *
 *	cuMemcpyDtoHAsync(result, device, bytes, stream);	// pinned memory
 *	if (slipstream_future_create(&done, stream, SLIPSTREAM_FUTURE_MONITOR) == CUDA_SUCCESS) {
 *		...						// the host works on
 *		if (slipstream_future_wait(done) == CUDA_SUCCESS)
 *			use(result);
 *		slipstream_future_destroy(done);
 *	}
 *
 * A header of its own, beside slipstream.h: that one includes nothing, so that a program without
 * cuda.h or threads can name its regions; this one needs both. Header only. C99 and later (with
 * POSIX names: gnu99, or _POSIX_C_SOURCE=200809L), C++11 and later, gcc or clang. Before glibc 2.34
 * link with -pthread -ldl. Works with the driver API and beside the CUDA runtime, whose streams are
 * the same handles; libcuda need not be linked. Works with slipstream preloaded, and without.
 *
 * Modes, one for each future:
 *   monitor   One thread a process, started by the first such future, asks and wakes the waiters.
 *             It looks again after an eighth of the time that it has waited so far, between 5 and
 *             200 us (slipstream_future_set_pace()), and takes at most a fifth of a processor.
 *   poll      The waiter asks by itself: nobody else is needed, and the wait ends sooner. Between
 *             two questions it spins for a 32nd of the time it has waited so far, at least 0.5 us;
 *             after 1 ms it sleeps for 50 us instead. So a wait asks about 150 times in its first
 *             millisecond, and at most 20 times in each later one.
 *
 * Rules, and where they come from (H: cuda.h of CUDA 13.0; M: measured on an H200, driver 580;
 * P: POSIX; O: our own choice):
 *   - Work of the stream submitted before the future was made is over when it ends (H,
 *     cuEventRecord), and the host then sees what it wrote to host memory (H, cuEventQuery: a
 *     success is as good as a synchronize, for managed memory too).
 *   - Nothing is flushed, and freed memory of stream-ordered pools is not trimmed: only synchronize
 *     calls do that (H, cuMemPoolAttribute, release threshold).
 *   - Futures of one stream end in the order in which they were made; only the oldest of each is
 *     asked (H: events of a stream complete in order).
 *   - An error of the work or the context is the status of the futures of that context (H,
 *     cuEventQuery gives earlier errors).
 *   - Futures and captures (H, cuStreamBeginCapture; M): a future cannot be made of a capturing
 *     stream (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; the legacy stream beside a capturing blocking
 *     stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT); the capture goes on. A capture elsewhere, in
 *     global mode too, disturbs nothing and is not disturbed: all calls are made in the thread's
 *     relaxed mode.
 *   - The stream may be of any context and device; the calling thread needs a current context, as
 *     for any submission, which may be another and stays as it is. For the default streams the
 *     current context counts (H, cuStreamGetCtx). To wait, a thread needs none.
 *   - A stream may be destroyed while its futures are not over (H, cuStreamDestroy: its work goes
 *     on). A context may not be used while it is destroyed (H, cuCtxDestroy), and the monitor uses
 *     it: call slipstream_future_end_context() before cuCtxDestroy, cuDevicePrimaryCtxReset,
 *     cudaDeviceReset, or the last release. Without it the monitor finds out by the context's id
 *     (drivers from 12.0 on), but for the moment of one query.
 *   - Threads (O): every function may be called from any thread, callbacks too, but not from signal
 *     handlers and not from functions that the driver calls (H: those may not call CUDA; they get
 *     CUDA_ERROR_NOT_PERMITTED). A wait is no cancellation point. The thread that made a future may
 *     end before it. In a callback, a wait asks by itself, whatever the mode.
 *   - Fork (M: no call works in the child of a process that has called cuInit): in the child every
 *     future is dead: it has CUDA_ERROR_NOT_INITIALIZED, unless it had ended before, no callback
 *     runs, nothing is freed. Children made past fork() (vfork, raw clone) must not use futures.
 *   - End of the process (O): at exit() no event is asked any more; unfinished futures end with
 *     CUDA_ERROR_DEINITIALIZED, their callbacks are not run. exit() waits for a callback that runs,
 *     200 ms at most. The monitor is not joined, and _exit or a signal end it like any thread.
 *   - Libraries (O): one that uses futures stays loaded once it has, since the monitor may run its
 *     code. Programs and libraries share one monitor; see future_state.h for the exception.
 */
#ifndef SLIPSTREAM_FUTURE_H
#define SLIPSTREAM_FUTURE_H

#include "future_wait.h"

enum slipstream_future_mode { SLIPSTREAM_FUTURE_MONITOR = 0, SLIPSTREAM_FUTURE_POLL = 1 };

/* No limit, as a time-out. */
#define SLIPSTREAM_FUTURE_FOREVER UINT64_MAX

/* ---- internal: making one ---- */

SLIPSTREAM_FUTURE_INLINE_ struct slipstream_future *
slipstream_future_new_(CUcontext handle, unsigned long long id, int poll)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future *future = (struct slipstream_future *)calloc(1, sizeof(*future));

	if (!future)
		return NULL;
	pthread_mutex_lock(&process->lock);
	future->context = slipstream_future_context_take_(handle, id);
	pthread_mutex_unlock(&process->lock);
	if (!future->context) {
		free(future);
		return NULL;
	}
	future->references = 1;
	future->status = CUDA_ERROR_NOT_READY;
	future->poll = poll;
	pthread_mutex_init(&future->lock, NULL);
	pthread_cond_init(&future->end, &process->monotonic);
	return future;
}

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_record_(struct slipstream_future *future,
							     CUstream stream)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUresult result = slipstream_future_event_take_(future->context, &future->event);

	if (result != CUDA_SUCCESS)
		return result;
	result = process->driver.event_record(future->event, stream);
	if (result != CUDA_SUCCESS) {
		(void)process->driver.event_destroy(future->event);
		future->event = NULL;
	}
	return result;
}

/* Record and enqueue as one step, so that the lane has the stream's order. */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_record_watched_(
	struct slipstream_future *future, CUstream stream, unsigned long long stream_id)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_lane *lane =
		slipstream_future_lane_take_(future->context, stream_id);
	CUresult result;

	if (!lane)
		return CUDA_ERROR_OUT_OF_MEMORY;
	future->lane = lane;
	future->watched = 1;
	pthread_mutex_lock(&lane->submit);
	result = slipstream_future_record_(future, stream);
	if (result == CUDA_SUCCESS) {
		__atomic_add_fetch(&future->references, 1, __ATOMIC_RELAXED);
		slipstream_future_watch_(future);
	}
	pthread_mutex_unlock(&lane->submit);
	pthread_mutex_lock(&process->lock);
	slipstream_future_lane_put_(lane);
	pthread_mutex_unlock(&process->lock);
	return result;
}

/*
 * In relaxed mode. The event is made and recorded with the stream's own context current: events
 * must be of the stream's context (cuda.h, cuEventRecord), and no submission shall depend on what
 * else is current.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_make_(struct slipstream_future **ret_future,
							   CUstream stream, int poll)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	const struct slipstream_future_driver *driver = &process->driver;
	CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
	unsigned long long context_id = 0, stream_id = 0;
	CUcontext handle = NULL, current = NULL;
	struct slipstream_future *future;
	CUresult result;

	/* An event recorded in a capture stands for no work, and to ask it breaks the capture. */
	result = driver->stream_capturing(stream, &capture);
	if (result == CUDA_SUCCESS && capture != CU_STREAM_CAPTURE_STATUS_NONE)
		result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (result == CUDA_SUCCESS)
		result = driver->stream_context(stream, &handle);
	if (result == CUDA_SUCCESS && driver->context_id)
		result = driver->context_id(handle, &context_id);
	if (result == CUDA_SUCCESS)
		result = driver->context_get(&current);
	if (result != CUDA_SUCCESS)
		return result;
	if (driver->stream_id && driver->stream_id(stream, &stream_id) != CUDA_SUCCESS)
		stream_id = 0;

	__atomic_store_n(&process->used, 1, __ATOMIC_RELAXED); /* from here on with locks */
	if (!poll)
		result = slipstream_future_monitor_();
	if (result != CUDA_SUCCESS)
		return result;
	future = slipstream_future_new_(handle, context_id, poll);
	if (!future)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (current != handle)
		result = driver->context_set(handle);
	if (result == CUDA_SUCCESS)
		result = poll ? slipstream_future_record_(future, stream)
			      : slipstream_future_record_watched_(future, stream, stream_id);
	if (current != handle)
		(void)driver->context_set(current);
	if (result != CUDA_SUCCESS) {
		slipstream_future_put_(future);
		return result;
	}
	slipstream_future_count_(&process->counts.created);
	*ret_future = future;
	return CUDA_SUCCESS;
}

/* ---- the interface ---- */

/*
 * Makes a future of the work that the stream has now. Waits for nothing, but where any submission
 * would: the stream's queue is full (about 1024 operations). Stream 0 is what the including file
 * means by it (CUDA_API_PER_THREAD_DEFAULT_STREAM).
 *
 * The caller owns it: slipstream_future_destroy(). On failure *ret_future is NULL and the stream
 * has nothing new: the driver's own status; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED or _IMPLICIT
 * beside a capture; CUDA_ERROR_INVALID_CONTEXT without a current context; CUDA_ERROR_NOT_INITIALIZED before cuInit and in a forked child;
 * CUDA_ERROR_NOT_FOUND without a driver (10.1 or newer); CUDA_ERROR_OUT_OF_MEMORY;
 * CUDA_ERROR_OPERATING_SYSTEM if the monitor cannot be started; CUDA_ERROR_DEINITIALIZED at exit.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_create(struct slipstream_future **ret_future,
							    CUstream stream,
							    enum slipstream_future_mode mode)
{
	const struct slipstream_future_driver *driver = &slipstream_future_process_1.driver;
	CUstreamCaptureMode before;
	CUresult result;

	*ret_future = NULL;
	result = slipstream_future_ready_();
	if (result != CUDA_SUCCESS)
		return result;
	before = slipstream_future_relax_(driver);
	result = slipstream_future_make_(ret_future, slipstream_future_stream_(stream),
					 mode == SLIPSTREAM_FUTURE_POLL);
	slipstream_future_unrelax_(driver, before);
	return result;
}

/*
 * One more owner, who has to call slipstream_future_destroy() as well. A thread that waits for a
 * future that another thread may destroy needs this first.
 */
SLIPSTREAM_FUTURE_INLINE_ struct slipstream_future *
slipstream_future_share(struct slipstream_future *future)
{
	__atomic_add_fetch(&future->references, 1, __ATOMIC_RELAXED);
	return future;
}

/*
 * Gives it up; NULL is no error. Never waits: the work of an unfinished future goes on, its
 * callbacks are still called, and what it holds is freed after its end.
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_destroy(struct slipstream_future *future)
{
	const struct slipstream_future_driver *driver = &slipstream_future_process_1.driver;
	CUstreamCaptureMode before;

	if (!future || slipstream_future_forked_())
		return;
	before = slipstream_future_relax_(driver);
	slipstream_future_put_(future);
	slipstream_future_unrelax_(driver, before);
}

/* Waits for the end; its status. Any number of threads may wait for one future. */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_wait(struct slipstream_future *future)
{
	return slipstream_future_wait_until_(future, SLIPSTREAM_FUTURE_FOREVER);
}

/*
 * The same for at most so many nanoseconds (monotonic clock): CUDA_ERROR_NOT_READY if it has not
 * ended by then. A final status is never CUDA_ERROR_NOT_READY.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_wait_for(struct slipstream_future *future,
							      uint64_t timeout_ns)
{
	uint64_t now = slipstream_future_now_();

	return slipstream_future_wait_until_(
		future, timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX);
}

/*
 * The status now: CUDA_ERROR_NOT_READY before the end. Never waits. Of a poll future it asks once;
 * of a monitor future it reads one word, which is late by the monitor's pause at most.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_status(struct slipstream_future *future)
{
	CUresult status = slipstream_future_seen_(future);

	if (status != CUDA_ERROR_NOT_READY)
		return status;
	if (slipstream_future_forked_())
		return CUDA_ERROR_NOT_INITIALIZED;
	return future->poll ? slipstream_future_poll_(future, 0) : status;
}

/*
 * Has function(status, data) called once, after the end; soon if it has ended already. Always by
 * the monitor's thread (started if need be, for poll futures too), outside all locks, after the
 * waiters were woken; callbacks of a future in the order of these calls. The current context is the
 * future's, the capture mode relaxed, all signals are blocked. It may call CUDA and make, wait for
 * and destroy futures; while it runs, no other monitor future ends, so it should be short. It is
 * not called after exit() has begun, nor in a forked child.
 *
 * CUDA_SUCCESS, else it will not be called: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_OPERATING_SYSTEM,
 * CUDA_ERROR_NOT_INITIALIZED in a forked child, CUDA_ERROR_DEINITIALIZED at exit. `data` is the
 * caller's.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_then(
	struct slipstream_future *future, void (*function)(CUresult status, void *data), void *data)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_callback *callback;
	struct slipstream_future_lane *lane;
	int ended, watch = 0;
	CUresult result;

	if (slipstream_future_forked_())
		return CUDA_ERROR_NOT_INITIALIZED;
	result = slipstream_future_monitor_();
	if (result != CUDA_SUCCESS)
		return result;
	callback = (struct slipstream_future_callback *)calloc(1, sizeof(*callback));
	lane = slipstream_future_lane_take_(future->context, 0);
	if (callback && lane) {
		callback->function = function;
		callback->data = data;
		pthread_mutex_lock(&future->lock);
		ended = slipstream_future_seen_(future) != CUDA_ERROR_NOT_READY;
		if (!ended) {
			if (future->last)
				future->last->next = callback;
			else
				future->first = callback;
			future->last = callback;
			watch = !future->watched;
		}
		if (watch) {
			future->watched = 1;
			future->lane = lane;
			__atomic_add_fetch(&future->references, 1, __ATOMIC_RELAXED);
		}
		pthread_mutex_unlock(&future->lock);
		if (watch)
			slipstream_future_watch_(future);
		if (ended)
			slipstream_future_due_(callback, callback, future->context->handle,
					       slipstream_future_seen_(future));
	} else {
		free(callback);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (lane) {
		pthread_mutex_lock(&process->lock);
		slipstream_future_lane_put_(lane);
		pthread_mutex_unlock(&process->lock);
	}
	return result;
}

/*
 * To be called before a context is destroyed or reset. Returns when no thread asks events of the
 * context any more, and none will; takes one round of the monitor at most. Its unfinished futures
 * end with CUDA_ERROR_CONTEXT_IS_DESTROYED (soon, not necessarily before it returns). Futures made
 * of the context afterwards are new ones and work, if it was not destroyed.
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_end_context(CUcontext handle)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_context *context;
	int before;

	if (slipstream_future_forked_() || !__atomic_load_n(&process->used, __ATOMIC_RELAXED))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&process->lock);
	for (context = process->contexts; context; context = context->next)
		if (context->handle == handle && !context->ended)
			break;
	if (context) {
		context->users++;
		slipstream_future_context_end_(context);
		slipstream_future_wake_();
		while (context->asking)
			pthread_cond_wait(&process->calm, &process->lock);
		slipstream_future_context_put_(context);
	}
	pthread_mutex_unlock(&process->lock);
	pthread_setcancelstate(before, &before);
}

/*
 * The monitor's least and most pause between two rounds in ns, each below a second, for the whole
 * process; 0: the default. More saves processor time, less makes waits end sooner; more than four
 * times the processor time of a round it pauses always.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_set_pace(uint64_t least_ns, uint64_t most_ns)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUresult result;

	if (least_ns >= 1000000000u || most_ns >= 1000000000u)
		return CUDA_ERROR_INVALID_VALUE;
	result = slipstream_future_ready_();
	if (result != CUDA_SUCCESS)
		return result;
	__atomic_store_n(&process->used, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&process->lock);
	process->least_pause = least_ns;
	process->most_pause = most_ns;
	pthread_mutex_unlock(&process->lock);
	return CUDA_SUCCESS;
}

/* What futures have done in this process so far; see struct slipstream_future_counts. */
SLIPSTREAM_FUTURE_INLINE_ struct slipstream_future_counts slipstream_future_get_counts(void)
{
	struct slipstream_future_counts *counts = &slipstream_future_process_1.counts, copy;

	copy.created = __atomic_load_n(&counts->created, __ATOMIC_RELAXED);
	copy.ended = __atomic_load_n(&counts->ended, __ATOMIC_RELAXED);
	copy.queries = __atomic_load_n(&counts->queries, __ATOMIC_RELAXED);
	copy.events = __atomic_load_n(&counts->events, __ATOMIC_RELAXED);
	copy.monitors = __atomic_load_n(&counts->monitors, __ATOMIC_RELAXED);
	return copy;
}

#ifdef __cplusplus
#include "future_class.h"
#endif

#endif
