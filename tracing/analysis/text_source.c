// SPDX-License-Identifier: MIT
/*
 * source.slipstream.text (text_source.h): a parser behind a message iterator. The trace classes are
 * made while it is read: event classes when first used, a stream when its host appears.
 */
#include "tracing/analysis/text_source.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/hex.h"
#include "tracing/analysis/text_parse.h"
#include "tracing/event_table.h"

#define NS_PER_SECOND INT64_C(1000000000)

struct source {
	char *path;
	bool has_clock; /* the clock is another trace's, too: the two below are set */
	uint8_t clock_uuid[16];
	int64_t clock_offset_ns;
};

struct host {
	const char *name; /* of the parser */
	bt_stream *stream;
	bool has_begun, has_ended;
	uint64_t last_ns;
};

struct foreign {
	char *name;
	bt_event_class *event_class;
};

struct iterator {
	bt_self_message_iterator *self;
	struct text_parser *parser;
	struct text_line line;
	bool has_line; /* `line` waits for its message */
	bool at_end;
	char *error_text; /* told once the messages before it are delivered */

	bt_trace_class *trace_class;
	bt_clock_class *clock_class;
	bt_stream_class *stream_class;
	bt_event_class *event_classes[TRACE_EVENT_COUNT];
	struct foreign *foreign;
	size_t foreign_count, foreign_capacity;
	struct host *hosts;
	size_t host_count, host_capacity;
};

/* ---- component ---- */

/*
 * Parameters clock-uuid and clock-offset-ns, both or none: the clock as LTTng's traces have it, so that times
 * are merged with theirs.
 */
static bool find_clock(const bt_value *params, struct source *source)
{
	const bt_value *uuid = bt_value_map_borrow_entry_value_const(params, "clock-uuid");
	const bt_value *offset = bt_value_map_borrow_entry_value_const(params, "clock-offset-ns");
	const char *digits;
	size_t count = 0;

	if (!uuid && !offset)
		return true;
	if (!uuid || !bt_value_is_string(uuid) || !offset || !bt_value_is_signed_integer(offset))
		return false;
	for (digits = bt_value_string_get(uuid); *digits && count < 32; digits++) {
		if (*digits == '-')
			continue;
		if (hex_digit(*digits) < 0)
			return false;
		source->clock_uuid[count / 2] =
			(uint8_t)(source->clock_uuid[count / 2] << 4 | hex_digit(*digits));
		count++;
	}
	source->clock_offset_ns = bt_value_integer_signed_get(offset);
	source->has_clock = true;
	return count == 32 && !*digits;
}

