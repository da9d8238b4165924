// SPDX-License-Identifier: MIT
/*
 * Copies of pageable memory and what may happen around them.
 *
 *	torn BYTES TIMES		another thread's kernel on the stream of a large copy sees all of it or nothing; in both directions
 *	host-function BYTES TIMES	a copy's source, or a freed block's, is written by a host function before it
 *	sources BYTES TIMES		sources are overwritten at once, while the copies stand in a long queue
 *	registered TIMES		memory that is registered, copied, unregistered and unmapped at once
 *	sync-memops			copies of a block with the attribute are complete at their return
 */
#include "safety.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static struct world world;

static struct {
	CUstream stream;
	CUdeviceptr block, seen;
	size_t bytes;
	bool stop;
	unsigned int torn, looks;
} race;

/* Every 4093rd byte, and the last. */
static bool is_uniform(const unsigned char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4093)
		if (at[i] != at[0])
			return false;
	return at[bytes - 1] == at[0];
}

static void *look(void *data)
{
	unsigned char *bytes;

	(void)data;
	OK(cuCtxSetCurrent(world.context));
	bytes = pinned_block(race.bytes);
	while (!__atomic_load_n(&race.stop, __ATOMIC_RELAXED)) {
		copy(&world, race.stream, race.seen, race.block, race.bytes, false);
		OK(cuMemcpyDtoHAsync(bytes, race.seen, race.bytes, race.stream));
		OK(cuStreamSynchronize(race.stream));
		race.looks++;
		race.torn += !is_uniform(bytes, race.bytes);
	}
	OK(cuMemFreeHost(bytes));
	return NULL;
}

static void *overwrite(void *data)
{
	(void)data;
	OK(cuCtxSetCurrent(world.context));
	for (unsigned int i = 1; !__atomic_load_n(&race.stop, __ATOMIC_RELAXED); i++) {
		fill(&world, race.stream, race.block, (unsigned char)i, race.bytes, false);
		OK(cuStreamSynchronize(race.stream));
		race.looks++;
	}
	return NULL;
}

