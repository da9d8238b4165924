/* SPDX-License-Identifier: MIT */
/*
 * future_state.h: what completion futures keep: the futures, their contexts with the spare events,
 * their streams' lanes, and the one record of the process.
 *
 * Internal to future.h; include that. Relies on: future_driver.h.
 *
 * One record a process. Each file that includes the header has its own copy of the code, but all
 * share slipstream_future_process_1, a symbol that the linker keeps once in a program or library
 * (COMDAT) and the dynamic loader once in a process (STB_GNU_UNIQUE: even among libraries opened
 * with RTLD_LOCAL, and a library that holds it stays loaded). A program that is not linked to any
 * library that uses futures does not show its copy to libraries that it opens later: they share
 * one of their own, unless the program is linked with -rdynamic. The 1 is the layout's version:
 * headers of another layout use another record, and another monitor.
 *
 * Locks, outermost first; none is held over a call that can wait, but for `submit`:
 *   lane->submit    a stream's record-and-enqueue, so that the queue has the stream's order. Held
 *                   over cuEventRecord, which waits if the stream's queue is full. Never taken by
 *                   the monitor itself, so that it goes on meanwhile.
 *   future->lock    one future: its end, its callbacks, who asks its event.
 *   process->lock   everything else below, unless a comment says otherwise. Innermost.
 *
 * Fork. The child's copy of a lock may be held by a thread that is not there. So the child never
 * takes one: `generation` is not 0 there (set by an atfork handler), which every function looks at
 * first.
 */
#ifndef SLIPSTREAM_FUTURE_STATE_H
#define SLIPSTREAM_FUTURE_STATE_H

#include "future_driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifndef CLOCK_MONOTONIC
#error "slipstream/future.h needs POSIX.1-2008: -std=gnu99 or later, or -D_POSIX_C_SOURCE=200809L"
#endif

/* Spare events that a context keeps; more are destroyed. */
#define SLIPSTREAM_FUTURE_SPARE_LIMIT_   4096
#define SLIPSTREAM_FUTURE_BUCKETS_       256
#define SLIPSTREAM_FUTURE_PROCESS_BYTES_ 4096
#define SLIPSTREAM_FUTURE_TEXT2_(text)   #text
#define SLIPSTREAM_FUTURE_TEXT_(text)    SLIPSTREAM_FUTURE_TEXT2_(text)

struct slipstream_future;

/* A context that has or had futures. Freed when nothing refers to it and it has ended. */
struct slipstream_future_context {
	struct slipstream_future_context *next;
	CUcontext handle;
	unsigned long long id; /* never used twice; 0: the driver has no ids */
	unsigned users;        /* futures, lanes, and threads that ask */
	unsigned asking;       /* threads that are in a query of one of its events */
	int ended;             /* no further query: its events may be gone */
	CUevent *spare;
	size_t spare_count, spare_space;
};

struct slipstream_future_callback {
	struct slipstream_future_callback *next;
	void (*function)(CUresult status, void *data);
	void *data;
	CUresult status; /* once it is due */
	CUcontext context;
};

/* One stream's futures in the order of their records: only the first has to be asked. */
struct slipstream_future_lane {
	struct slipstream_future_lane *next_hashed;
	struct slipstream_future_context *context;
	unsigned long long stream_id; /* never used twice; 0: a lane of one future, in no bucket */
	unsigned users;               /* futures in it, and threads that are about to add one */
	pthread_mutex_t submit;
	/* The monitor's own, without a lock. */
	struct slipstream_future *first, *last;
	struct slipstream_future_lane *next_active;
};

/*
 * Who may touch a future: whoever has one of its references. The monitor has one from the time
 * that it watches it until the event is done or dead.
 */
struct slipstream_future {
	unsigned references; /* atomic */
	/*
	 * CUDA_ERROR_NOT_READY, then its final status. Written once, under `lock`, with release
	 * order; pairs with the acquire loads of all readers: who sees the end sees what the host
	 * did before it.
	 */
	int status;
	int poll;        /* mode; does not change */
	int watched;     /* the monitor has it; under `lock` */
	unsigned askers; /* threads in a query of `event`; under `lock` */
	CUevent event;   /* NULL once given back; under `lock` */
	struct slipstream_future_context *context;
	struct slipstream_future_lane *lane; /* NULL: not watched */
	struct slipstream_future *next;      /* in the arrivals (process->lock) or in the lane */
	struct slipstream_future_callback *first, *last; /* under `lock` */
	pthread_mutex_t lock;
	pthread_cond_t end;
};

