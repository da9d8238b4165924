// SPDX-License-Identifier: MIT
/*
 * The ways past a preloaded library, each with its own number of calls:
 *
 *	routes DRIVER MODULE OFFSET
 *
 * DRIVER: the driver library's path; MODULE: libescape.so; OFFSET: of cuCtxSynchronize in DRIVER, which is what a saved or searched address comes
 * to. 10 calls go through the library, 11 by the address, 12 and one by RTLD_DEEPBIND, 13 in another namespace, 15 in a child without it; and
 * a private table of the driver is asked for.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int result)
{
	if (result)
		exit(9);
}

static void begin(void)
{
	CUcontext context;

	check(cuInit(0));
	check(cuDevicePrimaryCtxRetain(&context, 0));
	check(cuCtxSetCurrent(context));
}

static __attribute__((noinline)) void through_the_library(int count)
{
	for (int i = 0; i < count; i++)
		check(cuCtxSynchronize());
}

static __attribute__((noinline)) void saved_address(const char *driver, const char *offset)
{
	struct link_map *map;
	int (*synchronize)(void);

	check(dlinfo(dlopen(driver, RTLD_NOW | RTLD_NOLOAD), RTLD_DI_LINKMAP, &map));
	synchronize = (int (*)(void))(map->l_addr + strtoul(offset, NULL, 16));
	for (int i = 0; i < 11; i++)
		check(synchronize());
}

static __attribute__((noinline)) void deep_bind(const char *module, CUdeviceptr memory)
{
	void *library = dlopen(module, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	void (*escape)(CUdeviceptr, int) =
		(void (*)(CUdeviceptr, int))dlsym(library, "escape_rounds");

	escape(memory, 12);
}

static __attribute__((noinline)) void other_namespace(const char *driver)
{
	void *library = dlmopen(LM_ID_NEWLM, driver, RTLD_NOW);
	int (*synchronize)(CUstream) = (int (*)(CUstream))dlsym(library, "cuStreamSynchronize");

	for (int i = 0; i < 13; i++)
		(void)synchronize(NULL); /* of a driver that nobody has initialized */
}

static void private_table(void)
{
	static const CUuuid id = {{0x73, 0x69, 0x6d, 0x63, 0x75, 0x64, 0x61, 0x00, 0x74, 0x65, 0x73,
				   0x74, 0x00, 0x00, 0x00, 0x01}};
	const void *table;

	check(cuGetExportTable(&table, &id));
}

static __attribute__((noinline)) void child_without(char **argv)
{
	pid_t child = fork();

	if (!child) {
		unsetenv("LD_PRELOAD");
		execl("/proc/self/exe", argv[0], "child", (char *)NULL);
		_exit(9);
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	CUdeviceptr memory;

	begin();
	if (argc == 2) {
		through_the_library(15); /* which is not there */
		return 0;
	}
	check(cuMemAlloc(&memory, 4096));
	through_the_library(10);
	saved_address(argv[1], argv[3]);
	deep_bind(argv[2], memory);
	other_namespace(argv[1]);
	private_table();
	child_without(argv);
	return 0;
}
