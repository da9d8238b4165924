// SPDX-License-Identifier: MIT
/* What the fake driver waits.c and the programs that use it share. */
#ifndef SLIPSTREAM_TEST_WAITS_H
#define SLIPSTREAM_TEST_WAITS_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

enum { WAIT_NS = 2000000 };

/* Stream handles that make cuStreamSynchronize wait. */
enum {
	WAIT_SPIN = 0x1000,
	WAIT_YIELD = 0x2000,
	WAIT_POLL = 0x3000,
	WAIT_FUTEX = 0x4000,
	WAIT_IOCTL = 0x5000,
	WAIT_SLEEP = 0x6000,
	WAIT_FOREVER = 0x7000,
	WAIT_NOT = 0x8000,
};

extern jmp_buf *watch_test_jump; /* set: cuCtxSynchronize leaves by it */

int cuStreamSynchronize(void *stream);
int cuStreamSynchronize_ptsz(void *stream);
int cuMemcpyHtoD_v2(uint64_t destination, const void *source, size_t bytes);
int cuMemcpyDtoHAsync_v2(void *destination, uint64_t source, size_t bytes, void *stream);
int cuMemcpyHtoD(unsigned int destination, const void *source, unsigned int bytes);
int cuMemcpy2D_v2(const void *copy);
int cuMemcpy3D_v2_ptds(const void *copy);
int cuMemcpyBatchAsync_ptsz(void *a, void *b, void *c, size_t d, void *e, void *f, size_t g,
			    void *h, void *stream);
int cuMemsetD2D32_v2(uint64_t destination, size_t pitch, unsigned int value, size_t width,
		     size_t height);
int cuCtxSynchronize(void);
int cuMemFree_v2(uint64_t depth);
int cuGetExportTable(const void **table, const void *id);

#endif
