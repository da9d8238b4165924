// SPDX-License-Identifier: MIT
/*
 * Copy threads (copy_threads.h).
 *
 * Shared words, all static:
 *	slots[].state	OPEN, TAKEN, and the number of helpers inside. Changed by atomic operations of the caller (take, post, close, give)
 *			and of helpers (in, out). A slot is free when it is 0: given, and everybody out
 *	sequence	goes up with each post and kick; what idle helpers watch, and sleep on
 *	sleepers	helpers that sleep or are about to. With `sequence` it is a store-then-load pair on both sides (sequentially
 *			consistent): either the poster sees the sleeper, or the sleeper sees the new sequence
 */
#include "stage/copy_threads.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* As long as a program takes between two copies of a row of them; longer would take processors from the program itself. */
#define IDLE_SPIN_NS 20000
/* The copying functions need next to nothing; the program's thread-local storage lies on it, too. */
#define STACK_BYTES (256U << 10)
/* Helpers that one thread wakes: a wake costs the waker 1 to 2 us each, so the woken wake others. */
#define WAKE_EACH 2
#define NAP_NS    20000

#define OPEN   (1U << 31)
#define TAKEN  (1U << 30)
#define INSIDE (TAKEN - 1)

static struct slot {
	uint32_t state;
	uint32_t wanted;
	void (*work)(void *data);
	void *data;
} __attribute__((aligned(64))) slots[COPY_SLOTS];

static uint32_t sequence __attribute__((aligned(64)));
static uint32_t sleepers __attribute__((aligned(64)));
static uint32_t running; /* helpers made; written by the thread that starts them */
static uint32_t started; /* exchanged by the thread that starts them */
static int32_t owner;    /* process whose words these are; 0: none yet, -1: being reset */
static uint32_t most = COPY_THREADS_MAX;
static bool whatever; /* of the processors */

uint64_t copy_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

void copy_nap(void)
{
	static const struct timespec nap = {.tv_nsec = NAP_NS};
	int saved = errno;

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &nap, NULL);
	errno = saved;
}

