/* SPDX-License-Identifier: MIT */
/*
 * future_wait.h: how a thread waits for a future: asleep until the monitor wakes it, or by asking
 * itself, at most so often.
 *
 * Internal to future.h; include that. Relies on: future_monitor.h.
 */
#ifndef SLIPSTREAM_FUTURE_WAIT_H
#define SLIPSTREAM_FUTURE_WAIT_H

#include "future_monitor.h"

#define SLIPSTREAM_FUTURE_SPIN_LEAST_NS_ 500u
#define SLIPSTREAM_FUTURE_SPIN_NS_       1000000u
#define SLIPSTREAM_FUTURE_SLEEP_NS_      50000u

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_ask_once_(struct slipstream_future *future,
							       CUcontext current)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUcontext handle = future->context->handle;
	CUresult status = slipstream_future_seen_(future);

	if (status != CUDA_ERROR_NOT_READY)
		return status;
	status = slipstream_future_enter_(future->context);
	if (status != CUDA_SUCCESS) {
		slipstream_future_finish_(future, status);
		return slipstream_future_seen_(future);
	}
	if (current != handle)
		(void)process->driver.context_set(handle);
	status = slipstream_future_ask_(future);
	if (current != handle)
		(void)process->driver.context_set(current);
	slipstream_future_leave_(future->context);
	return status;
}

/* Between two questions, `waited` ns after the first; not past `until`. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_poll_pause_(uint64_t now, uint64_t waited,
							     uint64_t until)
{
	uint64_t pause = waited / 32;
	struct timespec time;

	if (waited < SLIPSTREAM_FUTURE_SPIN_NS_) {
		if (pause < SLIPSTREAM_FUTURE_SPIN_LEAST_NS_)
			pause = SLIPSTREAM_FUTURE_SPIN_LEAST_NS_;
		if (pause < until - now)
			until = now + pause;
		while (slipstream_future_now_() < until) {
#if defined(__x86_64__) || defined(__i386__)
			__builtin_ia32_pause();
#elif defined(__aarch64__)
			__asm__ __volatile__("yield");
#endif
		}
		return;
	}
	time = slipstream_future_timespec_(SLIPSTREAM_FUTURE_SLEEP_NS_ < until - now
						   ? SLIPSTREAM_FUTURE_SLEEP_NS_
						   : until - now);
	(void)nanosleep(&time, NULL); /* cut short by a signal: one question more */
}

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_poll_(struct slipstream_future *future,
							   uint64_t until)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUstreamCaptureMode mode = slipstream_future_relax_(&process->driver);
	uint64_t start = slipstream_future_now_();
	CUcontext current = NULL;
	CUresult status;
	int slack = -1; /* the thread's own, ns, where it has been changed */

	(void)process->driver.context_get(&current);
	for (;;) {
		uint64_t now;

		status = slipstream_future_ask_once_(future, current);
		if (status != CUDA_ERROR_NOT_READY)
			break;
		now = slipstream_future_now_();
		if (now >= until)
			break;
		/* By itself, a thread sleeps for up to 50 us more. */
		if (slack < 0 && now - start >= SLIPSTREAM_FUTURE_SPIN_NS_) {
			slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
			(void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
		}
		slipstream_future_poll_pause_(now, now - start, until);
	}
	if (slack > 0)
		(void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack, 0, 0, 0);
	slipstream_future_unrelax_(&process->driver, mode);
	return status;
}

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_wait_until_(struct slipstream_future *future,
								 uint64_t until)
{
	struct timespec limit = slipstream_future_timespec_(until);
	CUresult status = slipstream_future_seen_(future);
	int before, result = 0;

	if (status != CUDA_ERROR_NOT_READY)
		return status;
	if (slipstream_future_forked_())
		return CUDA_ERROR_NOT_INITIALIZED;
	/* The monitor cannot wait for itself. */
	if (future->poll || slipstream_future_in_monitor_())
		return slipstream_future_poll_(future, until);

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* else the lock stays taken */
	pthread_mutex_lock(&future->lock);
	while ((status = slipstream_future_seen_(future)) == CUDA_ERROR_NOT_READY && !result) {
		if (until == UINT64_MAX)
			result = pthread_cond_wait(&future->end, &future->lock);
		else
			result = pthread_cond_timedwait(&future->end, &future->lock, &limit);
	}
	pthread_mutex_unlock(&future->lock);
	pthread_setcancelstate(before, &before);
	return status;
}

#endif