/* What slipstream_future_counts() tells. Since the start of the process. */
struct slipstream_future_counts {
	unsigned long long created;  /* futures */
	unsigned long long ended;    /* futures, in whatever way */
	unsigned long long queries;  /* cuEventQuery, by anybody */
	unsigned long long events;   /* cuEventCreate */
	unsigned long long monitors; /* threads started: 0 or 1 */
};

/* All zero is its valid first state. */
struct slipstream_future_process {
	pthread_once_t once;
	CUresult found; /* whether there is a driver; set by `once` */
	struct slipstream_future_driver driver;
	pthread_condattr_t monotonic;
	unsigned generation; /* atomic; not 0: a forked child of a process that had futures */
	unsigned used;       /* atomic; 1: a lock may have been taken, so a child is dead */

	pthread_mutex_t lock;
	pthread_cond_t wake; /* for the monitor: something to do */
	pthread_cond_t calm; /* for others: a query has ended, or the monitor has */
	unsigned asking;     /* as in contexts, of all */
	int stopping;        /* the process ends: no further query */
	int monitor_started, monitor_ended;
	pthread_t monitor;
	uint64_t asleep_until; /* when the monitor wakes by itself; UINT64_MAX: never; 0: awake */
	uint64_t least_pause, most_pause; /* ns; 0: the defaults */
	struct slipstream_future *first_arrival, *last_arrival;
	struct slipstream_future_callback *first_due, *last_due;
	struct slipstream_future_context *contexts;
	struct slipstream_future_lane *lanes[SLIPSTREAM_FUTURE_BUCKETS_];
	struct slipstream_future_counts counts; /* atomic */
};

typedef char slipstream_future_process_fits_
	[sizeof(struct slipstream_future_process) <= SLIPSTREAM_FUTURE_PROCESS_BYTES_ ? 1 : -1]
	__attribute__((__unused__));

/* clang-format off */
__asm__(".ifndef slipstream_future_process_1\n"
	".pushsection .bss.slipstream_future_process_1,\"awG\",%nobits,slipstream_future_process_1,comdat\n"
	".balign 64\n"
	".globl slipstream_future_process_1\n"
	".type slipstream_future_process_1, %gnu_unique_object\n"
	".size slipstream_future_process_1, " SLIPSTREAM_FUTURE_TEXT_(SLIPSTREAM_FUTURE_PROCESS_BYTES_) "\n"
	"slipstream_future_process_1:\n"
	".zero " SLIPSTREAM_FUTURE_TEXT_(SLIPSTREAM_FUTURE_PROCESS_BYTES_) "\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

#ifdef __cplusplus
extern "C"
#else
extern
#endif
	struct slipstream_future_process slipstream_future_process_1
	__attribute__((__visibility__("default")));

SLIPSTREAM_FUTURE_INLINE_ uint64_t slipstream_future_now_(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

SLIPSTREAM_FUTURE_INLINE_ struct timespec slipstream_future_timespec_(uint64_t ns)
{
	struct timespec time;

	time.tv_sec = (time_t)(ns / 1000000000u);
	time.tv_nsec = (long)(ns % 1000000000u);
	return time;
}

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_count_(unsigned long long *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

/* ---- start, fork and end of the process ---- */

SLIPSTREAM_FUTURE_INLINE_ int slipstream_future_forked_(void)
{
	return __atomic_load_n(&slipstream_future_process_1.generation, __ATOMIC_RELAXED) != 0;
}

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_in_child_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	if (__atomic_load_n(&process->used, __ATOMIC_RELAXED))
		__atomic_store_n(&process->generation, 1, __ATOMIC_RELAXED);
}

/*
 * At exit, before the driver's own end (handlers run in reverse order, and the driver's was there
 * first): asks no more, and waits until nobody is in the driver. Bounded: a callback that does not
 * return must not keep the process.
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_at_exit_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct timespec limit;
	int result = 0;

	if (slipstream_future_forked_())
		return;
	limit = slipstream_future_timespec_(slipstream_future_now_() + 200000000u);
	pthread_mutex_lock(&process->lock);
	process->stopping = 1;
	pthread_cond_broadcast(&process->wake);
	/* The monitor itself, if a callback calls exit(), cannot wait for its own end. */
	while (result == 0 &&
	       (process->asking || (process->monitor_started && !process->monitor_ended &&
				    !pthread_equal(process->monitor, pthread_self()))))
		result = pthread_cond_timedwait(&process->calm, &process->lock, &limit);
	pthread_mutex_unlock(&process->lock);
}

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_start_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	slipstream_future_pin_((const void *)&slipstream_future_process_1);
	process->found = slipstream_future_find_driver_(&process->driver);
	if (pthread_condattr_init(&process->monotonic) ||
	    pthread_condattr_setclock(&process->monotonic, CLOCK_MONOTONIC) ||
	    pthread_cond_init(&process->wake, &process->monotonic) ||
	    pthread_cond_init(&process->calm, &process->monotonic) ||
	    pthread_atfork(NULL, NULL, slipstream_future_in_child_) ||
	    atexit(slipstream_future_at_exit_))
		process->found = CUDA_ERROR_OUT_OF_MEMORY;
}