static void futex(uint32_t operation, uint32_t value)
{
	int saved = errno;

	syscall(SYS_futex, &sequence, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
	errno = saved;
}

static bool go_in(struct slot *slot)
{
	uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);

	do {
		if (!(state & OPEN) ||
		    (state & INSIDE) >= __atomic_load_n(&slot->wanted, __ATOMIC_RELAXED))
			return false;
		/* Acquire: pairs with the post's release, so that function, data and all that it stands on are seen. */
	} while (!__atomic_compare_exchange_n(&slot->state, &state, state + 1, false,
					      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return true;
}

static bool is_wanted(void)
{
	unsigned int i;
	uint32_t state;

	for (i = 0; i < COPY_SLOTS; i++) {
		state = __atomic_load_n(&slots[i].state, __ATOMIC_RELAXED);
		if (state & OPEN &&
		    (state & INSIDE) < __atomic_load_n(&slots[i].wanted, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

/* Returns when `sequence` is another than `seen`. */
static void idle(uint32_t seen)
{
	uint64_t end = copy_now() + IDLE_SPIN_NS;
	unsigned int i;

	do {
		for (i = 0; i < 16; i++) {
			/* Acquire: pairs with copy_threads_kick(): the slot is seen open. */
			if (__atomic_load_n(&sequence, __ATOMIC_ACQUIRE) != seen)
				return;
			copy_pause();
		}
	} while (copy_now() < end);
	/* Pairs with copy_threads_kick(), which writes and reads these the other way round. */
	__atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&sequence, __ATOMIC_SEQ_CST) == seen)
		futex(FUTEX_WAIT, seen);
	__atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleepers, __ATOMIC_RELAXED) && is_wanted())
		futex(FUTEX_WAKE, WAKE_EACH);
}

static void *help(void *data)
{
	uint32_t seen = (uint32_t)(uintptr_t)data;
	unsigned int i;

	pthread_setname_np(pthread_self(), "slipstream-copy");
	for (;;) {
		idle(seen);
		/* Acquire: as in idle(). */
		seen = __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
		for (i = 0; i < COPY_SLOTS; i++) {
			if (!go_in(&slots[i]))
				continue;
			slots[i].work(slots[i].data);
			/* Release: pairs with copy_threads_inside() and _take(): who sees nobody inside sees what was done here. */
			__atomic_sub_fetch(&slots[i].state, 1, __ATOMIC_RELEASE);
		}
	}
	return NULL;
}

static bool prepare(pthread_attr_t *attributes, size_t stack)
{
	sigset_t blocked;

	if (pthread_attr_init(attributes) != 0)
		return false;
	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	pthread_attr_setdetachstate(attributes, PTHREAD_CREATE_DETACHED);
	/* Not the caller's: it may be a real-time thread, and helpers spin. */
	pthread_attr_setinheritsched(attributes, PTHREAD_EXPLICIT_SCHED);
	if (stack)
		pthread_attr_setstacksize(attributes, stack);
	return pthread_attr_setsigmask_np(attributes, &blocked) == 0;
}

static void start(void)
{
	/* So that they look at what is posted already. */
	void *seen = (void *)(uintptr_t)(__atomic_load_n(&sequence, __ATOMIC_RELAXED) - 1);
	unsigned int possible = copy_threads_possible();
	pthread_attr_t attributes;
	size_t stack = STACK_BYTES;
	int saved = errno;
	pthread_t thread;

	while (__atomic_load_n(&running, __ATOMIC_RELAXED) < possible) {
		int error = ENOMEM;

		if (prepare(&attributes, stack)) {
			error = pthread_create(&thread, &attributes, help, seen);
			pthread_attr_destroy(&attributes);
		}
		if (error == 0)
			__atomic_add_fetch(&running, 1, __ATOMIC_RELAXED);
		else if (error == EINVAL && stack)
			stack = 0; /* too small for the program's thread-local storage */
		else
			break; /* fewer, then */
	}
	errno = saved;
}

/* A forked child has its parent's words, but none of its helpers. False: another thread is putting them right. */
static bool is_ours(void)
{
	/* Acquire, here and below: pairs with the store at the end: the words are seen as they were put right. */
	int32_t self = (int32_t)getpid(), before = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
	unsigned int i;

	if (before == self)
		return true;
	if (before == -1 || !__atomic_compare_exchange_n(&owner, &before, -1, false,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	for (i = 0; i < COPY_SLOTS; i++)
		__atomic_store_n(&slots[i].state, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&running, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sleepers, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&started, 0, __ATOMIC_RELAXED);
	/* Release: pairs with the load and the exchange above. */
	__atomic_store_n(&owner, self, __ATOMIC_RELEASE);
	return true;
}

int copy_threads_take(void)
{
	int i;

	if (!is_ours())
		return -1;
	for (i = 0; i < COPY_SLOTS; i++) {
		uint32_t free = 0;

		/* Acquire: pairs with the release of the last helper that went out, and with copy_threads_give(). */
		if (__atomic_compare_exchange_n(&slots[i].state, &free, TAKEN, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return i;
	}
	return -1;
}

void copy_threads_kick(void)
{
	/* Pairs with idle(): one of the two sees the other. */
	__atomic_add_fetch(&sequence, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST))
		futex(FUTEX_WAKE, WAKE_EACH);
}

void copy_threads_post(int slot, void (*work)(void *data), void *data, unsigned int wanted)
{
	if (!wanted)
		return;
	slots[slot].work = work;
	slots[slot].data = data;
	__atomic_store_n(&slots[slot].wanted, wanted, __ATOMIC_RELAXED);
	/* Release: pairs with go_in(). */
	__atomic_or_fetch(&slots[slot].state, OPEN, __ATOMIC_RELEASE);
	copy_threads_kick();
	if (!__atomic_load_n(&started, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&started, 1, __ATOMIC_RELAXED))
		start();
}

void copy_threads_close(int slot)
{
	/* Release: pairs with copy_threads_take() of whoever has the slot next. */
	__atomic_and_fetch(&slots[slot].state, TAKEN | INSIDE, __ATOMIC_RELEASE);
}

void copy_threads_give(int slot)
{
	/* Release: as in copy_threads_close(). */
	__atomic_and_fetch(&slots[slot].state, INSIDE, __ATOMIC_RELEASE);
}

unsigned int copy_threads_inside(int slot)
{
	/* Acquire: pairs with help(). */
	return __atomic_load_n(&slots[slot].state, __ATOMIC_ACQUIRE) & INSIDE;
}

void copy_threads_limit(unsigned int limit, bool exactly)
{
	most = limit;
	whatever = exactly;
}

unsigned int copy_threads_running(void)
{
	return __atomic_load_n(&running, __ATOMIC_RELAXED);
}

unsigned int copy_threads_possible(void)
{
	unsigned int cpus = copy_cpus();

	if (whatever)
		return most;
	return cpus - 1 < most ? cpus - 1 : most;
}
