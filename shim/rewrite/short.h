// SPDX-License-Identifier: MIT
/*
 * Short: the way of a pinned allocation or free that has nothing to say, as a launch has one (state/launch.h). A generated wrapper asks here
 * first, right behind entry_count() and inside the rooms: no struct call, no clock; a lock only where something is at work. False: nothing
 * has happened, and the call goes its long way, which begins anew.
 *
 * The short way serves an allocation out of the calling thread's magazine (pool/magazine.h), and puts a freed block into it, if
 *	nothing objects (state/proof.h): no doubt, no capture by anybody, no context that ends;
 *	the block's context is this thread's current one, asked of the driver each time;
 *	at a free: nothing is at work anywhere (state_at_a_glance()), so the block is ready at once, and no wait is left out.
 * A free beside work parks its block in the pool's open batch, as the long way would: the wait that is left out is counted here, too.
 * A free of device memory parks its block so, or as ready where nothing is at work; no magazine keeps any.
 * What is kept in a magazine was proven before it came there; who takes it out need not ask again.
 *
 * What the short way leaves out, and why nobody misses it:
 *	state's table of memory	keeps the range of a block that is kept: the driver has it pinned still, so an address in it is what the table
 *				says. The range goes before the driver frees the block. Dumps of open allocations leave held blocks out
 *	sync_after()		a rewritten call has not waited
 *	the row of launches	a call that is this short does not end it: the time of a row is an upper bound
 *	counts			in the magazine's own record, which nobody else writes; the report adds them up
 */
#ifndef SLIPSTREAM_REWRITE_SHORT_H
#define SLIPSTREAM_REWRITE_SHORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

struct pool_block;
struct pool_magazine;

/* The calling thread's; NULL: it has none (yet), and every call goes its long way. */
extern __thread struct pool_magazine *short_magazine
	__attribute__((visibility("hidden"), tls_model("initial-exec")));

/* Not 0: frees of device memory may go the short way. Written by frees.c, for good. */
extern uint32_t short_device;

/* `function`: number of the wrapper, for who listens. */
bool short_host_alloc(uint32_t function, void **ret_address, size_t bytes, unsigned int flags);
bool short_host_free(uint32_t function, void *address);
bool short_device_free(uint32_t function, CUdeviceptr address);

/* The thread ends, in the rooms: its blocks go to the others. Calls no driver. */
void short_thread_exit(void);

/* ---- for pinned.c and frees.c, on the long way ---- */

/* Do the settings let any call take the short way? */
bool short_is_allowed(void);
/* This call's thread may have a magazine from now on, if the settings allow one. */
void short_begin(void);
/* A block of the key was given out: a few more of them become this thread's. */
void short_fill(uint64_t context, uint32_t flags, uint64_t bytes);
/* A live block that nobody can be using, whose range state has let go of already: into the magazine. */
bool short_keep(const struct pool_block *block);

#endif
