// SPDX-License-Identifier: MIT
/*
 * The device (stage_device.h). One lock over all queues; operations are done outside it, so that a thread sanitizer sees what the engine's own
 * words order and what they do not.
 */
#include "stage_device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"
#include "stage/copy_threads.h"

#define STREAMS 64
#define QUEUE   4096
#define EVENTS  4096

struct operation {
	enum { COPY, WRITE, WAIT } kind;
	char *to;
	const char *from;
	size_t width, height, depth, to_pitch, to_slice, from_pitch, from_slice;
	uint32_t *word, value;
};

static struct stream {
	struct operation queue[QUEUE];
	uint64_t submitted, done;
} streams[STREAMS];
static uint32_t stream_count;
static struct event {
	struct stream *stream;
	uint64_t number;
} events[EVENTS];
static uint32_t event_count, stop, hold, share;
static struct stream *held;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_t thread;
static uint64_t random_state;
static __thread bool relaxed;

static struct {
	enum device_call call;
	unsigned int n;
	CUresult status;
} failing;
static unsigned int counts[DEVICE_CALL_COUNT];
static char journal[1 << 16], journal_copy[1 << 16];
static size_t journal_length;

#define DEVICE_LETTER(name, letter) letter,
static const char letters[] = {DEVICE_CALLS(DEVICE_LETTER)};

struct driver_ops driver;

static CUresult enter(enum device_call call, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (++counts[call] == failing.n && failing.call == call)
		result = failing.status;
	if (stream)
		journal_length +=
			(size_t)snprintf(journal + journal_length, sizeof(journal) - journal_length,
					 "%u", (unsigned int)(uintptr_t)stream);
	if (journal_length + 32 > sizeof(journal))
		journal_length = 0;
	journal[journal_length++] = letters[call];
	journal[journal_length] = '\0';
	pthread_mutex_unlock(&lock);
	return result;
}

static struct stream *stream_of(CUstream handle)
{
	return &streams[(uintptr_t)handle - 1];
}

/* Under the lock. */
static void push(struct stream *stream, const struct operation *operation)
{
	if (stream->submitted - stream->done >= QUEUE)
		abort();
	stream->queue[stream->submitted++ % QUEUE] = *operation;
}

static void submit(CUstream handle, const struct operation *operation)
{
	pthread_mutex_lock(&lock);
	push(stream_of(handle), operation);
	pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static bool waits(const struct operation *operation)
{
	return operation->kind == WAIT &&
	       (int32_t)(__atomic_load_n(operation->word, __ATOMIC_ACQUIRE) - operation->value) < 0;
}

/* Under the lock: the operation to do next, copied; NULL: none of this stream. */
static bool next(struct stream *stream, struct operation *ret_operation)
{
	bool internal = stream >= &streams[DEVICE_PROGRAM];
	int i;

	if (stream->done == stream->submitted || (!internal && hold) || stream == held)
		return false;
	for (i = 0; internal && share && i < DEVICE_PROGRAM; i++)
		if (streams[i].done < streams[i].submitted &&
		    waits(&streams[i].queue[streams[i].done % QUEUE]))
			return false;
	*ret_operation = stream->queue[stream->done % QUEUE];
	return !waits(ret_operation);
}

static void perform(const struct operation *operation)
{
	size_t y, z;

	if (operation->kind == WRITE)
		__atomic_store_n(operation->word, operation->value, __ATOMIC_RELEASE);
	if (operation->kind != COPY)
		return;
	for (z = 0; z < operation->depth; z++)
		for (y = 0; y < operation->height; y++)
			memcpy(operation->to + z * operation->to_slice + y * operation->to_pitch,
			       operation->from + z * operation->from_slice +
				       y * operation->from_pitch,
			       operation->width);
}

static void *run(void *unused)
{
	struct operation operation;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct stream *stream;
		bool found;

		random_state = random_state * 6364136223846793005u + 1442695040888963407u;
		pthread_mutex_lock(&lock);
		stream = &streams[(random_state >> 33) % stream_count];
		found = next(stream, &operation);
		pthread_mutex_unlock(&lock);
		if (found) {
			perform(&operation);
			pthread_mutex_lock(&lock);
			stream->done++;
			pthread_mutex_unlock(&lock);
		} else if (!(random_state >> 60)) {
			sched_yield();
		}
	}
	return NULL;
}

static CUresult host_register(void *address, size_t bytes, unsigned int flags)
{
	return enter(DEVICE_REGISTER, NULL);
}

static CUresult device_pointer(CUdeviceptr *ret_address, void *host, unsigned int flags)
{
	*ret_address = (uintptr_t)host;
	return enter(DEVICE_POINTER, NULL);
}

static CUresult priority_range(int *ret_least, int *ret_greatest)
{
	*ret_least = 0;
	*ret_greatest = -5;
	return enter(DEVICE_RANGE, NULL);
}

