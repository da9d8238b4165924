// SPDX-License-Identifier: MIT
/*
 * Cases: several contexts, their ends, forks, and calls of the driver that fail.
 */
#include "cases.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void enter_context(const struct one_context *one)
{
	OK(cuCtxSetCurrent(one->context));
	word = one->word;
	hash_kernel = one->hash;
	gate_kernel = one->gate;
}

struct one_context fill_context(CUcontext made, char letter)
{
	struct one_context one = {.context = made};

	prepare_context();
	one.word = word;
	one.module = module;
	one.hash = hash_kernel;
	one.gate = gate_kernel;
	one.stream = new_stream(letter, CU_STREAM_DEFAULT);
	mix(one.stream);
	return one;
}

struct one_context make_context(CUdevice device, char letter)
{
	CUcontext made;

	OK(cuCtxCreate(&made, NULL, 0, device));
	return fill_context(made, letter);
}

/* Each has its own substitute, and neither waits for the other. */
static void two_contexts(void)
{
	struct one_context one = make_context(0, 'a'), two = make_context(1, 'b');

	begin();
	step(two.stream, 1);
	step(NULL, 0);
	enter_context(&one);
	step(one.stream, 1);
	step(NULL, 0);
	end();
	close_gate(NULL, 1);
	step(NULL, 0);
	step(one.stream, 1);
	enter_context(&two);
	step(NULL, 0);
	step(two.stream, 1);
	OK(cuStreamSynchronize(NULL));
	SAY(cuStreamQuery(NULL));
	/* By its handle a stream can be used from another context. */
	OK(cuMemsetD8Async(one.word + 256, 1, 8, one.stream));
	SAY(cuStreamQuery(one.stream));
	say_words();
	enter_context(&one);
	open_gate(1);
	say_words();
}

/* A copy between two contexts comes behind what is before it in both, and before what comes later. */
static void peer_copies(void)
{
	struct one_context one = make_context(0, 'a'), two = make_context(1, 'b');

	for (int i = 0; i < 6; i++) {
		enter_context(&one);
		if (i < 3)
			close_gate(NULL, 1);
		step(NULL, 0);
		step(one.stream, 1);
		enter_context(&two);
		step(NULL, 0);
		step(two.stream, 1);
		step(NULL, 0);
		/* A stream of one context is not ordered with those of the other. */
		if (i % 3)
			OK(cuCtxSynchronize());
		enter_context(&one);
		if (i < 3)
			open_gate(1);
		if (i % 3 == 0)
			OK(cuMemcpyPeer(two.word + 16, two.context, one.word + 8, one.context, 8));
		else if (i % 3 == 1)
			OK(cuMemcpyPeerAsync(two.word + 16, two.context, one.word + 8, one.context,
					     8, NULL));
		else
			OK(cuMemcpyPeerAsync(two.word + 16, two.context, one.word + 8, one.context,
					     8, one.stream));
		step(one.stream, 1);
		step(NULL, 0);
		/* What a copy on this side's streams is to the other side, only a wait tells for sure. */
		OK(cuCtxSynchronize());
		enter_context(&two);
		step(NULL, 0);
		step(two.stream, 1);
	}
	say_words();
	enter_context(&one);
	say_words();
}

/* A context ends with work on its substitute, and another one has its handle, perhaps. */
static void context_destroyed(void)
{
	struct one_context one;

	for (int i = 0; i < 8; i++) {
		one = make_context(0, 'a');
		close_gate(NULL, 1);
		step(NULL, 0);
		step(one.stream, 1);
		open_gate(1);
		if (i % 2)
			say_words();
		OK(cuCtxDestroy(one.context));
	}
	one = make_context(0, 'b');
	begin();
	step(one.stream, 1);
	step(NULL, 0);
	end();
	say_words();
}

static void primary_reset(void)
{
	CUstream a;

	for (int i = 0; i < 4; i++) {
		a = new_stream(i == 3 ? 'a' : 'x', CU_STREAM_DEFAULT);
		mix(a);
		if (i == 3)
			begin();
		step(NULL, 0);
		step(a, 1);
		step(NULL, 0);
		if (i == 3)
			end();
		say_words();
		close_gate(NULL, 1);
		step(a, 1);
		open_gate(1);
		OK(cuDevicePrimaryCtxReset(0));
		OK(cuDevicePrimaryCtxRetain(&context, 0));
		OK(cuCtxSetCurrent(context));
		gates_are_gone();
		prepare_context();
	}
}

