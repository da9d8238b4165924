// SPDX-License-Identifier: MIT
/*
 * Contexts: primary and created ones, the stack of each thread, limits and flags.
 *
 * Owns: sim.contexts, sim.primary, the thread's stack. A context's slot is given back last of all
 * that belongs to it, so the next context is likely to get the same handle with another id:
 * programs that key on handles break here. Called by: exports.c, and every file through
 * sim_context_current(). Relies on stream.c, memory.c, module.c.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

#define STACK_DEPTH 64

struct entry {
	struct sim_context *context;
	uint64_t id; /* tells a context from a later one at the same address */
};

static __thread struct entry stack[STACK_DEPTH];
static __thread unsigned depth;

static bool alive(const struct entry *entry)
{
	return entry->context && entry->context->object.magic == SIM_CONTEXT &&
	       entry->context->object.id == entry->id;
}

struct sim_context *sim_context_handle(CUcontext handle)
{
	return sim_object_check(handle, SIM_CONTEXT);
}

CUresult sim_context_current(struct sim_context **ret_context)
{
	struct entry *top;

	if (!depth || !stack[depth - 1].context)
		return CUDA_ERROR_INVALID_CONTEXT;
	top = &stack[depth - 1];
	if (!alive(top))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret_context = top->context;
	return top->context->sticky;
}

static struct sim_context *context_new(int device, unsigned flags)
{
	struct sim_context *context = sim_object_new(SIM_CONTEXT);
	struct sim_context **grown;

	if (!context)
		return NULL;
	grown = sim_grow(sim.contexts, sim.context_count, &sim.context_space, sizeof(*grown));
	if (!grown) {
		sim_object_free(context);
		return NULL;
	}
	sim.contexts = grown;
	grown[sim.context_count++] = context;
	context->device = device;
	context->flags = flags;
	context->active = true;
	context->api_version = 13000;
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 7340032;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8388608;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	sim_stream_legacy(context);
	return context;
}

/* Waits for its work, then everything that belongs to it goes. */
static void context_end(struct sim_context *context)
{
	sim_wait_context(context);
	sim_modules_release(context);
	sim_streams_release(context);
	sim_memory_release_context(context);
	for (unsigned i = 0; i < sim.context_count; i++) {
		if (sim.contexts[i] == context) {
			sim.contexts[i] = sim.contexts[--sim.context_count];
			break;
		}
	}
	context->object.magic = SIM_DEAD;
	if (!--context->object.references)
		sim_object_free(context);
}

static bool bad_device(CUdevice device)
{
	return device < 0 || device >= sim.device_count;
}

static bool bad_flags(unsigned flags)
{
	return flags & ~CU_CTX_FLAGS_MASK ||
	       (flags & CU_CTX_SCHED_MASK) > CU_CTX_SCHED_BLOCKING_SYNC ||
	       (flags & CU_CTX_SCHED_MASK) == 3;
}

static CUresult push(struct sim_context *context)
{
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_VALUE;
	stack[depth].context = context;
	stack[depth].id = context ? context->object.id : 0;
	depth++;
	return CUDA_SUCCESS;
}

/* ---- created contexts ---- */

CUresult impl_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
			     unsigned int flags, CUdevice dev)
{
	struct sim_context *context;

	if (!pctx || bad_flags(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (depth == STACK_DEPTH)
		return CUDA_ERROR_INVALID_VALUE;
	context = context_new(dev, flags);
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*pctx = (CUcontext)context;
	sim_cost(5000000);
	return push(context);
}

CUresult impl_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			     unsigned int flags, CUdevice dev)
{
	return numParams ? CUDA_ERROR_NOT_SUPPORTED : impl_cuCtxCreate_v4(pctx, NULL, flags, dev);
}

CUresult impl_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return impl_cuCtxCreate_v4(pctx, NULL, flags, dev);
}

CUresult impl_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	CUresult result = impl_cuCtxCreate_v4(pctx, NULL, flags, dev);

	if (!result)
		((struct sim_context *)*pctx)->api_version = 3010;
	return result;
}

CUresult impl_cuCtxDestroy_v2(CUcontext ctx)
{
	struct sim_context *context = sim_context_handle(ctx);

	if (!context || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (depth && alive(&stack[depth - 1]) && stack[depth - 1].context == context)
		depth--;
	context_end(context);
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxDestroy(CUcontext ctx)
{
	return impl_cuCtxDestroy_v2(ctx);
}

/* ---- primary contexts ---- */

static unsigned primary_flags[SIM_DEVICE_LIMIT];

CUresult impl_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!sim.primary[dev]) {
		sim.primary[dev] = context_new(dev, primary_flags[dev]);
		if (!sim.primary[dev])
			return CUDA_ERROR_OUT_OF_MEMORY;
		sim.primary[dev]->primary = true;
		sim_cost(5000000);
	}
	sim.primary[dev]->retained++;
	*pctx = (CUcontext)sim.primary[dev];
	return CUDA_SUCCESS;
}

static void primary_end(int device)
{
	struct sim_context *context = sim.primary[device];

	sim.primary[device] = NULL;
	context_end(context);
}

CUresult impl_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!sim.primary[dev] || !sim.primary[dev]->retained)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!--sim.primary[dev]->retained)
		primary_end(dev);
	return CUDA_SUCCESS;
}

CUresult impl_cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return impl_cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult impl_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim.primary[dev])
		primary_end(dev);
	return CUDA_SUCCESS;
}