static CUresult stream_create(CUstream *ret_stream, unsigned int flags, int priority)
{
	CUresult result = enter(DEVICE_CREATE, NULL);

	if (flags != CU_STREAM_NON_BLOCKING || priority != -5)
		abort();
	pthread_mutex_lock(&lock);
	*ret_stream = (CUstream)(uintptr_t)++stream_count;
	if (stream_count == STREAMS)
		abort();
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult batch(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
		      unsigned int flags)
{
	CUresult result = enter(DEVICE_PLACE, stream);
	struct operation write = {.kind = WRITE}, wait = {.kind = WAIT}, passed = {.kind = WRITE};

	if (count < 2 || count > 3 || operations[0].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
	    operations[1].operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
	    operations[1].waitValue.flags != CU_STREAM_WAIT_VALUE_GEQ ||
	    operations[0].writeValue.flags)
		abort();
	if (result != CUDA_SUCCESS)
		return result;
	write.word = (uint32_t *)(uintptr_t)operations[0].writeValue.address;
	write.value = operations[0].writeValue.value;
	wait.word = (uint32_t *)(uintptr_t)operations[1].waitValue.address;
	wait.value = operations[1].waitValue.value;
	if (count == 3) {
		if (operations[2].operation != CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
		    operations[2].writeValue.flags)
			abort();
		passed.word = (uint32_t *)(uintptr_t)operations[2].writeValue.address;
		passed.value = operations[2].writeValue.value;
	}
	pthread_mutex_lock(&lock);
	push(stream_of(stream), &write);
	push(stream_of(stream), &wait);
	if (count == 3)
		push(stream_of(stream), &passed);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value,
			   unsigned int flags)
{
	CUresult result = enter(DEVICE_WAIT, stream);
	struct operation wait = {
		.kind = WAIT, .word = (uint32_t *)(uintptr_t)address, .value = value};

	if (flags != CU_STREAM_WAIT_VALUE_GEQ)
		abort();
	if (result == CUDA_SUCCESS)
		submit(stream, &wait);
	return result;
}

static CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value,
			    unsigned int flags)
{
	CUresult result = enter(DEVICE_WRITE, stream);
	struct operation write = {
		.kind = WRITE, .word = (uint32_t *)(uintptr_t)address, .value = value};

	if (flags) /* without the barrier it proves nothing */
		abort();
	if (result == CUDA_SUCCESS)
		submit(stream, &write);
	return result;
}

static CUresult copy(CUstream stream, const struct operation *operation)
{
	CUresult result = enter(DEVICE_COPY, stream);

	if (result == CUDA_SUCCESS)
		submit(stream, operation);
	return result;
}

static CUresult copy_1d(char *to, const char *from, size_t bytes, CUstream stream)
{
	struct operation operation = {
		.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};

	return copy(stream, &operation);
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copy_1d((char *)(uintptr_t)to, from, bytes, stream);
}

static CUresult from_device(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy_1d(to, (const char *)(uintptr_t)from, bytes, stream);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *what, CUstream stream)
{
	bool in = what->srcMemoryType == CU_MEMORYTYPE_HOST;
	struct operation operation = {
		.to = in ? (char *)(uintptr_t)what->dstDevice : what->dstHost,
		.from = in ? what->srcHost : (const char *)(uintptr_t)what->srcDevice,
		.width = what->WidthInBytes,
		.height = what->Height,
		.depth = 1,
		.to_pitch = what->dstPitch,
		.from_pitch = what->srcPitch,
	};

	return copy(stream, &operation);
}

static CUresult copy_3d(const CUDA_MEMCPY3D *what, CUstream stream)
{
	bool in = what->srcMemoryType == CU_MEMORYTYPE_HOST;
	struct operation operation = {
		.to = in ? (char *)(uintptr_t)what->dstDevice : what->dstHost,
		.from = in ? what->srcHost : (const char *)(uintptr_t)what->srcDevice,
		.width = what->WidthInBytes,
		.height = what->Height,
		.depth = what->Depth,
		.to_pitch = what->dstPitch,
		.to_slice = what->dstPitch * what->dstHeight,
		.from_pitch = what->srcPitch,
		.from_slice = what->srcPitch * what->srcHeight,
	};

	return copy(stream, &operation);
}

