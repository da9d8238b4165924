// SPDX-License-Identifier: MIT
/*
 * A library that is not the driver, with names that begin like the driver's or are the same.
 */
#define FUNCTION(name)                                                                             \
	__attribute__((visibility("default"))) int name(void);                                     \
	int name(void)                                                                             \
	{                                                                                          \
		return 4711;                                                                       \
	}

FUNCTION(cudnnCreate)
FUNCTION(cublasCreate_v2)
FUNCTION(cudaMalloc)
FUNCTION(cuInit)
FUNCTION(cuFFT)
