// SPDX-License-Identifier: MIT
/*
 * A library that uses the driver in its constructor, before the preload library's own constructor
 * ran.
 */
#include "entry_test.h"

static int early_result = -1;

static __attribute__((constructor)) void early(void)
{
	init_function *init = LOOK_UP(init_function, "cuInit");

	if (lies_in((void *)init, "libslipstream.so"))
		early_result = init(0);
}

__attribute__((visibility("default"))) int early_answer(void);
int early_answer(void)
{
	return early_result;
}
