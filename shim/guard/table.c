// SPDX-License-Identifier: MIT
/*
 * Guard, the table: copies under way, and what that makes of the protection of their pages (internal.h). Called by the other files of the room.
 *
 * What a page may be is computed anew each time, from all that there is: guards, pages opened by an access beside a guard, and pages that are the
 * kernel's for the duration of a call. Only memory is guarded that can be read and written (a look at the mappings, remembered for each block), so
 * that what is taken away can be given back.
 *
 *	guards, opened, plain	under the lock
 *	guard_count, nearest, opened_count	written under the lock; read by anyone, as a hint
 *	guard_openings		counted up under the lock, behind each change of pages (release); read by the handler (acquire)
 *	spans, span_crowd	taken and given back by anyone, compare and swap and adds. Who takes one sees the guards, or who guards sees the span.
 *	is_stale		set by anyone who gives a span back (release), and under the lock where a page is pushed out of `opened`; cleared under the
 *				lock by guard_close_opened() (acquire), which then sees that span gone
 */
#include "guard/internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "emit/lock.h"
#include "uncancelled.h"

#define GUARDS_MAX 256
#define OPENED_MAX 64
#define SPANS_MAX  512
#define PLAIN_MAX  64
/* Signals as the kernel's call counts them. */
#define SIGNALS_ALL UINT64_MAX

static struct lock lock = LOCK_INITIALIZER(LOCK_GUARD);

static struct guard guards[GUARDS_MAX];
uint32_t guard_count;
uint64_t guard_openings;

static uint64_t opened[OPENED_MAX];
static uint32_t opened_count;

static struct span {
	uint64_t begin, end; /* end 0: free */
} spans[SPANS_MAX];
static uint32_t span_crowd; /* spans that found no room */
static uint32_t is_stale;   /* a span was given back in whose pages there are guards */

static struct {
	uint64_t first, end;
} nearest = {UINT64_MAX, 0};

static struct plain {
	uint64_t begin, end;
} plain[PLAIN_MAX];
static uint32_t plain_next;

bool guard_lock(struct guard_held *ret_held)
{
	const uint64_t all = SIGNALS_ALL;

	/* Before the lock: a handler could wait for it, by an access of its own, in the thread that has it. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &ret_held->signals, sizeof(all));
	if (lock_take(&lock))
		return true;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &ret_held->signals, NULL, sizeof(all));
	return false;
}

void guard_unlock(const struct guard_held *held)
{
	lock_give(&lock);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &held->signals, NULL, sizeof(held->signals));
}

struct guard *guard_at(uint32_t index)
{
	return index < guard_count ? &guards[index] : NULL;
}

/* ---- what the mappings say ---- */

struct mapping {
	uint64_t begin, end;
	bool is_plain;
};

static bool parse_number(const char **at, uint64_t *ret_number)
{
	const char *from = *at;

	*ret_number = 0;
	for (;; (*at)++) {
		if (**at >= '0' && **at <= '9')
			*ret_number = *ret_number << 4 | (uint64_t)(**at - '0');
		else if (**at >= 'a' && **at <= 'f')
			*ret_number = *ret_number << 4 | (uint64_t)(**at - 'a' + 10);
		else
			return *at > from;
	}
}

static bool parse_mapping(const char *line, struct mapping *ret_mapping)
{
	if (!parse_number(&line, &ret_mapping->begin) || *line++ != '-' ||
	    !parse_number(&line, &ret_mapping->end) || *line++ != ' ')
		return false;
	ret_mapping->is_plain = line[0] == 'r' && line[1] == 'w' && line[2] == '-';
	return true;
}

/* Is every page of it readable and writable memory that cannot be executed? */
static bool look_at_mappings(uint64_t begin, uint64_t end)
{
	char bytes[1024];
	size_t kept = 0;
	ssize_t got;
	int file = uncancelled_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);

	if (file < 0)
		return false;
	while (begin < end) {
		struct mapping mapping;
		char *line_end;

		got = uncancelled_read(file, bytes + kept, sizeof(bytes) - 1 - kept);
		if (got <= 0)
			break;
		kept += (size_t)got;
		bytes[kept] = '\0';
		while (begin < end && (line_end = memchr(bytes, '\n', kept))) {
			if (parse_mapping(bytes, &mapping) && mapping.end > begin) {
				if (mapping.begin > begin || !mapping.is_plain) {
					uncancelled_close(file);
					return false;
				}
				begin = mapping.end;
			}
			kept -= (size_t)(line_end + 1 - bytes);
			memmove(bytes, line_end + 1, kept);
		}
		/* Of a long line the name is not needed: its head stays what it was, its end is looked for. */
		if (kept == sizeof(bytes) - 1)
			kept = 100;
	}
	uncancelled_close(file);
	return begin >= end;
}

