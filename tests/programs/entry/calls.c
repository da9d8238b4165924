// SPDX-License-Identifier: MIT
/*
 * The ways in, from a program that is not linked with the driver: one case a run, named by the
 * first argument. run.py looks at the record file afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entry_test.h"

#define OURS   "libslipstream.so"
#define DRIVER "libcuda.so.1"

/* Nothing is substituted in mode off. */
static const char *expected = OURS;

static void case_dlsym(void)
{
	init_function *init = LOOK_UP(init_function, "cuInit");
	context_function *current = LOOK_UP(context_function, "cuCtxGetCurrent");
	CUcontext context;

	CHECK(lies_in((void *)init, expected));
	CHECK_EQUAL(0, fake_calls("cuInit"));
	CHECK_EQUAL(CUDA_SUCCESS, init(0));
	CHECK_EQUAL(1, fake_calls("cuInit"));
	for (int i = 0; i < 1000; i++)
		CHECK_EQUAL(CUDA_SUCCESS, current(&context));
	CHECK(context == (CUcontext)0x1234);
	CHECK_EQUAL(1000, fake_calls("cuCtxGetCurrent"));
	CHECK(dlsym(driver_handle(), "cuNoSuchThing") == NULL);
	CHECK(dlsym(driver_handle(), "cuMemcpyDtoH_v2") == NULL); /* ours, but not this driver's */
}

static void *look_up(const char *name, int version, cuuint64_t flags)
{
	look_up_v2 *get = LOOK_UP(look_up_v2, "cuGetProcAddress_v2");
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	void *found = &status;

	CHECK_EQUAL(CUDA_SUCCESS, get(name, &found, version, flags, &status));
	CHECK_EQUAL(found ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
		    status);
	return found;
}

/* By name, by look-up: always the same wrapper. */
static void case_identity(void)
{
	static const struct {
		const char *base, *exported;
		int version;
		cuuint64_t flags;
	} names[] = {
		{"cuInit", "cuInit", 2000, 0},
		{"cuCtxSynchronize", "cuCtxSynchronize", 2000, 0},
		{"cuCtxSynchronize", "cuCtxSynchronize", 12000, 0},
		{"cuCtxSynchronize", "cuCtxSynchronize_v2", 13000, 0},
		{"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 7000, 0},
		{"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 7000, 1},
		{"cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds", 7000, 2},
		{"cuStreamSynchronize", "cuStreamSynchronize_ptsz", 7000, 2},
		{"cuGetProcAddress", "cuGetProcAddress", 11030, 0},
		{"cuGetProcAddress", "cuGetProcAddress_v2", 12000, 0},
		{"cuGraphicsEGLRegisterImage", "cuGraphicsEGLRegisterImage", 7000, 0},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *by_name = dlsym(driver_handle(), names[i].exported);
		void *by_look_up = look_up(names[i].base, names[i].version, names[i].flags);

		CHECK(by_name == by_look_up);
		CHECK(lies_in(by_name, expected));
	}
	/* Each version has its own prototype: the second takes a context. */
	CHECK_EQUAL(CUDA_ERROR_INVALID_CONTEXT,
		    ((CUresult(*)(CUcontext))look_up("cuCtxSynchronize", 13000, 0))(NULL));
	CHECK_EQUAL(1, fake_calls("cuCtxSynchronize_v2"));
	CHECK_EQUAL(0, fake_calls("cuCtxSynchronize"));
}

static void case_null_status(void)
{
	look_up_v2 *get = LOOK_UP(look_up_v2, "cuGetProcAddress_v2");
	void *found = NULL;

	CHECK_EQUAL(CUDA_SUCCESS, get("cuInit", &found, 2000, 0, NULL));
	CHECK(found == dlsym(driver_handle(), "cuInit"));
	CHECK_EQUAL(CUDA_SUCCESS, get("", &found, 0, 0, NULL));
	CHECK(found == NULL);
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, get(NULL, &found, 2000, 0, NULL));
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, get("cuInit", NULL, 2000, 0, NULL));
}

/* What the driver does not write, or writes for a failure, stays as it is, even where it looks like
 * a function of the driver. */
