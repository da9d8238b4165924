// SPDX-License-Identifier: MIT
/*
 * Cases of the rules of order: each is a function case_NAME() that the program runs when it is given NAME. A line with the comment L03 (or another
 * rule) is where that rule must be found, one with "other" the other side of it; no other line may be found. Driver API; on the simulated driver
 * or a real one.
 */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H

#include "../../lint/programs/common.h"

struct check_case {
	const char *name;
	void (*run)(void);
	void (*begin)(void); /* of its own file */
};

#define CASE(name)                                                                                 \
	{                                                                                          \
#name, case_##name, begin                                                          \
	}

/* Ended by a name of NULL. */
extern const struct check_case cases_capture[], cases_host[], cases_order[], cases_shared[];

#endif
