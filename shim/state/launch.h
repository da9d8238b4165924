// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch that has nothing to say. Programs launch far more often
 * than they do anything else, and a launch may cost at most 1 % more: 30 ns on an H200, where a
 * clock reading right after a launch costs 40 (it waits for what the launch left unfinished), a
 * locked instruction there about 20, and each cache line that is touched 5 to 10: the driver has
 * thrown everything out of the nearest cache since the last launch.
 *
 * Most launches are plain: a stream and a function this thread used before, no capture, nothing to
 * join. For these the wrapper makes no struct call; it asks here before the launch and tells here
 * after it. A plain launch that fails or took long still goes through the rooms, afterwards, as a
 * CALL_LATE.
 *
 * Joins. A launch that would be plain but for being the first to be ordered behind something is one finding of rule legacy-join, whatever
 * else happens, unless it takes long. Where streams are used by turns that is each launch. So it is short, too (state_launch_joins()): timed, never
 * remembered, and numbered with a lock. What it joins is found before it by the look that state_before() makes, and concluded from behind it by the code that
 * state_after() uses; should it take long, the long way goes by the same look.
 *
 * Time. Of a plain launch with a short queue only one rule can report anything: a wait that no rule
 * explains, from 1 ms on. So where a thread launches in a row (LAUNCH_TIGHT, each soon after the
 * one before), only every LAUNCH_ROW-th launch reads the clock, and the next call of another kind:
 * if all launches since the last reading took less than that together, each did. If not, it is not
 * known whether a launch or the program took the time: that is counted (NOTE_UNTIMED), and the next
 * launches are timed one by one.
 *
 * Memory. A launch of a row is remembered (struct launch_memo): the same function into the same
 * stream under the same name needs nothing but that one cache line, the row's, the stream's, the
 * counter's and a stamp, which changes when anything that made the launch plain may have changed.
 * There are two stamps. LAUNCH_ALWAYS: a stream is destroyed or captures, a function's name
 * changes, a context ends. LAUNCH_TURN: also each time that work of the legacy stream follows work
 * of blocking streams or the other way round, since the next launch of the other side then has
 * something to join; launches on the legacy stream and on blocking ones watch this one.
 *
 * Who writes, who reads:
 *	launch_thread	its own thread and its signal handlers, at any instruction: a handler finds a
 *			memo whole or not at all, and what it changes the interrupted launch survives
 *	launch_stamps	whoever changes something; read by every launch. The kernel wipes the page in
 *			a forked child: no memo of the parent is good there
 *
 * Called by the generated wrappers and by state_before(). Any thread; no lock, no allocation.
 */
#ifndef SLIPSTREAM_STATE_LAUNCH_H
#define SLIPSTREAM_STATE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "counter.h"
#include "state/stream.h"

/* Launches soon after each other until they count as a row. */
#define LAUNCH_TIGHT 4
/* Launches of a row for one reading of the clock; at 3 us each they take a fifth of what has to be proved. */
#define LAUNCH_ROW 64
/* Below it no queue is full: what the rule queue-full asks for (rules.yaml, BACKLOG; test_tables.c holds both to one number). */
#define LAUNCH_SHORT_QUEUE 500
#define LAUNCH_MEMOS       64 /* in pairs; a power of two */
/* As large as a page can be, since whole pages are wiped. */
#if defined(__x86_64__)
#define LAUNCH_PAGE 4096
#else
#define LAUNCH_PAGE 65536
#endif

enum launch_watch { LAUNCH_ALWAYS, LAUNCH_TURN };

struct launch_stamps {
	uint64_t
		stamp[LAUNCH_PAGE / sizeof(uint64_t)]; /* by enum launch_watch; a page of its own */
};
extern struct launch_stamps launch_stamps
	__attribute__((visibility("hidden"), aligned(LAUNCH_PAGE)));

/* One cache line. */
struct launch_memo {
	uint32_t number;  /* enum function_number of the wrapper plus 1; 0: empty */
	uint32_t watched; /* enum launch_watch */
	CUfunction function;
	CUstream handle;
	uint64_t stamp; /* the launch is plain while launch_stamps.stamp[watched] is this */
	struct state_stream *stream;
	uint64_t *calls; /* the thread's counter of the function */
	void (*real)(void);
	uint64_t youngest; /* what the stream's youngest operation becomes */
};

