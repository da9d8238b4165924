// SPDX-License-Identifier: MIT
/*
 * The cases of completion futures on the simulated driver: all, those of a group, the one that is
 * named (`=NAME`: by the runner, which knows its status; `NAME`: in this process). Each runs in a process of its own, since some end theirs, and since the monitor belongs
 * to the process. A case that hangs is ended by its alarm.
 */
#include "cases.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#include <cmocka.h>

#define SECONDS     50
#define CASES_LIMIT 80

extern char **environ;

static const struct {
	const char *name;
	const struct future_case *cases;
} groups[] = {
	{"wait", wait_cases},     {"monitor", monitor_cases}, {"context", context_cases},
	{"driver", driver_cases}, {"life", life_cases},
};

/* argv[0] would not do: the test may have been started by a name of the search path. */
static void run_alone(void **state)
{
	const struct future_case *one = *state;
	char *arguments[] = {"cases", (char *)one->name, NULL};
	int status = 0;
	pid_t child;

	if (one->faults)
		setenv("SIMCUDA_FAIL", one->faults, 1);
	else
		unsetenv("SIMCUDA_FAIL");
	assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status))
		fail_msg("%s: signal %d (%s)", one->name, WTERMSIG(status),
			 WTERMSIG(status) == SIGALRM ? "hangs" : "see above");
	assert_int_equal(WEXITSTATUS(status), one->status);
}

static void run_named(const char *name)
{
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
		for (const struct future_case *one = groups[i].cases; one->name; one++)
			if (strcmp(name, one->name) == 0) {
				alarm(SECONDS);
				one->function();
				exit(0);
			}
}

int main(int argc, char **argv)
{
	struct CMUnitTest tests[CASES_LIMIT] = {{0}};
	size_t count = 0;

	if (argc > 1)
		run_named(argv[1]);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		for (const struct future_case *one = groups[i].cases; one->name; one++) {
			if (argc > 1 && strcmp(argv[1], groups[i].name) != 0 &&
			    (argv[1][0] != '=' || strcmp(argv[1] + 1, one->name) != 0))
				continue;
			if (count == CASES_LIMIT)
				abort();
			tests[count].name = one->name;
			tests[count].test_func = run_alone;
			tests[count++].initial_state = (void *)one;
		}
	}
	if (!count) {
		fprintf(stderr, "neither a group nor a case: %s\n", argv[1]);
		return 2;
	}
	return _cmocka_run_group_tests("futures", tests, count, NULL, NULL);
}
