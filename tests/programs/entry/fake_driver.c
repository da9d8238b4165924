// SPDX-License-Identifier: MIT
/*
 * A driver of a few functions, to see what the shim lets through: it counts every call by name
 * (fake_calls()) and does nothing else. Built several times: FAKE_V1_ONLY without
 * cuGetProcAddress_v2, FAKE_NO_LOOKUP without either, FAKE_MORE with one function more, FAKE_LAUNCH with
 * streams and kernels. The
 * faithful simulation is tests/simcuda; this one can be made to lack or to misbehave.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

#define EXPORT __attribute__((visibility("default")))
#ifdef FAKE_NO_LOOKUP
#define LOOKUP __attribute__((visibility("hidden")))
#else
#define LOOKUP EXPORT
#endif

static struct {
	const char *name;
	int calls;
} counts[64];

static void count(const char *name)
{
	for (int i = 0; i < 64; i++) {
		const char *expected = NULL;

		if (__atomic_compare_exchange_n(&counts[i].name, &expected, name, 0,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
		    strcmp(expected, name) == 0) {
			__atomic_fetch_add(&counts[i].calls, 1, __ATOMIC_SEQ_CST);
			return;
		}
	}
}

/* How often the driver itself was called under this name. */
int EXPORT fake_calls(const char *name);
int fake_calls(const char *name)
{
	const char *at;

	for (int i = 0; i < 64 && (at = __atomic_load_n(&counts[i].name, __ATOMIC_SEQ_CST)); i++)
		if (strcmp(at, name) == 0)
			return __atomic_load_n(&counts[i].calls, __ATOMIC_SEQ_CST);
	return 0;
}

/* All calls, however named. */
int EXPORT fake_total(void);
int fake_total(void)
{
	int total = 0;

	for (int i = 0; i < 64 && __atomic_load_n(&counts[i].name, __ATOMIC_SEQ_CST); i++)
		total += __atomic_load_n(&counts[i].calls, __ATOMIC_SEQ_CST);
	return total;
}

/* Looks one of its own functions up, as the driver under WSL does. */
void EXPORT *fake_own_lookup(const char *name);
void *fake_own_lookup(const char *name)
{
	static void *handle;
	void *volatile found;

	if (!handle)
		handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	found = dlsym(handle, name); /* no tail call: the return address is to be ours */
	return found;
}

/* What the driver calls its own function, whatever dlsym says. */
void EXPORT *fake_address(const char *name);

/* A pointer the test set is called inside the next cuCtxSynchronize, as a driver calls back. */
void EXPORT (*fake_callback)(void);

#define FUNCTION(name, ...)                                                                        \
	CUresult EXPORT name(__VA_ARGS__);                                                         \
	CUresult name(__VA_ARGS__)

