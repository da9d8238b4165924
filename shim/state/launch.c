// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch (launch.h says why). Relies on the thread's caches of streams and kernels, which the long
 * way (state_before) fills: whatever is not in them is not plain.
 *
 * What the short way leaves out is knowledge, never truth: a legacy launch that joins nothing new and a blocking stream's
 * launch with no new legacy work before it draw no conclusion in order.c either. A launch that another thread's operation overtakes
 * between its look and its memo is one conclusion less.
 *
 * Counting without a locked instruction. A stream's first thread that launches in a row claims it (`launcher`) and counts its own
 * launches in `launched`, which nobody else writes. Others use `submitted`, with a locked add. A launcher does not look whether its
 * stream is still on the lists of pending.c, so a claimed stream stays on them until its launcher lets go.
 *
 * The context of a legacy launch is asked for (13 ns) once in LAUNCH_ROW launches of a row, and again after every call that
 * can change it. A change that no wrapper sees (a private table of the runtime) within such a burst puts at most LAUNCH_ROW
 * launches down to the context before: a candidate's name can be wrong, no completion is concluded from it.
 */
#include "state/launch.h"

#include "clock.h"
#include "emit/emit.h"
#include "state/flight.h"
#include "state/internal.h"
#include "state/state.h"

#include <string.h>

/* Words of the list of unjoined streams that a launch looks through; more is the long way's business. */
#define WORDS_MAX 4
/* Of a memo that is being written: no stamp is ever this. */
#define NO_STAMP UINT64_MAX

_Static_assert(sizeof(struct launch_memo) == 64, "a memo is one cache line");
_Static_assert(sizeof(struct launch_row) == 64, "a row is one cache line");

__thread struct launch_thread launch_thread __attribute__((tls_model("initial-exec"), aligned(64)));
struct launch_stamps launch_stamps __attribute__((aligned(LAUNCH_PAGE))) = {{0}};

/* Stamps given so far: each is another one, in a forked child too. */
static uint64_t stamps;
/* state_launch_limits() */
static uint64_t quick, plain;

static uint64_t own_name(void)
{
	return (uintptr_t)&state_thread;
}

/*
 * Is there work that the legacy stream's next operation would be the first to be ordered behind? Only
 * as many streams as current_legacy() lets through: one cache line of bits, without a look at their
 * number. What decides most often, whether a stream is pending, stands in its first cache line.
 */
static inline bool anything_unjoined(const struct state_stream *legacy)
{
	const struct state_stream *stream;
	uint32_t word;
	uint64_t bits;

	for (word = 0; word < WORDS_MAX; word++) {
		for (bits = STATE_LOAD(&unjoined_bits[word]); bits; bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (stream_is_pending(stream) &&
			    stream_context(stream) == stream_context(legacy) &&
			    stream_submitted(stream) > STATE_LOAD(&stream->joined))
				return true;
		}
	}
	return false;
}

/*
 * Streams that are idle stay listed until a scan finds them, claimed ones for good: then each legacy
 * launch of a row would look at them again. Done once in a row.
 */
static void tidy_unjoined(void)
{
	struct state_stream *stream;
	bool is_any = false;
	uint32_t word;
	uint64_t bits;

	for (word = 0; word < WORDS_MAX; word++) {
		for (bits = STATE_LOAD(&unjoined_bits[word]); bits; bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (!stream_is_pending(stream)) {
				launch_release(stream);
				is_any = true;
			}
		}
	}
	if (is_any)
		pending_tidy_unjoined();
}

/*
 * The legacy stream of the thread's current context, of which memos of this thread are from now on; NULL: none, or more streams than the short way looks
 * through.
 */
static struct state_stream *current_legacy(void)
{
	struct launch_row *row = &launch_thread.row;
	struct state_context *context;

	context = context_current();
	if (row->legacy && (!context || row->legacy != context->legacy))
		state_launch_forget();
	if (!context || stream_count() > WORDS_MAX * 64)
		return NULL;
	row->legacy = context->legacy;
	return context->legacy;
}

/* Memos may go meanwhile, and whose they are with them. */
static void tidy_legacy(struct state_stream *legacy)
{
	tidy_unjoined();
	launch_thread.row.legacy = legacy;
}

static inline bool is_short_queue(const struct state_stream *stream)
{
	return stream_submitted(stream) - STATE_LOAD(&stream->completed) < LAUNCH_SHORT_QUEUE;
}

/* Launched before, as this thread remembers; NULL: not known. */
static inline const struct state_kernel *known_kernel(struct state_thread *thread,
						      CUfunction function)
{
	const struct thread_kernel *slot = thread_kernel_slot(thread, (uintptr_t)function);

	if (slot->handle != (uintptr_t)function || !slot->kernel ||
	    !STATE_LOAD(&slot->kernel->launched))
		return NULL;
	return slot->kernel;
}

