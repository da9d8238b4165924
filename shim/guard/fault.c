// SPDX-License-Identifier: MIT
/*
 * Guard, faults: the handler of SIGSEGV, and the program's own behind it (internal.h). Installed at start, by guard_start(); the library
 * libslipstream-guard.so hands the program's sigaction(2) of that signal to guard_action() from then on, and keeps the signal out of all masks.
 *
 * A fault in a guarded page is one of: too early (the bytes are a copy's), beside (the page is opened until the next driver call of any thread),
 * the driver's own, or late (another thread has opened the page by now: the access is made again). Whatever is none of these is the program's:
 * its handler is called as the kernel would have, with the pages as the program left them.
 *
 * Async-signal-safe: no allocation, and no lock that the interrupted code could hold: nothing of ours touches guarded memory with a lock held.
 *
 *	theirs		the program's action; under `action_lock`
 *	link_of_libc	written by guard_catch(), before the handler and the hooks are there; constant from then on
 *	unknown		its thread
 *
 * action_lock: a spin lock of its own, with no rank in emit/lock.h. Taken with all signals blocked, so that a handler never waits for its own thread;
 * held for a copy of `theirs` and one system call; nothing is taken inside it, and nobody takes it with another lock held.
 */
#include "guard/guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "driver/find.h"
#include "guard/internal.h"
#include "libc.h"
#include "sync/site.h"

/* Stack that a remark takes, at most; a signal stack with less left gets none. */
#define STACK_NEEDED 12288
/* Bit of a page fault's error code. */
#define FAULT_WRITES 2

static struct guard_link *link_of_libc;
static struct sigaction theirs;
static uint32_t action_lock;

/* The last fault that nobody knew. */
static __thread struct {
	uint64_t address, pc, openings;
} unknown __attribute__((tls_model("initial-exec")));

/* ---- the program's action ---- */

static uint64_t action_lock_take(void)
{
	const uint64_t all = UINT64_MAX;
	uint64_t before;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all));
	while (__atomic_exchange_n(&action_lock, 1, __ATOMIC_ACQUIRE))
		;
	return before;
}

static void action_lock_give(uint64_t before)
{
	__atomic_store_n(&action_lock, 0, __ATOMIC_RELEASE);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

static void handle(int number, siginfo_t *info, void *context);

/* Ours runs where theirs would: a stack that has overflown has no room for any handler. */
static int install(const struct sigaction *wish)
{
	struct sigaction action = {.sa_sigaction = handle,
				   .sa_flags = SA_SIGINFO | SA_NODEFER |
					       (wish->sa_flags & (SA_ONSTACK | SA_RESTART))};

	sigemptyset(&action.sa_mask);
	return link_of_libc->sigaction(SIGSEGV, &action, NULL);
}

int guard_action(const struct sigaction *action, struct sigaction *ret_before)
{
	uint64_t signals = action_lock_take();
	struct sigaction before = theirs;
	int result = 0;

	if (action) {
		result = install(action);
		if (!result)
			theirs = *action;
	}
	action_lock_give(signals);
	if (ret_before && !result)
		*ret_before = before;
	return result;
}

/* As the kernel does where nobody handles the signal: the access is made again, and ends the program. */
static void let_die(const siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	link_of_libc->sigaction(SIGSEGV, &action, NULL);
	if (info->si_code <= 0)
		syscall(SYS_tgkill, getpid(), gettid(), SIGSEGV);
}

static void call_theirs(int number, siginfo_t *info, ucontext_t *context)
{
	uint64_t signals = action_lock_take();
	struct sigaction action = theirs;
	sigset_t mask = context->uc_sigmask;
	struct guard_held held;
	int i;

	if (action.sa_flags & (int)SA_RESETHAND && action.sa_handler != SIG_IGN)
		theirs = (struct sigaction){.sa_handler = SIG_DFL};
	action_lock_give(signals);
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
		/* Only one that was sent can be ignored. */
		if (action.sa_handler == SIG_DFL || info->si_code > 0)
			let_die(info);
		return;
	}
	/* What it looks at is as it left it, and the signal is blocked. */
	if (guard_count && guard_lock(&held)) {
		guard_end_all();
		guard_unlock(&held);
	}
	for (i = 1; i < NSIG; i++)
		if (sigismember(&action.sa_mask, i) == 1)
			sigaddset(&mask, i);
	if (!(action.sa_flags & SA_NODEFER))
		sigaddset(&mask, number);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(uint64_t));
	if (action.sa_flags & SA_SIGINFO)
		action.sa_sigaction(number, info, context);
	else
		action.sa_handler(number);
	/* The mask is what the context says when the handler returns. */
}

