// SPDX-License-Identifier: MIT
/*
 * Guard, calls: which copies are guarded, and by which calls of the program the host can know that they have finished (guard.h). Called by check's
 * table of rules, around each driver call; and by fault.c and the hooks for accesses.
 *
 * The host knows by what the program asked: waits and queries, and what orders streams behind each other (edges.c). It may also hear of the end
 * from work that runs behind the copy and can reach it: a host function, a graph, a value that is written, a kernel that was given an address of
 * host memory. What those say cannot be seen, so they end the guards that they come behind.
 */
#include "guard/guard.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "check/access.h"
#include "check/kinds.h"
#include "config.h"
#include "driver/find.h"
#include "emit/emit.h"
#include "guard/internal.h"
#include "state/proof.h"
#include "state/state.h"
#include "sync/site.h"

bool guard_on;

static const char *given_up; /* why nothing is guarded any more */

/* Of this thread's call that goes on. */
static __thread struct {
	uint32_t calls; /* it is in the driver */
	uint64_t event;
	struct state_stands_for stands_for;
	struct state_stands_for timed[2]; /* of the two events whose times are asked for */
} own __attribute__((tls_model("initial-exec")));

static bool has_given_up(void)
{
	return __atomic_load_n(&given_up, __ATOMIC_RELAXED) != NULL;
}

bool guard_in_driver(void)
{
	return own.calls != 0;
}

void guard_give_up(const char *why)
{
	struct guard_held held;

	if (__atomic_exchange_n(&given_up, why, __ATOMIC_RELAXED))
		return;
	/* Told first: in a signal handler the lock may not be had. What is guarded then ends with the next call. */
	check_lost(why);
	if (!guard_lock(&held))
		return;
	guard_end_all();
	guard_unlock(&held);
}

static void end_all(void)
{
	struct guard_held held;

	if (!guard_count || !guard_lock(&held))
		return;
	guard_end_all();
	guard_unlock(&held);
}

/* ---- accesses ---- */

bool guard_accessed(uint64_t begin, uint64_t end, bool is_write, bool is_free,
		    struct guard_finds *finds)
{
	bool is_any = false;
	uint32_t i;

	/* What is known complete by now is no find. */
	guard_sweep();
	for (i = guard_count; i-- > 0;) {
		const struct guard *guard = guard_at(i);

		if (guard->begin >= end || begin >= guard->end ||
		    !(guard->is_destination || is_write || is_free))
			continue;
		is_any = true;
		if (finds->count < GUARD_FINDS)
			finds->find[finds->count++] = (struct guard_find){
				.is_destination = guard->is_destination,
				.is_write = is_write,
				.is_free = is_free,
				.bytes = guard->end - guard->begin,
				.side = guard->side,
			};
		guard_end(i);
	}
	return is_any;
}

static uint32_t host_function(const struct guard_find *find)
{
	if (find->is_free)
		return RECORD_HOST_FREE;
	return find->is_write ? RECORD_HOST_WRITE : RECORD_HOST_READ;
}

static bool is_in_driver(uint32_t site)
{
	const char *slash = strrchr(driver_image.path, '/');
	const char *name = slash ? slash + 1 : driver_image.path;

	return *name && site_in_file(site, name, strlen(name));
}

static void tell(const struct guard_find *find, const struct check_side *here)
{
	check_remark_at(here, find->bytes,
			find->is_destination && !find->is_free ? RULE_EARLY_HOST_READ
							       : RULE_EARLY_HOST_WRITE,
			&find->side);
}

void guard_tell(const struct guard_finds *finds, const struct check_side *here)
{
	uint32_t i;

	for (i = 0; i < finds->count; i++)
		tell(&finds->find[i], here);
}

void guard_tell_access(const struct guard_finds *finds, uint32_t site)
{
	struct check_side here = {.site = site};
	uint32_t i;

	/* A thread of the driver's own, or what runs on one. */
	if (is_in_driver(site))
		return;
	for (i = 0; i < finds->count; i++) {
		here.function = host_function(&finds->find[i]);
		tell(&finds->find[i], &here);
	}
}

