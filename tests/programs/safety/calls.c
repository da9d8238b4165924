// SPDX-License-Identifier: MIT
/*
 * Statuses of calls that are wrong, or made at a wrong time: the same raw and in mode fix.
 *
 *	wrong-frees	interior, double, foreign frees; other contexts and none; what is asked of freed memory
 *	capturing	allocations, frees and copies while this thread captures, or another one, in each mode
 */
#include "safety.h"

#include <pthread.h>
#include <string.h>

static struct world world, other;

static void ask_of(const char *what, CUdeviceptr at, bool freed)
{
	CUipcMemHandle handle;
	unsigned int flags = 7, type = 0;
	CUdeviceptr base = 0, pointer = 0;
	size_t size = 0, range = 0;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					    CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	void *values[] = {&range, &type};

	printf("%s\n", what);
	TELL("  memory type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
	TELL("  range size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
	printf("  is %zu\n", size);
	range = type = 0;
	TELL("  attributes", cuPointerGetAttributes(2, attributes, values, at));
	printf("  are %zu %u\n", range, type);
	size = 0;
	TELL("  address range", cuMemGetAddressRange(&base, &size, at));
	printf("  is %zu %d\n", size, base == at);
	TELL("  flags", cuMemHostGetFlags(&flags, (void *)(uintptr_t)at));
	TELL("  device pointer", cuMemHostGetDevicePointer(&pointer, (void *)(uintptr_t)at, 0));
	/* A live block that is exported would not be used again. */
	if (freed)
		TELL("  export", cuIpcGetMemHandle(&handle, at));
}

/* Of a block of `bytes`: every mistake, then the free, then every one again. */
static void mistakes(size_t bytes, bool busy, CUstream stream)
{
	unsigned char *pinned = pinned_block(bytes), *malloced = malloc(bytes);
	CUdeviceptr device = device_block(bytes);
	int local = 0;

	printf("of %zu bytes%s\n", bytes, busy ? ", busy" : "");
	ask_of("live pinned", (uintptr_t)pinned, false);
	ask_of("live device", device, false);
	TELL("pinned, interior", cuMemFreeHost(pinned + bytes / 2));
	TELL("pinned, last byte", cuMemFreeHost(pinned + bytes - 1));
	TELL("device, interior", cuMemFree(device + bytes / 2));
	TELL("device as pinned", cuMemFreeHost((void *)(uintptr_t)device));
	TELL("malloc as pinned", cuMemFreeHost(malloced));
	TELL("malloc as device", cuMemFree((uintptr_t)malloced));
	TELL("stack as pinned", cuMemFreeHost(&local));
	TELL("nothing as pinned", cuMemFreeHost(NULL));
	TELL("nothing as device", cuMemFree(0));
	TELL("pinned unregistered", cuMemHostUnregister(pinned));
	memset(pinned, 1, bytes);
	if (busy) {
		spin(&world, stream, 2000000);
		OK(cuMemcpyHtoDAsync(device, pinned, bytes, stream));
	}
	TELL("pinned", cuMemFreeHost(pinned));
	TELL("pinned again", cuMemFreeHost(pinned));
	TELL("pinned, interior of freed", cuMemFreeHost(pinned + bytes / 2));
	TELL("device", cuMemFree(device));
	TELL("device again", cuMemFree(device));
	TELL("device once more", cuMemFree(device));
	TELL("freed device as pinned", cuMemFreeHost((void *)(uintptr_t)device));
	ask_of("freed pinned", (uintptr_t)pinned, true);
	ask_of("freed device", device, true);
	free(malloced);
}

/* Blocks of one context freed in another, and without one. */
static void elsewhere(size_t bytes)
{
	void *pinned[3];
	CUdeviceptr device[3];

	for (int i = 0; i < 3; i++) {
		pinned[i] = pinned_block(bytes);
		device[i] = device_block(bytes);
	}
	OK(cuCtxSetCurrent(other.context));
	TELL("pinned, other context", cuMemFreeHost(pinned[0]));
	TELL("device, other context", cuMemFree(device[0]));
	OK(cuCtxSetCurrent(NULL));
	TELL("pinned, no context", cuMemFreeHost(pinned[1]));
	TELL("device, no context", cuMemFree(device[1]));
	OK(cuCtxSetCurrent(world.context));
	for (int i = 0; i < 3; i++) {
		TELL("pinned, own context", cuMemFreeHost(pinned[i]));
		TELL("device, own context", cuMemFree(device[i]));
	}
	/* The driver may take a block of cuMemAlloc back in a stream's order; then it is free. */
	device[0] = device_block(bytes);
	TELL("device, in order", cuMemFreeAsync(device[0], NULL));
	OK(cuStreamSynchronize(NULL));
	TELL("device, again", cuMemFree(device[0]));
	device[0] = device_block(bytes);
	OK(cuMemsetD8(device[0], 5, bytes));
	OK(cuCtxSynchronize());
	EXPECT(device_is_all(device[0], bytes, 5));
	TELL("device", cuMemFree(device[0]));
}

static void wrong_frees(char **arguments)
{
	static const size_t sizes[] = {1000, 4096, 65536, (size_t)3 << 20};
	CUstream stream;

	(void)arguments;
	world_open(&world);
	OK(cuCtxCreate_v2(&other.context, 0, 0));
	world_load(&other);
	OK(cuCtxSetCurrent(world.context));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int i = 0; i < 8; i++) {
		mistakes(sizes[i / 2], i % 2, stream);
		OK(cuStreamSynchronize(stream));
	}
	for (int i = 0; i < 4; i++)
		elsewhere(sizes[i]);
}

/* Something of each kind; what succeeded is undone later by whoever asked. */
struct made {
	void *pinned, *kept_pinned;
	CUdeviceptr device, kept_device;
	unsigned char *pageable;
	size_t bytes;
	bool copies;
};

static void work(struct made *made)
{
	memset(made->pageable, 3, made->bytes);
	TELL("  pinned", cuMemHostAlloc(&made->pinned, made->bytes, 0));
	TELL("  device", cuMemAlloc(&made->device, made->bytes));
	TELL("  free pinned", cuMemFreeHost(made->kept_pinned));
	TELL("  free device", cuMemFree(made->kept_device));
	if (made->copies)
		TELL("  copy", cuMemcpyHtoD(made->device ? made->device : made->kept_device,
					    made->pageable, made->bytes));
}

static void *work_elsewhere(void *data)
{
	OK(cuCtxSetCurrent(world.context));
	work(data);
	return NULL;
}

static void undo(struct made *made)
{
	TELL("  pinned goes", made->pinned ? cuMemFreeHost(made->pinned) : 0);
	TELL("  device goes", made->device ? cuMemFree(made->device) : 0);
	TELL("  kept pinned", cuMemFreeHost(made->kept_pinned));
	TELL("  kept device", cuMemFree(made->kept_device));
}

/*
 * `recorded`: the capture has an operation of its own, so its graph is not empty. A copy on the legacy stream is left out where a blocking
 * stream captures, which it would break either way.
 */
static void capture(CUstreamCaptureMode mode, bool here, bool recorded, bool copies, size_t bytes)
{
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	struct made made = {.bytes = bytes, .copies = copies, .pageable = malloc(bytes)};
	CUgraph graph = NULL;
	size_t nodes = 0;
	CUdeviceptr target = device_block(bytes);
	unsigned char *source = pinned_block(bytes);
	pthread_t thread;

	printf("mode %d, %s, %zu bytes\n", (int)mode, here ? "here" : "elsewhere", bytes);
	made.kept_pinned = pinned_block(bytes);
	made.kept_device = device_block(bytes);
	/* What an allocation could be given without the driver. */
	for (int i = 0; i < 2; i++) {
		OK(cuMemFreeHost(pinned_block(bytes)));
		OK(cuMemFree(device_block(bytes)));
	}
	memset(source, 9, bytes);
	TELL("begin", cuStreamBeginCapture(stream, mode));
	if (recorded)
		TELL("recorded", cuMemcpyHtoDAsync(target, source, bytes, stream));
	if (here)
		work(&made);
	else if (pthread_create(&thread, NULL, work_elsewhere, &made) == 0)
		pthread_join(thread, NULL);
	if (recorded)
		TELL("recorded", cuMemsetD8Async(target, 4, bytes, stream));
	TELL("end", cuStreamEndCapture(stream, &graph));
	if (graph) {
		TELL("nodes", cuGraphGetNodes(graph, NULL, &nodes));
		printf("nodes %zu\n", nodes);
		OK(cuGraphDestroy(graph));
	}
	undo(&made);
	OK(cuStreamDestroy(stream));
	OK(cuMemFree(target));
	OK(cuMemFreeHost(source));
	free(made.pageable);
}

static void capturing(char **arguments)
{
	(void)arguments;
	world_open(&world);
	earn_staging();
	for (int i = 0; i < 24; i++)
		capture((CUstreamCaptureMode)(i % 3), i / 3 % 2, i / 6 % 2, i / 12 % 2,
			i % 4 == 3 ? (size_t)1 << 20 : 4096);
}

const struct check calls_checks[] = {
	{"wrong-frees", wrong_frees},
	{"capturing", capturing},
	{NULL, NULL},
};
