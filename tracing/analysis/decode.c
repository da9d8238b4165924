// SPDX-License-Identifier: MIT
/*
 * Decoder (decode.h). Two caches, by the address of a library object that we hold a reference to,
 * so that an address stays what it was: event class -> where its fields are; stream -> its trace.
 * The last of each is tried first.
 */
#include "tracing/analysis/decode.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "sum.h"
#include "tracing/analysis/table.h"
#include "tracing/event_table.h"

#define NS_PER_SECOND INT64_C(1000000000)
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
	const bt_event_class *event_class; /* a reference */
	bool known;                        /* one of ours, understood */
	enum trace_event event;
	uint64_t vpid, vtid; /* indices in the common context; NONE: not there */
	bool vpid_signed, vtid_signed;
	unsigned int field_count;
	struct field fields[FIELDS_MAX];
};

struct stream {
	const bt_stream *stream; /* a reference */
	struct origin *origin;
	int64_t clock_offset_ns; /* of the trace's clock from the common origin */
	bool has_clock;
};

struct decoder {
	struct table classes; /* struct class *, by address */
	struct table streams; /* struct stream *, by address */
	struct class *last_class;
	struct stream *last_stream;
	size_t origin_capacity;
	union trace_payload payload;
	struct decoder_account account;
};

struct decoder *decoder_new(void)
{
	struct decoder *decoder = memory_new(sizeof(*decoder));

	decoder->classes.data_size = sizeof(struct class *);
	decoder->streams.data_size = sizeof(struct stream *);
	return decoder;
}

struct decoder *decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return NULL;
	for (size_t i = 0; i < decoder->classes.count; i++) {
		struct class *class = *(struct class **)table_at(&decoder->classes, i);

		bt_event_class_put_ref(class->event_class);
		free(class);
	}
	for (size_t i = 0; i < decoder->streams.count; i++) {
		struct stream *stream = *(struct stream **)table_at(&decoder->streams, i);

		bt_stream_put_ref(stream->stream);
		free(stream);
	}
	for (size_t i = 0; i < decoder->account.origin_count; i++) {
		free(decoder->account.origins[i]->identity);
		free(decoder->account.origins[i]->host);
		free(decoder->account.origins[i]);
	}
	for (size_t i = 0; i < decoder->account.note_count; i++)
		free(decoder->account.notes[i]);
	table_done(&decoder->classes);
	table_done(&decoder->streams);
	free(decoder->account.origins);
	free(decoder);
	return NULL;
}

static void add_note(struct decoder *decoder, char *text)
{
	struct decoder_account *account = &decoder->account;

	for (size_t i = 0; i < account->note_count; i++)
		if (!strcmp(account->notes[i], text)) {
			free(text);
			return;
		}
	if (account->note_count < DECODER_NOTES_MAX)
		account->notes[account->note_count++] = text;
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

static void resolve_fields(struct decoder *decoder, struct class *class)
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
			add_note(decoder,
				 memory_format(
					 "events %s are left out: their field %s has another type",
					 type->name, field->name));
			return;
		}
		class->fields[class->field_count++] = (struct field){
			.index = index, .type = field->type, .offset = field->offset};
	}
}

static struct class *class_of(struct decoder *decoder, const bt_event_class *event_class)
{
	struct class *class = decoder->last_class, **entry;
	bool is_new;

	if (class && class->event_class == event_class)
		return class;
	entry = table_add(&decoder->classes, (uint64_t)(uintptr_t)event_class, 0, &is_new);
	if (is_new) {
		class = *entry = memory_new(sizeof(*class));
		class->event_class = event_class;
		bt_event_class_get_ref(event_class);
		class->vpid = context_index(event_class, "vpid", &class->vpid_signed);
		class->vtid = context_index(event_class, "vtid", &class->vtid_signed);
		if (find_event(bt_event_class_get_name(event_class), &class->event))
			resolve_fields(decoder, class);
	}
	return decoder->last_class = *entry;
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

static struct origin *origin_of(struct decoder *decoder, const bt_trace *trace)
{
	struct decoder_account *account = &decoder->account;
	const char *host = environment_text(trace, "hostname");
	_cleanup_free_ char *identity = identity_of(trace, host);
	struct origin *origin;

