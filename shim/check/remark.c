// SPDX-License-Identifier: MIT
/* Check, what it says (internal.h): call sites, remarks and notes. Called by the rules with no lock held; relies on sync's sites and regions. */
#include "check/internal.h"

#include <time.h>

#include "emit/emit.h"
#include "state/state.h"
#include "sync/region.h"
#include "sync/site.h"

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

struct check_side check_side_take(const struct call *call)
{
	return (struct check_side){
		.function = call->function,
		.site = site_take(call->return_address, call->frame),
		.stream = state_stream_number(call->stream),
	};
}

static struct emit_remark remark_of(const struct check_side *side, uint64_t bytes, uint32_t rule,
				    const struct check_side *other)
{
	return (struct emit_remark){
		.rule = rule,
		.function = side->function,
		.site = side->site,
		.stream = side->stream,
		.region = region_current(),
		.allowed = region_allows(),
		.other_function = other ? other->function : RECORD_NO_FUNCTION,
		.other_site = other ? other->site : 0,
		.other_stream = other ? other->stream : 0,
		.bytes = bytes,
		.ns = now(),
	};
}

void check_remark_at(const struct check_side *side, uint64_t bytes, uint32_t rule,
		     const struct check_side *other)
{
	struct emit_remark remark = remark_of(side, bytes, rule, other);

	emit_remark(&remark);
}

struct record_remark *check_remark_open(const struct check_side *side, uint32_t rule,
					const struct check_side *other)
{
	struct emit_remark remark = remark_of(side, 0, rule, other);

	return emit_remark_open(&remark);
}

void check_remark_count(struct record_remark *remark, int64_t calls)
{
	if (remark)
		emit_remark_count(remark, calls);
}

void check_remark(const struct call *call, uint32_t rule, const struct check_side *other)
{
	struct check_side side = check_side_take(call);

	check_remark_at(&side, call->bytes, rule, other);
}

void check_lost(const char *what)
{
	emit_note(NOTE_CHECK, what);
}