static bool is_plain_memory(uint64_t begin, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < PLAIN_MAX; i++)
		if (plain[i].begin <= begin && plain[i].end >= end)
			return true;
	if (!look_at_mappings(begin, end))
		return false;
	plain[plain_next++ % PLAIN_MAX] = (struct plain){begin, end};
	return true;
}

void guard_forget_plain(uint64_t begin, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < PLAIN_MAX; i++)
		if (plain[i].begin < end && begin < plain[i].end)
			plain[i] = (struct plain){0, 0};
}

/* ---- protection ---- */

static void limit(uint64_t at, uint64_t boundary, uint64_t *next)
{
	if (boundary > at && boundary < *next)
		*next = boundary;
}

/* What the pages from `at` on may be, and up to where that is so. */
static int wanted(uint64_t at, uint64_t *next)
{
	int protection = PROT_READ | PROT_WRITE;
	bool is_open = __atomic_load_n(&span_crowd, __ATOMIC_SEQ_CST) != 0;
	uint32_t i;

	for (i = 0; i < guard_count; i++) {
		limit(at, guards[i].pages, next);
		limit(at, guards[i].pages_end, next);
		if (at >= guards[i].pages && at < guards[i].pages_end)
			protection = guards[i].is_destination ? PROT_NONE : protection & PROT_READ;
	}
	for (i = 0; i < opened_count; i++) {
		limit(at, opened[i], next);
		limit(at, opened[i] + GUARD_PAGE, next);
		is_open |= at == opened[i];
	}
	for (i = 0; i < SPANS_MAX; i++) {
		uint64_t end = __atomic_load_n(&spans[i].end, __ATOMIC_SEQ_CST);
		uint64_t begin = __atomic_load_n(&spans[i].begin, __ATOMIC_SEQ_CST);

		if (!end)
			continue;
		limit(at, begin, next);
		limit(at, end, next);
		is_open |= at >= begin && at < end;
	}
	return is_open ? PROT_READ | PROT_WRITE : protection;
}

static bool apply(uint64_t begin, uint64_t end)
{
	bool is_done = true;
	uint64_t next;
	int protection;

	for (; begin < end; begin = next) {
		next = end;
		protection = wanted(begin, &next);
		is_done &= !syscall(SYS_mprotect, begin, next - begin, protection);
	}
	/* Release: pairs with may_be_late(). What faults again under the same count has met what was changed before it. */
	__atomic_add_fetch(&guard_openings, 1, __ATOMIC_RELEASE);
	return is_done;
}

bool guard_was_near(uint64_t begin, uint64_t end)
{
	return begin < __atomic_load_n(&nearest.end, __ATOMIC_RELAXED) &&
	       end > __atomic_load_n(&nearest.first, __ATOMIC_RELAXED);
}

bool guard_has_page(uint64_t page)
{
	uint32_t i;

	for (i = 0; i < guard_count; i++)
		if (page >= guards[i].pages && page < guards[i].pages_end)
			return true;
	return false;
}

bool guard_has_pages(uint64_t begin, uint64_t end)
{
	uint32_t i;

	for (i = 0; i < guard_count; i++)
		if (guards[i].pages < end && begin < guards[i].pages_end)
			return true;
	return false;
}

void guard_apply(uint64_t begin, uint64_t end)
{
	apply(guard_page_of(begin), guard_page_end(end));
}

static void count_is(uint32_t count)
{
	/* Against guard_span_take(), which stores its span and then looks here. */
	__atomic_store_n(&guard_count, count, __ATOMIC_SEQ_CST);
}

