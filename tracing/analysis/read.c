// SPDX-License-Identifier: MIT
/*
 * Reader (read.h). Three caches, all by the address of a library object that we hold a reference
 * to, so that an address stays what it was: event class -> where its fields are; stream -> trace;
 * (trace, pid) -> process. The last stream and the last process of a stream are tried first.
 */
#include "tracing/analysis/read.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/table.h"
#include "tracing/event_table.h"

#define NS_PER_SECOND INT64_C(1000000000)
#define NOTES_MAX     16 /* told one by one */
#define FIELDS_MAX    32 /* of an event; the schema has fewer (checked when a class is resolved) */
#define NONE          UINT64_MAX

struct field {
	uint64_t index; /* in the payload */
	enum trace_field_type type;
	size_t offset; /* in struct trace_<event> */
};

/* By event class. */
struct class
{
	const bt_event_class *event_class; /* a reference; NULL: entry is free */
	bool known;                        /* one of ours, understood */
	enum trace_event event;
	uint64_t vpid, vtid; /* indices in the common context; NONE: not there */
	bool vpid_signed, vtid_signed;
	unsigned int field_count;
	struct field fields[FIELDS_MAX];
};

/* One for all streams of a trace, and for traces of the same identity (a rotated session). */
struct origin {
	char *identity;         /* UUID and host */
	const char *host;       /* of the model */
	struct table processes; /* uint32_t, by pid */
	bool has_pid;           /* a trace of one process: its environment says which */
	uint32_t pid;
};

struct stream {
	const bt_stream *stream; /* a reference */
	struct origin *origin;
	int64_t clock_offset_ns; /* of the trace's clock from the common origin */
	bool has_clock;
	bool has_process; /* last_* are set */
	uint32_t last_pid, last_process;
};

struct reader {
	struct model *model;
	struct table classes; /* struct class *, by address */
	struct table streams; /* struct stream *, by address */
	struct class *last_class;
	struct stream *last_stream;
	struct origin **origins;
	size_t origin_count, origin_capacity;
	union trace_payload payload;

	char *notes[NOTES_MAX];
	size_t note_count;
	uint64_t events, discarded, discarded_packets;
	int64_t begin_ns, end_ns;
};

struct reader *reader_new(struct model *model)
{
	struct reader *reader = memory_new(sizeof(*reader));

	reader->model = model;
	reader->classes.data_size = sizeof(struct class *);
	reader->streams.data_size = sizeof(struct stream *);
	return reader;
}

struct reader *reader_free(struct reader *reader)
{
	if (!reader)
		return NULL;
	for (size_t i = 0; i < reader->classes.count; i++) {
		struct class *class = *(struct class **)table_at(&reader->classes, i);

		bt_event_class_put_ref(class->event_class);
		free(class);
	}
	for (size_t i = 0; i < reader->streams.count; i++) {
		struct stream *stream = *(struct stream **)table_at(&reader->streams, i);

		bt_stream_put_ref(stream->stream);
		free(stream);
	}
	for (size_t i = 0; i < reader->origin_count; i++) {
		table_done(&reader->origins[i]->processes);
		free(reader->origins[i]->identity);
		free(reader->origins[i]);
	}
	for (size_t i = 0; i < reader->note_count; i++)
		free(reader->notes[i]);
	table_done(&reader->classes);
	table_done(&reader->streams);
	free(reader->origins);
	free(reader);
	return NULL;
}

static void add_note(struct reader *reader, char *text)
{
	for (size_t i = 0; i < reader->note_count; i++)
		if (!strcmp(reader->notes[i], text)) {
			free(text);
			return;
		}
	if (reader->note_count < NOTES_MAX)
		reader->notes[reader->note_count++] = text;
	else
		free(text);
}

/* ---- event classes ---- */

static bool is_unsigned(bt_field_class_type type)
{
	return type == BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER ||
	       type == BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION;
}

static bool is_signed(bt_field_class_type type)
{
	return type == BT_FIELD_CLASS_TYPE_SIGNED_INTEGER ||
	       type == BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION;
}

static bool fits(enum trace_field_type want, bt_field_class_type have)
{
	switch (want) {
	case TRACE_FIELD_I32:
		return is_signed(have);
	case TRACE_FIELD_STRING:
		return have == BT_FIELD_CLASS_TYPE_STRING;
	default:
		return is_unsigned(have);
	}
}

