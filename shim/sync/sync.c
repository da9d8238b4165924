// SPDX-License-Identifier: MIT
/*
 * Sync: what a call waited for (sync.h). Called by the generated wrappers between the real call and
 * state's hooks. Relies on the snapshot that state_before() took, on the catalogue's rules, on
 * idle.h for the call's own cost, and on site.h for where it was called.
 *
 * A call gets at most one host finding and, where there is none, at most one device finding:
 *
 *	explicit	always; blocked is what the call took beyond its idle cost
 *	implicit	the first rule of the row whose condition holds and in whose scope work was
 *			pending, if the call was blocked for longer than the threshold
 *	the same rule	without candidates, if nothing pending was known but the call took long
 *			all the same: the work may be another process's, or one the shim cannot see
 *	observed-unknown  no rule of the row has to do with it, and the call took long
 *	device		the call's operation is the first to be ordered behind work of other streams
 */
#include "sync/sync.h"

#include <errno.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "emit/emit.h"
#include "state/state.h"
#include "sync/calibration.h"
#include "sync/idle.h"
#include "sync/region.h"
#include "sync/site.h"

/* Blocked at least this long where no known work explains it. */
#define UNEXPLAINED_NS 50000
/*
 * No implicit rule reports less than this or the threshold, whichever is less (a test checks it).
 */
#define QUICK_NS 20000

struct verdict {
	uint32_t rule;
	uint64_t blocked_ns;
	uint64_t duration_ns;
	uint64_t returned_ns;
	enum idle_basis basis;
	bool candidates; /* those of the rule's scope; else none */
	bool cheap_site;
};

static uint32_t pending_stored(const struct call *call)
{
	return call->pending_count < CALL_PENDING_MAX ? call->pending_count : CALL_PENDING_MAX;
}

static bool has_pending(const struct call *call, unsigned int scope)
{
	uint32_t count = pending_stored(call);
	uint32_t i;

	for (i = 0; i < count; i++)
		if (state_in_scope(call, call->pending[i].stream, scope))
			return true;
	return false;
}

static void report(const struct call *call, const struct verdict *verdict)
{
	const struct catalogue_rule *rule = &catalogue_rules[verdict->rule];
	struct emit_candidate candidates[CALL_PENDING_MAX];
	struct emit_finding finding = {
		.function = call->function,
		.rule = verdict->rule,
		.region = region_current(),
		.source_kind = call->source_kind,
		.destination_kind = call->destination_kind,
		.idle_basis = (uint8_t)verdict->basis,
		.allowed = region_allows(),
		.blocked_ns = verdict->blocked_ns,
		.call_ns = verdict->duration_ns,
		.bytes = call->bytes,
		.returned_ns = verdict->returned_ns,
		.candidates = candidates,
	};
	uint32_t count = verdict->candidates ? pending_stored(call) : 0;
	uint32_t i;

	for (i = 0; i < count; i++)
		if (state_in_scope(call, call->pending[i].stream, rule->scope))
			state_candidate(&call->pending[i], &candidates[finding.candidate_count++]);
	if (verdict->cheap_site)
		finding.site = site_take_cached(call->return_address, call->frame);
	else
		finding.site = site_take(call->return_address);
	emit_wait(&finding);
}

/*
 * The rule that explains a wait of the host: the first whose condition holds and that has something
 * to wait for. -1: none; then *ret_idle_rule is the first whose condition holds at all, or -1.
 */
static int choose_rule(const struct call *call, const struct catalogue_row *row, int *ret_idle_rule)
{
	const struct catalogue_rule *rule;
	const uint8_t *number;

	*ret_idle_rule = -1;
	for (number = row->rules; *number; number++) {
		rule = &catalogue_rules[*number - 1];
		if (rule->wait_class == WAIT_DEVICE || !rule->when(call))
			continue;
		if (rule->wait_class == WAIT_EXPLICIT || rule->scope == CATALOGUE_SCOPE_HOST ||
		    has_pending(call, rule->scope))
			return *number - 1;
		if (*ret_idle_rule < 0)
			*ret_idle_rule = *number - 1;
	}
	return -1;
}

static uint64_t threshold(const struct catalogue_rule *rule)
{
	return rule->minimum_ns ? rule->minimum_ns : config.threshold_ns;
}

/* Calls whose own work on the processor may take any time: without a rule they are no finding. */
static bool is_known_slow(const struct catalogue_row *row)
{
	return row->kind == CATALOGUE_KIND_INIT || row->kind == CATALOGUE_KIND_CONTEXT ||
	       row->kind == CATALOGUE_KIND_MODULE;
}

static bool is_wait(const struct call *call, const struct catalogue_row *row, uint64_t duration_ns,
		    struct verdict *ret_verdict)
{
	uint32_t key = idle_key(call);
	const struct catalogue_rule *rule;
	int chosen, idle_rule;
	uint64_t idle_ns, blocked_ns;

