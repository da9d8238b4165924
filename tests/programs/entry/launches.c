// SPDX-License-Identifier: MIT
/*
 * Launches in a row, most of which take the untimed way (shim/state/launch.h), on a driver that does
 * nothing: one case a run. What run.py finds in the record tells whether each was counted and put
 * down to its stream.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entry_test.h"

#define LAUNCHES 10000
#define KERNELS  5
/* Where the rule queue-full begins (rules.yaml, BACKLOG): tells how many were submitted, to one. */
#define FULL_QUEUE 500
#define THREADS    4

typedef CUresult create_function(CUstream *, unsigned int);
typedef CUresult get_function(CUfunction *, CUmodule, const char *);
typedef CUresult launch_function(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
				 unsigned int, unsigned int, unsigned int, CUstream, void **,
				 void **);

static context_function *current;
static launch_function *launch;
static stream_function *synchronize;
static uint64_t *next_launch_ns;
static CUfunction kernels[KERNELS];
static CUstream stream;

static void launch_one(unsigned int kernel)
{
	CHECK_EQUAL(CUDA_SUCCESS,
		    launch(kernels[kernel % KERNELS], 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

/* Kernel i % KERNELS as the i-th; so the last is known. */
static void launch_row(unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		launch_one(i);
}

static void wait_for_stream(void)
{
	CHECK_EQUAL(CUDA_SUCCESS, synchronize(stream));
}

/* Each kernel was launched before, and nothing is pending. */
static void set_up(void)
{
	static const char *const names[KERNELS] = {"zero", "one", "two", "three", "four"};
	create_function *create = LOOK_UP(create_function, "cuStreamCreate");
	get_function *get = LOOK_UP(get_function, "cuModuleGetFunction");

	current = LOOK_UP(context_function, "cuCtxGetCurrent");
	launch = LOOK_UP(launch_function, "cuLaunchKernel");
	synchronize = LOOK_UP(stream_function, "cuStreamSynchronize");
	next_launch_ns = (uint64_t *)dlsym(driver_handle(), "fake_launch_ns");
	CHECK(create && get && current && launch && synchronize && next_launch_ns);
	CHECK(lies_in((void *)launch, "libslipstream.so"));
	CHECK_EQUAL(CUDA_SUCCESS, LOOK_UP(init_function, "cuInit")(0));
	CHECK_EQUAL(CUDA_SUCCESS, create(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < KERNELS; i++)
		CHECK_EQUAL(CUDA_SUCCESS, get(&kernels[i], (CUmodule)0x77, names[i]));
	launch_row(2 * KERNELS);
	wait_for_stream();
}

/* Rows that end in each of the kernels, then waits with nothing pending. */
static void case_last_kernel(void)
{
	unsigned int launched = 2 * KERNELS, row;

	for (row = 0; launched < LAUNCHES; row++) {
		launch_row(100 + row % KERNELS);
		launched += 100 + row % KERNELS;
		wait_for_stream();
		wait_for_stream();
	}
	CHECK_EQUAL(launched, fake_calls("cuLaunchKernel"));
	printf("%u %u\n", launched, row);
}

static unsigned int share; /* launches of a thread in this round; written between two meetings */
static unsigned int round_number, arrived;

/* All threads go on together: awake, or the first is done before the second has begun. */
static void meet(unsigned int threads)
{
	unsigned int now = __atomic_load_n(&round_number, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_ACQ_REL) == threads) {
		__atomic_store_n(&arrived, 0, __ATOMIC_RELAXED);
		/* Pairs with the acquire load below. */
		__atomic_store_n(&round_number, now + 1, __ATOMIC_RELEASE);
		return;
	}
	for (unsigned int i = 0; __atomic_load_n(&round_number, __ATOMIC_ACQUIRE) == now; i++)
		if (i % 1000 == 999)
			sched_yield();
}

static void *launch_shares(void *threads)
{
	for (;;) {
		meet((unsigned int)(uintptr_t)threads);
		if (!share)
			return NULL;
		launch_row(share);
		meet((unsigned int)(uintptr_t)threads);
	}
}

/*
 * Each round submits so many, in `threads` threads, then one that takes 300 us: behind 500 that is
 * queue-full, behind 499 it is not. One launch lost or counted twice shows. The first thread is this
 * one, whose launches in a row have claimed the stream; the others count with a locked add.
 */
static void submit_rounds(unsigned int threads)
{
	unsigned int launched = 2 * KERNELS, full = 0, rounds;
	pthread_t thread[THREADS];

	for (unsigned int i = 1; i < threads; i++)
		CHECK_EQUAL(0, pthread_create(&thread[i], NULL, launch_shares,
					      (void *)(uintptr_t)threads));
	for (rounds = 0; launched < LAUNCHES * threads * threads; rounds++) {
		bool is_full = rounds % 2;
		unsigned int want = is_full ? FULL_QUEUE : FULL_QUEUE - 1;

		share = want / threads;
		meet(threads);
		launch_row(share);
		meet(threads);
		launch_row(want - share * threads);
		*next_launch_ns = 300000;
		launch_one(0);
		launched += want + 1;
		full += is_full;
		wait_for_stream();
	}
	share = 0;
	meet(threads);
	for (unsigned int i = 1; i < threads; i++)
		CHECK_EQUAL(0, pthread_join(thread[i], NULL));
	CHECK_EQUAL(launched, fake_calls("cuLaunchKernel"));
	printf("%u %u %u\n", launched, full, rounds);
}

static void case_one_thread(void)
{
	submit_rounds(1);
}

static void case_four_threads(void)
{
	submit_rounds(THREADS);
}

/* In each row one launch that takes 3 ms, at another place each time. */
static void case_blocked(void)
{
	unsigned int launched = 2 * KERNELS, rows = 40;

	for (unsigned int row = 0; row < rows; row++) {
		launch_row(100 + row);
		*next_launch_ns = 3000000;
		launch_row(150);
		launched += 250 + row;
		wait_for_stream();
	}
	CHECK_EQUAL(launched, fake_calls("cuLaunchKernel"));
	printf("%u %u\n", launched, rows);
}

static void on_system_call(int signal, siginfo_t *info, void *context)
{
	char text[] = "system call 000\n";
	int number = info->si_syscall;

	for (char *digit = text + 14; digit > text + 11; digit--, number /= 10)
		*digit = (char)('0' + number % 10);
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

static bool forbid_system_calls(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(steps) / sizeof(steps[0]), steps};
	struct sigaction action = {.sa_sigaction = on_system_call, .sa_flags = SA_SIGINFO};

	return !sigaction(SIGSYS, &action, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

/* 77: no such filters here. 3: a system call, its number printed. */
static void system_calls(bool provoke)
{
	CUcontext context;

	set_up();
	CHECK_EQUAL(CUDA_SUCCESS, current(&context));
	if (!forbid_system_calls())
		_exit(77);
	if (provoke)
		(void)getppid();
	for (int i = 0; i < LAUNCHES; i++)
		if (current(&context) != CUDA_SUCCESS)
			_exit(5);
	for (unsigned int i = 0; i < LAUNCHES; i++)
		if (launch(kernels[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) !=
		    CUDA_SUCCESS)
			_exit(5);
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"last-kernel", case_last_kernel},
		{"one-thread", case_one_thread},
		{"four-threads", case_four_threads},
		{"blocked", case_blocked},
	};
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "no-system-call") || !strcmp(name, "system-call"))
		system_calls(!strcmp(name, "system-call"));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, name) != 0)
			continue;
		set_up();
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "usage: launches CASE\n");
	return 2;
}
