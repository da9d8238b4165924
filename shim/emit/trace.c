// SPDX-License-Identifier: MIT
/*
 * Trace: opens the LTTng provider, sends events, and decides when definitions are sent (trace.h).
 * Called by emit.c, and by entry and state through emit.h. Relies on dump.c, which turns the records
 * of the record file into definitions: the file is their only source.
 *
 * Definitions. `sent` says how far into the file the records have been sent. Before an event, whoever
 * emits it sends what is new; if another thread is at it, the event goes out at once and its
 * definitions a little later. A dump sends all of them again:
 *	- when an event is emitted and none was before, or a session has not recorded for a while
 *	- when one is emitted SLIPSTREAM_DUMP_EVERY after the last dump: a second session that joins, and
 *	  one that overwrites its oldest events, have them after that time. A long dump waits longer for
 *	  the next, so that dumps take at most one in DUMP_SHARE of the time. Where definitions have
 *	  buffers of their own there are none (0): they would overwrite those of an idle process
 *	- when one is emitted and record_header.dump_wanted holds another number than at the last dump:
 *	  somebody is about to take a snapshot. The word is looked at every LOOK_NS, so that it costs
 *	  the other events nothing. Anybody who may write to the file can change it all the time;
 *	  therefore no such dump comes sooner than ASKED_EVERY_NS after the last one. They have a budget
 *	  of their own, whatever the others took: one in DUMP_SHARE of the time; of long dumps one a
 *	  second, as long as that is no more than one in ASKED_SHARE
 *	- when a wait is emitted that blocked longer than SLIPSTREAM_DUMP_OVER: a tracer's trigger saves
 *	  a snapshot at this event, and asks nobody before. Not sooner than DUMP_EVERY_NS and DUMP_SHARE
 *	  allow after the last such dump, whatever others there were
 *	- when the provider says that the process ends
 *
 * loading	compare and swap NONE -> RUNNING, then DONE or FAILED for good
 * trace_emitters	release store once the provider is checked; NULL again, for good, in a child that the
 *		tracer does not know
 * trace_wait_state	release store of the provider's word; no_state again where there is none
 * token	exchange (acquire), release store: whose thread sends definitions
 * sent, next_ns, recording	written by who holds the token (recording and next_ns are cleared by
 *		anyone); read by anyone who emits, relaxed: a stale value costs a look or a late definition
 * due_ns	as next_ns. Cleared before it: where the holder of the token overwrites the 0 in next_ns,
 *		the one in due_ns is found at the next look
 * answered, allowed_ns, over_allowed_ns, last	under the token
 * is_over	set by who emits such a wait, for itself or for who has the token; a request, no more
 * over_ns	written before trace_emitters
 * dump_wanted	written by other processes, any value at any time
 * again[]	slots taken by compare and swap, emptied by who holds the token
 */
#include "emit/trace.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "emit/file.h"
#include "emit/internal.h"
#include "uncancelled.h"

#define DUMP_EVERY_NS  UINT64_C(1000000000) /* the least between two of one reason that are long */
#define DUMP_SHARE     200
#define ASKED_SHARE    20
#define ASKED_EVERY_NS UINT64_C(100000000)
#define LOOK_NS        UINT64_C(1000000)
#define AGAIN_MAX      64
#define ALLOCATIONS    64          /* asked for at a time */
#define END_PATIENCE   1000        /* times 1 ms that the end waits for a dump of another thread */
#define NO_RECORD      UINT64_C(0) /* in again[]: offsets are kept plus one */

enum loading { LOADING_NONE, LOADING_RUNNING, LOADING_DONE, LOADING_FAILED };

/* What the definitions of the session that records are up to. */
enum recording {
	RECORDING_NOTHING, /* none was sent */
	RECORDING_BARE,    /* nobody records definitions */
	RECORDING_DUMPED,
};

static const int no_state; /* no session records anything */
const struct trace_emitter *trace_emitters;
const int *trace_wait_state = &no_state;
bool emit_full;

static int loading;
static const struct trace_provider *provider; /* constant once trace_emitters is set */
static emit_allocations *open_allocations;    /* as provider */