/* ---- copies ---- */

/* Of bytes in a row, at this end. */
static bool is_guarded_form(const struct call *call)
{
	switch (call->function) {
	case FUNCTION_cuMemcpyAsync:
	case FUNCTION_cuMemcpyAsync_ptsz:
	case FUNCTION_cuMemcpyHtoDAsync:
	case FUNCTION_cuMemcpyHtoDAsync_v2:
	case FUNCTION_cuMemcpyHtoDAsync_v2_ptsz:
	case FUNCTION_cuMemcpyDtoHAsync:
	case FUNCTION_cuMemcpyDtoHAsync_v2:
	case FUNCTION_cuMemcpyDtoHAsync_v2_ptsz:
	case FUNCTION_cuMemcpyHtoAAsync:
	case FUNCTION_cuMemcpyHtoAAsync_v2:
	case FUNCTION_cuMemcpyHtoAAsync_v2_ptsz:
	case FUNCTION_cuMemcpyAtoHAsync:
	case FUNCTION_cuMemcpyAtoHAsync_v2:
	case FUNCTION_cuMemcpyAtoHAsync_v2_ptsz:
		return true;
	default:
		return false;
	}
}

static bool is_pinned(uint8_t kind)
{
	return kind == MEMORY_PINNED || kind == MEMORY_REGISTERED;
}

static bool is_host(uint8_t kind)
{
	return is_pinned(kind) || kind == MEMORY_PAGEABLE || kind == MEMORY_MANAGED ||
	       kind == MEMORY_UNKNOWN;
}

/*
 * The pages to protect. Pinned memory has its pages to itself. What is registered may share its first and its last page with things that the
 * library or the kernel must be able to reach at any time (a lock, a buffer of a system call): these two are left out then.
 */
static bool find_pages(struct guard *guard, enum memory_kind kind)
{
	uint64_t start = 0, bytes = 0;

	if (state_block_at(guard->begin, &start, &bytes) != kind || guard->begin - start > bytes ||
	    guard->end - guard->begin > bytes - (guard->begin - start))
		return false;
	guard->block = start;
	guard->pages = guard_page_of(guard->begin);
	guard->pages_end = guard_page_end(guard->end);
	if (kind == MEMORY_PINNED)
		return true;
	if (guard->pages < start)
		guard->pages += GUARD_PAGE;
	if (guard->pages_end > start + bytes)
		guard->pages_end -= GUARD_PAGE;
	return guard->pages < guard->pages_end;
}

static void guard_copy(const struct call *call)
{
	bool is_destination = is_pinned(call->destination_kind);
	struct guard guard = {
		.begin = is_destination ? call->destination : call->source,
		.is_destination = is_destination,
		.marks = 1,
		.mark = {{call->stream, call->submission}},
		.is_mixed = call->stream_kind == STREAM_LEGACY,
	};
	struct guard_held held;
	bool is_added;

	guard.end = guard.begin + call->bytes;
	if (has_given_up() || guard.end <= guard.begin)
		return;
	if (!find_pages(&guard, is_destination ? call->destination_kind : call->source_kind)) {
		check_lost("guard: a copy was not followed: no whole page of registered memory, or "
			   "not one block" NOTE_CHECK_HIDES);
		return;
	}
	guard.side = check_side_take(call);
	if (!guard_lock(&held))
		return;
	/* Another thread may have waited for it by now. */
	is_added = state_completed(call->stream) >= call->submission || guard_add(&guard);
	guard_unlock(&held);
	if (!is_added)
		check_lost("guard: a copy was not followed: too many at once, or its pages cannot "
			   "be protected" NOTE_CHECK_HIDES);
}