static CUresult event_create(CUevent *ret_event, unsigned int flags)
{
	CUresult result = enter(DEVICE_EVENT_CREATE, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_event = (CUevent)(uintptr_t)__atomic_add_fetch(&event_count, 1, __ATOMIC_RELAXED);
	if ((uintptr_t)*ret_event >= EVENTS)
		abort();
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	CUresult result = enter(DEVICE_RECORD, stream);

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	events[(uintptr_t)event].stream = stream_of(stream);
	events[(uintptr_t)event].number = stream_of(stream)->submitted;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static bool event_is_done(CUevent event)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = events[(uintptr_t)event].stream->done >= events[(uintptr_t)event].number;
	pthread_mutex_unlock(&lock);
	return done;
}

static CUresult event_query(CUevent event)
{
	CUresult result = enter(DEVICE_EVENT_QUERY, NULL);

	if (!relaxed)
		abort();
	if (result != CUDA_SUCCESS)
		return result;
	return event_is_done(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult event_synchronize(CUevent event)
{
	CUresult result = enter(DEVICE_EVENT_SYNCHRONIZE, NULL);

	while (result == CUDA_SUCCESS && !event_is_done(event))
		sched_yield();
	return result;
}

static bool is_done(struct stream *stream, uint64_t number)
{
	bool done;

	pthread_mutex_lock(&lock);
	done = stream->done >= number;
	pthread_mutex_unlock(&lock);
	return done;
}

static uint64_t submitted(struct stream *stream)
{
	uint64_t number;

	pthread_mutex_lock(&lock);
	number = stream->submitted;
	pthread_mutex_unlock(&lock);
	return number;
}

static CUresult stream_query(CUstream stream)
{
	CUresult result = enter(DEVICE_QUERY, stream);

	if (!relaxed)
		abort();
	if (result != CUDA_SUCCESS)
		return result;
	return is_done(stream_of(stream), submitted(stream_of(stream))) ? CUDA_SUCCESS
									: CUDA_ERROR_NOT_READY;
}

static CUresult stream_synchronize(CUstream stream)
{
	CUresult result = enter(DEVICE_SYNCHRONIZE, stream);
	uint64_t number = submitted(stream_of(stream));

	while (result == CUDA_SUCCESS && !is_done(stream_of(stream), number))
		sched_yield();
	return result;
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	CUresult result = enter(DEVICE_EXCHANGE, NULL);
	bool before = relaxed;

	if (result != CUDA_SUCCESS)
		return result;
	relaxed = *mode == CU_STREAM_CAPTURE_MODE_RELAXED;
	*mode = before ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

bool device_is_relaxed(void)
{
	return relaxed;
}

void device_start(uint64_t seed)
{
	driver = (struct driver_ops){
		.cuCtxGetStreamPriorityRange = priority_range,
		.cuEventCreate = event_create,
		.cuEventQuery = event_query,
		.cuEventRecord = event_record,
		.cuEventSynchronize = event_synchronize,
		.cuMemHostGetDevicePointer_v2 = device_pointer,
		.cuMemHostRegister_v2 = host_register,
		.cuMemcpy2DAsync_v2 = copy_2d,
		.cuMemcpy3DAsync_v2 = copy_3d,
		.cuMemcpyDtoHAsync_v2 = from_device,
		.cuMemcpyHtoDAsync_v2 = to_device,
		.cuStreamBatchMemOp_v2 = batch,
		.cuStreamCreateWithPriority = stream_create,
		.cuStreamQuery = stream_query,
		.cuStreamSynchronize = stream_synchronize,
		.cuStreamWaitValue32_v2 = wait_value,
		.cuStreamWriteValue32_v2 = write_value,
		.cuThreadExchangeStreamCaptureMode = exchange,
	};
	memset(streams, 0, sizeof(streams));
	memset(events, 0, sizeof(events));
	stream_count = DEVICE_PROGRAM;
	event_count = stop = hold = share = 0;
	held = NULL;
	random_state = seed;
	device_fail(DEVICE_REGISTER, 0, CUDA_SUCCESS);
	device_journal();
	if (pthread_create(&thread, NULL, run, NULL) != 0)
		abort();
}

void device_stop(void)
{
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

bool device_settle(void)
{
	uint64_t end = copy_now() + 10000000000U;
	uint32_t i, count;

	/* Of other callers: their contexts' streams come meanwhile. */
	pthread_mutex_lock(&lock);
	count = stream_count;
	pthread_mutex_unlock(&lock);
	for (i = 0; i < count; i++)
		while (!is_done(&streams[i], submitted(&streams[i]))) {
			if (copy_now() > end)
				return false;
			sched_yield();
		}
	return true;
}

void device_fail(enum device_call call, unsigned int n, CUresult status)
{
	pthread_mutex_lock(&lock);
	failing.call = call;
	failing.n = n;
	failing.status = status;
	memset(counts, 0, sizeof(counts));
	pthread_mutex_unlock(&lock);
}

unsigned int device_count(enum device_call call)
{
	return counts[call];
}

const char *device_journal(void)
{
	pthread_mutex_lock(&lock);
	memcpy(journal_copy, journal, journal_length + 1);
	journal_length = 0;
	journal[0] = '\0';
	pthread_mutex_unlock(&lock);
	return journal_copy;
}

void device_hold(bool on)
{
	pthread_mutex_lock(&lock);
	hold = on;
	pthread_mutex_unlock(&lock);
}

void device_hold_stream(CUstream stream)
{
	pthread_mutex_lock(&lock);
	held = stream ? stream_of(stream) : NULL;
	pthread_mutex_unlock(&lock);
}

void device_share(bool on)
{
	pthread_mutex_lock(&lock);
	share = on;
	pthread_mutex_unlock(&lock);
}

void device_copy(CUstream stream, void *to, const void *from, size_t bytes)
{
	struct operation operation = {
		.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};

	submit(stream, &operation);
}
