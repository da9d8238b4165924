// SPDX-License-Identifier: MIT
/*
 * Dump, build: from the records and the kernel's list of threads to what the writers show (dump.h). Called by the dump. The record file is hostile: numbers
 * that name something are looked up, times are believed only within the life of the process.
 */
#include <inttypes.h>

#include "dump.h"
#include "memory.h"
#include "process_state.h"
#include "report.h"
#include "sum.h"

/* More of a kind than any process has. A hostile file has as many as it likes, and they are looked up one in the other. */
#define THREADS_MAX ((size_t)1 << 16)
#define STREAMS_MAX ((size_t)1 << 16)
#define OTHERS_MAX  ((size_t)1 << 10)

static size_t count_of(const struct record_list *list, size_t most)
{
	return list->count < most ? list->count : most;
}

/* What the record's words of time mean. */
struct clock {
	bool known;
	uint64_t ticks, ns; /* now */
	double rate;        /* ns a tick */
	uint64_t start_ns;  /* of the process */
};

static uint64_t read_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

static void clock_begin(struct clock *clock, const struct record_file *file, uint64_t now_ns)
{
	const struct record_clock *record =
		file->clocks.count ? (const void *)file->clocks.records[0] : NULL;

	*clock = (struct clock){.ns = now_ns, .rate = 1, .start_ns = file->header->start_ns};
	if (!record)
		return;
	if (!record->is_counter) {
		clock->ticks = now_ns;
		clock->known = true;
		return;
	}
	clock->ticks = read_ticks();
	clock->ns = process_now_ns();
	if (clock->ticks <= record->ticks || clock->ns <= record->ns)
		return; /* from before a restart of the machine */
	clock->rate = (double)(clock->ns - record->ns) / (double)(clock->ticks - record->ticks);
	clock->known = true;
}

/* The word has as many bits of the time as fit; it is not older than they reach. */
static struct dump_since since_of(const struct clock *clock, uint64_t word)
{
	uint64_t when = word & RECORD_AT_MASK, age, age_ns;
	struct dump_since since = {0};

	if (!clock->known || when <= 1)
		return since;
	age = ((clock->ticks >> RECORD_AT_SHIFT) - when) & RECORD_AT_MASK;
	/* A moment behind now: written while the clock was read. */
	if (age > RECORD_AT_MASK / 2)
		age = 0;
	age_ns = (uint64_t)((double)(age << RECORD_AT_SHIFT) * clock->rate);
	if (age_ns > clock->ns || clock->ns - age_ns < clock->start_ns)
		return since;
	since.known = true;
	since.at_ns = clock->ns - age_ns;
	return since;
}

static const struct dump_task *task_of(const struct dump *dump, uint32_t inner)
{
	for (size_t i = 0; i < dump->tasks.count; i++)
		if (dump->tasks.items[i].inner == inner)
			return &dump->tasks.items[i];
	return NULL;
}

/* Threads have other numbers outside of their namespace. */
static uint32_t thread_here(const struct dump *dump, uint32_t inner)
{
	const struct dump_task *task = task_of(dump, inner);

	return task ? task->thread : inner;
}

static const char *function_name(const struct record_file *file, uint64_t call)
{
	const struct record_function *function;
	uint64_t number = call >> RECORD_AT_BITS;
	const char *name;

	if (!number)
		return NULL;
	function = (const void *)record_find(&file->functions, (uint32_t)number - 1);
	name = function ? record_string_text(file, function->name) : NULL;
	return name ? name : "unknown function";
}

