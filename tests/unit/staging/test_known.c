// SPDX-License-Identifier: MIT
/*
 * What is remembered of the driver's answers, and by what it is forgotten; with a thread that asks while another one changes what the driver knows.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rewrite/known.h"

uint32_t rewrite_on = 1;

static const struct known_ends some = {.first = 4096, .last = 8191, .context = 1};

static void remember(const struct known_ends *ends)
{
	known_pageable(ends, known_asking());
}

static void test_remembered(void **state)
{
	assert_false(known_is_pageable(&some));
	remember(&some);
	assert_true(known_is_pageable(&some));
	assert_true(known_is_pageable(&some));
	known_changed();
	assert_false(known_is_pageable(&some));
	known_changed();
	assert_false(known_is_pageable(&some));
	remember(&some);
	assert_true(known_is_pageable(&some));
}

/* Other bytes and other contexts are other questions. */
static void test_of_its_own(void **state)
{
	struct known_ends other = some;

	remember(&some);
	other.first--;
	assert_false(known_is_pageable(&other));
	other = some;
	other.last++;
	assert_false(known_is_pageable(&other));
	other = some;
	other.context++;
	assert_false(known_is_pageable(&other));
	remember(&other);
	assert_true(known_is_pageable(&other));
	assert_true(known_is_pageable(&some));
}

/* An answer from before a change, given behind it. */
static void test_late(void **state)
{
	uint64_t asked = known_asking();

	known_changed();
	known_pageable(&some, asked);
	assert_false(known_is_pageable(&some));
	/* Nor when somebody else has asked since. */
	known_asking();
	assert_false(known_is_pageable(&some));
	/* Two at once are one change at least. */
	asked = known_asking();
	assert_int_equal(known_asking(), asked);
	known_pageable(&some, asked);
	assert_true(known_is_pageable(&some));
}

static CUresult call(CUresult result)
{
	/* From before: not to be used while the call is under way. */
	assert_false(known_is_pageable(&some));
	remember(&some);
	return result;
}

static void test_around_call(void **state)
{
	remember(&some);
	assert_int_equal(KNOWN_CHANGES(call(CUDA_ERROR_INVALID_VALUE)), CUDA_ERROR_INVALID_VALUE);
	assert_false(known_is_pageable(&some));
}

/* More than it holds: the last one is always there, and what is told is true. */
static void test_many(void **state)
{
	struct known_ends ends = {.context = 1};
	unsigned int i, there = 0;

	for (i = 0; i < 1000; i++) {
		ends.first = i * 8192;
		ends.last = ends.first + 4095;
		remember(&ends);
		assert_true(known_is_pageable(&ends));
	}
	for (i = 0; i < 1000; i++) {
		ends.first = i * 8192 + 4096;
		ends.last = ends.first + 4095;
		assert_false(known_is_pageable(&ends));
		ends.first = i * 8192;
		ends.last = ends.first + 4095;
		there += known_is_pageable(&ends);
	}
	assert_true(there >= 16);
}

static void *look(void *data)
{
	*(bool *)data = known_is_pageable(&some);
	return NULL;
}

static void test_thread(void **state)
{
	bool known = true;
	pthread_t thread;

	remember(&some);
	pthread_create(&thread, NULL, look, &known);
	pthread_join(thread, NULL);
	assert_false(known);
}

#define ROUNDS 20000

/* Of the driver: 1: it knows the memory. And of the program: how many calls that made it so have returned. */
static uint32_t driver_knows, returned, forgotten, over;

static void *changes(void *data)
{
	unsigned int i;

	for (i = 1; i <= ROUNDS; i++) {
		(void)KNOWN_CHANGES(
			(__atomic_store_n(&driver_knows, 1, __ATOMIC_RELAXED), CUDA_SUCCESS));
		__atomic_store_n(&returned, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&forgotten, __ATOMIC_ACQUIRE) != i)
			;
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* As staging_memory.c asks. */
static bool is_pageable(void)
{
	uint64_t asked;

	if (known_is_pageable(&some))
		return true;
	asked = known_asking();
	if (__atomic_load_n(&driver_knows, __ATOMIC_RELAXED))
		return false;
	known_pageable(&some, asked);
	return true;
}

/* Behind the return of a call that makes memory known nobody takes it for pageable. */
static void test_race(void **state)
{
	unsigned int wrong = 0, seen = 0;
	uint32_t behind;
	pthread_t thread;

	pthread_create(&thread, NULL, changes, NULL);
	while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
		behind = __atomic_load_n(&returned, __ATOMIC_ACQUIRE);
		if (is_pageable())
			wrong += behind != seen;
		else if (behind != seen) {
			/* It is unregistered: pageable again, of which nobody is told. */
			__atomic_store_n(&driver_knows, 0, __ATOMIC_RELAXED);
			seen = behind;
			(void)is_pageable();
			__atomic_store_n(&forgotten, seen, __ATOMIC_RELEASE);
		}
		if (wrong)
			break;
	}
	__atomic_store_n(&forgotten, ROUNDS, __ATOMIC_RELEASE);
	if (!wrong)
		pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_remembered), cmocka_unit_test(test_of_its_own),
		cmocka_unit_test(test_late),       cmocka_unit_test(test_around_call),
		cmocka_unit_test(test_many),       cmocka_unit_test(test_thread),
		cmocka_unit_test(test_race),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