/* NONE if there is no such member. */
static uint64_t member_index(const bt_field_class *structure, const char *name,
			     bt_field_class_type *ret_type)
{
	uint64_t count;

	if (!structure || bt_field_class_get_type(structure) != BT_FIELD_CLASS_TYPE_STRUCTURE)
		return NONE;
	count = bt_field_class_structure_get_member_count(structure);
	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class_structure_member *member =
			bt_field_class_structure_borrow_member_by_index_const(structure, i);

		if (strcmp(bt_field_class_structure_member_get_name(member), name))
			continue;
		*ret_type = bt_field_class_get_type(
			bt_field_class_structure_member_borrow_field_class_const(member));
		return i;
	}
	return NONE;
}

/* vpid or vtid; contexts of another type count as missing. */
static uint64_t context_index(const bt_event_class *event_class, const char *name, bool *ret_signed)
{
	const bt_field_class *context =
		bt_stream_class_borrow_event_common_context_field_class_const(
			bt_event_class_borrow_stream_class_const(event_class));
	bt_field_class_type type;
	uint64_t index = member_index(context, name, &type);

	if (index == NONE || (!is_signed(type) && !is_unsigned(type)))
		return NONE;
	*ret_signed = is_signed(type);
	return index;
}

static bool find_event(const char *name, enum trace_event *ret_event)
{
	static const char prefix[] = TRACE_PROVIDER ":";

	if (!name || strncmp(name, prefix, sizeof(prefix) - 1))
		return false;
	for (int event = 0; event < TRACE_EVENT_COUNT; event++)
		if (!strcmp(name + sizeof(prefix) - 1, trace_event_types[event].name)) {
			*ret_event = event;
			return true;
		}
	return false;
}

static void resolve_fields(struct reader *reader, struct class *class)
{
	const struct trace_event_type *type = &trace_event_types[class->event];
	const bt_field_class *payload =
		bt_event_class_borrow_payload_field_class_const(class->event_class);

	class->known = type->field_count <= FIELDS_MAX;
	for (unsigned int i = 0; i < type->field_count && class->known; i++) {
		const struct trace_field *field = &type->fields[i];
		bt_field_class_type have;
		uint64_t index = member_index(payload, field->name, &have);

		if (index == NONE)
			continue;
		if (!fits(field->type, have)) {
			class->known = false;
			add_note(reader,
				 memory_format(
					 "events %s are left out: their field %s has another type",
					 type->name, field->name));
			return;
		}
		class->fields[class->field_count++] = (struct field){
			.index = index, .type = field->type, .offset = field->offset};
	}
}

static struct class *class_of(struct reader *reader, const bt_event_class *event_class)
{
	struct class *class = reader->last_class, **entry;
	bool is_new;

	if (class && class->event_class == event_class)
		return class;
	entry = table_add(&reader->classes, (uint64_t)(uintptr_t)event_class, 0, &is_new);
	if (is_new) {
		class = *entry = memory_new(sizeof(*class));
		class->event_class = event_class;
		bt_event_class_get_ref(event_class);
		class->vpid = context_index(event_class, "vpid", &class->vpid_signed);
		class->vtid = context_index(event_class, "vtid", &class->vtid_signed);
		if (find_event(bt_event_class_get_name(event_class), &class->event))
			resolve_fields(reader, class);
	}
	return reader->last_class = *entry;
}

/* ---- streams and traces ---- */

static const char *environment_text(const bt_trace *trace, const char *name)
{
	const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

	return value && bt_value_is_string(value) ? bt_value_string_get(value) : "";
}

static bool environment_number(const bt_trace *trace, const char *name, uint32_t *ret_number)
{
	const bt_value *value = bt_trace_borrow_environment_entry_value_by_name_const(trace, name);

	if (!value || !bt_value_is_signed_integer(value))
		return false;
	*ret_number = (uint32_t)bt_value_integer_signed_get(value);
	return true;
}

