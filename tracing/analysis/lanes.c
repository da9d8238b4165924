// SPDX-License-Identifier: MIT
/*
 * Lanes (lanes.h). Each lane has a few batches that go round: free ones to its thread, full ones to
 * the merging thread. A batch owns copies of the payloads; texts in them, which are rare
 * (definitions), are copied one by one.
 */
#include "tracing/analysis/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "memory.h"
#include "tracing/analysis/sink.h"
#include "tracing/event_table.h"

#define LANES_MAX    8
#define BATCH_EVENTS 1024
#define BATCHES      4 /* of a lane: one being filled, one being merged, two on the way */

struct batch {
	struct batch *next;
	size_t count;
	struct decoded events[BATCH_EVENTS];
	union trace_payload payloads[BATCH_EVENTS];
	char **texts;
	size_t text_count, text_capacity;
};

/* First in, first out; protected by the lane's lock. */
struct queue {
	struct batch *first, **last;
};

struct lane {
	bt_graph *graph;
	struct decoder *decoder;
	struct batch *filling; /* the lane's thread's */
	bool ended;            /* no batch comes behind those in `full`; protected by the lock */
	char *error_text;      /* set before `ended` */

	pthread_t thread;
	bool is_started;
	pthread_mutex_t lock; /* `free`, `full`, `ended` */
	pthread_cond_t changed;
	struct queue free, full;
	bool stop; /* protected by the lock */

	struct batch *merging; /* the caller's thread's */
	size_t at;             /* in it */
	bool is_over;
};

struct lanes {
	struct lane *lanes[LANES_MAX];
	size_t count;
};

size_t lanes_worth(size_t streams)
{
	cpu_set_t set;
	size_t count = 1;

	if (!sched_getaffinity(0, sizeof(set), &set))
		count = (size_t)CPU_COUNT(&set);
	if (count > LANES_MAX)
		count = LANES_MAX;
	return count < streams ? count : streams;
}

/* ---- batches ---- */

static void queue_put(struct queue *queue, struct batch *batch)
{
	batch->next = NULL;
	*queue->last = batch;
	queue->last = &batch->next;
}

static struct batch *queue_take(struct queue *queue)
{
	struct batch *batch = queue->first;

	queue->first = batch->next;
	if (!queue->first)
		queue->last = &queue->first;
	return batch;
}

static void batch_clear(struct batch *batch)
{
	for (size_t i = 0; i < batch->text_count; i++)
		free(batch->texts[i]);
	batch->text_count = 0;
	batch->count = 0;
}

static void queue_done(struct queue *queue)
{
	while (queue->first) {
		struct batch *batch = queue_take(queue);

		batch_clear(batch);
		free(batch->texts);
		free(batch);
	}
}

static void batch_add(struct batch *batch, const struct decoded *decoded)
{
	const struct trace_event_type *type = &trace_event_types[decoded->id];
	struct decoded *event = &batch->events[batch->count];
	char *payload = (char *)&batch->payloads[batch->count++];

	*event = *decoded;
	event->payload = payload;
	memcpy(payload, decoded->payload, type->size);
	for (unsigned int i = 0; i < type->field_count; i++) {
		const char **text = (const char **)(void *)(payload + type->fields[i].offset);

		if (type->fields[i].type != TRACE_FIELD_STRING)
			continue;
		batch->texts = memory_grow(batch->texts, batch->text_count, &batch->text_capacity,
					   sizeof(batch->texts[0]));
		*text = batch->texts[batch->text_count++] = memory_copy(*text);
	}
}

/* ---- a lane's thread ---- */

/* Hands the filled batch over and gets a free one; false: stop. */
static bool exchange(struct lane *lane)
{
	bool stop;

	(void)pthread_mutex_lock(&lane->lock);
	queue_put(&lane->full, lane->filling);
	lane->filling = NULL;
	(void)pthread_cond_broadcast(&lane->changed);
	while (!lane->free.first && !lane->stop)
		(void)pthread_cond_wait(&lane->changed, &lane->lock);
	if (lane->free.first)
		lane->filling = queue_take(&lane->free);
	stop = lane->stop;
	(void)pthread_mutex_unlock(&lane->lock);
	return !stop && lane->filling;
}

