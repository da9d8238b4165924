// SPDX-License-Identifier: MIT
/*
 * Linked with both libraries of next_library.c, the asking one first.
 */
#include "entry_test.h"

int entry_answer(void);
int entry_second(void);

int main(void)
{
	CHECK_EQUAL(2, entry_second());
	CHECK_EQUAL(42, entry_answer());
	return 0;
}
