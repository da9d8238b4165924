// SPDX-License-Identifier: MIT
/*
 * A small hand-written catalogue for the unit tests of state, sync and emit, in the place of the
 * generated one: the tests say what the rooms do with a table, not what the table says.
 */
#ifndef SLIPSTREAM_FAKE_CATALOGUE_GENERATED_H
#define SLIPSTREAM_FAKE_CATALOGUE_GENERATED_H

enum function_number {
	FUNCTION_cuCtxCreate_v4,
	FUNCTION_cuCtxSynchronize,
	FUNCTION_cuEventQuery,
	FUNCTION_cuEventRecord,
	FUNCTION_cuEventSynchronize,
	FUNCTION_cuInit,
	FUNCTION_cuLaunchKernel,
	FUNCTION_cuMemAlloc_v2,
	FUNCTION_cuMemFree_v2,
	FUNCTION_cuMemHostRegister_v2,
	FUNCTION_cuMemcpyDtoH_v2,
	FUNCTION_cuMemcpyHtoDAsync_v2,
	FUNCTION_cuMemcpyHtoD_v2,
	FUNCTION_cuMemsetD8_v2,
	FUNCTION_cuModuleLoadData,
	FUNCTION_cuModuleUnload,
	FUNCTION_cuStreamCreate,
	FUNCTION_cuStreamDestroy_v2,
	FUNCTION_cuStreamQuery,
	FUNCTION_cuStreamSynchronize,
	FUNCTION_cuStreamWaitEvent,
	FUNCTION_WRAPPED_COUNT,
	FUNCTION_cuThunkOnly = FUNCTION_WRAPPED_COUNT,
	FUNCTION_COUNT
};

enum rule_number {
	RULE_CONTEXT_SYNCHRONIZE,
	RULE_STREAM_SYNCHRONIZE,
	RULE_EVENT_SYNCHRONIZE,
	RULE_PAGEABLE_H2D,
	RULE_TEARDOWN,
	RULE_D2H,
	RULE_FREE_DRAINS_DEVICE,
	RULE_PINNING,
	RULE_FIRST_USE,
	RULE_QUEUE_FULL,
	RULE_LEGACY_JOIN,
	RULE_OBSERVED_UNKNOWN,
	RULE_COUNT
};

#endif
