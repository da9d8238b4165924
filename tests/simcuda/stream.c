// SPDX-License-Identifier: MIT
/*
 * Streams and the order between them.
 *
 * Owns: creation and life of streams, the resolution of the handles 0, 1 and 2, submission with the
 * legacy rules: an operation on the legacy stream follows all earlier work of the context's
 * blocking streams (per-thread ones included), and later work of those follows it. Non-blocking
 * streams take no part. Called by: every file that submits or waits. Relies on engine.c, and on
 * capture.c while a stream captures.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static uint64_t next_thread;
static __thread uint64_t own_thread;
static pthread_key_t thread_end;

/* A thread ends: its per-thread streams go, what is pending on them goes on. */
static void thread_ended(void *value)
{
	uint64_t thread = (uintptr_t)value;

	if (sim_forked() || __atomic_load_n(&sim.ended, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&sim.lock);
	for (unsigned c = 0; c < sim.context_count; c++) {
		struct sim_context *context = sim.contexts[c];

		for (unsigned i = context->stream_count; i; i--) {
			struct sim_stream *stream = context->streams[i - 1];

			if (stream->kind != SIM_THREAD_STREAM || stream->thread != thread ||
			    stream->object.magic != SIM_STREAM)
				continue;
			sim_capture_drop_stream(stream);
			stream->object.magic = SIM_DEAD;
			sim_stream_put(stream);
		}
	}
	pthread_mutex_unlock(&sim.lock);
}

/*
 * Caller holds the lock. Numbers are given in order of first use, so that journals do not show
 * thread ids.
 */
uint64_t sim_thread_number(void)
{
	if (!own_thread) {
		if (!next_thread)
			pthread_key_create(&thread_end, thread_ended);
		own_thread = ++next_thread;
		pthread_setspecific(thread_end, (void *)(uintptr_t)own_thread);
	}
	return own_thread;
}

bool sim_stream_is_blocking(const struct sim_stream *stream)
{
	return stream->kind == SIM_BLOCKING || stream->kind == SIM_THREAD_STREAM;
}

static struct sim_stream *stream_new(struct sim_context *context, enum sim_stream_kind kind)
{
	struct sim_stream *stream = sim_object_new(SIM_STREAM);
	struct sim_stream **grown;

	if (!stream)
		return NULL;
	stream->kind = kind;
	stream->context = context;
	if (kind == SIM_LEGACY)
		return stream;
	grown = sim_grow(context->streams, context->stream_count, &context->stream_space,
			 sizeof(*grown));
	if (!grown) {
		sim_object_free(stream);
		return NULL;
	}
	context->streams = grown;
	grown[context->stream_count++] = stream;
	return stream;
}

struct sim_stream *sim_stream_legacy(struct sim_context *context)
{
	if (!context->legacy)
		context->legacy = stream_new(context, SIM_LEGACY);
	return context->legacy;
}

void sim_stream_put(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;

	if (--stream->object.references)
		return;
	for (unsigned i = 0; i < context->stream_count; i++) {
		if (context->streams[i] != stream)
			continue;
		context->streams[i] = context->streams[--context->stream_count];
		break;
	}
	free(stream->frontier);
	sim_object_free(stream);
}

/* The context ends and is idle: all its streams go. */
void sim_streams_release(struct sim_context *context)
{
	while (context->stream_count) {
		struct sim_stream *stream = context->streams[context->stream_count - 1];

		sim_capture_drop_stream(stream);
		stream->object.magic = SIM_DEAD;
		stream->object.references = 1;
		sim_stream_put(stream);
	}
	if (context->legacy) {
		sim_object_free(context->legacy);
		context->legacy = NULL;
	}
	free(context->streams);
	context->streams = NULL;
	context->stream_space = 0;
}

static CUresult thread_stream(struct sim_context *context, struct sim_stream **ret_stream)
{
	uint64_t thread = sim_thread_number();

	for (unsigned i = 0; i < context->stream_count; i++) {
		struct sim_stream *stream = context->streams[i];

		if (stream->kind == SIM_THREAD_STREAM && stream->thread == thread) {
			*ret_stream = stream;
			return CUDA_SUCCESS;
		}
	}
	*ret_stream = stream_new(context, SIM_THREAD_STREAM);
	if (!*ret_stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*ret_stream)->thread = thread;
	return CUDA_SUCCESS;
}

CUresult sim_stream_resolve(CUstream handle, struct sim_stream **ret_stream)
{
	struct sim_context *context;
	CUresult result = sim_context_current(&context);
	struct sim_stream *stream;

	if (result)
		return result;
	if (!handle)
		handle = sim_current_call->per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	if (handle == CU_STREAM_PER_THREAD)
		return thread_stream(context, ret_stream);
	if (handle == CU_STREAM_LEGACY) {
		*ret_stream = sim_stream_legacy(context);
		return *ret_stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	stream = sim_object_check(handle, SIM_STREAM);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->context->sticky)
		return stream->context->sticky;
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

CUresult sim_stream_implicit(struct sim_stream **ret_stream)
{
	return sim_stream_resolve(NULL, ret_stream);
}

/* ---- submission ---- */

static int follow(struct sim_operation *operation, struct sim_stream *stream,
		  struct sim_operation **earlier, unsigned count)
{
	struct sim_context *context = stream->context;
	int error = sim_operation_after(operation, stream->tail);

	for (unsigned i = 0; i < count && !error; i++)
		error = sim_operation_after(operation, earlier[i]);
	if (stream->kind == SIM_LEGACY) {
		for (unsigned i = 0; i < context->stream_count && !error; i++)
			if (sim_stream_is_blocking(context->streams[i]))
				error = sim_operation_after(operation, context->streams[i]->tail);
	} else if (sim_stream_is_blocking(stream) && context->legacy && !error) {
		error = sim_operation_after(operation, context->legacy->tail);
	}
	return error;
}

CUresult sim_submit_list(struct sim_stream *stream, struct sim_work *work,
			 struct sim_operation **earlier, unsigned count,
			 struct sim_operation **ret_operation)
{
	struct sim_context *context = stream->context;
	struct sim_operation *operation;

	if (ret_operation)
		*ret_operation = NULL;
	if (stream->kind == SIM_LEGACY && sim_capture_blocking(context)) {
		sim_capture_invalidate_blocking(context);
		sim_work_clear(work);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	if (stream->capture)
		return sim_capture_add(stream, work);
	stream->object.references++;
	while (stream->pending >= SIM_QUEUE_LIMIT || (sim.drain_lock && sim.drains))
		sim_block();
	operation = sim_operation_new(context, stream);
	sim_stream_put(stream);
	if (!operation) {
		sim_work_clear(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	operation->work = *work;
	memset(work, 0, sizeof(*work));
	if (follow(operation, stream, earlier, count))
		abort(); /* no memory for an edge: a reference must not run it unordered */
	if (stream->tail)
		sim_operation_put(stream->tail);
	stream->tail = sim_operation_get(operation);
	sim_operation_commit(operation);
	if (sim.launch_blocking && operation->work.kind == SIM_KERNEL)
		sim_wait_operation(operation);
	if (ret_operation)
		*ret_operation = operation;
	else
		sim_operation_put(operation);
	return CUDA_SUCCESS;
}

CUresult sim_submit_after(struct sim_stream *stream, struct sim_work *work,
			  struct sim_operation *earlier, struct sim_operation **ret_operation)
{
	return sim_submit_list(stream, work, &earlier, earlier != NULL, ret_operation);
}

CUresult sim_submit(struct sim_stream *stream, struct sim_work *work,
		    struct sim_operation **ret_operation)
{
	return sim_submit_after(stream, work, NULL, ret_operation);
}

bool sim_stream_idle(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;

	if (stream->tail)
		return false;
	if (stream->kind == SIM_LEGACY) {
		for (unsigned i = 0; i < context->stream_count; i++)
			if (sim_stream_is_blocking(context->streams[i]) &&
			    context->streams[i]->tail)
				return false;
	}
	return true;
}

/* One snapshot of what is there now, then one wait for it: newer work is not waited for. */
void sim_wait_stream(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;
	struct sim_operation **tails = calloc(context->stream_count + 1, sizeof(*tails));
	unsigned count = 0;

	if (!tails)
		abort();
	if (stream->tail)
		tails[count++] = sim_operation_get(stream->tail);
	if (stream->kind == SIM_LEGACY)
		for (unsigned i = 0; i < context->stream_count; i++)
			if (sim_stream_is_blocking(context->streams[i]) &&
			    context->streams[i]->tail)
				tails[count++] = sim_operation_get(context->streams[i]->tail);
	for (unsigned i = 0; i < count; i++) {
		sim_wait_operation(tails[i]);
		sim_operation_put(tails[i]);
	}
	free(tails);
}

/* ---- calls ---- */

CUresult impl_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct sim_context *context;
	CUresult result = sim_context_current(&context);
	struct sim_stream *stream;

	if (result)
		return result;
	if (!phStream || flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	stream = stream_new(context,
			    flags & CU_STREAM_NON_BLOCKING ? SIM_NON_BLOCKING : SIM_BLOCKING);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->flags = flags;
	stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	*phStream = (CUstream)stream;
	sim_cost(7000);
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return impl_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult impl_cuStreamDestroy_v2(CUstream hStream)
{
	struct sim_stream *stream = sim_object_check(hStream, SIM_STREAM);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_capture_drop_stream(stream);
	stream->object.magic = SIM_DEAD;
	sim_stream_put(stream);
	sim_cost(7000);
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamDestroy(CUstream hStream)
{
	return impl_cuStreamDestroy_v2(hStream);
}

/* Statuses of a wait or query while something captures; SUCCESS if it may go on. */
static CUresult capture_check(struct sim_stream *stream)
{
	struct sim_context *context = stream->context;

	if (stream->capture) {
		sim_capture_invalidate(stream->capture);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	if (stream->kind == SIM_LEGACY && sim_capture_blocking(context)) {
		sim_capture_invalidate_blocking(context);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamSynchronize(CUstream hStream)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);
	struct sim_context *context;

	if (!result)
		result = capture_check(stream);
	if (result)
		return result;
	context = stream->context;
	sim_wait_stream(stream);
	sim_pools_synchronized(context->device);
	return context->sticky;
}

CUresult impl_cuStreamQuery(CUstream hStream)
{
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (!result)
		result = capture_check(stream);
	if (result)
		return result;
	return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

#define RESOLVE(handle)                                                                            \
	struct sim_stream *stream;                                                                 \
	CUresult result = sim_stream_resolve(handle, &stream);                                     \
                                                                                                   \
	if (result)                                                                                \
	return result

CUresult impl_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	RESOLVE(hStream);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetPriority(CUstream hStream, int *priority)
{
	RESOLVE(hStream);
	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	RESOLVE(hStream);
	if (!streamId)
		return CUDA_ERROR_INVALID_VALUE;
	*streamId = stream->object.id;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	RESOLVE(hStream);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = stream->context->device;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	RESOLVE(hStream);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)stream->context;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
	RESOLVE(hStream);
	if (!pCtx)
		return CUDA_ERROR_INVALID_VALUE;
	*pCtx = (CUcontext)stream->context;
	if (pGreenCtx)
		*pGreenCtx = NULL;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
	RESOLVE(hStream);
	if (!phCtx)
		return CUDA_ERROR_INVALID_VALUE;
	*phCtx = NULL;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
				   CUstreamAttrValue *value_out)
{
	RESOLVE(hStream);
	if (!value_out)
		return CUDA_ERROR_INVALID_VALUE;
	*value_out = stream->policy;
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		value_out->priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
				   const CUstreamAttrValue *value)
{
	RESOLVE(hStream);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		stream->priority = value->priority;
	else
		stream->policy = *value;
	return CUDA_SUCCESS;
}

CUresult impl_cuStreamCopyAttributes(CUstream dst, CUstream src)
{
	struct sim_stream *to;
	RESOLVE(src);
	result = sim_stream_resolve(dst, &to);
	if (!result)
		to->policy = stream->policy;
	return result;
}

CUresult impl_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
				     unsigned int flags)
{
	struct sim_work work = {.kind = SIM_EMPTY};
	RESOLVE(hStream);
	if (sim_memory_kind(dptr) != SIM_MANAGED)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags == CU_MEM_ATTACH_SINGLE && stream->kind == SIM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_submit(stream, &work, NULL);
}
