// SPDX-License-Identifier: MIT
/*
 * Programs, by name, that do not end by themselves soon. Most do nothing that a rule could blame: they work, sleep, compute, or wait for what runs; ended by
 * `slipstream lint --timeout`, they have failed and that is all. `children` has a process that must be gone afterwards; its id is printed.
 */
#include "programs/common.h"

#define LONG_S 30

static void forever(void)
{
	for (int i = 0; i < LONG_S; i++)
		sleep_ms(1000);
}

static void many_short_waits(CUstream stream)
{
	CUfunction spin = kernel("spin");
	unsigned long time = BUSY / 100;

	for (;;) {
		OK(LAUNCH(spin, stream, &time));
		OK(cuStreamSynchronize(stream));
	}
}

/* A kernel that runs is no gate. */
static void long_kernel(CUstream stream)
{
	CUfunction spin = kernel("spin");
	unsigned long time = LONG_S * 1000000000UL;

	OK(LAUNCH(spin, stream, &time));
	OK(cuStreamSynchronize(stream));
}

/* The gate was open long ago; what is waited for is the kernel. */
static void kernel_behind_open_gate(CUstream stream)
{
	uint32_t *gate = pinned(sizeof(*gate));

	*gate = 1;
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamSynchronize(stream));
	long_kernel(stream);
}

/* They wait, and return. */
static void many_short_copies(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUdeviceptr data = on_device(BYTES);
	CUfunction spin = kernel("spin");
	unsigned long time = BUSY / 100;
	void *host = pinned(BYTES);

	for (;;) {
		OK(LAUNCH(spin, stream, &time));
		OK(cuMemcpyDtoH(host, data, BYTES));
	}
}

static void waited_once_and_sleeps(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUdeviceptr data = on_device(BYTES);
	CUfunction spin = kernel("spin");
	unsigned long time = BUSY;
	void *host = pinned(BYTES);

	OK(LAUNCH(spin, stream, &time));
	OK(cuMemcpyDtoH(host, data, BYTES));
	forever();
}

/* This one is to blame: it would open the gate behind the wait. */
static void own_gate(CUstream stream)
{
	uint32_t *gate = pinned(sizeof(*gate));

	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamSynchronize(stream));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static void *wait_for_stream(void *stream)
{
	OK(cuCtxSetCurrent(context));
	OK(cuStreamSynchronize((CUstream)stream));
	return NULL;
}

/* One thread waits in a free, and cannot open the gate for which another one waits, too: the free is to blame. */
static void free_and_waiting_thread(CUstream stream)
{
	uint32_t *gate = pinned(sizeof(*gate));
	CUdeviceptr data = on_device(BYTES);
	pthread_t thread;

	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	thread = new_thread(wait_for_stream, stream);
	OK(cuMemFree(data));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	(void)pthread_join(thread, NULL);
}

static void *free_memory(void *memory)
{
	OK(cuCtxSetCurrent(context));
	OK(cuMemFree(*(CUdeviceptr *)memory));
	return NULL;
}

/* Ends by itself, while a thread waits for ever. */
static void ends_beside_a_wait(CUstream stream)
{
	static CUdeviceptr data;
	uint32_t *gate = pinned(sizeof(*gate));

	data = on_device(BYTES);
	OK(cuStreamWaitValue32(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	(void)new_thread(free_memory, &data);
	sleep_ms(300);
	_exit(0);
}

static void children(void)
{
	pid_t child = fork();

	if (!child) {
		/* Nobody waits for it as the reader of its output. */
		(void)close(STDOUT_FILENO);
		(void)close(STDERR_FILENO);
		forever();
		_exit(0);
	}
	printf("%d\n", (int)child);
	(void)fflush(stdout);
	forever();
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	CUstream stream;

	start();
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	if (!strcmp(name, "many-short-waits"))
		many_short_waits(stream);
	else if (!strcmp(name, "long-kernel"))
		long_kernel(stream);
	else if (!strcmp(name, "kernel-behind-open-gate"))
		kernel_behind_open_gate(stream);
	else if (!strcmp(name, "many-short-copies"))
		many_short_copies();
	else if (!strcmp(name, "waited-once-and-sleeps"))
		waited_once_and_sleeps();
	else if (!strcmp(name, "own-gate"))
		own_gate(stream);
	else if (!strcmp(name, "free-and-waiting-thread"))
		free_and_waiting_thread(stream);
	else if (!strcmp(name, "ends-beside-a-wait"))
		ends_beside_a_wait(stream);
	else if (!strcmp(name, "children"))
		children();
	else if (!strcmp(name, "sleeps"))
		forever();
	else
		return 2;
	return 0;
}