/* One cache line, too. */
struct launch_row {
	uint32_t left;     /* launches that may go without a reading of the clock */
	uint32_t given;    /* `left` when the row began: the difference was not timed */
	uint32_t tight;    /* plain launches one by one, each soon after the one before */
	uint64_t returned; /* clock ticks when the last plain launch that was timed returned */
	/* Of the context that memos of the legacy stream are for; NULL none. */
	struct state_stream *legacy;
	uint32_t victim; /* which of two memos is overwritten next */
	/* Short launches that this thread began, and those that are over (flight.h, state_launch_settled()). */
	uint32_t begun, over;
	/* The same of other calls that submit, and of short launches that are timed. */
	uint32_t entered, numbered;
	uint32_t place; /* on the list of rows, plus 1; 0: not there */
} __attribute__((aligned(64)));

struct launch_thread {
	struct launch_row row;
	struct launch_memo memos[LAUNCH_MEMOS];
};
extern __thread struct launch_thread launch_thread
	__attribute__((visibility("hidden"), tls_model("initial-exec"), aligned(64)));

/*
 * The first of the two memos that a launch can have. Handles are addresses: on an H200 those of a
 * module's functions lie 0x4a0 apart or anywhere. More than two of a pair drive each other out: with 8
 * functions any step apart that is so for one step in 24, with half as many pairs for one in 8.
 */
static inline struct launch_memo *launch_memos_of(CUstream stream, CUfunction function)
{
	uint64_t f = (uintptr_t)function, s = (uintptr_t)stream;

	return &launch_thread
			.memos[(f >> 3 ^ f >> 8 ^ f >> 12 ^ s >> 3 ^ s >> 8) & (LAUNCH_MEMOS - 2)];
}

static inline bool launch_memo_fits(const struct launch_memo *memo, uint32_t number,
				    CUstream handle, CUfunction function)
{
	return memo->function == function && memo->handle == handle && memo->number == number;
}