static void case_untouched(void)
{
	look_up_v1 *get = LOOK_UP(look_up_v1, "cuGetProcAddress");
	look_up_v2 *get_v2 = LOOK_UP(look_up_v2, "cuGetProcAddress_v2");
	void *(*address)(const char *) =
		(void *(*)(const char *))dlsym(driver_handle(), "fake_address");
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
	void *raw = address("cuInit"), *found = raw;

	CHECK(lies_in(raw, DRIVER));
	CHECK_EQUAL(CUDA_ERROR_NOT_FOUND, get("cuNoSuchThing", &found, 12000, 0));
	CHECK(found == raw);
	CHECK_EQUAL(CUDA_SUCCESS, get_v2("cuUntouched", &found, 12000, 0, &status));
	CHECK_EQUAL(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, status);
	CHECK(found == raw);
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, get_v2("cuInit", &found, 99000, 0, &status));
	CHECK(found == raw);
	CHECK_EQUAL(CUDA_SUCCESS, get_v2("cuNoSuchThing", &found, 12000, 0, &status));
	CHECK(found == NULL);
}

static void case_v1_only(void)
{
	look_up_v1 *get = LOOK_UP(look_up_v1, "cuGetProcAddress");
	void *found = NULL;

	CHECK(dlsym(driver_handle(), "cuGetProcAddress_v2") == NULL);
	CHECK(lies_in((void *)get, OURS));
	CHECK_EQUAL(CUDA_SUCCESS, get("cuInit", &found, 2000, 0));
	CHECK(found == dlsym(driver_handle(), "cuInit"));
	CHECK(lies_in(found, OURS));
	CHECK_EQUAL(CUDA_SUCCESS, get("cuGetProcAddress", &found, 12000, 0));
	CHECK(found == (void *)get);
	CHECK_EQUAL(CUDA_SUCCESS, ((init_function *)LOOK_UP(init_function, "cuInit"))(0));
}

/* Before 11.3: no look-up function at all. */
static void case_no_look_up(void)
{
	CHECK(dlsym(driver_handle(), "cuGetProcAddress_v2") == NULL);
	CHECK(dlsym(driver_handle(), "cuGetProcAddress") == NULL);
	case_dlsym();
}

static void case_export_table(void)
{
	static const unsigned char id[16] = {0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e,
					     0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d, 0xd9};
	table_function *get = LOOK_UP(table_function, "cuGetExportTable");
	const void *table = NULL;
	CUuuid uuid;

	memcpy(&uuid, id, sizeof(uuid));
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(CUDA_SUCCESS, get(&table, &uuid));
	CHECK(lies_in(table, DRIVER));
	CHECK_EQUAL(42, ((const uint64_t *)table)[1]);
	memset(&uuid, 0xff, sizeof(uuid));
	CHECK_EQUAL(CUDA_ERROR_NOT_FOUND, get(&table, &uuid));
	CHECK_EQUAL(0, fake_calls("cuInit")); /* nobody calls it for the program */
}

/* The same table for this program, and for a library whose calls in it are known. */
static void case_export_table_askers(const char *path)
{
	static const unsigned char id[16] = {0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48,
					     0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8, 0xf2};
	table_function *get = LOOK_UP(table_function, "cuGetExportTable");
	void *library = dlopen(path, RTLD_NOW);
	CUresult (*ask)(table_function *, const CUuuid *) =
		library ? (CUresult(*)(table_function *, const CUuuid *))dlsym(library, "ask_table")
			: NULL;
	const void *table = NULL;
	CUuuid uuid;

	memcpy(&uuid, id, sizeof(uuid));
	CHECK(ask);
	CHECK_EQUAL(CUDA_SUCCESS, ask(get, &uuid));
	CHECK_EQUAL(CUDA_SUCCESS, get(&table, &uuid));
}

typedef CUresult many_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			       uint64_t, uint64_t, double, double, double, double, double, double,
			       double, double);

static void case_thunk(void)
{
	many_function *many = LOOK_UP(many_function, "cuGraphicsEGLRegisterImage");

	CHECK(lies_in((void *)many, OURS));
	for (int i = 0; i < 10; i++)
		CHECK_EQUAL(CUDA_SUCCESS, many(1, 2, 3, 4, 5, 6, 7, 8, 9, 1.5, 2.5, 3.5, 4.5, 5.5,
					       6.5, 7.5, 8.5));
	CHECK_EQUAL(10, fake_calls("cuGraphicsEGLRegisterImage"));
	CHECK_EQUAL(4712, *(int *)dlsym(driver_handle(), "cudbgGetAPIVersion"));
}

