// SPDX-License-Identifier: MIT
/*
 * A provider that writes a journal (tracing/README.md, "Golden traces") instead of a trace: for runs of
 * many programs, where a session daemon would cost more than the run. Not installed. Opened by the
 * preload library as any provider is (SLIPSTREAM_LTTNG), which has to trace at level full.
 *
 *	TRACE_JOURNAL	the file, or a folder in which it becomes PID.trace; none: nothing is recorded
 *
 * In it are the operations of all streams, the records of legacy order, and what names their contexts, streams and functions; between a
 * dump_begin and a dump_end, which has the number of lines, so that each line that is missing is
 * missed. The end is written by the library's destructors. A process that ends otherwise leaves a journal
 * without it; a forked child leaves none.
 *
 * lock			everything below, in emitters; the lists stay small: names of functions, streams, contexts
 * descriptor, process	constant after the constructor
 * end			written once by the preload library; read by the destructor
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tracing/event_table.h"
#include "tracing/provider/provider.h"

#define ROOM           (UINT32_C(1) << 20)
#define LINE_MAX       1024 /* more than any line takes: names are cut */
#define NAME_MAX_BYTES 128

/* What a definition said last, by its number. */
struct known {
	char name[NAME_MAX_BYTES]; /* of a string */
	union trace_payload payload;
	bool is_wanted; /* a function that a record named */
};

struct list {
	struct known *items;
	size_t count, capacity;
};

static const int on = 1, off;
static struct trace_emitter emitters[TRACE_EVENT_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int descriptor = -1;
static uint32_t process;
static void (*end)(void);
static char buffer[ROOM];
static size_t used;
static uint64_t last_ns, lines;
static bool has_sender; /* a line said whose events these are */
static bool has_failed;
static struct list contexts, streams, functions, strings;

/* ---- lines ---- */

static void flush(void)
{
	size_t written = 0;

	while (written < used) {
		ssize_t count = write(descriptor, buffer + written, used - written);

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0) {
			has_failed = true; /* the end will not be written, and everybody sees it */
			break;
		}
		written += (size_t)count;
	}
	used = 0;
}

static void put(const char *text)
{
	size_t length = strlen(text);

	memcpy(buffer + used, text, length);
	used += length;
}

static void put_number(uint64_t value, unsigned int digits)
{
	char text[24];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value || sizeof(text) - at < digits);
	memcpy(buffer + used, text + at, sizeof(text) - at);
	used += sizeof(text) - at;
}

static void put_quoted(const char *text)
{
	static const char hex[] = "0123456789abcdef";

	buffer[used++] = '"';
	for (size_t i = 0; text[i] && i < NAME_MAX_BYTES; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c >= ' ' && c < 0x7f && c != '"' && c != '\\') {
			buffer[used++] = (char)c;
			continue;
		}
		buffer[used++] = '\\';
		buffer[used++] = 'x';
		buffer[used++] = hex[c >> 4];
		buffer[used++] = hex[c & 15];
	}
	buffer[used++] = '"';
}

/* Time, and the sender on the first line. */
static void put_head(void)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	if (ns > last_ns)
		last_ns = ns;
	put_number(last_ns / UINT64_C(1000000000), 1);
	put(".");
	put_number(last_ns % UINT64_C(1000000000), 9);
	if (!has_sender) {
		has_sender = true;
		put(" pid=");
		put_number(process, 1);
		put(" tid=");
		put_number(process, 1);
	}
}

static void put_field(const struct trace_field *field, const char *payload)
{
	const char *at = payload + field->offset;
	bool is_wide = field->type == TRACE_FIELD_U64 || field->type == TRACE_FIELD_X64;
	int32_t number;

	if (field->type == TRACE_FIELD_STRING) {
		put(" ");
		put(field->name);
		put("=");
		put_quoted(*(const char *const *)(const void *)at);
		return;
	}
	memcpy(&number, at, sizeof(number));
	if (is_wide ? !*(const uint64_t *)(const void *)at : !number)
		return;
	put(" ");
	put(field->name);
	put("=");
	if (is_wide) {
		put_number(*(const uint64_t *)(const void *)at, 1);
	} else if (field->type == TRACE_FIELD_I32 && number < 0) {
		put("-");
		put_number((uint64_t) - (int64_t)number, 1);
	} else {
		put_number((uint32_t)number, 1);
	}
}

