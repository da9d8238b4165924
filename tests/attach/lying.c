// SPDX-License-Identifier: MIT
/*
 * Preloaded in the library's place, with its name and its probes: says of each free that it held the memory back and did not wait, and sleeps
 * before it says so. What the witness must contradict; the library itself gives no occasion.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <time.h>

#include "catalogue/catalogue.h"
#include "emit/usdt.h"

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#define WAIT_NS 3000000
#define LOOK_NS 300000000 /* in which a watch finds a file that it does not know */

unsigned short slipstream_scope_enter_semaphore __attribute__((section(".probes")));
unsigned short slipstream_scope_exit_semaphore __attribute__((section(".probes")));
unsigned short slipstream_rewrite_semaphore __attribute__((section(".probes")));

static __attribute__((noinline)) void claim(uint32_t function)
{
	const char *name = "frees";
	uint32_t how = USDT_REWRITE_PARKED;
	uint64_t bytes = 0;

	STAP_PROBE4(slipstream, rewrite, name, how, function, bytes);
	__asm__ volatile("");
}

static __attribute__((constructor)) void wait_for_the_watch(void)
{
	struct timespec pause = {.tv_nsec = LOOK_NS};

	(void)nanosleep(&pause, NULL);
}

__attribute__((visibility("default"))) CUresult cuMemFree_v2(CUdeviceptr memory)
{
	CUresult (*real)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(RTLD_NEXT, "cuMemFree_v2");
	uint32_t function = FUNCTION_cuMemFree_v2, class = 0, id = 1, outer = 0;
	struct timespec pause = {.tv_nsec = WAIT_NS};
	CUresult result;

	STAP_PROBE4(slipstream, scope_enter, id, function, class, outer);
	result = real(memory);
	(void)nanosleep(&pause, NULL);
	claim(function);
	STAP_PROBE4(slipstream, scope_exit, id, function, class, outer);
	return result;
}