/* Newer than the build, and not exported: the program gets them as they are, and the record says
 * so. */
static void case_unknown(void)
{
	CUresult (*future)(int) = (CUresult(*)(int))dlsym(driver_handle(), "cuFutureThing");
	void_function *hidden = (void_function *)look_up("cuPrivate", 2000, 0);

	CHECK(lies_in((void *)future, DRIVER));
	CHECK_EQUAL(CUDA_SUCCESS, future(7));
	CHECK(lies_in((void *)hidden, DRIVER));
	CHECK_EQUAL(CUDA_SUCCESS, hidden());
}

static void case_failed_init(void)
{
	init_function *init = LOOK_UP(init_function, "cuInit");

	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, init(1));
	CHECK_EQUAL(CUDA_SUCCESS, init(0));
	CHECK_EQUAL(4, fake_calls("cuInit"));
}

static void case_null_arguments(void)
{
	alloc_function *alloc = LOOK_UP(alloc_function, "cuMemAlloc_v2");
	copy_function *copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	version_function *version = LOOK_UP(version_function, "cuDriverGetVersion");
	CUdeviceptr pointer = 77;

	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, alloc(NULL, 16));
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, alloc(&pointer, 0));
	CHECK_EQUAL(77, pointer);
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, copy(0, NULL, 0));
	CHECK_EQUAL(CUDA_ERROR_INVALID_VALUE, version(NULL));
}

static void case_errno(void)
{
	context_function *current = LOOK_UP(context_function, "cuCtxGetCurrent");
	copy_function *copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	void_function *synchronize = LOOK_UP(void_function, "cuCtxSynchronize");
	many_function *many = LOOK_UP(many_function, "cuGraphicsEGLRegisterImage");
	CUcontext context;
	char byte = 0;

	for (int i = 0; i < 2; i++) { /* the first call opens the record file */
		errno = EXDEV;
		current(&context);
		CHECK_EQUAL(EXDEV, errno);
		copy(0x700000000000, &byte, 1);
		CHECK_EQUAL(EXDEV, errno);
		many(1, 2, 3, 4, 5, 6, 7, 8, 9, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5);
		CHECK_EQUAL(EXDEV, errno);
		synchronize(); /* the driver's own errno gets through */
		CHECK_EQUAL(EDOM, errno);
	}
	errno = EXDEV;
	dlsym(driver_handle(), "cuInit");
	dlsym(RTLD_DEFAULT, "cuInit");
	CHECK_EQUAL(EXDEV, errno);
}

static void case_dlerror(void)
{
	void *handle = driver_handle();
	context_function *current = (context_function *)dlsym(handle, "cuCtxGetCurrent");
	copy_function *copy = (copy_function *)dlsym(handle, "cuMemcpyHtoD_v2");
	const char *text;
	CUcontext context;
	char byte = 0;

	CHECK(dlerror() == NULL);
	CHECK(dlsym(handle, "no_such_thing") == NULL);
	current(&context); /* the first call: set-up must not eat the error */
	copy(0x700000000000, &byte, 1);
	text = dlerror();
	CHECK(text && strstr(text, "no_such_thing"));
	CHECK(dlerror() == NULL);
	/* One of ours that the driver lacks: the loader's words, with the driver's name in them. */
	CHECK(dlsym(handle, "cuMemcpyDtoH_v2") == NULL);
	text = dlerror();
	CHECK(text && strstr(text, "cuMemcpyDtoH_v2") && strstr(text, "libcuda"));
	CHECK(dlsym(handle, "cuInit") != NULL);
	CHECK(dlerror() == NULL);
}

