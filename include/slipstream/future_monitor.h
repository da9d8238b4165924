/* SPDX-License-Identifier: MIT */
/*
 * future_monitor.h: how futures end: asking an event, ending a future, and the monitor thread.
 *
 * Internal to future.h; include that. Relies on: future_state.h (its essay on locks).
 *
 * The monitor asks the first future of each stream only, since the events of one stream complete
 * in the order of their records. Between two rounds it pauses for an eighth of the time in which
 * nothing has ended, between the least and the most pause, and never for less than four times the
 * processor time of a round: so it is late by an eighth of the work's own time at most, and never
 * takes more than a fifth of a processor. With nothing to watch it sleeps.
 *
 * It makes no call that waits: no synchronize, no free. It is in the relaxed capture mode, has all
 * signals blocked, and its current context is that of the future in hand.
 */
#ifndef SLIPSTREAM_FUTURE_MONITOR_H
#define SLIPSTREAM_FUTURE_MONITOR_H

#include "future_state.h"

#include <sched.h>
#include <signal.h>

#include <sys/prctl.h>

#define SLIPSTREAM_FUTURE_LEAST_PAUSE_NS_ 5000u
#define SLIPSTREAM_FUTURE_MOST_PAUSE_NS_  200000u
/* Futures of one stream that end in a row before the other streams are asked. */
#define SLIPSTREAM_FUTURE_TURN_ 256

/* ---- one future ---- */

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_seen_(const struct slipstream_future *future)
{
	/* Pairs with the release store in slipstream_future_finish_(). */
	return (CUresult)__atomic_load_n(&future->status, __ATOMIC_ACQUIRE);
}

/* Gives one reference back. Not in a forked child. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_put_(struct slipstream_future *future)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	/* Who frees it has to see what the others did to it. */
	if (__atomic_sub_fetch(&future->references, 1, __ATOMIC_ACQ_REL))
		return;
	/* Of a future that nobody watches, and that was given up before its end. */
	slipstream_future_event_give_(future->context, future->event);
	pthread_mutex_lock(&process->lock);
	slipstream_future_context_put_(future->context);
	pthread_mutex_unlock(&process->lock);
	pthread_cond_destroy(&future->end);
	pthread_mutex_destroy(&future->lock);
	free(future);
}

SLIPSTREAM_FUTURE_INLINE_ int slipstream_future_in_monitor_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	int answer;

	pthread_mutex_lock(&process->lock);
	answer = process->monitor_started && pthread_equal(process->monitor, pthread_self());
	pthread_mutex_unlock(&process->lock);
	return answer;
}

/* Wakes the monitor, unless it wakes soon by itself. Under process->lock. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_wake_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	uint64_t until = process->asleep_until;

	if (until == UINT64_MAX ||
	    (until && until > slipstream_future_now_() + 4 * SLIPSTREAM_FUTURE_LEAST_PAUSE_NS_)) {
		process->asleep_until = 0; /* once is enough */
		pthread_cond_signal(&process->wake);
	}
}

/* Hands callbacks to the monitor. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_due_(struct slipstream_future_callback *first,
						      struct slipstream_future_callback *last,
						      CUcontext context, CUresult status)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_callback *callback;

	if (!first)
		return;
	for (callback = first; callback; callback = callback->next) {
		callback->status = status;
		callback->context = context;
	}
	pthread_mutex_lock(&process->lock);
	if (process->last_due)
		process->last_due->next = first;
	else
		process->first_due = first;
	process->last_due = last;
	slipstream_future_wake_();
	pthread_mutex_unlock(&process->lock);
}

/* Ends a future, if nobody has yet. Its waiters wake before any callback runs. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_finish_(struct slipstream_future *future,
							 CUresult status)
{
	struct slipstream_future_callback *first = NULL, *last = NULL;
	CUevent event = NULL;

	pthread_mutex_lock(&future->lock);
	if (future->status == CUDA_ERROR_NOT_READY) {
		/* Pairs with the acquire load in slipstream_future_seen_(). */
		__atomic_store_n(&future->status, (int)status, __ATOMIC_RELEASE);
		first = future->first;
		last = future->last;
		future->first = future->last = NULL;
		slipstream_future_count_(&slipstream_future_process_1.counts.ended);
		pthread_cond_broadcast(&future->end);
	}
	if (!future->askers) {
		event = future->event;
		future->event = NULL;
	}
	pthread_mutex_unlock(&future->lock);
	slipstream_future_event_give_(future->context, event);
	slipstream_future_due_(first, last, future->context->handle, status);
}

/*
 * Asks the event once, and ends the future if it is done. Between slipstream_future_enter_() and
 * slipstream_future_leave_(), in relaxed mode. Several threads may ask one future; the event is
 * given back when the last has its answer.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_ask_(struct slipstream_future *future)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUresult status;
	CUevent event;

	pthread_mutex_lock(&future->lock);
	status = slipstream_future_seen_(future);
	event = future->event;
	if (status == CUDA_ERROR_NOT_READY)
		future->askers++;
	pthread_mutex_unlock(&future->lock);
	if (status != CUDA_ERROR_NOT_READY)
		return status;

	slipstream_future_count_(&process->counts.queries);
	status = process->driver.event_query(event);

	pthread_mutex_lock(&future->lock);
	future->askers--;
	pthread_mutex_unlock(&future->lock);
	if (status != CUDA_ERROR_NOT_READY || slipstream_future_seen_(future) != status)
		slipstream_future_finish_(future, status);
	return slipstream_future_seen_(future);
}

/* ---- the monitor ---- */

