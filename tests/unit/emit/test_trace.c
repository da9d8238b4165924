// SPDX-License-Identifier: MIT
/*
 * Trace: when definitions are sent and what they say, with a provider that has no tracer: sessions that
 * come and go, threads that publish meanwhile, emitters that block or are interrupted, damaged files,
 * forks. Arguments: the provider, one of another build, a library that is none, one with another head.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "emit/file.h"
#include "emit/lock.h"
#include "emit/trace.h"
#include "fake/records.h"
#include "fake_provider.h"

#define ROOM    400000
#define OVER_NS 1000

static char **libraries;
static struct fake_provider *fake;

/* What was taken; `busy` guards it. */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static struct taken {
	enum trace_event event;
	union trace_payload payload;
	char text[520]; /* of def_string */
} * taken;
static unsigned int taken_count;
static bool records_everything;
static bool records_definitions;               /* with it */
static void (*inside)(enum trace_event event); /* called in the middle of an emitter */

static unsigned int asked; /* whether dumps are recorded; atomic */

static bool is_enabled(enum trace_event event)
{
	bool is_definition = event < TRACE_WAIT || event == TRACE_DEF_REWRITE ||
			     event == TRACE_DEF_REWRITE_SITE || event == TRACE_DEF_REAL_FREE ||
			     event == TRACE_DEF_REMARK;

	if (event == TRACE_DUMP_BEGIN)
		__atomic_fetch_add(&asked, 1, __ATOMIC_RELAXED);
	return __atomic_load_n(&records_everything, __ATOMIC_RELAXED) &&
	       (!is_definition || records_definitions);
}

static size_t size_of(enum trace_event event)
{
	static const size_t sizes[TRACE_EVENT_COUNT] = {
		[TRACE_DEF_PROCESS] = sizeof(struct trace_def_process),
		[TRACE_DEF_STRING] = sizeof(struct trace_def_string),
		[TRACE_DEF_FUNCTION] = sizeof(struct trace_def_function),
		[TRACE_DEF_RULE] = sizeof(struct trace_def_rule),
		[TRACE_DEF_MODULE] = sizeof(struct trace_def_module),
		[TRACE_DEF_SITE] = sizeof(struct trace_def_site),
		[TRACE_DEF_FRAME] = sizeof(struct trace_def_frame),
		[TRACE_DEF_PYTHON_FRAME] = sizeof(struct trace_def_python_frame),
		[TRACE_DEF_CONTEXT] = sizeof(struct trace_def_context),
		[TRACE_DEF_STREAM] = sizeof(struct trace_def_stream),
		[TRACE_DEF_CANDIDATE] = sizeof(struct trace_def_candidate),
		[TRACE_DEF_CANDIDATE_SET] = sizeof(struct trace_def_candidate_set),
		[TRACE_DEF_WAIT] = sizeof(struct trace_def_wait),
		[TRACE_DEF_REGION] = sizeof(struct trace_def_region),
		[TRACE_DEF_NOTE] = sizeof(struct trace_def_note),
		[TRACE_DEF_ALLOCATION] = sizeof(struct trace_def_allocation),
		[TRACE_DEF_COVERAGE] = sizeof(struct trace_def_coverage),
		[TRACE_DUMP_BEGIN] = sizeof(struct trace_dump_begin),
		[TRACE_DUMP_END] = sizeof(struct trace_dump_end),
		[TRACE_PROCESS_END] = sizeof(struct trace_process_end),
		[TRACE_WAIT] = sizeof(struct trace_wait),
		[TRACE_SUBMIT] = sizeof(struct trace_submit),
		[TRACE_DEF_REWRITE] = sizeof(struct trace_def_rewrite),
		[TRACE_DEF_REWRITE_SITE] = sizeof(struct trace_def_rewrite_site),
		[TRACE_REAL_FREE] = sizeof(struct trace_real_free),
		[TRACE_DEF_REAL_FREE] = sizeof(struct trace_def_real_free),
		[TRACE_DEF_REMARK] = sizeof(struct trace_def_remark),
	};

	assert_true(sizes[event] > 0);
	return sizes[event];
}

static void take(enum trace_event event, const void *payload)
{
	struct taken *entry;

	/* A tracer may block: nobody must wait for us meanwhile. */
	assert_int_equal(lock_held, 0);
	errno = EDOM;
	pthread_mutex_lock(&busy);
	assert_true(taken_count < ROOM);
	entry = &taken[taken_count++];
	entry->event = event;
	memcpy(&entry->payload, payload, size_of(event));
	if (event == TRACE_DEF_STRING) {
		assert_true(strlen(entry->payload.def_string.text) <= 512);
		strcpy(entry->text, entry->payload.def_string.text);
	}
	pthread_mutex_unlock(&busy);
	if (inside)
		inside(event);
}

static unsigned int count(enum trace_event event)
{
	unsigned int i, found = 0;

	for (i = 0; i < taken_count; i++)
		found += taken[i].event == event;
	return found;
}

/* The n-th of its kind, from 0. */
static const union trace_payload *nth(enum trace_event event, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < taken_count; i++)
		if (taken[i].event == event && n-- == 0)
			return &taken[i].payload;
	return NULL;
}

