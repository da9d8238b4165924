// SPDX-License-Identifier: MIT
/*
 * Guard, calls: around each driver call, what is to be done before it and what is learned behind it; the room's beginning, its giving up, and its forks
 * (guard.h). Called by check's table of rules.
 *
 *	given_up	set once, by anyone; read by anyone (relaxed)
 *	in_driver	each thread's own
 */
#include "guard/guard.h"

#include <pthread.h>

#include "check/access.h"
#include "check/kinds.h"
#include "config.h"
#include "emit/emit.h"
#include "guard/internal.h"
#include "state/proof.h"

bool guard_on;

static const char *given_up; /* why nothing is guarded any more */

/* Of this thread's call that goes on: it is in the driver. */
static __thread bool in_driver __attribute__((tls_model("initial-exec")));

bool guard_has_given_up(void)
{
	return __atomic_load_n(&given_up, __ATOMIC_RELAXED) != NULL;
}

bool guard_in_driver(void)
{
	return in_driver;
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

void guard_let_go(void)
{
	struct guard_held held;

	if (!guard_count || !guard_lock(&held))
		return;
	guard_end_all();
	guard_unlock(&held);
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
	if (guard_has_given_up()) {
		guard_let_go();
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
		guard_let_go();
	guard_asks(call, arguments);
	in_driver = true;
}

static void learn(const struct call *call, const uint64_t *arguments, CUresult result)
{
	struct guard_held held;

	if (!guard_on || guard_has_given_up())
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
	guard_heard(call, arguments);
	if (call->flags & CALL_CAPTURED)
		return;
	if (call->operation)
		guard_submitted(call, arguments);
	if (call->operation == OPERATION_COPY)
		guard_copied(call);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	learn(call, arguments, result);
	in_driver = false;
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
	in_driver = false;
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
