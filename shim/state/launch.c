// SPDX-License-Identifier: MIT
/*
 * Launch: the short way of a kernel launch (launch.h says why). Relies on the thread's caches of streams and kernels, which the long
 * way (state_before) fills: whatever is not in them is not plain.
 *
 * What the short way leaves out is knowledge, never truth: a legacy launch that joins nothing new and a blocking stream's
 * launch with no new legacy work before it draw no conclusion in order.c either.
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
#include "state/internal.h"
#include "state/state.h"

/* Words of the list of unjoined streams that a launch looks through; more is the long way's business. */
#define WORDS_MAX 4
/* Below it no queue is full: what the rule queue-full asks for (rules.yaml, BACKLOG). */
#define LAUNCH_SHORT_QUEUE 500

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

/* The legacy stream of the thread's current context; NULL: none, or more streams than the short way looks through. */
static struct state_stream *current_legacy(struct state_thread *thread)
{
	struct state_context *context;

	context = context_current();
	if (!context || stream_count() > WORDS_MAX * 64)
		return NULL;
	thread->launch_legacy = context->legacy;
	if (thread->launch_tight == LAUNCH_TIGHT)
		thread->launch_trust = LAUNCH_ROW - 1;
	tidy_unjoined();
	return context->legacy;
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

static inline struct state_stream *known_stream(struct state_thread *thread, CUstream handle)
{
	const struct thread_stream *slot = thread_stream_slot(thread, (uintptr_t)handle);
	struct state_stream *stream = slot->stream;

	if (slot->handle != (uintptr_t)handle || !stream ||
	    __atomic_load_n(&stream->handle, __ATOMIC_ACQUIRE) != (uintptr_t)handle)
		return NULL;
	return stream;
}

static inline bool is_legacy_handle(CUstream handle, bool per_thread)
{
	return handle == CU_STREAM_LEGACY || (!handle && !per_thread);
}

/* No capture, and nothing new that the stream's next operation would be ordered behind? */
static inline bool has_nothing_to_join(const struct state_stream *stream)
{
	const struct state_context *context;

	if (STATE_LOAD(&stream->capture))
		return false;
	switch (stream_kind(stream)) {
	case STREAM_NON_BLOCKING:
		return true;
	case STREAM_LEGACY:
		return !anything_unjoined(stream);
	case STREAM_BLOCKING:
		context = stream_context(stream);
		return context &&
		       stream_submitted(context->legacy) == STATE_LOAD(&stream->legacy_joined);
	default:
		return false;
	}
}

static inline uint64_t operation_of(const struct state_kernel *kernel)
{
	return (uint64_t)OPERATION_KERNEL << 32 | STATE_LOAD(&kernel->name);
}

uint64_t *state_launch_untimed(CUstream handle, CUfunction function, bool per_thread)
{
	struct state_thread *thread = &state_thread;
	const struct state_kernel *kernel;
	struct state_stream *stream;

	if (thread->launch_tight < LAUNCH_TIGHT || thread->launch_untimed >= LAUNCH_ROW - 1)
		return NULL;
	kernel = known_kernel(thread, function);
	if (!kernel)
		return NULL;
	if ((uintptr_t)handle > 2) {
		stream = known_stream(thread, handle);
		if (!stream)
			return NULL;
	} else {
		if (!is_legacy_handle(handle, per_thread) || !thread->launch_trust)
			return NULL;
		stream = thread->launch_legacy;
		thread->launch_trust--;
	}
	if (STATE_LOAD(&stream->launcher) != own_name() || !is_short_queue(stream) ||
	    !has_nothing_to_join(stream))
		return NULL;
	thread->launch_untimed++;
	/* A moment early: before the launch it says what comes next. */
	STATE_STORE(&stream->youngest, operation_of(kernel));
	return &stream->launched;
}

bool state_launch_is_plain(CUstream handle, CUfunction function, bool per_thread,
			   struct state_launch *ret_launch)
{
	struct state_thread *thread = &state_thread;
	const struct state_kernel *kernel = known_kernel(thread, function);
	struct state_stream *stream;

