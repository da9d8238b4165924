// SPDX-License-Identifier: MIT
/* The program's own signal handlers, masks and children beside the guard's (guarded.h). */
#include "guarded.h"

#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static volatile uint32_t *host;
static char *own_page;
static volatile int faults, alarms;
static volatile sig_atomic_t was_blocked;

static void copy(void)
{
	host = pinned(REGION);
	busy_on(stream);
	OK(cuMemcpyDtoHAsync((void *)host, data, REGION, stream));
}

static void make_own_page(void)
{
	own_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(own_page != MAP_FAILED);
}

static void on_own_fault(int number, siginfo_t *info, void *context_of)
{
	sigset_t mask;

	(void)context_of;
	CHECK(number == SIGSEGV && info->si_addr == own_page + 5 && info->si_code == SEGV_ACCERR);
	CHECK(!sigprocmask(SIG_BLOCK, NULL, &mask));
	was_blocked = sigismember(&mask, SIGUSR1);
	faults++;
	CHECK(!mprotect(own_page, 4096, PROT_READ | PROT_WRITE));
}

static void set_own_handler(void)
{
	struct sigaction action = {.sa_sigaction = on_own_fault, .sa_flags = SA_SIGINFO}, now;

	sigaddset(&action.sa_mask, SIGUSR1);
	CHECK(!sigaction(SIGSEGV, &action, NULL));
	CHECK(!sigaction(SIGSEGV, NULL, &now));
	CHECK(now.sa_sigaction == on_own_fault && now.sa_flags & SA_SIGINFO);
	CHECK(sigismember(&now.sa_mask, SIGUSR1) == 1 && !sigismember(&now.sa_mask, SIGUSR2));
}

static void fault_both(void)
{
	sum += host[7]; /* FOUND: handler-before L01, handler-after L01 */
	own_page[5] = 1;
	CHECK(faults == 1 && own_page[5] == 1 && was_blocked == 1);
	OK(cuStreamSynchronize(stream));
	CHECK(host[7] == 42);
}

static void handler_before(void)
{
	make_own_page();
	set_own_handler();
	copy();
	fault_both();
}

static void handler_after(void)
{
	make_own_page();
	copy();
	set_own_handler();
	fault_both();
}

static sigjmp_buf back;

static void jump_back(int number)
{
	siglongjmp(back, number);
}

/* Handlers that never return, of the old kind, which are reset. */
static void jumping_handler(void)
{
	struct sigaction action = {.sa_handler = jump_back, .sa_flags = (int)SA_RESETHAND}, now;

	make_own_page();
	copy();
	for (int i = 0; i < 3; i++) {
		CHECK(!sigaction(SIGSEGV, &action, NULL));
		if (!sigsetjmp(back, 1)) {
			own_page[0] = 1;
			CHECK(false);
		}
		CHECK(!sigaction(SIGSEGV, NULL, &now));
		CHECK(now.sa_handler == SIG_DFL);
		CHECK(signal(SIGSEGV, jump_back) == SIG_DFL);
		CHECK(signal(SIGSEGV, SIG_DFL) == jump_back);
	}
	/* What it looked at was opened for it; the next copy is guarded again. */
	OK(cuStreamSynchronize(stream));
	copy();
	sum += host[0]; /* FOUND: jumping-handler L01 */
}

/* Without a handler a fault of the program's own ends it, by that signal. */
static void default_action(void)
{
	int status;
	pid_t child;

	make_own_page();
	copy();
	child = fork();
	if (!child) {
		own_page[0] = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	OK(cuStreamSynchronize(stream));
}

/* One that was sent is not ours either. */
static void sent(void)
{
	copy();
	CHECK(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
	CHECK(!raise(SIGSEGV));
	CHECK(!kill(getpid(), SIGSEGV));
	sum += host[0]; /* FOUND: sent L01 */
}

static void on_alarm(int number)
{
	(void)number;
	alarms++;
	sum += host[20]; /* FOUND: in-handler L01 */
}

/* Masks of threads and of handlers with all signals in them. */
static void in_handler(void)
{
	struct sigaction action = {.sa_handler = on_alarm};

	sigfillset(&action.sa_mask);
	CHECK(!sigaction(SIGALRM, &action, NULL));
	copy();
	CHECK(!raise(SIGALRM));
	CHECK(alarms == 1);
}

static void blocked(void)
{
	sigset_t all, before;

	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, &before));
	CHECK(!sigismember(&before, SIGSEGV));
	copy();
	sum += host[0]; /* FOUND: blocked L01 */
	CHECK(!sigprocmask(SIG_SETMASK, &before, &all));
	CHECK(sigismember(&all, SIGSEGV) == 1 && sigismember(&all, SIGTERM) == 1);
	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &all));
	CHECK(!sigismember(&all, SIGSEGV));
}