static int take(struct lane *lane, const bt_message *message, bool *ret_stop)
{
	struct decoded decoded;
	int status = decoder_take(lane->decoder, message, &decoded, &lane->error_text);

	if (status <= 0)
		return status;
	batch_add(lane->filling, &decoded);
	if (lane->filling->count == BATCH_EVENTS)
		*ret_stop = !exchange(lane);
	return 0;
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *data)
{
	struct lane *lane = data;
	bt_message_array_const messages;
	bool stop = false;
	uint64_t count;
	int error = 0;

	switch (bt_message_iterator_next(iterator, &messages, &count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_AGAIN;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END;
	default:
		lane->error_text = sink_thread_error_of_trace();
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	}
	for (uint64_t i = 0; i < count; i++) {
		if (!error && !stop)
			error = take(lane, messages[i], &stop);
		bt_message_put_ref(messages[i]);
	}
	if (error)
		return BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_ERROR;
	return stop ? BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END
		    : BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

static void *run(void *data)
{
	struct lane *lane = data;
	bt_graph_run_once_status status;

	do
		status = bt_graph_run_once(lane->graph);
	while (status == BT_GRAPH_RUN_ONCE_STATUS_OK || status == BT_GRAPH_RUN_ONCE_STATUS_AGAIN);
	if (status != BT_GRAPH_RUN_ONCE_STATUS_END && !lane->error_text)
		lane->error_text = sink_thread_error_of_trace();
	bt_current_thread_clear_error();

	(void)pthread_mutex_lock(&lane->lock);
	if (lane->filling) {
		queue_put(&lane->full, lane->filling);
		lane->filling = NULL;
	}
	lane->ended = true;
	(void)pthread_cond_broadcast(&lane->changed);
	(void)pthread_mutex_unlock(&lane->lock);
	return NULL;
}

/* ---- the caller's thread ---- */

struct lanes *lanes_new(void)
{
	return memory_new(sizeof(struct lanes));
}

const bt_component_sink *lanes_add(struct lanes *lanes, bt_graph *graph)
{
	struct lane *lane = memory_new(sizeof(*lane));
	const bt_component_sink *sink;

	lane->graph = graph;
	lane->decoder = decoder_new();
	lane->free.last = &lane->free.first;
	lane->full.last = &lane->full.first;
	(void)pthread_mutex_init(&lane->lock, NULL);
	(void)pthread_cond_init(&lane->changed, NULL);
	for (int i = 0; i < BATCHES; i++)
		queue_put(&lane->free, memory_new(sizeof(struct batch)));
	lane->filling = queue_take(&lane->free);
	lanes->lanes[lanes->count++] = lane;
	return bt_graph_add_simple_sink_component(graph, "lane", NULL, consume, NULL, lane, &sink)
		       ? NULL
		       : sink;
}

const struct decoder_account *lanes_account(const struct lanes *lanes, size_t lane)
{
	return decoder_account(lanes->lanes[lane]->decoder);
}

/* Signals are for the caller's thread. */
int lanes_start(struct lanes *lanes)
{
	sigset_t all, before;
	int error = 0;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < lanes->count && !error; i++) {
		error = pthread_create(&lanes->lanes[i]->thread, NULL, run, lanes->lanes[i]);
		lanes->lanes[i]->is_started = !error;
	}
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -error;
}

/* Gives the merged batch back and waits for the next one with events; none: the lane is over. */
static void refill(struct lane *lane)
{
	(void)pthread_mutex_lock(&lane->lock);
	do {
		if (lane->merging) {
			batch_clear(lane->merging);
			queue_put(&lane->free, lane->merging);
			lane->merging = NULL;
			(void)pthread_cond_broadcast(&lane->changed);
		}
		while (!lane->full.first && !lane->ended)
			(void)pthread_cond_wait(&lane->changed, &lane->lock);
		if (lane->full.first)
			lane->merging = queue_take(&lane->full);
	} while (lane->merging && !lane->merging->count);
	(void)pthread_mutex_unlock(&lane->lock);
	lane->at = 0;
	lane->is_over = !lane->merging;
}

bool lanes_next(struct lanes *lanes, struct decoded *ret_event)
{
	struct lane *first = NULL;
	int64_t first_ns = 0;

	for (size_t i = 0; i < lanes->count; i++) {
		struct lane *lane = lanes->lanes[i];
		int64_t ns;

		if (!lane->is_over && (!lane->merging || lane->at == lane->merging->count))
			refill(lane);
		if (lane->is_over)
			continue;
		ns = lane->merging->events[lane->at].ns;
		if (!first || ns < first_ns) {
			first = lane;
			first_ns = ns;
		}
	}
	if (!first)
		return false;
	*ret_event = first->merging->events[first->at++];
	return true;
}

void lanes_stop(struct lanes *lanes)
{
	for (size_t i = 0; i < lanes->count; i++) {
		struct lane *lane = lanes->lanes[i];

		(void)pthread_mutex_lock(&lane->lock);
		lane->stop = true;
		(void)pthread_cond_broadcast(&lane->changed);
		(void)pthread_mutex_unlock(&lane->lock);
	}
	for (size_t i = 0; i < lanes->count; i++) {
		if (lanes->lanes[i]->is_started)
			(void)pthread_join(lanes->lanes[i]->thread, NULL);
		lanes->lanes[i]->is_started = false;
	}
}

const char *lanes_error(const struct lanes *lanes)
{
	for (size_t i = 0; i < lanes->count; i++)
		if (lanes->lanes[i]->error_text)
			return lanes->lanes[i]->error_text;
	return NULL;
}

struct lanes *lanes_free(struct lanes *lanes)
{
	if (!lanes)
		return NULL;
	lanes_stop(lanes);
	for (size_t i = 0; i < lanes->count; i++) {
		struct lane *lane = lanes->lanes[i];

		if (lane->filling)
			queue_put(&lane->free, lane->filling);
		if (lane->merging)
			queue_put(&lane->free, lane->merging);
		queue_done(&lane->free);
		queue_done(&lane->full);
		decoder_free(lane->decoder);
		(void)pthread_mutex_destroy(&lane->lock);
		(void)pthread_cond_destroy(&lane->changed);
		free(lane->error_text);
		free(lane);
	}
	free(lanes);
	return NULL;
}