/* ---- forks ---- */

static void forked(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	int status = -1;
	pid_t child;

	mix(a);
	close_gate(NULL, 1);
	step(NULL, 0);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(try_step(NULL, 0) == CUDA_ERROR_NOT_INITIALIZED &&
				      try_step(a, 1) == CUDA_ERROR_NOT_INITIALIZED &&
				      cuStreamSynchronize(NULL) == CUDA_ERROR_NOT_INITIALIZED
			      ? 0
			      : 1);
	waitpid(child, &status, 0);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	begin();
	step(a, 1);
	step(NULL, 0);
	end();
	open_gate(1);
	say_words();
}

/* ---- failures, and all rewrites at once ---- */

/* Under fault injection: calls of the rewrite fail, the program's do not. run.py says which. */
static void faults(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT);

	for (int i = 0; i < 12; i++) {
		SAY(try_step(a, 1));
		SAY(try_step(NULL, 0));
		SAY(try_step(NULL, 0));
		SAY(try_step(a, 1));
		SAY(try_step(b, 2));
		SAY(try_step(NULL, 0));
		SAY(try_step(CU_STREAM_PER_THREAD, 3));
		if (i % 3 == 0) {
			SAY(try_step(NULL, 0));
			SAY(cuMemsetD8(word + 512, 1, 8));
		}
		SAY(try_step(b, 2));
		if (i % 4 == 3)
			SAY(cuStreamSynchronize(NULL));
	}
	say_words();
}

/* A context that has failed fails every call, and ends. */
static void broken(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	CUdeviceptr nowhere = 64;
	uint32_t value = 1, count = 16;
	void *parameters[] = {&nowhere, &value, &count};

	mix(a);
	step(a, 1);
	OK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	SAY(cuStreamSynchronize(NULL));
	SAY(try_step(a, 1));
	SAY(try_step(NULL, 0));
	SAY(cuStreamQuery(NULL));
	SAY(cuStreamQuery(a));
	SAY(cuCtxSynchronize());
	SAY(cuEventRecord(NULL, NULL));
}

