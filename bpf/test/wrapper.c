// SPDX-License-Identifier: MIT
/*
 * A library that looks like the shim to the witness: a wrapper, a call of its own behind it, and a
 * count-and-jump thunk.
 */
#include <dlfcn.h>

int cuInit(unsigned int flags);
int cuJumped(void);

void *jump_target; /* of the thunk below */

__attribute__((noinline)) static int ask_driver(void)
{
	int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "cuFromShim");

	return real ? real() + 0 : -1;
}

int cuInit(unsigned int flags)
{
	int (*real)(unsigned int) = (int (*)(unsigned int))dlsym(RTLD_NEXT, "cuInit");
	int result = real(flags);

	return ask_driver() == 3 ? result : -1;
}

__attribute__((constructor)) static void find_target(void)
{
	jump_target = dlsym(RTLD_NEXT, "cuJumped");
}

/* Leaves no frame: the driver sees the program's return address. */
__asm__(".text\n.globl cuJumped\n.type cuJumped, @function\ncuJumped:\n\tmov "
	"jump_target@GOTPCREL(%rip), "
	"%rax\n"
	"\tjmp *(%rax)\n.size cuJumped, . - cuJumped\n");