static const union trace_payload *last(enum trace_event event)
{
	return nth(event, count(event) - 1);
}

static uint64_t work_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static uint64_t slow_ns; /* work that asking for allocations is */

static size_t allocations(uint64_t after, struct emit_allocation *ret_found, size_t most)
{
	uint64_t end = work_ns() + slow_ns;
	size_t i;

	while (work_ns() < end)
		;
	/* 130 blocks of 16 bytes, 32 apart. */
	for (i = 0; i < most && after / 32 + i < 130; i++)
		ret_found[i] = (struct emit_allocation){
			.address = (after / 32 + i + 1) * 32,
			.bytes = 16,
			.memory = MEMORY_DEVICE,
		};
	return i;
}

/* A process that is traced, with a session that records all. */
static int begin(void **state)
{
	(void)state;
	records_everything = false;
	records_definitions = true;
	inside = NULL;
	emit_forked();
	file_set_bound(FILE_BOUND);
	config.out = NULL;
	config.lttng = libraries[0];
	config.level = CONFIG_TRACE_FULL;
	config.dump_over_ns = OVER_NS;
	config.dump_every_ns = 1000000000;
	if (fake) {
		fake->process = 0;
		fake->state = 1;
	}
	assert_true(emit_open());
	emit_trace_start(allocations);
	if (!fake) {
		fake = dlsym(dlopen(libraries[0], RTLD_NOW), "fake_provider");
		assert_non_null(fake);
		fake->take = take;
		__atomic_store_n(&fake->is_enabled, is_enabled, __ATOMIC_RELEASE);
	}
	assert_true(trace_is_loaded());
	taken_count = 0;
	records_everything = true;
	return 0;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static uint64_t blocked_ns = 10; /* of the waits that follow */

/* A wait with `candidates` of them, from number `first`. */
static void wait_for(uint32_t first, uint32_t candidates, uint32_t site)
{
	struct emit_candidate some[8];
	struct emit_finding finding = {
		.function = FUNCTION_cuMemFree_v2,
		.rule = RULE_FREE_DRAINS_DEVICE,
		.site = site,
		.stream = 7,
		.blocked_ns = blocked_ns,
		.call_ns = 20,
		.bytes = 30,
		.returned_ns = now_ns(),
		.candidates = some,
		.candidate_count = candidates,
	};

	for (uint32_t i = 0; i < candidates; i++)
		some[i] = (struct emit_candidate){
			.context = 1, .stream = first + i, .stream_kind = 3};
	emit_wait(&finding);
}

static void test_nobody_records(void **state)
{
	(void)state;
	records_everything = false;
	for (int i = 0; i < 100; i++)
		wait_for(1, 2, 0);
	assert_int_equal(taken_count, 0);
}

static void test_first_event(void **state)
{
	const union trace_payload *payload;

	(void)state;
	errno = EXDEV;
	wait_for(1, 1, 0);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(taken[0].event, TRACE_DUMP_BEGIN);
	assert_int_equal(taken[0].payload.dump_begin.reason, 1);
	assert_int_equal(taken[1].event, TRACE_DEF_PROCESS);
	assert_int_equal(taken[1].payload.def_process.pid, getpid());
	assert_int_equal(taken[taken_count - 1].event, TRACE_WAIT);
	assert_int_equal(taken[taken_count - 2].event, TRACE_DUMP_END);
	assert_int_equal(taken[taken_count - 2].payload.dump_end.events, taken_count - 3);
	assert_int_equal(count(TRACE_DEF_FUNCTION), FUNCTION_COUNT);
	assert_int_equal(count(TRACE_DEF_RULE), RULE_COUNT);
	assert_int_equal(count(TRACE_DEF_ALLOCATION), 130);
	assert_int_equal(count(TRACE_DEF_WAIT), 1);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 1);
	payload = nth(TRACE_WAIT, 0);
	assert_int_equal(payload->wait.wait, nth(TRACE_DEF_WAIT, 0)->def_wait.id);
	assert_int_equal(payload->wait.candidates, nth(TRACE_DEF_CANDIDATE, 0)->def_candidate.id);
	assert_int_equal(payload->wait.stream, 7);
	assert_true(payload->wait.blocked_ns == 10 && payload->wait.call_ns == 20 &&
		    payload->wait.bytes == 30);

	/* From now on what is new, before the event that names it. */
	taken_count = 0;
	wait_for(1, 1, 0);
	assert_int_equal(taken_count, 1);
	wait_for(2, 1, 0);
	assert_int_equal(taken_count, 3);
	assert_int_equal(taken[1].event, TRACE_DEF_CANDIDATE);
	assert_int_equal(taken[2].event, TRACE_WAIT);
}

