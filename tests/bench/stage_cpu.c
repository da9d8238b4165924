// SPDX-License-Identifier: MIT
/*
 * `stage cpu` (stage.c): no driver at all; what the copying loops, the kernel's look at pages, and posting to the helpers take.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "cold.h"
#include "stage/chunks.h"
#include "stage/copy_bytes.h"
#include "stage/copy_threads.h"
#include "stage/stage_memory.h"
#include "stage_bench.h"

#define BYTES ((size_t)64 << 20)
#define RING  ((size_t)16 << 20)
#define UNIT  ((size_t)128 << 10)

char *stage_bench_map(size_t bytes, bool huge)
{
	size_t room = bytes + CHUNK_BYTES;
	char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	memory += -(uintptr_t)memory & (CHUNK_BYTES - 1);
	madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return memory;
}

static struct {
	char *memory, *ring;
	size_t bytes; /* of the memory: more than the caches hold, or less */
	bool streamed, out;
	uint64_t next, arrived;
} work;

static void copy_all(void *unused)
{
	size_t at;

	while ((at = __atomic_fetch_add(&work.next, UNIT, __ATOMIC_RELAXED)) < work.bytes) {
		char *chunk = work.ring + at % RING, *memory = work.memory + at;

		(work.streamed ? copy_bytes_streamed : copy_bytes_cached)(
			work.out ? memory : chunk, work.out ? chunk : memory, UNIT);
	}
}

static void arrive(void *unused)
{
	__atomic_add_fetch(&work.arrived, 1, __ATOMIC_RELEASE);
}

static void loops(unsigned int helpers)
{
	for (int way = 0; way < 4; way++) {
		uint64_t best = UINT64_MAX;

		work.streamed = way & 1;
		work.out = way & 2;
		for (int i = 0; i < 5; i++) {
			int slot = copy_threads_take();
			uint64_t begin = copy_now();

			work.next = 0;
			copy_threads_post(slot, copy_all, NULL, helpers);
			copy_all(NULL);
			copy_threads_give(slot);
			while (copy_threads_inside(slot))
				copy_pause();
			begin = copy_now() - begin;
			if (begin < best)
				best = begin;
		}
		printf("  %2u threads, %s chunks, %s: %.2f GB/s\n", helpers + 1,
		       work.out ? "out of" : "into", work.streamed ? "streamed" : "cached",
		       (double)work.bytes / (double)best);
	}
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The caller's time for a post, and the time until all have come. */
static void posts(unsigned int helpers, unsigned int pause_us)
{
	uint64_t post[101], all[101], begin;
	struct timespec pause = {.tv_nsec = pause_us * 1000L};

	for (int i = 0; i < 101; i++) {
		int slot;

		if (pause_us)
			nanosleep(&pause, NULL);
		while ((slot = copy_threads_take()) < 0)
			copy_pause();
		work.arrived = 0;
		begin = copy_now();
		copy_threads_post(slot, arrive, NULL, helpers);
		post[i] = copy_now() - begin;
		while (__atomic_load_n(&work.arrived, __ATOMIC_ACQUIRE) < helpers &&
		       copy_now() - begin < 10000000)
			copy_pause();
		all[i] = copy_now() - begin;
		copy_threads_give(slot);
	}
	qsort(post, 101, sizeof(*post), compare);
	qsort(all, 101, sizeof(*all), compare);
	printf("  post to %u helpers that %s: %.2f us; %.2f us until %u came\n", helpers,
	       pause_us ? "sleep" : "spin", (double)post[50] / 1000, (double)all[50] / 1000,
	       helpers);
}

static void pages(bool huge)
{
	uint64_t begin, took;

	work.memory = stage_bench_map(work.bytes, huge);
	begin = copy_now();
	stage_memory_populate((uintptr_t)work.memory, (uintptr_t)work.memory + work.bytes, true);
	printf("  %s pages: first touch %.1f us a 2 MiB", huge ? "huge" : "small",
	       (double)(copy_now() - begin) / 1000 / (work.bytes / CHUNK_BYTES));
	for (int way = 0; way < 3; way++) {
		begin = copy_now();
		for (size_t at = 0; at < work.bytes; at += UNIT) {
			uintptr_t first = (uintptr_t)work.memory + at;

			if (way == 2)
				stage_memory_is_there(first, first + UNIT);
			else
				stage_memory_populate(first, first + UNIT, way);
		}
		took = copy_now() - begin;
		printf(", %s %.2f us a 128 KiB",
		       way == 2 ? "mincore"
		       : way    ? "populate for writing"
				: "for reading",
		       (double)took / 1000 / (work.bytes / UNIT));
	}
	printf("\n");
}

int stage_bench_cpu(void)
{
	unsigned int possible = copy_threads_possible();
	uint64_t begin = copy_now();

	printf("%u processors, %u helpers\n", copy_cpus(), possible);
	for (int i = 0; i < 100; i++)
		stage_memory_look((uintptr_t)&work, (uintptr_t)&work + 1, true);
	printf("  look at mappings %.2f us\n", (double)(copy_now() - begin) / 1000 / 100);
	work.ring = chunk_map(RING);
	memset(work.ring, 1, RING);
	for (int way = 0; way < 4; way++) {
		work.bytes = way & 1 ? cold_enough() : BYTES;
		pages(way & 2);
		printf("  of %zu MiB, which the caches %s\n", work.bytes >> 20,
		       way & 1 ? "do not hold" : "may hold");
		for (unsigned int helpers = 0; helpers <= possible; helpers = helpers * 2 + 1)
			loops(helpers);
		munmap(work.memory, work.bytes);
	}
	for (unsigned int helpers = 1; helpers <= possible; helpers = helpers * 2 + 1) {
		posts(helpers, 0);
		posts(helpers, 1000);
	}
	return 0;
}
