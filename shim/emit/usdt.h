// SPDX-License-Identifier: MIT
/*
 * USDT: what calls do, for a tracer of the system (BPF) that looks into a running process from outside. Probes of the provider `slipstream`,
 * made by <sys/sdt.h>: a 1-byte nop each, and a note in the library that says where it is. README.md one level up has the table (chapter
 * Probes for tracers).
 *
 * Each has a semaphore, a count of who listens, that the kernel changes in the process's memory when somebody attaches or leaves. Nothing is
 * computed while it is 0: the arguments of USDT_...() are expressions that are not evaluated then. Each probe is one place in the library, so
 * attaching takes one breakpoint, and leaving one.
 *
 * Without <sys/sdt.h> (-Dusdt=disabled, and in unit tests) nobody ever listens; the arguments are still checked by the compiler.
 *
 * Any thread, and signal handlers at any instruction; no lock, no system call, errno stays. With locks held too, but a listener takes a
 * microsecond or two.
 */
#ifndef SLIPSTREAM_EMIT_USDT_H
#define SLIPSTREAM_EMIT_USDT_H

#include <stdbool.h>
#include <stdint.h>

#include "usdt_how.h"

#ifdef SLIPSTREAM_USDT
#define USDT_PROBE(declaration)                                                                    \
	void declaration __attribute__((cold, noinline, visibility("hidden")))
/* Data that every call reads lies beside the semaphores, which it reads too: one cache line for both. */
#define USDT_BESIDE __attribute__((section(".probes"), aligned(64)))

/* Their names are those that <sys/sdt.h> makes of a probe's. Written by the kernel, at any time; read by everyone. */
extern unsigned short slipstream_scope_enter_semaphore __attribute__((visibility("hidden")));
extern unsigned short slipstream_wait_semaphore __attribute__((visibility("hidden")));
extern unsigned short slipstream_rewrite_semaphore __attribute__((visibility("hidden")));
extern unsigned short slipstream_pool_semaphore __attribute__((visibility("hidden")));

#define USDT_LISTENS(probe)                                                                        \
	__builtin_expect(__atomic_load_n(&slipstream_##probe##_semaphore, __ATOMIC_RELAXED) != 0, 0)
#else
#define USDT_PROBE(declaration)                                                                    \
	static inline void declaration                                                             \
	{                                                                                          \
	}
#define USDT_BESIDE
#define USDT_LISTENS(probe) false
#endif

/* ---- scopes: a call of the program on its way through a wrapper ---- */

/* What can come of a call, by its row of the catalogue: bits of `class`. */
enum usdt_class {
	USDT_CLASS_EXPLICIT = 1 << 0, /* it may be a wait that the program asks for, ... */
	USDT_CLASS_IMPLICIT = 1 << 1, /* ... one that it does not ask for, ... */
	USDT_CLASS_DEVICE = 1 << 2,   /* ... or one of the device alone */
	USDT_CLASS_PASSES = 1 << 3,   /* the rooms do not see this one: it is not classified */
};

/* In a wrapper. */
struct usdt_scope {
	/*
	 * Counts the thread's scopes, from 1; 0: nobody listened when it began. In the upper half that of the scope around it, in which a
	 * signal handler or the driver calls; 0: none.
	 */
	uint64_t ids;
	uint32_t class, function;
};

#ifdef SLIPSTREAM_USDT
/* Returns the ids. */
uint64_t usdt_scope_enter(uint32_t function, uint32_t class)
	__attribute__((cold, noinline, visibility("hidden")));
void usdt_scope_leave(uint64_t ids, uint32_t function, uint32_t class)
	__attribute__((cold, noinline, visibility("hidden")));
uint32_t usdt_class(uint32_t function, bool passes)
	__attribute__((cold, noinline, visibility("hidden")));
#else
static inline uint64_t usdt_scope_enter(uint32_t function, uint32_t class)
{
	return 0;
}

static inline void usdt_scope_leave(uint64_t ids, uint32_t function, uint32_t class)
{
}

static inline uint32_t usdt_class(uint32_t function, bool passes)
{
	return 0;
}
#endif

/* Who listens to the end of scopes listens to their beginning: both have one semaphore. */
static inline bool usdt_scope_listens(void)
{
	return USDT_LISTENS(scope_enter);
}

static inline struct usdt_scope usdt_scope_open(uint32_t function, bool passes)
{
	struct usdt_scope scope = {.function = function};

	if (usdt_scope_listens()) {
		scope.class = usdt_class(function, passes);
		scope.ids = usdt_scope_enter(function, scope.class);
	}
	return scope;
}

/* Tells of the end only where it told of the beginning. */
static inline void usdt_scope_close(const struct usdt_scope *scope)
{
	if (__builtin_expect(scope->ids != 0, 0))
		usdt_scope_leave(scope->ids, scope->function, scope->class);
}

/* From here to the end of the function, however that comes. */
#define USDT_SCOPE(function, passes)                                                               \
	const struct usdt_scope scope_ __attribute__((cleanup(usdt_scope_close), unused)) =        \
		usdt_scope_open((function), (passes))

/* From where it is opened, if it is. */
#define USDT_SCOPE_LATER(number)                                                                   \
	struct usdt_scope scope_                                                                   \
		__attribute__((cleanup(usdt_scope_close), unused)) = {.function = (number)}
#define USDT_SCOPE_OPEN(passes) (scope_ = usdt_scope_open(scope_.function, (passes)))

/* ---- what a call did ---- */

/* A finding was added to the record file: numbers of a rule and a function, id of a site, as there. */
USDT_PROBE(usdt_wait(uint32_t rule, uint32_t function, uint64_t blocked_ns, uint32_t site));
#define USDT_WAIT(rule, function, blocked_ns, site)                                                \
	do {                                                                                       \
		if (USDT_LISTENS(wait))                                                            \
			usdt_wait((rule), (function), (blocked_ns), (site));                       \
	} while (0)

/* `how`: enum usdt_how. `rewrite`: bit of enum config_fix, whose word of SLIPSTREAM_FIX is told; `bytes` that the program asked for, 0 not known. */
USDT_PROBE(usdt_rewrite(uint32_t rewrite, uint32_t how, uint32_t function, uint64_t bytes));
#define USDT_REWRITE(fix, how, function, bytes)                                                    \
	do {                                                                                       \
		if (USDT_LISTENS(rewrite))                                                         \
			usdt_rewrite((fix), (how), (function), (bytes));                           \
	} while (0)

/* What became of a block of the pool. */
enum usdt_pool {
	USDT_POOL_HIT = 1,    /* held until now, given out */
	USDT_POOL_PARKED,     /* freed by the program, held from now on */
	USDT_POOL_FREED,      /* the program's free of it went to the driver */
	USDT_POOL_GIVEN_BACK, /* held until now, freed by the driver */
};

/* `kind`: enum pool_kind; `bytes` of the driver's allocation. */
USDT_PROBE(usdt_pool(uint32_t how, uint32_t kind, uint64_t bytes, uint64_t address));
#define USDT_POOL(how, kind, bytes, address)                                                       \
	do {                                                                                       \
		if (USDT_LISTENS(pool))                                                            \
			usdt_pool((how), (kind), (bytes), (address));                              \
	} while (0)

#endif