static void test_sets(void **state)
{
	uint32_t set;

	(void)state;
	wait_for(1, 3, 0);
	set = last(TRACE_WAIT)->wait.candidates;
	assert_true(set >> 31);
	assert_int_equal(count(TRACE_DEF_CANDIDATE_SET), 3);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(nth(TRACE_DEF_CANDIDATE_SET, i)->def_candidate_set.set, set);
		assert_int_equal(nth(TRACE_DEF_CANDIDATE_SET, i)->def_candidate_set.index, i);
		assert_int_equal(nth(TRACE_DEF_CANDIDATE_SET, i)->def_candidate_set.count, 3);
	}
	wait_for(1, 3, 0);
	assert_int_equal(last(TRACE_WAIT)->wait.candidates, set);
	assert_int_equal(count(TRACE_DEF_CANDIDATE_SET), 3);
	wait_for(1, 2, 0);
	assert_int_equal(last(TRACE_WAIT)->wait.candidates, set + 1);
	assert_int_equal(count(TRACE_DEF_CANDIDATE_SET), 5);
	/* And in dumps. */
	records_everything = false;
	wait_for(1, 1, 0);
	records_everything = true;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_CANDIDATE_SET), 10);
}

static void test_sessions_come_and_go(void **state)
{
	(void)state;
	wait_for(1, 1, 0);
	records_everything = false;
	wait_for(2, 1, 0);
	records_everything = true;
	taken_count = 0;
	wait_for(1, 1, 0);
	assert_int_equal(nth(TRACE_DUMP_BEGIN, 0)->dump_begin.reason, 1);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 2);
	/* Stopped and started unseen: the dump of the next second. */
	taken_count = 0;
	usleep(1100000);
	wait_for(1, 1, 0);
	assert_int_equal(nth(TRACE_DUMP_BEGIN, 0)->dump_begin.reason, 2);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 2);
	taken_count = 0;
	wait_for(1, 1, 0);
	assert_int_equal(taken_count, 1);
}

/* Waits ask one word. The end of a session is noticed by the next wait, which nobody records. */
static void test_end_is_noticed(void **state)
{
	unsigned int before;

	(void)state;
	wait_for(1, 1, 0);
	assert_true(trace_wants_waits());
	records_everything = false;
	fake->state = 0;
	assert_true(trace_wants_waits());
	wait_for(1, 1, 0);
	assert_false(trace_wants_waits());
	before = __atomic_load_n(&asked, __ATOMIC_RELAXED);
	for (int i = 0; i < 100; i++)
		wait_for(1, 1, 0);
	assert_int_equal(__atomic_load_n(&asked, __ATOMIC_RELAXED), before);
	records_everything = true;
	fake->state = 1;
	assert_true(trace_wants_waits());
	taken_count = 0;
	wait_for(1, 1, 0);
	assert_int_equal(nth(TRACE_DUMP_BEGIN, 0)->dump_begin.reason, TRACE_DUMP_FIRST);
}

/* The same where it recorded no definitions. */
static void test_end_of_waits_alone_is_noticed(void **state)
{
	(void)state;
	records_definitions = false;
	wait_for(1, 1, 0);
	assert_int_equal(taken_count, 1);
	records_everything = false;
	fake->state = 0;
	wait_for(1, 1, 0);
	assert_false(trace_wants_waits());
}

/* Dumps that take long are made seldom. */
static void test_slow_dumps(void **state)
{
	(void)state;
	slow_ns = 10000000;
	wait_for(1, 1, 0);
	slow_ns = 0;
	usleep(1100000);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
}

static uint64_t done(void)
{
	const struct record_header *header = file_base();

	return __atomic_load_n(&header->dump_done, __ATOMIC_RELAXED);
}

static void ask(uint64_t number)
{
	struct record_header *header = file_base();

	__atomic_store_n(&header->dump_wanted, number, __ATOMIC_RELAXED);
}

#define LIMIT_US 120000 /* a dump that is asked for comes 100 ms after the last one, no sooner */

/* One dump for each number that somebody writes, before the next event, told when it is done. */
static void test_asked(void **state)
{
	(void)state;
	wait_for(1, 1, 0);
	ask(5);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_true(done() == 0);
	usleep(LIMIT_US);
	taken_count = 0;
	wait_for(1, 1, 0);
	assert_int_equal(taken[0].event, TRACE_DUMP_BEGIN);
	assert_int_equal(taken[0].payload.dump_begin.reason, TRACE_DUMP_ASKED);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 1);
	assert_int_equal(taken[taken_count - 1].event, TRACE_WAIT);
	assert_true(done() == 5);
	/* Nothing else that is written there makes one. */
	((struct record_header *)file_base())->dump_done = 77;
	usleep(LIMIT_US);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	ask(4);
	usleep(LIMIT_US);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 2);
	assert_true(done() == 4);
}

/* Nobody records definitions: nothing is told to be done. */
static void test_asked_for_nothing(void **state)
{
	(void)state;
	records_definitions = false;
	ask(5);
	wait_for(1, 1, 0);
	records_everything = false;
	wait_for(1, 1, 0);
	assert_true(done() == 0);
}

/* Asks before each of the waits of `ns`; dumps that were made. */
static unsigned int ask_all_the_time(uint64_t ns)
{
	uint64_t end = now_ns() + ns;
	unsigned int before = count(TRACE_DUMP_BEGIN);

	for (uint64_t number = 1; now_ns() < end; number++) {
		ask(number);
		wait_for(1, 1, 0);
		usleep(200);
	}
	return count(TRACE_DUMP_BEGIN) - before;
}

