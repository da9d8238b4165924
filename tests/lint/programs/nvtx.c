// SPDX-License-Identifier: MIT
/*
 * NVTX ranges of all kinds, with an implicit wait in each, and marks. Of test_regions.py. Built where the headers of NVTX 3 are, and as V1 with
 * the functions of libnvToolsExt.so.1, which are looked up.
 */
#include <wchar.h>

#ifdef V1
#include <dlfcn.h>
#else
#include <nvtx3/nvToolsExt.h>
#endif

#include "common.h"

static CUdeviceptr device;
static void *host;

static void implicit_wait(void)
{
	spin(NULL, BUSY / 5);
	OK(cuMemcpyDtoH(host, device, 4096));
}

static void expect(int line, int got, int wanted)
{
	if (got == wanted)
		return;
	(void)fprintf(stderr, "%s:%d: %d, not %d\n", __FILE__, line, got, wanted);
	exit(1);
}

#define EXPECT(got, wanted) expect(__LINE__, got, wanted)

#ifdef V1

static void run(void)
{
	void *library = dlopen("libnvToolsExt.so.1", RTLD_NOW);
	int (*push)(const char *), (*pop)(void);
	void (*mark)(const char *);

	if (!library) {
		(void)fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&push = dlsym(library, "nvtxRangePushA");
	*(void **)&pop = dlsym(library, "nvtxRangePop");
	*(void **)&mark = dlsym(library, "nvtxMarkA");
	EXPECT(push("narrow"), 0);
	implicit_wait();
	EXPECT(pop(), 0);
	mark("begin");
	implicit_wait();
}

#else

static nvtxEventAttributes_t attributes_of(int32_t type, const void *message)
{
	nvtxEventAttributes_t attributes = {0};

	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = type;
	attributes.message.ascii = message;
	return attributes;
}

static void run(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("mine");
	nvtxDomainHandle_t wide_domain = nvtxDomainCreateW(L"wide");
	nvtxEventAttributes_t narrow = attributes_of(NVTX_MESSAGE_TYPE_ASCII, "ex"),
			      wide = attributes_of(NVTX_MESSAGE_TYPE_UNICODE,
						   L"gr\u00f6\u00dfe \U0001f600"),
			      none = attributes_of(NVTX_MESSAGE_UNKNOWN, NULL), registered;
	nvtxRangeId_t range;

	EXPECT(domain != NULL && domain != wide_domain, 1);
	EXPECT(domain == nvtxDomainCreateA("mine"), 1);
	registered = attributes_of(NVTX_MESSAGE_TYPE_REGISTERED,
				   nvtxDomainRegisterStringA(domain, "registered"));
	EXPECT(nvtxRangePushA("narrow"), 0);
	implicit_wait();
	EXPECT(nvtxRangePushW(L"wide"), 1);
	implicit_wait();
	EXPECT(nvtxRangePushEx(&narrow), 2);
	implicit_wait();
	/* A range of another domain may end in any order with these. */
	EXPECT(nvtxDomainRangePushEx(domain, &registered), 0);
	EXPECT(nvtxRangePop(), 2);
	implicit_wait();
	EXPECT(nvtxRangePop(), 1);
	EXPECT(nvtxRangePop(), 0);
	EXPECT(nvtxRangePop(), -2);
	EXPECT(nvtxDomainRangePop(domain), 0);
	EXPECT(nvtxDomainRangePushEx(wide_domain, &wide), 0);
	implicit_wait();
	EXPECT(nvtxDomainRangePop(wide_domain), 0);
	/* Neither of these is a region. */
	EXPECT(nvtxRangePushEx(&none), 0);
	range = nvtxRangeStartA("start");
	implicit_wait();
	nvtxRangeEnd(range);
	EXPECT(nvtxRangePop(), 0);
	nvtxMarkA("other");
	for (int i = 0; i < 3; i++) {
		nvtxMarkA("begin");
		implicit_wait();
	}
	nvtxMarkW(L"begin");
	nvtxDomainMarkEx(domain, &narrow);
	narrow.message.ascii = "begin";
	nvtxDomainMarkEx(domain, &narrow);
	nvtxMarkEx(&narrow);
	implicit_wait();
	implicit_wait();
}

#endif

int main(void)
{
	begin();
	device = on_device(4096);
	host = pinned(4096);
	run();
	return 0;
}
