// SPDX-License-Identifier: MIT
/*
 * Libc, signals: the program's handler of SIGSEGV comes behind the guard's, and the signal is in no thread's mask, since a fault that is blocked
 * ends the process (libc.h). What the program asks about both is what it has set.
 */
#include "guard/libc/libc.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/select.h>

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

static __sighandler_t set_handler(__sighandler_t handler, int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, before;

	sigemptyset(&action.sa_mask);
	return set_action(SIGSEGV, &action, &before) ? SIG_ERR : before.sa_handler;
}

LIBC_EXPORT __sighandler_t signal(int number, __sighandler_t handler)
{
	if (number != SIGSEGV || handler == SIG_ERR)
		return LIBC_REAL(signal)(number, handler);
	return set_handler(handler, SA_RESTART);
}

/* What signal() is to programs that ask for plain C or POSIX. */
__sighandler_t __sysv_signal(int number, __sighandler_t handler);
LIBC_EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t handler)
{
	if (number != SIGSEGV || handler == SIG_ERR)
		return LIBC_REAL(__sysv_signal)(number, handler);
	return set_handler(handler, (int)SA_RESETHAND | SA_NODEFER);
}

LIBC_EXPORT __sighandler_t sysv_signal(int number, __sighandler_t handler)
{
	return __sysv_signal(number, handler);
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

/* ---- masks for the time of a wait: a handler that runs then may touch what is guarded ---- */

static const sigset_t *without_faults(const sigset_t *mask, sigset_t *room)
{
	if (!mask || sigismember(mask, SIGSEGV) != 1)
		return mask;
	*room = *mask;
	sigdelset(room, SIGSEGV);
	return room;
}

LIBC_EXPORT int sigsuspend(const sigset_t *mask)
{
	sigset_t room;

	return LIBC_REAL(sigsuspend)(without_faults(mask, &room));
}

LIBC_EXPORT int ppoll(struct pollfd *files, nfds_t count, const struct timespec *time,
		      const sigset_t *mask)
{
	sigset_t room;

	return LIBC_REAL(ppoll)(files, count, time, without_faults(mask, &room));
}

/* What -D_FORTIFY_SOURCE calls in its place. */
int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *time,
		const sigset_t *mask, size_t room_of_files);
LIBC_EXPORT int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *time,
			    const sigset_t *mask, size_t room_of_files)
{
	sigset_t room;

	return LIBC_REAL(__ppoll_chk)(files, count, time, without_faults(mask, &room),
				      room_of_files);
}

LIBC_EXPORT int pselect(int count, fd_set *restrict readable, fd_set *restrict writable,
			fd_set *restrict failed, const struct timespec *restrict time,
			const sigset_t *restrict mask)
{
	sigset_t room;

	return LIBC_REAL(pselect)(count, readable, writable, failed, time,
				  without_faults(mask, &room));
}

LIBC_EXPORT int epoll_pwait(int file, struct epoll_event *events, int count, int time,
			    const sigset_t *mask)
{
	sigset_t room;

	return LIBC_REAL(epoll_pwait)(file, events, count, time, without_faults(mask, &room));
}
