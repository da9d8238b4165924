// SPDX-License-Identifier: MIT
/*
 * Copy threads: when they start, what they have blocked, what they are called; forked children, a process with one processor, jobs that end
 * while helpers are inside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "stage/copy_bytes.h"
#include "stage/copy_threads.h"

#define HELPERS 5

static uint32_t came, leave;

static void stay(void *data)
{
	__atomic_add_fetch((uint32_t *)data, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&leave, __ATOMIC_ACQUIRE))
		sched_yield();
}

/* True: so many came within 10 s. */
static bool post_and_wait(unsigned int wanted)
{
	uint64_t end = copy_now() + 10000000000U;
	int slot = copy_threads_take();

	assert_true(slot >= 0);
	came = leave = 0;
	copy_threads_post(slot, stay, &came, wanted);
	while (__atomic_load_n(&came, __ATOMIC_ACQUIRE) < wanted && copy_now() < end)
		sched_yield();
	copy_threads_close(slot);
	if (wanted)
		assert_int_equal(copy_threads_inside(slot), came);
	__atomic_store_n(&leave, 1, __ATOMIC_RELEASE);
	while (copy_threads_inside(slot))
		sched_yield();
	copy_threads_give(slot);
	return came == wanted;
}

static bool read_status(const char *task, const char *field, char *ret_value, size_t size)
{
	char path[64 + 256], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	file = fopen(path, "r");
	while (file && !found && fgets(line, sizeof(line), file)) {
		found = strncmp(line, field, strlen(field)) == 0;
		if (found)
			snprintf(ret_value, size, "%s", line + strlen(field) + 1);
	}
	if (file)
		fclose(file);
	return found;
}

/* Helpers found by their name; each has all signals blocked but the synchronous ones. */
static unsigned int count_helpers(void)
{
	uint64_t open = UINT64_C(1) << (SIGSEGV - 1) | UINT64_C(1) << (SIGBUS - 1) |
			UINT64_C(1) << (SIGFPE - 1) | UINT64_C(1) << (SIGILL - 1);
	DIR *tasks = opendir("/proc/self/task");
	unsigned int count = 0;
	struct dirent *task;
	char text[64];

	while ((task = readdir(tasks))) {
		uint64_t blocked;

		if (!read_status(task->d_name, "Name:", text, sizeof(text)) ||
		    strncmp(text, "slipstream-copy", 15) != 0)
			continue;
		count++;
		assert_true(read_status(task->d_name, "SigBlk:", text, sizeof(text)));
		blocked = strtoull(text, NULL, 16);
		assert_int_equal(blocked & open, 0);
		/* What the C library keeps for itself cannot be blocked: KILL, STOP, and 32, 33. */
		assert_int_equal(~blocked & ~open & ~(UINT64_C(3) << 31) &
					 ~(UINT64_C(1) << (SIGKILL - 1)) &
					 ~(UINT64_C(1) << (SIGSTOP - 1)),
				 0);
	}
	closedir(tasks);
	return count;
}

static void test_started_by_the_first_post(void **state)
{
	sigset_t before, after;
	int slot;

	assert_int_equal(count_helpers(), 0);
	slot = copy_threads_take();
	copy_threads_give(slot);
	copy_threads_kick();
	assert_int_equal(count_helpers(), 0);
	sigprocmask(SIG_SETMASK, NULL, &before);
	assert_true(post_and_wait(HELPERS));
	assert_int_equal(count_helpers(), HELPERS);
	assert_int_equal(copy_threads_running(), HELPERS);
	sigprocmask(SIG_SETMASK, NULL, &after);
	assert_memory_equal(&before, &after, 8); /* 64 signals */
	/* No second time. */
	assert_true(post_and_wait(2));
	assert_int_equal(count_helpers(), HELPERS);
}

static void test_no_more_than_wanted(void **state)
{
	for (unsigned int i = 0; i < 200; i++)
		assert_true(post_and_wait(i % (HELPERS + 1)));
}

