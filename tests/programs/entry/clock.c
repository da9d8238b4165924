// SPDX-License-Identifier: MIT
/*
 * The clock against CLOCK_MONOTONIC, from the first microseconds of a process on, and from several
 * threads at once.
 */
#include <pthread.h>
#include <unistd.h>

#include "clock.h"
#include "entry_test.h"

/* A reading and CLOCK_MONOTONIC right before and after it. */
static void check_time(uint64_t tolerance)
{
	uint64_t before = clock_now_ns(), ticks = clock_ticks(), after = clock_now_ns();
	uint64_t ns = clock_ns(ticks);

	if (ns + tolerance < before || ns > after + tolerance) {
		fprintf(stderr, "reading between %llu and %llu became %llu\n",
			(unsigned long long)before, (unsigned long long)after,
			(unsigned long long)ns);
		_Exit(1);
	}
}

/* 0.1 % of the duration, and two readings' own error. */
static void check_duration(unsigned int us)
{
	uint64_t outer = clock_now_ns(), from = clock_ticks(), inner = clock_now_ns(), wanted, got,
		 width;
	uint64_t to;

	while (clock_now_ns() - inner < us * 1000ull)
		;
	wanted = clock_now_ns() - inner;
	to = clock_ticks();
	width = clock_now_ns() - outer - wanted;
	got = clock_duration_ns(from, to);
	if (got + 200 + wanted / 1000 < wanted || got > wanted + width + 200 + wanted / 1000) {
		fprintf(stderr, "%llu ns (give or take %llu) became %llu\n",
			(unsigned long long)wanted, (unsigned long long)width,
			(unsigned long long)got);
		_Exit(1);
	}
}

static void *many(void *data)
{
	for (int i = 0; i < 20000; i++) {
		uint64_t from = clock_ticks(), to = clock_ticks();

		CHECK(clock_duration_ns(from, to) < 1000000000);
		CHECK_EQUAL(0, clock_duration_ns(to + 1, to));
		check_time(20000);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[4];

	clock_start();
	check_duration(20);
	for (int round = 0; round < 5; round++) {
		check_time(2000);
		check_duration(10);
		check_duration(100);
		check_duration(1000);
		check_duration(20000);
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(0, pthread_create(&threads[i], NULL, many, NULL));
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(0, pthread_join(threads[i], NULL));
	check_duration(200000);
	return 0;
}
