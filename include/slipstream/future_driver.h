/* SPDX-License-Identifier: MIT */
/*
 * future_driver.h: the driver functions that completion futures call, found at run time.
 *
 * Internal to future.h; include that. Owns: a table of addresses, filled once a process.
 *
 * Why not call cu* by name: a program of the CUDA runtime links no libcuda, and a header must not
 * make it. So the names are looked up: among what the process has already (a linked libcuda, or a
 * preload in front of it), else in libcuda.so.1, which the runtime has opened for itself. As in
 * slipstream.h, dlsym and dlopen are referenced weakly and under other names, so that nothing has
 * to be linked and a static program links as well (it then has no futures: it can have no driver).
 *
 * All names are the plain ones, in which stream 0 is the legacy stream. Whoever is compiled for
 * per-thread default streams gets its meaning of stream 0 from slipstream_future_stream_().
 */
#ifndef SLIPSTREAM_FUTURE_DRIVER_H
#define SLIPSTREAM_FUTURE_DRIVER_H

#if !defined(__ELF__) || !defined(__GNUC__)
#error "slipstream/future.h needs ELF and gcc or clang"
#endif

#include <cuda.h>

#include <stddef.h>
#include <string.h>

#define SLIPSTREAM_FUTURE_INLINE_ static __inline__ __attribute__((__unused__))

struct slipstream_future_driver {
	CUresult (*event_create)(CUevent *event, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*context_get)(CUcontext *context);
	CUresult (*context_set)(CUcontext context);
	CUresult (*stream_context)(CUstream stream, CUcontext *context);
	CUresult (*stream_capturing)(CUstream stream, CUstreamCaptureStatus *status);
	CUresult (*exchange_mode)(CUstreamCaptureMode *mode);
	/* NULL in drivers before 12.0: no events are reused then, and each future is asked. */
	CUresult (*context_id)(CUcontext context, unsigned long long *id);
	CUresult (*stream_id)(CUstream stream, unsigned long long *id);
};

#define SLIPSTREAM_FUTURE_RTLD_NOW_      0x2
#define SLIPSTREAM_FUTURE_RTLD_NOLOAD_   0x4
#define SLIPSTREAM_FUTURE_RTLD_NODELETE_ 0x1000

/* Dl_info, which <dlfcn.h> shows only under _GNU_SOURCE. */
struct slipstream_future_image {
	const char *file;
	void *base;
	const char *symbol;
	void *address;
};

static void *slipstream_future_dlsym_(void *handle, const char *name)
	__attribute__((__weakref__("dlsym"), __unused__));
static void *slipstream_future_dlopen_(const char *file, int flags)
	__attribute__((__weakref__("dlopen"), __unused__));
static int slipstream_future_dladdr_(const void *address, struct slipstream_future_image *image)
	__attribute__((__weakref__("dladdr"), __unused__));

SLIPSTREAM_FUTURE_INLINE_ int slipstream_future_find_(void *library, const char *name,
						      void *ret_function)
{
	void *address = slipstream_future_dlsym_(library, name);

	memcpy(ret_function, &address, sizeof(address));
	return address != NULL;
}

/*
 * CUDA_SUCCESS, or CUDA_ERROR_NOT_FOUND if there is no driver or one without a function that is
 * needed (cuThreadExchangeStreamCaptureMode is the youngest: 10.1).
 */
SLIPSTREAM_FUTURE_INLINE_ CUresult
slipstream_future_find_driver_(struct slipstream_future_driver *driver)
{
	void *library = NULL; /* RTLD_DEFAULT */
	void *probe;
	int found;

	if (!slipstream_future_dlsym_)
		return CUDA_ERROR_NOT_FOUND;
	if (!slipstream_future_find_(library, "cuEventQuery", &probe)) {
		if (slipstream_future_dlopen_)
			library = slipstream_future_dlopen_("libcuda.so.1",
							    SLIPSTREAM_FUTURE_RTLD_NOW_);
		if (!library)
			return CUDA_ERROR_NOT_FOUND;
	}
	found = slipstream_future_find_(library, "cuEventCreate", &driver->event_create) &
		slipstream_future_find_(library, "cuEventDestroy_v2", &driver->event_destroy) &
		slipstream_future_find_(library, "cuEventRecord", &driver->event_record) &
		slipstream_future_find_(library, "cuEventQuery", &driver->event_query) &
		slipstream_future_find_(library, "cuCtxGetCurrent", &driver->context_get) &
		slipstream_future_find_(library, "cuCtxSetCurrent", &driver->context_set) &
		slipstream_future_find_(library, "cuStreamGetCtx", &driver->stream_context) &
		slipstream_future_find_(library, "cuStreamIsCapturing", &driver->stream_capturing) &
		slipstream_future_find_(library, "cuThreadExchangeStreamCaptureMode",
					&driver->exchange_mode);
	slipstream_future_find_(library, "cuCtxGetId", &driver->context_id);
	slipstream_future_find_(library, "cuStreamGetId", &driver->stream_id);
	return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/*
 * Keeps the library that holds this code for good: a thread of ours may be in it. (Of a program
 * itself, dlopen finds nothing, and nothing is needed.)
 */
SLIPSTREAM_FUTURE_INLINE_ void slipstream_future_pin_(const void *code)
{
	struct slipstream_future_image image;

	if (slipstream_future_dladdr_ && slipstream_future_dlopen_ &&
	    slipstream_future_dladdr_(code, &image) && image.file)
		(void)slipstream_future_dlopen_(
			image.file, SLIPSTREAM_FUTURE_RTLD_NOW_ | SLIPSTREAM_FUTURE_RTLD_NOLOAD_ |
					    SLIPSTREAM_FUTURE_RTLD_NODELETE_);
}

/* Stream 0 as the including file means it. */
SLIPSTREAM_FUTURE_INLINE_ CUstream slipstream_future_stream_(CUstream stream)
{
	if (stream)
		return stream;
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
	return CU_STREAM_PER_THREAD;
#else
	return CU_STREAM_LEGACY;
#endif
}

/*
 * Thread's capture mode: relaxed between the two calls. Without it, a query is an error while
 * another thread captures in global mode, and it breaks that capture (cuda.h,
 * cuStreamBeginCapture; measured: about 9 ns a call).
 */
SLIPSTREAM_FUTURE_INLINE_ CUstreamCaptureMode
slipstream_future_relax_(const struct slipstream_future_driver *driver)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (driver->exchange_mode(&mode) != CUDA_SUCCESS)
		mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	return mode;
}

SLIPSTREAM_FUTURE_INLINE_ void
slipstream_future_unrelax_(const struct slipstream_future_driver *driver, CUstreamCaptureMode mode)
{
	(void)driver->exchange_mode(&mode);
}

#endif