/* Whoever can write to the file does not get the process to dump all the time. */
static void test_asked_all_the_time(void **state)
{
	unsigned int made;

	(void)state;
	wait_for(1, 1, 0);
	made = ask_all_the_time(1050000000);
	assert_in_range(made, 2, 11); /* of them one that was due */
	assert_true(done() > 1);
	/* 5 ms of work: none within the next second. */
	slow_ns = 5000000;
	usleep(LIMIT_US);
	assert_int_equal(ask_all_the_time(900000000), 1);
	slow_ns = 0;
}

/* What others took does not count: one that takes 30 ms is made at the first asking, and then once a second. */
static void test_asked_for_a_long_one(void **state)
{
	(void)state;
	slow_ns = 10000000; /* three times */
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	usleep(LIMIT_US);
	ask(5);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 2);
	assert_int_equal(last(TRACE_DUMP_BEGIN)->dump_begin.reason, TRACE_DUMP_ASKED);
	assert_true(done() == 5);
	usleep(LIMIT_US);
	ask(6);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 2);
	usleep(1000000);
	wait_for(1, 1, 0);
	slow_ns = 0;
	assert_int_equal(count(TRACE_DUMP_BEGIN), 3);
	assert_true(done() == 6);
}

/* The file says when the last two began, and how many events the last one has. */
static void test_dumps_are_in_the_file(void **state)
{
	const struct record_header *header = file_base();
	uint64_t before = now_ns();

	(void)state;
	assert_true(header->dump_ns[0] == 0 && header->dump_ns[1] == 0);
	wait_for(1, 1, 0);
	assert_true(header->dump_ns[0] >= before && header->dump_ns[0] <= now_ns());
	assert_true(header->dump_ns[1] == 0);
	assert_int_equal(header->dump_events, last(TRACE_DUMP_END)->dump_end.events);
	before = header->dump_ns[0];
	usleep(LIMIT_US);
	ask(5);
	wait_for(1, 1, 0);
	assert_true(header->dump_ns[1] == before && header->dump_ns[0] > before);
}

/* SLIPSTREAM_DUMP_EVERY=0: nothing is repeated unasked, and what is new is sent all the same. */
static void test_not_unasked(void **state)
{
	(void)state;
	config.dump_every_ns = 0;
	wait_for(1, 1, 0);
	usleep(1100000);
	wait_for(1, 1, 0);
	wait_for(2, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 2);
	ask(5);
	usleep(LIMIT_US);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 2);
}

/* A call that blocked longer than SLIPSTREAM_DUMP_OVER comes behind a dump of its own, the first in a second. */
static void test_blocked_long(void **state)
{
	(void)state;
	wait_for(1, 1, 0);
	taken_count = 0;
	blocked_ns = OVER_NS;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 0);
	blocked_ns = OVER_NS + 1;
	wait_for(1, 1, 0);
	wait_for(1, 1, 0);
	blocked_ns = 10;
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_int_equal(taken[1].event, TRACE_DUMP_BEGIN);
	assert_int_equal(taken[1].payload.dump_begin.reason, TRACE_DUMP_ASKED);
	assert_int_equal(taken[taken_count - 1].event, TRACE_WAIT);
	assert_int_equal(taken[taken_count - 2].event, TRACE_WAIT);
	/* The second came too early, and gets none later. */
	usleep(LIMIT_US);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	/* It is said to be asked for, though one is due as well. */
	usleep(1000000);
	blocked_ns = OVER_NS + 1;
	wait_for(1, 1, 0);
	blocked_ns = 10;
	assert_int_equal(count(TRACE_DUMP_BEGIN), 2);
	assert_int_equal(last(TRACE_DUMP_BEGIN)->dump_begin.reason, TRACE_DUMP_ASKED);
}

/* A session that wants waits alone gets no definitions, and is not asked at each. */
static void test_waits_alone(void **state)
{
	(void)state;
	records_definitions = false;
	for (uint32_t i = 0; i < 100; i++)
		wait_for(i + 1, 2, 0);
	assert_int_equal(taken_count, 100);
	asked = 0;
	for (uint32_t i = 0; i < 100; i++)
		wait_for(1, 2, 0);
	assert_int_equal(asked, 0);
	records_definitions = true;
	taken_count = 0;
	usleep(1100000);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 101);
	assert_int_equal(count(TRACE_DEF_CANDIDATE_SET), 200);
}

