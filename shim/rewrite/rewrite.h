// SPDX-License-Identifier: MIT
/*
 * Rewrite: what mode fix does instead of the driver. The catalogue names the hooks (`rewrite:`); a wrapper asks its hook behind
 * state_before() and the `before` hooks. True: the hook has made the call's result in *ret_result, by itself or with the driver's help;
 * false: nothing has happened, and the wrapper calls the driver with the program's arguments. A hook of a getter gets NULL for the call. One
 * that calls the driver in the program's place sets call->entered and call->left; one that does not sets CALL_REWRITTEN.
 *
 * Whatever a hook cannot do safely it leaves to the driver, and counts the reason (NOTE_REWRITE). All hooks may be called from any thread,
 * inside the rooms, with no lock held; they leave errno alone.
 */
#ifndef SLIPSTREAM_REWRITE_REWRITE_H
#define SLIPSTREAM_REWRITE_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

struct call;

/* Not 0: mode fix, and cuInit has succeeded. Written once; read by every wrapper whose row has a rewrite. */
extern uint32_t rewrite_on;

static inline bool rewrite_active(void)
{
	/* Acquire: pairs with rewrite_start(). An ordinary load on x86-64. */
	return __atomic_load_n(&rewrite_on, __ATOMIC_ACQUIRE) != 0;
}

/* After a successful cuInit, once. */
void rewrite_start(void);
/* A private table of the driver was handed out; `known`: harmless from who asked for it (tables.def). */
void rewrite_export_table(bool known);

/* As emit.h's emit_allocations: the program's, without what is held. */
struct emit_allocation;
size_t rewrite_open_allocations(uint64_t after, struct emit_allocation *ret_found, size_t most);

/* `flags` of cuMemAllocHost, which has none: a kind of block of its own. */
#define REWRITE_ALLOC_HOST (1U << 31)
/* Flags that a program gave to cuMemHostAlloc: with that one, which the driver refuses, they are no key's. */
#define REWRITE_HOST_FLAGS(flags) ((flags)&REWRITE_ALLOC_HOST ? ~0U : (flags))

bool rewrite_host_alloc(struct call *call, CUresult *ret_result, void **ret_address, size_t bytes,
			unsigned int flags);
bool rewrite_host_free(struct call *call, CUresult *ret_result, void *address);
/* Freed blocks are nothing that can be registered, or was. */
bool rewrite_host_register(struct call *call, CUresult *ret_result, void *address, size_t bytes,
			   unsigned int flags);
bool rewrite_host_unregister(struct call *call, CUresult *ret_result, void *address);
/* Freed blocks are nothing that can be asked about. */
bool rewrite_host_query(struct call *call, CUresult *ret_result, const void *address);
bool rewrite_address_range(struct call *call, CUresult *ret_result, CUdeviceptr *ret_base,
			   size_t *ret_size, CUdeviceptr address);
bool rewrite_pointer_attribute(struct call *call, CUresult *ret_result, void *ret_value,
			       CUpointer_attribute attribute, CUdeviceptr address);
bool rewrite_pointer_attributes(struct call *call, CUresult *ret_result, unsigned int count,
				CUpointer_attribute *attributes, void **ret_values,
				CUdeviceptr address);
/* Copies, out of what the catalogue took out of their arguments; and the described ones. staging.c */
bool rewrite_copy(struct call *call, CUresult *ret_result);
bool rewrite_copy_2d(struct call *call, CUresult *ret_result, const CUDA_MEMCPY2D *described);
bool rewrite_copy_3d(struct call *call, CUresult *ret_result, const CUDA_MEMCPY3D *described);
/* Device memory. cuMemFreeAsync may be given blocks of cuMemAlloc, too. */
bool rewrite_device_alloc(struct call *call, CUresult *ret_result, CUdeviceptr *ret_address,
			  size_t bytes);
bool rewrite_device_free(struct call *call, CUresult *ret_result, CUdeviceptr address);
bool rewrite_device_free_async(struct call *call, CUresult *ret_result, CUdeviceptr address);
/* Arrays that are destroyed while the device works are kept until it does not. */
bool rewrite_array_create(struct call *call, CUresult *ret_result, CUarray *ret_array,
			  const CUDA_ARRAY_DESCRIPTOR *shape);
bool rewrite_array_create_3d(struct call *call, CUresult *ret_result, CUarray *ret_array,
			     const CUDA_ARRAY3D_DESCRIPTOR *shape);
bool rewrite_array_create_mipmapped(struct call *call, CUresult *ret_result,
				    CUmipmappedArray *ret_array,
				    const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
bool rewrite_array_destroy(struct call *call, CUresult *ret_result, CUarray array);
bool rewrite_array_destroy_mipmapped(struct call *call, CUresult *ret_result,
				     CUmipmappedArray array);
/* An attribute of an address is about to be set; `sync_memops`: as for rewrite_sync_memops(). */
bool rewrite_pointer_set(struct call *call, CUresult *ret_result, CUdeviceptr address,
			 uint64_t sync_memops);
/* As rewrite_host_query(). */
bool rewrite_device_query(struct call *call, CUresult *ret_result, CUdeviceptr address);
/* The block is about to be reachable from outside (another process, a device of another kind): it is never used again. */
bool rewrite_device_export(struct call *call, CUresult *ret_result, CUdeviceptr address);
/* Held blocks count as free. */
bool rewrite_memory_info(struct call *call, CUresult *ret_result, size_t *ret_free,
			 size_t *ret_total);
/* Not a hook. The call has waited for its context (cuCtxSynchronize): held blocks that are old may go in it, and all where device memory is tight. */
void rewrite_context_synchronized(struct call *call);
/*
 * Not a hook. The driver had no memory for this call, and the catalogue says that it had no effect (`retry`). True: held blocks went
 * back, or other threads' did, so that it may be made once more. To be asked again if that finds no memory either, since other threads take some,
 * too. `room`: all zero before the first time; call->entered is from before the driver's first answer.
 */
struct rewrite_room {
	uint64_t since;
	uint32_t times;
};
bool rewrite_make_room(struct call *call, struct rewrite_room *room);

/* Never makes the result: SYNC_MEMOPS is about to be set on the range with this address, 0: the context; UINT64_MAX: something else is. */
bool rewrite_sync_memops(struct call *call, CUresult *ret_result, uint64_t address);
/* Never makes the result: host code is about to go where its runs cannot be followed, if so. */
bool rewrite_host_code(struct call *call, CUresult *ret_result, bool is_there);
/* Never makes the result: a context is about to end, or something that the proofs know nothing of is about to begin. */
/* Waits for streams and queries of them. observe.c */
bool rewrite_observe(struct call *call, CUresult *ret_result);
bool rewrite_context_ending(struct call *call, CUresult *ret_result);
bool rewrite_unproven(struct call *call, CUresult *ret_result);

#endif