static void add_thread(struct dump *dump, const struct clock *clock,
		       const struct record_thread *record)
{
	uint64_t lock = record->lock >> RECORD_AT_BITS;
	struct dump_thread *thread = &dump->threads[dump->thread_count];

	if (!record->thread ||
	    (!record->call && !record->lock && !record->drain && !record->in_flight[0] &&
	     !record->in_flight[1] && !record->in_flight[2]))
		return;
	dump->thread_count++;
	*thread = (struct dump_thread){
		.thread = thread_here(dump, record->thread),
		.task = task_of(dump, record->thread),
		.function = function_name(dump->file, record->call),
		.in_driver = record->call & RECORD_AT_MASK,
		.since = since_of(clock, record->call),
		.lock = lock & (RECORD_LOCK_WAITS | RECORD_LOCK_HOLDS),
		.lock_context = lock & RECORD_LOCK_CONTEXT,
		.lock_since = since_of(clock, record->lock),
		.drains = record->drain,
		.drains_since = since_of(clock, record->drain),
	};
	for (size_t i = 0; i < ARRAY_SIZE(thread->in_flight); i++)
		if (record->in_flight[i] <= UINT32_MAX)
			thread->in_flight[i] = (uint32_t)record->in_flight[i];
	/* A peer copy may have stood for an operation of its own while it was counted in. */
	if (thread->in_flight[0] == thread->in_flight[1] ||
	    thread->in_flight[0] == thread->in_flight[2])
		thread->in_flight[0] = 0;
}

/* Since when it is where it is now, for the order of lines. */
static uint64_t stands_since(const struct dump_thread *thread)
{
	if (thread->since.known)
		return thread->since.at_ns;
	if (thread->lock_since.known)
		return thread->lock_since.at_ns;
	return thread->drains_since.known ? thread->drains_since.at_ns : UINT64_MAX;
}