static char *identity_of(const bt_trace *trace, const char *host)
{
	bt_uuid uuid = bt_trace_get_uuid(trace);
	char hex[33] = "";

	if (!uuid)
		return memory_format("%p %s", (const void *)trace, host);
	for (int i = 0; i < 16; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", uuid[i]);
	return memory_format("%s %s", hex, host);
}

static struct origin *origin_of(struct reader *reader, const bt_trace *trace)
{
	const char *host = environment_text(trace, "hostname");
	_cleanup_free_ char *identity = identity_of(trace, host);
	struct origin *origin;

	for (size_t i = 0; i < reader->origin_count; i++)
		if (!strcmp(reader->origins[i]->identity, identity))
			return reader->origins[i];
	origin = memory_new(sizeof(*origin));
	origin->identity = identity;
	identity = NULL;
	origin->host = model_intern(reader->model, host);
	origin->processes.data_size = sizeof(uint32_t);
	origin->has_pid = environment_number(trace, "vpid", &origin->pid);
	reader->origins = memory_grow(reader->origins, reader->origin_count,
				      &reader->origin_capacity, sizeof(reader->origins[0]));
	return reader->origins[reader->origin_count++] = origin;
}

static void find_clock(struct stream *stream)
{
	const bt_clock_class *clock = bt_stream_class_borrow_default_clock_class_const(
		bt_stream_borrow_class_const(stream->stream));
	int64_t seconds;
	uint64_t cycles, frequency;

	if (!clock)
		return;
	stream->has_clock = true;
	bt_clock_class_get_offset(clock, &seconds, &cycles);
	frequency = bt_clock_class_get_frequency(clock);
	if (__builtin_mul_overflow(seconds, NS_PER_SECOND, &stream->clock_offset_ns))
		stream->clock_offset_ns = 0;
	else if (frequency == (uint64_t)NS_PER_SECOND)
		stream->clock_offset_ns += (int64_t)cycles;
	else
		stream->clock_offset_ns += (int64_t)((double)cycles / (double)frequency * 1e9);
}

static struct stream *stream_of(struct reader *reader, const bt_stream *bt_stream)
{
	struct stream *stream = reader->last_stream, **entry;
	bool is_new;

	if (stream && stream->stream == bt_stream)
		return stream;
	entry = table_add(&reader->streams, (uint64_t)(uintptr_t)bt_stream, 0, &is_new);
	if (is_new) {
		stream = *entry = memory_new(sizeof(*stream));
		stream->stream = bt_stream;
		bt_stream_get_ref(bt_stream);
		stream->origin = origin_of(reader, bt_stream_borrow_trace_const(bt_stream));
		find_clock(stream);
	}
	return reader->last_stream = *entry;
}

/* ---- processes ---- */

static uint32_t add_process(struct reader *reader, const struct stream *stream, uint32_t pid)
{
	uint32_t process = model_add_process(reader->model, stream->origin->host, pid);

	model_change_process(reader->model, process)->clock_offset_ns = stream->clock_offset_ns;
	return process;
}

/* A pid used again: another process takes the pid over from here on. */
static bool is_successor(const struct reader *reader, uint32_t process, const struct class *class)
{
	const struct trace_def_process *old = model_process_definition(reader->model, process);

	if (class->event == TRACE_DEF_PROCESS)
		return old && old->start_ns && reader->payload.def_process.start_ns &&
		       old->start_ns != reader->payload.def_process.start_ns;
	/* The definitions that come before def_process belong to the new one too. */
	return class->event == TRACE_DUMP_BEGIN && reader->payload.dump_begin.reason == 1 &&
	       model_process(reader->model, process)->ended;
}

static uint32_t process_of(struct reader *reader, struct stream *stream, uint32_t pid,
			   const struct class *class)
{
	bool may_be_new = class->event == TRACE_DEF_PROCESS || class->event == TRACE_DUMP_BEGIN;
	uint32_t *process;
	bool is_new;

	if (stream->has_process && stream->last_pid == pid && !may_be_new)
		return stream->last_process;
	process = table_add(&stream->origin->processes, pid, 0, &is_new);
	if (is_new || (may_be_new && is_successor(reader, *process, class))) {
		*process = add_process(reader, stream, pid);
		/* Other streams remember the process that the pid meant before. */
		for (size_t i = 0; !is_new && i < reader->streams.count; i++)
			(*(struct stream **)table_at(&reader->streams, i))->has_process = false;
	}
	stream->has_process = true;
	stream->last_pid = pid;
	stream->last_process = *process;
	return *process;
}

static uint32_t context_number(const bt_field *context, uint64_t index, bool is_signed_field)
{
	const bt_field *field =
		bt_field_structure_borrow_member_field_by_index_const(context, index);

	return is_signed_field ? (uint32_t)bt_field_integer_signed_get_value(field)
			       : (uint32_t)bt_field_integer_unsigned_get_value(field);
}

/* ---- messages ---- */

static void decode(struct reader *reader, const struct class *class, const bt_event *event)
{
	const bt_field *payload = bt_event_borrow_payload_field_const(event);
	const struct trace_event_type *type = &trace_event_types[class->event];
	char *place = (char *)&reader->payload;

	if (class->field_count < type->field_count) {
		memset(place, 0, type->size);
		for (unsigned int i = 0; i < type->field_count; i++)
			if (type->fields[i].type == TRACE_FIELD_STRING)
				*(const char **)(void *)(place + type->fields[i].offset) = "";
	}
	for (unsigned int i = 0; i < class->field_count; i++) {
		const struct field *want = &class->fields[i];
		const bt_field *field =
			bt_field_structure_borrow_member_field_by_index_const(payload, want->index);
		void *into = place + want->offset;

		switch (want->type) {
		case TRACE_FIELD_U32:
			*(uint32_t *)into = (uint32_t)bt_field_integer_unsigned_get_value(field);
			break;
		case TRACE_FIELD_U64:
		case TRACE_FIELD_X64:
			*(uint64_t *)into = bt_field_integer_unsigned_get_value(field);
			break;
		case TRACE_FIELD_I32:
			*(int32_t *)into = (int32_t)bt_field_integer_signed_get_value(field);
			break;
		case TRACE_FIELD_STRING:
			*(const char **)into = bt_field_string_get_value(field);
			break;
		}
	}
}

static int no_clock(char **reterr_text)
{
	*reterr_text = memory_format("a stream with slipstream's events has no clock");
	return -EBADMSG;
}

static int no_pid(char **reterr_text)
{
	*reterr_text =
		memory_format("the events do not tell their process: record the session with "
			      "`lttng add-context --userspace --type=vpid --type=vtid`");
	return -EBADMSG;
}

static int take_event(struct reader *reader, const bt_message *message,
		      struct analysis_event *ret_event, char **reterr_text)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const struct class *class = class_of(reader, bt_event_borrow_class_const(event));
	const bt_field *context;
	struct stream *stream;
	uint32_t pid, thread = 0;
	int64_t ns;

	if (!class->known)
		return 0;
	stream = stream_of(reader, bt_event_borrow_stream_const(event));
	if (!stream->has_clock)
		return no_clock(reterr_text);
	if (bt_clock_snapshot_get_ns_from_origin(
		    bt_message_event_borrow_default_clock_snapshot_const(message), &ns)) {
		bt_current_thread_clear_error();
		*reterr_text = memory_format("an event has an impossible time");
		return -EBADMSG;
	}

	context = bt_event_borrow_common_context_field_const(event);
	if (class->vpid != NONE)
		pid = context_number(context, class->vpid, class->vpid_signed);
	else if (stream->origin->has_pid)
		pid = stream->origin->pid;
	else
		return no_pid(reterr_text);
	if (class->vtid != NONE)
		thread = context_number(context, class->vtid, class->vtid_signed);

	decode(reader, class, event);
	*ret_event = (struct analysis_event){
		.id = class->event,
		.process = process_of(reader, stream, pid, class),
		.thread = thread,
		.ns = ns,
		.payload = &reader->payload,
	};
	if (!reader->events++)
		reader->begin_ns = ns;
	reader->end_ns = ns;
	model_take(reader->model, ret_event->process, class->event, &reader->payload);
	return 1;
}

