// SPDX-License-Identifier: MIT
/* The summary of witnessed calls by itself: what it makes of claims, of ways to wait, and of processes without the library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "emit/usdt.h"
#include "summary_number.h"
#include "witness_summary.h"

#define MS UINT64_C(1000000)

/* A claim that the kernel bears out is none to tell. */
static void true_claims_are_only_counted(void **state)
{
	struct witness_summary *summary = witness_summary_new();
	struct witness_claim claim = {.function = "cuMemFree_v2",
				      .how = 2,
				      .call_ns = 10 * MS,
				      .off_cpu_ns = WITNESS_CLAIM_NS,
				      .driver_ns = 5};
	json_t *object;

	witness_summary_claim(summary, &claim);
	object = witness_summary_json(summary);
	assert_int_equal(number(object, "claims"), 1);
	assert_int_equal(json_array_size(json_object_get(object, "contradicted")), 0);
	json_decref(object);
	claim.off_cpu_ns++;
	claim.how = USDT_REWRITE_STAGED;
	witness_summary_claim(summary, &claim);
	claim.how = USDT_REWRITE_PARKED_WAITED; /* says itself that it waited */
	witness_summary_claim(summary, &claim);
	object = witness_summary_json(summary);
	assert_int_equal(json_array_size(json_object_get(object, "contradicted")), 0);
	json_decref(object);
	claim.how = USDT_REWRITE_PARKED;
	witness_summary_claim(summary, &claim);
	object = witness_summary_json(summary);
	assert_int_equal(json_array_size(json_object_get(object, "contradicted")), 1);
	json_decref(object);
	witness_summary_free(summary);
}

static void tells_ways_of_waiting_apart(void **state)
{
	struct witness_call spin = {.call_ns = MS, .blocked_ns = MS};
	struct witness_call yields = {.call_ns = MS, .blocked_ns = MS, .yields = 1000};
	struct witness_call loop = {
		.call_ns = MS, .blocked_ns = MS, .system_call = SYS_ioctl, .system_calls = 1000};
	struct witness_call rare = {
		.call_ns = MS, .blocked_ns = MS, .system_call = SYS_ioctl, .system_calls = 3};
	struct witness_call sleeps = {.call_ns = 10 * MS,
				      .blocked_ns = 9 * MS,
				      .off_cpu_ns = 8 * MS,
				      .poll_ns = 5 * MS,
				      .preempted_ns = 3 * MS};
	struct witness_call cheap = {
		.call_ns = 10 * MS, .blocked_ns = 1 * MS, .off_cpu_ns = 2 * MS, .futex_ns = 2 * MS};
	uint64_t ns[WITNESS_HOWS];

	witness_split(&spin, ns);
	assert_int_equal(ns[WITNESS_SPIN], MS);
	witness_split(&yields, ns);
	assert_int_equal(ns[WITNESS_YIELD], MS);
	assert_int_equal(ns[WITNESS_SPIN], 0);
	witness_split(&loop, ns);
	assert_int_equal(ns[WITNESS_IOCTL], MS);
	loop.system_call = SYS_epoll_wait;
	witness_split(&loop, ns);
	assert_int_equal(ns[WITNESS_POLL], MS);
	loop.system_call = 449; /* futex_waitv */
	witness_split(&loop, ns);
	assert_int_equal(ns[WITNESS_FUTEX], MS);
	loop.system_call = SYS_sched_yield;
	witness_split(&loop, ns);
	assert_int_equal(ns[WITNESS_YIELD], MS);
	witness_split(&rare, ns);
	assert_int_equal(ns[WITNESS_SPIN], MS);
	witness_split(&sleeps, ns);
	assert_int_equal(ns[WITNESS_POLL], 5 * MS);
	assert_int_equal(ns[WITNESS_PREEMPTED], 3 * MS);
	assert_int_equal(ns[WITNESS_SPIN], MS);
	witness_split(&cheap, ns);
	assert_int_equal(ns[WITNESS_FUTEX], MS);
	assert_int_equal(ns[WITNESS_SPIN], 0);
}

static size_t unpreloaded(const struct witness_summary *summary)
{
	json_t *object = witness_summary_json(summary);
	size_t count = json_array_size(json_object_get(object, "unpreloaded"));

	json_decref(object);
	return count;
}

/* Where nobody has the library, as in attach, nobody lacks it. */
static void who_lacks_the_library_is_told_beside_those_who_have_it(void **state)
{
	struct witness_summary *summary = witness_summary_new();
	struct witness_call call = {.function = "cuCtxSynchronize",
				    .by = WITNESS_BY_PROGRAM,
				    .returned = true,
				    .call_ns = MS,
				    .blocked_ns = MS};
	struct witness_count count = {.function = "cuCtxSynchronize",
				      .by = {[WITNESS_BY_PROGRAM] = 1}};

	witness_summary_call(summary, &call);
	witness_summary_count(summary, &count);
	assert_int_equal(unpreloaded(summary), 0);
	count = (struct witness_count){
		.function = "cuCtxSynchronize", .shim = true, .by = {[WITNESS_BY_WRAPPER] = 1}};
	witness_summary_count(summary, &count);
	assert_int_equal(unpreloaded(summary), 1);
	/* From inside the driver it is the outer call's. */
	call.by = WITNESS_BY_LIBRARY;
	call.function = "cuMemFree_v2";
	witness_summary_call(summary, &call);
	assert_int_equal(unpreloaded(summary), 1);
	witness_summary_free(summary);
}

/* Whose the lost ones were nobody knows: they are not proven to have come through the wrapper. */
static void lost_callers_are_not_proven(void **state)
{
	struct witness_summary *summary = witness_summary_new();
	struct witness_count count = {
		.function = "cuCtxSynchronize", .shim = true, .by = {[WITNESS_BY_WRAPPER] = 60}};
	struct witness_loss loss = {.entries = 100, .lost_callers = 30, .lost_calls = 10};
	json_t *object;

	witness_summary_count(summary, &count);
	witness_summary_loss(summary, &loss);
	object = witness_summary_json(summary);
	assert_int_equal(number(object, "coverage.calls"), 100);
	assert_int_equal(number(object, "coverage.unknown"), 40);
	assert_true(json_real_value(
			    json_object_get(json_object_get(object, "coverage"), "proven")) == 0.6);
	json_decref(object);
	witness_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_claims_are_only_counted),
		cmocka_unit_test(tells_ways_of_waiting_apart),
		cmocka_unit_test(who_lacks_the_library_is_told_beside_those_who_have_it),
		cmocka_unit_test(lost_callers_are_not_proven),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