/* Under the lock. */
static void write_event(enum trace_event event, const void *payload)
{
	const struct trace_event_type *type = &trace_event_types[event];

	if (used > ROOM - LINE_MAX)
		flush();
	put_head();
	put(" ");
	put(type->name);
	for (unsigned int i = 0; i < type->field_count; i++)
		put_field(&type->fields[i], payload);
	put("\n");
	lines++;
}

/* ---- definitions ---- */

/* Numbers are small and given in order: each has its place. */
static struct known *find(struct list *list, uint64_t number)
{
	return number < list->count ? &list->items[number] : NULL;
}

static struct known *add(struct list *list, uint64_t number)
{
	while (list->count <= number) {
		if (list->count == list->capacity) {
			size_t capacity = list->capacity ? list->capacity * 2 : 64;
			struct known *items = reallocarray(list->items, capacity, sizeof(*items));

			if (!items)
				return NULL;
			list->items = items;
			list->capacity = capacity;
		}
		memset(&list->items[list->count++], 0, sizeof(list->items[0]));
	}
	return find(list, number);
}

/* Of a context or a stream: written where it says something new. */
static void define(struct list *list, enum trace_event event, uint64_t number, const void *payload)
{
	struct known *known = add(list, number);
	size_t size = trace_event_types[event].size;

	if (!known || (known->is_wanted && !memcmp(&known->payload, payload, size)))
		return;
	known->is_wanted = true;
	memcpy(&known->payload, payload, size);
	write_event(event, payload);
}

static void name_string(const struct trace_def_string *string)
{
	struct known *known;

	if (string->offset || strlen(string->text) >= NAME_MAX_BYTES)
		return;
	known = add(&strings, string->id);
	if (known)
		strcpy(known->name, string->text);
}

static void name_function(const struct trace_def_function *function)
{
	struct known *known = add(&functions, function->number);

	if (known)
		known->payload.def_function = *function;
}

static void want_function(uint32_t number)
{
	struct known *known = add(&functions, number);

	if (known)
		known->is_wanted = true;
}

/* Strings first, then who has them: at the end, when all are known. */
static void write_names(void)
{
	for (size_t i = 0; i < functions.count; i++) {
		const struct trace_def_function *function =
			&functions.items[i].payload.def_function;
		const struct known *name = find(&strings, function->name);
		struct trace_def_string string;

		if (!functions.items[i].is_wanted || !function->name || !name)
			continue;
		string = (struct trace_def_string){.id = function->name,
						   .length = (uint32_t)strlen(name->name),
						   .text = name->name};
		write_event(TRACE_DEF_STRING, &string);
		write_event(TRACE_DEF_FUNCTION, function);
	}
}

/* ---- the provider ---- */

static bool is_on(void)
{
	return true;
}

static bool is_off(void)
{
	return false;
}

static void leave_out(const void *event)
{
	(void)event;
}

/* Without what it is called and how long its call took. */
static void write_submit(const struct trace_submit *submit)
{
	struct trace_submit less = *submit;

	less.name = 0;
	less.call_ns = 0;
	write_event(TRACE_SUBMIT, &less);
}

static void take(enum trace_event event, const void *payload)
{
	const union trace_payload *any = payload;

	pthread_mutex_lock(&lock);
	switch (event) {
	case TRACE_DEF_CONTEXT:
		define(&contexts, event, any->def_context.context, payload);
		break;
	case TRACE_DEF_STREAM:
		define(&streams, event, any->def_stream.stream, payload);
		break;
	case TRACE_DEF_STRING:
		name_string(payload);
		break;
	case TRACE_DEF_FUNCTION:
		name_function(payload);
		break;
	case TRACE_SUBMIT:
		want_function(any->submit.function);
		write_submit(&any->submit);
		break;
	case TRACE_ORDER_SUBMIT:
		want_function(any->order_submit.function);
		write_event(event, payload);
		break;
	default:
		write_event(event, payload);
	}
	pthread_mutex_unlock(&lock);
}

