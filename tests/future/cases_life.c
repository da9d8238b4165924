// SPDX-License-Identifier: MIT
/* Life of the process: first use, fork, end. */
#include "cases.h"
#include "support.h"

#include <dirent.h>
#include <signal.h>

#include <sys/wait.h>

#include "../unit/rounds.h"

static unsigned int threads_now(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned int count = 0;

	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 2; /* . and .. */
}

/* The exit status of a child, which has to end in time. */
static int status_of(pid_t child)
{
	int status = 0;

	for (uint64_t start = slipstream_future_now_(); !waitpid(child, &status, WNOHANG);
	     pause_ns(MS))
		if (slipstream_future_now_() - start > LONG) {
			kill(child, SIGKILL);
			CHECK(!"the child hangs");
		}
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* No thread before the first monitor future; then one, for good. */
static void monitor_starts_at_first_use(void)
{
	struct slipstream_future *future;
	unsigned int before;
	CUstream stream;

	CHECK(slipstream_future_create(&future, NULL, SLIPSTREAM_FUTURE_MONITOR) ==
	      CUDA_ERROR_NOT_INITIALIZED);
	start_driver(0);
	stream = new_stream();
	before = threads_now();
	future = new_future(stream, SLIPSTREAM_FUTURE_POLL);
	CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
	slipstream_future_destroy(future);
	CHECK(threads_now() == before);
	for (int i = 0; i < 10; i++) {
		future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
		CHECK(slipstream_future_wait(future) == CUDA_SUCCESS);
		slipstream_future_destroy(future);
		CHECK(threads_now() == before + 1);
	}
	CHECK(slipstream_future_get_counts().monitors == 1);
}

/* ---- fork ---- */

static void never(CUresult status, void *data)
{
	(void)status;
	if (data && __atomic_load_n((pid_t *)data, __ATOMIC_RELAXED) != getpid())
		_exit(98);
}

static void in_child(struct slipstream_future **unfinished, struct slipstream_future *finished,
		     CUstream stream)
{
	struct slipstream_future *new;

	for (int mode = 0; mode < 2; mode++) {
		if (slipstream_future_status(unfinished[mode]) != CUDA_ERROR_NOT_INITIALIZED ||
		    slipstream_future_wait(unfinished[mode]) != CUDA_ERROR_NOT_INITIALIZED ||
		    slipstream_future_wait_for(unfinished[mode], MS) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(1);
		if (slipstream_future_then(unfinished[mode], never, NULL) !=
		    CUDA_ERROR_NOT_INITIALIZED)
			_exit(2);
		if (slipstream_future_create(&new, stream, (enum slipstream_future_mode)mode) !=
		    CUDA_ERROR_NOT_INITIALIZED)
			_exit(3);
		slipstream_future_destroy(unfinished[mode]);
	}
	if (slipstream_future_wait(finished) != CUDA_SUCCESS)
		_exit(4);
	slipstream_future_destroy(finished);
	slipstream_future_end_context(NULL);
	if (threads_now() != 1)
		_exit(5);
	exit(0); /* with its exit handlers */
}

static int stop; /* atomic */
static CUcontext busy_context;

/* Until it is stopped, or the process ends. */
static void *busy_thread(void *data)
{
	static pid_t self; /* for callbacks that come after this thread, too */
	struct slipstream_future *future;
	CUresult result;

	__atomic_store_n(&self, getpid(), __ATOMIC_RELAXED);
	result = cuCtxSetCurrent(busy_context);
	while (result == CUDA_SUCCESS && !__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		result = slipstream_future_create(&future, data, SLIPSTREAM_FUTURE_MONITOR);
		if (result != CUDA_SUCCESS)
			break;
		result = slipstream_future_then(future, never, &self);
		(void)slipstream_future_wait_for(future, 10000);
		slipstream_future_destroy(future);
	}
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_DEINITIALIZED)
		_exit(90);
	return NULL;
}

/* While other threads hold any lock there is: the child never hangs. */
static void futures_are_dead_in_a_child(void)
{
	struct slipstream_future *unfinished[2], *finished;
	CUstream stream, busy[2];
	pthread_t threads[2];
	struct gate gate;

	busy_context = start_driver(0);
	stream = new_stream();
	gate = new_gate();
	finished = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	CHECK(slipstream_future_wait(finished) == CUDA_SUCCESS);
	gate_close(gate, stream);
	for (unsigned int mode = 0; mode < 2; mode++)
		unfinished[mode] = new_future(stream, (enum slipstream_future_mode)mode);
	for (int i = 0; i < 2; i++) {
		busy[i] = new_stream();
		CHECK(!pthread_create(&threads[i], NULL, busy_thread, busy[i]));
	}
	for (int round = 0; round < ROUNDS(30); round++) {
		pid_t child = fork();

		if (!child)
			in_child(unfinished, finished, stream);
		CHECK(status_of(child) == 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	gate_open(gate);
	for (int mode = 0; mode < 2; mode++) {
		CHECK(slipstream_future_wait_for(unfinished[mode], LONG) == CUDA_SUCCESS);
		slipstream_future_destroy(unfinished[mode]);
	}
	slipstream_future_destroy(finished);
}

/* A parent without CUDA, that has tried, does not spoil its children's futures. */
static void child_of_a_parent_without_cuda_has_futures(void)
{
	struct slipstream_future *future;
	pid_t child;

	CHECK(slipstream_future_create(&future, NULL, SLIPSTREAM_FUTURE_MONITOR) ==
	      CUDA_ERROR_NOT_INITIALIZED);
	child = fork();
	if (!child) {
		start_driver(0);
		future = new_future(new_stream(), SLIPSTREAM_FUTURE_MONITOR);
		if (slipstream_future_wait_for(future, LONG) != CUDA_SUCCESS)
			_exit(1);
		slipstream_future_destroy(future);
		exit(0);
	}
	CHECK(status_of(child) == 0);
}

static void fork_inside(CUresult status, void *data)
{
	pid_t child = fork();

	(void)status;
	if (child)
		__atomic_store_n((pid_t *)data, child, __ATOMIC_RELEASE);
}

/* The child's only thread is the copy of the monitor: it leaves. */
static void child_of_a_callback_ends(void)
{
	struct slipstream_future *future, *held;
	CUstream stream, other;
	struct gate gate;
	pid_t child = 0;

#if defined(__SANITIZE_THREAD__)
	/* Its runtime ends a forked child whose thread returns. */
	return;
#endif
	start_driver(0);
	stream = new_stream();
	other = new_stream();
	gate = new_gate();
	gate_close(gate, other);
	held = new_future(other, SLIPSTREAM_FUTURE_MONITOR);
	future = new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(future, fork_inside, &child));
	while (!__atomic_load_n(&child, __ATOMIC_ACQUIRE))
		pause_ns(MS / 10);
	CHECK(status_of(child) == 0);
	gate_open(gate);
	CHECK(slipstream_future_wait_for(held, LONG) == CUDA_SUCCESS);
	slipstream_future_destroy(held);
	slipstream_future_destroy(future);
}

/* ---- end ---- */

static struct gate end_gate;

/*
 * Called at exit between the futures' own handler and the driver's end: registered between their
 * starts.
 */
static void nobody_asks(void)
{
	unsigned long long queries = slipstream_future_get_counts().queries;

	pause_ns(20 * MS);
	if (slipstream_future_get_counts().queries != queries) {
		fprintf(stderr, "somebody asks an event after exit has begun\n");
		_exit(97);
	}
}

static void *wait_over_the_end(void *data)
{
	CUresult status = slipstream_future_wait(data);

	if (status != CUDA_ERROR_DEINITIALIZED && status != CUDA_SUCCESS)
		_exit(96);
	return NULL;
}

/* Thousands unfinished, others ending, threads that wait in both modes. */
static void exit_while_busy(void)
{
	CUstream held[4], running[2];
	pthread_t thread;

	busy_context = start_driver(0);
	atexit(nobody_asks);
	end_gate = new_gate();
	for (int s = 0; s < 4; s++) {
		held[s] = new_stream();
		gate_close(end_gate, held[s]);
		for (int i = 0; i < 500; i++)
			slipstream_future_destroy(new_future(held[s], SLIPSTREAM_FUTURE_MONITOR));
		CHECK(!pthread_create(&thread, NULL, wait_over_the_end,
				      new_future(held[s], s % 2 ? SLIPSTREAM_FUTURE_MONITOR
								: SLIPSTREAM_FUTURE_POLL)));
		pthread_detach(thread);
	}
	for (int s = 0; s < 2; s++) {
		running[s] = new_stream();
		CHECK(!pthread_create(&thread, NULL, busy_thread, running[s]));
		pthread_detach(thread);
	}
	pause_ns(3 * MS);
	exit(7);
}

static void exit_inside(CUresult status, void *data)
{
	(void)status;
	(void)data;
	exit(5);
}

static void exit_in_a_callback(void)
{
	struct slipstream_future *future;
	CUstream stream;
	struct gate gate;

	start_driver(0);
	atexit(nobody_asks);
	stream = new_stream();
	gate = new_gate();
	gate_close(gate, stream);
	new_future(stream, SLIPSTREAM_FUTURE_MONITOR);
	future = new_future(new_stream(), SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(future, exit_inside, NULL));
	for (;;)
		pause();
}

static int stuck; /* atomic */

static void stay(CUresult status, void *data)
{
	(void)status;
	(void)data;
	__atomic_store_n(&stuck, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static uint64_t exit_at;

static void soon_enough(void)
{
	if (slipstream_future_now_() - exit_at > 5000ull * MS)
		_exit(95);
}

/* A callback that never returns does not keep the process. */
static void exit_with_a_stuck_callback(void)
{
	struct slipstream_future *future;

	atexit(soon_enough);
	start_driver(0);
	future = new_future(new_stream(), SLIPSTREAM_FUTURE_MONITOR);
	OK(slipstream_future_then(future, stay, NULL));
	while (!__atomic_load_n(&stuck, __ATOMIC_ACQUIRE))
		pause_ns(MS / 10);
	exit_at = slipstream_future_now_();
	exit(6);
}

static void late_use(void)
{
	struct slipstream_future *future;

	if (slipstream_future_create(&future, CU_STREAM_LEGACY, SLIPSTREAM_FUTURE_MONITOR) !=
	    CUDA_ERROR_DEINITIALIZED)
		_exit(94);
	if (slipstream_future_create(&future, CU_STREAM_LEGACY, SLIPSTREAM_FUTURE_POLL) !=
	    CUDA_ERROR_DEINITIALIZED)
		_exit(93);
}

/* In an exit handler that comes after ours, and after the driver's. */
static void use_after_the_end(void)
{
	atexit(late_use);
	start_driver(0);
	slipstream_future_destroy(new_future(new_stream(), SLIPSTREAM_FUTURE_MONITOR));
	exit(4);
}

const struct future_case life_cases[] = {
	{"monitor-starts-at-first-use", monitor_starts_at_first_use, 0, NULL},
	{"futures-are-dead-in-a-child", futures_are_dead_in_a_child, 0, NULL},
	{"child-of-a-parent-without-cuda-has-futures", child_of_a_parent_without_cuda_has_futures,
	 0, NULL},
	{"child-of-a-callback-ends", child_of_a_callback_ends, 0, NULL},
	{"exit-while-busy", exit_while_busy, 7, NULL},
	{"exit-in-a-callback", exit_in_a_callback, 5, NULL},
	{"exit-with-a-stuck-callback", exit_with_a_stuck_callback, 6, NULL},
	{"use-after-the-end", use_after_the_end, 4, NULL},
	{NULL, NULL, 0, NULL},
};
