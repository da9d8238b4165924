// SPDX-License-Identifier: MIT
/*
 * Sink (sink.h). Called by the plugin's components and by slipstream-analyze.
 */
#include "tracing/analysis/sink.h"

#include <errno.h>

#include "memory.h"
#include "tracing/analysis/read.h"

struct sink {
	struct model *model;
	struct reader *reader;
	struct consumer *consumers;
	size_t count, capacity;
	uint64_t events;
	int64_t ns;
	bool finished;
	char *incomplete;
	char *error_text;
};

struct sink *sink_new(void)
{
	struct sink *sink = memory_new(sizeof(*sink));

	sink->model = model_new();
	sink->reader = reader_new(sink->model);
	return sink;
}

struct sink *sink_free(struct sink *sink)
{
	if (!sink)
		return NULL;
	for (size_t i = 0; i < sink->count; i++)
		sink->consumers[i].ops->free(sink->consumers[i].state);
	reader_free(sink->reader);
	model_free(sink->model);
	free(sink->consumers);
	free(sink->error_text);
	free(sink->incomplete);
	free(sink);
	return NULL;
}

void sink_add(struct sink *sink, struct consumer consumer)
{
	sink->consumers = memory_grow(sink->consumers, sink->count, &sink->capacity,
				      sizeof(sink->consumers[0]));
	sink->consumers[sink->count++] = consumer;
}

/* Keeps the first error; takes the text over. */
static void note_error(struct sink *sink, char *text)
{
	if (sink->error_text)
		free(text);
	else
		sink->error_text = text ? text : memory_copy("unknown error");
}

/* The library ends its messages with the addresses of objects: ": msg-it-addr=0x..., ...". */
static void cut_details(char *text)
{
	char *address = strstr(text, "-addr=");

	for (char *at = address; at && at > text + 1; at--)
		if (at[-2] == ':' && at[-1] == ' ') {
			at[-2] = '\0';
			return;
		}
}

char *sink_thread_error(void)
{
	const bt_error *error = bt_current_thread_take_error();
	char *text;

	if (!error)
		return memory_copy("unknown error");
	if (bt_error_get_cause_count(error))
		text = memory_copy(
			bt_error_cause_get_message(bt_error_borrow_cause_by_index(error, 0)));
	else
		text = memory_copy("unknown error");
	bt_current_thread_move_error(error);
	cut_details(text);
	for (char *at = text; *at; at++) /* one line */
		if (*at == '\n')
			*at = ' ';
	return text;
}

/* Of the source that met the error; NULL: another part of the graph did. */
static const char *source_of(const bt_error_cause *cause)
{
	switch (bt_error_cause_get_actor_type(cause)) {
	case BT_ERROR_CAUSE_ACTOR_TYPE_COMPONENT:
		return bt_error_cause_component_actor_get_component_class_type(cause) ==
				       BT_COMPONENT_CLASS_TYPE_SOURCE
			       ? bt_error_cause_component_actor_get_component_name(cause)
			       : NULL;
	case BT_ERROR_CAUSE_ACTOR_TYPE_MESSAGE_ITERATOR:
		return bt_error_cause_message_iterator_actor_get_component_class_type(cause) ==
				       BT_COMPONENT_CLASS_TYPE_SOURCE
			       ? bt_error_cause_message_iterator_actor_get_component_name(cause)
			       : NULL;
	default:
		return NULL;
	}
}

char *sink_thread_error_of_trace(void)
{
	char *text = sink_thread_error();
	const bt_error *error = bt_current_thread_take_error();
	const char *source = NULL;

	for (uint64_t i = 0; error && !source && i < bt_error_get_cause_count(error); i++)
		source = source_of(bt_error_borrow_cause_by_index(error, i));
	/* Our own source tells the place itself, with the line. */
	if (source && strncmp(text, source, strlen(source)) != 0) {
		char *longer = memory_format("%s: %s", source, text);

		free(text);
		text = longer;
	}
	if (error)
		bt_current_thread_move_error(error);
	return text;
}

void sink_incomplete(struct sink *sink, const char *why)
{
	if (!sink->incomplete)
		sink->incomplete = memory_copy(why);
}

struct trace_parts *sink_trace_parts(struct sink *sink)
{
	return model_trace_parts(sink->model);
}

/* 0 or -errno, with the error noted. */
static int feed(struct sink *sink, const struct analysis_event *event)
{
	char *text = NULL;

	sink->events++;
	sink->ns = event->ns;
	for (size_t i = 0; i < sink->count; i++) {
		int status = sink->consumers[i].ops->event(sink->consumers[i].state, sink->model,
							   event, &text);

		if (status < 0) {
			note_error(sink, text);
			return status;
		}
	}
	return 0;
}

static int take(struct sink *sink, const bt_message *message)
{
	struct analysis_event event;
	char *text = NULL;
	int status = reader_take(sink->reader, message, &event, &text);

	if (status < 0)
		note_error(sink, text);
	return status > 0 ? feed(sink, &event) : status;
}

int sink_finish(struct sink *sink, bool interrupted, const char *broken)
{
	struct analysis_end end = {.interrupted = interrupted,
				   .broken = broken ? broken : sink->incomplete};
	int status = 0;

	if (sink->finished)
		return 0;
	sink->finished = true;
	reader_describe(sink->reader, &end);
	for (size_t i = 0; i < sink->count; i++) {
		char *text = NULL;
		int error = sink->consumers[i].ops->finish(sink->consumers[i].state, sink->model,
							   &end, &text);

		if (error < 0) {
			note_error(sink, text);
			status = error;
		}
	}
	return status;
}

void sink_break(struct sink *sink)
{
	note_error(sink, sink_thread_error_of_trace());
	(void)sink_finish(sink, false, sink->error_text);
}

enum sink_status sink_consume(struct sink *sink, bt_message_iterator *iterator)
{
	bt_message_array_const messages;
	uint64_t count;
	int error = 0;

	switch (bt_message_iterator_next(iterator, &messages, &count)) {
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_OK:
		break;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_AGAIN:
		return SINK_AGAIN;
	case BT_MESSAGE_ITERATOR_NEXT_STATUS_END:
		return sink_finish(sink, false, NULL) ? SINK_ERROR : SINK_END;
	default:
		sink_break(sink);
		return SINK_ERROR;
	}
	for (uint64_t i = 0; i < count; i++) {
		if (!error)
			error = take(sink, messages[i]);
		bt_message_put_ref(messages[i]);
	}
	if (!error)
		return SINK_OK;
	(void)sink_finish(sink, false, sink->error_text);
	return SINK_ERROR;
}

void sink_add_account(struct sink *sink, const struct decoder_account *account)
{
	reader_add_account(sink->reader, account);
}

enum sink_status sink_place(struct sink *sink, const struct decoded *decoded)
{
	struct analysis_event event;

	reader_place(sink->reader, decoded, &event);
	return feed(sink, &event) ? SINK_ERROR : SINK_OK;
}

enum sink_status sink_end(struct sink *sink, const char *broken)
{
	if (broken)
		note_error(sink, memory_copy(broken));
	return sink_finish(sink, false, broken) || broken ? SINK_ERROR : SINK_END;
}

const char *sink_error(const struct sink *sink)
{
	return sink->error_text;
}

const struct model *sink_model(const struct sink *sink)
{
	return sink->model;
}

uint64_t sink_events(const struct sink *sink)
{
	return sink->events;
}

int64_t sink_time(const struct sink *sink)
{
	return sink->ns;
}
