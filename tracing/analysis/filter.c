// SPDX-License-Identifier: MIT
/*
 * filter.slipstream.sync (filter.h): a reader and held waits between two message iterators. The
 * output is one trace with one stream, whatever the input was: waits of all hosts by time.
 */
#include "tracing/analysis/filter.h"

#include <errno.h>

#include "memory.h"
#include "text.h"
#include "tracing/analysis/held_waits.h"
#include "tracing/analysis/read.h"
#include "tracing/analysis/sink.h"
#include "tracing/analysis/timeline_sites.h"
#include "tracing/analysis/wait_text.h"

/* In the order of the output's fields. */
enum { THREAD, BLOCKED, BYTES, NUMBER_COUNT };
enum { PROCESS, RULE, FUNCTION, CLASS, CAUSE, STREAM, WAITED_FOR, SITE, TEXT_COUNT };

static const char *const text_names[TEXT_COUNT] = {
	[PROCESS] = "process", [RULE] = "rule",     [FUNCTION] = "function",     [CLASS] = "class",
	[CAUSE] = "cause",     [STREAM] = "stream", [WAITED_FOR] = "waited_for", [SITE] = "site",
};
static const char *const number_names[NUMBER_COUNT] = {
	[THREAD] = "thread", [BLOCKED] = "blocked_ns", [BYTES] = "bytes"};

struct filter {
	bt_self_message_iterator *self;
	bt_message_iterator *upstream;
	struct model *model;
	struct reader *reader;
	struct held_waits held;
	struct sites *sites;
	int64_t now_ns;   /* of the last event read */
	uint64_t last_ns; /* of the last message written */
	uint64_t lost;    /* counted by the reader, not passed on yet */
	uint64_t lost_told;

	/* Messages of the input that are not looked at yet; references. */
	bt_message_array_const batch;
	uint64_t batch_at, batch_count;
	bool upstream_ended, has_begun, has_ended;
	char *error_text; /* told once what was held is delivered */

	bt_trace_class *trace_class;
	bt_clock_class *clock_class;
	bt_stream_class *stream_class;
	bt_event_class *event_class;
	bt_stream *stream;
};