/* Reserved before an event, published behind it: it is not passed over. */
static void test_published_late(void **state)
{
	struct record_site *late[40];
	uint32_t i;

	(void)state;
	wait_for(1, 1, 0);
	for (i = 0; i < 20; i++) {
		late[i] = emit_reserve(sizeof(*late[i]));
		late[i]->id = i + 1;
	}
	wait_for(2, 1, 0);
	taken_count = 0;
	for (i = 0; i < 20; i++)
		emit_publish(late[i], RECORD_SITE);
	wait_for(2, 1, 0);
	assert_int_equal(count(TRACE_DEF_SITE), 20);
	assert_int_equal(taken_count, 21);
	/* More than anybody remembers: then all is said again. */
	for (i = 0; i < 40; i++) {
		late[i] = emit_reserve(sizeof(*late[i]));
		late[i]->id = i + 100;
	}
	wait_for(3, 1, 0);
	for (i = 0; i < 40; i++)
		emit_publish(late[i], RECORD_SITE);
	taken_count = 0;
	wait_for(3, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_int_equal(count(TRACE_DEF_SITE), 60);
}

/* A remark is told in front of the next event, and again, with its calls so far, by the last dump. */
static void test_remarks(void **state)
{
	struct emit_remark remark = {
		.rule = RULE_D2H,
		.function = 3,
		.site = 4,
		.stream = 5,
		.region = 6,
		.allowed = 1,
		.other_function = 7,
		.other_site = 8,
		.other_stream = 9,
		.bytes = 10,
		.ns = 11,
	};
	struct trace_real_free event = {.blocks = 1};
	const struct trace_def_remark *told;

	(void)state;
	emit_trace(TRACE_REAL_FREE, &event);
	assert_int_equal(count(TRACE_DEF_REMARK), 0);
	emit_remark(&remark);
	emit_trace(TRACE_REAL_FREE, &event);
	assert_int_equal(count(TRACE_DEF_REMARK), 1);
	told = &last(TRACE_DEF_REMARK)->def_remark;
	assert_int_equal(told->id, 1);
	assert_int_equal(told->rule, RULE_D2H);
	assert_int_equal(told->function, 3);
	assert_int_equal(told->site, 4);
	assert_int_equal(told->stream, 5);
	assert_int_equal(told->region, 6);
	assert_int_equal(told->allowed, 1);
	assert_int_equal(told->other_function, 7);
	assert_int_equal(told->other_site, 8);
	assert_int_equal(told->other_stream, 9);
}

/* What a rewrite did is in each dump, as it is then; an event of its own comes behind the definitions of what it names. */
static void test_rewrites(void **state)
{
	struct record_rewrite *record;
	struct record_rewrite_site *site;
	struct record_real_free *freed;
	struct trace_real_free event = {.blocks = 3, .bytes = 4096};
	unsigned int i;

	(void)state;
	records_everything = false;
	assert_false(emit_records(TRACE_REAL_FREE));
	records_everything = true;
	assert_true(emit_records(TRACE_REAL_FREE));
	fake->state = 0; /* the tracer's own word comes first */
	assert_false(emit_records(TRACE_REAL_FREE));
	fake->state = 1;

	record = emit_reserve(sizeof(*record));
	record->name = emit_string("pinned", 6);
	emit_publish(record, RECORD_REWRITE);
	site = emit_reserve(sizeof(*site));
	site->rewrite = record->name;
	site->site = 5;
	site->function = 6;
	emit_publish(site, RECORD_REWRITE_SITE);
	freed = emit_reserve(sizeof(*freed));
	*freed = (struct record_real_free){.head = freed->head,
					   .site = 5,
					   .rewrite = 2,
					   .function = 6,
					   .why = 3,
					   .calls = 8,
					   .blocks = 9};
	emit_publish(freed, RECORD_REAL_FREE);
	record->hits = 1;
	event.name = record->name;
	event.why = emit_string("a reason of its own", 19);
	emit_trace(TRACE_REAL_FREE, &event);
	assert_int_equal(nth(TRACE_DUMP_BEGIN, 0)->dump_begin.reason, TRACE_DUMP_FIRST);
	assert_int_equal(count(TRACE_DEF_REWRITE), 1);
	assert_int_equal(last(TRACE_DEF_REWRITE)->def_rewrite.hits, 1);
	assert_int_equal(last(TRACE_DEF_REWRITE)->def_rewrite.name, record->name);
	assert_int_equal(last(TRACE_DEF_REWRITE_SITE)->def_rewrite_site.site, 5);
	assert_int_equal(last(TRACE_DEF_REWRITE_SITE)->def_rewrite_site.function, 6);
	assert_int_not_equal(last(TRACE_DEF_REWRITE_SITE)->def_rewrite_site.rewrite_site,
			     last(TRACE_DEF_REWRITE)->def_rewrite.rewrite);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.site, 5);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.name, 2);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.function, 6);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.why, 3);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.calls, 8);
	assert_int_equal(last(TRACE_DEF_REAL_FREE)->def_real_free.blocks, 9);
	assert_int_equal(taken[taken_count - 1].event, TRACE_REAL_FREE);
	assert_int_equal(taken[taken_count - 1].payload.real_free.blocks, 3);
	for (i = 0; i < taken_count; i++)
		if (taken[i].event == TRACE_DEF_STRING &&
		    taken[i].payload.def_string.id == event.why)
			break;
	assert_true(i < taken_count);

	/* Every figure has its place. */
	i = 100;
#define FIGURE(field) record->field = i++;
	RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
	site->calls = 7;
	site->denied = 4;
	taken_count = 0;
	usleep(1100000);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_REWRITE), 1);
	i = 100;
#define FIGURE(field) assert_int_equal(last(TRACE_DEF_REWRITE)->def_rewrite.field, i++);
	RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
	assert_int_equal(last(TRACE_DEF_REWRITE_SITE)->def_rewrite_site.calls, 7);
	assert_int_equal(last(TRACE_DEF_REWRITE_SITE)->def_rewrite_site.denied, 4);
}

