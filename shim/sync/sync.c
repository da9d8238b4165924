// SPDX-License-Identifier: MIT
/*
 * Sync: what a call waited for (sync.h). Called by the generated wrappers between the real call and
 * state's hooks. Relies on the snapshot that state_before() took, on the catalogue's rules, on
 * idle.h for the call's own cost, and on site.h for where it was called.
 *
 * A call gets at most one host finding and, where there is none or only the last kind, at most one
 * device finding:
 *
 *	explicit	always; blocked is what the call took beyond its idle cost
 *	implicit	the first rule of the row whose condition holds, in whose scope work was
 *			pending, and whose wait stands out from the call's own cost (stands_out)
 *	own cost	rules about the call's own work (pinning, loading): the whole duration,
 *			above the rule's minimum. A row may have one behind a rule that waits: it
 *			tells what is slow with nothing to wait for
 *	the same rule	without candidates: its condition holds, but no work is known in its scope,
 *			so the work may be another process's, or one the shim cannot see. Much
 *			stricter (stands_out_alone)
 *	observed-unknown  no rule of the row has to do with it; as strict, with everything that is
 *			pending as candidates
 *	device		the call's operation is the first to be ordered behind work of others
 *
 * What "stands out" means depends on how the idle cost is known. The catalogue's figure is of one
 * machine: another may take several times that, and the first such call of a process too. The run's
 * own minimum and the calibration are of this machine. A copy into host memory that nobody touched
 * yet pays for the page faults: the program's cost, no wait.
 */
#include "sync/sync.h"

#include <errno.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "clock.h"
#include "config.h"
#include "emit/emit.h"
#include "state/launch.h"
#include "state/state.h"
#include "sync/calibration.h"
#include "sync/idle.h"
#include "sync/region.h"
#include "sync/site.h"
#include "sync/step.h"

/* Blocked at least this long where no known work explains it. */
#define UNEXPLAINED_NS 50000
/*
 * The same where nothing at all is known to be pending, and so many times the call's least; or
 * where no idle cost is known.
 */
#define UNSEEN_NS    1000000
#define UNSEEN_TIMES 20
/*
 * Without work in the rule's scope a call must take so many times its idle cost; and where this run
 * has not seen that.
 */
#define ALONE_TIMES       3
#define ALONE_FIRST_TIMES 10
/* A figure of the catalogue may be off by itself, up to this much. */
#define FIGURE_ERROR_NS 100000
/* Page faults of a destination, 0.5 us for 4 KiB. */
#define FAULT_BYTES_PER_NS 8
#define ANYWHERE_MAX       16
/*
 * No implicit rule reports less than this or the threshold, whichever is less (a test checks it).
 */
#define QUICK_NS 20000

struct verdict {
	uint32_t rule;
	uint64_t blocked_ns;
	uint64_t duration_ns;
	uint64_t returned_ns;
	uint64_t idle_ns;
	uint32_t lowered; /* idle_lowered() before idle_ns was asked for */
	enum idle_basis basis;
	bool candidates; /* those of the rule's scope; else none */
	bool anywhere;   /* everything that is pending instead */
};

static void add_candidates(const struct call *call, const struct verdict *verdict,
			   struct emit_finding *finding, struct emit_candidate *candidates)
{
	struct call_pending anywhere[ANYWHERE_MAX];
	uint32_t count, i;

	if (verdict->anywhere) {
		count = state_pending_anywhere(anywhere, ANYWHERE_MAX);
		for (i = 0; i < count; i++)
			state_candidate(&anywhere[i], &candidates[finding->candidate_count++]);
	} else if (verdict->candidates) {
		for (i = 0; i < state_pending_stored(call); i++)
			if (state_in_scope(call, call->pending[i].stream,
					   catalogue_rules[verdict->rule].scope))
				state_candidate(&call->pending[i],
						&candidates[finding->candidate_count++]);
	}
}

/*
 * What budgets of single entries of a region are held against; tools/lint/budget.c does the same for a whole run. A rule that goes by a time
 * alone is left out, and a drain without known work is one.
 */
static void count_in_regions(const struct emit_finding *finding)
{
	const struct catalogue_rule *rule = &catalogue_rules[finding->rule];
	bool own_cost = rule->flags & RECORD_RULE_OWN_COST;
	bool firm = rule->measured && !rule->minimum_ns && !own_cost &&
		    (rule->scope != CATALOGUE_SCOPE_DEVICE || finding->candidate_count);
	struct emit_spent spent = {.blocked_ns = finding->blocked_ns};

	if (finding->allowed || rule->wait_class == WAIT_DEVICE)
		return;
	if (rule->wait_class == WAIT_EXPLICIT)
		spent.explicit = 1;
	else if (firm)
		spent.implicit = 1;
	else if (!own_cost)
		return;
	region_count(&spent);
}