bt_component_class_initialize_method_status
filter_initialize(bt_self_component_filter *self,
		  bt_self_component_filter_configuration *configuration, const bt_value *params,
		  void *data)
{
	(void)configuration;
	(void)data;
	if (bt_value_map_get_size(params)) {
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(
			bt_self_component_filter_as_self_component(self),
			"there are no parameters");
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	if (bt_self_component_filter_add_input_port(self, "in", NULL, NULL) !=
		    BT_SELF_COMPONENT_ADD_PORT_STATUS_OK ||
	    bt_self_component_filter_add_output_port(self, "out", NULL, NULL) !=
		    BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

/* ---- the output's classes ---- */

#define CHECK(status) memory_check((status) ? NULL : filter)

static void add_member(struct filter *filter, bt_field_class *payload, const char *name,
		       bt_field_class *member)
{
	CHECK(bt_field_class_structure_append_member(payload, name, memory_check(member)));
	bt_field_class_put_ref(member);
}

static void make_classes(struct filter *filter, bt_self_component *component)
{
	bt_field_class *payload;
	bt_trace *trace;

	filter->trace_class = memory_check(bt_trace_class_create(component));
	filter->clock_class =
		memory_check(bt_clock_class_create(component)); /* ns from the common origin */
	filter->stream_class = memory_check(bt_stream_class_create(filter->trace_class));
	CHECK(bt_stream_class_set_default_clock_class(filter->stream_class, filter->clock_class));
	bt_stream_class_set_supports_discarded_events(filter->stream_class, BT_TRUE, BT_TRUE);
	filter->event_class = memory_check(bt_event_class_create(filter->stream_class));
	CHECK(bt_event_class_set_name(filter->event_class, "slipstream_sync:wait"));
	payload = memory_check(bt_field_class_structure_create(filter->trace_class));
	for (int i = 0; i < TEXT_COUNT; i++)
		add_member(filter, payload, text_names[i],
			   bt_field_class_string_create(filter->trace_class));
	for (int i = 0; i < NUMBER_COUNT; i++)
		add_member(filter, payload, number_names[i],
			   bt_field_class_integer_unsigned_create(filter->trace_class));
	CHECK(bt_event_class_set_payload_field_class(filter->event_class, payload));
	bt_field_class_put_ref(payload);
	trace = memory_check(bt_trace_create(filter->trace_class));
	filter->stream = memory_check(bt_stream_create(filter->stream_class, trace));
	bt_trace_put_ref(trace);
}

bt_message_iterator_class_initialize_method_status
filter_iterator_initialize(bt_self_message_iterator *self,
			   bt_self_message_iterator_configuration *configuration,
			   bt_self_component_port_output *port)
{
	bt_self_component *component = bt_self_message_iterator_borrow_component(self);
	bt_self_component_port_input *input = bt_self_component_filter_borrow_input_port_by_index(
		(bt_self_component_filter *)component, 0);
	struct filter *filter = memory_new(sizeof(*filter));

	(void)configuration;
	(void)port;
	if (bt_message_iterator_create_from_message_iterator(self, input, &filter->upstream) !=
	    BT_MESSAGE_ITERATOR_CREATE_FROM_MESSAGE_ITERATOR_STATUS_OK) {
		free(filter);
		return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	filter->self = self;
	filter->model = model_new();
	filter->reader = reader_new(filter->model);
	filter->sites = sites_new();
	make_classes(filter, component);
	bt_self_message_iterator_set_data(self, filter);
	return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

void filter_iterator_finalize(bt_self_message_iterator *self)
{
	struct filter *filter = bt_self_message_iterator_get_data(self);

	for (; filter->batch_at < filter->batch_count; filter->batch_at++)
		bt_message_put_ref(filter->batch[filter->batch_at]);
	bt_message_iterator_put_ref(filter->upstream);
	bt_stream_put_ref(filter->stream);
	bt_event_class_put_ref(filter->event_class);
	bt_stream_class_put_ref(filter->stream_class);
	bt_clock_class_put_ref(filter->clock_class);
	bt_trace_class_put_ref(filter->trace_class);
	held_waits_done(&filter->held);
	sites_free(filter->sites);
	reader_free(filter->reader);
	model_free(filter->model);
	free(filter->error_text);
	free(filter);
}

/* ---- output ---- */

/* Times before the origin have no place in the output's clock. */
static uint64_t clock_value(const struct filter *filter, int64_t ns)
{
	uint64_t value = ns > 0 ? (uint64_t)ns : 0;

	return value < filter->last_ns ? filter->last_ns : value;
}

static const bt_message *wait_message(struct filter *filter, const struct held_wait *wait)
{
	struct wait_text text = wait_text_of(filter->model, filter->sites, wait);
	const char *const texts[TEXT_COUNT] = {
		[PROCESS] = text.process,       [RULE] = text.rule,   [FUNCTION] = text.function,
		[CLASS] = text.class,           [CAUSE] = text.cause, [STREAM] = text.stream,
		[WAITED_FOR] = text.waited_for, [SITE] = text.site,
	};
	const uint64_t numbers[NUMBER_COUNT] = {[THREAD] = wait->event.thread,
						[BLOCKED] = wait->wait.blocked_ns,
						[BYTES] = wait->wait.bytes};
	bt_message *message;
	bt_field *payload;

	filter->last_ns = clock_value(filter, wait->event.ns);
	message = memory_check(bt_message_event_create_with_default_clock_snapshot(
		filter->self, filter->event_class, filter->stream, filter->last_ns));
	payload = bt_event_borrow_payload_field(bt_message_event_borrow_event(message));
	/* Names of the program; babeltrace2's own text sink lets C1 and broken UTF-8 through. */
	for (uint64_t i = 0; i < TEXT_COUNT; i++) {
		_cleanup_free_ char *shown = text_printable(texts[i], false);

		CHECK(bt_field_string_set_value(
			bt_field_structure_borrow_member_field_by_index(payload, i), shown));
	}
	for (uint64_t i = 0; i < NUMBER_COUNT; i++)
		bt_field_integer_unsigned_set_value(
			bt_field_structure_borrow_member_field_by_index(payload, TEXT_COUNT + i),
			numbers[i]);
	wait_text_done(&text);
	return message;
}

static const bt_message *lost_message(struct filter *filter)
{
	uint64_t begin_ns = filter->last_ns;
	bt_message *message;

	filter->last_ns = clock_value(filter, filter->now_ns);
	message = memory_check(bt_message_discarded_events_create_with_default_clock_snapshots(
		filter->self, filter->stream, begin_ns, filter->last_ns));
	bt_message_discarded_events_set_count(message, filter->lost - filter->lost_told);
	filter->lost_told = filter->lost;
	return message;
}

/* What may be written without reading on; NULL: nothing. */
static const bt_message *next_message(struct filter *filter)
{
	bool at_end = filter->upstream_ended || filter->error_text;
	const struct held_wait *wait;

	if (!filter->has_begun) {
		filter->has_begun = true;
		return memory_check(
			bt_message_stream_beginning_create(filter->self, filter->stream));
	}
	wait = held_waits_next(&filter->held, filter->model, at_end ? INT64_MAX : filter->now_ns);
	if (wait)
		return wait_message(filter, wait);
	/* Behind the waits that were there before it. */
	if (filter->lost > filter->lost_told && !filter->held.count)
		return lost_message(filter);
	if (at_end && !filter->error_text && !filter->has_ended) {
		filter->has_ended = true;
		return memory_check(bt_message_stream_end_create(filter->self, filter->stream));
	}
	return NULL;
}

/* ---- input ---- */

static void take(struct filter *filter, const bt_message *message)
{
	struct analysis_end end = {0};
	struct analysis_event event;
	int status = reader_take(filter->reader, message, &event, &filter->error_text);

	if (status > 0) {
		filter->now_ns = event.ns;
		if (event.id == TRACE_WAIT)
			held_waits_add(&filter->held, &event);
	} else if (!status && bt_message_get_type(message) != BT_MESSAGE_TYPE_EVENT) {
		reader_describe(filter->reader, &end);
		filter->lost = end.discarded;
	}
	bt_message_put_ref(message);
}

/* OK: at least one message was taken, or the input has ended (or failed: error_text). */
static bt_message_iterator_class_next_method_status read_on(struct filter *filter)
{
	if (filter->batch_at < filter->batch_count) {
		take(filter, filter->batch[filter->batch_at++]);
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	}
	filter->batch_at = filter->batch_count = 0;
	switch (bt_message_iterator_next(filter->upstream, &filter->batch, &filter->batch_count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		filter->upstream_ended = true;
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_AGAIN;
	default:
		filter->error_text = sink_thread_error();
		bt_current_thread_clear_error();
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	}
}

bt_message_iterator_class_next_method_status filter_iterator_next(bt_self_message_iterator *self,
								  bt_message_array_const messages,
								  uint64_t capacity,
								  uint64_t *count)
{
	struct filter *filter = bt_self_message_iterator_get_data(self);
	bt_message_iterator_class_next_method_status status;

	*count = 0;
	while (*count < capacity) {
		const bt_message *message = next_message(filter);

		if (message) {
			messages[(*count)++] = message;
			continue;
		}
		if (filter->error_text) {
			if (*count)
				break;
			BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(
				self, "%s", filter->error_text);
			return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_ERROR;
		}
		if (filter->upstream_ended)
			return *count ? BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK
				      : BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END;
		status = read_on(filter);
		if (status == BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK)
			continue;
		if (!*count)
			return status;
		break; /* with another status, what is in the array would be lost */
	}
	return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
}
