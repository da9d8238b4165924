// SPDX-License-Identifier: MIT
/*
 * Linked with early_library.c.
 */
#include "entry_test.h"

int early_answer(void);

int main(void)
{
	CHECK_EQUAL(CUDA_SUCCESS, early_answer());
	CHECK_EQUAL(1, fake_calls("cuInit"));
	return 0;
}