static void fill(CUstream stream, CUdeviceptr to, uint32_t value, uint32_t bytes)
{
	uint32_t count = bytes / 4;
	void *parameters[] = {&to, &value, &count};

	OK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void spin(CUstream stream, uint64_t ns)
{
	void *parameters[] = {&ns};

	OK(cuLaunchKernel(spin_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
	void *parameters[] = {&to, &from, &bytes};

	OK(cuLaunchKernel(copy_kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

#define BYTES ((uint32_t)300000)

/*
 * Blocks are freed while the substitute's work still reads or writes them, and asked for again at once: who had the block too early would see, or do,
 * damage. Copies of pageable memory come between.
 */
static void recycled(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	CUdeviceptr result, block, next;
	uint32_t *host = malloc(BYTES), *pinned, *again;
	int wrong = 0;

	mix(a);
	OK(cuMemAlloc(&result, BYTES));
	for (uint32_t i = 1; i < 12; i++) {
		OK(cuMemAlloc(&block, BYTES));
		OK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
		memset(pinned, (int)i, BYTES);
		step(a, 1);
		spin(NULL, 2000000);
		fill(NULL, block, i, BYTES);
		copy(NULL, result, block, BYTES);
		OK(cuMemcpyHtoDAsync(result + 4096, pinned, 4096, NULL));
		OK(cuMemFree(block));
		OK(cuMemAlloc(&next, BYTES));
		fill(a, next, 0xdeadbeef, BYTES);
		OK(cuMemFreeHost(pinned));
		OK(cuMemHostAlloc((void **)&again, BYTES, 0));
		memset(again, 0xee, BYTES);
		step(NULL, 0);
		OK(cuMemcpyDtoH(host, result, BYTES));
		for (uint32_t k = 0; k < BYTES / 4; k++)
			wrong += host[k] != (k >= 1024 && k < 2048 ? i * 0x01010101 : i);
		memset(host, (int)i, BYTES);
		OK(cuMemcpyHtoD(result, host, BYTES));
		memset(host, 0, BYTES);
		copy(NULL, next, result, BYTES);
		step(a, 1);
		OK(cuMemcpyDtoH(host, next, BYTES));
		for (uint32_t k = 0; k < BYTES / 4; k++)
			wrong += host[k] != i * 0x01010101;
		OK(cuMemFree(next));
		OK(cuMemFreeHost(again));
	}
	printf("%d wrong\n", wrong);
	EXPECT(!wrong);
	free(host);
	say_words();
}

/* An asynchronous copy on a stream of its own says nothing to the legacy stream of the other context, where one stream waits for another. */
static void peer_copy_on_stream(void)
{
	struct one_context one = make_context(0, 'a'), two = make_context(1, 'b');
	volatile uint32_t *flag;
	CUdeviceptr address;
	CUstream other;
	void *host;

	enter_context(&one);
	other = new_stream('c', CU_STREAM_DEFAULT);
	OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&address, host, 0));
	flag = host;
	*flag = 0;
	step(other, 2);
	step(one.stream, 1);
	step(NULL, 0);
	OK(cuStreamWaitValue32(one.stream, address, 1, 0));
	enter_context(&two);
	OK(cuMemcpyPeerAsync(two.word + 2048, two.context, one.word + 2048, one.context, 64,
			     two.stream));
	SAY(cuStreamSynchronize(two.stream));
	enter_context(&one);
	OK(cuStreamWriteValue32(other, address, 1, 0));
	SAY(cuStreamSynchronize(other));
	step(one.stream, 1);
	say_words();
}

/* The driver refuses to end the context; what stands on the substitute stays in its place. */
static void refused_end_of(CUcontext refused)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT);

	mix(a);
	step(b, 2);
	close_gate(a, 1);
	step(a, 1);
	step(NULL, 0);
	begin();
	SAY(cuCtxDestroy(refused));
	step(NULL, 0);
	step(b, 2);
	step(a, 1);
	end();
	SAY(cuStreamQuery(b));
	open_gate(1);
	say_words();
}

/* Not a primary one this way, and nothing else happens. */
static void refused_end(void)
{
	refused_end_of(context);
}

/* run.py has the call fail. */
static void failed_end(void)
{
	refused_end_of(make_context(0, 'c').context);
}

static void refused_end_holds_nobody(void)
{
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT);

	mix(a);
	step(b, 2);
	step(NULL, 0);
	OK(cuCtxSynchronize());
	close_gate(a, 1);
	begin();
	SAY(cuCtxDestroy(context));
	step(b, 2);
	OK(cuStreamSynchronize(b));
	end();
	open_gate(1);
	say_words();
}

/* The last release ends a context without a word; nothing of it is used when the rewrite is given up later. */
static void released_then_doubted(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	const void *table;

	mix(a);
	step(a, 1);
	step(NULL, 0);
	SAY(cuDevicePrimaryCtxRelease(0));
	/* Under the same name, perhaps. */
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	begin();
	OK(cuGetExportTable(&table, &id));
	SAY(cuStreamSynchronize(NULL));
	end();
	gates_are_gone();
	prepare_context();
	a = new_stream('a', CU_STREAM_DEFAULT);
	mix(a);
	step(a, 1);
	say_words();
}

/* The rewrite is given up, and all later calls are seen. run.py has its barrier and its wait fail. */
static void given_up(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	const void *table;

	mix(a);
	close_gate(NULL, 1);
	step(NULL, 0);
	begin();
	OK(cuGetExportTable(&table, &id));
	step(a, 1);
	step(NULL, 0);
	step(a, 1);
	end();
	open_gate(1);
	say_words();
}

/* A sandbox that came after cuInit refuses what a turn needs: the program finds its errno as it left it. */
static void fence_refused(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);

	EXPECT(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	errno = 0;
	begin();
	step(a, 1);
	step(NULL, 0);
	step(a, 1);
	step(NULL, 0);
	end();
	printf("errno %d\n", errno);
	say_words();
}

const struct named_case life_cases[] = {
	{"two-contexts-two-substitutes", two_contexts},
	{"peer-copies-in-order-on-both-sides", peer_copies},
	{"context-ends-with-pending-work", context_destroyed},
	{"primary-context-is-reset", primary_reset},
	{"forked-child-leaves-the-parent-alone", forked},
	{"faults", faults},
	{"broken-context-fails-every-call", broken},
	{"recycled-blocks-are-free", recycled},
	{"peer-copy-on-a-stream-holds-nobody-elsewhere", peer_copy_on_stream},
	{"refused-end-of-a-context-leaves-order", refused_end},
	{"refused-end-of-a-context-holds-nobody", refused_end_holds_nobody},
	{"failed-end-of-a-context-leaves-order", failed_end},
	{"released-context-is-left-alone", released_then_doubted},
	{"given-up-in-order", given_up},
	{"refused-fence-keeps-errno", fence_refused},
	{NULL, NULL},
};
