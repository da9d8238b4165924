// SPDX-License-Identifier: MIT
/*
 * An interpreter that no symbol look-up by name would find: libpython opened RTLD_LOCAL by a
 * program that is no Python. Also before it is set up and after it is taken down, from the thread
 * that ran it and from one that is still inside a call that let go of the GIL.
 *
 *	embed LIBPYTHON PROBE [unload]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int (*probe_frames)(char *, unsigned int, unsigned int);
static double (*probe_cost)(unsigned int, unsigned int);
static char text[65536];

static void *symbol(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return address;
}

static void expect(const char *when, int wanted)
{
	int got = probe_frames(text, sizeof(text), 32);

	if (got != wanted) {
		fprintf(stderr, "%s: %d frames, expected %d\n%s", when, got, wanted, text);
		exit(1);
	}
}

/* The interpreter's interface, by name: its headers are not needed, one program serves all
 * versions. */
static struct {
	void (*initialize)(void), (*finalize)(void);
	int (*run)(const char *);
	void *(*save_thread)(void);
	void (*restore_thread)(void *);
	void *(*add_module)(const char *);
	void *(*new_function)(void *definition, void *self, void *module);
	int (*set_attribute)(void *object, const char *name, void *value);
	void *(*text)(const char *);
} api;

/* Lets go of the GIL, asks, gives the answer. */
static void *ask(void *self, void *arguments)
{
	static __thread char answer[8192];
	void *thread = api.save_thread();

	probe_frames(answer, sizeof(answer), 32);
	api.restore_thread(thread);
	return api.text(answer);
}

/* Stays a while in the shim, without the GIL. */
static void *spin(void *self, void *arguments)
{
	void *thread = api.save_thread();

	probe_cost(20, 100);
	api.restore_thread(thread);
	return api.text("");
}

/* The interpreter's definition of a function: the same in all versions. */
struct definition {
	const char *name;
	void *(*function)(void *, void *);
	int flags; /* 4: takes no arguments */
	const char *text;
};

static void *library;

static void load(const char *path)
{
	void *python = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	library = python;
	if (!python) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&api.initialize = symbol(python, "Py_Initialize");
	*(void **)&api.finalize = symbol(python, "Py_Finalize");
	*(void **)&api.run = symbol(python, "PyRun_SimpleString");
	*(void **)&api.save_thread = symbol(python, "PyEval_SaveThread");
	*(void **)&api.restore_thread = symbol(python, "PyEval_RestoreThread");
	*(void **)&api.add_module = symbol(python, "PyImport_AddModule");
	*(void **)&api.new_function = symbol(python, "PyCFunction_NewEx");
	*(void **)&api.set_attribute = symbol(python, "PyObject_SetAttrString");
	*(void **)&api.text = symbol(python, "PyUnicode_FromString");
}

static void start(void)
{
	static struct definition definitions[] = {{"ask", ask, 4, NULL}, {"spin", spin, 4, NULL}};
	int i;

	api.initialize();
	for (i = 0; i < 2; i++)
		api.set_attribute(api.add_module("__main__"), definitions[i].name,
				  api.new_function(&definitions[i], NULL, NULL));
}

static const char check[] =
	"def inner():\n"
	"    return [\n"
	"        ask()]\n"
	"def outer():\n"
	"    return inner()\n"
	"got = outer()[0]\n"
	"assert got == '<string>|inner|3\\n<string>|outer|5\\n<string>|<module>|6\\n', "
	"got\n";

/* Daemon threads that are in the shim over and over while the interpreter goes. */
static const char daemons[] =
	"import threading, time\n"
	"def loop():\n"
	"    while True:\n"
	"        spin()\n"
	"def deep(n):\n"
	"    return deep(n - 1) if n else loop()\n"
	"for i in range(3):\n"
	"    threading.Thread(target=deep, args=(i * 5,), daemon=True).start()\n"
	"time.sleep(0.05)\n";

int main(int argc, char **argv)
{
	void *probe;

	if (argc < 3)
		return 2;
	probe = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
	if (!probe) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&probe_frames = symbol(probe, "probe_frames");
	*(void **)&probe_cost = symbol(probe, "probe_cost");
	expect("no interpreter loaded", 0);
	load(argv[1]);
	expect("not set up", 0);
	start();
	expect("no code running", 0);
	if (api.run(check))
		return 1;
	expect("between programs", 0);
	if (argc > 3) {
		api.finalize();
		dlclose(library);
		if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
			printf("this interpreter stays loaded\n");
		expect("unloaded", 0);
		load(argv[1]);
		start();
		if (api.run(check))
			return 1;
		printf("ok unloaded\n");
		return 0;
	}
	if (api.run(daemons))
		return 1;
	api.finalize();
	expect("taken down", 0);
	printf("ok embedded\n");
	return 0;
}