static inline void launch_count(uint32_t *counter)
{
#if defined(__x86_64__)
	/* One instruction: a signal handler that launches in between loses none. */
	__asm__ volatile("incl %0" : "+m"(*counter) : : "cc", "memory");
#else
	__atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

/*
 * Around each launch that may take the short way: begun before anything is looked at that could forbid it, over when the driver has it, or
 * when it takes the long way after all. Pairs with state_launch_settled(), whose membarrier(2) stands for the fence between the count and the looks.
 */
static inline void state_launch_begins(void)
{
	launch_count(&launch_thread.row.begun);
}

static inline void state_launch_is_over(void)
{
	/* For who looks (flight.h): the number of a remembered launch comes before. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	launch_count(&launch_thread.row.over);
}

/* What a remembered launch needs while it is under way, when its memo can become another's. */
struct launch_ready {
	void (*real)(void);
	struct state_stream *stream;
	uint64_t youngest;
};

/*
 * Is it this launch's, and still good? Everything is read before it is known whose it is: a signal
 * handler of this thread may write another one over it at any moment, but not one that fits.
 */
static inline bool launch_memo_read(const struct launch_memo *memo, uint32_t number,
				    CUstream handle, CUfunction function,
				    struct launch_ready *ret_ready, uint64_t **ret_calls)
{
	bool is_good = __atomic_load_n(&memo->stamp, __ATOMIC_RELAXED) ==
		       __atomic_load_n(&launch_stamps.stamp[memo->watched], __ATOMIC_RELAXED);

	ret_ready->real = __atomic_load_n(&memo->real, __ATOMIC_RELAXED);
	ret_ready->stream = __atomic_load_n(&memo->stream, __ATOMIC_RELAXED);
	ret_ready->youngest = __atomic_load_n(&memo->youngest, __ATOMIC_RELAXED);
	*ret_calls = __atomic_load_n(&memo->calls, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return is_good && launch_memo_fits(memo, number, handle, function);
}

static inline uint64_t launch_backlog(const struct state_stream *stream)
{
	uint64_t backlog = __atomic_load_n(&stream->launched, __ATOMIC_RELAXED);

	backlog += __atomic_load_n(&stream->submitted, __ATOMIC_RELAXED);
	backlog -= __atomic_load_n(&stream->completed, __ATOMIC_RELAXED);
	return backlog;
}

/* One launch less until the next reading of the clock. */
static inline void launch_row_take(struct launch_row *row)
{
#if defined(__x86_64__)
	/* One instruction: a signal handler that ends the row must not see it begun again. */
	__asm__ volatile("decl %0" : "+m"(row->left) : : "cc");
#else
	__atomic_store_n(&row->left, __atomic_load_n(&row->left, __ATOMIC_RELAXED) - 1,
			 __ATOMIC_RELAXED);
#endif
}

/*
 * Is this launch plain, and one of a row that need not be timed? Then it is counted as a call, and
 * the caller launches through ret_ready->real and, if that succeeds, calls
 * state_launch_succeeded(), and state_launch_is_over(). False: the long way, which begins with state_launch_is_plain().
 * `number`: of the wrapper, plus 1.
 */
static inline bool state_launch_remembered(uint32_t number, CUstream handle, CUfunction function,
					   struct launch_ready *ret_ready)
{
	struct launch_memo *memo = launch_memos_of(handle, function);
	uint64_t *calls;

	state_launch_begins();
	if (__builtin_expect(!launch_memo_read(memo, number, handle, function, ret_ready, &calls),
			     0) &&
	    !launch_memo_read(++memo, number, handle, function, ret_ready, &calls))
		goto long_way;
	/* None left, or one less: a signal handler ended the row between this look and the taking. */
	if (launch_thread.row.left - 1 >= LAUNCH_ROW ||
	    launch_backlog(ret_ready->stream) >= LAUNCH_SHORT_QUEUE)
		goto long_way;
	launch_row_take(&launch_thread.row);
	counter_add(calls);
	return true;
long_way:
	state_launch_is_over();
	return false;
}

/* The remembered launch is in the driver's hands. */
static inline void state_launch_succeeded(const struct launch_ready *ready)
{
	__atomic_store_n(&ready->stream->youngest, ready->youngest, __ATOMIC_RELAXED);
	counter_add(&ready->stream->launched);
}

/* It failed: may the context be broken? */
void state_launch_failed(CUresult result);

enum launch_clock {
	LAUNCH_READ_BOTH, /* the clock is read before and after the launch */
	LAUNCH_READ_LEFT, /* after it */
};

struct state_launch {
	CUstream handle;
	CUfunction function;
	struct state_stream *stream;
	uint64_t youngest; /* what the stream's youngest operation becomes */
	uint64_t stamp;    /* as it was before anything was looked at */
	enum launch_watch watched;
	enum launch_clock clock;
	/*
	 * All is as for a plain launch, but it is the first to be ordered behind something. After state_launch_joins() what that is: as state_before() finds it
	 * for a launch, and the legacy stream's newest number.
	 */
	bool is_joining, is_legacy;
	struct state_context *context; /* the stream's; never NULL */
	const struct call_pending *pending;
	uint32_t pending_count;
	uint64_t legacy_number;
};

/* Is this launch plain? Fills *ret_launch if so. `per_thread`: entered under a _ptsz name. */
bool state_launch_is_plain(CUstream stream, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch);

/*
 * The launch is not plain, but is_joining: may it be short? Then it is one finding of rule legacy-join, no more, unless it takes long. `pending`: room for CALL_PENDING_MAX,
 * the caller's until the launch is over.
 */
struct call_pending;
bool state_launch_joins(struct state_launch *launch, struct call_pending *pending);

/*
 * The plain launch, or the one that joins, succeeded. `entered`, `left`: clock ticks, as far as launch->clock says they were
 * read. True: counted, done; of one that joins sync is to be told (sync_launch_joined()). False: it took long; the wrapper makes a struct call of it.
 */
bool state_launch_done(const struct state_launch *launch, uint64_t entered, uint64_t left);

/*
 * state_before() for a launch that was plain, or joins, and then failed or took long. `call` is begun; `launch->pending` is its own. What a joining launch was
 * ordered behind is known from before it, so conclusions are drawn as ever.
 */
struct call;
void state_launch_late(const struct state_launch *launch, struct call *call);

/*
 * After state_launch_done() said true of a plain launch: the next such launch may be remembered. `number` as above,
 * `calls` the thread's counter of the function, `real` the driver's function.
 */
void state_launch_remember(const struct state_launch *launch, uint32_t number, uint64_t *calls,
			   void (*real)(void));

/* Another call comes, or the thread's current context may have changed: the row ends here. */
void state_launch_end_row(void);

/* Called once by entry's set-up, which makes the page of the stamps wipe-on-fork: from now on they are not 0. */
void state_launch_begin(void);

/* The thread ends, or what its memos point to does. */
void state_launch_forget(void);

/*
 * Called by sync once it knows the clock's rate: ticks that a launch which has nothing to join can
 * take without being a finding, whatever its rules say (`quick`), and if no rule of its row has to
 * do with it (`plain`, more). Until then every launch takes the long way.
 */
void state_launch_limits(uint64_t quick, uint64_t plain);

/*
 * For the legacy room. state_launch_watch(): from now on short launches can be waited for; false: the kernel has no membarrier(2). Once, at cuInit.
 * state_launch_bar(): no launch on the legacy stream and the blocking streams of this context takes the short way from now on (`barred`), or they may again.
 * state_launch_settled(): is none of those under way that began before? Waits a millisecond at most, for none that waits itself.
 */
bool state_launch_watch(void);
struct state_context;
void state_launch_bar(struct state_context *context, bool barred);
bool state_launch_settled(void);

#endif
