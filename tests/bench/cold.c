// SPDX-License-Identifier: MIT
/*
 * Cold memory (cold.h).
 */
#include "cold.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define LINE 64
#define HUGE (2 * MIB)
/* Parts of small copies lie so far from each other that no prefetch of one reads the next. */
#define STEP    ((size_t)16 << 10)
#define UNKNOWN (640 * MIB)

size_t cold_enough(void)
{
	long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);

	if (cache <= 0)
		return UNKNOWN;
	return (size_t)cache * 2 < 64 * MIB ? 64 * MIB : (size_t)cache * 2;
}

void cold_fill(char *memory, size_t bytes, uint64_t seed)
{
	uint64_t word = seed * 2862933555777941757u + 3037000493u;
	size_t i;

	for (i = 0; i + 8 <= bytes; i += 8) {
		memcpy(memory + i, &word, 8);
		word = word * 6364136223846793005u + 1442695040888963407u;
	}
	memcpy(memory + i, &word, bytes - i);
}

void cold_open(struct cold *cold, size_t far, size_t largest, int advice)
{
	char *memory;

	*cold = (struct cold){.bytes = (far + largest + HUGE - 1) / HUGE * HUGE, .far = far};
	memory = mmap(NULL, cold->bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED) {
		fprintf(stderr, "no memory for %zu bytes of the host\n", cold->bytes);
		exit(1);
	}
	cold->memory = memory + (-(uintptr_t)memory & (HUGE - 1));
	madvise(cold->memory, cold->bytes, advice);
	cold_fill(cold->memory, cold->bytes, 1);
}

/* In the order in which the parts come, so that the first part is the longest ago. */
static void walk(const struct cold *cold)
{
	const volatile char *memory = cold->memory;

	for (size_t at = 0; at < cold->bytes; at += LINE)
		(void)memory[at];
}

char *cold_next(struct cold *cold, size_t bytes)
{
	size_t step = (bytes + STEP - 1) / STEP * STEP;
	char *part;

	if (!cold->far)
		return cold->memory;
	if (cold->at + step > cold->bytes) {
		/* Large parts have touched all of it by themselves. */
		if (cold->touched < cold->far)
			walk(cold);
		cold->at = cold->touched = 0;
	}
	part = cold->memory + cold->at;
	cold->at += step;
	cold->touched += bytes;
	return part;
}