FUNCTION(cuInit, unsigned int Flags)
{
	count("cuInit");
	return Flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

FUNCTION(cuDriverGetVersion, int *version)
{
	count("cuDriverGetVersion");
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 13000;
	return CUDA_SUCCESS;
}

FUNCTION(cuCtxGetCurrent, CUcontext *context)
{
	count("cuCtxGetCurrent");
	*context = (CUcontext)0x1234;
	return CUDA_SUCCESS;
}

/* Asked by the shim itself for every classified call, as a driver of 12.0 has it. */
FUNCTION(cuCtxGetId, CUcontext context, unsigned long long *id)
{
	count("cuCtxGetId");
	*id = 1;
	return CUDA_SUCCESS;
}

FUNCTION(cuCtxSynchronize, void)
{
	count("cuCtxSynchronize");
	if (fake_callback)
		fake_callback();
	errno = EDOM;
	return CUDA_SUCCESS;
}

FUNCTION(cuCtxSynchronize_v2, CUcontext context)
{
	count("cuCtxSynchronize_v2");
	return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

FUNCTION(cuMemAlloc_v2, CUdeviceptr *pointer, size_t bytes)
{
	count("cuMemAlloc_v2");
	if (!pointer || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*pointer = 0x700000000000;
	return CUDA_SUCCESS;
}

FUNCTION(cuMemFree_v2, CUdeviceptr pointer)
{
	count("cuMemFree_v2");
	return CUDA_SUCCESS;
}

FUNCTION(cuMemcpyHtoD_v2, CUdeviceptr to, const void *from, size_t bytes)
{
	count("cuMemcpyHtoD_v2");
	return from ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FUNCTION(cuMemcpyHtoD_v2_ptds, CUdeviceptr to, const void *from, size_t bytes)
{
	count("cuMemcpyHtoD_v2_ptds");
	return CUDA_SUCCESS;
}

FUNCTION(cuStreamSynchronize, CUstream stream)
{
	count("cuStreamSynchronize");
	return CUDA_SUCCESS;
}

FUNCTION(cuStreamSynchronize_ptsz, CUstream stream)
{
	count("cuStreamSynchronize_ptsz");
	return CUDA_SUCCESS;
}

/* Without a prototype in cuda.h: nine integer and eight floating arguments, all of which must
 * arrive. */
EXPORT CUresult cuGraphicsEGLRegisterImage(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
					   uint64_t e, uint64_t f, uint64_t g, uint64_t h,
					   uint64_t i, double s, double t, double u, double v,
					   double w, double x, double y, double z);
CUresult cuGraphicsEGLRegisterImage(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
				    uint64_t f, uint64_t g, uint64_t h, uint64_t i, double s,
				    double t, double u, double v, double w, double x, double y,
				    double z)
{
	count("cuGraphicsEGLRegisterImage");
	if (a != 1 || b != 2 || c != 3 || d != 4 || e != 5 || f != 6 || g != 7 || h != 8 || i != 9)
		return CUDA_ERROR_INVALID_VALUE;
	if (s != 1.5 || t != 2.5 || u != 3.5 || v != 4.5 || w != 5.5 || x != 6.5 || y != 7.5 ||
	    z != 8.5)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

#ifdef FAKE_MORE
FUNCTION(cuMemcpyDtoH_v2, void *to, CUdeviceptr from, size_t bytes)
{
	count("cuMemcpyDtoH_v2");
	return CUDA_SUCCESS;
}
#endif

#ifdef FAKE_LAUNCH
/* The next launch takes so long, once: spent in the driver, without a system call. */
uint64_t EXPORT fake_launch_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

FUNCTION(cuStreamCreate, CUstream *stream, unsigned int flags)
{
	static uintptr_t last = 0x5000;

	count("cuStreamCreate");
	*stream = (CUstream)(last += 0x100);
	return CUDA_SUCCESS;
}

FUNCTION(cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)
{
	/* Far enough apart that each has a place of its own in the shim's cache of a thread. */
	static uintptr_t last = 0x9000;

	count("cuModuleGetFunction");
	*function = (CUfunction)(last += 0x50);
	return CUDA_SUCCESS;
}

FUNCTION(cuLaunchKernel, CUfunction function, unsigned int grid_x, unsigned int grid_y,
	 unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	 unsigned int shared_bytes, CUstream stream, void **parameters, void **extra)
{
	uint64_t ns = fake_launch_ns, end;

	count("cuLaunchKernel");
	if (ns) {
		fake_launch_ns = 0;
		for (end = now_ns() + ns; now_ns() < end;)
			;
	}
	return grid_x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

/* In the list of exported names, without a prototype; here it is data. */
int EXPORT cudbgGetAPIVersion = 4712;

/* Newer than any header. */
FUNCTION(cuFutureThing, int value)
{
	count("cuFutureThing");
	return value == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Not exported: a driver may hand out what it does not export. */
static CUresult unexported(void)
{
	count("unexported");
	return CUDA_SUCCESS;
}

FUNCTION(cuGetExportTable, const void **table, const CUuuid *id)
{
	static const uint64_t answer[2] = {16, 42};

	count("cuGetExportTable");
	if (!table || !id || (unsigned char)id->bytes[0] == 0xff)
		return CUDA_ERROR_NOT_FOUND;
	*table = answer;
	return CUDA_SUCCESS;
}

CUresult LOOKUP cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);
CUresult LOOKUP cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus);

static const struct known {
	const char *name;
	int from;
	cuuint64_t thread; /* flag 2 wanted */
	void *address;
} known[] = {
	{"cuCtxSynchronize", 13000, 0, (void *)cuCtxSynchronize_v2},
	{"cuCtxSynchronize", 2000, 0, (void *)cuCtxSynchronize},
	{"cuInit", 2000, 0, (void *)cuInit},
	{"cuDriverGetVersion", 2020, 0, (void *)cuDriverGetVersion},
	{"cuCtxGetCurrent", 4000, 0, (void *)cuCtxGetCurrent},
	{"cuMemAlloc", 3020, 0, (void *)cuMemAlloc_v2},
	{"cuMemFree", 3020, 0, (void *)cuMemFree_v2},
	{"cuMemcpyHtoD", 7000, 2, (void *)cuMemcpyHtoD_v2_ptds},
	{"cuMemcpyHtoD", 3020, 0, (void *)cuMemcpyHtoD_v2},
	{"cuStreamSynchronize", 7000, 2, (void *)cuStreamSynchronize_ptsz},
	{"cuStreamSynchronize", 2000, 0, (void *)cuStreamSynchronize},
	{"cuGetExportTable", 3000, 0, (void *)cuGetExportTable},
	{"cuGraphicsEGLRegisterImage", 7000, 0, (void *)cuGraphicsEGLRegisterImage},
	{"cuPrivate", 2000, 0, (void *)unexported},
#ifndef FAKE_V1_ONLY
	{"cuGetProcAddress", 12000, 0, (void *)cuGetProcAddress_v2},
#endif
	{"cuGetProcAddress", 11030, 0, (void *)cuGetProcAddress},
};

static void *look_up(const char *symbol, int version, cuuint64_t flags)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, symbol) == 0 && version >= known[i].from &&
		    (!known[i].thread || flags == known[i].thread))
			return known[i].address;
	return NULL;
}

/* Not found: an error, and the pointer stays as it was. */
CUresult LOOKUP cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	void *address = symbol ? look_up(symbol, cudaVersion, flags) : NULL;

	count("cuGetProcAddress");
	if (!pfn || !symbol)
		return CUDA_ERROR_INVALID_VALUE;
	if (!address)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = address;
	return CUDA_SUCCESS;
}

#ifndef FAKE_V1_ONLY
/* Not found: success and a status. Under the name cuUntouched the pointer stays as it was, else it
 * is NULL. */
CUresult LOOKUP cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				    cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	void *address = symbol ? look_up(symbol, cudaVersion, flags) : NULL;

	count("cuGetProcAddress_v2");
	if (!pfn || !symbol || cudaVersion > 13000)
		return CUDA_ERROR_INVALID_VALUE;
	if (symbolStatus)
		*symbolStatus = address ? CU_GET_PROC_ADDRESS_SUCCESS
					: CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	if (address || strcmp(symbol, "cuUntouched") != 0)
		*pfn = address;
	return CUDA_SUCCESS;
}
#endif

void *fake_address(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].name, name) == 0)
			return known[i].address;
	return NULL;
}
