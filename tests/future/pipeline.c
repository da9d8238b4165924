// SPDX-License-Identifier: MIT
/*
 * A tuned pipeline with correct futures: what the rules of lint must find nothing in, and
 * `slipstream run` no implicit wait.
 *
 * Batches go through a ring of slots, each with a stream and its own pinned and device memory. All
 * that allocates, pins or loads is before the loop. A slot's future is waited for before the host
 * writes its input or reads its result again; nothing else waits. `pipeline [BATCHES]` checks every
 * byte.
 */
#include "support.h"

#define SLOTS   3
#define WORDS   4096
#define BYTES   (WORDS * sizeof(float))
#define BATCHES 60

struct slot {
	CUstream stream;
	float *input, *output; /* pinned */
	CUdeviceptr x, y;
	struct slipstream_future *done; /* of the batch that is in it, or NULL */
	int batch;
};

static CUfunction saxpy;
static int collected;

static float *pinned(void)
{
	void *memory;

	OK(cuMemHostAlloc(&memory, BYTES, 0));
	memset(memory, 0, BYTES);
	return (float *)memory;
}

static void prepare(struct slot *slot)
{
	slot->stream = new_stream();
	slot->input = pinned();
	slot->output = pinned();
	OK(cuMemAlloc(&slot->x, BYTES));
	OK(cuMemAlloc(&slot->y, BYTES));
	slot->done = NULL;
}

/* The result is read after the future has ended, and the future is not needed any more. */
static void collect(struct slot *slot)
{
	if (!slot->done)
		return;
	OK(slipstream_future_wait(slot->done));
	slipstream_future_destroy(slot->done);
	slot->done = NULL;
	for (int i = 0; i < WORDS; i++)
		CHECK(slot->output[i] == 2.0f * (float)(slot->batch + i) + (float)slot->batch);
	collected++;
}

static void submit(struct slot *slot, int batch)
{
	unsigned int count = WORDS;
	float factor = 2.0f;
	void *parameters[] = {&factor, &slot->x, &slot->y, &count};

	for (int i = 0; i < WORDS; i++) {
		slot->input[i] = (float)(batch + i);
		slot->output[i] = (float)batch;
	}
	slot->batch = batch;
	OK(cuMemcpyHtoDAsync(slot->x, slot->input, BYTES, slot->stream));
	OK(cuMemcpyHtoDAsync(slot->y, slot->output, BYTES, slot->stream));
	OK(cuLaunchKernel(saxpy, 16, 1, 1, 256, 1, 1, 0, slot->stream, parameters, NULL));
	OK(cuMemcpyDtoHAsync(slot->output, slot->y, BYTES, slot->stream));
	slot->done = new_future(slot->stream,
				batch % 2 ? SLIPSTREAM_FUTURE_POLL : SLIPSTREAM_FUTURE_MONITOR);
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : BATCHES;
	static struct slot slots[SLOTS];

	start_driver(0);
	saxpy = find_kernel("saxpy");
	for (int i = 0; i < SLOTS; i++)
		prepare(&slots[i]);
	for (int batch = 0; batch < batches; batch++) {
		struct slot *slot = &slots[batch % SLOTS];

		collect(slot);
		submit(slot, batch);
	}
	for (int i = 0; i < SLOTS; i++)
		collect(&slots[(batches + i) % SLOTS]);
	printf("%d batches\n", collected);
	/* Memory goes with the process: a free would drain the device for nothing. */
	return collected == batches ? 0 : 1;
}
