/* SPDX-License-Identifier: MIT */
/* The cases of completion futures; cases.c runs each in a process of its own. */
#ifndef TESTS_FUTURE_CASES_H
#define TESTS_FUTURE_CASES_H

struct future_case {
	const char *name;
	void (*function)(void);
	int status;         /* that the process has to end with */
	const char *faults; /* SIMCUDA_FAIL, or NULL */
};

/* Each ends with an entry without a name. */
extern const struct future_case wait_cases[];
extern const struct future_case monitor_cases[];
extern const struct future_case context_cases[];
extern const struct future_case driver_cases[];
extern const struct future_case life_cases[];

#endif