	chosen = choose_rule(call, row, &idle_rule);
	idle_ns = idle_cost(call, key, &ret_verdict->basis);
	blocked_ns = duration_ns > idle_ns ? duration_ns - idle_ns : 0;
	ret_verdict->blocked_ns = blocked_ns;
	ret_verdict->candidates = false;
	if (chosen >= 0) {
		rule = &catalogue_rules[chosen];
		ret_verdict->rule = (uint32_t)chosen;
		ret_verdict->candidates = rule->scope != CATALOGUE_SCOPE_HOST;
		if (rule->wait_class == WAIT_EXPLICIT)
			return true;
		if (rule->own_cost) {
			ret_verdict->blocked_ns = duration_ns;
			ret_verdict->basis = IDLE_NONE;
			return duration_ns > threshold(rule);
		}
		return blocked_ns > threshold(rule) && blocked_ns > idle_ns / 2;
	}
	/* Nothing is known to be pending: it has to stand out from the call's own cost. */
	if (blocked_ns <= UNEXPLAINED_NS || blocked_ns <= idle_ns)
		return false;
	if (idle_rule >= 0) {
		ret_verdict->rule = (uint32_t)idle_rule;
		return blocked_ns > threshold(&catalogue_rules[idle_rule]);
	}
	rule = &catalogue_rules[RULE_OBSERVED_UNKNOWN];
	ret_verdict->rule = RULE_OBSERVED_UNKNOWN;
	ret_verdict->candidates = true;
	return blocked_ns > threshold(rule) && !is_known_slow(row);
}

static bool is_join(const struct call *call, const struct catalogue_row *row, uint32_t *ret_rule)
{
	const struct catalogue_rule *rule;
	const uint8_t *number;

	for (number = row->rules; *number; number++) {
		rule = &catalogue_rules[*number - 1];
		if (rule->wait_class == WAIT_DEVICE && rule->when(call) &&
		    has_pending(call, rule->scope)) {
			*ret_rule = *number - 1;
			return true;
		}
	}
	return false;
}

/*
 * Whether the call had anything to wait for, as far as known: only then is its duration no sample
 * of its own cost. A stream's own operations count for all kinds of calls, launches too, since a
 * queue can be full.
 */
static bool is_idle_sample(const struct call *call, CUresult result)
{
	return result == CUDA_SUCCESS && !call->pending_count && !(call->flags & CALL_FIRST_USE);
}

uint64_t sync_quick_ticks;

static void find_quick_ticks(void)
{
	uint64_t quick_ns = config.threshold_ns < QUICK_NS ? config.threshold_ns : QUICK_NS;

	__atomic_store_n(&sync_quick_ticks, clock_ticks_in(quick_ns), __ATOMIC_RELAXED);
}

/*
 * Can nothing come of this call? Most launches end here: short, and nothing to join (its own stream's work is a reason for a full
 * queue only). In ticks, since a conversion costs as much as all the rest. Their own cost is not sampled where the catalogue
 * knows it.
 */
static inline bool is_quick_launch(const struct call *call, const struct catalogue_row *row)
{
	return row->kind == CATALOGUE_KIND_LAUNCH && row->idle_fixed_ns &&
	       sync_is_short(call->left - call->entered) &&
	       (!call->pending_count ||
		(call->pending_count == 1 && call->pending[0].stream == call->stream));
}

void sync_after(struct call *call, CUresult result)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];
	struct verdict verdict;
	int saved_errno;

	if (call->flags & CALL_CAPTURED)
		return;
	if (__builtin_expect(is_quick_launch(call, row), 1))
		return;
	saved_errno = errno;
	verdict.duration_ns = clock_duration_ns(call->entered, call->left);
	if (!row->rules[0] && verdict.duration_ns <= UNEXPLAINED_NS)
		return;
	if (__builtin_expect(!__atomic_load_n(&sync_quick_ticks, __ATOMIC_RELAXED), 0))
		find_quick_ticks();
	verdict.cheap_site = false;
	if (is_wait(call, row, verdict.duration_ns, &verdict)) {
		verdict.returned_ns = clock_ns(call->left);
		report(call, &verdict);
	} else if (call->pending_count && result == CUDA_SUCCESS &&
		   is_join(call, row, &verdict.rule)) {
		verdict.blocked_ns = 0;
		verdict.basis = IDLE_NONE;
		verdict.candidates = true;
		verdict.cheap_site = true;
		verdict.returned_ns = clock_ns(call->left);
		report(call, &verdict);
	}
	if (is_idle_sample(call, result))
		idle_sample(idle_key(call), verdict.duration_ns);
	errno = saved_errno;
}

void sync_prepare(void)
{
	static bool prepared;

	if (!__atomic_exchange_n(&prepared, true, __ATOMIC_RELAXED) && config.calibration)
		calibration_load(config.calibration);
}
