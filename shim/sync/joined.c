// SPDX-License-Identifier: MIT
/*
 * Joined: the finding of a short launch that joins (sync.h). Called by the generated wrappers of launches. What sync_after() says of such a launch by its rules follows from
 * what a short launch is: it was not the first of its function, it took less than any rule tells of, and its stream is ordered with others. So one rule is left, legacy-join,
 * which no time can be put to, and what it joins is known.
 */
#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "emit/emit.h"
#include "state/launch.h"
#include "state/state.h"
#include "sync/idle.h"
#include "sync/region.h"
#include "sync/site.h"
#include "sync/sync.h"

/* By itself, so that other launches do not reach over the candidates on the stack. */
__attribute__((noinline)) void sync_launch_joined(uint32_t function,
						  const struct state_launch *launch,
						  const struct sync_launch *at)
{
	struct emit_candidate candidates[CALL_PENDING_MAX];
	struct emit_finding finding = {
		.function = function,
		.rule = RULE_LEGACY_JOIN,
		.region = region_current(),
		.stream = state_stream_number(launch->stream),
		.source_kind = MEMORY_NONE,
		.destination_kind = MEMORY_NONE,
		.idle_basis = IDLE_NONE,
		.allowed = region_allows(),
		.candidates = candidates,
	};
	uint32_t i;

	for (i = 0; i < launch->pending_count; i++)
		if (launch->pending[i].stream != launch->stream)
			state_candidate(&launch->pending[i],
					&candidates[finding.candidate_count++]);
	/* Known to be done by now: there is something to conclude only. */
	if (!finding.candidate_count)
		return;
	finding.call_ns = clock_span(at->entered, at->left, &finding.returned_ns);
	finding.site = site_take(at->return_address, at->frame);
	emit_wait(&finding);
}