/* CUDA_SUCCESS if futures work in this process: then locks may be taken. */
SLIPSTREAM_FUTURE_INLINE_ CUresult slipstream_future_ready_(void)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	if (slipstream_future_forked_())
		return CUDA_ERROR_NOT_INITIALIZED; /* what the driver says in such a child */
	if (pthread_once(&process->once, slipstream_future_start_))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return process->found;
}

/* ---- contexts, and events kept for the next future ---- */

/* Under process->lock. */
SLIPSTREAM_FUTURE_INLINE_ void
slipstream_future_context_put_(struct slipstream_future_context *context)
{
	struct slipstream_future_context **link = &slipstream_future_process_1.contexts;

	if (--context->users || !context->ended)
		return;
	while (*link != context)
		link = &(*link)->next;
	*link = context->next;
	free(context->spare);
	free(context);
}

/*
 * Under process->lock. An ended context's events are never touched again; cuCtxDestroy has
 * destroyed them (cuda.h: using them after it is undefined).
 */
SLIPSTREAM_FUTURE_INLINE_ void
slipstream_future_context_end_(struct slipstream_future_context *context)
{
	context->ended = 1;
	context->spare_count = 0;
}

/*
 * The record of a context, with one more user; NULL without memory. Under process->lock. Known by
 * its id: a handle comes back with a later context.
 */
SLIPSTREAM_FUTURE_INLINE_ struct slipstream_future_context *
slipstream_future_context_take_(CUcontext handle, unsigned long long id)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_context *context, *next;

	for (context = process->contexts; context; context = next) {
		next = context->next;
		if (context->handle != handle || context->ended)
			continue;
		context->users++;
		if (context->id == id)
			return context;
		slipstream_future_context_end_(context);
		slipstream_future_context_put_(context);
	}
	context = (struct slipstream_future_context *)calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	context->handle = handle;
	context->id = id;
	context->users = 1;
	context->next = process->contexts;
	process->contexts = context;
	return context;
}

/*
 * Whether the context is still the one of the record. cuCtxGetId is the call that may be given a
 * destroyed context (it has a status for that, cuda.h).
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult
slipstream_future_lives_(const struct slipstream_future_context *context)
{
	unsigned long long id = 0;
	CUresult result;

	if (!context->id)
		return CUDA_SUCCESS;
	result = slipstream_future_process_1.driver.context_id(context->handle, &id);
	if (result == CUDA_ERROR_DEINITIALIZED)
		return result;
	return result == CUDA_SUCCESS && id == context->id ? CUDA_SUCCESS
							   : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_leave_(struct slipstream_future_context *context)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	pthread_mutex_lock(&process->lock);
	context->asking--;
	process->asking--;
	if (context->ended || process->stopping)
		pthread_cond_broadcast(&process->calm);
	slipstream_future_context_put_(context);
	pthread_mutex_unlock(&process->lock);
}

/*
 * Starts queries of the context's events: CUDA_SUCCESS, or why there must be none. Then
 * slipstream_future_leave_() has to follow, soon: slipstream_future_end_context() and exit wait for
 * it.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult
slipstream_future_enter_(struct slipstream_future_context *context)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&process->lock);
	if (process->stopping) {
		result = CUDA_ERROR_DEINITIALIZED;
	} else if (context->ended) {
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	} else {
		context->users++;
		context->asking++;
		process->asking++;
	}
	pthread_mutex_unlock(&process->lock);
	if (result != CUDA_SUCCESS)
		return result;

	result = slipstream_future_lives_(context);
	if (result == CUDA_SUCCESS)
		return result;
	if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
		pthread_mutex_lock(&process->lock);
		slipstream_future_context_end_(context);
		pthread_mutex_unlock(&process->lock);
	}
	slipstream_future_leave_(context);
	return result;
}

/*
 * An event of the context, which is current. Without timing: such events are cheaper to record and
 * to ask (cuda.h, cuEventCreate). Spare ones first.
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult
slipstream_future_event_take_(struct slipstream_future_context *context, CUevent *ret_event)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;

	*ret_event = NULL;
	pthread_mutex_lock(&process->lock);
	if (context->spare_count)
		*ret_event = context->spare[--context->spare_count];
	pthread_mutex_unlock(&process->lock);
	if (*ret_event)
		return CUDA_SUCCESS;
	slipstream_future_count_(&process->counts.events);
	return process->driver.event_create(ret_event, CU_EVENT_DISABLE_TIMING);
}

/*
 * Keeps or destroys an event that nobody asks any more; it may still be pending (cuda.h allows to
 * record it again, and to destroy it). In relaxed mode, or in the middle of a query.
 */
