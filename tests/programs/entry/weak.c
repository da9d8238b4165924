// SPDX-License-Identifier: MIT
/*
 * A program that uses the driver only if it is there, by a weak reference. Under the shim the
 * reference is always answered, so the call itself must say that there is no driver.
 */
#include "entry_test.h"

#pragma weak cuInit

int main(void)
{
	if (!cuInit) {
		puts("no reference");
		return 0;
	}
	printf("%d\n", cuInit(0));
	return 0;
}