static void test_they_wake_from_sleep(void **state)
{
	for (unsigned int i = 0; i < 20; i++) {
		usleep(2000);
		assert_true(post_and_wait(HELPERS));
	}
}

static void test_slots_are_few(void **state)
{
	int slots[COPY_SLOTS], i;

	for (i = 0; i < COPY_SLOTS; i++) {
		slots[i] = copy_threads_take();
		assert_true(slots[i] >= 0);
	}
	assert_int_equal(copy_threads_take(), -1);
	/* Closed, it is still its caller's. */
	copy_threads_close(slots[1]);
	assert_int_equal(copy_threads_take(), -1);
	for (i = 0; i < COPY_SLOTS; i++)
		copy_threads_give(slots[i]);
}

static int in_child(bool (*work)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(work() ? 0 : 1);
	waitpid(child, &status, 0);
	return status;
}

static bool child_starts_its_own(void)
{
	return count_helpers() == 0 && post_and_wait(HELPERS) && count_helpers() == HELPERS;
}

static void test_a_forked_child_starts_its_own(void **state)
{
	int slot = copy_threads_take();

	assert_int_equal(in_child(child_starts_its_own), 0);
	came = leave = 0;
	copy_threads_post(slot, stay, &came, HELPERS);
	/* Also while helpers are inside. */
	assert_int_equal(in_child(child_starts_its_own), 0);
	copy_threads_give(slot);
	__atomic_store_n(&leave, 1, __ATOMIC_RELEASE);
	while (copy_threads_inside(slot))
		sched_yield();
}

static bool one_processor(void)
{
	cpu_set_t set;
	int cpu;

	sched_getaffinity(0, sizeof(set), &set);
	for (cpu = 0; !CPU_ISSET(cpu, &set); cpu++)
		;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		return false;
	copy_threads_limit(COPY_THREADS_MAX, false);
	return copy_cpus() == 1 && copy_threads_possible() == 0 && post_and_wait(0) &&
	       count_helpers() == 0;
}

static void test_one_processor_has_no_helpers(void **state)
{
	assert_int_equal(in_child(one_processor), 0);
}

static bool exit_in_the_middle(void)
{
	int slot = copy_threads_take();

	came = leave = 0;
	copy_threads_post(slot, stay, &came, HELPERS);
	exit(0);
}

static void test_exit_waits_for_nobody(void **state)
{
	assert_int_equal(in_child(exit_in_the_middle), 0);
}

static void test_bytes_of_all_lengths_and_places(void **state)
{
	static unsigned char from[6000], to[6000];
	unsigned int length, shift, way, i;

	for (i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	for (length = 0; length < 2500; length += 1 + length / 9)
		for (shift = 0; shift < 130; shift += 3)
			for (way = 0; way < 2; way++) {
				struct copy_rows rows = {
					.to = (char *)to + shift,
					.from = (char *)from + shift * 5 % 67,
					.width = length,
					.rows = 2,
					.to_pitch = length + 1,
					.from_pitch = length + 3,
				};

				memset(to, 0xaa, sizeof(to));
				copy_rows(&rows, way);
				assert_memory_equal(rows.to, rows.from, length);
				assert_memory_equal(rows.to + length + 1, rows.from + length + 3,
						    length);
				assert_int_equal(to[shift + length], 0xaa);
				assert_int_equal(to[shift + length * 2 + 1], 0xaa);
				assert_true(!shift || to[shift - 1] == 0xaa);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_started_by_the_first_post),
		cmocka_unit_test(test_no_more_than_wanted),
		cmocka_unit_test(test_they_wake_from_sleep),
		cmocka_unit_test(test_slots_are_few),
		cmocka_unit_test(test_a_forked_child_starts_its_own),
		cmocka_unit_test(test_one_processor_has_no_helpers),
		cmocka_unit_test(test_exit_waits_for_nobody),
		cmocka_unit_test(test_bytes_of_all_lengths_and_places),
	};

	copy_threads_limit(HELPERS, true);
	return cmocka_run_group_tests_name("copy-threads", tests, NULL, NULL);
}
