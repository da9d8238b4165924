// SPDX-License-Identifier: MIT
/*
 * Two libraries of the same size from one source, loaded after each other at the same place: the
 * name tells them apart.
 */
#include <stdint.h>

uint32_t NAME(uint32_t (*callback)(void));

__attribute__((visibility("default"))) uint32_t NAME(uint32_t (*callback)(void))
{
	uint32_t id = callback();

	__asm__ volatile("" ::: "memory"); /* no tail call */
	return id;
}