static int longest_first(const void *left, const void *right)
{
	const struct dump_thread *a = left, *b = right;
	uint64_t x = stands_since(a), y = stands_since(b);

	if (x != y)
		return x < y ? -1 : 1;
	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

static int32_t device_of(const struct record_file *file, uint32_t number)
{
	for (size_t i = 0; i < count_of(&file->contexts, OTHERS_MAX); i++) {
		const struct record_context *context = (const void *)file->contexts.records[i];

		if (context->number == number)
			return context->device;
	}
	return -1;
}

static void add_context(struct dump *dump, const struct record_order *record)
{
	struct dump_context *context = &dump->contexts[dump->context_count];

	if (!record->context)
		return;
	dump->context_count++;
	*context = (struct dump_context){
		.number = record->context,
		.device = device_of(dump->file, record->context),
		.in_substitute = record->in_substitute & 1,
		.turns = record->turns,
	};
	for (size_t i = 0; i < dump->thread_count; i++) {
		const struct dump_thread *thread = &dump->threads[i];

		for (size_t k = 0; k < ARRAY_SIZE(thread->in_flight); k++)
			context->in_flight += thread->in_flight[k] == record->context;
		if (thread->lock_context != (record->context & RECORD_LOCK_CONTEXT))
			continue;
		context->waiting += thread->lock == RECORD_LOCK_WAITS;
		if (thread->lock == RECORD_LOCK_HOLDS)
			context->holder = thread;
	}
}

static int by_context(const void *left, const void *right)
{
	const struct dump_context *a = left, *b = right;

	return a->number < b->number ? -1 : a->number > b->number;
}

static void add_gate(struct dump *dump, const struct record_gate *record)
{
	const struct record_file *file = dump->file;
	struct dump_gate *gate = &dump->gates[dump->gate_count];

	if (record->state == GATE_NONE)
		return;
	dump->gate_count++;
	*gate = (struct dump_gate){
		.record = record,
		.thread = thread_here(dump, record->thread),
	};
	for (size_t i = 0; i < count_of(&file->contexts, OTHERS_MAX); i++) {
		const struct record_context *context = (const void *)file->contexts.records[i];

		if (context->id == record->context)
			gate->context = context->number;
	}
}

/* Magazines have records of their own beside the one of all (shim/pool/magazine.h). */
static uint64_t cached_bytes(const struct dump *dump)
{
	const struct record_file *file = dump->file;
	uint64_t all = 0, of_all = dump->held ? dump->held->kind[HELD_PINNED].bytes : 0;

	for (size_t i = 0; i < file->rewrites.count; i++) {
		const struct record_rewrite *rewrite = (const void *)file->rewrites.records[i];
		const char *name = record_string_text(file, rewrite->name);

		if (name && !strcmp(name, "pinned"))
			sum_add(&all, rewrite->held_bytes);
	}
	return all > of_all ? all - of_all : 0;
}

void dump_build(struct dump *dump, const struct record_file *file, const char *path, uint32_t pid,
		bool runs, struct dump_tasks *tasks)
{
	struct clock clock;

	*dump = (struct dump){.file = file,
			      .path = path,
			      .now_ns = process_now_ns(),
			      .pid = pid,
			      .runs = runs,
			      .tasks = *tasks};
	*tasks = (struct dump_tasks){0};
	clock_begin(&clock, file, dump->now_ns);
	dump->threads =
		memory_new(count_of(&file->threads, THREADS_MAX) * sizeof(dump->threads[0]));
	for (size_t i = 0; i < count_of(&file->threads, THREADS_MAX); i++)
		add_thread(dump, &clock, (const void *)file->threads.records[i]);
	if (dump->thread_count)
		qsort(dump->threads, dump->thread_count, sizeof(dump->threads[0]), longest_first);
	dump->contexts =
		memory_new(count_of(&file->orders, OTHERS_MAX) * sizeof(dump->contexts[0]));
	for (size_t i = 0; i < count_of(&file->orders, OTHERS_MAX); i++)
		add_context(dump, (const void *)file->orders.records[i]);
	if (dump->context_count)
		qsort(dump->contexts, dump->context_count, sizeof(dump->contexts[0]), by_context);
	dump->gates = memory_new(count_of(&file->gates, OTHERS_MAX) * sizeof(dump->gates[0]));
	for (size_t i = 0; i < count_of(&file->gates, OTHERS_MAX); i++)
		add_gate(dump, (const void *)file->gates.records[i]);
	if (file->held.count)
		dump->held = (const void *)file->held.records[0];
	dump->cached_bytes = cached_bytes(dump);
}

void dump_done(struct dump *dump)
{
	dump_tasks_done(&dump->tasks);
	free(dump->threads);
	free(dump->contexts);
	free(dump->gates);
}

char *dump_setting(const struct record_file *file, const char *name)
{
	const char *line = record_string_text(file, file->header->config);
	size_t length = strlen(name);

	for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (!strncmp(line, name, length) && line[length] == '=')
			return memory_check(
				strndup(line + length + 1, strcspn(line + length + 1, "\n")));
	return NULL;
}

bool dump_note_matters(const struct record_note *note)
{
	switch (note->code) {
	case NOTE_REWRITE:
	case NOTE_PASS_THROUGH:
	case NOTE_LOST:
	case NOTE_ERROR:
	case NOTE_CONFIG:
		return true;
	default:
		return false;
	}
}

const struct record_stream *dump_stream(const struct dump *dump, uint32_t number)
{
	const struct record_list *streams = &dump->file->streams;

	for (size_t i = 0; i < count_of(streams, STREAMS_MAX); i++) {
		const struct record_stream *stream = (const void *)streams->records[i];

		if (stream->number == number)
			return stream;
	}
	return NULL;
}

const char *dump_gate_state(uint32_t state)
{
	static const char *const names[] = {
		[GATE_WAITS] = "not-placed",
		[GATE_PLACED] = "placed",
		[GATE_ARRIVED] = "arrived",
		[GATE_GIVEN_UP] = "given-up",
	};

	return state < ARRAY_SIZE(names) && names[state] ? names[state] : "unknown";
}

const char *dump_held_kind(enum held_kind kind)
{
	static const char *const names[HELD_KINDS] = {
		[HELD_PINNED] = "pinned", [HELD_DEVICE] = "device", [HELD_ARRAY] = "arrays"};

	return names[kind];
}

const char *dump_gate_stream(const struct dump *dump, const struct record_gate *gate)
{
	const struct record_list *streams = &dump->file->streams;

	if (gate->stream <= 2)
		return report_stream_kind(gate->stream == 2 ? STREAM_PER_THREAD : STREAM_LEGACY);
	for (size_t i = 0; i < count_of(streams, STREAMS_MAX); i++) {
		const struct record_stream *stream = (const void *)streams->records[i];

		if (stream->handle == gate->stream && stream->context == gate->context)
			return report_stream_kind(stream->kind);
	}
	return "unknown";
}
