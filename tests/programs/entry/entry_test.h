// SPDX-License-Identifier: MIT
/*
 * Small things shared by the entry tests' programs: a check that tells where it failed, and a look
 * into the fake driver.
 */
#ifndef ENTRY_TEST_H
#define ENTRY_TEST_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define CHECK_EQUAL(wanted, got)                                                                   \
	do {                                                                                       \
		long long wanted_ = (long long)(wanted), got_ = (long long)(got);                  \
		if (wanted_ != got_) {                                                             \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, \
				got_, wanted_);                                                    \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* True if an address lies in the object whose file name has this in it. */
static inline int lies_in(const void *address, const char *object)
{
	Dl_info info;

	return address && dladdr(address, &info) && info.dli_fname &&
	       strstr(info.dli_fname, object) != NULL;
}

static inline void *driver_handle(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);

	if (!handle) {
		fprintf(stderr, "dlopen: %s\n", dlerror());
		_Exit(1);
	}
	return handle;
}

/* The fake's own count; its functions are not hooked. */
static inline int fake_calls(const char *name)
{
	int (*calls)(const char *) = (int (*)(const char *))dlsym(driver_handle(), "fake_calls");

	CHECK(calls);
	return calls(name);
}

typedef CUresult init_function(unsigned int);
typedef CUresult void_function(void);
typedef CUresult context_function(CUcontext *);
typedef CUresult version_function(int *);
typedef CUresult alloc_function(CUdeviceptr *, size_t);
typedef CUresult copy_function(CUdeviceptr, const void *, size_t);
typedef CUresult stream_function(CUstream);
typedef CUresult look_up_v1(const char *, void **, int, cuuint64_t);
typedef CUresult look_up_v2(const char *, void **, int, cuuint64_t,
			    CUdriverProcAddressQueryResult *);
typedef CUresult table_function(const void **, const CUuuid *);

#define LOOK_UP(type, name) ((type *)dlsym(driver_handle(), name))

#endif
