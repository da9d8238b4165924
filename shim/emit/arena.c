// SPDX-License-Identifier: MIT
/*
 * Arena: chunks from mmap, cut from the front (arena.h). Called by emit and state under their
 * locks. Relies on mmap alone.
 */
#include "emit/arena.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define ARENA_CHUNK (UINT64_C(256) << 10)
#define ARENA_ALIGN 64

struct arena_chunk {
	struct arena_chunk *older;
	size_t size; /* mapped bytes, this head included */
	char padding[ARENA_ALIGN - sizeof(void *) - sizeof(size_t)];
};

void *arena_take(struct arena *arena, size_t size)
{
	struct arena_chunk *chunk = arena->newest;
	int saved_errno = errno;
	size_t chunk_size;
	void *memory;

	if (size > arena->bound)
		return NULL;
	size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
	if (!chunk || size > chunk->size - arena->used) {
		chunk_size = sizeof(*chunk) + size;
		chunk_size = (chunk_size + ARENA_CHUNK - 1) & ~(size_t)(ARENA_CHUNK - 1);
		if (chunk_size > arena->bound - arena->mapped)
			return NULL;
		memory = mmap(NULL, chunk_size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		errno = saved_errno;
		if (memory == MAP_FAILED)
			return NULL;
		chunk = memory;
		chunk->size = chunk_size;
		chunk->older = arena->newest;
		arena->newest = chunk;
		arena->mapped += chunk_size;
		arena->used = sizeof(*chunk);
	}
	memory = (char *)chunk + arena->used;
	arena->used += size;
	return memory;
}

void arena_done(struct arena *arena)
{
	struct arena_chunk *chunk = arena->newest;
	struct arena_chunk *older;
	int saved_errno = errno;

	while (chunk) {
		older = chunk->older;
		munmap(chunk, chunk->size);
		chunk = older;
	}
	arena->newest = NULL;
	arena->mapped = 0;
	arena->used = 0;
	errno = saved_errno;
}
