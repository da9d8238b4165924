// SPDX-License-Identifier: MIT
/*
 * Sends operations and records of legacy order to a provider as the preload library does, and says how long it took:
 *
 *	emitter PROVIDER THREADS RECORDS [fork]
 *
 * Each thread has a blocking stream and one in four times makes a legacy operation, with its barriers. What
 * belongs together is numbered under one lock and sent outside, so that records come out of order. With `fork` a child that has
 * all that was not written yet leaves by exit() in between.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tracing/provider/provider.h"

#define LEGACY 1u /* number of the legacy stream; thread i has stream 2 + i */

static const struct trace_provider *provider;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sequence;
static uint64_t records_each;

static void send(enum trace_event event, const void *payload)
{
	const struct trace_emitter *emitter = &provider->emitters[event];

	if (__atomic_load_n(emitter->state, __ATOMIC_RELAXED) && emitter->is_enabled())
		emitter->emit(payload);
}

static void define(unsigned int threads)
{
	struct trace_def_string string = {.id = 9, .length = 14, .text = "cuLaunchKernel"};
	struct trace_def_function function = {.number = 5, .name = 9};
	struct trace_def_context context = {.context = 1, .id = 11};
	struct trace_def_stream stream = {.stream = LEGACY, .kind = 1, .context = 11};

	send(TRACE_DEF_STRING, &string);
	send(TRACE_DEF_FUNCTION, &function);
	send(TRACE_DEF_CONTEXT, &context);
	send(TRACE_DEF_STREAM, &stream);
	stream.kind = 3;
	for (unsigned int i = 0; i < threads; i++) {
		stream.stream = 2 + i;
		stream.handle = 0x1000 + i;
		send(TRACE_DEF_STREAM, &stream);
	}
}

/* A blocking operation behind the substitute; or a legacy one behind all. */
static void operate(uint32_t stream, bool is_legacy)
{
	struct trace_order_barrier barrier = {.context = 1,
					      .kind = is_legacy ? TRACE_ORDER_JOIN
								: TRACE_ORDER_POST,
					      .from_stream = LEGACY,
					      .from_place = !is_legacy,
					      .to_stream = is_legacy ? LEGACY : stream,
					      .to_place = is_legacy};
	struct trace_order_submit submit = {.context = 1,
					    .stream = is_legacy ? LEGACY : stream,
					    .place = is_legacy,
					    .operation = 1,
					    .function = 5};
	struct trace_submit operation = {.stream = submit.stream,
					 .operation = 1,
					 .function = 5,
					 .kind = is_legacy ? 1 : 3,
					 .context = 1};

	pthread_mutex_lock(&lock);
	barrier.sequence = ++sequence;
	submit.sequence = ++sequence;
	pthread_mutex_unlock(&lock);
	send(TRACE_ORDER_BARRIER, &barrier);
	send(TRACE_ORDER_SUBMIT, &submit);
	operation.order = submit.sequence;
	send(TRACE_SUBMIT, &operation);
}

static void *work(void *stream)
{
	for (uint64_t i = 0; i < records_each / 2; i++)
		operate(2 + (uint32_t)(uintptr_t)stream, i % 4 == 3);
	return NULL;
}

static void fork_child(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		exit(0);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		exit(2);
}

int main(int argc, char **argv)
{
	struct trace_order_turn turn = {.context = 1, .sequence = 1, .place = 1};
	struct trace_order_end end = {.context = 1};
	struct timespec begin, done;
	unsigned int threads;
	pthread_t ids[64];
	void *library;

	if (argc < 4 || argc > 5 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) ||
	    !(provider = dlsym(library, TRACE_PROVIDER_SYMBOL)))
		return 2;
	threads = (unsigned int)atoi(argv[2]);
	if (!threads || threads > 64)
		return 2;
	records_each = strtoull(argv[3], NULL, 10) / threads;
	define(threads);
	sequence = 1;
	send(TRACE_ORDER_TURN, &turn);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, work, (void *)i))
			return 2;
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	clock_gettime(CLOCK_MONOTONIC, &done);
	if (argc == 5)
		fork_child();
	end.sequence = sequence + 1;
	send(TRACE_ORDER_END, &end);
	printf("%llu %.3f\n", (unsigned long long)sequence,
	       (double)(done.tv_sec - begin.tv_sec) + (double)(done.tv_nsec - begin.tv_nsec) / 1e9);
	return 0;
}
