// SPDX-License-Identifier: MIT
/*
 * poison SEED ROUNDS THREADS GENERATIONS SCALE: blocks of pinned and of device memory, of 48 bytes to SCALE MiB, that are freed while the device
 * still writes them, or still reads them. Each new block is filled by its owner at once and looked at much later: an old kernel or copy that
 * still writes shows there; one that still reads shows in what it read. Threads have streams of all kinds in two contexts; they end with work in
 * flight, and the next generation takes what they freed.
 */
#include "safety.h"

#include <pthread.h>
#include <string.h>

#define CONTEXTS 2
#define STREAMS  4
#define BLOCKS   6
#define SLOTS    3
#define MIB      ((size_t)1 << 20)
#define THREADS  16
#define POISON   0xee

static struct world worlds[CONTEXTS];
static CUdeviceptr poison[CONTEXTS]; /* every byte of it is POISON */
static size_t largest;               /* SCALE MiB */
static unsigned int looked, wrong;   /* atomic */

struct block {
	unsigned char *host; /* either, or neither */
	CUdeviceptr device;
	size_t bytes;
	unsigned char value;
	int context;
};

/* What an operation in flight reads, and what must be there once it is done. */
struct slot {
	CUdeviceptr at;
	size_t bytes; /* 0: nothing is expected */
	unsigned char value;
};

struct thread {
	uint64_t state;
	unsigned int rounds, values;
	CUstream stream[CONTEXTS][STREAMS], painter[CONTEXTS];
	struct slot slot[CONTEXTS][STREAMS][SLOTS];
	struct block block[BLOCKS];
	unsigned char *bounce;
};

static void judge(bool right, const char *what, const struct thread *t, size_t bytes)
{
	__atomic_fetch_add(&looked, 1, __ATOMIC_RELAXED);
	if (right)
		return;
	if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5)
		fprintf(stderr, "poison: %s of %zu bytes has other bytes (state %llx)\n", what,
			bytes, (unsigned long long)t->state);
}

static void enter(int context)
{
	OK(cuCtxSetCurrent(worlds[context].context));
}

static bool read_is(struct thread *t, int context, CUdeviceptr at, size_t bytes,
		    unsigned char value)
{
	memset(t->bounce, ~value, bytes);
	OK(cuMemcpyDtoHAsync(t->bounce, at, bytes, t->painter[context]));
	OK(cuStreamSynchronize(t->painter[context]));
	return is_all(t->bounce, bytes, value);
}

static void allocate(struct thread *t, struct block *block, int context, bool pinned, size_t bytes)
{
	*block = (struct block){.bytes = bytes, .context = context};
	block->value = (unsigned char)(1 + t->values++ % 127);
	if (pinned) {
		void *at;

		OK(cuMemHostAlloc(&at, bytes, 0));
		block->host = at;
		memset(at, block->value, bytes);
		return;
	}
	OK(cuMemAlloc(&block->device, bytes));
	OK(cuMemsetD8Async(block->device, block->value, bytes, t->painter[context]));
	OK(cuStreamSynchronize(t->painter[context]));
}

static void look(struct thread *t, const struct block *block)
{
	if (block->host)
		judge(is_all(block->host, block->bytes, block->value), "a pinned block", t,
		      block->bytes);
	else
		judge(read_is(t, block->context, block->device, block->bytes, block->value),
		      "a device block", t, block->bytes);
}

static void release(struct block *block)
{
	if (block->host)
		OK(cuMemFreeHost(block->host));
	else
		OK(cuMemFree(block->device));
	block->host = NULL;
	block->device = 0;
}

static void settle(struct thread *t, int context, unsigned int s, struct slot *slot)
{
	if (!slot->bytes)
		return;
	OK(cuStreamSynchronize(t->stream[context][s]));
	judge(read_is(t, context, slot->at, slot->bytes, slot->value), "what was read", t,
	      slot->bytes);
	slot->bytes = 0;
}

/* The device will write, or read, the block for some milliseconds more; it is freed at once. */
static void leave_in_flight(struct thread *t, const struct block *block)
{
	const struct world *world = &worlds[block->context];
	unsigned int s = below(&t->state, STREAMS), way = below(&t->state, 6);
	CUstream stream = t->stream[block->context][s];
	CUdeviceptr at = block->host ? (uintptr_t)block->host : block->device;
	struct slot *slot = &t->slot[block->context][s][below(&t->state, SLOTS)];

	if (way >= 4)
		settle(t, block->context, s, slot);
	spin(world, stream, below(&t->state, 2000000));
	switch (way) {
	case 0:
	case 1: /* by one thread: it writes for long */
		fill(world, stream, at, POISON, block->bytes, block->bytes <= MIB);
		break;
	case 2:
		copy(world, stream, at, poison[block->context], block->bytes, false);
		break;
	case 3:
		if (block->host)
			OK(cuMemcpyDtoHAsync(block->host, poison[block->context], block->bytes,
					     stream));
		else
			OK(cuMemcpyDtoDAsync(at, poison[block->context], block->bytes, stream));
		break;
	case 4:
		copy(world, stream, slot->at, at, block->bytes, false);
		break;
	default:
		if (block->host)
			OK(cuMemcpyHtoDAsync(slot->at, block->host, block->bytes, stream));
		else
			OK(cuMemcpyDtoDAsync(slot->at, at, block->bytes, stream));
	}
	if (way < 4)
		return;
	slot->bytes = block->bytes;
	slot->value = block->value;
}

