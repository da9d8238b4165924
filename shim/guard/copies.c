// SPDX-License-Identifier: MIT
/*
 * Guard, copies: which copies are guarded, and which pages of them (guard.h). Called by calls.c when a copy was submitted.
 */
#include "guard/internal.h"

#include "check/access.h"
#include "check/memory_kinds.h"
#include "emit/emit.h"
#include "state/state.h"

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
	bool is_destination = check_is_pinned(call->destination_kind);
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
	if (guard_has_given_up() || guard.end <= guard.begin)
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

void guard_copied(const struct call *call)
{
	bool from = check_may_be_host(call->source_kind),
	     to = check_may_be_host(call->destination_kind);
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
	if (!check_is_pinned(call->source_kind) && !check_is_pinned(call->destination_kind))
		return;
	if (is_guarded_form(call))
		guard_copy(call);
	else
		check_lost(
			"guard: a copy was not followed: rows, peers or batches" NOTE_CHECK_HIDES);
}