/* On a signal stack; a small one is enough for the access, if not for its place. */
static void on_stack(size_t size)
{
	struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_sp = malloc(size), .ss_size = size};

	CHECK(stack.ss_sp && !sigaltstack(&stack, NULL));
	CHECK(!sigaction(SIGSEGV, &action, NULL));
	copy();
	sum += host[3]; /* FOUND: large-stack L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(host[3] == 42);
}

static void large_stack(void)
{
	on_stack(1 << 16);
}

static void small_stack(void)
{
	on_stack((size_t)sysconf(_SC_MINSIGSTKSZ) + 2048);
}

/* A child has what its parent had, and nobody watches it. */
static void forked(void)
{
	char *memory =
		mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	CHECK(memory != MAP_FAILED);
	memset(memory, 7, REGION);
	OK(cuMemHostRegister(memory, REGION, 0));
	busy_on(stream);
	OK(cuMemcpyDtoHAsync(memory, data, REGION, stream));
	child = fork();
	if (!child) {
		/* Also where no handler helps, nor a function of the C library. */
		int file = memfd_create("forked", MFD_CLOEXEC);

		_exit(syscall(SYS_write, file, memory, REGION) == REGION &&
				      (memory[0] == 7 || memory[0] == 42)
			      ? 0
			      : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	sum += (unsigned int)memory[8192]; /* FOUND: forked L01 */
	OK(cuStreamSynchronize(stream));
	CHECK(memory[8192] == 42);
}

static void beside(int number)
{
	(void)number;
	host[100] = 1;
	alarms++;
}

/* What fortified programs call. */
int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *time,
		const sigset_t *mask, size_t room);

static int wait_by_ppoll(const sigset_t *mask)
{
	return ppoll(NULL, 0, NULL, mask);
}

static int wait_by_fortified_ppoll(const sigset_t *mask)
{
	return __ppoll_chk(NULL, 0, NULL, mask, 0);
}

static int (*const waits[])(const sigset_t *mask) = {sigsuspend, wait_by_ppoll,
						     wait_by_fortified_ppoll};

/* A wait whose mask has all signals but one, and a handler that touches a guarded page beside the copy's bytes. */
static void waiting_masked(void)
{
	struct sigaction action = {.sa_handler = beside};
	sigset_t mask, others;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &mask, NULL));
	sigfillset(&others);
	sigdelset(&others, SIGUSR1);
	host = pinned(4096);
	for (int i = 0; i < 3; i++) {
		busy_on(stream);
		OK(cuMemcpyDtoHAsync((void *)host, data, 64, stream));
		CHECK(!raise(SIGUSR1));
		CHECK(waits[i](&others) == -1);
		OK(cuStreamSynchronize(stream));
	}
	CHECK(alarms == 3 && host[0] == 42 && host[100] == 1);
}

static void open_own_page(int number)
{
	(void)number;
	faults++;
	CHECK(!mprotect(own_page, 4096, PROT_READ | PROT_WRITE));
}

/* The handler that signal() sets in a program that asks for plain C. */
static void plain_c(void)
{
	make_own_page();
	copy();
	CHECK(sysv_signal(SIGSEGV, open_own_page) == SIG_DFL);
	sum += host[7]; /* FOUND: plain-c L01 */
	own_page[5] = 1;
	CHECK(faults == 1 && signal(SIGSEGV, SIG_DFL) == SIG_DFL);
	OK(cuStreamSynchronize(stream));
}

static const struct guard_case cases[] = {
	{"handler-before", handler_before},
	{"handler-after", handler_after},
	{"jumping-handler", jumping_handler},
	{"default-action", default_action},
	{"sent", sent},
	{"in-handler", in_handler},
	{"blocked", blocked},
	{"large-stack", large_stack},
	{"small-stack", small_stack},
	{"forked", forked},
	{"waiting-masked", waiting_masked},
	{"plain-c", plain_c},
};

CASES(cases)
