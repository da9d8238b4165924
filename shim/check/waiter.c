// SPDX-License-Identifier: MIT
/*
 * Check, S08: a thread that never submits anything is blocked in a wait of the driver, and right after it returns another thread goes on that made no
 * call meanwhile: most likely it was woken by the first, which is a future built on a blocked thread. Who wakes whom is not seen here, only that it is
 * so again and again, and more often than not.
 *
 * waiters	under check_lock()
 * own		each thread's own
 */
#include "check/internal.h"

#include <string.h>

#include "check/pairs.h"
#include "clock.h"

#define WAITERS_MAX 64
/* What a wait must take at least, and within what time the other one goes on at most. */
#define BLOCKED_NS  50000
#define WOKEN_NS    2000000
#define LEAST_COUNT 4

struct waiter {
	uint64_t thread; /* check_thread(); 0: not in use */
	uint64_t entered,
		left; /* ticks of its last wait that blocked; 0: somebody went on behind it already */
	uint64_t waits, woken;
	struct check_side wait;
};

static struct waiter waiters[WAITERS_MAX];
static uint32_t count;

static __thread struct {
	bool submits;
	uint64_t left; /* ticks: when its last call returned; 0: none yet */
} own __attribute__((tls_model("initial-exec")));

static struct waiter *find(uint64_t thread)
{
	struct waiter *unused = NULL;
	uint32_t i;

	for (i = 0; i < WAITERS_MAX; i++) {
		if (waiters[i].thread == thread)
			return &waiters[i];
		if (!waiters[i].thread)
			unused = &waiters[i];
	}
	return unused;
}

static void waited(const struct call *call)
{
	struct check_side side = check_side_take(call);
	struct waiter *waiter;

	if (!check_lock())
		return;
	waiter = find(check_thread());
	if (waiter) {
		/* Of one place: a thread with several is no such thread, or is found at one of them. */
		if (waiter->wait.site != side.site)
			waiter->waits = waiter->woken = 0;
		(void)check_hint_add(&count, !waiter->thread);
		waiter->thread = check_thread();
		waiter->entered = call->entered;
		waiter->left = call->left;
		waiter->wait = side;
		waiter->waits++;
	}
	check_unlock();
	if (!waiter)
		check_lost("threads that only wait: too many");
}

static void submits(void)
{
	struct waiter *waiter;

	own.submits = true;
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !check_lock())
		return;
	waiter = find(check_thread());
	if (waiter && waiter->thread) {
		memset(waiter, 0, sizeof(*waiter));
		(void)check_hint_add(&count, -1);
	}
	check_unlock();
}

/*
 * Made no call but at the wait's very beginning, and makes one right behind it: within half its time, so that who calls now and then seldom does.
 */
static bool goes_on_behind(const struct waiter *waiter, uint64_t now)
{
	uint64_t took_ns;

	if (!waiter->left || own.left >= waiter->left || now <= waiter->left)
		return false;
	took_ns = clock_duration_ns(waiter->entered, waiter->left);
	return clock_duration_ns(waiter->entered, own.left) <= took_ns / 8 &&
	       clock_duration_ns(waiter->left, now) <
		       (took_ns / 2 < WOKEN_NS ? took_ns / 2 : WOKEN_NS);
}

/* Remarks to make of it. */
static uint32_t count_woken(struct waiter *waiter)
{
	waiter->left = 0;
	waiter->woken++;
	return waiter->woken * 2 < waiter->waits ? 0
						 : check_remarks_due(waiter->woken, LEAST_COUNT);
}

static void before(const struct call *call, const uint64_t *arguments)
{
	uint64_t now = clock_ticks(), thread = check_thread();
	struct check_side wait, side;
	uint32_t made = 0, i;

	(void)arguments;
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || !own.left || !check_lock())
		return;
	for (i = 0; i < WAITERS_MAX && !made; i++)
		if (waiters[i].thread && waiters[i].thread != thread &&
		    goes_on_behind(&waiters[i], now)) {
			wait = waiters[i].wait;
			made = count_woken(&waiters[i]);
		}
	check_unlock();
	if (!made)
		return;
	side = check_side_take(call);
	for (; made; made--)
		check_remark_at(&wait, 0, RULE_BLOCKED_FOR_ANOTHER, &side);
}

static void after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	(void)arguments;
	own.left = call->left;
	if (call->operation && !own.submits)
		submits();
	else if (result == CUDA_SUCCESS && !own.submits &&
		 catalogue_rows[call->function].kind == CATALOGUE_KIND_WAIT &&
		 clock_duration_ns(call->entered, call->left) >= BLOCKED_NS)
		waited(call);
}

static void forget(void)
{
	memset(waiters, 0, sizeof(waiters));
	count = 0;
	own.submits = false;
	own.left = 0;
}

const struct check_rule check_waiter_rule = {.before = before, .after = after, .forget = forget};
