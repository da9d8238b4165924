// SPDX-License-Identifier: MIT
/* A library that asks for a private table of the driver by a function that it is given. */
#include <cuda.h>

typedef CUresult table_function(const void **table, const CUuuid *id);

__attribute__((visibility("default"))) CUresult ask_table(table_function *get, const CUuuid *id);
CUresult ask_table(table_function *get, const CUuuid *id)
{
	const void *volatile table;
	CUresult result = get((const void **)&table, id);

	/* Not a tail call: the return address is ours. */
	return table ? result : CUDA_ERROR_UNKNOWN;
}