static struct record_site *unpublished;

static void publish_now(enum trace_event event)
{
	if (event != TRACE_DEF_STRING || !unpublished)
		return;
	emit_publish(unpublished, RECORD_SITE);
	unpublished = NULL;
}

/* Published while the walk is just past it. */
static void test_published_meanwhile(void **state)
{
	(void)state;
	wait_for(1, 1, 0);
	unpublished = emit_reserve(sizeof(*unpublished));
	unpublished->id = 9;
	assert_true(emit_string("behind it", 9) > 0);
	inside = publish_now;
	wait_for(1, 1, 0);
	inside = NULL;
	assert_null(unpublished);
	assert_int_equal(count(TRACE_DEF_SITE), 1);
}

static void test_changed_streams(void **state)
{
	struct record_stream *streams[80];
	uint32_t i;

	(void)state;
	for (i = 0; i < 80; i++)
		streams[i] = emit_stream(NULL, i + 1, STREAM_BLOCKING, 1, 0x1000 + i);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_STREAM), 80);
	taken_count = 0;
	for (i = 0; i < 3; i++)
		assert_ptr_equal(emit_stream(streams[5], 6, STREAM_NON_BLOCKING, 2, i), streams[5]);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_STREAM), 1);
	assert_int_equal(last(TRACE_DEF_STREAM)->def_stream.kind, STREAM_NON_BLOCKING);
	assert_true(last(TRACE_DEF_STREAM)->def_stream.handle == 2);
	taken_count = 0;
	for (i = 0; i < 80; i++)
		emit_stream(streams[i], i + 1, STREAM_NON_BLOCKING, 2, 0x2000 + i);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_true(count(TRACE_DEF_STREAM) >= 80);
	assert_true(last(TRACE_DEF_STREAM)->def_stream.handle == 0x204f);
}

static void test_contexts(void **state)
{
	struct record_context *first, *second;

	(void)state;
	first = emit_context(NULL, 11, -1);
	assert_ptr_equal(emit_context(first, 11, 3), first);
	second = emit_context(first, 12, 0);
	assert_ptr_not_equal(second, first);
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_CONTEXT), 2);
	assert_int_equal(nth(TRACE_DEF_CONTEXT, 0)->def_context.context, 1);
	assert_int_equal(nth(TRACE_DEF_CONTEXT, 0)->def_context.device, 3);
	assert_int_equal(nth(TRACE_DEF_CONTEXT, 1)->def_context.context, 2);
	assert_true(nth(TRACE_DEF_CONTEXT, 1)->def_context.id == 12);
}

static void test_long_strings(void **state)
{
	static char text[5000];
	uint32_t id, length = 0;
	unsigned int i, pieces = 0;

	(void)state;
	for (i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	id = emit_string(text, sizeof(text));
	(void)emit_string("", 0);
	wait_for(1, 1, 0);
	for (i = 0; i < taken_count; i++) {
		const struct trace_def_string *string = &taken[i].payload.def_string;

		if (taken[i].event != TRACE_DEF_STRING || string->id != id)
			continue;
		pieces++;
		assert_int_equal(string->length, sizeof(text));
		assert_int_equal(string->offset, length);
		assert_memory_equal(taken[i].text, text + length, strlen(taken[i].text));
		length += (uint32_t)strlen(taken[i].text);
	}
	assert_int_equal(length, sizeof(text));
	assert_int_equal(pieces, 10);
}

/* The file is shared memory: what stands there may be anything. */
static void test_damaged_file(void **state)
{
	struct record_string *string;
	struct record_site *site;
	unsigned int before;

	(void)state;
	assert_true(emit_string("harmless", 8) > 0);
	string = emit_reserve(sizeof(*string) + 8);
	string->id = 77;
	string->length = UINT32_MAX; /* far beyond its record */
	emit_publish(string, RECORD_STRING);
	site = emit_reserve(sizeof(*site));
	site->frames = UINT16_MAX;
	emit_publish(site, RECORD_SITE);
	wait_for(1, 1, 0);
	before = count(TRACE_DEF_CANDIDATE);
	assert_int_equal(before, 1);
	assert_int_equal(count(TRACE_DEF_SITE), 0);
	/* Sizes that lead out of the segment: its rest is passed over. */
	site->head.size = RECORD_SEGMENT * 2;
	records_everything = false;
	wait_for(1, 1, 0);
	records_everything = true;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 1);
	site->head.size = 4;
	records_everything = false;
	wait_for(1, 1, 0);
	records_everything = true;
	wait_for(1, 1, 0);
	site->head.size = 0;
	records_everything = false;
	wait_for(1, 1, 0);
	records_everything = true;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 4);
}

/* A signal handler's call in the middle of a dump, a dump's definition or an event. */
static void interrupt(enum trace_event event)
{
	inside = NULL;
	wait_for(50 + event, 2, 0);
	inside = interrupt;
}

