// SPDX-License-Identifier: MIT
/* A program that has called clearenv(3), which leaves `environ` NULL, before its first driver call. */
#include "check.h"

extern char **environ;

int main(void)
{
	int count = 0;

	EXPECT(!clearenv());
	EXPECT(!environ);
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	EXPECT(count == 2);
	return failures != 0;
}