CUresult impl_cuDevicePrimaryCtxReset(CUdevice dev)
{
	return impl_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult impl_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (bad_flags(flags))
		return CUDA_ERROR_INVALID_VALUE;
	primary_flags[dev] = flags;
	if (sim.primary[dev])
		sim.primary[dev]->flags = flags;
	return CUDA_SUCCESS;
}

CUresult impl_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return impl_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult impl_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	if (bad_device(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim.primary[dev] ? sim.primary[dev]->flags : primary_flags[dev];
	*active = sim.primary[dev] != NULL;
	return CUDA_SUCCESS;
}

/* ---- the thread's stack ---- */

CUresult impl_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct sim_context *context = sim_context_handle(ctx);

	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	return context ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult impl_cuCtxPushCurrent(CUcontext ctx)
{
	return impl_cuCtxPushCurrent_v2(ctx);
}

CUresult impl_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	depth--;
	if (pctx)
		*pctx = (CUcontext)stack[depth].context;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxPopCurrent(CUcontext *pctx)
{
	return impl_cuCtxPopCurrent_v2(pctx);
}

CUresult impl_cuCtxSetCurrent(CUcontext ctx)
{
	struct sim_context *context = sim_context_handle(ctx);

	if (ctx && !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context) {
		if (depth)
			depth--;
		return CUDA_SUCCESS;
	}
	if (depth)
		depth--;
	return push(context);
}

CUresult impl_cuCtxGetCurrent(CUcontext *pctx)
{
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = depth ? (CUcontext)stack[depth - 1].context : NULL;
	return CUDA_SUCCESS;
}

/* ---- what a context tells ---- */

#define CURRENT                                                                                    \
	struct sim_context *context;                                                               \
	CUresult result = sim_context_current(&context);                                           \
                                                                                                   \
	if (result)                                                                                \
	return result

/* A context argument where NULL means the current one. */
static CUresult context_or_current(CUcontext ctx, struct sim_context **ret_context)
{
	if (!ctx)
		return sim_context_current(ret_context);
	*ret_context = sim_context_handle(ctx);
	return *ret_context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult impl_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
	struct sim_context *context;
	CUresult result;

	if (!ctxId)
		return CUDA_ERROR_INVALID_VALUE;
	result = context_or_current(ctx, &context);
	if (!result)
		*ctxId = context->object.id;
	return result;
}

CUresult impl_cuCtxGetDevice(CUdevice *device)
{
	CURRENT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
	struct sim_context *context;
	CUresult result = context_or_current(ctx, &context);

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*device = context->device;
	return result;
}

CUresult impl_cuCtxGetFlags(unsigned int *flags)
{
	CURRENT;
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->flags;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetFlags(unsigned int flags)
{
	CURRENT;
	if (bad_flags(flags))
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CU_CTX_SYNC_MEMOPS && !(context->flags & CU_CTX_SYNC_MEMOPS))
		sim_wait_context(context);
	context->flags = flags;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
	struct sim_context *context;
	CUresult result = context_or_current(ctx, &context);

	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*version = context->api_version;
	return result;
}

static CUresult synchronize(struct sim_context *context)
{
	int device = context->device;
	CUresult result;

	if (sim_capture_context(context, true))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	context->object.references++;
	sim_wait_context(context);
	result = context->sticky;
	if (!--context->object.references)
		sim_object_free(context);
	sim_pools_synchronized(device);
	return result;
}

CUresult impl_cuCtxSynchronize(void)
{
	CURRENT;
	return synchronize(context);
}

CUresult impl_cuCtxSynchronize_v2(CUcontext ctx)
{
	struct sim_context *context;
	CUresult result = context_or_current(ctx, &context);

	return result ? result : synchronize(context);
}

static bool limit_known(CUlimit limit)
{
	return limit < sizeof(((struct sim_context *)0)->limits) / sizeof(size_t) &&
	       limit < CU_LIMIT_MAX;
}

CUresult impl_cuCtxSetLimit(CUlimit limit, size_t value)
{
	CURRENT;
	if (!limit_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	/* Measured: a change of the stack size waits for all streams, non-blocking ones too. */
	if (limit == CU_LIMIT_STACK_SIZE && context->limits[limit] != value) {
		sim_wait_device(context->device);
		sim_cost(1600000);
	}
	context->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
	CURRENT;
	if (!pvalue)
		return CUDA_ERROR_INVALID_VALUE;
	if (!limit_known(limit))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*pvalue = context->limits[limit];
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
	CURRENT;
	*pconfig = context->cache_config;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetCacheConfig(CUfunc_cache config)
{
	CURRENT;
	context->cache_config = config;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
	CURRENT;
	*pConfig = context->shared_config;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
	CURRENT;
	context->shared_config = config;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	CURRENT;
	(void)context;
	if (leastPriority)
		*leastPriority = 0;
	if (greatestPriority)
		*greatestPriority = -5;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxResetPersistingL2Cache(void)
{
	CURRENT;
	(void)context;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	CURRENT;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxDetach(CUcontext ctx)
{
	return sim_context_handle(ctx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- peers ---- */

CUresult impl_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
	struct sim_context *peer = sim_context_handle(peerContext);

	CURRENT;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!peer || peer == context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (peer->device == context->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (context->peers & 1u << peer->device)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	context->peers |= 1u << peer->device;
	return CUDA_SUCCESS;
}

CUresult impl_cuCtxDisablePeerAccess(CUcontext peerContext)
{
	struct sim_context *peer = sim_context_handle(peerContext);

	CURRENT;
	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(context->peers & 1u << peer->device))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->peers &= ~(1u << peer->device);
	return CUDA_SUCCESS;
}
