// SPDX-License-Identifier: MIT
/*
 * Sums (report_sums.h). Called by the report for every wait: no allocation once a kind of wait has
 * been seen.
 */
#include "tracing/analysis/report_sums.h"

#include "sum.h"

void sums_init(struct sums *sums)
{
	*sums = (struct sums){
		.by_stream.data_size = sizeof(struct sum),
		.by_thread.data_size = sizeof(struct sum),
	};
}

void sums_done(struct sums *sums)
{
	table_done(&sums->by_stream);
	table_done(&sums->by_thread);
}

static void add_wait(struct sum *sum, const struct trace_wait *wait, int64_t ns)
{
	if (!sum->count) {
		sum->first_ns = ns;
		sum->begin_ns = wait->call_ns < (uint64_t)ns ? ns - (int64_t)wait->call_ns : ns;
	}
	sum->last_ns = ns;
	sum->count++;
	sum_add(&sum->blocked_ns, wait->blocked_ns);
	sum_add(&sum->call_ns, wait->call_ns);
	sum_add(&sum->bytes, wait->bytes);
	if (wait->blocked_ns > sum->blocked_max)
		sum->blocked_max = wait->blocked_ns;
}

void sums_take(struct sums *sums, const struct analysis_event *event)
{
	const struct trace_wait *wait = event->payload;
	uint64_t wait_key = (uint64_t)event->process << 32 | wait->wait;
	uint64_t stream_key = (uint64_t)wait->stream << 32 | wait->candidates;
	uint64_t thread_key = (uint64_t)event->thread << 32 | wait->stream;
	bool is_new;

	if (!sums->last_stream || wait_key != sums->last_wait_key ||
	    stream_key != sums->last_stream_key)
		sums->last_stream = table_add(&sums->by_stream, wait_key, stream_key, &is_new);
	if (!sums->last_thread || wait_key != sums->last_wait_key ||
	    thread_key != sums->last_thread_key)
		sums->last_thread = table_add(&sums->by_thread, wait_key, thread_key, &is_new);
	sums->last_wait_key = wait_key;
	sums->last_stream_key = stream_key;
	sums->last_thread_key = thread_key;
	add_wait(sums->last_stream, wait, event->ns);
	add_wait(sums->last_thread, wait, event->ns);
}

void sum_merge(struct sum *into, const struct sum *from)
{
	if (!into->count || from->first_ns < into->first_ns)
		into->first_ns = from->first_ns;
	if (!into->count || from->begin_ns < into->begin_ns)
		into->begin_ns = from->begin_ns;
	if (!into->count || from->last_ns > into->last_ns)
		into->last_ns = from->last_ns;
	sum_add(&into->count, from->count);
	sum_add(&into->blocked_ns, from->blocked_ns);
	sum_add(&into->call_ns, from->call_ns);
	sum_add(&into->bytes, from->bytes);
	if (from->blocked_max > into->blocked_max)
		into->blocked_max = from->blocked_max;
}
