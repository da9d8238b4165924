// SPDX-License-Identifier: MIT
/* The host is too early: each case is found at both places (guarded.h). */
#include "guarded.h"

#include <malloc.h>
#include <sys/mman.h>

static volatile uint32_t *registered(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	memset(memory, 0, bytes);
	OK(cuMemHostRegister(memory, bytes, 0));
	return memory;
}

static void read_pinned(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: read-pinned */
	OK(cuEventRecord(event, stream));
	sum += host[2000]; /* FOUND: read-pinned L01 */
	OK(cuEventSynchronize(event));
	CHECK(host[2000] == 42 && host[0] == 42 && host[4095] == 42);
}

/* A result of one word: the usual one. */
static void read_word(void)
{
	volatile uint32_t *host = pinned(4);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, 4, stream)); /* OTHER: read-word */
	sum += *host;                                         /* FOUND: read-word L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(*host == 42);
}

static void write_destination(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: write-destination */
	host[5] = 1; /* FOUND: write-destination L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(host[5] == 42);
}

static void read_registered(void)
{
	volatile uint32_t *host = registered(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: read-registered */
	sum += host[1024];                                         /* FOUND: read-registered L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(host[1024] == 42);
}

/* The edges are left out, what is between is not. */
static void read_unaligned(void)
{
	char *block = malloc(REGION);
	volatile uint32_t *host = (void *)(block + 512);

	CHECK(block);
	memset(block, 0, REGION);
	OK(cuMemHostRegister(block, REGION, 0));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION - 1024, stream)); /* OTHER: unaligned */
	sum += host[1500];                                                /* FOUND: unaligned L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(host[1500] == 42);
}

static void read_generic(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyAsync((uintptr_t)host, data, REGION, stream)); /* OTHER: read-generic */
	sum += host[0];                                           /* FOUND: read-generic L01 */
}

static void write_pinned(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, (const void *)host, REGION, stream)); /* OTHER: write-pinned */
	sum += host[3];
	host[3] = 7; /* FOUND: write-pinned L02 */
}

static void write_registered(void)
{
	volatile uint32_t *host = registered(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, (const void *)host, REGION, stream)); /* OTHER: write-reg */
	host[1] = 7;                                                     /* FOUND: write-reg L02 */
}

/* In a function of the C library: the program's own line is found. */
static void write_memset(void)
{
	void *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, host, REGION, stream)); /* OTHER: write-memset */
	memset(host, (int)sum, REGION);                    /* FOUND: write-memset L02 */
}

static void free_pinned(void)
{
	void *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, host, REGION, stream)); /* OTHER: free-pinned */
	OK(cuMemFreeHost(host));                           /* FOUND: free-pinned L02 */
}

static void unregister(void)
{
	volatile uint32_t *host = registered(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, (const void *)host, REGION, stream)); /* OTHER: unregister */
	OK(cuMemHostUnregister((void *)host));                           /* FOUND: unregister L02 */
	host[0] = 1;
}

static void unmap_registered(void)
{
	volatile uint32_t *host = registered(REGION);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(data, (const void *)host, REGION, stream)); /* OTHER: unmap */
	CHECK(!munmap((void *)host, REGION));                            /* FOUND: unmap L02 */
	OK(cuStreamSynchronize(stream));
}

static void *large_block(size_t bytes)
{
	void *host = malloc(bytes);

	CHECK(host);
	memset(host, 0, bytes);
	OK(cuMemHostRegister(host, bytes, 0));
	return host;
}

#define LARGE (1UL << 20) /* a mapping of its own */

/* The simulated driver uses such a block where it lies, until it has no block there: the process ends before. */
static void end_early(void)
{
	_exit(0);
}

static void free_registered(void)
{
	CUdeviceptr to = on_device(LARGE);
	void *host = large_block(LARGE);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(to, host, LARGE, stream)); /* OTHER: free-registered */
	free(host);                                     /* FOUND: free-registered L02 */
	end_early();
	end_early();
}

static void realloc_registered(void)
{
	CUdeviceptr to = on_device(LARGE);
	void *host = large_block(LARGE);

	busy_on(stream);
	OK(cuMemcpyHtoDAsync(to, host, LARGE, stream)); /* OTHER: realloc-registered */
	host = realloc(host, 2 * LARGE);                /* FOUND: realloc-registered L02 */
	end_early();
}

/* The wait is for something else. */
static void wait_for_other(void)
{
	volatile uint32_t *host = pinned(REGION);
	CUevent other = new_event(CU_EVENT_DISABLE_TIMING);

	OK(cuEventRecord(other, stream));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: wait-for-other */
	OK(cuEventSynchronize(other));
	OK(cuStreamSynchronize(second));
	sum += host[0]; /* FOUND: wait-for-other L01 */
}

static void query_not_ready(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: query-not-ready */
	CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	sum += host[0]; /* FOUND: query-not-ready L01 */
}

/* An event that was never recorded is complete at once. */
static void event_not_recorded(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: event-not-recorded */
	OK(cuEventSynchronize(event));
	sum += host[0]; /* FOUND: event-not-recorded L01 */
}

/* Behind a kernel that has nothing of the host's the copy is still guarded. */
static void kernel_behind(void)
{
	volatile uint32_t *host = pinned(REGION);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: kernel-behind */
	busy_on(stream);
	sum += host[0]; /* FOUND: kernel-behind L01 */
}

/* Neighbours on the same page do not hide it for good. */
static void after_neighbour(void)
{
	volatile uint32_t *host = pinned(4096);

	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, 512, stream)); /* OTHER: after-neighbour */
	host[1000] = 1;
	sum += host[600];
	OK(cuEventRecord(event, stream));
	sum += host[100]; /* FOUND: after-neighbour L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(host[1000] == 1 && host[100] == 42);
}

/* Two copies to one page, of which one is waited for. */
static void one_of_two(void)
{
	volatile uint32_t *host = pinned(4096);

	OK(cuMemcpyDtoHAsync((void *)host, data, 512, second));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)&host[512], data, 512, stream)); /* OTHER: one-of-two */
	OK(cuStreamSynchronize(second));
	CHECK(host[100] == 42);
	OK(cuEventRecord(event, second));
	sum += host[512]; /* FOUND: one-of-two L01 */
	OK(cuStreamSynchronize(stream));
}

/* Each time a little: the bytes are right in the end, whoever looked. */
static void many_times(void)
{
	volatile uint32_t *host = pinned(REGION);

	for (int i = 0; i < 20; i++) {
		busy_on(stream);
		OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream)); /* OTHER: many-times */
		sum += host[i]; /* FOUND: many-times L01 */
		OK(cuStreamSynchronize(stream));
		CHECK(host[i] == 42);
	}
}

static const struct guard_case cases[] = {
	{"read-pinned", read_pinned},
	{"read-word", read_word},
	{"write-destination", write_destination},
	{"read-registered", read_registered},
	{"unaligned", read_unaligned},
	{"read-generic", read_generic},
	{"write-pinned", write_pinned},
	{"write-reg", write_registered},
	{"write-memset", write_memset},
	{"free-pinned", free_pinned},
	{"unregister", unregister},
	{"unmap", unmap_registered},
	{"wait-for-other", wait_for_other},
	{"query-not-ready", query_not_ready},
	{"event-not-recorded", event_not_recorded},
	{"kernel-behind", kernel_behind},
	{"after-neighbour", after_neighbour},
	{"one-of-two", one_of_two},
	{"many-times", many_times},
	{"free-registered", free_registered},
	{"realloc-registered", realloc_registered},
};

CASES(cases)