/* No driver in this process: probing must find none, with an error to show. */
static void case_probe(void)
{
	static void *const handles[] = {RTLD_DEFAULT, RTLD_NEXT};

	for (size_t i = 0; i < 2; i++) {
		dlerror();
		CHECK(dlsym(handles[i], "cuInit") == NULL);
		CHECK(dlerror() != NULL);
	}
	CHECK(dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") == NULL);
	CHECK(dlerror() != NULL);
	CHECK(dlopen("libcuda.so.1", RTLD_NOW) == NULL);
}

/*
 * A driver opened for everyone is found by probing, as our wrapper; one opened for itself is not.
 */
static void case_probe_global(void)
{
	driver_handle();
	CHECK(dlsym(RTLD_DEFAULT, "cuInit") == NULL);
	CHECK(dlerror() != NULL);
	CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
	CHECK(lies_in(dlsym(RTLD_DEFAULT, "cuInit"), OURS));
	CHECK(lies_in(dlsym(RTLD_NEXT, "cuInit"), OURS));
	CHECK(lies_in(dlsym(dlopen(NULL, RTLD_NOW), "cuInit"), OURS));
	CHECK(dlsym(RTLD_DEFAULT, "cuMemcpyDtoH_v2") == NULL);
	CHECK(dlerror() != NULL);
}

/* Who looks dlsym up gets the hook, not a way past it. */
static void case_dlsym_of_dlsym(void)
{
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	void *(*again)(void *, const char *) =
		(void *(*)(void *, const char *))dlsym(libc, "dlsym");

	CHECK(lies_in((void *)again, OURS));
	CHECK(lies_in(again(driver_handle(), "cuInit"), OURS));
	CHECK(lies_in(dlsym(libc, "malloc"), "libc"));
}

static void case_absolute(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	init_function *init;

	CHECK(handle);
	init = (init_function *)dlsym(handle, "cuInit");
	CHECK(lies_in((void *)init, OURS));
	CHECK_EQUAL(CUDA_SUCCESS, init(0));
}

static void case_second(const char *path)
{
	void *first = driver_handle(), *second = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	init_function *init;

	CHECK(second && second != first);
	CHECK(lies_in(dlsym(first, "cuInit"), OURS));
	init = (init_function *)dlsym(second, "cuInit");
	CHECK(init && !lies_in((void *)init, OURS));
	CHECK_EQUAL(CUDA_SUCCESS, init(0));
	CHECK_EQUAL(0, fake_calls("cuInit"));
	CHECK_EQUAL(CUDA_SUCCESS, ((init_function *)dlsym(first, "cuInit"))(0));
}

/* Names that begin like ours, in libraries that are not the driver. */
static void case_other_names(const char *path)
{
	static const char *const names[] = {"cudnnCreate", "cublasCreate_v2", "cudaMalloc",
					    "cuInit", "cuFFT"};
	void *other = dlopen(path, RTLD_NOW);

	driver_handle();
	CHECK(other);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int (*function)(void) = (int (*)(void))dlsym(other, names[i]);

		CHECK(function && lies_in((void *)function, "other"));
		CHECK_EQUAL(4711, function());
	}
}

static void case_own_lookup(void)
{
	void *(*own)(const char *) =
		(void *(*)(const char *))dlsym(driver_handle(), "fake_own_lookup");

	CHECK(lies_in(dlsym(driver_handle(), "cuInit"), OURS));
	CHECK(lies_in(own("cuInit"), DRIVER));
}

#define THREADS 8
#define CALLS   20000

static void *count_calls(void *data)
{
	context_function *current = data;
	CUcontext context;

	for (int i = 0; i < CALLS; i++)
		CHECK_EQUAL(CUDA_SUCCESS, current(&context));
	return NULL;
}

static void case_threads(void)
{
	context_function *current = LOOK_UP(context_function, "cuCtxGetCurrent");
	pthread_t threads[THREADS];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < THREADS; i++)
			CHECK_EQUAL(
				0, pthread_create(&threads[i], NULL, count_calls, (void *)current));
		for (int i = 0; i < THREADS; i++)
			CHECK_EQUAL(0, pthread_join(threads[i], NULL));
	}
	CHECK_EQUAL(4 * THREADS * CALLS, fake_calls("cuCtxGetCurrent"));
}

static pthread_key_t late_key;
static context_function *late_current;

