// SPDX-License-Identifier: MIT
/*
 * Rewrite: start of mode fix, and the hooks of what ends it (rewrite.h). Called by entry.
 */
#include "rewrite/rewrite.h"

#include "call.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "legacy/legacy.h"
#include "pool/pool.h"
#include "rewrite/contexts.h"
#include "rewrite/deny.h"
#include "rewrite/frees.h"
#include "rewrite/internal.h"
#include "rewrite/pinned.h"
#include "rewrite/policy.h"
#include "rewrite/staging.h"
#include "stage/stage.h"
#include "state/proof.h"

uint32_t rewrite_on;

static bool denied_legacy(const struct call *call)
{
	return rewrite_denied(call, CONFIG_FIX_STREAMS);
}

void rewrite_start(void)
{
	static uint32_t started;
	char reason[POLICY_REASON];
	const char *why;

	if (config.mode != CONFIG_FIX || __atomic_exchange_n(&started, 1, __ATOMIC_RELAXED))
		return;
	why = policy_objection(reason);
	if (!why)
		why = deny_start();
	/* A primary context that ends unseen comes back under its handle: what is held of it would be given out. */
	if (!why && !driver.cuCtxGetId)
		why = "off: this driver has no ids of contexts";
	if (why) {
		emit_note(NOTE_REWRITE, why);
		return;
	}
	state_flights_start();
	node_start();
	pool_start(POOL_PINNED, pool_limit_of(config.pool_limit));
	counts_start();
	staging_sizes_start();
	staging_start();
	legacy_start(denied_legacy, counts_legacy());
	/* Release: pairs with rewrite_active(). Who sees the switch sees the limit, the deny list and where counts go. */
	__atomic_store_n(&rewrite_on, 1, __ATOMIC_RELEASE);
}

void rewrite_export_table(bool known)
{
	if (known)
		return;
	state_doubt("off: an unknown export table was handed out");
	legacy_retreat();
}

/* What nobody uses any more goes with the context. */
static void give_back(uint64_t context)
{
	if (!pool_has_parked(context))
		return;
	pinned_give_all_back(context);
	held_give_all_back(context);
}

/*
 * A context's memory ends with it, and work of other contexts may use what was freed and is held: the free would have waited for that. So the driver
 * frees it first, which waits. Of the context's own work its end takes care.
 */
static void outlive_users(const struct call *call)
{
	if (call->ended && settle_used_elsewhere())
		contexts_visit_ending(call->ended, give_back);
}

bool rewrite_context_ending(struct call *call, CUresult *ret_result)
{
	/* State has let go of it already; its memory goes with it. Should it not end, what was held stays with the driver. */
	contexts_wait_for_visitors();
	outlive_users(call);
	pinned_drop(state_context_lives);
	contexts_drop(state_context_lives);
	stage_drop(state_context_lives);
	legacy_drop(state_context_lives);
	counts_bytes();
	return false;
}

bool rewrite_unproven(struct call *call, CUresult *ret_result)
{
	state_doubt("off: work on streams that cannot be followed");
	legacy_retreat();
	return false;
}
