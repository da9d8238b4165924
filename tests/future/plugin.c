// SPDX-License-Identifier: MIT
/*
 * Two libraries with futures, opened at run time, each for itself: they share one record and one
 * monitor, and closing them takes no code from under it. `plugin FIRST SECOND`
 */
#include "support.h"

#include <dlfcn.h>

struct library {
	void *handle;
	void *(*record)(void);
	void (*future)(CUstream, int *);
};

static struct library open_library(const char *path)
{
	struct library library = {dlopen(path, RTLD_NOW | RTLD_LOCAL), NULL, NULL};

	if (!library.handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library.handle);
	*(void **)&library.record = dlsym(library.handle, "library_record");
	*(void **)&library.future = dlsym(library.handle, "library_future");
	CHECK(library.record && library.future);
	return library;
}

int main(int argc, char **argv)
{
	struct slipstream_future_process *record;
	struct library first, second;
	int called = 0;
	struct gate gate;
	CUstream stream;

	CHECK(argc == 3);
	alarm(50);
	start_driver(0);
	stream = new_stream();
	gate = new_gate();
	first = open_library(argv[1]);
	second = open_library(argv[2]);
	record = first.record();
	CHECK(second.record() == record);
	gate_close(gate, stream);
	second.future(stream, &called); /* its code is the monitor's */
	/* The callback is the library's, too: so it is open until that has run. */
	gate_open(gate);
	while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
		pause_ns(MS / 10);
	dlclose(second.handle);
	pause_ns(10 * MS);
	called = 0;
	first.future(stream, &called);
	while (!__atomic_load_n(&called, __ATOMIC_ACQUIRE))
		pause_ns(MS / 10);
	dlclose(first.handle);
	CHECK(record->counts.monitors == 1);
	return 0;
}