/* Runs in every round of key destructors, so also after the shim's own. */
static void late_destructor(void *data)
{
	uintptr_t round = (uintptr_t)data;
	CUcontext context;

	CHECK_EQUAL(CUDA_SUCCESS, late_current(&context));
	if (round <
	    4) /* as many rounds as there are: the last call has no destructor of ours behind it */
		pthread_setspecific(late_key, (void *)(round + 1));
}

static void *late_thread(void *data)
{
	CUcontext context;

	pthread_setspecific(late_key, (void *)1);
	late_current(&context);
	return NULL;
}

static void case_thread_exit(void)
{
	pthread_t thread;

	late_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	CHECK_EQUAL(0, pthread_key_create(&late_key, late_destructor));
	for (int i = 0; i < 50; i++) {
		CHECK_EQUAL(0, pthread_create(&thread, NULL, late_thread, NULL));
		CHECK_EQUAL(0, pthread_join(thread, NULL));
	}
	CHECK_EQUAL(50 * 5, fake_calls("cuCtxGetCurrent"));
}

static init_function *child_init;
static context_function *child_current;
static copy_function *child_copy;

static int child(void *data)
{
	int asked = fake_calls("cuCtxGetId");
	CUcontext context;

	for (int i = 0; i < 7; i++)
		child_current(&context);
	if (child_init)
		child_init(0);
	if (child_copy) {
		/* Passed through: nothing is asked of a driver that cannot be used here. */
		child_copy(0x700000000000, &context, 1);
		CHECK_EQUAL(asked, fake_calls("cuCtxGetId"));
	}
	_exit(0);
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, __WALL) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The parent's counts stay its own; the child leaves a file of its own. */
static void fork_with(bool init_first, bool bare_clone)
{
	static char stack[256 * 1024] __attribute__((aligned(16)));
	init_function *init = LOOK_UP(init_function, "cuInit");
	CUcontext context;
	pid_t pid;

	child_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	if (init_first)
		CHECK_EQUAL(CUDA_SUCCESS, init(0));
	for (int i = 0; i < 5; i++)
		child_current(&context);
	if (bare_clone) {
		pid = clone(child, stack + sizeof(stack), SIGCHLD, NULL);
		CHECK(pid > 0);
	} else {
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			child(NULL);
	}
	wait_for(pid);
	for (int i = 0; i < 5; i++)
		child_current(&context);
}

static void case_fork(void)
{
	child_init = LOOK_UP(init_function, "cuInit");
	fork_with(false, false);
}

static void case_fork_after_init(void)
{
	child_init = LOOK_UP(init_function, "cuInit");
	child_copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	fork_with(true, false);
}

static void case_clone(void)
{
	child_init = LOOK_UP(init_function, "cuInit");
	fork_with(true, true);
}

static void case_fork_idle(void)
{
	context_function *current = LOOK_UP(context_function, "cuCtxGetCurrent");
	CUcontext context;
	pid_t pid;

	current(&context);
	pid = fork();
	if (pid == 0)
		/* Exit handlers run in a child that used nothing: the parent's record stays live. */
		exit(0);
	wait_for(pid);
	current(&context);
	raise(SIGKILL);
}

static void case_vfork(void)
{
	context_function *current = LOOK_UP(context_function, "cuCtxGetCurrent");
	CUcontext context;
	pid_t pid;

	current(&context);
	pid = vfork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	wait_for(pid);
	current(&context);
}

static int stop;

static void *busy(void *data)
{
	context_function *current = data;
	copy_function *copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	CUcontext context;
	char byte = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		current(&context);
		copy(0x700000000000, &byte, 1);
	}
	return NULL;
}

/* Children forked while other threads are in the middle of calls must not find a lock held for
 * ever. */
static void case_fork_busy(void)
{
	child_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	pthread_t threads[4];

	alarm(100);
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(0, pthread_create(&threads[i], NULL, busy, (void *)child_current));
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid == 0) {
			alarm(20);
			child(NULL);
		}
		wait_for(pid);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* A thread that survives a fork keeps an old block; a new thread of the child calls first. */
static void *first_in_child(void *data)
{
	CUcontext context;

	child_current(&context);
	return NULL;
}

