// SPDX-License-Identifier: MIT
/*
 * cuGetProcAddress v1 and v2 by the measured rules; every exported name has its own address; the
 * test export table. Argument: shim/catalogue/exports.txt.
 */
#include "check.h"
#include <dlfcn.h>

static void *library;

static void *export_of(const char *name)
{
	return dlsym(library, name);
}

static const struct {
	const char *name;
	int version;
	unsigned flags;
	const char *export; /* NULL: not given */
	int status;
} rules[] = {
	{"cuMemAlloc", 2000, 0, "cuMemAlloc", 0},
	{"cuMemAlloc", 3020, 0, "cuMemAlloc_v2", 0},
	{"cuMemAlloc", 13000, 0, "cuMemAlloc_v2", 0},
	{"cuMemAlloc", 13000, 2, "cuMemAlloc_v2", 0}, /* no per-thread form exists */
	{"cuMemAllocHost", 1000, 0, NULL, 2},
	{"cuLaunchKernel", 4000, 0, "cuLaunchKernel", 0},
	{"cuLaunchKernel", 7000, 1, "cuLaunchKernel", 0},
	{"cuLaunchKernel", 7000, 2, "cuLaunchKernel_ptsz", 0},
	{"cuMemcpyHtoD", 13000, 2, "cuMemcpyHtoD_v2_ptds", 0},
	{"cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture", 0},
	{"cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2", 0},
	{"cuStreamGetCaptureInfo", 10010, 0, "cuStreamGetCaptureInfo", 0},
	{"cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2", 0},
	{"cuStreamGetCaptureInfo", 12030, 2, "cuStreamGetCaptureInfo_v3_ptsz", 0},
	{"cuCtxSynchronize", 2000, 0, "cuCtxSynchronize", 0},
	{"cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2", 0},
	{"cuCtxCreate", 3020, 0, "cuCtxCreate_v2", 0},
	{"cuCtxCreate", 11040, 0, "cuCtxCreate_v3", 0},
	{"cuCtxCreate", 12050, 0, "cuCtxCreate_v4", 0},
	{"cuGetProcAddress", 11030, 0, "cuGetProcAddress", 0},
	{"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2", 0},
	{"cuGraphAddNode", 12020, 0, "cuGraphAddNode", 0},
	{"cuGraphAddNode", 12030, 0, "cuGraphAddNode_v2", 0},
	{"cuNoSuchThing", 13000, 0, NULL, 1},
	{"cuMemAlloc_v2", 13000, 0, NULL, 1}, /* base names only */
	{"cuCtxGetId", 11000, 0, NULL, 2},
};

static void test_rules(void)
{
	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		void *mark = &failures, *pointer = mark, *old = mark;
		CUdriverProcAddressQueryResult status = 77;

		OK(cuGetProcAddress_v2(rules[i].name, &pointer, rules[i].version, rules[i].flags,
				       &status));
		if ((int)status != rules[i].status ||
		    pointer != (rules[i].export ? export_of(rules[i].export) : NULL)) {
			fprintf(stderr, "%s %d flags %u: status %d\n", rules[i].name,
				rules[i].version, rules[i].flags, (int)status);
			failures++;
		}
		OK(cuGetProcAddress_v2(rules[i].name, &pointer, rules[i].version, rules[i].flags,
				       NULL));
		CUresult (*first)(const char *, void **, int, cuuint64_t);
		*(void **)&first = export_of("cuGetProcAddress");
		CUresult result = first(rules[i].name, &old, rules[i].version, rules[i].flags);
		if (rules[i].status == 1) {
			EXPECT(result == CUDA_ERROR_NOT_FOUND && old == mark);
		} else {
			EXPECT(result == CUDA_SUCCESS && old == pointer);
		}
	}
	void *untouched = &failures;
	CUdriverProcAddressQueryResult status = 77;
	STATUS(CUDA_ERROR_INVALID_VALUE,
	       cuGetProcAddress_v2("cuInit", &untouched, 99000, 0, &status));
	EXPECT(untouched == &failures && status == 77);
	STATUS(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress_v2("cuInit", NULL, 13000, 0, &status));
}

static int by_address(const void *one, const void *two)
{
	uintptr_t a = *(const uintptr_t *)one, b = *(const uintptr_t *)two;

	return a < b ? -1 : a > b;
}

static void test_exports(const char *list)
{
	FILE *file = fopen(list, "r");
	uintptr_t addresses[2000];
	unsigned count = 0;
	char name[128];

	EXPECT(file != NULL);
	while (file && fscanf(file, "%127s", name) == 1) {
		addresses[count] = (uintptr_t)export_of(name);
		if (!addresses[count++]) {
			fprintf(stderr, "not exported: %s\n", name);
			failures++;
		}
	}
	if (file)
		fclose(file);
	EXPECT(count == 682);
	qsort(addresses, count, sizeof(addresses[0]), by_address);
	for (unsigned i = 1; i < count; i++)
		EXPECT(addresses[i] != addresses[i - 1]);
}

static void test_table(void)
{
	static const unsigned char known[16] = "simcuda\0test\0\0\0\1";
	const struct {
		size_t size;
		uint64_t (*now)(void);
		unsigned (*pending)(int device);
	} *table = NULL;
	const void *pointer = NULL;
	CUuuid id;

	memset(id.bytes, 0x33, 16);
	STATUS(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&pointer, &id));
	memcpy(id.bytes, known, 16);
	OK(cuGetExportTable(&pointer, &id));
	table = pointer;
	EXPECT(table && table->size == sizeof(*table) && table->now() > 0 &&
	       table->pending(0) == 0);
}

int main(int argc, char **argv)
{
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	EXPECT(library != NULL);
	test_rules(); /* before cuInit, as programs do */
	test_exports(argc > 1 ? argv[1] : "exports.txt");
	OK(cuInit(0));
	test_table();
	CUresult (*stub)(void);
	*(void **)&stub = export_of("cuGLInit");
	STATUS(CUDA_ERROR_NOT_SUPPORTED, stub());
	return failures ? 1 : 0;
}