static size_t some_bytes(struct thread *t)
{
	static const size_t sizes[] = {48, 1000, 4096, 20000, 65536, 300000, MIB};
	size_t bytes = sizes[below(&t->state, 7)];

	return bytes > 4096 ? bytes * (largest / MIB) : bytes;
}

static void round_of(struct thread *t)
{
	struct block *block = &t->block[below(&t->state, BLOCKS)];
	int context = block->context;
	size_t bytes = block->bytes;
	bool pinned = block->host != NULL;

	enter(context);
	look(t, block);
	leave_in_flight(t, block);
	release(block);
	/* Mostly one that the freed block would do for. */
	if (below(&t->state, 4) == 0) {
		bytes = some_bytes(t);
		pinned = below(&t->state, 2);
		context = (int)below(&t->state, CONTEXTS);
		enter(context);
	}
	allocate(t, block, context, pinned, bytes);
}

static void begin(struct thread *t)
{
	t->bounce = malloc(largest);
	for (int i = 0; i < CONTEXTS; i++) {
		enter(i);
		t->stream[i][0] = NULL;
		t->stream[i][1] = new_stream(CU_STREAM_DEFAULT);
		t->stream[i][2] = new_stream(CU_STREAM_NON_BLOCKING);
		t->stream[i][3] = CU_STREAM_PER_THREAD;
		t->painter[i] = new_stream(CU_STREAM_NON_BLOCKING);
		for (unsigned int s = 0; s < STREAMS * SLOTS; s++)
			t->slot[i][s / SLOTS][s % SLOTS].at = device_block(largest);
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		enter((int)(i % CONTEXTS));
		allocate(t, &t->block[i], (int)(i % CONTEXTS), i / 2 % 2, some_bytes(t));
	}
}

/* Half of the threads leave their streams behind, and work in them. */
static void end(struct thread *t)
{
	bool tidy = below(&t->state, 2);

	for (unsigned int i = 0; i < BLOCKS; i++) {
		enter(t->block[i].context);
		look(t, &t->block[i]);
		leave_in_flight(t, &t->block[i]);
		release(&t->block[i]);
	}
	for (int i = 0; i < CONTEXTS; i++) {
		enter(i);
		for (unsigned int s = 0; s < STREAMS; s++)
			for (unsigned int j = 0; j < SLOTS; j++)
				settle(t, i, s, &t->slot[i][s][j]);
		for (unsigned int s = 1; s < STREAMS && tidy; s++) {
			spin(&worlds[i], t->stream[i][s], 1000000);
			if (s < 3)
				OK(cuStreamDestroy(t->stream[i][s]));
		}
	}
	free(t->bounce);
}

static void *run_thread(void *data)
{
	struct thread *t = data;

	begin(t);
	for (unsigned int i = 0; i < t->rounds; i++)
		round_of(t);
	end(t);
	return NULL;
}

static void poisoned(char **arguments)
{
	static struct thread threads[THREADS];
	uint64_t seed = strtoull(arguments[0], NULL, 0);
	unsigned int rounds = (unsigned int)atoi(arguments[1]),
		     count = (unsigned int)atoi(arguments[2]),
		     generations = (unsigned int)atoi(arguments[3]);
	pthread_t handles[THREADS];

	largest = strtoull(arguments[4], NULL, 0) * MIB;
	world_open(&worlds[0]);
	OK(cuCtxCreate_v2(&worlds[1].context, 0, 0));
	world_load(&worlds[1]);
	for (int i = 0; i < CONTEXTS; i++) {
		enter(i);
		poison[i] = device_block(largest);
		OK(cuMemsetD8(poison[i], POISON, largest));
		OK(cuCtxSynchronize());
	}
	for (unsigned int g = 0; g < generations; g++) {
		for (unsigned int i = 0; i < count; i++) {
			threads[i] = (struct thread){
				.state = (seed * 1000003 + g) * 1000003 + i,
				.rounds = rounds,
			};
			if (pthread_create(&handles[i], NULL, run_thread, &threads[i]))
				_exit(1);
		}
		for (unsigned int i = 0; i < count; i++)
			pthread_join(handles[i], NULL);
	}
	EXPECT(wrong == 0);
	printf("looked at %u, wrong %u\n", looked, wrong);
}

const struct check poison_checks[] = {{"poison", poisoned}, {NULL, NULL}};