static void case_fork_thread(void)
{
	CUcontext context;
	pthread_t thread;
	pid_t pid;

	child_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	child_current(&context);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQUAL(0, pthread_create(&thread, NULL, first_in_child, NULL));
		CHECK_EQUAL(0, pthread_join(thread, NULL));
		for (int i = 0; i < 3; i++)
			child_current(&context);
		_exit(0);
	}
	wait_for(pid);
}

static context_function *exit_current;

static void at_exit(void)
{
	CUcontext context;

	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(CUDA_SUCCESS, exit_current(&context));
}

static __attribute__((destructor)) void program_destructor(void)
{
	if (exit_current)
		at_exit();
}

static void case_exit(void)
{
	exit_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	CHECK_EQUAL(0, atexit(at_exit));
	at_exit();
}

static void from_driver(void)
{
	CUcontext context;

	late_current(&context);
}

static void case_callback(void)
{
	void_function *synchronize = LOOK_UP(void_function, "cuCtxSynchronize");
	void (**callback)(void) = dlsym(driver_handle(), "fake_callback");

	late_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	*callback = from_driver;
	CHECK_EQUAL(CUDA_SUCCESS, synchronize());
	CHECK_EQUAL(1, fake_calls("cuCtxGetCurrent"));
}

static volatile sig_atomic_t signalled;
static copy_function *late_copy;

static void on_signal(int number)
{
	int saved = errno;
	CUcontext context;

	late_current(&context);
	late_copy(0x700000000000, &context, 1); /* the function that it interrupts, too */
	signalled++;
	errno = saved;
}

static void *send_signals(void *data)
{
	pthread_t target = *(pthread_t *)data;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		pthread_kill(target, SIGUSR1);
		usleep(200);
	}
	return NULL;
}

static void case_signal(void)
{
	copy_function *copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	pthread_t thread, self = pthread_self();
	char byte = 0;

	late_current = LOOK_UP(context_function, "cuCtxGetCurrent");
	late_copy = copy;
	sigaction(SIGUSR1, &action, NULL);
	CHECK_EQUAL(0, pthread_create(&thread, NULL, send_signals, &self));
	while (signalled < 500)
		copy(0x700000000000, &byte, 1);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	printf("%d %d\n", fake_calls("cuMemcpyHtoD_v2"), fake_calls("cuCtxGetCurrent"));
}

static void case_deepbind(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
	void *(*plugin_look_up)(void) =
		plugin ? (void *(*)(void))dlsym(plugin, "plugin_look_up") : NULL;
	CUcontext context;

	CHECK(plugin_look_up);
	CHECK(lies_in(plugin_look_up(), DRIVER)); /* past us: the C library's dlsym answered */
	LOOK_UP(context_function, "cuCtxGetCurrent")(&context);
}

/*
 * Beyond the program's own calls the driver sees two questions that touch nothing: which version it
 * is, once, and which context is current.
 */
static void case_nothing_injected(void)
{
	init_function *init = LOOK_UP(init_function, "cuInit");
	alloc_function *alloc = LOOK_UP(alloc_function, "cuMemAlloc_v2");
	copy_function *copy = LOOK_UP(copy_function, "cuMemcpyHtoD_v2");
	stream_function *wait = LOOK_UP(stream_function, "cuStreamSynchronize");
	void_function *wait_all = LOOK_UP(void_function, "cuCtxSynchronize");
	int (*total)(void) = (int (*)(void))dlsym(driver_handle(), "fake_total");
	CUdeviceptr pointer;
	char byte = 0;

	CHECK_EQUAL(CUDA_SUCCESS, init(0));
	for (int i = 0; i < 100; i++) {
		CHECK_EQUAL(CUDA_SUCCESS, alloc(&pointer, 16));
		CHECK_EQUAL(CUDA_SUCCESS, copy(pointer, &byte, 1));
		CHECK_EQUAL(CUDA_SUCCESS, wait(NULL));
		CHECK_EQUAL(CUDA_SUCCESS, wait_all());
	}
	CHECK_EQUAL(1, fake_calls("cuDriverGetVersion"));
	CHECK_EQUAL(1 + 400 + 1, total() - fake_calls("cuCtxGetId"));
}

