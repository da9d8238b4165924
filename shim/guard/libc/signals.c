// SPDX-License-Identifier: MIT
/*
 * Libc, signals: the program's handler of SIGSEGV comes behind the guard's, and the signal is in no thread's mask, since a fault that is blocked
 * ends the process (libc.h). What the program asks about both is what it has set.
 */
#include "guard/libc/libc.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* This thread's program has it blocked, as far as it knows. */
static __thread bool is_blocked __attribute__((tls_model("initial-exec")));

static int set_action(int number, const struct sigaction *action, struct sigaction *ret_before)
{
	const struct guard_hooks *hooks = libc_hooks();
	struct sigaction open;

	if (number == SIGSEGV && hooks)
		return hooks->action(action, ret_before);
	if (action) {
		open = *action;
		sigdelset(&open.sa_mask, SIGSEGV);
		action = &open;
	}
	return LIBC_REAL(sigaction)(number, action, ret_before);
}

LIBC_EXPORT int sigaction(int number, const struct sigaction *restrict action,
			  struct sigaction *restrict ret_before)
{
	return set_action(number, action, ret_before);
}

LIBC_EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;

	if (number != SIGSEGV || handler == SIG_ERR)
		return LIBC_REAL(signal)(number, handler);
	sigemptyset(&action.sa_mask);
	return set_action(number, &action, &before) ? SIG_ERR : before.sa_handler;
}

/* Like the kernel, but for that signal. */
static int set_mask(int (*real)(int, const sigset_t *, sigset_t *), int how, const sigset_t *set,
		    sigset_t *ret_before)
{
	bool was_blocked = is_blocked, has = set && sigismember(set, SIGSEGV) == 1;
	sigset_t open;
	int result;

	if (has && how != SIG_UNBLOCK) {
		open = *set;
		sigdelset(&open, SIGSEGV);
	}
	result = real(how, has && how != SIG_UNBLOCK ? &open : set, ret_before);
	if (result)
		return result;
	if (set && how == SIG_SETMASK)
		is_blocked = has;
	else if (has)
		is_blocked = how == SIG_BLOCK;
	if (ret_before && was_blocked)
		sigaddset(ret_before, SIGSEGV);
	return 0;
}

LIBC_EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
	return set_mask(LIBC_REAL(pthread_sigmask), how, set, before);
}

LIBC_EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict before)
{
	return set_mask(LIBC_REAL(sigprocmask), how, set, before);
}
