// SPDX-License-Identifier: MIT
/* The header used inside a shared object; called by program.c. */
#include "scopes.h"

__attribute__((visibility("default"))) int shared_object_walk(void);

int shared_object_walk(void)
{
	return scopes_walk();
}