static void case_per_thread(void)
{
	copy_function *plain = (copy_function *)look_up("cuMemcpyHtoD", 7000, 1);
	copy_function *thread = (copy_function *)look_up("cuMemcpyHtoD", 7000, 2);
	char byte = 0;

	CHECK(plain != thread);
	CHECK_EQUAL(CUDA_SUCCESS, plain(0x700000000000, &byte, 1));
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(CUDA_SUCCESS, thread(0x700000000000, &byte, 1));
	CHECK_EQUAL(1, fake_calls("cuMemcpyHtoD_v2"));
	CHECK_EQUAL(3, fake_calls("cuMemcpyHtoD_v2_ptds"));
}

/* Closed by the program, which keeps a pointer: the shim's reference keeps the driver where it is. */
static void case_reopen(void)
{
	void *first = driver_handle();
	context_function *current = (context_function *)dlsym(first, "cuCtxGetCurrent");
	CUcontext context;

	CHECK_EQUAL(CUDA_SUCCESS, current(&context));
	CHECK_EQUAL(0, dlclose(first));
	CHECK_EQUAL(CUDA_SUCCESS, current(&context));
	CHECK(driver_handle() == first);
	CHECK(dlsym(first, "cuCtxGetCurrent") == (void *)current);
	CHECK_EQUAL(2, fake_calls("cuCtxGetCurrent"));
}

/* The driver comes with a plugin, and is nobody else's. */
static void case_linked_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *(*by_default)(void) =
		plugin ? (void *(*)(void))dlsym(plugin, "plugin_default") : NULL;
	int (*init)(void) = plugin ? (int (*)(void))dlsym(plugin, "plugin_init") : NULL;

	CHECK(by_default && init);
	CHECK_EQUAL(0, init());
	CHECK(lies_in(by_default(), OURS));
	CHECK(dlsym(RTLD_DEFAULT, "cuInit") == NULL);
	CHECK(lies_in(dlsym(plugin, "cuInit"), OURS));
}

static const struct {
	const char *name;
	void (*run)(void);
	void (*run_with)(const char *argument);
} cases[] = {
	{"dlsym", case_dlsym, NULL},
	{"identity", case_identity, NULL},
	{"null-status", case_null_status, NULL},
	{"untouched", case_untouched, NULL},
	{"v1-only", case_v1_only, NULL},
	{"no-look-up", case_no_look_up, NULL},
	{"export-table", case_export_table, NULL},
	{"export-table-askers", NULL, case_export_table_askers},
	{"thunk", case_thunk, NULL},
	{"unknown", case_unknown, NULL},
	{"failed-init", case_failed_init, NULL},
	{"null-arguments", case_null_arguments, NULL},
	{"errno", case_errno, NULL},
	{"dlerror", case_dlerror, NULL},
	{"probe", case_probe, NULL},
	{"probe-global", case_probe_global, NULL},
	{"dlsym-of-dlsym", case_dlsym_of_dlsym, NULL},
	{"absolute", NULL, case_absolute},
	{"second", NULL, case_second},
	{"other-names", NULL, case_other_names},
	{"own-lookup", case_own_lookup, NULL},
	{"threads", case_threads, NULL},
	{"thread-exit", case_thread_exit, NULL},
	{"fork", case_fork, NULL},
	{"fork-after-init", case_fork_after_init, NULL},
	{"clone", case_clone, NULL},
	{"fork-idle", case_fork_idle, NULL},
	{"fork-busy", case_fork_busy, NULL},
	{"fork-thread", case_fork_thread, NULL},
	{"vfork", case_vfork, NULL},
	{"exit", case_exit, NULL},
	{"callback", case_callback, NULL},
	{"signal", case_signal, NULL},
	{"nothing-injected", case_nothing_injected, NULL},
	{"per-thread", case_per_thread, NULL},
	{"reopen", case_reopen, NULL},
	{"linked-plugin", NULL, case_linked_plugin},
	{"deepbind", NULL, case_deepbind},
};

int main(int argc, char **argv)
{
	if (getenv("SLIPSTREAM_MODE") && strcmp(getenv("SLIPSTREAM_MODE"), "off") == 0)
		expected = DRIVER;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		if (cases[i].run)
			cases[i].run();
		else
			cases[i].run_with(argc > 2 ? argv[2] : "");
		return 0;
	}
	fprintf(stderr, "usage: calls CASE [ARGUMENT]\n");
	return 2;
}
