// SPDX-License-Identifier: MIT
/*
 * Look-ups and texts: cuGetProcAddress by the measured rules, error names, the driver version,
 * export tables.
 *
 * Owns: the one test export table. Called by: exports.c. Relies on the tables of exports.c for
 * versions.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static CUresult find(const char *name, int version, cuuint64_t flags, void **ret_address,
		     CUdriverProcAddressQueryResult *ret_status)
{
	bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, known = false,
	     has_form = false;
	const struct sim_lookup *best = NULL;

	for (unsigned i = 0; i < sim_lookup_count; i++) {
		const struct sim_lookup *lookup = &sim_lookups[i];

		if (strcmp(lookup->name, name))
			continue;
		known = true;
		has_form |= lookup->per_thread;
	}
	for (unsigned i = 0; i < sim_lookup_count; i++) {
		const struct sim_lookup *lookup = &sim_lookups[i];

		if (strcmp(lookup->name, name) || lookup->per_thread != (per_thread && has_form) ||
		    lookup->version > version)
			continue;
		if (!best || lookup->version > best->version)
			best = lookup;
	}
	*ret_address = best ? sim_exports[best->export].address : NULL;
	*ret_status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
		      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
			      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

static bool bad(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	return !symbol || !pfn || version > SIM_DRIVER_VERSION || flags > 2;
}

CUresult impl_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
				  CUdriverProcAddressQueryResult *symbolStatus)
{
	CUdriverProcAddressQueryResult status;
	CUresult result;

	if (bad(symbol, pfn, cudaVersion, flags))
		return CUDA_ERROR_INVALID_VALUE;
	result = find(symbol, cudaVersion, flags, pfn, &status);
	if (symbolStatus)
		*symbolStatus = status;
	return result;
}

CUresult impl_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUdriverProcAddressQueryResult status;
	void *address;

	if (bad(symbol, pfn, cudaVersion, flags))
		return CUDA_ERROR_INVALID_VALUE;
	find(symbol, cudaVersion, flags, &address, &status);
	if (status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND)
		return CUDA_ERROR_NOT_FOUND;
	*pfn = address;
	return CUDA_SUCCESS;
}

CUresult impl_cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = SIM_DRIVER_VERSION;
	return CUDA_SUCCESS;
}

/* ---- errors ---- */

#define ERRORS(X)                                                                                  \
	X(CUDA_SUCCESS, "no error")                                                                \
	X(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                            \
	X(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                               \
	X(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                      \
	X(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                        \
	X(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                              \
	X(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                     \
	X(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                              \
	X(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                    \
	X(CUDA_ERROR_INVALID_PTX, "a PTX compilation failed")                                      \
	X(CUDA_ERROR_FILE_NOT_FOUND, "file not found")                                             \
	X(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                    \
	X(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                          \
	X(CUDA_ERROR_NOT_READY, "device not ready")                                                \
	X(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                  \
	X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled")                \
	X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled")                  \
	X(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")                                 \
	X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,                                               \
	  "part or all of the requested memory range is already mapped")                           \
	X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,                                                   \
	  "pointer does not correspond to a registered memory region")                             \
	X(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture")             \
	X(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS")     \
	X(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                     \
	X(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                     \
	X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,                                                   \
	  "operation not permitted when stream is capturing")                                      \
	X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,                                                   \
	  "operation failed due to a previous error during capture")                               \
	X(CUDA_ERROR_STREAM_CAPTURE_MERGE,                                                         \
	  "operation would result in a merge of separate capture sequences")                       \
	X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,                                                     \
	  "capture was not ended in the same stream as it began")                                  \
	X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work")                \
	X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,                                                     \
	  "dependency created on uncaptured work in another stream")                               \
	X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,                                                      \
	  "operation would make the legacy stream depend on a capturing stream")                   \
	X(CUDA_ERROR_CAPTURED_EVENT,                                                               \
	  "operation not permitted on an event last recorded in a capturing stream")               \
	X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,                                                  \
	  "attempt to terminate a capture from the wrong thread")                                  \
	X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was not performed")              \
	X(CUDA_ERROR_UNKNOWN, "unknown error")

static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
#define X(code, text) {code, #code, text},
	ERRORS(X)
#undef X
};

CUresult impl_cuGetErrorName(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = NULL;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*pStr = errors[i].name;
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGetErrorString(CUresult error, const char **pStr)
{
	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = NULL;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*pStr = errors[i].text;
	return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the test export table (README.md) ---- */

static uint64_t table_now(void)
{
	uint64_t now;

	pthread_mutex_lock(&sim.lock);
	now = sim_now();
	pthread_mutex_unlock(&sim.lock);
	return now;
}

static unsigned table_pending(int device)
{
	unsigned pending;

	pthread_mutex_lock(&sim.lock);
	pending = device >= 0 && device < sim.device_count ? sim.pending[device] : 0;
	pthread_mutex_unlock(&sim.lock);
	return pending;
}

static const struct {
	size_t size;           /* in bytes, as in the driver's own tables */
	uint64_t (*now)(void); /* engine clock in ns: virtual under SIMCUDA_TIME=virtual */
	unsigned (*pending)(int device); /* operations not done */
} test_table = {sizeof(test_table), table_now, table_pending};

static const unsigned char test_uuid[16] = {0x73, 0x69, 0x6d, 0x63, 0x75, 0x64, 0x61, 0x00,
					    0x74, 0x65, 0x73, 0x74, 0x00, 0x00, 0x00, 0x01};

CUresult impl_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	if (!ppExportTable || !pExportTableId)
		return CUDA_ERROR_INVALID_VALUE;
	*ppExportTable = NULL;
	if (memcmp(pExportTableId->bytes, test_uuid, sizeof(test_uuid)))
		return CUDA_ERROR_NOT_FOUND;
	*ppExportTable = &test_table;
	return CUDA_SUCCESS;
}

CUresult impl_cuProfilerStart(void)
{
	struct sim_context *context;

	return sim_context_current(&context);
}

CUresult impl_cuProfilerStop(void)
{
	struct sim_context *context;

	return sim_context_current(&context);
}
