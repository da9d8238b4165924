// SPDX-License-Identifier: MIT
/*
 * Live: what the program has by which the host could notice that a copy did not wait for its stream (place.h). Called by state_after(),
 * the wrappers of what brings host code into graphs, and the rewrites of copies.
 *
 * Only the program's own things count: what the shim makes for itself goes past the wrappers. Where an end cannot be followed, a thing
 * counts for good.
 *
 * Who writes, who reads:
 *	lasting			whoever comes first; read by anyone, for ever
 *	loose			set by who makes such a stream, for good; read by anyone
 *	functions		the same of a host function
 *	stream.host_function	who submits, atomic maximum; read by anyone
 *	globals			set by whoever asked for one; read by anyone, for ever
 *	changes			whoever makes something new, atomic add; read by anyone
 */
#include "state/internal.h"
#include "state/place.h"
#include "state/proof.h"
#include "state/state.h"

static const char *lasting;
static uint32_t loose;     /* a stream outside legacy order was made */
static uint32_t functions; /* a host function was submitted */
static uint32_t globals;   /* a variable of a module was asked for */
/* Of what can begin to work elsewhere, or be seen by others, since the process began. */
static uint64_t changes;

void live_changed(void)
{
	/* Before the call returns by which the program could use it: who compares behind a wait that this has ended sees it. */
	__atomic_fetch_add(&changes, 1, __ATOMIC_SEQ_CST);
}

uint64_t state_source_mark(void)
{
	return __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
}

void state_global_asked(struct call *call)
{
	STATE_STORE(&globals, 1);
	live_changed();
}

void state_outside(struct call *call)
{
	state_host_code("order: something outside the process may be waited for");
}

void state_host_code(const char *what)
{
	const char *none = NULL;

	__atomic_compare_exchange_n(&lasting, &none, what, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	live_changed();
}

void live_stream_made(enum stream_kind kind)
{
	if (kind == STREAM_NON_BLOCKING || kind == STREAM_UNKNOWN)
		STATE_STORE(&loose, 1);
	live_changed();
}

void live_host_function(const struct call *call)
{
	uint64_t seen;

	if (call->flags & CALL_CAPTURED || !call->stream) {
		state_host_code("order: a graph has a host node");
		return;
	}
	seen = STATE_LOAD(&call->stream->host_function);
	while (seen < call->submission &&
	       !__atomic_compare_exchange_n(&call->stream->host_function, &seen, call->submission,
					    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	STATE_STORE(&functions, 1);
	live_changed();
}

/* A destroyed stream is live as long as its work. */
static const char *noticed_by(const struct state_stream *stream)
{
	enum stream_kind kind = stream_kind(stream);

	if ((kind == STREAM_NON_BLOCKING || kind == STREAM_UNKNOWN) &&
	    (STATE_LOAD(&stream->handle) || stream_is_pending(stream)))
		return "order: a non-blocking stream is there";
	if (STATE_LOAD(&stream->host_function) > STATE_LOAD(&stream->completed))
		return "order: a host function, a graph or a batch may not have run yet";
	return NULL;
}

const char *state_noticeable(const struct call *call)
{
	const char *what = STATE_LOAD(&lasting);
	uint32_t i, count;

	if (what)
		return what;
	if (call->stream_kind != STREAM_LEGACY)
		return "order: other streams do not wait for the thread's own";
	if (context_others(call->context))
		return "order: there is another context";
	if (STATE_LOAD(&globals))
		return "order: a variable of a module may be managed memory";
	if (memory_host_reads())
		return "order: there is host memory that the device can write";
	if (memory_others_read())
		return "order: there is memory that other processes see";
	if (!STATE_LOAD(&loose) && !STATE_LOAD(&functions))
		return NULL;
	count = stream_count();
	for (i = 0; i < count && !what; i++)
		what = noticed_by(stream_at(i));
	return what;
}

/*
 * What could order a write of the host before work that is under way: work elsewhere that goes on meanwhile and that the work waits for. Later work
 * of blocking streams waits for the legacy stream, so it is enough that only that one has work. A variable of a module may be managed memory, which a
 * kernel waits for. What another thread is submitting may be a host function that runs already.
 */
bool state_source_is_settled(const struct call *call)
{
	uint32_t i;

	if (state_is_flying())
		return false;
	if (call->pending_count > CALL_PENDING_MAX || state_noticeable(call))
		return false;
	for (i = 0; i < call->pending_count; i++)
		if (stream_kind(call->pending[i].stream) != STREAM_LEGACY)
			return false;
	return true;
}

bool state_works_in_current(const struct call *call)
{
	return call->stream && call->context && call->stream_kind != STREAM_UNKNOWN &&
	       stream_context(call->stream) == call->context && call->context == context_current();
}

int state_device(const struct call *call)
{
	return call->context->device;
}

/* Only for a forked child: nobody else is there. */
void live_clear(void)
{
	STATE_STORE(&lasting, NULL);
	STATE_STORE(&loose, 0);
	STATE_STORE(&functions, 0);
	STATE_STORE(&globals, 0);
}