static void copied(const struct call *call)
{
	bool from = is_host(call->source_kind), to = is_host(call->destination_kind);
	struct guard_held held;

	if (catalogue_rows[call->function].flags & CATALOGUE_SEVERAL) {
		check_lost(
			"guard: a copy was not followed: rows, peers or batches" NOTE_CHECK_HIDES);
		return;
	}
	if (!call->bytes || !call->stream || !call->submission)
		return;
	/* What is done when it returns tells the host of all that its stream did before. */
	if (!(call->flags & CALL_ASYNC) || call->flags & CALL_SYNC_MEMOPS ||
	    call->destination_kind == MEMORY_PAGEABLE || (from && to)) {
		if (guard_count && (from || to || call->flags & CALL_SYNC_MEMOPS) &&
		    guard_lock(&held)) {
			guard_wait_over(call->stream, call->submission);
			guard_unlock(&held);
		}
		return;
	}
	if (!is_pinned(call->source_kind) && !is_pinned(call->destination_kind))
		return;
	if (is_guarded_form(call))
		guard_copy(call);
	else
		check_lost(
			"guard: a copy was not followed: rows, peers or batches" NOTE_CHECK_HIDES);
}

/* ---- what the host may hear of ---- */

static bool is_host_address(uint64_t word)
{
	uint64_t start, bytes;

	switch (state_block_at(word, &start, &bytes)) {
	case MEMORY_PINNED:
	case MEMORY_REGISTERED:
	case MEMORY_MANAGED:
	case MEMORY_UNKNOWN:
		return true;
	default:
		return false;
	}
}

static bool may_tell(const struct call *call, const uint64_t *arguments)
{
	switch (call->operation) {
	case OPERATION_KERNEL:
		/* It may write where the host reads. */
		return parameters_may_hold(call, arguments, is_host_address);
	case OPERATION_COPY:
	case OPERATION_EVENT_WAIT:
	case OPERATION_ALLOCATION:
		return false;
	case OPERATION_MEMSET:
		return is_host(call->destination_kind);
	default:
		return true;
	}
}

/* Does it wait for something that is not known? */
static bool waits_for_anything(const struct call *call)
{
	return call->operation == OPERATION_MEMORY_OP || call->operation == OPERATION_GRAPH ||
	       call->operation == OPERATION_OTHER;
}

static void submitted(const struct call *call, const uint64_t *arguments)
{
	const struct guard_mark by = {call->stream, call->submission};
	struct guard_mark of = {own.stands_for.stream, own.stands_for.number};
	bool tells, is_same;
	struct state_stands_for now;
	struct guard_held held;

	if (!guard_count)
		return;
	if (!call->stream || !call->submission) {
		end_all();
		return;
	}
	tells = may_tell(call, arguments);
	/* A kernel or a copy on the program's own stream is behind nothing new. */
	if (!tells && call->stream_kind != STREAM_LEGACY &&
	    call->operation != OPERATION_EVENT_WAIT && !waits_for_anything(call))
		return;
	now = state_event_stands_for(own.event);
	is_same = own.event && now.is_known && own.stands_for.is_known && now.stream == of.stream &&
		  now.number == of.number;
	if (!guard_lock(&held))
		return;
	if (call->stream_kind == STREAM_LEGACY)
		guard_mixes();
	if (call->operation == OPERATION_EVENT_WAIT && !is_same)
		guard_goes_on(&by, NULL);
	else if (call->operation == OPERATION_EVENT_WAIT && of.stream)
		guard_goes_on(&by, &of);
	else if (waits_for_anything(call))
		guard_goes_on(&by, NULL);
	if (tells)
		guard_may_tell(&by);
	guard_unlock(&held);
}

/* ---- what the host asks ---- */

static bool asks_for_event(const struct call *call)
{
	return check_waits_for_event(call) || check_queries_event(call);
}

static bool asks_for_stream(const struct call *call)
{
	return check_waits_for_stream(call) || check_queries_stream(call);
}

