// SPDX-License-Identifier: MIT
/* Synthetic programs (synthetic.h): made, run, traced. */
#include "synthetic.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emit/record.h"
#include "memory.h"

#define STREAM_BIT(stream) (1U << (stream))

static uint64_t random_state;

static uint64_t random_next(void)
{
	/* splitmix64 */
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static int64_t between(int64_t low, int64_t high)
{
	return low + (int64_t)(random_next() % (uint64_t)(high - low + 1));
}

/* Which streams a thread uses: its own one mostly, so that threads seldom meet. */
static uint32_t pick_stream(unsigned int thread, unsigned int threads, unsigned int mixing)
{
	if (threads == 1 || (uint64_t)between(0, 99) < mixing)
		return (uint32_t)between(between(0, 3) ? 1 : 0, SYNTHETIC_STREAMS - 1);
	return 1 + thread;
}

static enum action_kind pick_kind(const unsigned int weights[ACTION_KINDS])
{
	unsigned int sum = 0, at;
	int kind;

	for (kind = 0; kind < ACTION_KINDS; kind++)
		sum += weights[kind];
	at = (unsigned int)between(0, (int64_t)sum - 1);
	for (kind = 0; at >= weights[kind]; kind++)
		at -= weights[kind];
	return (enum action_kind)kind;
}

static struct action make_action(enum action_kind kind, uint32_t stream, int64_t host_ns,
				 int64_t device_ns)
{
	struct action action = {
		.kind = kind,
		.stream = stream,
		.event = (uint32_t)between(0, SYNTHETIC_EVENTS - 1),
		.site = (uint32_t)between(1, SYNTHETIC_SITES - 1),
		.own_ns = between(3000, 20000),
		.wake_ns = between(0, 40000),
		.start_ns = between(0, 30000),
	};

	if (kind == ACTION_WORK)
		action.work_ns = between(1000, host_ns);
	else
		action.work_ns = between(20000, device_ns);
	action.idle_ns = action.own_ns - between(0, action.own_ns / 4);
	return action;
}

/*
 * A few actions, gone through again and again as loops do; what they take is drawn anew or the same
 * each time.
 */
void program_generate(struct program *program, uint64_t seed, unsigned int threads, size_t size)
{
	unsigned int weights[ACTION_KINDS], mixing;
	int64_t host_ns, device_ns;
	bool one_stream, small_copies;

	random_state = seed;
	memset(program, 0, sizeof(*program));
	program->seed = seed;
	program->threads = threads;
	mixing = between(0, 1) ? 0 : (unsigned int)between(0, 60);
	for (int kind = 0; kind < ACTION_KINDS; kind++)
		weights[kind] = (unsigned int)between(0, 3);
	if (seed % 3 == 1) /* much order between streams, few waits */
		for (int kind = 0; kind < ACTION_KINDS; kind++)
			weights[kind] = kind == ACTION_RECORD || kind == ACTION_STREAM_WAIT ? 4
					: kind == ACTION_STREAM_SYNC || kind == ACTION_FREE ? 1
											    : 0;
	weights[ACTION_LAUNCH] += 3;
	weights[ACTION_WORK] += 2;
	one_stream = seed % 3 == 0;
	small_copies = between(0, 3) > 0;
	host_ns = between(5000, 3000000);
	device_ns = between(50000, 5000000);
	for (unsigned int thread = 0; thread < threads; thread++) {
		size_t length = (size_t)between(3, 25), i;
		struct action body[25];

		for (i = 0; i < length; i++)
			body[i] = make_action(pick_kind(weights),
					      one_stream ? 1 + thread
							 : pick_stream(thread, threads, mixing),
					      host_ns, device_ns);
		for (i = 0; i + 1 < size; i++) {
			struct action *action = &program->action[thread][i];

			*action = body[i % length];
			if (between(0, 1))
				action->work_ns = action->work_ns * between(80, 120) / 100;
			action->wake_ns = between(0, 40000);
			action->late_ns = between(0, 3) ? 0 : between(0, 40000);
			if (small_copies && action->kind >= ACTION_COPY_BACK)
				action->work_ns = between(5000, 50000);
			/* Which record a wait means is what the trace says it was: no races for events. */
			if (threads > 1)
				action->event = thread;
		}
		program->action[thread][i] = make_action(ACTION_CONTEXT_SYNC, 0, 1000, 20000);
		program->action[thread][i].site = 0;
		program->count[thread] = size;
	}
}

void program_print(const struct program *program)
{
	static const char *const names[ACTION_KINDS] = {
		"work",       "launch",       "record", "stream-wait", "stream-sync",
		"event-sync", "context-sync", "free",   "copy-back",   "copy-there"};

	for (unsigned int thread = 0; thread < program->threads; thread++)
		for (size_t i = 0; i < program->count[thread]; i++) {
			const struct action *action = &program->action[thread][i];

			printf("  thread %u: %-12s stream %u event %u site %u work %lld own %lld "
			       "idle %lld wake %lld late %lld\n",
			       thread, names[action->kind], action->stream, action->event,
			       action->site, (long long)action->work_ns, (long long)action->own_ns,
			       (long long)action->idle_ns, (long long)action->wake_ns,
			       (long long)action->late_ns);
		}
}

/* ---- the scheduler ---- */

struct emitted {
	struct analysis_event event;
	union trace_payload payload;
	size_t order;
};

struct knowledge {
	struct {
		int64_t ns;
		uint64_t number;
	} fact[SYNTHETIC_ACTIONS * SYNTHETIC_THREADS];
	size_t count;
};

struct sim_stream {
	uint64_t submitted;
	/* What the tracer knows from when on: operations whose call has returned, and complete ones. */
	struct knowledge handed_over, complete;
	int64_t end;               /* of its last operation */
	int64_t edge;              /* its next operation not before this */
	uint64_t joined;           /* legacy order told so far (of the legacy stream) */
	uint64_t joined_by_legacy; /* how far of this one the legacy stream is behind */
};

struct simulation {
	const struct program *program;
	uint32_t removed;
	enum omission omission;
	int64_t now[SYNTHETIC_THREADS];
	size_t at[SYNTHETIC_THREADS];
	struct sim_stream stream[SYNTHETIC_STREAMS];
	/* by event */
	int64_t event_end[SYNTHETIC_EVENTS];
	uint32_t event_stream[SYNTHETIC_EVENTS];
	uint64_t event_number[SYNTHETIC_EVENTS];
	bool tracing;
	struct emitted *events;
	size_t count, capacity;
};

static union trace_payload *emit(struct simulation *simulation, unsigned int thread,
				 enum trace_event id, int64_t ns)
{
	static union trace_payload unused;
	struct emitted *emitted;

	if (!simulation->tracing)
		return &unused;
	simulation->events = memory_grow(simulation->events, simulation->count,
					 &simulation->capacity, sizeof(*simulation->events));
	emitted = &simulation->events[simulation->count];
	*emitted = (struct emitted){.event = {.id = id, .thread = thread + 1, .ns = ns},
				    .order = simulation->count++};
	return &emitted->payload;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static uint64_t known_at(const struct knowledge *knowledge, int64_t ns)
{
	uint64_t number = 0;

	for (size_t i = 0; i < knowledge->count; i++)
		if (knowledge->fact[i].ns <= ns && knowledge->fact[i].number > number)
			number = knowledge->fact[i].number;
	return number;
}

static void learn(struct knowledge *knowledge, int64_t ns, uint64_t number)
{
	knowledge->fact[knowledge->count].ns = ns;
	knowledge->fact[knowledge->count++].number = number;
}

/* Legacy order, and its events. Per-stream order and edges are the caller's. */
static int64_t join_ns(struct simulation *simulation, unsigned int thread, uint32_t number,
		       int64_t ns)
{
	struct sim_stream *legacy = &simulation->stream[0];
	int64_t after = 0;

	for (uint32_t i = 1; i < SYNTHETIC_STREAMS; i++) {
		struct sim_stream *stream = &simulation->stream[i];
		bool of_legacy = number == 0;

		if (!of_legacy && i != number)
			continue;
		after = most(after, of_legacy ? stream->end : legacy->end);
		if (simulation->omission == OMIT_JOIN)
			continue;
		if (of_legacy && stream->submitted > stream->joined_by_legacy) {
			emit(simulation, thread, TRACE_JOIN, ns)->join = (struct trace_join){
				1, legacy->submitted + 1, i + 1, stream->submitted};
			stream->joined_by_legacy = stream->submitted;
		} else if (!of_legacy && legacy->submitted > stream->joined) {
			emit(simulation, thread, TRACE_JOIN, ns)->join = (struct trace_join){
				i + 1, stream->submitted + 1, 1, legacy->submitted};
			stream->joined = legacy->submitted;
		}
	}
	return after;
}

/* Puts an operation on the stream; `event_ns`: when its events are emitted. */
static int64_t submit(struct simulation *simulation, unsigned int thread, enum operation_kind kind,
		      uint32_t number, int64_t sent, int64_t duration, int64_t event_ns,
		      int64_t call_ns)
{
	struct sim_stream *stream = &simulation->stream[number];
	int64_t joined = join_ns(simulation, thread, number, event_ns);
	int64_t begin = most(most(sent, stream->end), most(stream->edge, joined));

	stream->edge = 0;
	stream->end = begin + duration;
	stream->submitted++;
	if (simulation->omission != OMIT_LAUNCHES || number % 2)
		emit(simulation, thread, TRACE_SUBMIT, event_ns)->submit =
			(struct trace_submit){.stream = number + 1,
					      .operation = kind,
					      .number = stream->submitted,
					      .bytes = (uint64_t)most(1, duration - 60000),
					      .call_ns = (uint64_t)call_ns};
	return stream->end;
}

/* `always`: what the call waits for by name is told even if it was known. */
static void complete(struct simulation *simulation, unsigned int thread, uint32_t number,
		     uint64_t up_to, int64_t ns, bool always)
{
	struct sim_stream *stream = &simulation->stream[number];

	bool is_news = up_to > known_at(&stream->complete, ns);

	if (up_to == 0 || (!is_news && !always))
		return;
	if (is_news)
		learn(&stream->complete, ns, up_to);
	if (simulation->omission != OMIT_COMPLETED)
		emit(simulation, thread, TRACE_COMPLETED, ns)->completed =
			(struct trace_completed){number + 1, up_to};
}

/* The streams of `of` with work that the host does not know complete. */
static uint32_t candidates(const struct simulation *simulation, unsigned int of, int64_t ns)
{
	unsigned int streams = 0;

	for (uint32_t i = 0; i < SYNTHETIC_STREAMS; i++)
		if (of & STREAM_BIT(i) && known_at(&simulation->stream[i].handed_over, ns) >
						  known_at(&simulation->stream[i].complete, ns))
			streams |= STREAM_BIT(i);
	return simulation->omission == OMIT_CANDIDATES ? 0 : synthetic_candidates_id(streams);
}

/* Ends the call: *now, and the `wait` event where the tracer would see one. */
static int64_t end_wait(struct simulation *simulation, unsigned int thread,
			const struct action *action, int64_t begin, int64_t waits_until,
			uint32_t candidate_id, uint32_t stream)
{
	int64_t paid = begin + action->own_ns;
	/* Calibration sees such a copy with its transfer. */
	int64_t idle = action->idle_ns + (action->kind == ACTION_COPY_BACK ? action->work_ns : 0);
	int64_t end = paid;
	bool removed = action->site && action->site == simulation->removed;

	if (!removed)
		end += action->late_ns;
	if (!removed && waits_until > begin && waits_until + action->wake_ns > end)
		end = waits_until + action->wake_ns;
	if (!removed)
		emit(simulation, thread, TRACE_WAIT, end)->wait =
			(struct trace_wait){.wait = synthetic_wait_id(action->kind, action->site),
					    .candidates = candidate_id,
					    .stream = stream,
					    .blocked_ns = (uint64_t)most(0, end - begin - idle),
					    .call_ns = (uint64_t)(end - begin)};
	simulation->now[thread] = end;
	return end;
}

static unsigned int stream_scope(uint32_t stream)
{
	return stream == 0 ? STREAM_BIT(SYNTHETIC_STREAMS) - 1 : STREAM_BIT(stream);
}

static int64_t scope_end(const struct simulation *simulation, unsigned int scope)
{
	int64_t end = 0;

	for (uint32_t i = 0; i < SYNTHETIC_STREAMS; i++)
		if (scope & STREAM_BIT(i))
			end = most(end, simulation->stream[i].end);
	return end;
}

static void act_wait(struct simulation *simulation, unsigned int thread,
		     const struct action *action)
{
	bool all = action->kind == ACTION_CONTEXT_SYNC || action->kind == ACTION_FREE;
	unsigned int scope = all ? STREAM_BIT(SYNTHETIC_STREAMS) - 1 : stream_scope(action->stream);
	int64_t begin = simulation->now[thread];
	uint64_t submitted[SYNTHETIC_STREAMS];
	int64_t end;

	for (uint32_t i = 0; i < SYNTHETIC_STREAMS; i++)
		submitted[i] = known_at(&simulation->stream[i].handed_over, begin);
	end = end_wait(simulation, thread, action, begin, scope_end(simulation, scope),
		       candidates(simulation, scope, begin), all ? 0 : action->stream + 1);
	for (uint32_t i = 0; i < SYNTHETIC_STREAMS && action->kind != ACTION_FREE; i++)
		if (scope & STREAM_BIT(i))
			complete(simulation, thread, i, submitted[i], end,
				 !all && i == action->stream);
}

static void act_event_sync(struct simulation *simulation, unsigned int thread,
			   const struct action *action)
{
	uint32_t stream = simulation->event_stream[action->event];
	uint64_t number = simulation->event_number[action->event];
	int64_t end =
		end_wait(simulation, thread, action, simulation->now[thread],
			 simulation->event_end[action->event],
			 candidates(simulation, STREAM_BIT(stream), simulation->now[thread]), 0);

	complete(simulation, thread, stream, number, end, true);
}

static void act_copy(struct simulation *simulation, unsigned int thread,
		     const struct action *action)
{
	unsigned int scope = stream_scope(action->stream);
	int64_t begin = simulation->now[thread];
	uint32_t candidate_id = candidates(simulation, scope, begin);
	int64_t until = scope_end(simulation, scope);
	size_t mark = simulation->count;
	int64_t end, done;
	uint64_t number;

	/* The events come in another order than things happen: `wait` first. */
	done = submit(simulation, thread, OPERATION_COPY, action->stream, begin + action->start_ns,
		      action->work_ns, begin, 0);
	number = simulation->stream[action->stream].submitted;
	if (action->kind == ACTION_COPY_BACK)
		until = done;
	end = end_wait(simulation, thread, action, begin, until, candidate_id, action->stream + 1);
	if (simulation->tracing && simulation->count > mark + 1) {
		struct emitted wait = simulation->events[simulation->count - 1];

		memmove(&simulation->events[mark + 1], &simulation->events[mark],
			(simulation->count - 1 - mark) * sizeof(wait));
		simulation->events[mark] = wait;
		for (size_t i = mark; i < simulation->count; i++) {
			simulation->events[i].event.ns = end;
			simulation->events[i].order = i;
			if (simulation->events[i].event.id == TRACE_SUBMIT)
				simulation->events[i].payload.submit.call_ns =
					(uint64_t)(end - begin);
		}
	}
	learn(&simulation->stream[action->stream].handed_over, end, number);
	complete(simulation, thread, action->stream,
		 action->kind == ACTION_COPY_BACK ? number : number - 1, end, true);
}

static void act(struct simulation *simulation, unsigned int thread, const struct action *action)
{
	int64_t *now = &simulation->now[thread];
	struct sim_stream *stream = &simulation->stream[action->stream];

	switch (action->kind) {
	case ACTION_WORK:
		*now += action->work_ns;
		break;
	case ACTION_LAUNCH:
		submit(simulation, thread, OPERATION_KERNEL, action->stream,
		       *now + action->start_ns, action->work_ns, *now + action->own_ns,
		       action->own_ns);
		learn(&stream->handed_over, *now + action->own_ns, stream->submitted);
		*now += action->own_ns;
		break;
	case ACTION_RECORD:
		simulation->event_end[action->event] = stream->end;
		simulation->event_stream[action->event] = action->stream;
		simulation->event_number[action->event] = stream->submitted;
		*now += action->own_ns;
		emit(simulation, thread, TRACE_RECORD, *now)->record = (struct trace_record){
			.stream = action->stream + 1, .number = stream->submitted, .event = 1};
		break;
	case ACTION_STREAM_WAIT:
		stream->edge = most(stream->edge, simulation->event_end[action->event]);
		if (simulation->event_number[action->event] &&
		    simulation->omission != OMIT_STREAM_WAIT)
			emit(simulation, thread, TRACE_STREAM_WAIT, *now + action->own_ns)
				->stream_wait = (struct trace_stream_wait){
				action->stream + 1, stream->submitted,
				simulation->event_stream[action->event] + 1,
				simulation->event_number[action->event], 1};
		submit(simulation, thread, OPERATION_EVENT_WAIT, action->stream, *now, 0,
		       *now + action->own_ns, action->own_ns);
		learn(&stream->handed_over, *now + action->own_ns, stream->submitted);
		*now += action->own_ns;
		break;
	case ACTION_EVENT_SYNC:
		act_event_sync(simulation, thread, action);
		break;
	case ACTION_COPY_BACK:
	case ACTION_COPY_THERE:
		act_copy(simulation, thread, action);
		break;
	default:
		act_wait(simulation, thread, action);
		break;
	}
}

/* The thread whose clock is least goes on: whatever it looks at has then happened. */
static void run(struct simulation *simulation)
{
	const struct program *program = simulation->program;

	for (;;) {
		unsigned int next = program->threads;

		for (unsigned int i = 0; i < program->threads; i++)
			if (simulation->at[i] < program->count[i] &&
			    (next == program->threads ||
			     simulation->now[i] < simulation->now[next]))
				next = i;
		if (next == program->threads)
			return;
		act(simulation, next, &program->action[next][simulation->at[next]++]);
	}
}

static int64_t end_of(const struct simulation *simulation)
{
	int64_t end = 0;

	for (unsigned int i = 0; i < simulation->program->threads; i++)
		end = most(end, simulation->now[i]);
	for (uint32_t i = 0; i < SYNTHETIC_STREAMS; i++)
		end = most(end, simulation->stream[i].end);
	return end;
}

int64_t program_run(const struct program *program, uint32_t removed)
{
	static struct simulation simulation;

	simulation = (struct simulation){.program = program, .removed = removed};

	for (unsigned int i = 0; i < program->threads; i++)
		simulation.now[i] = 1000;
	run(&simulation);
	return end_of(&simulation);
}

static int by_time(const void *left, const void *right)
{
	const struct emitted *a = left, *b = right;

	if (a->event.ns != b->event.ns)
		return a->event.ns < b->event.ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

void program_trace(const struct program *program, enum omission omission,
		   const struct consumer_ops *ops, void *consumer)
{
	static struct simulation simulation;
	struct analysis_end end = {0};
	char *error = NULL;
	size_t i;

	simulation = (struct simulation){.program = program, .omission = omission, .tracing = true};

	for (i = 0; i < program->threads; i++) {
		simulation.now[i] = 1000;
		emit(&simulation, (unsigned int)i, TRACE_DUMP_END, 0);
	}
	run(&simulation);
	for (i = 0; i < program->threads; i++)
		emit(&simulation, (unsigned int)i, TRACE_DUMP_END, simulation.now[i]);
	qsort(simulation.events, simulation.count, sizeof(*simulation.events), by_time);
	for (i = 0; i < simulation.count; i++) {
		struct analysis_event event = simulation.events[i].event;

		event.payload = &simulation.events[i].payload;
		assert(ops->event(consumer, synthetic_model(), &event, &error) == 0);
	}
	end.events = simulation.count;
	assert(ops->finish(consumer, synthetic_model(), &end, &error) == 0);
	free(simulation.events);
}