static bool token;
static uint64_t sent;
static uint64_t next_ns;  /* when send_definitions() has to be called */
static uint64_t due_ns;   /* when the next dump has to be made, asked for or not */
static uint64_t answered; /* what was in dump_wanted at the last dump */
static uint64_t over_ns = UINT64_MAX;
static bool is_over;
static uint64_t over_allowed_ns; /* when a call that blocked long may have the next dump */
static uint64_t allowed_ns;      /* when the next one that is asked for may be made */
static struct {
	uint64_t began_ns, work_ns;
} last; /* dump */
int trace_recording;
static uint32_t dumps, dump_events; /* under the token */
static __thread bool has_token __attribute__((tls_model("initial-exec")));
static uint64_t again[AGAIN_MAX];
static bool any_again;

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void trace_send(enum trace_event event, const void *payload)
{
	/* Pairs with the release store in load_provider(): the provider is whole. */
	const struct trace_emitter *emitters = __atomic_load_n(&trace_emitters, __ATOMIC_ACQUIRE);

	if (!emitters || !emitters[event].is_enabled())
		return;
	emitters[event].emit(payload);
	if (has_token)
		dump_events++;
}

static void send_allocations(void)
{
	struct emit_allocation found[ALLOCATIONS];
	struct trace_def_allocation event;
	uint64_t after = 0;
	size_t count, i;

	do {
		count = open_allocations ? open_allocations(after, found, ALLOCATIONS) : 0;
		for (i = 0; i < count; i++) {
			event.address = found[i].address;
			event.bytes = found[i].bytes;
			event.memory = found[i].memory;
			trace_send(TRACE_DEF_ALLOCATION, &event);
			after = found[i].address;
		}
	} while (count == ALLOCATIONS);
}

/* Something is to be sent of which only that is known. */
static void want_dump(void)
{
	__atomic_store_n(&due_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&next_ns, 0, __ATOMIC_RELEASE);
}

/*
 * The records from `from` on. Those that were being filled are looked at once more: their publisher
 * either sees the new `sent`, or is seen here (both sides store, fence, and load).
 */
static void send_records(uint64_t from)
{
	struct dump_skipped skipped = {0};
	uint64_t end = dump_records(from, &skipped);
	uint32_t i;

	__atomic_store_n(&sent, end, __ATOMIC_RELAXED);
	/* Pairs with the fence in trace_published(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (skipped.count > DUMP_SKIPPED_MAX) {
		skipped.count = DUMP_SKIPPED_MAX;
		want_dump();
	}
	for (i = 0; i < skipped.count; i++)
		dump_record(skipped.offset[i]);
}

static void send_again(void)
{
	uint64_t offset;
	uint32_t i;

	/* Pairs with the release store in trace_again(): who sees it sees the slot. */
	if (!__atomic_exchange_n(&any_again, false, __ATOMIC_ACQUIRE))
		return;
	for (i = 0; i < AGAIN_MAX; i++) {
		offset = __atomic_exchange_n(&again[i], NO_RECORD, __ATOMIC_ACQUIRE);
		if (offset != NO_RECORD)
			dump_record(offset - 1);
	}
}

void trace_again(const void *record)
{
	const unsigned char *base = file_base();
	uint64_t offset, free_slot;
	uint32_t i;

	if (!trace_is_loaded() || !base)
		return;
	offset = (uint64_t)((const unsigned char *)record - base);
	for (i = 0; i < AGAIN_MAX; i++) {
		free_slot = NO_RECORD;
		if (__atomic_compare_exchange_n(&again[i], &free_slot, offset + 1, false,
						__ATOMIC_RELEASE, __ATOMIC_RELAXED) ||
		    free_slot == offset + 1)
			break;
	}
	if (i == AGAIN_MAX)
		want_dump();
	/* Pairs with the acquire exchange in send_again(). */
	__atomic_store_n(&any_again, true, __ATOMIC_RELEASE);
}

