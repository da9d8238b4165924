// SPDX-License-Identifier: MIT
/*
 * Cases: streams and calls that nobody saw, and what a program is given that makes such calls.
 */
#include "cases.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

void *driver_function(const char *wanted)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	const ElfW(Sym) *symbol = NULL;
	const char *strings = NULL;
	const ElfW(Dyn) * dynamic;
	struct link_map *map;

	if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map))
		exit(1);
	for (dynamic = map->l_ld; dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			symbol = (const void *)dynamic->d_un.d_ptr;
		if (dynamic->d_tag == DT_STRTAB)
			strings = (const void *)dynamic->d_un.d_ptr;
	}
	/* The strings lie behind the symbols. */
	for (; (const char *)symbol < strings; symbol++)
		if (symbol->st_shndx != SHN_UNDEF && strcmp(strings + symbol->st_name, wanted) == 0)
			return (void *)(map->l_addr + symbol->st_value);
	fprintf(stderr, "no %s\n", wanted);
	exit(1);
}

/* It may be of either kind: nothing waits for it that would not, and what has to wait does. */
static void unseen_stream(unsigned int flags)
{
	CUresult (*create)(CUstream *, unsigned int) =
		(CUresult(*)(CUstream *, unsigned int))driver_function("cuStreamCreate");
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), u;

	OK(create(&u, flags));
	name_stream('u', u);
	mix(a);
	step(a, 1);
	close_gate(NULL, 1);
	step(NULL, 0);
	begin();
	step(u, flags ? LOOSE : 2);
	end();
	if (flags)
		OK(cuStreamSynchronize(u)); /* hangs where it waits for the legacy stream */
	else
		SAY(cuStreamQuery(u));
	open_gate(1);
	close_gate(u, 2);
	begin();
	OK(cuMemsetD8Async(word + 512, 1, 8, NULL));
	step(NULL, 0);
	step(u, flags ? LOOSE : 2);
	step(a, 1);
	end();
	if (flags)
		OK(cuStreamSynchronize(NULL));
	else
		SAY(cuStreamQuery(NULL));
	open_gate(2);
	say_words();
}

static void unseen_blocking_stream(void)
{
	unseen_stream(CU_STREAM_DEFAULT);
}

static void unseen_loose_stream(void)
{
	unseen_stream(CU_STREAM_NON_BLOCKING);
}

/* Work of the legacy stream stands still on the substitute; then something goes past us that must come behind it. */
static void doubt_in_the_middle(bool by_table)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUresult (*memset_async)(CUdeviceptr, unsigned char, size_t, CUstream) = (CUresult(*)(
		CUdeviceptr, unsigned char, size_t, CUstream))driver_function("cuMemsetD8Async");
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	const void *table;

	mix(a);
	step(a, 1);
	close_gate(NULL, 1);
	step(NULL, 0);
	begin();
	if (by_table)
		OK(cuGetExportTable(&table, &id));
	else
		(void)dlopen("libstreams-nothing.so", RTLD_NOW | RTLD_DEEPBIND);
	OK(memset_async(word, 0, 8, NULL));
	step(a, 1);
	step(NULL, 0);
	end();
	SAY(cuStreamQuery(a));
	open_gate(1);
	step(a, 1);
	step(NULL, 0);
	say_words();
}

static void doubt_by_table(void)
{
	doubt_in_the_middle(true);
}

static void doubt_by_library(void)
{
	doubt_in_the_middle(false);
}

/* The turn that both bring about puts all blocking streams behind each other, once: a host that lets one go when it has seen the end of another hangs. */
static void held_by_a_turn(bool by_table)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUresult (*create)(CUstream *, unsigned int) =
		(CUresult(*)(CUstream *, unsigned int))driver_function("cuStreamCreate");
	CUstream a = new_stream('a', CU_STREAM_DEFAULT), b = new_stream('b', CU_STREAM_DEFAULT), u;
	const void *table;

	OK(create(&u, CU_STREAM_NON_BLOCKING));
	mix(a);
	step(b, 2);
	step(NULL, 0);
	close_gate(a, 1);
	if (by_table)
		OK(cuGetExportTable(&table, &id));
	else
		step(u, LOOSE);
	step(b, 2);
	SAY(cuStreamSynchronize(b));
	open_gate(1);
	say_words();
}

static void held_by_a_table(void)
{
	held_by_a_turn(true);
}

static void held_by_unseen(void)
{
	held_by_a_turn(false);
}

const struct named_case unseen_cases[] = {
	{"unseen-blocking-stream-stays-in-order", unseen_blocking_stream},
	{"unseen-loose-stream-waits-for-nothing", unseen_loose_stream},
	{"unknown-table-goes-native-in-order", doubt_by_table},
	{"deep-bound-library-goes-native-in-order", doubt_by_library},
	{"unknown-table-holds-nobody", held_by_a_table},
	{"unseen-stream-holds-nobody", held_by_unseen},
	{NULL, NULL},
};