bt_component_class_initialize_method_status
text_source_initialize(bt_self_component_source *self,
		       bt_self_component_source_configuration *configuration,
		       const bt_value *params, void *data)
{
	const bt_value *path = bt_value_map_borrow_entry_value_const(params, "path");
	bt_self_component *component = bt_self_component_source_as_self_component(self);
	struct source *source;

	(void)configuration;
	(void)data;
	if (!path || !bt_value_is_string(path)) {
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(
			component, "the parameter path=\"FILE\" is needed");
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	if (bt_self_component_source_add_output_port(self, "out", NULL, NULL) !=
	    BT_SELF_COMPONENT_ADD_PORT_STATUS_OK)
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	source = memory_new(sizeof(*source));
	source->path = memory_copy(bt_value_string_get(path));
	if (!find_clock(params, source)) {
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_COMPONENT(
			component, "clock-uuid=\"UUID\" and clock-offset-ns=NUMBER go together");
		free(source->path);
		free(source);
		return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	bt_self_component_set_data(component, source);
	return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

void text_source_finalize(bt_self_component_source *self)
{
	struct source *source =
		bt_self_component_get_data(bt_self_component_source_as_self_component(self));

	free(source->path);
	free(source);
}

/* ---- trace classes ---- */

static void add_member(bt_field_class *structure, const char *name, bt_field_class *member)
{
	memory_check(member);
	memory_check(bt_field_class_structure_append_member(structure, name, member) ? NULL
										     : member);
	bt_field_class_put_ref(member);
}

static bt_field_class *integer_class(struct iterator *iterator, enum trace_field_type type)
{
	bool is_wide = type == TRACE_FIELD_U64 || type == TRACE_FIELD_X64;
	bt_field_class *field_class =
		type == TRACE_FIELD_I32
			? bt_field_class_integer_signed_create(iterator->trace_class)
			: bt_field_class_integer_unsigned_create(iterator->trace_class);

	memory_check(field_class);
	bt_field_class_integer_set_field_value_range(field_class, is_wide ? 64 : 32);
	if (type == TRACE_FIELD_X64)
		bt_field_class_integer_set_preferred_display_base(
			field_class, BT_FIELD_CLASS_INTEGER_PREFERRED_DISPLAY_BASE_HEXADECIMAL);
	return field_class;
}

static void set_clock(bt_clock_class *clock_class, const struct source *source)
{
	int64_t seconds = source->clock_offset_ns / NS_PER_SECOND;
	int64_t rest = source->clock_offset_ns % NS_PER_SECOND;

	if (rest < 0) {
		seconds--;
		rest += NS_PER_SECOND;
	}
	bt_clock_class_set_uuid(clock_class, source->clock_uuid);
	/* So babeltrace2 takes those of LTTng, whatever their metadata says. */
	bt_clock_class_set_origin_is_unix_epoch(clock_class, BT_TRUE);
	bt_clock_class_set_offset(clock_class, seconds, (uint64_t)rest);
}

static void make_stream_class(struct iterator *iterator, bt_self_component *component,
			      bool has_discarded)
{
	const struct source *source = bt_self_component_get_data(component);
	bt_field_class *context;

	iterator->trace_class = memory_check(bt_trace_class_create(component));
	iterator->clock_class = memory_check(bt_clock_class_create(component));
	memory_check(bt_clock_class_set_name(iterator->clock_class, "monotonic") ? NULL : iterator);
	if (source->has_clock)
		set_clock(iterator->clock_class, source);
	iterator->stream_class = memory_check(bt_stream_class_create(iterator->trace_class));
	memory_check(bt_stream_class_set_default_clock_class(iterator->stream_class,
							     iterator->clock_class)
			     ? NULL
			     : iterator);
	if (has_discarded)
		bt_stream_class_set_supports_discarded_events(iterator->stream_class, BT_TRUE,
							      BT_TRUE);

	context = memory_check(bt_field_class_structure_create(iterator->trace_class));
	add_member(context, "vpid", integer_class(iterator, TRACE_FIELD_I32));
	add_member(context, "vtid", integer_class(iterator, TRACE_FIELD_I32));
	memory_check(bt_stream_class_set_event_common_context_field_class(iterator->stream_class,
									  context)
			     ? NULL
			     : iterator);
	bt_field_class_put_ref(context);
}

static bt_event_class *make_event_class(struct iterator *iterator, const char *name)
{
	bt_event_class *event_class = memory_check(bt_event_class_create(iterator->stream_class));

	memory_check(bt_event_class_set_name(event_class, name) ? NULL : event_class);
	return event_class;
}

static bt_event_class *event_class_of(struct iterator *iterator, enum trace_event event)
{
	const struct trace_event_type *type = &trace_event_types[event];
	_cleanup_free_ char *name = NULL;
	bt_field_class *payload;

	if (iterator->event_classes[event])
		return iterator->event_classes[event];
	name = memory_format("%s:%s", TRACE_PROVIDER, type->name);
	iterator->event_classes[event] = make_event_class(iterator, name);
	payload = memory_check(bt_field_class_structure_create(iterator->trace_class));
	for (unsigned int i = 0; i < type->field_count; i++)
		add_member(payload, type->fields[i].name,
			   type->fields[i].type == TRACE_FIELD_STRING
				   ? bt_field_class_string_create(iterator->trace_class)
				   : integer_class(iterator, type->fields[i].type));
	memory_check(bt_event_class_set_payload_field_class(iterator->event_classes[event], payload)
			     ? NULL
			     : iterator);
	bt_field_class_put_ref(payload);
	return iterator->event_classes[event];
}

static bt_event_class *foreign_class_of(struct iterator *iterator, const char *name)
{
	for (size_t i = 0; i < iterator->foreign_count; i++)
		if (!strcmp(iterator->foreign[i].name, name))
			return iterator->foreign[i].event_class;
	iterator->foreign = memory_grow(iterator->foreign, iterator->foreign_count,
					&iterator->foreign_capacity, sizeof(iterator->foreign[0]));
	iterator->foreign[iterator->foreign_count] = (struct foreign){
		.name = memory_copy(name), .event_class = make_event_class(iterator, name)};
	return iterator->foreign[iterator->foreign_count++].event_class;
}

static struct host *host_of(struct iterator *iterator, const char *name)
{
	struct host *host;
	bt_trace *trace;

	for (size_t i = 0; i < iterator->host_count; i++)
		if (iterator->hosts[i].name == name)
			return &iterator->hosts[i];
	iterator->hosts = memory_grow(iterator->hosts, iterator->host_count,
				      &iterator->host_capacity, sizeof(iterator->hosts[0]));
	host = &iterator->hosts[iterator->host_count++];
	*host = (struct host){.name = name};
	trace = memory_check(bt_trace_create(iterator->trace_class));
	memory_check(bt_trace_set_environment_entry_string(trace, "domain", "ust") ? NULL : trace);
	if (*name)
		memory_check(bt_trace_set_environment_entry_string(trace, "hostname", name)
				     ? NULL
				     : trace);
	host->stream = memory_check(bt_stream_create(iterator->stream_class, trace));
	bt_trace_put_ref(trace);
	return host;
}

/* ---- messages ---- */

static void set_field(bt_field *field, const struct trace_field *type, const char *place)
{
	const void *from = place + type->offset;

	switch (type->type) {
	case TRACE_FIELD_U32:
		bt_field_integer_unsigned_set_value(field, *(const uint32_t *)from);
		break;
	case TRACE_FIELD_U64:
	case TRACE_FIELD_X64:
		bt_field_integer_unsigned_set_value(field, *(const uint64_t *)from);
		break;
	case TRACE_FIELD_I32:
		bt_field_integer_signed_set_value(field, *(const int32_t *)from);
		break;
	case TRACE_FIELD_STRING:
		memory_check(bt_field_string_set_value(field, *(const char *const *)from) ? NULL
											  : field);
		break;
	}
}

static bt_message *event_message(struct iterator *iterator, struct host *host)
{
	const struct text_line *line = &iterator->line;
	const bt_event_class *event_class = line->kind == TEXT_EVENT
						    ? event_class_of(iterator, line->event)
						    : foreign_class_of(iterator, line->name);
	bt_message *message = memory_check(bt_message_event_create_with_default_clock_snapshot(
		iterator->self, event_class, host->stream, (uint64_t)line->ns));
	bt_event *event = bt_message_event_borrow_event(message);
	bt_field *context = bt_event_borrow_common_context_field(event), *payload;
	const struct trace_event_type *type = &trace_event_types[line->event];

	bt_field_integer_signed_set_value(
		bt_field_structure_borrow_member_field_by_index(context, 0), (int32_t)line->pid);
	bt_field_integer_signed_set_value(
		bt_field_structure_borrow_member_field_by_index(context, 1), (int32_t)line->thread);
	payload = bt_event_borrow_payload_field(event);
	for (unsigned int i = 0; line->kind == TEXT_EVENT && i < type->field_count; i++)
		set_field(bt_field_structure_borrow_member_field_by_index(payload, i),
			  &type->fields[i], (const char *)&line->payload);
	return message;
}

static bt_message *discarded_message(struct iterator *iterator, struct host *host)
{
	const struct text_line *line = &iterator->line;
	bt_message *message =
		memory_check(bt_message_discarded_events_create_with_default_clock_snapshots(
			iterator->self, host->stream, host->last_ns, (uint64_t)line->ns));

	bt_message_discarded_events_set_count(message, line->count);
	return message;
}

/* The next message; NULL: the end, or an error (error_text). */
static bt_message *next_message(struct iterator *iterator)
{
	struct host *host;
	bt_message *message;

	if (!iterator->has_line && !iterator->at_end) {
		int status =
			text_parser_next(iterator->parser, &iterator->line, &iterator->error_text);

		if (status < 0)
			return NULL;
		iterator->has_line = status;
		iterator->at_end = !status;
	}
	if (iterator->at_end) {
		for (size_t i = 0; i < iterator->host_count; i++)
			if (!iterator->hosts[i].has_ended) {
				iterator->hosts[i].has_ended = true;
				return memory_check(bt_message_stream_end_create(
					iterator->self, iterator->hosts[i].stream));
			}
		return NULL;
	}
	host = host_of(iterator, iterator->line.host);
	if (!host->has_begun) {
		host->has_begun = true;
		host->last_ns = (uint64_t)iterator->line.ns;
		return memory_check(
			bt_message_stream_beginning_create(iterator->self, host->stream));
	}
	iterator->has_line = false;
	if (iterator->line.kind == TEXT_EVENT || iterator->line.kind == TEXT_FOREIGN)
		message = event_message(iterator, host);
	else
		message = discarded_message(iterator, host);
	host->last_ns = (uint64_t)iterator->line.ns;
	return message;
}

/*
 * Whether events were lost has to be said before the first message: sink.ctf.fs takes no stream
 * that could have lost some and has no packets, as ours. What is wrong with the file is told when
 * it is read for good.
 */
static bool find_discarded(const char *path)
{
	FILE *file = fopen(path, "re");
	struct text_parser *parser;
	struct text_line line;
	char *error_text = NULL;
	bool found = false;

	if (!file)
		return false;
	parser = text_parser_new(path, file);
	while (!found && text_parser_next(parser, &line, &error_text) > 0)
		found = line.kind == TEXT_DISCARDED;
	text_parser_free(parser);
	free(error_text);
	return found;
}

bt_message_iterator_class_initialize_method_status
text_iterator_initialize(bt_self_message_iterator *self,
			 bt_self_message_iterator_configuration *configuration,
			 bt_self_component_port_output *port)
{
	bt_self_component *component = bt_self_message_iterator_borrow_component(self);
	const struct source *source = bt_self_component_get_data(component);
	struct iterator *iterator;
	FILE *file = fopen(source->path, "re");

	(void)configuration;
	(void)port;
	if (!file) {
		BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(
			self, "%s: %s", source->path, strerror(errno));
		return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
	}
	iterator = memory_new(sizeof(*iterator));
	iterator->self = self;
	iterator->parser = text_parser_new(source->path, file);
	make_stream_class(iterator, component, find_discarded(source->path));
	bt_self_message_iterator_set_data(self, iterator);
	return BT_MESSAGE_ITERATOR_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

bt_message_iterator_class_next_method_status text_iterator_next(bt_self_message_iterator *self,
								bt_message_array_const messages,
								uint64_t capacity, uint64_t *count)
{
	struct iterator *iterator = bt_self_message_iterator_get_data(self);

	*count = 0;
	while (*count < capacity && !iterator->error_text) {
		const bt_message *message = next_message(iterator);

		if (!message)
			break;
		messages[(*count)++] = message;
	}
	if (*count)
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
	if (!iterator->error_text)
		return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END;
	BT_CURRENT_THREAD_ERROR_APPEND_CAUSE_FROM_MESSAGE_ITERATOR(self, "%s",
								   iterator->error_text);
	return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_ERROR;
}

void text_iterator_finalize(bt_self_message_iterator *self)
{
	struct iterator *iterator = bt_self_message_iterator_get_data(self);

	for (size_t i = 0; i < iterator->host_count; i++)
		bt_stream_put_ref(iterator->hosts[i].stream);
	for (size_t i = 0; i < iterator->foreign_count; i++) {
		bt_event_class_put_ref(iterator->foreign[i].event_class);
		free(iterator->foreign[i].name);
	}
	for (int event = 0; event < TRACE_EVENT_COUNT; event++)
		bt_event_class_put_ref(iterator->event_classes[event]);
	bt_stream_class_put_ref(iterator->stream_class);
	bt_clock_class_put_ref(iterator->clock_class);
	bt_trace_class_put_ref(iterator->trace_class);
	text_parser_free(iterator->parser);
	free(iterator->error_text);
	free(iterator->foreign);
	free(iterator->hosts);
	free(iterator);
}

const bt_component_class_source *text_source_class_new(void)
{
	bt_message_iterator_class *iterator = bt_message_iterator_class_create(text_iterator_next);
	bt_component_class_source *source = NULL;

	if (!iterator)
		return NULL;
	if (!bt_message_iterator_class_set_initialize_method(iterator, text_iterator_initialize) &&
	    !bt_message_iterator_class_set_finalize_method(iterator, text_iterator_finalize))
		source = bt_component_class_source_create("text", iterator);
	if (source) {
		(void)bt_component_class_source_set_initialize_method(source,
								      text_source_initialize);
		(void)bt_component_class_source_set_finalize_method(source, text_source_finalize);
	}
	bt_message_iterator_class_put_ref(iterator);
	return source;
}