/* Two streams may drive each other out of their place in this thread's cache. What nothing was put on yet is the long way's, which has more to say of a first operation. */
static __attribute__((noinline)) struct state_stream *used_stream(CUstream handle)
{
	struct state_stream *stream = stream_find((uintptr_t)handle);

	return stream && stream_submitted(stream) ? stream : NULL;
}

static inline struct state_stream *known_stream(struct state_thread *thread, CUstream handle)
{
	const struct thread_stream *slot = thread_stream_slot(thread, (uintptr_t)handle);
	struct state_stream *stream = slot->stream;

	/* Pairs with the release store in stream_new(): who sees the handle sees context and kind. */
	if (slot->handle != (uintptr_t)handle || !stream ||
	    __atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE) != (uintptr_t)handle)
		return used_stream(handle);
	return stream;
}

static inline bool is_legacy_handle(CUstream handle, bool per_thread)
{
	return handle == CU_STREAM_LEGACY || (!handle && !per_thread);
}

/* Is anything new there that the stream's next operation would be ordered behind? */
enum joins { JOINS_NOTHING, JOINS_NEWS, JOINS_UNKNOWN };

static inline enum joins what_it_joins(struct state_stream *stream)
{
	const struct state_context *context;

	if (__builtin_expect(STATE_LOAD(&stream->capture) != 0, 0) &&
	    capture_is_active(STATE_LOAD(&stream->capture)))
		return JOINS_UNKNOWN;
	switch (stream_kind(stream)) {
	case STREAM_NON_BLOCKING:
		return JOINS_NOTHING;
	case STREAM_LEGACY:
		if (anything_unjoined(stream))
			return JOINS_NEWS;
		tidy_legacy(stream);
		return JOINS_NOTHING;
	case STREAM_BLOCKING:
		context = stream_context(stream);
		if (!context)
			return JOINS_UNKNOWN;
		return stream_submitted(context->legacy) == STATE_LOAD(&stream->legacy_joined)
			       ? JOINS_NOTHING
			       : JOINS_NEWS;
	default:
		return JOINS_UNKNOWN;
	}
}

static inline bool is_barred(const struct state_stream *stream)
{
	const struct state_context *context = stream_context(stream);

	return stream_kind(stream) != STREAM_NON_BLOCKING && context &&
	       STATE_LOAD(&context->launches_long);
}

static inline uint64_t operation_of(const struct state_kernel *kernel)
{
	return (uint64_t)OPERATION_KERNEL << 32 | STATE_LOAD(&kernel->name);
}

static bool is_untimed(const struct launch_row *row)
{
	return row->given != row->left;
}

static uint64_t stamp_now(enum launch_watch watched)
{
	/* Pairs with the exchange in change(): who sees the stamp sees what changed before it. */
	return __atomic_load_n(&launch_stamps.stamp[watched], __ATOMIC_ACQUIRE);
}

bool state_launch_is_plain(CUstream handle, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch)
{
	struct state_thread *thread = &state_thread;
	struct launch_row *row = &launch_thread.row;
	const struct state_kernel *kernel;
	struct state_stream *stream;
	uint64_t always = stamp_now(LAUNCH_ALWAYS), turn = stamp_now(LAUNCH_TURN);
	enum joins joins;

	ret_launch->is_joining = false;
	kernel = STATE_LOAD(&plain) ? known_kernel(thread, function) : NULL;
	if (!kernel || !flight_has_row(row))
		return false;
	if (!call_is_own_handle(handle))
		stream = known_stream(thread, handle);
	else
		stream = is_legacy_handle(handle, per_thread) ? current_legacy() : NULL;
	if (!stream || is_barred(stream))
		return false;
	joins = what_it_joins(stream);
	if (joins == JOINS_UNKNOWN)
		return false;
	ret_launch->handle = handle;
	ret_launch->function = function;
	ret_launch->youngest = operation_of(kernel);
	ret_launch->stream = stream;
	ret_launch->watched =
		stream_kind(stream) == STREAM_NON_BLOCKING ? LAUNCH_ALWAYS : LAUNCH_TURN;
	ret_launch->stamp = ret_launch->watched == LAUNCH_ALWAYS ? always : turn;
	ret_launch->is_joining = joins == JOINS_NEWS;
	if (ret_launch->is_joining)
		return false;
	/* The last of a row; what comes before it was not timed. */
	ret_launch->clock = row->tight == LAUNCH_TIGHT && is_untimed(row) && is_short_queue(stream)
				    ? LAUNCH_READ_LEFT
				    : LAUNCH_READ_BOTH;
	launch_count(&row->entered);
	return true;
}