/* ---- faults ---- */

static bool has_stack(const ucontext_t *context)
{
	const char *here = __builtin_frame_address(0);
	const char *low = context->uc_stack.ss_sp;

	if (context->uc_stack.ss_flags & SS_DISABLE || here < low ||
	    here >= low + context->uc_stack.ss_size)
		return true;
	return here - low > STACK_NEEDED;
}

/*
 * Is the read one of a word of eight bytes, or of a vector, that goes past the end of the guarded bytes? Then it may be about what comes behind them. The instruction has been
 * executed, so it can be read, but not always past it: not beyond its page.
 */
static bool may_be_about_others(uint64_t address, const uint8_t *pc)
{
	uint64_t left = guard_page_of((uintptr_t)pc) + GUARD_PAGE - (uintptr_t)pc;
	unsigned int width = guard_wide_read(pc, left < 15 ? (unsigned int)left : 15);
	uint32_t i;

	if (!width)
		return false;
	for (i = 0; i < guard_count; i++)
		if (address >= guard_at(i)->begin && address < guard_at(i)->end &&
		    address + width > guard_at(i)->end)
			return true;
	return false;
}

/* True: the access is to be made again. */
static bool settle(uint64_t address, const uint8_t *pc, bool is_write, struct guard_finds *finds)
{
	uint64_t page = guard_page_of(address);
	struct guard_held held;
	bool is_ours;

	if (!guard_lock(&held)) {
		/* From inside a room, about something that the program gave us. */
		syscall(SYS_mprotect, page, GUARD_PAGE, PROT_READ | PROT_WRITE);
		return true;
	}
	is_ours = guard_has_page(page);
	if (is_ours && (guard_in_driver() || driver_contains(pc) ||
			(!is_write && may_be_about_others(address, pc)) ||
			!guard_accessed(address, address + 1, is_write, false, finds)))
		guard_open_page(page);
	guard_unlock(&held);
	return is_ours;
}

/*
 * A page may have been opened since it faulted. What faults again with nothing changed meanwhile is the program's. Acquire: pairs with apply() in
 * table.c.
 */
static bool may_be_late(uint64_t address, uint64_t pc)
{
	uint64_t openings = __atomic_load_n(&guard_openings, __ATOMIC_ACQUIRE);

	if (!guard_was_near(address, address + 1) ||
	    (unknown.address == address && unknown.pc == pc && unknown.openings == openings))
		return false;
	unknown.address = address;
	unknown.pc = pc;
	unknown.openings = openings;
	return true;
}

static void handle(int number, siginfo_t *info, void *given)
{
	ucontext_t *context = given;
	uint64_t address = (uintptr_t)info->si_addr;
	uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
	bool is_write = context->uc_mcontext.gregs[REG_ERR] & FAULT_WRITES;
	struct guard_finds finds;
	int saved_errno = errno;

	finds.count = 0;
	if (info->si_code == SEGV_ACCERR &&
	    ((guard_was_near(address, address + 1) &&
	      settle(address, (const uint8_t *)pc, is_write, &finds)) ||
	     may_be_late(address, pc))) {
		if (!finds.count)
			;
		else if (has_stack(context))
			guard_tell_access(&finds, site_take_interrupted((const void *)pc));
		else
			check_lost("guard: an early access is not told: the signal stack is small");
		errno = saved_errno;
		return;
	}
	errno = saved_errno;
	call_theirs(number, info, context);
	errno = saved_errno;
}

/* ---- set-up ---- */

struct guard_link *guard_find_link(void)
{
	struct guard_link *link = libc_dlsym(NULL, GUARD_LINK_NAME);

	return link && link->version == GUARD_LINK_VERSION ? link : NULL;
}

bool guard_catch(struct guard_link *link)
{
	link_of_libc = link;
	if (link->sigaction(SIGSEGV, NULL, &theirs) || install(&theirs))
		return false;
	/* Release: the functions of that library go by what is here. */
	__atomic_store_n(&link->hooks, &guard_hooks, __ATOMIC_RELEASE);
	return true;
}