void trace_published(const void *record)
{
	const unsigned char *base = file_base();

	if (!trace_is_loaded() || !base)
		return;
	/* Pairs with the fence in send_records(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if ((uint64_t)((const unsigned char *)record - base) <
	    __atomic_load_n(&sent, __ATOMIC_RELAXED))
		trace_again(record);
}

/* What the tools wrote there. The file is as large as the header: this process made it. */
static uint64_t wanted(void)
{
	const struct record_header *header = file_base();

	return __atomic_load_n(&header->dump_wanted, __ATOMIC_RELAXED);
}

static bool is_asked_for(uint64_t now_ns)
{
	return now_ns >= allowed_ns && now_ns >= last.began_ns + ASKED_EVERY_NS &&
	       wanted() != answered;
}

/* One that comes too early gets none later: the snapshot is taken by then. */
static bool has_blocked_long(uint64_t now_ns)
{
	return __atomic_exchange_n(&is_over, false, __ATOMIC_RELAXED) && now_ns >= over_allowed_ns;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

/* After one that was asked for: when the next such one may be made. */
static uint64_t next_asked(void)
{
	uint64_t pause = last.work_ns * DUMP_SHARE;
	uint64_t most = larger(DUMP_EVERY_NS, last.work_ns * ASKED_SHARE);

	return last.began_ns + (pause < most ? pause : most);
}

/* For who is to tell what a snapshot holds. */
static void publish_dump(uint64_t began, uint32_t events)
{
	struct record_header *header = file_base();

	__atomic_store_n(&header->dump_ns[1], header->dump_ns[0], __ATOMIC_RELAXED);
	__atomic_store_n(&header->dump_ns[0], began, __ATOMIC_RELAXED);
	__atomic_store_n(&header->dump_events, events, __ATOMIC_RELAXED);
	/* Pairs with nothing in this process: who reads that it is done, reads when. */
	__atomic_store_n(&header->dump_done, answered, __ATOMIC_RELEASE);
}

/* Under the token. When the next one of the same reason may come. */
static uint64_t dump(uint32_t reason)
{
	uint64_t began = now(CLOCK_MONOTONIC);
	/* Its work: where the processor was with others meanwhile, dumps are no less cheap. */
	uint64_t work = now(CLOCK_THREAD_CPUTIME_ID);
	struct trace_dump_begin begin = {.dump = ++dumps, .reason = reason};
	struct trace_dump_end end = {.dump = dumps};
	uint64_t took, due;

	answered = wanted(); /* who asks from here on gets the next one */
	/* First: whoever finds the session stopped from here on makes the next dump a first one. */
	__atomic_store_n(&trace_recording, RECORDING_DUMPED, __ATOMIC_RELAXED);
	__atomic_store_n(&due_ns, UINT64_MAX, __ATOMIC_RELAXED);
	trace_send(TRACE_DUMP_BEGIN, &begin);
	dump_events = 0;
	dump_start();
	send_records(0);
	dump_coverage();
	set_send_all();
	send_allocations();
	end.events = dump_events;
	trace_send(TRACE_DUMP_END, &end);
	publish_dump(began, end.events);
	took = now(CLOCK_THREAD_CPUTIME_ID) - work;
	last.began_ns = began;
	last.work_ns = took;
	due = config.dump_every_ns ? began + larger(took * DUMP_SHARE, config.dump_every_ns)
				   : UINT64_MAX;
	/* Not over a zero: something did not fit meanwhile and wants the next dump at once. */
	work = UINT64_MAX;
	__atomic_compare_exchange_n(&due_ns, &work, due, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return began + larger(took * DUMP_SHARE, DUMP_EVERY_NS);
}

static bool take_token(void)
{
	if (__atomic_exchange_n(&token, true, __ATOMIC_ACQUIRE))
		return false;
	has_token = true;
	return true;
}

static void give_token(void)
{
	has_token = false;
	/* Pairs with the acquire in take_token(). */
	__atomic_store_n(&token, false, __ATOMIC_RELEASE);
}

/*
 * All that should be in the trace before an event of now. Nobody waits for another thread here. A
 * thread that is cancelled (a tracer that blocks may be a place for that) keeps the token for good, so
 * cancellation waits until it is given back.
 */
static void __attribute__((cold, noinline)) send_definitions(uint64_t now_ns)
{
	int cancel_state;

	if (!emit_is_open() || !take_token())
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	/* Before what may want to be called again at once. */
	__atomic_store_n(&next_ns, now_ns + LOOK_NS, __ATOMIC_RELAXED);
	if (!trace_emitters[TRACE_DUMP_BEGIN].is_enabled()) {
		__atomic_store_n(&sent, file_used(), __ATOMIC_RELAXED);
		__atomic_store_n(&next_ns, now(CLOCK_MONOTONIC) + DUMP_EVERY_NS, __ATOMIC_RELAXED);
		__atomic_store_n(&trace_recording, RECORDING_BARE, __ATOMIC_RELAXED);
	} else if (__atomic_load_n(&trace_recording, __ATOMIC_RELAXED) != RECORDING_DUMPED) {
		dump(TRACE_DUMP_FIRST);
	} else if (has_blocked_long(now_ns)) {
		over_allowed_ns = dump(TRACE_DUMP_ASKED);
	} else if (now_ns >= __atomic_load_n(&due_ns, __ATOMIC_RELAXED)) {
		dump(TRACE_DUMP_TIME);
	} else if (is_asked_for(now_ns)) {
		dump(TRACE_DUMP_ASKED);
		allowed_ns = next_asked();
	} else {
		send_records(__atomic_load_n(&sent, __ATOMIC_RELAXED));
		send_again();
	}
	give_token();
	pthread_setcancelstate(cancel_state, NULL);
}

static inline void prepare(uint64_t now_ns)
{
	if (__builtin_expect(!__atomic_load_n(&trace_recording, __ATOMIC_RELAXED) ||
				     now_ns >= __atomic_load_n(&next_ns, __ATOMIC_RELAXED) ||
				     file_used() != __atomic_load_n(&sent, __ATOMIC_RELAXED) ||
				     __atomic_load_n(&any_again, __ATOMIC_RELAXED),
			     0))
		send_definitions(now_ns);
}

/*
 * An event was not recorded: is the session over? Where definitions are not recorded either, nobody can
 * tell it from one that leaves this event out, which costs its others a look.
 */
static void look_for_end(const struct trace_emitter *emitters)
{
	int recording = __atomic_load_n(&trace_recording, __ATOMIC_RELAXED);

	if (recording == RECORDING_BARE ||
	    (recording == RECORDING_DUMPED && !emitters[TRACE_DUMP_BEGIN].is_enabled()))
		__atomic_store_n(&trace_recording, RECORDING_NOTHING, __ATOMIC_RELAXED);
}

/* The emitter of an event that a session records; NULL: none does. */
static inline const struct trace_emitter *emitter_of(enum trace_event event)
{
	/* Pairs with the release store in load_provider(). */
	const struct trace_emitter *emitters = __atomic_load_n(&trace_emitters, __ATOMIC_ACQUIRE);

	if (!emitters)
		return NULL;
	if (__atomic_load_n(emitters[event].state, __ATOMIC_RELAXED) &&
	    __builtin_expect(emitters[event].is_enabled(), 1))
		return &emitters[event];
	look_for_end(emitters);
	return NULL;
}

void trace_wait(const struct emit_finding *finding, uint32_t wait, const uint32_t *candidates,
		uint32_t count)
{
	const struct trace_emitter *emitter = emitter_of(TRACE_WAIT);
	struct trace_wait event;
	int saved_errno;

	if (!emitter)
		return;
	saved_errno = errno;
	if (__builtin_expect(finding->blocked_ns > over_ns, 0)) {
		__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
		__atomic_store_n(&next_ns, 0, __ATOMIC_RELAXED);
	}
	prepare(finding->returned_ns);
	event.wait = wait;
	event.candidates = count > 1 ? set_of(candidates, count) : count ? candidates[0] : 0;
	event.stream = finding->stream;
	event.bytes = finding->bytes;
	event.blocked_ns = finding->blocked_ns;
	event.call_ns = finding->call_ns;
	emitter->emit(&event);
	errno = saved_errno;
}

void emit_trace(enum trace_event event, const void *payload)
{
	const struct trace_emitter *emitter = emitter_of(event);
	int saved_errno = errno;

	if (!emitter)
		return;
	prepare(now(CLOCK_MONOTONIC_COARSE));
	emitter->emit(payload);
	errno = saved_errno;
}

static void (*tell_at_end)(void);

void emit_trace_at_end(void (*tell)(void))
{
	tell_at_end = tell;
}

/* From the provider's destructor. A child that never opened a file of its own has nothing to say. */
static void at_end(void)
{
	const struct record_header *header = file_base();
	int saved_errno = errno;
	int patience = END_PATIENCE;
	struct trace_process_end event;

	if (!trace_is_loaded() || !emit_is_open() || header->pid != (uint32_t)getpid())
		return;
	if (tell_at_end && emit_traces_full())
		tell_at_end();
	while (!take_token() && patience-- > 0)
		uncancelled_nap(1000000);
	if (patience >= 0 && trace_emitters[TRACE_DUMP_END].is_enabled())
		dump(TRACE_DUMP_LAST);
	/* The token stays: nobody sends definitions behind the last ones. */
	event.end_ns = now(CLOCK_MONOTONIC);
	event.dropped = __atomic_load_n(&header->dropped, __ATOMIC_RELAXED);
	trace_send(TRACE_PROCESS_END, &event);
	errno = saved_errno;
}

static void fail(const char *why)
{
	char text[400];

	snprintf(text, sizeof(text), "no trace: %.300s", why);
	emit_note(NOTE_CONFIG, text);
}

/* A setting that is wrong is told on stderr too, as others are. */
static void refuse(const char *why)
{
	fail(why);
	config_tell_lttng(why);
}

/* dlopen() of a FIFO would wait for somebody to write into it. A bare name is looked for by the loader. */
static bool can_be_opened(const char *path)
{
	struct stat status;

	if (!strchr(path, '/'))
		return true;
	if (stat(path, &status)) {
		refuse(strerrordesc_np(errno));
		return false;
	}
	if (!S_ISREG(status.st_mode)) {
		refuse("not a regular file");
		return false;
	}
	return true;
}

static bool load_provider(void)
{
	const struct trace_provider *found;
	const char *why;
	void *library;

	library = dlopen("liblttng-ust.so.0", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
	if (library) {
		/* LTTng ends a process that has both interfaces, or traces neither. */
		dlclose(library);
		fail("the program has an LTTng-UST before 2.13 (liblttng-ust.so.0)");
		return false;
	}
	if (!can_be_opened(config.lttng))
		return false;
	library = dlopen(config.lttng, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!library) {
		why = dlerror();
		refuse(why ? why : "the provider cannot be opened");
		return false;
	}
	found = dlsym(library, TRACE_PROVIDER_SYMBOL);
	if (!found || found->magic != TRACE_PROVIDER_MAGIC) {
		dlerror();
		refuse("no provider of slipstream");
		return false;
	}
	if (found->schema != TRACE_SCHEMA || found->event_count != TRACE_EVENT_COUNT) {
		refuse("the provider is of another build than this library");
		return false;
	}
	provider = found;
	over_ns = config.dump_over_ns ? config.dump_over_ns : UINT64_MAX;
	found->at_end(at_end);
	/* Pairs with the acquire loads: who sees the emitters sees provider and allocations. */
	__atomic_store_n(&trace_emitters, found->emitters, __ATOMIC_RELEASE);
	/* Pairs with the acquire load in trace_wants_waits(). */
	__atomic_store_n(&trace_wait_state, found->emitters[TRACE_WAIT].state, __ATOMIC_RELEASE);
	return true;
}

/* No trace from this process any more, and nobody need go out of his way for one. */
static void give_up(void)
{
	__atomic_store_n(&loading, LOADING_FAILED, __ATOMIC_RELAXED);
	__atomic_store_n(&trace_wait_state, &no_state, __ATOMIC_RELEASE);
	__atomic_store_n(&trace_emitters, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&emit_full, false, __ATOMIC_RELAXED);
}

void trace_opened(void)
{
	const struct trace_emitter *emitters = __atomic_load_n(&trace_emitters, __ATOMIC_ACQUIRE);
	bool full = config.level == CONFIG_TRACE_FULL && config.lttng && config.lttng[0] &&
		    __atomic_load_n(&loading, __ATOMIC_RELAXED) != LOADING_FAILED;

	__atomic_store_n(&emit_full, full, __ATOMIC_RELAXED);
	if (emitters && emitters[TRACE_DEF_PROCESS].is_enabled())
		send_definitions(0);
}

void emit_trace_start(emit_allocations *allocations)
{
	int expected = LOADING_NONE;
	int saved_errno = errno;

	if (!config.lttng || !config.lttng[0] ||
	    !__atomic_compare_exchange_n(&loading, &expected, LOADING_RUNNING, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	open_allocations = allocations;
	if (load_provider()) {
		__atomic_store_n(&loading, LOADING_DONE, __ATOMIC_RELAXED);
		trace_opened();
	} else {
		give_up();
	}
	errno = saved_errno;
}

void trace_forked(void)
{
	uint32_t i;

	__atomic_store_n(&token, false, __ATOMIC_RELAXED);
	__atomic_store_n(&sent, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&trace_recording, RECORDING_NOTHING, __ATOMIC_RELAXED);
	__atomic_store_n(&any_again, false, __ATOMIC_RELAXED);
	answered = allowed_ns = over_allowed_ns = last.began_ns = 0;
	for (i = 0; i < AGAIN_MAX; i++)
		__atomic_store_n(&again[i], NO_RECORD, __ATOMIC_RELAXED);
	dumps = 0;
	set_clear();
	if (__atomic_load_n(&loading, __ATOMIC_RELAXED) == LOADING_RUNNING)
		give_up();
	if (trace_is_loaded() && provider->process() != (uint32_t)getpid()) {
		give_up();
		emit_note(NOTE_PASS_THROUGH, "no trace: forked where the tracer did not see it");
	}
}