bool state_launch_joins(struct state_launch *launch, struct call_pending *pending)
{
	struct state_stream *stream = launch->stream;
	struct state_context *context = stream_context(stream);

	launch->is_joining = false;
	/* A full queue is the long way's business, and a context that another thread has ended since it was looked at. */
	if (!context || !is_short_queue(stream))
		return false;
	launch->context = context;
	launch->clock = LAUNCH_READ_BOTH;
	/* Before the look at what is pending, as in state_before(). */
	launch->legacy_number = stream_submitted(context->legacy);
	launch->pending = pending;
	launch->pending_count = pending_with_joins(stream, context, pending);
	if (launch->pending_count > CALL_PENDING_MAX)
		return false;
	launch->is_joining = true;
	launch->is_legacy = stream_kind(stream) == STREAM_LEGACY;
	launch_count(&launch_thread.row.entered);
	return true;
}

/* The long count of a launch, and the claim of the stream where this thread launches in a row. */
static __attribute__((noinline)) void count_and_claim(const struct state_launch *launch, bool claim)
{
	struct state_stream *stream = launch->stream;
	uint64_t nobody = 0;

	/*
	 * Before order_number() looks at the lists: pairs with pending_take_out(), which clears a bit and looks at the launcher then.
	 * And with launch_release(): the launcher before has counted its last one.
	 */
	if (claim)
		(void)__atomic_compare_exchange_n(&stream->launcher, &nobody, own_name(), false,
						  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	(void)order_number(stream, launch->youngest);
}

static void end_row(struct launch_row *row)
{
	/* `left` first: a signal handler in between finds no row. */
	row->left = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	row->given = 0;
}

/* Launches of the legacy stream that are remembered must still be of the thread's context. */
static void begin_row(struct launch_row *row, const struct state_stream *stream)
{
	struct state_stream *legacy;

	if (row->legacy && stream_kind(stream) != STREAM_LEGACY) {
		legacy = current_legacy();
		if (legacy)
			tidy_legacy(legacy);
	}
	row->given = LAUNCH_ROW - 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	row->left = LAUNCH_ROW - 1;
}

/* The launches since row->returned are behind us. False: together they took as long as a finding. */
static bool settle_row(struct launch_row *row, uint64_t now)
{
	end_row(row);
	if (now - row->returned < STATE_LOAD(&plain))
		return true;
	emit_note(NOTE_UNTIMED, "launches in a row with a pause in it");
	return false;
}

static void end_habit(struct launch_row *row)
{
	row->tight = 0;
	end_row(row);
}

/* False: it took long. */
static __attribute__((noinline)) bool look_at_clock(const struct state_launch *launch,
						    uint64_t entered, uint64_t left)
{
	struct launch_row *row = &launch_thread.row;
	bool is_row = true, is_soon;

	/* Even if a signal handler ended the row during this launch. */
	if (launch->clock == LAUNCH_READ_LEFT)
		is_row = settle_row(row, left);
	else if (is_untimed(row))
		is_row = settle_row(row, entered);
	is_soon = left - row->returned < STATE_LOAD(&plain) / LAUNCH_ROW;
	row->returned = left;
	if (!is_row || (launch->clock == LAUNCH_READ_BOTH && !is_soon))
		end_habit(row);
	else if (row->tight >= LAUNCH_TIGHT || ++row->tight == LAUNCH_TIGHT)
		begin_row(row, launch->stream);
	return launch->clock == LAUNCH_READ_LEFT || left - entered < STATE_LOAD(&quick);
}

/* As on the long way: a row and its habit end, and what is concluded is concluded. */
static bool joined(const struct state_launch *launch, uint64_t entered, uint64_t left)
{
	struct launch_row *row = &launch_thread.row;

	if (is_untimed(row))
		(void)settle_row(row, entered);
	end_habit(row);
	row->returned = left;
	if (left - entered >= STATE_LOAD(&quick))
		return false;
	order_launched(launch);
	/* It has its number: pairs with who looks (flight.h). */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	launch_count(&row->numbered);
	return true;
}

void state_launch_late(const struct state_launch *launch, struct call *call)
{
	call->flags |= CALL_LATE;
	state_before(call);
	if (call->flags & CALL_CAPTURED)
		return;
	if (launch->is_joining && launch->pending_count) {
		/* Seen before the launch, as of any other. */
		call->pending_count = launch->pending_count;
		call->legacy_number = launch->legacy_number;
		call->flags &= (uint16_t)~CALL_LATE;
	} else {
		pending_glance(call);
	}
}

bool state_launch_done(const struct state_launch *launch, uint64_t entered, uint64_t left)
{
	struct state_stream *stream = launch->stream;

	if (launch->is_joining)
		return joined(launch, entered, left);
	if (!look_at_clock(launch, entered, left))
		return false;
	if (__builtin_expect(STATE_LOAD(&stream->launcher) == own_name(), 1)) {
		STATE_STORE(&stream->youngest, launch->youngest);
		counter_add(&stream->launched);
	} else {
		count_and_claim(launch, launch_thread.row.tight == LAUNCH_TIGHT);
	}
	launch_turn(stream);
	/* It has its number: pairs with who looks (flight.h). */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	launch_count(&launch_thread.row.numbered);
	return true;
}

void state_launch_failed(CUresult result)
{
	state_failed(result);
}

/* Where to write down the launch: over itself, over what is good no more, or by turns over one of the two. */
static struct launch_memo *place_for(const struct state_launch *launch, uint32_t number)
{
	struct launch_memo *memos = launch_memos_of(launch->handle, launch->function);
	int i;

	for (i = 0; i < 2; i++)
		if (launch_memo_fits(&memos[i], number, launch->handle, launch->function))
			return &memos[i];
	for (i = 0; i < 2; i++)
		if (STATE_LOAD(&memos[i].stamp) != stamp_now(memos[i].watched))
			return &memos[i];
	return &memos[launch_thread.row.victim++ & 1];
}

void state_launch_remember(const struct state_launch *launch, uint32_t number, uint64_t *calls,
			   void (*real)(void))
{
	struct launch_memo *memo;

	/* Stamp 0: a child that was just forked; its first call will clear all this. */
	if (!launch->stamp || launch_thread.row.tight < LAUNCH_TIGHT ||
	    STATE_LOAD(&launch->stream->launcher) != own_name())
		return;
	memo = place_for(launch, number);
	/* Pairs with the fence below, for this thread's signal handlers. */
	STATE_STORE(&memo->stamp, NO_STAMP);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*memo = (struct launch_memo){
		.number = number,
		.watched = launch->watched,
		.function = launch->function,
		.handle = launch->handle,
		.stamp = NO_STAMP,
		.stream = launch->stream,
		.calls = calls,
		.real = real,
		.youngest = launch->youngest,
	};
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	STATE_STORE(&memo->stamp, launch->stamp);
}

void state_launch_end_row(void)
{
	struct launch_row *row = &launch_thread.row;

	if (!row->tight && !is_untimed(row))
		return;
	if (is_untimed(row))
		(void)settle_row(row, clock_ticks());
	end_habit(row);
}

void state_launch_forget(void)
{
	struct launch_row *row = &launch_thread.row;
	uint32_t i;

	end_row(row);
	row->legacy = NULL;
	for (i = 0; i < LAUNCH_MEMOS; i++)
		STATE_STORE(&launch_thread.memos[i].stamp, NO_STAMP);
}

static void change(enum launch_watch watched)
{
	uint64_t stamp = __atomic_add_fetch(&stamps, 1, __ATOMIC_RELAXED);

	/*
	 * Pairs with the acquire load in stamp_now(). An exchange: who sees the last of several changes
	 * must see what came before each of them.
	 */
	(void)__atomic_exchange_n(&launch_stamps.stamp[watched], stamp, __ATOMIC_ACQ_REL);
}

void state_launch_begin(void)
{
	launch_forget_all();
}

void launch_forget_all(void)
{
	change(LAUNCH_ALWAYS);
	change(LAUNCH_TURN);
}

void launch_turn(const struct state_stream *stream)
{
	struct state_context *context = stream_context(stream);
	enum stream_kind kind = stream_kind(stream);
	uint32_t turn = kind == STREAM_LEGACY;

	if (kind == STREAM_NON_BLOCKING || !context || STATE_LOAD(&context->legacy_turn) == turn)
		return;
	STATE_STORE(&context->legacy_turn, turn);
	change(LAUNCH_TURN);
}

void launch_clear(void)
{
	memset(&launch_thread, 0, sizeof(launch_thread));
	flight_clear();
	launch_forget_all();
}

void launch_release(struct state_stream *stream)
{
	uint64_t own = own_name();

	if (STATE_LOAD(&stream->launcher) != own)
		return;
	/* No launch that is remembered may count on it any more. */
	state_launch_forget();
	/* Pairs with the claim in count_and_claim(): who claims next sees our last `launched`, and adds to it. */
	(void)__atomic_compare_exchange_n(&stream->launcher, &own, 0, false, __ATOMIC_RELEASE,
					  __ATOMIC_RELAXED);
}

void state_launch_bar(struct state_context *context, bool barred)
{
	STATE_STORE(&context->launches_long, barred);
	if (barred)
		launch_forget_all();
}

void state_launch_limits(uint64_t quick_ticks, uint64_t plain_ticks)
{
	STATE_STORE(&quick, quick_ticks);
	STATE_STORE(&plain, plain_ticks);
}