/* What only the monitor's thread uses. */
struct slipstream_future_rounds {
	struct slipstream_future_lane *active;
	struct slipstream_future_context *bound; /* entered, and current */
};

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_sort_(struct slipstream_future_rounds *rounds,
						       struct slipstream_future *arrival)
{
	struct slipstream_future *next;

	for (; arrival; arrival = next) {
		struct slipstream_future_lane *lane = arrival->lane;

		next = arrival->next;
		arrival->next = NULL;
		if (lane->first) {
			lane->last->next = arrival;
		} else {
			lane->first = arrival;
			lane->next_active = rounds->active;
			rounds->active = lane;
		}
		lane->last = arrival;
	}
}

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_unbind_(struct slipstream_future_rounds *rounds)
{
	if (rounds->bound)
		slipstream_future_leave_(rounds->bound);
	rounds->bound = NULL;
}

SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_bind_(
	struct slipstream_future_rounds *rounds, struct slipstream_future_context *context)
{
	CUresult result;

	/* Looked at again, for those who destroy a context without a word. */
	if (rounds->bound == context && slipstream_future_lives_(context) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	slipstream_future_unbind_(rounds);
	result = slipstream_future_enter_(context);
	if (result != CUDA_SUCCESS)
		return result;
	rounds->bound = context;
	return slipstream_future_process_1.driver.context_set(context->handle);
}

/* Asks a stream's futures in order until one is not done; the number that ended. */
SLIPSTREAM_FUTURE_INLINE_ unsigned
slipstream_future_ask_lane_(struct slipstream_future_rounds *rounds,
			    struct slipstream_future_lane *lane)
{
	unsigned ended = 0;

	while (lane->first && ended < SLIPSTREAM_FUTURE_TURN_) {
		struct slipstream_future *future = lane->first;
		CUresult status = slipstream_future_seen_(future);

		if (status == CUDA_ERROR_NOT_READY) {
			status = slipstream_future_bind_(rounds, lane->context);
			if (status != CUDA_SUCCESS)
				slipstream_future_finish_(future, status);
			else
				status = slipstream_future_ask_(future);
		}
		if (status == CUDA_ERROR_NOT_READY)
			break;
		lane->first = future->next;
		slipstream_future_put_(future);
		ended++;
	}
	return ended;
}

/* One look at every stream; the number of futures that ended. */
SLIPSTREAM_FUTURE_INLINE_ unsigned slipstream_future_round_(struct slipstream_future_rounds *rounds)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_lane **link = &rounds->active;
	unsigned total = 0;

	while (*link) {
		struct slipstream_future_lane *lane = *link;
		unsigned ended = slipstream_future_ask_lane_(rounds, lane);

		if (lane->first)
			link = &lane->next_active;
		else
			*link = lane->next_active;
		if (!ended)
			continue;
		total += ended;
		pthread_mutex_lock(&process->lock);
		lane->users -= ended - 1;
		slipstream_future_lane_put_(lane);
		pthread_mutex_unlock(&process->lock);
	}
	slipstream_future_unbind_(rounds);
	return total;
}

/* Outside all locks, each in its future's context. 0: in a child that a callback forked. */
SLIPSTREAM_FUTURE_INLINE_ int
slipstream_future_call_back_(struct slipstream_future_callback *callback)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	while (callback) {
		struct slipstream_future_callback *next = callback->next;

		(void)process->driver.context_set(
			callback->status == CUDA_ERROR_CONTEXT_IS_DESTROYED ? NULL
									    : callback->context);
		callback->function(callback->status, callback->data);
		if (slipstream_future_forked_())
			return 0;
		free(callback);
		callback = next;
		/* A callback may have changed it. */
		(void)slipstream_future_relax_(&process->driver);
	}
	return 1;
}

