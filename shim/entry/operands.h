// SPDX-License-Identifier: MIT
/*
 * Operands of driver calls that lie in structures: macros that the catalogue's rows name (source:, destination:, bytes:). Each may be given a NULL
 * pointer, since the driver, not we, refuses it. Used by the generated wrappers only.
 */
#ifndef SLIPSTREAM_ENTRY_OPERANDS_H
#define SLIPSTREAM_ENTRY_OPERANDS_H

#include <stdint.h>

#include <cuda.h>

/* Arrays have no address: 0, and state sees MEMORY_ARRAY by... the macro below. */
#define OPERAND_ADDRESS(type, host, device) \
	((type) == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)(host) : \
	 (type) == CU_MEMORYTYPE_DEVICE || (type) == CU_MEMORYTYPE_UNIFIED ? \
					(uint64_t)(uintptr_t)(device) : \
					0)

#endif