#define TAKE(name, NAME)                                                                           \
	static void take_##name(const void *event)                                                 \
	{                                                                                          \
		take(TRACE_##NAME, event);                                                         \
	}
TAKE(def_context, DEF_CONTEXT)
TAKE(def_stream, DEF_STREAM)
TAKE(def_string, DEF_STRING)
TAKE(def_function, DEF_FUNCTION)
TAKE(submit, SUBMIT)
TAKE(record, RECORD)
TAKE(submit_peer, SUBMIT_PEER)
TAKE(order_turn, ORDER_TURN)
TAKE(order_barrier, ORDER_BARRIER)
TAKE(order_submit, ORDER_SUBMIT)
TAKE(order_end, ORDER_END)
TAKE(order_stream, ORDER_STREAM)
TAKE(order_return, ORDER_RETURN)

static void set(enum trace_event event, void (*emit)(const void *event))
{
	emitters[event] = (struct trace_emitter){.state = &on, .is_enabled = is_on, .emit = emit};
}

static int open_journal(void)
{
	const char *place = getenv("TRACE_JOURNAL");
	struct stat status;
	char path[4096];

	if (!place || !*place)
		return -1;
	if (!stat(place, &status) && S_ISDIR(status.st_mode)) {
		snprintf(path, sizeof(path), "%s/%ld.trace", place, (long)getpid());
		place = path;
	}
	return open(place, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static void __attribute__((constructor)) begin(void)
{
	struct trace_dump_begin dump = {.dump = 1, .reason = TRACE_DUMP_LAST};

	process = (uint32_t)getpid();
	for (int event = 0; event < TRACE_EVENT_COUNT; event++)
		emitters[event] = (struct trace_emitter){
			.state = &off, .is_enabled = is_off, .emit = leave_out};
	descriptor = open_journal();
	if (descriptor < 0)
		return;
	/* Asked before definitions are sent; those that come with them are our own. */
	set(TRACE_DUMP_BEGIN, leave_out);
	set(TRACE_DUMP_END, leave_out);
	set(TRACE_DEF_PROCESS, leave_out);
	set(TRACE_DEF_CONTEXT, take_def_context);
	set(TRACE_DEF_STREAM, take_def_stream);
	set(TRACE_DEF_STRING, take_def_string);
	set(TRACE_DEF_FUNCTION, take_def_function);
	set(TRACE_SUBMIT, take_submit);
	set(TRACE_RECORD, take_record);
	set(TRACE_SUBMIT_PEER, take_submit_peer);
	set(TRACE_ORDER_TURN, take_order_turn);
	set(TRACE_ORDER_BARRIER, take_order_barrier);
	set(TRACE_ORDER_SUBMIT, take_order_submit);
	set(TRACE_ORDER_END, take_order_end);
	set(TRACE_ORDER_STREAM, take_order_stream);
	set(TRACE_ORDER_RETURN, take_order_return);
	write_event(TRACE_DUMP_BEGIN, &dump);
	lines = 0;
}

static void __attribute__((destructor)) finish(void)
{
	/* Pairs with the release store in at_end(). */
	void (*function)(void) = __atomic_load_n(&end, __ATOMIC_ACQUIRE);
	struct trace_dump_end dump = {.dump = 1};

	if (descriptor < 0 || (uint32_t)getpid() != process)
		return;
	if (function)
		function();
	pthread_mutex_lock(&lock);
	write_names();
	flush();
	dump.events = (uint32_t)lines;
	write_event(TRACE_DUMP_END, &dump);
	if (!has_failed)
		flush();
	close(descriptor);
	descriptor = open("/dev/null", O_WRONLY | O_CLOEXEC); /* threads that go on */
	pthread_mutex_unlock(&lock);
}

static uint32_t journal_process(void)
{
	return process;
}

static void at_end(void (*function)(void))
{
	/* Pairs with the acquire load in finish(). */
	__atomic_store_n(&end, function, __ATOMIC_RELEASE);
}

extern const struct trace_provider slipstream_trace_provider;
const struct trace_provider slipstream_trace_provider __attribute__((visibility("default"))) = {
	.magic = TRACE_PROVIDER_MAGIC,
	.event_count = TRACE_EVENT_COUNT,
	.schema = TRACE_SCHEMA,
	.emitters = emitters,
	.process = journal_process,
	.at_end = at_end,
};