bool guard_add(const struct guard *guard)
{
	if (guard_count == GUARDS_MAX || guard->pages >= guard->pages_end)
		return false;
	if (!is_plain_memory(guard->pages, guard->pages_end))
		return false;
	if (guard->pages < nearest.first)
		__atomic_store_n(&nearest.first, guard->pages, __ATOMIC_RELAXED);
	if (guard->pages_end > nearest.end)
		__atomic_store_n(&nearest.end, guard->pages_end, __ATOMIC_RELAXED);
	guards[guard_count] = *guard;
	count_is(guard_count + 1);
	if (apply(guard->pages, guard->pages_end))
		return true;
	guard_end(guard_count - 1);
	return false;
}

void guard_drop(uint32_t index)
{
	guards[index] = guards[guard_count - 1];
	count_is(guard_count - 1);
}

void guard_end(uint32_t index)
{
	const struct guard gone = guards[index];

	guard_drop(index);
	apply(gone.pages, gone.pages_end);
}

void guard_end_all(void)
{
	while (guard_count)
		guard_end(guard_count - 1);
	opened_count = 0;
}

void guard_open_page(uint64_t page)
{
	uint32_t i;

	for (i = 0; i < opened_count; i++)
		if (opened[i] == page)
			break;
	if (i == OPENED_MAX)
		i = (uint32_t)(guard_openings % OPENED_MAX);
	/* In the place of another one, if need be, which is protected again with all others. */
	if (i < opened_count && opened[i] != page)
		__atomic_store_n(&is_stale, 1, __ATOMIC_RELAXED);
	opened[i] = page;
	if (i == opened_count)
		opened_count++;
	apply(page, page + GUARD_PAGE);
}

void guard_close_opened(void)
{
	uint32_t i, count = opened_count;

	opened_count = 0;
	for (i = 0; i < count; i++)
		if (guard_has_page(opened[i]))
			apply(opened[i], opened[i] + GUARD_PAGE);
	/* Acquire: pairs with guard_span_give(). */
	if (__atomic_exchange_n(&is_stale, 0, __ATOMIC_ACQUIRE))
		for (i = 0; i < guard_count; i++)
			apply(guards[i].pages, guards[i].pages_end);
}

bool guard_is_open_anywhere(void)
{
	return opened_count || __atomic_load_n(&is_stale, __ATOMIC_RELAXED);
}

/* ---- the kernel's pages ---- */

uint32_t guard_span_take_all(void)
{
	__atomic_add_fetch(&span_crowd, 1, __ATOMIC_SEQ_CST);
	return UINT32_MAX;
}

uint32_t guard_span_take(uint64_t begin, uint64_t end)
{
	uint32_t i, start = (uint32_t)((uintptr_t)__builtin_thread_pointer() >> 12);
	uint64_t none;

	begin = guard_page_of(begin);
	end = guard_page_end(end);
	for (i = 0; i < SPANS_MAX; i++) {
		struct span *span = &spans[(start + i) % SPANS_MAX];

		none = 0;
		if (__atomic_load_n(&span->end, __ATOMIC_RELAXED))
			continue;
		/* Everything, until it has its begin: too much is open for a moment, never too little. */
		if (!__atomic_compare_exchange_n(&span->end, &none, end, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&span->begin, begin, __ATOMIC_SEQ_CST);
		return (start + i) % SPANS_MAX + 1;
	}
	return guard_span_take_all();
}

void guard_span_give(uint32_t slot)
{
	struct span *span;
	bool is_near = true;

	if (slot == UINT32_MAX) {
		__atomic_sub_fetch(&span_crowd, 1, __ATOMIC_SEQ_CST);
	} else {
		span = &spans[slot - 1];
		is_near = guard_was_near(span->begin, span->end);
		/* The begin first: whoever takes it next begins at 0. */
		__atomic_store_n(&span->begin, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&span->end, 0, __ATOMIC_SEQ_CST);
	}
	/* Release, and last: pairs with guard_close_opened(). Told before, its pages could be looked at with the span still there, and stay open. */
	if (is_near)
		__atomic_store_n(&is_stale, 1, __ATOMIC_RELEASE);
}

/* Only for a forked child: nobody else is there. */
void guard_table_forget(void)
{
	lock_reset(&lock);
	guard_end_all();
	memset(spans, 0, sizeof(spans));
	span_crowd = 0;
	is_stale = 0;
}