static void torn_on(CUstream stream, unsigned int times, bool to_host)
{
	unsigned char *bytes = malloc(race.bytes);
	pthread_t thread;

	race.stream = stream;
	race.stop = false;
	race.looks = race.torn = 0;
	OK(cuMemsetD8(race.block, 0, race.bytes));
	OK(cuCtxSynchronize());
	if (pthread_create(&thread, NULL, to_host ? overwrite : look, NULL))
		_exit(1);
	for (unsigned int i = 1; i <= times; i++) {
		if (to_host) {
			OK(cuMemcpyDtoHAsync(bytes, race.block, race.bytes, stream));
			race.torn += !is_uniform(bytes, race.bytes);
			continue;
		}
		memset(bytes, (int)i, race.bytes);
		OK(cuMemcpyHtoDAsync(race.block, bytes, race.bytes, stream));
	}
	__atomic_store_n(&race.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	OK(cuStreamSynchronize(stream));
	if (!to_host)
		EXPECT(device_is_all(race.block, race.bytes, (unsigned char)times));
	printf("# %u looks, %u torn\n", race.looks, race.torn);
	EXPECT(race.torn == 0);
	free(bytes);
}

static void torn(char **arguments)
{
	unsigned int times = (unsigned int)atoi(arguments[1]);
	CUstream streams[2];

	world_open(&world);
	earn_staging();
	race.bytes = strtoull(arguments[0], NULL, 0);
	race.block = device_block(race.bytes);
	race.seen = device_block(race.bytes);
	streams[0] = new_stream(CU_STREAM_NON_BLOCKING);
	streams[1] = new_stream(CU_STREAM_DEFAULT);
	for (int i = 0; i < 4; i++)
		torn_on(streams[i / 2], times, i % 2);
}

/* Each of many copies in a row reads what its source held at the call. */
static void sources(char **arguments)
{
	size_t bytes = strtoull(arguments[0], NULL, 0);
	unsigned int times = (unsigned int)atoi(arguments[1]);
	unsigned char *source = malloc(bytes);
	CUdeviceptr *blocks = calloc(times, sizeof(*blocks));
	CUstream streams[2];

	world_open(&world);
	earn_staging();
	streams[0] = new_stream(CU_STREAM_DEFAULT);
	streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
	for (unsigned int i = 0; i < times; i++)
		blocks[i] = device_block(bytes);
	for (unsigned int k = 0; k < 4; k++) {
		CUstream stream = streams[k % 2];

		OK(cuCtxSynchronize());
		for (unsigned int i = 0; i < times; i++) {
			if (i % 8 == 0)
				spin(&world, stream, 4000000);
			memset(source, (int)(i + k), bytes);
			OK(cuMemcpyHtoDAsync(blocks[i], source, bytes - i, stream));
			memset(source, 0xee, bytes);
		}
		OK(cuStreamSynchronize(stream));
		for (unsigned int i = 0; i < times; i++)
			EXPECT(device_is_all(blocks[i], bytes - i, (unsigned char)(i + k)));
	}
}

struct written {
	unsigned char *at;
	size_t bytes;
	unsigned char value;
};

static void CUDA_CB write_source(void *data)
{
	struct written *written = data;

	memset(written->at, written->value, written->bytes);
}

static void host_function(char **arguments)
{
	size_t bytes = strtoull(arguments[0], NULL, 0);
	unsigned int times = (unsigned int)atoi(arguments[1]);
	struct written pageable = {.at = malloc(bytes)}, pinned = {0};
	CUdeviceptr block, slot;
	unsigned char *next;
	CUstream streams[2];

	world_open(&world);
	earn_staging();
	block = device_block(bytes);
	slot = device_block(bytes);
	streams[0] = new_stream(CU_STREAM_DEFAULT);
	streams[1] = new_stream(CU_STREAM_NON_BLOCKING);
	for (unsigned int i = 0; i < times; i++) {
		pageable.bytes = i % 4 == 3 ? 4096 : i % 4 == 2 ? bytes / 7 : bytes;
		pageable.value = (unsigned char)(i + 1);
		/* A synchronous copy waits for the blocking streams before it reads its source. */
		spin(&world, streams[0], 3000000);
		OK(cuLaunchHostFunc(streams[0], write_source, &pageable));
		OK(cuMemcpyHtoD(block, pageable.at, pageable.bytes));
		OK(cuStreamSynchronize(NULL)); /* the last of it may be under way */
		EXPECT(device_is_all(block, pageable.bytes, pageable.value));

		/* A pinned block that a host function will fill and a copy will read is freed; the next one is another's. */
		pinned = (struct written){pinned_block(bytes), bytes, (unsigned char)(i + 100)};
		spin(&world, streams[1], 3000000);
		OK(cuLaunchHostFunc(streams[1], write_source, &pinned));
		OK(cuMemcpyHtoDAsync(slot, pinned.at, bytes, streams[1]));
		OK(cuMemFreeHost(pinned.at));
		next = pinned_block(bytes);
		memset(next, 7, bytes);
		OK(cuStreamSynchronize(streams[1]));
		EXPECT(device_is_all(slot, bytes, pinned.value));
		EXPECT(is_all(next, bytes, 7));
		OK(cuMemFreeHost(next));
	}
}

/* Registered, copied, unregistered, unmapped; then other memory lies there, and is copied as what it is. */
static void registered(char **arguments)
{
	static const size_t sizes[] = {65536, 1 << 20, 8 << 20};
	unsigned int times = (unsigned int)atoi(arguments[0]);
	CUdeviceptr first, second;
	CUstream stream;

	world_open(&world);
	earn_staging();
	first = device_block(sizes[2]);
	second = device_block(sizes[2]);
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (unsigned int i = 0; i < times; i++) {
		size_t bytes = sizes[i % 3];
		unsigned char value = (unsigned char)(i + 1);
		unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		unsigned char *again;
		unsigned int flags = 0;

		memset(at, value, bytes);
		TELL("register", cuMemHostRegister(at, bytes, 0));
		spin(&world, stream, 2000000);
		OK(cuMemcpyHtoDAsync(first, at, bytes, stream));
		if (i % 2) /* read into it as well */
			OK(cuMemcpyDtoHAsync(at, first, bytes, stream));
		TELL("unregister", cuMemHostUnregister(at));
		TELL("unregister again", cuMemHostUnregister(at));
		TELL("flags", cuMemHostGetFlags(&flags, at));
		munmap(at, bytes);
		again = mmap(at, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (again == MAP_FAILED)
			_exit(1);
		memset(again, ~value, bytes);
		OK(cuMemcpyHtoD(second, again, bytes));
		OK(cuMemcpyHtoDAsync(second, again, bytes, stream));
		memset(again, 0, bytes);
		OK(cuMemcpyDtoHAsync(again, second, bytes, stream));
		EXPECT(is_all(again, bytes, (unsigned char)~value));
		EXPECT(device_is_all(first, bytes, value));
		munmap(again, bytes);
	}
}

/*
 * With the attribute a synchronous call returns when its bytes are there, whatever its kind; another stream reads them at once. It outlives no
 * block: the next one of the size has it no more.
 */
static void sync_memops(char **arguments)
{
	size_t bytes = (size_t)4 << 20;
	unsigned char *pageable = malloc(bytes);
	CUdeviceptr block, from;

	(void)arguments;
	world_open(&world);
	earn_staging();
	from = device_block(bytes);
	OK(cuMemsetD8(from, 99, bytes));
	OK(cuCtxSynchronize());
	for (unsigned int i = 1; i < 7; i++) {
		unsigned int on = 1, off = 0;
		bool set = i % 3;

		block = device_block(bytes);
		memset(pageable, (int)i, bytes);
		TELL("of a new block",
		     cuPointerGetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
		EXPECT((off & 0xff) == 0);
		OK(cuMemcpyHtoD(block, pageable, bytes));
		/* It waits for the copy, of which some may be under way. */
		if (set)
			TELL("set",
			     cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
		EXPECT(!set || device_is_all(block, bytes, (unsigned char)i));
		for (unsigned int k = 0; k < 3; k++) {
			memset(pageable, (int)(10 * i + k), bytes);
			OK(cuMemcpyHtoD(block, pageable, bytes));
			memset(pageable, 0, bytes);
			EXPECT(!set || device_is_all(block, bytes, (unsigned char)(10 * i + k)));
			OK(cuMemcpyDtoD(block, from, bytes));
			EXPECT(!set || device_is_all(block, bytes, 99));
			OK(cuMemsetD8(block, (unsigned char)(k + 100), bytes));
			EXPECT(!set || device_is_all(block, bytes, (unsigned char)(k + 100)));
		}
		OK(cuMemcpyDtoH(pageable, block, bytes));
		EXPECT(is_all(pageable, bytes, 102));
		TELL("free", cuMemFree(block));
		OK(cuCtxSynchronize()); /* then it can be used again */
	}
}

const struct check copies_checks[] = {
	{"torn", torn},
	{"sources", sources},
	{"host-function", host_function},
	{"registered", registered},
	{"sync-memops", sync_memops},
	{NULL, NULL},
};