/* By itself, so that a call of which nothing is told does not reach over its candidates on the stack. */
static __attribute__((noinline)) void report(const struct call *call, const struct verdict *verdict)
{
	struct emit_candidate candidates[CALL_PENDING_MAX];
	_Static_assert(CALL_PENDING_MAX <= EMIT_CANDIDATES_MAX, "the trace names all of them");
	struct emit_finding finding = {
		.function = call->function,
		.rule = verdict->rule,
		.region = region_current(),
		.stream = state_stream_number(call->stream),
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

	/*
	 * The address of what a call makes is known only later, its kind is not in doubt. Not in
	 * the idle key: same function.
	 */
	if (finding.destination_kind == MEMORY_NONE)
		finding.destination_kind = catalogue_rows[call->function].makes;
	add_candidates(call, verdict, &finding, candidates);
	finding.site = site_take(call->return_address, call->frame);
	emit_wait(&finding);
	count_in_regions(&finding);
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

static uint64_t fault_allowance(const struct call *call)
{
	return call->destination_kind == MEMORY_PAGEABLE ? call->bytes / FAULT_BYTES_PER_NS : 0;
}

/*
 * Found at work by a query just before the call? Then the wait is certain, whatever the idle cost
 * is worth.
 */
static bool is_certain(const struct call *call, unsigned int scope)
{
	uint32_t i;

	for (i = 0; i < state_pending_stored(call); i++)
		if (call->pending[i].certain &&
		    state_in_scope(call, call->pending[i].stream, scope))
			return true;
	return false;
}

/*
 * With work pending in the scope: is it more than the call's own cost and the error of what is
 * known of that?
 */
static bool stands_out(const struct call *call, const struct catalogue_rule *rule, uint64_t idle_ns,
		       const struct verdict *verdict)
{
	uint64_t fixed_ns = catalogue_rows[call->function].idle_fixed_ns;
	uint64_t margin_ns = idle_ns / 2 + fault_allowance(call);

	if (verdict->basis == IDLE_DEFAULT && !is_certain(call, rule->scope))
		margin_ns +=
			fixed_ns / 2 + (fixed_ns < FIGURE_ERROR_NS ? fixed_ns : FIGURE_ERROR_NS);
	return verdict->blocked_ns > threshold(rule) && verdict->blocked_ns > margin_ns;
}

/*
 * With no work known in the scope: is it so much that a slow machine, a first call (loading, first
 * touches) or a moment without the processor does not explain it? Where nothing is pending anywhere
 * only what this very run has seen is a measure. An operation that is only submitted is held up by
 * the scheduler more often than by anything else.
 */
static bool stands_out_alone(const struct call *call, uint32_t key, uint64_t idle_ns,
			     const struct verdict *verdict)
{
	struct call_pending pending;
	uint64_t seen_ns, times = ALONE_TIMES;
	uint64_t least_ns = UNEXPLAINED_NS;
	bool seen = idle_minimum(key, &seen_ns);

	if (!call->pending_count && !state_pending_anywhere(&pending, 1)) {
		if (!seen)
			return false;
		times = UNSEEN_TIMES;
		least_ns = UNSEEN_NS;
		if (idle_ns < seen_ns)
			idle_ns = seen_ns;
	} else if (!seen) {
		times = ALONE_FIRST_TIMES;
	}
	if (verdict->basis == IDLE_NONE || call->flags & CALL_ASYNC)
		least_ns = UNSEEN_NS;
	return verdict->blocked_ns > least_ns &&
	       verdict->blocked_ns > idle_ns * (times - 1) + fault_allowance(call);
}

static bool take_alone(const struct call *call, uint32_t key, uint32_t rule, uint64_t idle_ns,
		       struct verdict *verdict)
{
	verdict->rule = rule;
	return verdict->blocked_ns > threshold(&catalogue_rules[rule]) &&
	       stands_out_alone(call, key, idle_ns, verdict);
}

/* By itself, too: a short call passes by it, and cache lines of code count. */
static __attribute__((noinline)) bool is_wait(const struct call *call,
					      const struct catalogue_row *row, uint32_t held,
					      uint32_t key, uint64_t duration_ns,
					      struct verdict *ret_verdict)
{
	const struct catalogue_rule *rule;
	uint64_t idle_ns;
	int alone = -1;     /* first rule that holds, but has no known work to wait for */
	bool holds = false; /* some rule holds */
	uint32_t number;

	ret_verdict->lowered = idle_lowered();
	idle_ns = idle_cost(call, key, &ret_verdict->basis);
	ret_verdict->idle_ns = idle_ns;
	ret_verdict->blocked_ns = duration_ns > idle_ns ? duration_ns - idle_ns : 0;
	ret_verdict->candidates = false;
	ret_verdict->anywhere = false;
	for (held &= CATALOGUE_HELD_RULES; held; held &= held - 1) {
		number = row->rules[__builtin_ctz(held)] - 1U;
		rule = &catalogue_rules[number];
		if (rule->wait_class == WAIT_DEVICE)
			continue;
		holds = true;
		ret_verdict->rule = number;
		if (rule->flags & RECORD_RULE_OWN_COST) {
			if (duration_ns <= threshold(rule))
				continue;
			ret_verdict->blocked_ns = duration_ns;
			ret_verdict->basis = IDLE_NONE;
			return true;
		}
		if (rule->wait_class == WAIT_EXPLICIT) {
			ret_verdict->candidates = rule->scope != CATALOGUE_SCOPE_HOST;
			return true;
		}
		if (state_has_pending(call, rule->scope)) {
			if (!stands_out(call, rule, idle_ns, ret_verdict))
				continue;
			ret_verdict->candidates = true;
			return true;
		}
		if (alone < 0)
			alone = (int)number;
	}
	if (alone >= 0)
		return take_alone(call, key, (uint32_t)alone, idle_ns, ret_verdict);
	ret_verdict->anywhere = true;
	return !holds && !is_known_slow(row) &&
	       take_alone(call, key, RULE_OBSERVED_UNKNOWN, idle_ns, ret_verdict);
}

static __attribute__((noinline)) bool
is_join(const struct call *call, const struct catalogue_row *row, uint32_t held, uint32_t *ret_rule)
{
	const struct catalogue_rule *rule;
	uint32_t number;

	for (held &= CATALOGUE_HELD_RULES; held; held &= held - 1) {
		number = row->rules[__builtin_ctz(held)] - 1U;
		rule = &catalogue_rules[number];
		if (rule->wait_class == WAIT_DEVICE && state_has_pending(call, rule->scope)) {
			*ret_rule = number;
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
static bool is_idle_sample(const struct call *call, const struct catalogue_row *row,
			   CUresult result, uint64_t duration_ns)
{
	struct call_pending pending;

	if (result != CUDA_SUCCESS || call->pending_count || call->flags & CALL_FIRST_USE)
		return false;
	/* Without rules nobody looked what was pending: a long one may be a wait for it. */
	return row->rules[0] || duration_ns <= UNEXPLAINED_NS ||
	       !state_pending_anywhere(&pending, 1);
}

/*
 * Ticks within which a call is no finding by any rule but explicit ones, nor a launch that has nothing to join: the threshold, or QUICK_NS if
 * that is less. 0 until the clock's rate is known. Written by whoever comes first, same value but
 * for the clock's precision; read by every call that comes here.
 */
static uint64_t quick_ticks;

static uint64_t quick_ns(void)
{
	return config.threshold_ns < QUICK_NS ? config.threshold_ns : QUICK_NS;
}

static __attribute__((noinline)) void find_quick_ticks(void)
{
	uint64_t ticks = clock_ticks_in(quick_ns());

	/* Where every operation is traced, or held against rules, no launch goes past the rooms. */
	if (!emit_traces_full() && !(config.check & (CONFIG_CHECK_ORDER | CONFIG_CHECK_GUARD)))
		state_launch_limits(ticks, clock_ticks_in(UNSEEN_NS));
	__atomic_store_n(&quick_ticks, ticks, __ATOMIC_RELAXED);
}

/* Nothing is known to be at work but the call's own stream, which no operation needs to join. */
static inline bool is_behind_its_own(const struct call *call)
{
	return call->pending_count == 1 && call->pending[0].stream == call->stream;
}

/*
 * Can nothing come of this call? Most launches end here: short, and nothing to join (its own
 * stream's work is a reason for a full queue only). In ticks, since a conversion costs as much as
 * all the rest. Their own cost is not sampled where the catalogue knows it.
 */
static inline bool is_quick_launch(const struct call *call, const struct catalogue_row *row)
{
	return row->kind == CATALOGUE_KIND_LAUNCH && row->idle_fixed_ns &&
	       call->left - call->entered < __atomic_load_n(&quick_ticks, __ATOMIC_RELAXED) &&
	       (!call->pending_count || is_behind_its_own(call));
}

static uint32_t rules_held(const struct call *call, const struct catalogue_row *row)
{
	return call->held ? call->held : row->held(call);
}

/* No rule tells of so short a call, but for those that always do; nor of one that is so little longer than its kind takes when idle. */
static bool is_too_short(const struct call *call, uint32_t held)
{
	uint64_t ticks = call->left - call->entered;

	return !(held & CATALOGUE_HELD_EXPLICIT) &&
	       (ticks < __atomic_load_n(&quick_ticks, __ATOMIC_RELAXED) ||
		ticks < idle_bound(idle_key(call)));
}

static bool has_own_cost_rule(const struct catalogue_row *row)
{
	const uint8_t *rule;

	for (rule = row->rules; *rule; rule++)
		if (catalogue_rules[*rule - 1U].flags & RECORD_RULE_OWN_COST)
			return true;
	return false;
}

/*
 * A copy of a few KiB takes longer than the threshold and never waits. What is_wait() said of this call it says of each that is shorter than what stands_out() and
 * stands_out_alone() ask for in any case, as long as the idle cost is this one: so the next ones need not be asked about. Not where a rule goes by
 * the duration itself, nor where the cost is a figure by bytes.
 */
static __attribute__((noinline)) void remember_bound(const struct catalogue_row *row, uint32_t key,
						     const struct verdict *verdict)
{
	uint64_t margin_ns = verdict->idle_ns / 2;

	if ((verdict->basis != IDLE_MINIMUM && verdict->basis != IDLE_CALIBRATED) ||
	    has_own_cost_rule(row))
		return;
	if (margin_ns < quick_ns())
		margin_ns = quick_ns();
	idle_set_bound(key, clock_ticks_in(verdict->idle_ns + margin_ns), verdict->lowered);
}

/* All that can come of a call that is too short and had nothing to wait for: a sample, if it was shorter than those before. */
static bool is_new_sample(const struct call *call, const struct catalogue_row *row, CUresult result)
{
	return result == CUDA_SUCCESS && !(call->flags & CALL_FIRST_USE) &&
	       (row->rules[0] || !row->idle_fixed_ns) &&
	       idle_is_news(idle_key(call), call->left - call->entered);
}

void sync_after(struct call *call, CUresult result)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];
	struct verdict verdict;
	bool waits = false, may_wait, may_join, joins = false;
	int saved_errno;
	uint32_t held, key;

	if (__builtin_expect(step_functions_any, 0) && step_is_function(call->function))
		step_begin();
	/* What a rewrite did in the driver's place says nothing of the driver's cost. */
	if (call->flags & (CALL_CAPTURED | CALL_REWRITTEN))
		return;
	if (__builtin_expect(is_quick_launch(call, row), 1))
		return;
	held = rules_held(call, row);
	/* A wait that was left out is none, and the copy may take what it takes. */
	may_wait = !(call->flags & CALL_UNWAITED) && !is_too_short(call, held);
	/* Nothing to tell, and behind others' work no sample either: then nothing needs to be converted. */
	may_join = call->pending_count && !is_behind_its_own(call) && result == CUDA_SUCCESS;
	if (!may_wait && call->pending_count) {
		joins = may_join && is_join(call, row, held, &verdict.rule);
		if (!joins)
			return;
	}
	if (!may_wait && !call->pending_count && !is_new_sample(call, row, result))
		return;
	saved_errno = errno;
	verdict.duration_ns = clock_duration_ns(call->entered, call->left);
	if (!row->rules[0] && verdict.duration_ns <= UNEXPLAINED_NS) {
		/*
		 * What the catalogue has a figure for may be called in a loop (queries): not
		 * sampled.
		 */
		if (!row->idle_fixed_ns && is_idle_sample(call, row, result, verdict.duration_ns))
			idle_sample(idle_key(call), verdict.duration_ns);
		return;
	}
	if (__builtin_expect(!__atomic_load_n(&quick_ticks, __ATOMIC_RELAXED), 0))
		find_quick_ticks();
	key = idle_key(call);
	if (may_wait && is_wait(call, row, held, key, verdict.duration_ns, &verdict)) {
		verdict.returned_ns = clock_ns(call->left);
		report(call, &verdict);
		waits = verdict.rule != RULE_OBSERVED_UNKNOWN;
	} else if (may_wait) {
		remember_bound(row, key, &verdict);
	}
	if (!waits && (joins || (may_join && is_join(call, row, held, &verdict.rule)))) {
		verdict.blocked_ns = 0;
		verdict.basis = IDLE_NONE;
		verdict.candidates = true;
		verdict.anywhere = false;
		verdict.returned_ns = clock_ns(call->left);
		report(call, &verdict);
	}
	if (is_idle_sample(call, row, result, verdict.duration_ns))
		idle_sample(key, verdict.duration_ns);
	errno = saved_errno;
}

void sync_prepare(void)
{
	static bool prepared;

	if (__atomic_exchange_n(&prepared, true, __ATOMIC_RELAXED))
		return;
	if (config.calibration)
		calibration_load(config.calibration);
	step_prepare();
}