	for (size_t i = 0; i < account->origin_count; i++)
		if (!strcmp(account->origins[i]->identity, identity))
			return account->origins[i];
	origin = memory_new(sizeof(*origin));
	origin->identity = identity;
	identity = NULL;
	origin->host = memory_copy(host);
	origin->has_pid = environment_number(trace, "vpid", &origin->pid);
	account->origins = memory_grow(account->origins, account->origin_count,
				       &decoder->origin_capacity, sizeof(account->origins[0]));
	return account->origins[account->origin_count++] = origin;
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

static struct stream *stream_of(struct decoder *decoder, const bt_stream *bt_stream)
{
	struct stream *stream = decoder->last_stream, **entry;
	bool is_new;

	if (stream && stream->stream == bt_stream)
		return stream;
	entry = table_add(&decoder->streams, (uint64_t)(uintptr_t)bt_stream, 0, &is_new);
	if (is_new) {
		stream = *entry = memory_new(sizeof(*stream));
		stream->stream = bt_stream;
		bt_stream_get_ref(bt_stream);
		stream->origin = origin_of(decoder, bt_stream_borrow_trace_const(bt_stream));
		find_clock(stream);
	}
	return decoder->last_stream = *entry;
}

static uint32_t context_number(const bt_field *context, uint64_t index, bool is_signed_field)
{
	const bt_field *field =
		bt_field_structure_borrow_member_field_by_index_const(context, index);

	return is_signed_field ? (uint32_t)bt_field_integer_signed_get_value(field)
			       : (uint32_t)bt_field_integer_unsigned_get_value(field);
}

/* ---- messages ---- */

static void decode_payload(struct decoder *decoder, const struct class *class,
			   const bt_event *event)
{
	const bt_field *payload = bt_event_borrow_payload_field_const(event);
	const struct trace_event_type *type = &trace_event_types[class->event];
	char *place = (char *)&decoder->payload;

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

static int take_event(struct decoder *decoder, const bt_message *message, struct decoded *ret_event,
		      char **reterr_text)
{
	const bt_event *event = bt_message_event_borrow_event_const(message);
	const struct class *class = class_of(decoder, bt_event_borrow_class_const(event));
	const bt_field *context;
	struct stream *stream;
	uint32_t pid, thread = 0;
	int64_t ns;

	if (!class->known)
		return 0;
	stream = stream_of(decoder, bt_event_borrow_stream_const(event));
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

	decode_payload(decoder, class, event);
	*ret_event = (struct decoded){
		.id = class->event,
		.pid = pid,
		.thread = thread,
		.ns = ns,
		.origin = stream->origin,
		.clock_offset_ns = stream->clock_offset_ns,
		.payload = &decoder->payload,
	};
	return 1;
}

/* Where the tracer does not say how many, it was one at least. */
static void take_discarded_events(struct decoder *decoder, const bt_message *message)
{
	struct stream *stream =
		stream_of(decoder, bt_message_discarded_events_borrow_stream_const(message));
	uint64_t count = 1;

	(void)bt_message_discarded_events_get_count(message, &count);
	sum_add(&decoder->account.discarded, count);
	sum_add(&stream->origin->lost, count);
}

static void take_discarded_packets(struct decoder *decoder, const bt_message *message)
{
	uint64_t count = 1;

	(void)bt_message_discarded_packets_get_count(message, &count);
	sum_add(&decoder->account.discarded_packets, count);
}

int decoder_take(struct decoder *decoder, const bt_message *message, struct decoded *ret_event,
		 char **reterr_text)
{
	switch (bt_message_get_type(message)) {
	case BT_MESSAGE_TYPE_EVENT:
		return take_event(decoder, message, ret_event, reterr_text);
	case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
		take_discarded_events(decoder, message);
		return 0;
	case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
		take_discarded_packets(decoder, message);
		return 0;
	default:
		return 0;
	}
}

const struct decoder_account *decoder_account(const struct decoder *decoder)
{
	return &decoder->account;
}
