// SPDX-License-Identifier: MIT
/*
 * Entry: how the program's driver calls get in. This header is shared by the files of the room
 * only: the generated wrappers, the thunks, the dlsym hook, the special wrappers and the thread
 * bookkeeping. README.md one level up walks through a call.
 *
 * Who writes, who reads:
 *	entry_thread   its own thread only (and its own signal handlers, which find `hold` set and
 *	               pass through)
 *	entry_page     entry_setup() once, a forked child once more; read by every call
 *	*entry_page    the process that set the page up; the kernel wipes it in a child
 */
#ifndef SLIPSTREAM_ENTRY_ENTRY_H
#define SLIPSTREAM_ENTRY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "check/check.h"
#include "clock.h"
#include "counter.h"
#include "driver/driver.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "emit/usdt.h"
#include "entry/operands.h"
#include "legacy/legacy.h"
#include "rewrite/known.h"
#include "rewrite/rewrite.h"
#include "rewrite/short.h"
#include "stage/drain.h"
#include "state/launch.h"
#include "state/state.h"
#include "sync/sync.h"

#define entry_likely(x)   __builtin_expect(!!(x), 1)
#define entry_unlikely(x) __builtin_expect(!!(x), 0)

/* Exported driver names and dlsym are the only symbols that other objects may see. */
#define ENTRY_EXPORT __attribute__((visibility("default")))
#define ENTRY_HIDDEN __attribute__((visibility("hidden")))
#define ENTRY_COLD   __attribute__((cold, noinline))
#define ENTRY_LONG   __attribute__((noinline)) /* the part of a wrapper that is rarely taken */

/* No thread has this generation: the value before a thread's first call and after its exit
 * handlers. */
#define ENTRY_NO_GENERATION UINT64_MAX

struct entry_thread {
	uint64_t generation;        /* equals *entry_page exactly while `counters` may be written */
	uint64_t *counters;         /* emit's block of this thread */
	struct record_thread *busy; /* busy_thread, where wrappers look anyway */
	uint32_t hold; /* not 0: calls pass through unclassified (inside our rooms, or for good) */
	uint8_t starting; /* inside entry_slow(): a call from there must not come back in */
	/* The pthread key's destructor ran: calls of later destructors use the shared block. */
	uint8_t gone;
};

extern __thread struct entry_thread entry_thread ENTRY_HIDDEN
	__attribute__((tls_model("initial-exec")));

/*
 * A word that equals the process's generation (from 1). It lies on a page that the kernel wipes in
 * a forked child, however that was made, so that a child reads 0 without a system call.
 */
extern const uint64_t *entry_page ENTRY_HIDDEN;

/* setup.c */

/* Reads the settings, makes the page. Safe from any thread at any time, even before our
 * constructor; false: mode off, or no set-up possible. */
bool entry_setup(void) ENTRY_HIDDEN;
extern bool entry_off ENTRY_HIDDEN; /* mode off; constant after entry_setup() */

/* thread.c */

/* The rest of entry_count(): first call of a thread, child of a fork, exiting thread, mode off.
 * Keeps errno. */
bool entry_slow(uint32_t function) ENTRY_HIDDEN ENTRY_COLD;
/* cuInit succeeded: a child forked from now on cannot use CUDA. */
void entry_initialised(void) ENTRY_HIDDEN;

/*
 * A linked or remembered function is called that the driver does not have, or there is no driver.
 */
CUresult entry_missing(uint32_t function) ENTRY_HIDDEN ENTRY_COLD;

/* Generated: what to hand out for a function number; its wrapper or its thunk. */
extern void *const entry_wrappers[FUNCTION_COUNT] ENTRY_HIDDEN;

/* Number of an exported driver name or -1: one hash, no lock, no allocation. names.c */
int entry_function(const char *name) ENTRY_HIDDEN;

/*
 * What the program gets instead of `address`, an answer of the driver for `name`: our wrapper or
 * thunk, or the address itself where it is none of the driver's exports. Counts the hand-out.
 */
void *entry_substitute(void *address, const char *name) ENTRY_HIDDEN;

/*
 * Counts one call of this thread. True: go through the rooms; false: pass straight to the driver.
 */
static inline bool entry_count(uint32_t function)
{
	struct entry_thread *thread = &entry_thread;
	const uint64_t *page = __atomic_load_n(&entry_page, __ATOMIC_RELAXED);

	if (entry_likely(thread->generation == __atomic_load_n(page, __ATOMIC_RELAXED))) {
		counter_add(&thread->counters[function]);
		return thread->hold == 0;
	}
	return entry_slow(function);
}

/* The rooms are entered and left around the real call, so that what the driver itself calls is a
 * call like any other. */
static inline void entry_rooms_enter(void)
{
	entry_thread.hold = 1;
	/* Pairs with the fence in entry_rooms_leave(), for this thread's signal handlers: their calls
	 * see `hold` set as long as our rooms are busy. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void entry_rooms_leave(void)
{
	/* Pairs with the fence in entry_rooms_enter(). */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	entry_thread.hold = 0;
}

/* Fields of a call that do not come from its arguments; `pending` is left as it is: state_before()
 * counts what it fills. */
static inline void entry_begin(struct call *call, uint32_t function, uint16_t flags,
			       uint8_t stream_form, uint8_t operation, const void *return_address,
			       const void *frame)
{
	call->function = (uint16_t)function;
	call->flags = flags;
	call->stream_form = stream_form;
	call->operation = operation;
	call->source_kind = MEMORY_NONE;
	call->destination_kind = MEMORY_NONE;
	call->stream_handle = NULL;
	call->source = 0;
	call->destination = 0;
	call->bytes = 0;
	call->subject = 0;
	call->peer_context = 0;
	call->context = NULL;
	call->stream = NULL;
	call->submission = 0;
	call->order = 0;
	call->entered = 0;
	call->left = 0;
	call->return_address = return_address;
	call->frame = frame;
	call->pending_count = 0;
}

/* The stack slot of the wrapper's own return address: with it the caller's frame is found again. */
#if defined(__x86_64__)
#define ENTRY_FRAME() ((const void *)((const char *)__builtin_frame_address(0) + 8))
#elif defined(__aarch64__)
#define ENTRY_FRAME() ((const void *)((const char *)__builtin_frame_address(0) + 16))
#else
#error "entry: no frame layout known for this processor"
#endif

#define ENTRY_U64(value) ((uint64_t)(uintptr_t)(value))

/*
 * A launch that is not plain, but joins: may it be short all the same (state/launch.h)? Who listens to calls is told of what is found in one, so
 * then it has to be one.
 */
static inline bool entry_joins(struct state_launch *launch, struct call *call)
{
	if (entry_likely(!launch->is_joining))
		return false;
	launch->is_joining = !usdt_scope_listens() && state_launch_joins(launch, call->pending);
	if (!launch->is_joining || !legacy_active() ||
	    legacy_lets_join(launch->context, launch->is_legacy))
		return launch->is_joining;
	launch->is_joining = false;
	/* It has been counted; the long way counts it again. */
	launch_count(&launch_thread.row.numbered);
	return false;
}

/* The driver's function of this name, NULL while unknown. Pairs with nothing: the pointer is all
 * that is published. */
#define ENTRY_DRIVER(name) __atomic_load_n(&driver.name, __ATOMIC_RELAXED)

#endif
