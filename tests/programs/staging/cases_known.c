// SPDX-License-Identifier: MIT
/*
 * Cases: what the driver has said of the host's memory is remembered, and forgotten when it may be so no more. Memory is registered here past the
 * library, so that nothing but the driver itself can tell of it: as it is where a function makes host memory known that the library does
 * not follow. A copy that goes to the driver has asked; one that is staged has not. run.py counts both.
 */
#include "cases.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "../../simcuda/kernels.h"

CUresult cuCtxCreate_v2(CUcontext *ret_context, unsigned int flags, CUdevice device);
CUresult cuGLInit(void);

#define BYTES (SOME / 4096 * 4096)

/* The driver's own, not the library's wrapper. */
static void *driver_function(const char *wanted)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	const ElfW(Sym) *symbol = NULL;
	const char *strings = NULL;
	const ElfW(Dyn) * dynamic;
	struct link_map *map;

	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map))
		exit(1);
	for (dynamic = map->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			symbol = (const void *)dynamic->d_un.d_ptr;
		if (dynamic->d_tag == DT_STRTAB)
			strings = (const void *)dynamic->d_un.d_ptr;
	}
	/* The strings lie behind the symbols. */
	for (; (const char *)symbol < strings; symbol++)
		if (symbol->st_shndx != SHN_UNDEF && strcmp(strings + symbol->st_name, wanted) == 0)
			return (void *)(map->l_addr + symbol->st_value);
	fprintf(stderr, "no %s\n", wanted);
	exit(1);
}

static unsigned char *at;
static void *
	bounce; /* pinned, for reading back; made once, since that is a call that makes the library forget */
static CUdeviceptr block;

static void begin(void)
{
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		exit(1);
	OK(cuMemAllocHost(&bounce, BYTES));
	block = device_block(BYTES);
}

static void copy(unsigned int value)
{
	paint(at, BYTES, value);
	OK(cuMemcpyHtoD(block, at, BYTES));
	memset(at, 0, BYTES);
	OK(cuMemcpyDtoH(bounce, block, BYTES));
	EXPECT(is_pattern(bounce, BYTES, value));
}

static void register_unseen(void)
{
	CUresult (*function)(void *, size_t, unsigned int) =
		(CUresult(*)(void *, size_t, unsigned int))driver_function("cuMemHostRegister_v2");

	OK(function(at, BYTES, 0));
}

static void unregister_unseen(void)
{
	CUresult (*function)(void *) = (CUresult(*)(void *))driver_function("cuMemHostUnregister");

	OK(function(at));
}

/* Only one end of it is what the driver knows: of an end that nobody asks about the copy would be staged. The simulated driver refuses one that begins in registered memory and ends outside. */
static void ends(void)
{
	CUresult (*function)(void *, size_t, unsigned int) =
		(CUresult(*)(void *, size_t, unsigned int))driver_function("cuMemHostRegister_v2");

	begin();
	OK(function(at, 4096, 0));
	EXPECT(cuMemcpyHtoD(block, at, BYTES) == CUDA_ERROR_INVALID_VALUE);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	OK(function(at + BYTES - 4096, 4096, 0));
	copy(2);
}

/* ---- calls behind which the driver may know more ---- */

static void of_register(void)
{
	void *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	OK(cuMemHostRegister(other, 4096, 0));
}

static void of_host_alloc(void)
{
	void *other;

	OK(cuMemHostAlloc(&other, 4096, 0));
}

static void of_managed(void)
{
	CUdeviceptr other;

	OK(cuMemAllocManaged(&other, 4096, CU_MEM_ATTACH_GLOBAL));
}

static void of_reserve(void)
{
	CUdeviceptr other;

	OK(cuMemAddressReserve(&other, (size_t)2 << 20, 0, 0, 0));
}

static void of_pool_alloc(void)
{
	CUdeviceptr other;

	OK(cuMemAllocAsync(&other, 4096, NULL));
}

static void of_pool(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool pool;

	OK(cuMemPoolCreate(&pool, &properties));
	OK(cuDeviceSetMemPool(0, pool)); /* one that is only counted */
}

static void of_module(void)
{
	CUmodule module;

	OK(cuModuleLoadData(&module, simcuda_ptx));
}

static void of_context(void)
{
	CUcontext other;

	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxSetCurrent(context));
}

static void of_array(void)
{
	CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;

	OK(cuArrayCreate(&array, &shape));
}

static void of_graph(void)
{
	CUgraphExec exec;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiate(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
}

static void of_ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr other = device_block(4096);

	OK(cuIpcGetMemHandle(&handle, other));
}