/* Times are there: both events are complete. */
static void timed(const uint64_t *arguments)
{
	struct state_stands_for now;
	struct guard_held held;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		now = state_event_stands_for(arguments[1 + i]);
		if (!now.is_known || !own.timed[i].is_known || now.stream != own.timed[i].stream ||
		    now.number != own.timed[i].number) {
			end_all();
		} else if (now.stream && guard_lock(&held)) {
			guard_wait_over(now.stream, now.number);
			guard_unlock(&held);
		}
	}
}

static void observed(const struct call *call)
{
	struct state_stands_for now;
	struct guard_held held;

	if (!guard_count)
		return;
	if (asks_for_event(call)) {
		now = state_event_stands_for(own.event);
		if (!now.is_known || !own.stands_for.is_known ||
		    now.stream != own.stands_for.stream || now.number != own.stands_for.number) {
			end_all();
		} else if (now.stream && guard_lock(&held)) {
			guard_wait_over(now.stream, now.number);
			guard_unlock(&held);
		}
	} else if (asks_for_stream(call) && call->stream && !(call->flags & CALL_CAPTURED)) {
		if (guard_lock(&held)) {
			/* All blocking streams were waited for, too. */
			if (call->stream_kind == STREAM_LEGACY)
				guard_mixes();
			guard_wait_over(call->stream, call->entry_number);
			guard_unlock(&held);
		}
	} else if (!(call->flags & CALL_CAPTURED)) {
		/* A context's, or one that nobody knows. */
		end_all();
	}
}

/* What drains the device, or is something else that may wait. */
static bool may_wait(const struct call *call)
{
	switch (catalogue_rows[call->function].kind) {
	case CATALOGUE_KIND_FREE:
	case CATALOGUE_KIND_REGISTER:
		return !call->operation;
	case CATALOGUE_KIND_IPC:
	case CATALOGUE_KIND_EXTERNAL:
	case CATALOGUE_KIND_GRAPHICS:
		return !call->operation;
	default:
		return false;
	}
}

/* ---- around a call ---- */

static bool frees_host(const struct call *call)
{
	return call->function == FUNCTION_cuMemFreeHost ||
	       call->function == FUNCTION_cuMemHostUnregister;
}

/* A block of the host's goes, and copies of it are under way. */
static void freeing(const struct call *call, uint64_t block)
{
	struct guard_finds finds = {0};
	struct guard_held held;
	struct check_side side;
	uint32_t i;

	if (!guard_lock(&held))
		return;
	guard_sweep();
	for (i = guard_count; i-- > 0;)
		if (guard_at(i)->block == block) {
			guard_accessed(guard_at(i)->begin, guard_at(i)->end, true, true, &finds);
			i = guard_count;
		}
	guard_forget_plain(block, block + 1);
	guard_unlock(&held);
	if (!finds.count)
		return;
	side = check_side_take(call);
	guard_tell(&finds, &side);
}

static void before(const struct call *call, const uint64_t *arguments)
{
	struct guard_held held;

	if (!guard_on)
		return;
	if (has_given_up()) {
		end_all();
		return;
	}
	if (guard_is_open_anywhere() && guard_lock(&held)) {
		guard_close_opened();
		guard_unlock(&held);
	}
	if (frees_host(call) && guard_count)
		freeing(call, arguments[0]);
	/* Its memory may go with a context: later the pages may be somebody else's. */
	if (check_ends_context(call))
		end_all();
	own.event = 0;
	if (check_takes_time(call)) {
		own.timed[0] = state_event_stands_for(arguments[1]);
		own.timed[1] = state_event_stands_for(arguments[2]);
	}
	switch (catalogue_rows[call->function].kind) {
	case CATALOGUE_KIND_EVENT:
	case CATALOGUE_KIND_WAIT:
	case CATALOGUE_KIND_QUERY:
		own.event = call->subject;
		if (own.event)
			own.stands_for = state_event_stands_for(own.event);
		break;
	default:
		break;
	}
	own.calls = 1;
}