/* The thread's processor time, ns: on a busy machine a round lasts longer than it takes. */
SLIPSTREAM_FUTURE_INLINE_ uint64_t slipstream_future_used_(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/*
 * Until there is something to do; 0: the process ends. Under process->lock. `since`: for how long
 * nothing has ended; `round`: the processor time of the last round; both in ns.
 *
 * The first part of a pause is for the processor's sake and nobody cuts it short; from the second
 * a new future wakes the monitor.
 */
SLIPSTREAM_FUTURE_INLINE_ int slipstream_future_rest_(struct slipstream_future_rounds *rounds,
						      uint64_t since, uint64_t round)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	uint64_t least =
		process->least_pause ? process->least_pause : SLIPSTREAM_FUTURE_LEAST_PAUSE_NS_;
	uint64_t most =
		process->most_pause ? process->most_pause : SLIPSTREAM_FUTURE_MOST_PAUSE_NS_;
	uint64_t now = slipstream_future_now_(), pause = since / 8 < most ? since / 8 : most;
	struct timespec until;

	if (least < 4 * round)
		least = 4 * round;
	if (rounds->active && !process->stopping) {
		until = slipstream_future_timespec_(now + least);
		(void)pthread_cond_timedwait(&process->wake, &process->lock, &until);
	}
	if (rounds->active && pause > least && !process->stopping && !process->first_due &&
	    !process->first_arrival) {
		process->asleep_until = now + pause;
		until = slipstream_future_timespec_(process->asleep_until);
		/* Woken early by chance: one round more, no harm. */
		(void)pthread_cond_timedwait(&process->wake, &process->lock, &until);
	}
	while (!rounds->active && !process->stopping && !process->first_due &&
	       !process->first_arrival) {
		process->asleep_until = UINT64_MAX;
		pthread_cond_wait(&process->wake, &process->lock);
	}
	process->asleep_until = 0;
	return !process->stopping;
}

/*
 * The process ends: so do the futures, since slipstream_future_enter_() lets nobody ask any more.
 * Callbacks are not run.
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_stop_(struct slipstream_future_rounds *rounds)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future *arrival;

	do {
		while (rounds->active)
			slipstream_future_round_(rounds);
		pthread_mutex_lock(&process->lock);
		arrival = process->first_arrival;
		process->first_arrival = process->last_arrival = NULL;
		/* From now on slipstream_future_watch_() ends them. */
		process->monitor_ended = !arrival;
		pthread_cond_broadcast(&process->calm);
		pthread_mutex_unlock(&process->lock);
		slipstream_future_sort_(rounds, arrival);
	} while (arrival);
}

SLIPSTREAM_FUTURE_INLINE_ void *slipstream_future_run_(void *unused)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_rounds rounds = {NULL, NULL};
	uint64_t last = 0, end = 0, used = 0; /* when something happened; of the last round */

	(void)prctl(PR_SET_NAME, "slip-futures", 0, 0, 0);
	(void)prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* ns; 50 us would be the least pause else */
	(void)slipstream_future_relax_(&process->driver);
	for (;;) {
		struct slipstream_future_callback *due;
		struct slipstream_future *arrival;
		int stay;

		pthread_mutex_lock(&process->lock);
		stay = slipstream_future_rest_(&rounds, end - last, used);
		arrival = process->first_arrival;
		process->first_arrival = process->last_arrival = NULL;
		pthread_mutex_unlock(&process->lock);
		slipstream_future_sort_(&rounds, arrival);
		if (!stay)
			break;
		end = slipstream_future_now_();
		if (arrival)
			last = end;
		used = slipstream_future_used_();
		if (slipstream_future_round_(&rounds))
			last = end;
		used = slipstream_future_used_() - used;
		end = slipstream_future_now_();

		pthread_mutex_lock(&process->lock);
		due = process->first_due;
		process->first_due = process->last_due = NULL;
		pthread_mutex_unlock(&process->lock);
		if (!slipstream_future_call_back_(due))
			return unused;
		/* Asleep, it must not seem to use a context that the program may destroy. */
		if (!rounds.active)
			(void)process->driver.context_set(NULL);
	}
	slipstream_future_stop_(&rounds);
	return unused;
}

/* The monitor, if there is none. CUDA_ERROR_OPERATING_SYSTEM: no thread could be had. */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_monitor_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUresult result = CUDA_SUCCESS;
	pthread_attr_t attributes;
	sigset_t all, before;
	void *(*run)(void *);
	void *code;

	pthread_mutex_lock(&process->lock);
	if (process->stopping) {
		result = CUDA_ERROR_DEINITIALIZED;
	} else if (!process->monitor_started) {
		run = slipstream_future_run_;
		memcpy(&code, &run, sizeof(code));
		slipstream_future_pin_(code);
		/* No handler of the program shall run in a thread that it does not know. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		if (pthread_attr_init(&attributes) == 0) {
			pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
			if (pthread_create(&process->monitor, &attributes, run, NULL) == 0) {
				process->monitor_started = 1;
				slipstream_future_count_(&process->counts.monitors);
			}
			pthread_attr_destroy(&attributes);
		}
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (!process->monitor_started)
			result = CUDA_ERROR_OPERATING_SYSTEM;
	}
	pthread_mutex_unlock(&process->lock);
	return result;
}

/*
 * Gives the monitor a future, with a reference. Under lane->submit if the lane is shared. The lane
 * gets one more user: the caller is in the lane still when the monitor is done with the future.
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_watch_(struct slipstream_future *future)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	int late;

	pthread_mutex_lock(&process->lock);
	late = process->monitor_ended;
	if (!late) {
		future->lane->users++;
		if (process->last_arrival)
			process->last_arrival->next = future;
		else
			process->first_arrival = future;
		process->last_arrival = future;
		slipstream_future_wake_();
	}
	pthread_mutex_unlock(&process->lock);
	if (late) {
		slipstream_future_finish_(future, CUDA_ERROR_DEINITIALIZED);
		slipstream_future_put_(future);
	}
}

#endif
