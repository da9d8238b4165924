// SPDX-License-Identifier: MIT
/*
 * Guard, kernel: memory that the program hands to the kernel, through the C library's functions (hooks.h). Called by libslipstream-guard.so.
 * What the kernel touches is an access of the program's; and for the duration of the call its pages are not protected, whoever guards what.
 */
#include "guard/internal.h"

#include <errno.h>

#include "sync/site.h"

/* Above all that a process can have. */
#define ADDRESS_MAX (UINT64_C(1) << 57)

static void begin(struct guard_span *span, const void *bytes, size_t size, enum guard_access access,
		  const void *return_address)
{
	uint64_t from = (uintptr_t)bytes, to = from + size;
	struct guard_finds finds;
	struct guard_held held;
	int saved_errno = errno;

	/* What wraps around, or lies at the end of all addresses, the kernel refuses. */
	if (to <= from || to > ADDRESS_MAX)
		return;
	if (span->parts < GUARD_PARTS) {
		bool is_last = span->parts == GUARD_PARTS - 1;

		span->slot[span->parts++] =
			is_last ? guard_span_take_all() : guard_span_take(from, to);
	}
	/* Pairs with the count of guards, which is stored before spans are looked at. */
	if (!__atomic_load_n(&guard_count, __ATOMIC_SEQ_CST) || !guard_was_near(from, to))
		return;
	finds.count = 0;
	if (guard_lock(&held)) {
		if (!guard_in_driver())
			guard_accessed(from, to, access == GUARD_WRITES, false, &finds);
		if (guard_has_pages(guard_page_of(from), to))
			guard_apply(from, to);
		guard_unlock(&held);
		if (finds.count)
			guard_tell_access(&finds, site_take(return_address, NULL));
	}
	errno = saved_errno;
}

static void end(struct guard_span *span)
{
	uint32_t i;

	for (i = 0; i < span->parts; i++)
		guard_span_give(span->slot[i]);
	span->parts = 0;
}

static void gone(const void *address, size_t size, bool is_free, const void *return_address)
{
	uint64_t from = (uintptr_t)address, to = from + size;
	struct guard_finds finds;
	struct guard_held held;
	int saved_errno = errno;
	uint32_t i;

	if (to <= from || !guard_was_near(from, to) || !guard_lock(&held))
		return;
	finds.count = 0;
	guard_forget_plain(from, to);
	if (is_free && !guard_in_driver())
		guard_accessed(from, to, true, true, &finds);
	/* Of what shares a page, too: the protection is the program's from here on. */
	for (i = guard_count; i-- > 0;)
		if (guard_at(i)->pages < to && from < guard_at(i)->pages_end)
			guard_end(i);
	guard_unlock(&held);
	if (finds.count)
		guard_tell_access(&finds, site_take(return_address, NULL));
	errno = saved_errno;
}

static bool is_near(const void *address, size_t size)
{
	uint64_t from = (uintptr_t)address;

	return guard_count && guard_was_near(from, from + size);
}

const struct guard_hooks guard_hooks = {
	.begin = begin,
	.end = end,
	.gone = gone,
	.is_near = is_near,
	.action = guard_action,
};
