// SPDX-License-Identifier: MIT
/*
 * The engine: runs operations when those they follow are done.
 *
 * Owns: the lists of ready and started operations, the clock, the engine thread (real time) and the
 * thread for host functions. Called by: stream.c and graph.c (submission), everything that waits.
 * Relies on kernels.c for bytes.
 *
 * An operation goes WAITING -> READY (nothing unmet) -> STARTED (has a finish time or a condition)
 * -> RUNNING (its bytes move, lock released) -> DONE. Bytes move at the finish, never before. In
 * real time one engine thread steps. In virtual time there is no engine thread: whoever calls or
 * waits steps, and the clock jumps to the next finish when nothing else can happen, so that one
 * seed gives one order for a single-threaded program.
 */
#include "sim.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS         20000
#define VIRTUAL_CALL_NS 1000

struct list {
	struct sim_operation **items;
	unsigned count, space;
};

static struct list ready, started;
static uint64_t virtual_now;
static uint64_t random_state;

/* The host-function thread: one operation at a time, handed over under the lock. */
static struct list host_queue;
static pthread_cond_t host_work = PTHREAD_COND_INITIALIZER;
static bool host_thread;
static unsigned host_active; /* host functions handed over and not yet back */

uint64_t sim_now(void)
{
	struct timespec now;

	if (sim.virtual_time)
		return virtual_now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* splitmix64: the same sequence for the same seed. */
uint64_t sim_random(uint64_t bound)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return bound ? z % bound : z;
}

static void list_add(struct list *list, struct sim_operation *operation)
{
	struct sim_operation **grown =
		sim_grow(list->items, list->count, &list->space, sizeof(*list->items));

	if (!grown)
		abort(); /* the simulator is a test tool: without memory there is no test */
	list->items = grown;
	operation->position = list->count;
	list->items[list->count++] = operation;
}

static void list_remove(struct list *list, struct sim_operation *operation)
{
	/*
	 * Order is kept: without a seed, operations start in the order in which they became ready.
	 */
	memmove(&list->items[operation->position], &list->items[operation->position + 1],
		(list->count - operation->position - 1) * sizeof(*list->items));
	list->count--;
	for (unsigned i = operation->position; i < list->count; i++)
		list->items[i]->position = i;
}

/* ---- operations ---- */

struct sim_operation *sim_operation_new(struct sim_context *context, struct sim_stream *stream)
{
	struct sim_operation *operation = calloc(1, sizeof(*operation));

	if (!operation)
		return NULL;
	operation->references = 1;
	operation->unmet = 1; /* dropped by sim_operation_commit() */
	operation->context = context;
	operation->stream = stream;
	operation->order = ++sim.next_order;
	context->object.references++;
	if (stream) {
		stream->object.references++;
		stream->pending++;
	}
	context->pending++;
	sim.pending[context->device]++;
	return operation;
}

struct sim_operation *sim_operation_get(struct sim_operation *operation)
{
	if (operation)
		operation->references++;
	return operation;
}

void sim_operation_put(struct sim_operation *operation)
{
	if (!operation || --operation->references)
		return;
	sim_work_clear(&operation->work);
	free(operation->dependents);
	free(operation);
}

int sim_operation_after(struct sim_operation *operation, struct sim_operation *earlier)
{
	struct sim_operation **grown;

	if (!earlier || earlier->state == SIM_DONE || earlier == operation)
		return 0;
	grown = sim_grow(earlier->dependents, earlier->dependent_count, &earlier->dependent_space,
			 sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	earlier->dependents = grown;
	grown[earlier->dependent_count++] = sim_operation_get(operation);
	operation->unmet++;
	return 0;
}

static void make_ready(struct sim_operation *operation)
{
	operation->state = SIM_READY;
	operation->ready_at = sim_now();
	/* Adversary: half of the operations linger, so that neighbours on other streams overtake
	 * them. */
	if (sim.delay_ns && sim_random(2))
		operation->ready_at += sim_random(sim.delay_ns);
	list_add(&ready, operation);
}

static void unmet_less(struct sim_operation *operation)
{
	if (!--operation->unmet)
		make_ready(operation);
}

void sim_operation_commit(struct sim_operation *operation)
{
	sim_operation_get(operation); /* the engine's own reference, dropped when done */
	unmet_less(operation);
	pthread_cond_broadcast(&sim.changed);
}

static void context_put(struct sim_context *context)
{
	if (!--context->object.references)
		sim_object_free(context);
}

static void complete(struct sim_operation *operation)
{
	struct sim_stream *stream = operation->stream;

	operation->state = SIM_DONE;
	operation->finish_at = sim_now();
	sim_journal_operation(operation);
	for (unsigned i = 0; i < operation->dependent_count; i++) {
		unmet_less(operation->dependents[i]);
		sim_operation_put(operation->dependents[i]);
	}
	operation->dependent_count = 0;
	operation->context->pending--;
	sim.pending[operation->context->device]--;
	if (stream) {
		stream->pending--;
		if (stream->tail == operation) {
			stream->tail = NULL;
			sim_operation_put(operation);
		}
		sim_stream_put(stream);
		operation->stream = NULL;
	}
	context_put(operation->context);
	operation->context = NULL;
	sim_work_clear(&operation->work);
	operation->work.kind = SIM_EMPTY;
	sim_operation_put(operation);
	pthread_cond_broadcast(&sim.changed);
}

/* ---- host functions ---- */

static void run_host(struct sim_operation *operation)
{
	struct sim_host host = operation->work.host;
	CUresult status = operation->context->sticky;

	pthread_mutex_unlock(&sim.lock);
	sim_in_callback = true;
	if (host.callback)
		host.callback(host.handle, status, host.data);
	else if (!status)
		host.function(host.data);
	sim_in_callback = false;
	pthread_mutex_lock(&sim.lock);
	host_active--;
	complete(operation);
}

static void *host_main(void *unused)
{
	pthread_mutex_lock(&sim.lock);
	for (;;) {
		while (!host_queue.count)
			pthread_cond_wait(&host_work, &sim.lock);
		struct sim_operation *operation = host_queue.items[0];

		list_remove(&host_queue, operation);
		run_host(operation);
	}
	return unused;
}

static void start_thread(void *(*body)(void *))
{
	pthread_attr_t attributes;
	sigset_t all, old;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, &attributes, body, NULL)) {
		sim_complain("cannot start a thread", "pthread_create");
		abort();
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
}

