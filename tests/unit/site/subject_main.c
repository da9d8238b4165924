// SPDX-License-Identifier: MIT
#include "subject.h"

int main(void)
{
	subject_run();
	return 0;
}