/* What fails may have done it all the same. */
static void of_failure(void)
{
	EXPECT(cuMemHostRegister(NULL, 4096, 0) != CUDA_SUCCESS);
}

/* By another thread, in another context. */
static void *register_elsewhere(void *data)
{
	CUcontext other;

	OK(cuCtxCreate_v2(&other, 0, 0));
	of_register();
	return NULL;
}

static void of_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, register_elsewhere, NULL);
	pthread_join(thread, NULL);
}

/* Each of them: a copy that asks or knows already, one that knows; one of other memory, which asks; then one that asks again, and is the driver's. */
static void forgets(void)
{
	unsigned char *other = pattern(BYTES, 1);
	void (*const calls[])(void) = {
		of_register, of_host_alloc, of_managed, of_reserve, of_pool_alloc,
		of_pool,     of_module,     of_context, of_array,   of_graph,
		of_ipc,      of_failure,    of_thread,
	};

	begin();
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		copy(3 * i);
		copy(3 * i + 1);
		register_unseen();
		calls[i]();
		OK(cuMemcpyHtoD(block, other, BYTES));
		copy(3 * i + 2);
		unregister_unseen();
	}
}

/* Calls that can change nothing leave what is known. That the copies are staged shows that nobody asks. */
static void remembers(void)
{
	CUstream stream = new_stream(CU_STREAM_DEFAULT);
	CUdeviceptr other;
	size_t left, all;
	CUevent event;
	CUcontext now;

	begin();
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	copy(1);
	register_unseen();
	copy(2);
	spin(stream, 1000);
	OK(cuEventRecord(event, stream));
	OK(cuStreamWaitEvent(NULL, event, 0));
	OK(cuEventSynchronize(event));
	OK(cuMemsetD8Async(block, 1, 64, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuCtxPushCurrent(context));
	OK(cuCtxPopCurrent(&now));
	OK(cuMemGetInfo(&left, &all));
	OK(cuMemAlloc(&other, 4096));
	OK(cuMemFree(other));
	OK(cuStreamDestroy(stream));
	copy(3);
	unregister_unseen();
}

/* ---- what the program itself registers ---- */

static void *registers(void *data)
{
	OK(cuCtxSetCurrent(data));
	OK(cuMemHostRegister(at, BYTES, 0));
	return NULL;
}

/* By this thread, by another one, in another context; and pageable again behind it. */
static void between(void)
{
	CUcontext other;
	pthread_t thread;

	begin();
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxSetCurrent(context));
	for (unsigned int i = 0; i < 3; i++) {
		copy(3 * i);
		copy(3 * i + 1);
		if (i) {
			pthread_create(&thread, NULL, registers, i == 1 ? context : other);
			pthread_join(thread, NULL);
		} else {
			registers(context);
		}
		copy(3 * i + 2);
		OK(cuMemHostUnregister(at));
	}
}

/* Unmapped, mapped anew at the same address, and so pageable as before; then pinned memory there. */
static void mapped_anew(void)
{
	begin();
	for (unsigned int i = 0; i < 3; i++) {
		copy(i);
		munmap(at, BYTES);
		if (mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			 -1, 0) != at)
			exit(1);
	}
	registers(context);
	copy(4);
	OK(cuMemHostUnregister(at));
}

/* In no header of ours, so it has no wrapper: what it has made known nobody can say. */
static void unwrapped(void)
{
	begin();
	copy(1);
	copy(2);
	EXPECT(cuGLInit() == CUDA_ERROR_NOT_SUPPORTED);
	copy(3);
}

/* What the driver has said of a block of the device goes with the block, and with what is set for it. */
static void block_changes(void)
{
	CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_P2P_TOKENS};
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	CUdeviceptr managed;
	unsigned int type, yes = 1;
	void *values[] = {&type, &tokens};

	begin();
	copy(1);
	copy(2);
	OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, block));
	copy(3);
	block = device_block(BYTES);
	copy(4);
	copy(5);
	/* Its answer does not matter: another device may read the block now. */
	(void)cuPointerGetAttributes(2, asked, values, block);
	copy(6);
	OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	block = managed;
	copy(7);
}

/* It is of one device: the other device's context is to ask about it. */
static void block_elsewhere(void)
{
	CUcontext second;

	begin();
	copy(1);
	copy(2);
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	copy(3);
	OK(cuCtxSetCurrent(context));
	copy(4);
}

const struct named_case known_cases[] = {
	{"known-forgets", forgets},
	{"known-ends", ends},
	{"known-remembers", remembers},
	{"known-between", between},
	{"known-mapped-anew", mapped_anew},
	{"known-unwrapped", unwrapped},
	{"known-block", block_changes},
	{"known-elsewhere", block_elsewhere},
	{NULL, NULL},
};
