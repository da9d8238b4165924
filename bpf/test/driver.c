// SPDX-License-Identifier: MIT
/*
 * A library that looks like a driver to the witness: exported cu* functions, one of which calls
 * another inside.
 */
int cuInit(unsigned int flags);
int cuInner(void);
int cuOuter(void);
int cuFromShim(void);
int cuJumped(void);
int cuAlias(unsigned int flags) __attribute__((alias("cuInit")));

int cuInit(unsigned int flags)
{
	return (int)flags;
}

int cuInner(void)
{
	return 1;
}

int cuOuter(void)
{
	return cuInner() + 1;
}

int cuFromShim(void)
{
	return 3;
}

int cuJumped(void)
{
	return 4;
}