SLIPSTREAM_FUTURE_INLINE_ void
slipstream_future_event_give_(struct slipstream_future_context *context, CUevent event)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	CUevent *grown;
	size_t space;
	int destroy;

	if (!event)
		return;
	pthread_mutex_lock(&process->lock);
	destroy = !context->ended && !process->stopping;
	if (destroy && context->id && context->spare_count < SLIPSTREAM_FUTURE_SPARE_LIMIT_) {
		if (context->spare_count == context->spare_space) {
			space = context->spare_space ? context->spare_space * 2 : 16;
			grown = (CUevent *)realloc((void *)context->spare,
						   space * sizeof(*context->spare));
			if (grown) {
				context->spare = grown;
				context->spare_space = space;
			}
		}
		if (context->spare_count < context->spare_space) {
			context->spare[context->spare_count++] = event;
			destroy = 0;
		}
	}
	/* As a query: slipstream_future_end_context() waits for it. */
	if (destroy) {
		context->users++;
		context->asking++;
		process->asking++;
	}
	pthread_mutex_unlock(&process->lock);
	if (destroy) {
		(void)process->driver.event_destroy(event);
		slipstream_future_leave_(context);
	}
}

/* ---- lanes ---- */

/* An end of one future's use of its lane. Under process->lock. */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_lane_put_(struct slipstream_future_lane *lane)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_lane **link =
		&process->lanes[lane->stream_id % SLIPSTREAM_FUTURE_BUCKETS_];

	if (--lane->users)
		return;
	while (*link && *link != lane)
		link = &(*link)->next_hashed;
	if (*link)
		*link = lane->next_hashed;
	slipstream_future_context_put_(lane->context);
	pthread_mutex_destroy(&lane->submit);
	free(lane);
}

/*
 * The lane of a stream, with one more user; stream_id 0: a lane of its own. NULL without memory.
 */
SLIPSTREAM_FUTURE_INLINE_ struct slipstream_future_lane *
slipstream_future_lane_take_(struct slipstream_future_context *context,
			     unsigned long long stream_id)
{
	struct slipstream_future_process *process = &slipstream_future_process_1;
	struct slipstream_future_lane **bucket =
		&process->lanes[stream_id % SLIPSTREAM_FUTURE_BUCKETS_];
	struct slipstream_future_lane *lane = NULL;

	pthread_mutex_lock(&process->lock);
	if (stream_id)
		for (lane = *bucket; lane; lane = lane->next_hashed)
			if (lane->stream_id == stream_id && lane->context == context)
				break;
	if (!lane) {
		lane = (struct slipstream_future_lane *)calloc(1, sizeof(*lane));
		if (!lane)
			goto out;
		pthread_mutex_init(&lane->submit, NULL);
		lane->context = context;
		lane->stream_id = stream_id;
		context->users++;
		if (stream_id) {
			lane->next_hashed = *bucket;
			*bucket = lane;
		}
	}
	lane->users++;
out:
	pthread_mutex_unlock(&process->lock);
	return lane;
}

#endif
