// SPDX-License-Identifier: MIT
/* Check, the table of rules and the ways to them (check.h). Called by the generated wrappers, set-up and forks. */
#include "check/check.h"

#include <errno.h>

#include "check/internal.h"
#include "config.h"
#include "emit/lock.h"

bool check_on;

static struct lock lock = LOCK_INITIALIZER(LOCK_CHECK);

/* In this order, before as after. */
static const struct check_rule *const rules[] = {
	&check_follow_rule,
	&check_shared_rule,
	&check_stuck_rule,
	/* Before a capture is known to have ended: what it refused is refused while it goes on. */
	&check_refused_rule,
	&check_capture_rule,
	&check_blocking_rule,
	&check_context_rule,
	&check_copy_wait_rule,
	&check_host_order_rule,
	&check_polling_rule,
	&check_pool_rule,
	&check_timing_rule,
	&check_waiter_rule,
};

#define RULES (sizeof(rules) / sizeof(rules[0]))

/* Of another room; constant once check_start() is over. */
static const struct check_rule *added;
static bool has_order;

bool check_lock(void)
{
	return lock_take(&lock);
}

void check_unlock(void)
{
	lock_give(&lock);
}

uint64_t check_thread(void)
{
	static uint64_t threads; /* atomic add by each thread's first call */
	static __thread uint64_t number __attribute__((tls_model("initial-exec")));

	if (!number)
		number = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
	return number;
}

void check_start(void)
{
	has_order = config.check & CONFIG_CHECK_ORDER;
	__atomic_store_n(&check_on, has_order || added, __ATOMIC_RELAXED);
}

void check_add(const struct check_rule *rule)
{
	added = rule;
}

void check_before(const struct call *call, const uint64_t *arguments)
{
	int saved_errno = errno;
	uint32_t i;

	for (i = 0; has_order && i < RULES; i++)
		if (rules[i]->before)
			rules[i]->before(call, arguments);
	if (added)
		added->before(call, arguments);
	errno = saved_errno;
}

void check_after(const struct call *call, const uint64_t *arguments, CUresult result)
{
	int saved_errno = errno;
	uint32_t i;

	for (i = 0; has_order && i < RULES; i++)
		if (rules[i]->after)
			rules[i]->after(call, arguments, result);
	if (added)
		added->after(call, arguments, result);
	errno = saved_errno;
}

void check_ends(void)
{
	int saved_errno = errno;
	uint32_t i;

	if (!__atomic_load_n(&check_on, __ATOMIC_RELAXED))
		return;
	for (i = 0; has_order && i < RULES; i++)
		if (rules[i]->ends)
			rules[i]->ends();
	errno = saved_errno;
}

void check_forked(void)
{
	uint32_t i;

	__atomic_store_n(&check_on, false, __ATOMIC_RELAXED);
	lock_reset(&lock);
	for (i = 0; i < RULES; i++)
		if (rules[i]->forget)
			rules[i]->forget();
	if (added)
		added->forget();
}