/* ---- steps ---- */

static bool value_holds(const struct sim_value *value)
{
	uint8_t *bytes = sim_memory_translate(value->address, value->wide ? 8 : 4, false);
	uint64_t seen;

	if (!bytes)
		return true;
	if (value->wide)
		seen = __atomic_load_n((uint64_t *)bytes, __ATOMIC_ACQUIRE);
	else
		seen = __atomic_load_n((uint32_t *)bytes, __ATOMIC_ACQUIRE);
	switch (value->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return value->wide ? (int64_t)(seen - value->value) >= 0
				   : (int32_t)((uint32_t)seen - (uint32_t)value->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return seen == value->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return seen & value->value;
	default:
		return value->wide ? ~(seen | value->value) : (uint32_t) ~(seen | value->value);
	}
}

static bool condition_holds(const struct sim_operation *operation)
{
	if (operation->context->sticky)
		return true;
	if (operation->work.kind == SIM_EVENT_WAIT)
		return sim_ipc_mark_done(&operation->work);
	if (operation->work.kind == SIM_VALUE_WAIT)
		return value_holds(&operation->work.value);
	return sim_kernel_ready(&operation->work);
}

static void finish(struct sim_operation *operation)
{
	struct sim_context *context = operation->context;
	CUresult result = CUDA_SUCCESS;

	operation->state = SIM_RUNNING;
	if (operation->work.kind == SIM_FREE_ASYNC) {
		sim_pool_free_done(operation->work.allocation);
	} else if (!context->sticky) {
		switch (operation->work.kind) {
		case SIM_KERNEL:
		case SIM_COPY:
		case SIM_MEMSET:
		case SIM_VALUE_WRITE:
			result = sim_run_bytes(&operation->work);
			break;
		default:
			break;
		}
	}
	if (operation->work.kind == SIM_EVENT_RECORD && operation->work.mark)
		sim_ipc_mark(&operation->work);
	if (result && !context->sticky)
		context->sticky = result;
	complete(operation);
}

static void start(struct sim_operation *operation)
{
	uint64_t duration = 0;

	operation->state = SIM_STARTED;
	operation->started_at = sim_now();
	switch (operation->work.kind) {
	case SIM_HOST_FUNCTION:
		operation->state = SIM_RUNNING;
		list_add(&host_queue, operation);
		host_active++;
		if (!host_thread) {
			host_thread = true;
			start_thread(host_main);
		}
		pthread_cond_signal(&host_work);
		return;
	case SIM_KERNEL:
		duration = sim_kernel_duration(&operation->work, &operation->polls);
		break;
	case SIM_VALUE_WAIT:
		operation->polls = true;
		break;
	case SIM_EVENT_WAIT:
		operation->polls = operation->work.mark != NULL;
		break;
	default:
		break;
	}
	if (!duration && !operation->polls) {
		finish(operation);
		return;
	}
	operation->finish_at = operation->started_at + duration;
	list_add(&started, operation);
}

/* Lets one thing happen; false if nothing can now. *ret_next: when something timed will (0: nothing
 * timed). */
static bool step(bool host_allowed, uint64_t *ret_next)
{
	uint64_t now = sim_now(), next = 0;
	unsigned eligible = 0, pick;

	if (sim.virtual_time && host_active) {
		/* One thing at a time, or the order would hang on how threads are scheduled. */
		*ret_next = 0;
		return false;
	}

	for (unsigned i = 0; i < started.count; i++) {
		struct sim_operation *operation = started.items[i];

		if (operation->polls ? condition_holds(operation) : operation->finish_at <= now) {
			list_remove(&started, operation);
			finish(operation);
			return true;
		}
		if (!operation->polls && (!next || operation->finish_at < next))
			next = operation->finish_at;
	}
	for (unsigned i = 0; i < ready.count; i++) {
		struct sim_operation *operation = ready.items[i];

		if (operation->work.kind == SIM_HOST_FUNCTION && !host_allowed)
			continue;
		if (operation->ready_at <= now)
			eligible++;
		else if (!next || operation->ready_at < next)
			next = operation->ready_at;
	}
	*ret_next = next;
	if (!eligible)
		return false;
	pick = sim.seeded ? sim_random(eligible) : 0;
	for (unsigned i = 0; i < ready.count; i++) {
		struct sim_operation *operation = ready.items[i];

		if (operation->ready_at > now ||
		    (operation->work.kind == SIM_HOST_FUNCTION && !host_allowed))
			continue;
		if (pick--)
			continue;
		list_remove(&ready, operation);
		start(operation);
		return true;
	}
	return false;
}

static void wait_until(uint64_t when)
{
	struct timespec until = {.tv_sec = when / 1000000000, .tv_nsec = when % 1000000000};

	pthread_cond_timedwait(&sim.changed, &sim.lock, &until);
}

static void *engine_main(void *unused)
{
	pthread_mutex_lock(&sim.lock);
	for (;;) {
		uint64_t next;

		if (step(true, &next))
			continue;
		bool polling = false;

		for (unsigned i = 0; i < started.count; i++)
			polling |= started.items[i]->polls;
		if (polling && (!next || next > sim_now() + POLL_NS))
			next = sim_now() + POLL_NS;
		if (next)
			wait_until(next);
		else
			pthread_cond_wait(&sim.changed, &sim.lock);
	}
	return unused;
}

void sim_engine_start(void)
{
	random_state = sim.seed;
	virtual_now = 1000000000;
	if (!sim.virtual_time)
		start_thread(engine_main);
}

/*
 * For programs that run many others in one process (README.md): the order of what follows hangs on
 * `seed` only. Nothing may be at work. No driver function, so that a preloaded library does not
 * see it.
 */
__attribute__((visibility("default"))) void simcuda_reseed(uint64_t seed);

void simcuda_reseed(uint64_t seed)
{
	pthread_mutex_lock(&sim.lock);
	random_state = sim.seed = seed;
	sim.seeded = true;
	pthread_mutex_unlock(&sim.lock);
}

/* Virtual time: each call costs a little, and some of what is due may happen first. */
void sim_engine_poll(void)
{
	uint64_t next;

	virtual_now += VIRTUAL_CALL_NS;
	for (unsigned steps = sim.seeded ? sim_random(4) : 64; steps; steps--)
		if (!step(false, &next))
			break;
}

void sim_clock_advance(uint64_t ns)
{
	virtual_now += ns;
}

void sim_block(void)
{
	struct sim_call *call = sim_current_call;
	uint64_t next = 0;

	if (call)
		call->waited = true;
	if (!sim.virtual_time) {
		pthread_cond_wait(&sim.changed, &sim.lock);
	} else if (!step(true, &next)) {
		if (next) {
			virtual_now = next > virtual_now ? next : virtual_now;
		} else {
			/*
			 * Only another thread (a host function, or one that opens a gate) can help.
			 */
			struct timespec until;

			clock_gettime(CLOCK_MONOTONIC, &until);
			until.tv_nsec += 200000;
			if (until.tv_nsec >= 1000000000) {
				until.tv_sec++;
				until.tv_nsec -= 1000000000;
			}
			pthread_cond_timedwait(&sim.changed, &sim.lock, &until);
		}
	}
	sim_current_call = call;
}

void sim_wait_operation(struct sim_operation *operation)
{
	sim_operation_get(operation);
	while (operation->state != SIM_DONE)
		sim_block();
	sim_operation_put(operation);
}

void sim_wait_context(struct sim_context *context)
{
	context->object.references++;
	while (context->pending)
		sim_block();
	context_put(context);
}

/* A load holds what submissions of other threads need (SIMCUDA_DRAIN_LOCK). */
void sim_wait_load(struct sim_context *context)
{
	sim.drains++;
	sim_wait_context(context);
	if (!--sim.drains)
		pthread_cond_broadcast(&sim.changed);
}

/* All streams of all contexts, work submitted while waiting too: measured for the frees. */
void sim_wait_device(int device)
{
	sim.drains++;
	while (sim.pending[device])
		sim_block();
	if (!--sim.drains)
		pthread_cond_broadcast(&sim.changed);
}

/* Host memory is mapped for every device. */
void sim_wait_all(void)
{
	for (int i = 0; i < sim.device_count; i++)
		sim_wait_device(i);
}

/* Memory of a device: also the devices that were given access to it. */
void sim_wait_device_and_peers(int device)
{
	unsigned peers = 1u << device;

	for (unsigned i = 0; i < sim.context_count; i++)
		if (sim.contexts[i]->peers & 1u << device)
			peers |= 1u << sim.contexts[i]->device;
	for (int i = 0; i < sim.device_count; i++)
		if (peers & 1u << i)
			sim_wait_device(i);
}