static bool is_wait(const struct call *call)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];

	return row->kind == CATALOGUE_KIND_WAIT ||
	       (row->kind == CATALOGUE_KIND_QUERY && row->flags & CATALOGUE_HAS_RESULT);
}

/* An event was recorded, or a whole context waits for one. */
static void event_changed(const struct call *call)
{
	struct guard_held held;

	if (call->operation == OPERATION_EVENT_WAIT || call->flags & CALL_CAPTURED)
		return;
	/* A context's, or one that another process may see, and tell of. */
	if (call->stream_form == CALL_STREAM_CONTEXT || !call->stream ||
	    (call->subject && state_event_is_foreign(call->subject))) {
		if (call->subject)
			end_all();
		return;
	}
	/* Behind all blocking streams. */
	if (call->stream_kind == STREAM_LEGACY && guard_lock(&held)) {
		guard_mixes();
		guard_unlock(&held);
	}
}

static void learn(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct guard_held held;

	if (!guard_on || has_given_up())
		return;
	if (state_is_doubted()) {
		guard_give_up("guard is off: calls went past the library, or a context "
			      "failed" NOTE_CHECK_HIDES);
		return;
	}
	/* What only submits tells the host nothing. */
	if (guard_count && !(call->flags & CALL_ASYNC) &&
	    catalogue_rows[call->function].kind != CATALOGUE_KIND_EVENT && guard_lock(&held)) {
		guard_sweep();
		guard_unlock(&held);
	}
	if (result != CUDA_SUCCESS)
		return;
	/* Else a rule of order does so. */
	if (!(config.check & CONFIG_CHECK_ORDER))
		parameters_named(call, arguments);
	if (guard_count && check_takes_time(call))
		timed(arguments);
	else if (is_wait(call))
		observed(call);
	else if (guard_count && may_wait(call))
		end_all();
	else if (guard_count && catalogue_rows[call->function].kind == CATALOGUE_KIND_EVENT)
		event_changed(call);
	if (call->flags & CALL_CAPTURED)
		return;
	if (call->operation)
		submitted(call, arguments);
	if (call->operation == OPERATION_COPY)
		copied(call);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	learn(call, arguments, result);
	own.calls = 0;
}

/* ---- forks ---- */

/* Of the thread that forks, from before to after: the child must find the table whole. */
static __thread struct {
	struct guard_held held;
	bool is_held;
} forking __attribute__((tls_model("initial-exec")));

static void fork_begins(void)
{
	forking.is_held = guard_lock(&forking.held);
}

static void fork_is_over(void)
{
	if (forking.is_held)
		guard_unlock(&forking.held);
}

/* The child cannot use CUDA, and its pages are its own. */
static void forget(void)
{
	guard_on = false;
	own.calls = 0;
	guard_table_forget();
}

static void child_begins(void)
{
	fork_is_over();
	forget();
}

/* ---- the beginning ---- */

static const struct check_rule rule = {.before = before, .after = after, .forget = forget};

/*
 * From the beginning on: a call that is in the kernel with a buffer of the program's must be known when that becomes one that is guarded.
 */
void guard_start(void)
{
	struct guard_link *link;

	if (config.mode != CONFIG_OBSERVE || !(config.check & CONFIG_CHECK_GUARD))
		return;
	link = guard_find_link();
	if (!link || !guard_catch(link)) {
		check_lost(link ? "guard is off: no handler for SIGSEGV could be "
				  "installed" NOTE_CHECK_HIDES
				: "guard is off: libslipstream-guard.so is not "
				  "preloaded" NOTE_CHECK_HIDES);
		return;
	}
	pthread_atfork(fork_begins, fork_is_over, child_begins);
	__atomic_store_n(&guard_on, true, __ATOMIC_RELAXED);
	check_add(&rule);
}