	if (!kernel)
		return false;
	if ((uintptr_t)handle > 2)
		stream = known_stream(thread, handle);
	else
		stream = is_legacy_handle(handle, per_thread) ? current_legacy(thread) : NULL;
	if (!stream || !has_nothing_to_join(stream))
		return false;
	ret_launch->youngest = operation_of(kernel);
	ret_launch->stream = stream;
	/* The last of a row; what comes before it had the untimed way. */
	ret_launch->clock = thread->launch_tight == LAUNCH_TIGHT && thread->launch_untimed &&
					    is_short_queue(stream)
				    ? LAUNCH_READ_LEFT
				    : LAUNCH_READ_BOTH;
	return true;
}

/* The long count of a launch, and the claim of the stream where this thread launches in a row. */
static __attribute__((noinline)) void count_and_claim(const struct state_launch *launch, bool claim)
{
	struct state_stream *stream = launch->stream;
	uint64_t nobody = 0;

	/* Before order_number() looks at the lists: pairs with pending_take_out(), which clears a bit and looks at the launcher then. */
	if (claim)
		(void)__atomic_compare_exchange_n(&stream->launcher, &nobody, own_name(), false,
						  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	(void)order_number(stream, launch->youngest);
}

/* The launches since launch_left are behind us. False: together they took as long as a finding. */
static bool settle_row(struct state_thread *thread, uint64_t now)
{
	if (!thread->launch_untimed)
		return true;
	thread->launch_untimed = 0;
	if (now - thread->launch_left < STATE_LOAD(&plain))
		return true;
	emit_note(NOTE_UNTIMED, "launches in a row with a pause in it");
	return false;
}

static void end_habit(struct state_thread *thread)
{
	thread->launch_tight = 0;
	thread->launch_trust = 0;
}

/* False: it took long. */
static __attribute__((noinline)) bool look_at_clock(const struct state_launch *launch,
						    uint64_t entered, uint64_t left)
{
	struct state_thread *thread = &state_thread;
	bool is_row = settle_row(thread, launch->clock == LAUNCH_READ_BOTH ? entered : left);
	bool is_soon = left - thread->launch_left < STATE_LOAD(&plain) / LAUNCH_ROW;

	thread->launch_left = left;
	if (launch->clock == LAUNCH_READ_LEFT) {
		if (!is_row)
			end_habit(thread);
		return true;
	}
	if (!is_row || !is_soon)
		end_habit(thread);
	else if (thread->launch_tight < LAUNCH_TIGHT)
		thread->launch_tight++;
	return left - entered < STATE_LOAD(&quick);
}

bool state_launch_done(const struct state_launch *launch, uint64_t entered, uint64_t left)
{
	struct state_stream *stream = launch->stream;

	/* The one that reads the clock for the row is of the row. */
	state_thread.launch_untimed += launch->clock == LAUNCH_READ_LEFT;
	if (!look_at_clock(launch, entered, left))
		return false;
	if (__builtin_expect(STATE_LOAD(&stream->launcher) == own_name(), 1)) {
		STATE_STORE(&stream->youngest, launch->youngest);
		STATE_STORE(&stream->launched, STATE_LOAD(&stream->launched) + 1);
	} else {
		count_and_claim(launch, state_thread.launch_tight == LAUNCH_TIGHT);
	}
	return true;
}

void state_launch_end_row(void)
{
	struct state_thread *thread = &state_thread;

	if (!thread->launch_tight)
		return;
	if (thread->launch_untimed)
		(void)settle_row(thread, clock_ticks());
	end_habit(thread);
}

void launch_release(struct state_stream *stream)
{
	uint64_t own = own_name();

	(void)__atomic_compare_exchange_n(&stream->launcher, &own, 0, false, __ATOMIC_RELEASE,
					  __ATOMIC_RELAXED);
}

void state_launch_limits(uint64_t quick_ticks, uint64_t plain_ticks)
{
	STATE_STORE(&quick, quick_ticks);
	STATE_STORE(&plain, plain_ticks);
}
