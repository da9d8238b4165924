// SPDX-License-Identifier: MIT
/*
 * Set-up and end of the preloaded library: constructor, the wipe-on-fork page, destructor.
 *
 * Owns entry_page and the decision to be off. Called by the loader, and by whichever call comes
 * before the constructor ran (another library's constructor may use CUDA first). Does nothing
 * heavy: no file, no thread, no cuInit, no loading.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "entry/entry.h"
#include "entry/lifetime.h"
#include "guard/guard.h"

/* What entry_page shows until there is a real page: no thread's generation equals it. */
static const uint64_t no_page;
/* Stands in for the page where the kernel has no MADV_WIPEONFORK; pthread_atfork clears it then. */
static uint64_t plain_word;
static uint64_t *own_page =
	&plain_word; /* the same place as entry_page, writable; constant after set-up */

const uint64_t *entry_page USDT_BESIDE = &no_page;
bool entry_off;

enum { SETUP_NONE, SETUP_RUNNING, SETUP_DONE };
static uint32_t
	setup_state; /* release store of SETUP_DONE pairs with the acquire load in entry_setup() */

static void child_without_wipe(void)
{
	__atomic_store_n(&plain_word, 0, __ATOMIC_RELAXED);
	for (int i = LAUNCH_ALWAYS; i <= LAUNCH_TURN; i++)
		__atomic_store_n(&launch_stamps.stamp[i], 0, __ATOMIC_RELAXED);
}

static void make_page(void)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED &&
	    madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0 &&
	    madvise(&launch_stamps, sizeof(launch_stamps), MADV_WIPEONFORK) == 0) {
		own_page = page;
	} else {
		if (page != MAP_FAILED)
			munmap(page, (size_t)sysconf(_SC_PAGESIZE));
		/* Misses children of a bare clone(); they would count into their parent's file. */
		pthread_atfork(NULL, NULL, child_without_wipe);
		emit_note(NOTE_PASS_THROUGH, "no wipe-on-fork pages: bare clone() is not noticed");
	}
	__atomic_store_n(own_page, 1, __ATOMIC_RELAXED);
	state_launch_begin();
	/* Pairs with the load in entry_count(), which goes on through the pointer it reads. */
	__atomic_store_n(&entry_page, own_page, __ATOMIC_RELEASE);
}

uint64_t *entry_own_page(void)
{
	return own_page;
}

bool entry_setup(void)
{
	uint32_t expected = SETUP_NONE;
	int saved;

	/* The acquires pair with the release store at the end: settings, clock and page are there. */
	if (__atomic_load_n(&setup_state, __ATOMIC_ACQUIRE) == SETUP_DONE)
		return !entry_off;
	if (!__atomic_compare_exchange_n(&setup_state, &expected, SETUP_RUNNING, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		/* Only when threads race before our constructor. A call from inside the set-up
		 * itself must not wait: it passes. */
		for (int i = 0; i < 1000 && expected != SETUP_DONE; i++) {
			sched_yield();
			expected = __atomic_load_n(&setup_state, __ATOMIC_ACQUIRE);
		}
		return expected == SETUP_DONE && !entry_off;
	}
	saved = errno;
	clock_start();
	config_load();
	entry_off = config.mode == CONFIG_OFF;
	for (unsigned int i = 0; config_problem(i); i++)
		emit_note(NOTE_CONFIG, config_problem(i));
	guard_start();
	check_start();
	if (!entry_off) {
		entry_thread_prepare();
		make_page();
	}
	__atomic_store_n(&setup_state, SETUP_DONE, __ATOMIC_RELEASE);
	errno = saved;
	return !entry_off;
}

__attribute__((constructor)) static void load(void)
{
	int saved = errno;

	entry_setup();
	/* A program linked with the driver: found now, its dlerror state cannot be in use yet. */
	driver_find();
	errno = saved;
}

/* Runs among the exit handlers, or at dlclose. Calls may still come after it: nothing is torn down,
 * the driver is not called. */
__attribute__((destructor)) static void unload(void)
{
	int saved = errno;

	entry_finish();
	errno = saved;
}