static void test_interrupted(void **state)
{
	(void)state;
	inside = interrupt;
	wait_for(1, 1, 0);
	inside = NULL;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	assert_int_equal(count(TRACE_DUMP_END), 1);
	/* One for each event of the dump and the wait, and the two. */
	assert_true(count(TRACE_WAIT) > 2 + 2 * FUNCTION_COUNT);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static bool is_blocked; /* atomic */

static void block(enum trace_event event)
{
	if (event != TRACE_DEF_RULE || __atomic_exchange_n(&is_blocked, true, __ATOMIC_SEQ_CST))
		return;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void *wait_once(void *unused)
{
	(void)unused;
	wait_for(1, 1, 0);
	return NULL;
}

/* A tracer that blocks one thread blocks that one only, and not its records. */
static void test_blocked(void **state)
{
	pthread_t thread;
	uint32_t i;

	(void)state;
	is_blocked = false;
	pthread_mutex_lock(&gate);
	inside = block;
	assert_int_equal(pthread_create(&thread, NULL, wait_once, NULL), 0);
	while (!__atomic_load_n(&is_blocked, __ATOMIC_SEQ_CST))
		usleep(1000);
	for (i = 0; i < 100; i++)
		wait_for(i + 10, 1 + i % 2, 0);
	assert_int_equal(count(TRACE_WAIT), 100);
	pthread_mutex_unlock(&gate);
	pthread_join(thread, NULL);
	inside = NULL;
	wait_for(1, 1, 0);
	assert_int_equal(count(TRACE_WAIT), 102);
	assert_true(count(TRACE_DEF_CANDIDATE) >= 102);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
}

/* Nor does it keep the process from ending. */
static void test_blocked_at_the_end(void **state)
{
	uint64_t began;
	pthread_t thread;

	(void)state;
	is_blocked = false;
	pthread_mutex_lock(&gate);
	inside = block;
	assert_int_equal(pthread_create(&thread, NULL, wait_once, NULL), 0);
	while (!__atomic_load_n(&is_blocked, __ATOMIC_SEQ_CST))
		usleep(1000);
	began = now_ns();
	fake->end();
	assert_true(now_ns() - began < UINT64_C(20000000000));
	assert_int_equal(taken[taken_count - 1].event, TRACE_PROCESS_END);
	assert_int_equal(count(TRACE_DUMP_BEGIN), 1);
	pthread_mutex_unlock(&gate);
	pthread_join(thread, NULL);
	inside = NULL;
}

static void be_cancelled(enum trace_event event)
{
	if (event == TRACE_DEF_RULE)
		pthread_testcancel();
}

static void *cancel_self(void *unused)
{
	(void)unused;
	pthread_cancel(pthread_self());
	wait_for(1, 1, 0);
	pthread_testcancel();
	return NULL;
}

/* A thread that is cancelled takes nobody's definitions with it. */
static void test_cancelled(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	inside = be_cancelled;
	assert_int_equal(pthread_create(&thread, NULL, cancel_self, NULL), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	inside = NULL;
	taken_count = 0;
	wait_for(2, 1, 0);
	assert_int_equal(count(TRACE_DEF_CANDIDATE), 1);
}

#define THREADS 4
#define WAITS   3000

static void *wait_often(void *data)
{
	uint32_t own = (uint32_t)(uintptr_t)data;

	for (uint32_t i = 0; i < WAITS; i++) {
		wait_for(own * WAITS + i / 4, 1 + i % 3, i / 64);
		if (i % 100 == 0)
			emit_note(NOTE_PYTHON, "from a thread");
		if (i % 500 == own) {
			/* Sessions come and go meanwhile. */
			__atomic_store_n(&records_everything, false, __ATOMIC_RELAXED);
			wait_for(1, 1, 0);
			__atomic_store_n(&records_everything, true, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

/* All that the events name is defined when the process ends. */
static void test_threads(void **state)
{
	static uint8_t candidates[THREADS * WAITS * 4], sets[THREADS * WAITS * 4], waits[1024];
	pthread_t threads[THREADS];
	uint32_t i, number;

	(void)state;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, wait_often, (void *)(uintptr_t)i), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fake->end();
	for (i = 0; i < taken_count; i++) {
		const union trace_payload *payload = &taken[i].payload;

		if (taken[i].event == TRACE_DEF_CANDIDATE)
			candidates[payload->def_candidate.id] = 1;
		else if (taken[i].event == TRACE_DEF_CANDIDATE_SET)
			sets[payload->def_candidate_set.set & INT32_MAX] = 1;
		else if (taken[i].event == TRACE_DEF_WAIT)
			waits[payload->def_wait.id] = 1;
	}
	for (i = 0; i < taken_count; i++) {
		if (taken[i].event != TRACE_WAIT)
			continue;
		number = taken[i].payload.wait.candidates;
		assert_true(number >> 31 ? sets[number & INT32_MAX] : candidates[number]);
		assert_true(waits[taken[i].payload.wait.wait]);
	}
	assert_int_equal(taken[taken_count - 1].event, TRACE_PROCESS_END);
	assert_int_equal(last(TRACE_DUMP_BEGIN)->dump_begin.reason, 3);
	assert_int_equal(last(TRACE_DEF_NOTE)->def_note.count, THREADS * WAITS / 100);
}

/* Returns what `child` leaves with. */
static int in_child(int (*child)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int seen_child(void)
{
	emit_forked();
	taken_count = 0;
	if (!trace_is_loaded() || !emit_open() || count(TRACE_DUMP_BEGIN) != 1 ||
	    nth(TRACE_DUMP_BEGIN, 0)->dump_begin.dump != 1 ||
	    nth(TRACE_DEF_PROCESS, 0)->def_process.pid != (uint32_t)getpid() ||
	    nth(TRACE_DEF_PROCESS, 0)->def_process.forked != 1 || count(TRACE_DEF_CANDIDATE))
		return 1;
	wait_for(1, 1, 0);
	return count(TRACE_WAIT) == 1 && last(TRACE_WAIT)->wait.candidates == 1 ? 0 : 2;
}

static int unseen_child(void)
{
	emit_forked();
	taken_count = 0;
	if (trace_is_loaded() || trace_wants_waits() || !emit_open() || emit_traces_full())
		return 1;
	wait_for(1, 1, 0);
	fake->end();
	return taken_count ? 2 : 0;
}

/* It never called anything: the mapping is its parent's. */
static int silent_child(void)
{
	taken_count = 0;
	fake->end();
	return taken_count != 0;
}

static void test_forks(void **state)
{
	(void)state;
	wait_for(5, 3, 0);
	assert_int_equal(in_child(seen_child), 0);
	fake->process = (uint32_t)getpid();
	assert_int_equal(in_child(unseen_child), 0);
	assert_int_equal(in_child(silent_child), 0);
	fake->process = 0;
	assert_int_equal(in_child(silent_child), 0);
}

static const char *wrong;
static const char *wrong_note;

static int fails_to_load(void)
{
	struct records records = {0};
	const struct record *record;
	unsigned int notes = 0;
	const char *text;

	emit_forked();
	config.lttng = wrong;
	config.level = CONFIG_TRACE_FULL;
	if (!emit_open() || !emit_traces_full())
		return 1;
	emit_trace_start(NULL);
	emit_trace_start(NULL);
	if (trace_is_loaded() || emit_traces_full())
		return 2;
	wait_for(1, 1, 0);
	records.base = file_base();
	records.size = file_used();
	while ((record = records_next(&records))) {
		const struct record_note *note = (const void *)record;

		if (record->type != RECORD_NOTE)
			continue;
		text = records_string(file_base(), file_used(), note->text);
		notes += note->code == NOTE_CONFIG && note->count == 1 && strstr(text, wrong_note);
	}
	return notes == 1 ? 0 : 3;
}

/* Before any other test: what is loaded stays. */
static void test_wrong_providers(void **state)
{
	(void)state;
	wrong = "/nonexistent/provider.so";
	wrong_note = "no trace: ";
	assert_int_equal(in_child(fails_to_load), 0);
	wrong = libraries[1];
	wrong_note = "another build";
	assert_int_equal(in_child(fails_to_load), 0);
	wrong = libraries[2];
	wrong_note = "no provider of slipstream";
	assert_int_equal(in_child(fails_to_load), 0);
	wrong = libraries[3];
	assert_int_equal(in_child(fails_to_load), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_providers),
		cmocka_unit_test_setup(test_nobody_records, begin),
		cmocka_unit_test_setup(test_first_event, begin),
		cmocka_unit_test_setup(test_sets, begin),
		cmocka_unit_test_setup(test_sessions_come_and_go, begin),
		cmocka_unit_test_setup(test_end_is_noticed, begin),
		cmocka_unit_test_setup(test_end_of_waits_alone_is_noticed, begin),
		cmocka_unit_test_setup(test_asked, begin),
		cmocka_unit_test_setup(test_asked_for_nothing, begin),
		cmocka_unit_test_setup(test_asked_for_a_long_one, begin),
		cmocka_unit_test_setup(test_dumps_are_in_the_file, begin),
		cmocka_unit_test_setup(test_not_unasked, begin),
		cmocka_unit_test_setup(test_blocked_long, begin),
		cmocka_unit_test_setup(test_asked_all_the_time, begin),
		cmocka_unit_test_setup(test_waits_alone, begin),
		cmocka_unit_test_setup(test_published_late, begin),
		cmocka_unit_test_setup(test_published_meanwhile, begin),
		cmocka_unit_test_setup(test_changed_streams, begin),
		cmocka_unit_test_setup(test_contexts, begin),
		cmocka_unit_test_setup(test_long_strings, begin),
		cmocka_unit_test_setup(test_damaged_file, begin),
		cmocka_unit_test_setup(test_interrupted, begin),
		cmocka_unit_test_setup(test_blocked, begin),
		cmocka_unit_test_setup(test_blocked_at_the_end, begin),
		cmocka_unit_test_setup(test_slow_dumps, begin),
		cmocka_unit_test_setup(test_cancelled, begin),
		cmocka_unit_test_setup(test_forks, begin),
		cmocka_unit_test_setup(test_remarks, begin),
		cmocka_unit_test_setup(test_rewrites, begin),
		cmocka_unit_test_setup(test_threads, begin),
	};

	if (argc != 5)
		return 2;
	libraries = argv + 1;
	taken = calloc(ROOM, sizeof(*taken));
	return taken ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
