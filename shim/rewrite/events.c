// SPDX-License-Identifier: MIT
/*
 * Events of the rewrites (events.h). Relies on emit.h, which sends them, and on sync/site.h.
 *
 * table	slots are filled in order, never emptied: `used` is stored with release behind a slot, loaded with acquire. Under
 *		`lock` where one is added
 */
#include "rewrite/events.h"

#include <string.h>

#include "call.h"
#include "config.h"
#include "emit/lock.h"
#include "state/state.h"
#include "state/stream.h"
#include "sync/site.h"

uint32_t events_name(enum config_fix rewrite)
{
	const char *word = config_fix_words();
	uint32_t number;

	for (number = (uint32_t)__builtin_ctz(rewrite); number; number--)
		word += strcspn(word, "|") + 1;
	return emit_string(word, strcspn(word, "|"));
}

/* Real frees are rare and slow, and so are different ones: a walk will do. */
#define REAL_FREES_MAX 512

static struct real_free {
	uint32_t site;
	enum config_fix rewrite;
	const char *why; /* constant texts: told apart by their addresses */
	struct record_real_free *record;
} table[REAL_FREES_MAX];
static uint32_t used;
static struct lock lock = LOCK_INITIALIZER(LOCK_SITE);

static struct record_real_free *find(uint32_t site, enum config_fix rewrite, const char *why)
{
	/* Pairs with the release in add(). */
	uint32_t count = __atomic_load_n(&used, __ATOMIC_ACQUIRE), i;

	for (i = 0; i < count; i++)
		if (table[i].site == site && table[i].rewrite == rewrite && table[i].why == why)
			return table[i].record;
	return NULL;
}

/* NULL: no room. */
static struct record_real_free *add(const struct call *call, uint32_t site, enum config_fix rewrite,
				    const char *why)
{
	uint32_t name = events_name(rewrite), text = emit_string(why, strlen(why));
	struct record_real_free *record;

	if (!lock_take(&lock))
		return NULL;
	record = find(site, rewrite, why);
	if (!record && used < REAL_FREES_MAX)
		record = emit_reserve(sizeof(*record));
	if (record && !record->rewrite) {
		record->site = site;
		record->rewrite = name;
		record->function = call->function;
		record->why = text;
		emit_publish(record, RECORD_REAL_FREE);
		table[used] = (struct real_free){site, rewrite, why, record};
		__atomic_store_n(&used, used + 1, __ATOMIC_RELEASE);
	}
	lock_give(&lock);
	return record;
}

void events_real_free(const struct call *call, enum config_fix rewrite, const char *why,
		      uint32_t blocks, uint64_t bytes)
{
	struct record_real_free *record;
	struct trace_real_free event;
	uint32_t site;

	if (!blocks)
		return;
	site = site_take(call->return_address, call->frame);
	record = find(site, rewrite, why);
	if (!record)
		record = add(call, site, rewrite, why);
	if (record) {
		__atomic_fetch_add(&record->calls, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&record->blocks, blocks, __ATOMIC_RELAXED);
	} else {
		emit_note(NOTE_LOST, "where blocks were really freed");
	}
	if (!emit_records(TRACE_REAL_FREE))
		return;
	event.name = events_name(rewrite);
	event.why = emit_string(why, strlen(why));
	event.function = call->function;
	event.site = site;
	event.blocks = blocks;
	event.bytes = bytes;
	emit_trace(TRACE_REAL_FREE, &event);
}

_Static_assert(USDT_REWRITE_HIT == TRACE_REWRITTEN_HIT &&
		       USDT_REWRITE_PARKED == TRACE_REWRITTEN_PARKED &&
		       USDT_REWRITE_STAGED == TRACE_REWRITTEN_STAGED,
	       "one number for the same");

void events_listen(const struct call *call, enum config_fix rewrite, uint32_t how, uint64_t bytes)
{
	/* Who takes the time of the call must not hold that wait against us. */
	if (how == TRACE_REWRITTEN_PARKED && config.relax & CONFIG_STRICT_FREE)
		how = USDT_REWRITE_PARKED_WAITED;
	USDT_REWRITE(rewrite, how, call->function, bytes);
}

void events_call(const struct call *call, enum config_fix rewrite, uint32_t how, uint64_t bytes)
{
	struct trace_rewritten event;

	if (!emit_records(TRACE_REWRITTEN))
		return;
	event.name = events_name(rewrite);
	event.how = how;
	event.function = call->function;
	event.stream = call->stream ? state_stream_number(call->stream) : 0;
	event.bytes = bytes;
	emit_trace(TRACE_REWRITTEN, &event);
}
