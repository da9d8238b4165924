// SPDX-License-Identifier: MIT
/*
 * A small program for the fuzzers of ELF readers to begin with: it has an interpreter, a dynamic section, and
 * functions with and without the prefix of the driver's.
 */
int cuInit(unsigned int flags)
{
	return (int)flags;
}

int start(void)
{
	return cuInit(0);
}
