// SPDX-License-Identifier: MIT
/*
 * Place: what the rewrites of copies may know of where memory lies, of the context a call works in, and of who else could notice that the
 * host did not wait. Called by the rewrites. memory.c and live.c have the answers.
 *
 * Any thread; no lock is held on return.
 */
#ifndef SLIPSTREAM_STATE_PLACE_H
#define SLIPSTREAM_STATE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

struct call;

/* What is known of the two sides of a copy. */
enum state_side {
	SIDES_HOST_UNKNOWN =
		1
		<< 0, /* no part of the host's bytes lies in memory that the driver was seen to hand out or to register */
	SIDES_DEVICE_PLAIN =
		1
		<< 1, /* all of the device's lie in one block that this process allocated on a device, without SYNC_MEMOPS */
	SIDES_DEVICE_ASKED =
		1
		<< 2, /* and the driver has said so of all of that block: plain memory of this device (state_device_asked()) */
};

/* `ordinal`: the device that is meant. Of enum state_side. */
uint32_t state_sides(uint64_t host, uint64_t host_bytes, uint64_t device, uint64_t device_bytes,
		     int ordinal);
/* The driver says that the address lies in plain memory of this device, which begins at `start` and has so many bytes. Forgotten with the block. */
void state_device_asked(uint64_t address, uint64_t start, uint64_t bytes, int ordinal);

/* The call's stream is one that was seen made, and of the context that is current. */
bool state_works_in_current(const struct call *call);
/* Number of the call's device; -1: not known. */
int state_device(const struct call *call);

/*
 * Why the host could notice that a synchronous copy from pageable memory did not wait for its stream; NULL: nothing is known by which it
 * could. A constant text. Something of the program's that is live now: a host function that may not have run yet, host memory that
 * the device can write, memory of the device that other processes see, and work that does not wait for the copy's stream by itself: a
 * non-blocking stream, another context, any stream where the copy is on the thread's own; or, for good, host code whose runs cannot
 * be followed (nodes of graphs).
 */
const char *state_noticeable(const struct call *call);

/*
 * May a synchronous copy's source be read before the call has waited for its stream, as long as the call waits before it returns? True where nothing
 * that is under way can wait for something that another thread does after it wrote the source: what state_noticeable() knows of is not
 * there, and of all streams only the legacy one has work.
 */
bool state_source_is_settled(const struct call *call);
/*
 * Has anything been made since by which that may not be so any more? Taken before state_source_is_settled() is asked, and compared behind the wait: if it is
 * another number, the source is to be read again.
 */
uint64_t state_source_mark(void);

/* Host code was given to the driver, whose runs cannot be followed: state_noticeable() says so for good. A constant text. */
void state_host_code(const char *what);

#endif
