// SPDX-License-Identifier: MIT
/*
 * The rewrite of the legacy default stream, for tests of the other rewrites without it: it is off.
 */
#include "legacy/legacy.h"

uint32_t legacy_on;

void legacy_start(bool (*denied)(const struct call *call), struct record_rewrite *counts)
{
}

void legacy_drop(bool (*lives)(uint64_t id))
{
}

CUstream legacy_handle(uint64_t context, uint64_t *ret_turn)
{
	*ret_turn = 0;
	return CU_STREAM_LEGACY;
}

void legacy_retreat(void)
{
}

bool legacy_observe(struct call *call, CUresult *ret_result)
{
	return false;
}
