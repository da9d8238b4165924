// SPDX-License-Identifier: MIT
/*
 * Provider: the one symbol that the preload library looks for (provider.h), and what LTTng must be
 * told of the process: its forks. Called by shim/emit/trace.c, by the C library around a fork, by the
 * loader at the end. Relies on the generated emitters and on LTTng-UST's public hooks.
 *
 * Forks. Without the hooks a child's events bear the parent's process id, and no thread of the child
 * talks to the session daemon. liblttng-ust-fork wraps fork() for that and has to be preloaded; we are
 * told by pthread_atfork() instead, and leave it to that library where it is there, since the hooks'
 * lock is not recursive.
 *
 * saved, blocked	written and read under the hooks' own lock, from before to after a fork
 * process		written at load and by a child's only thread; read by anyone
 * end			written once by the preload library; read by the destructor
 */
#include "tracing/provider/provider.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <lttng/ust-fork.h>

#include "tracing/provider/emitters.h"

static bool hooks_are_called; /* by liblttng-ust-fork; constant after the constructor */
static sigset_t saved, blocked;
static uint32_t process;
static void (*end)(void);

static uint32_t provider_process(void)
{
	return __atomic_load_n(&process, __ATOMIC_RELAXED);
}

static void provider_at_end(void (*function)(void))
{
	/* Pairs with the acquire load in finish(). */
	__atomic_store_n(&end, function, __ATOMIC_RELEASE);
}

static void before_fork(void)
{
	int saved_errno = errno;
	sigset_t mask;

	/* Blocks all signals, then takes its lock: what is stored before belongs to nobody yet. */
	lttng_ust_before_fork(&mask);
	saved = mask;
	/* Compared later: the system fills in a part only. */
	memset(&blocked, 0, sizeof(blocked));
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	errno = saved_errno;
}

/*
 * The mask that the thread goes on with: as it was before the fork, unless a handler of the program
 * that ran after ours has set another one.
 */
static sigset_t mask_to_restore(void)
{
	sigset_t now;

	memset(&now, 0, sizeof(now));
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	return memcmp(&now, &blocked, sizeof(now)) ? now : saved;
}

static void after_fork_parent(void)
{
	int saved_errno = errno;
	sigset_t mask = mask_to_restore();

	lttng_ust_after_fork_parent(&mask);
	errno = saved_errno;
}

static void after_fork_child(void)
{
	int saved_errno = errno;
	sigset_t mask;

	__atomic_store_n(&process, (uint32_t)getpid(), __ATOMIC_RELAXED);
	if (!hooks_are_called) {
		mask = mask_to_restore();
		lttng_ust_after_fork_child(&mask);
	}
	errno = saved_errno;
}

static void __attribute__((constructor)) begin(void)
{
	void *library = dlopen("liblttng-ust-fork.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	process = (uint32_t)getpid();
	hooks_are_called = library != NULL;
	if (library)
		dlclose(library);
	if (hooks_are_called)
		pthread_atfork(NULL, NULL, after_fork_child);
	else
		pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/*
 * Destructors of one library run in the reverse order of its files, so this file is linked behind the
 * generated one, whose destructor takes the events away. LTTng's libraries are still there: this one
 * depends on them.
 */
static void __attribute__((destructor)) finish(void)
{
	/* Pairs with the release store in provider_at_end(). */
	void (*function)(void) = __atomic_load_n(&end, __ATOMIC_ACQUIRE);

	if (function)
		function();
}

extern const struct trace_provider slipstream_trace_provider;
const struct trace_provider slipstream_trace_provider __attribute__((visibility("default"))) = {
	.magic = TRACE_PROVIDER_MAGIC,
	.event_count = TRACE_EVENT_COUNT,
	.schema = TRACE_SCHEMA,
	.emitters = trace_emitters,
	.process = provider_process,
	.at_end = provider_at_end,
};