static void add_lost(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

/* Where the tracer does not say how many, it was one at least. */
static void take_discarded_events(struct reader *reader, const bt_message *message)
{
	struct stream *stream =
		stream_of(reader, bt_message_discarded_events_borrow_stream_const(message));
	struct origin *origin = stream->origin;
	uint64_t count = 1;
	const uint32_t *process;

	(void)bt_message_discarded_events_get_count(message, &count);
	add_lost(&reader->discarded, count);
	process = origin->has_pid ? table_find(&origin->processes, origin->pid, 0) : NULL;
	if (process)
		add_lost(&model_change_process(reader->model, *process)->lost, count);
}

static void take_discarded_packets(struct reader *reader, const bt_message *message)
{
	uint64_t count = 1;

	(void)bt_message_discarded_packets_get_count(message, &count);
	add_lost(&reader->discarded_packets, count);
}

int reader_take(struct reader *reader, const bt_message *message, struct analysis_event *ret_event,
		char **reterr_text)
{
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		return take_event(reader, message, ret_event, reterr_text);
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		take_discarded_events(reader, message);
		return 0;
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		take_discarded_packets(reader, message);
		return 0;
	default:
		return 0;
	}
}

void reader_describe(const struct reader *reader, struct analysis_end *end)
{
	end->begin_ns = reader->begin_ns;
	end->end_ns = reader->end_ns;
	end->events = reader->events;
	end->discarded = reader->discarded;
	end->discarded_packets = reader->discarded_packets;
	end->notes = (const char *const *)reader->notes;
	end->note_count = reader->note_count;
}
