// SPDX-License-Identifier: MIT
/*
 * shim/sync/site.c and module.c over a fake emit. Arguments: the two libraries made of reload.c.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "fake_emit.h"
#include "sync/image.h"
#include "sync/site.h"

struct config config = {.python = true, .stack_depth = 32};

static const char *first_library, *second_library;

static volatile int three = 3; /* a bound that keeps a loop one call site */

#define AFTER __asm__ volatile("" ::: "memory") /* no tail call */

#define FRAME ((const void *)((const uint64_t *)__builtin_frame_address(0) + 1))

/* The build puts this before unwind(), to count. */
uint32_t __real_unwind(void *cache, const void *modules, uint64_t *addresses, uint32_t max,
		       void *trace);
uint32_t __wrap_unwind(void *cache, const void *modules, uint64_t *addresses, uint32_t max,
		       void *trace);
static __thread unsigned int unwound;

uint32_t __wrap_unwind(void *cache, const void *modules, uint64_t *addresses, uint32_t max,
		       void *trace)
{
	unwound++;
	return __real_unwind(cache, modules, addresses, max, trace);
}

static atomic_uint differences, known_again;
static __thread const void *last_frame;

/* A wrapper of the shim. What is known again must be what unwinding finds, in every test. */
__attribute__((noinline)) static uint32_t wrapper(void)
{
	uint32_t id = site_take(__builtin_return_address(0), NULL), again, before = unwound;

	last_frame = FRAME;
	again = site_take(__builtin_return_address(0), FRAME);
	known_again += again && unwound == before;
	differences += id && again && again != id;
	AFTER;
	return id;
}

__attribute__((noinline)) static uint32_t wrapper_cached(void)
{
	uint32_t id = site_take(__builtin_return_address(0), FRAME);

	AFTER;
	return id;
}

__attribute__((noinline)) static uint32_t wrapper_unwound(void)
{
	uint32_t id = site_take(__builtin_return_address(0), NULL);

	AFTER;
	return id;
}

static const struct record_site *site(uint32_t id)
{
	const struct record_site *record;
	uint32_t i;

	for (i = 0; (record = (const void *)fake_record(RECORD_SITE, i)); i++) {
		if (record->id == id)
			return record;
	}
	fail_msg("no site %u", id);
	return NULL;
}

static const struct record_frame *frames(uint32_t id)
{
	return (const void *)(site(id) + 1);
}

static const struct record_module *module(uint32_t id)
{
	const struct record_module *record;
	uint32_t i;

	for (i = 0; (record = (const void *)fake_record(RECORD_MODULE, i)); i++) {
		if (record->id == id)
			return record;
	}
	fail_msg("no module %u", id);
	return NULL;
}

static uint64_t address_of(const struct record_frame *frame)
{
	return frame->offset + (frame->module ? module(frame->module)->base : 0);
}

/* Is the frame within this function, or nearly? */
static int lies_in(const struct record_frame *frame, const void *function)
{
	uint64_t offset = address_of(frame) - (uint64_t)(uintptr_t)function;

	return offset > 0 && offset < 1024;
}

__attribute__((noinline)) static uint32_t level(int depth)
{
	uint32_t id = depth ? level(depth - 1) : wrapper();

	AFTER;
	return id;
}

/* The reference: the C library's own unwinder gives the same addresses, all the way out. */
__attribute__((noinline)) static uint32_t compare(void)
{
	void *want[80];
	int count = backtrace(want, 80), i, k;
	uint32_t id = site_take(__builtin_return_address(0), FRAME);

	for (i = 0; i < count && want[i] != __builtin_return_address(0); i++)
		;
	assert_true(i < count);
	assert_int_equal(site(id)->frames, count - i < 64 ? count - i : 64);
	for (k = 0; k < site(id)->frames; k++)
		assert_int_equal(address_of(&frames(id)[k]), (uintptr_t)want[i + k]);
	AFTER;
	return id;
}

/* A stack pointer known only by the frame pointer, and one that the compiler aligns by an
 * expression. */
__attribute__((noinline)) static uint32_t variable_stack(int size)
{
	volatile char *bytes = alloca((size_t)size);
	uint32_t id;

	bytes[0] = 1;
	id = compare();
	AFTER;
	return id + bytes[0] - 1;
}

__attribute__((noinline)) static uint32_t aligned_stack(int size)
{
	volatile char bytes[128] __attribute__((aligned(128)));
	volatile char *more = alloca((size_t)size);
	uint32_t id;

	bytes[size & 127] = more[0] = 1;
	id = compare();
	AFTER;
	return id + bytes[size & 127] - 1;
}

__attribute__((noinline)) static void variable_wrapped(int size)
{
	volatile char *bytes = alloca((size_t)size);

	bytes[0] = 1;
	wrapper();
	bytes[0]++;
}

__attribute__((noinline)) static void aligned_wrapped(void)
{
	volatile char bytes[128] __attribute__((aligned(128)));

	bytes[5] = 1;
	wrapper();
	bytes[5]++;
}

static int by_sort(const void *a, const void *b)
{
	variable_stack(100);
	aligned_stack(100);
	return *(const int *)a - *(const int *)b;
}

static void on_compare(int number)
{
	variable_stack(10);
	aligned_stack(30);
}

static void *compare_body(void *data)
{
	compare();
	return NULL;
}

static void test_reference(void **state)
{
	struct sigaction action = {.sa_handler = on_compare, .sa_flags = SA_ONSTACK}, before;
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536}, off = {.ss_flags = SS_DISABLE};
	int numbers[4] = {4, 3, 2, 1}, i;
	pthread_t thread;

	config.stack_depth = 64;
	for (i = 0; i < three; i++) { /* looked up, then remembered */
		compare();
		variable_stack(1000 * i + 16);
		aligned_stack(1000 * i + 16);
		qsort(numbers, 4, sizeof(int), by_sort);
	}
	pthread_create(&thread, NULL, compare_body, NULL);
	pthread_join(thread, NULL);
	/* Through a signal, on this stack and on one of its own. */
	for (i = 0; i < 2; i++) {
		if (i)
			sigaltstack(&stack, NULL);
		sigaction(SIGUSR1, &action, &before);
		raise(SIGUSR1);
		sigaction(SIGUSR1, &before, NULL);
	}
	sigaltstack(&off, NULL);
	free(stack.ss_sp);
	config.stack_depth = 32;
}

/* Information that lies: the frame's address comes out wrong, at unmapped memory, at no address at
 * all. The C library's unwinder crashes here; ours stops. */
#define LIE(name, lies)                                                                            \
	uint32_t name(uint32_t (*callback)(void));                                                 \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                \
		"	.cfi_startproc\n"                                                                \
		"	push %rbp\n" lies "	call *%rdi\n"                                          \
		"	pop %rbp\n"                                                                      \
		"	ret\n"                                                                           \
		"	.cfi_endproc\n.size " #name ", . - " #name "\n")
LIE(lie_missing, "");
LIE(lie_far, ".cfi_def_cfa rsp, 0x7000000\n");
LIE(lie_below, ".cfi_def_cfa rsp, -4096\n");
LIE(lie_unmapped, "	mov $0x123456789000, %rbp\n.cfi_def_cfa rbp, 16\n");
LIE(lie_null, "	xor %ebp, %ebp\n.cfi_def_cfa rbp, 0\n");
LIE(lie_noncanonical, "	movabs $0x8000123456789abc, %rbp\n.cfi_def_cfa rbp, 16\n");
LIE(lie_volatile, ".cfi_def_cfa rax, 16\n");
LIE(lie_expression, ".cfi_escape 0x0f, 3, 0x06, 0x06, 0x06\n"); /* dereferences nothing */

static void test_lies(void **state)
{
	uint32_t (*const lies[])(uint32_t(*)(void)) = {
		lie_missing, lie_far,          lie_below,    lie_unmapped,
		lie_null,    lie_noncanonical, lie_volatile, lie_expression,
	};
	uint32_t id;
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		id = lies[i](wrapper);
		assert_true(lies_in(frames(id), (void *)lies[i]));
		/* At most one wrong frame more, which the report will show as it is. */
		assert_true(site(id)->frames <= 2);
	}
}

/* The saved frame pointer and return address of a caller overwritten while we look. */
__attribute__((noinline)) static uint32_t corrupted(uint64_t value)
{
	uint64_t *frame = __builtin_frame_address(0), kept[2] = {frame[0], frame[1]};
	uint32_t id;

	frame[0] = value;
	frame[1] = value;
	__asm__ volatile("" ::: "memory");
	id = wrapper();
	__asm__ volatile("" ::: "memory");
	frame[0] = kept[0];
	frame[1] = kept[1];
	AFTER;
	return id;
}

static void test_corrupted(void **state)
{
	static const uint64_t values[] = {0,
					  1,
					  0x1000,
					  0xdeadbeef,
					  UINT64_MAX,
					  UINT64_C(0x7ffffffff000),
					  UINT64_C(0x8000000000000000)};
	uint32_t id;
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(*values); i++) {
		id = corrupted(values[i]);
		assert_true(lies_in(frames(id), (void *)corrupted));
		assert_true(site(id)->frames <= 2);
	}
}

static void test_frames(void **state)
{
	uint32_t id = level(3), i;
	char exe[4096];
	ssize_t length = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	const struct record_module *program;

	assert_true(length > 0);
	exe[length] = '\0';
	assert_true(site(id)->frames > 6);
	for (i = 0; i < 4; i++)
		assert_true(lies_in(&frames(id)[i], (void *)level));
	assert_true(lies_in(&frames(id)[4], (void *)test_frames));
	program = module(frames(id)[0].module);
	assert_string_equal(fake_string(program->path), exe);
	assert_true(program->build_id_length >= 8);
	/* The runner's frames: another module, named by its path. */
	for (i = 5; i < site(id)->frames && frames(id)[i].module == frames(id)[0].module; i++)
		;
	assert_true(i < site(id)->frames);
	assert_non_null(strstr(fake_string(module(frames(id)[i].module)->path), "libcmocka"));
	assert_int_equal(fake_string(module(frames(id)[i].module)->path)[0], '/');
	assert_int_equal(site(id)->python_frames, 0);
}

static void test_interned(void **state)
{
	uint32_t same[3], other, records;
	int i;

	for (i = 0; i < three; i++)
		same[i] = level(2);
	other = level(2);
	records = fake_count(RECORD_SITE);
	assert_true(same[0] && other);
	assert_int_equal(same[0], same[1]);
	assert_int_not_equal(same[0], other);
	assert_int_not_equal(level(3), level(4));
	assert_int_equal(fake_count(RECORD_SITE), records + 2);
}

static void test_depth(void **state)
{
	config.stack_depth = 5;
	assert_int_equal(site(level(20))->frames, 5);
	config.stack_depth = 1;
	assert_int_equal(site(level(20))->frames, 1);
	config.stack_depth = 0;
	assert_int_equal(site(level(20))->frames, 1);
	config.stack_depth = 64;
	assert_int_equal(site(level(100))->frames, 64);
	config.stack_depth = 100000;
	assert_int_equal(site(level(100))->frames, 64);
	config.stack_depth = 32;
}

static void test_errno(void **state)
{
	errno = 12345;
	level(7);
	wrapper_cached();
	assert_int_equal(errno, 12345);
}

/* Loads a library, takes a site from within it, gives its base address. */
static uint32_t through(const char *path, const char *name, uint64_t *ret_base)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	uint32_t (*function)(uint32_t(*)(void));
	uint32_t id;

	if (!library)
		fail_msg("%s", dlerror());
	*(void **)&function = dlsym(library, name);
	assert_non_null(function);
	*ret_base = ((struct link_map *)library)->l_addr;
	id = function(wrapper);
	dlclose(library);
	return id;
}

static void assert_path(const struct record_module *record, const char *file)
{
	char *absolute = realpath(file, NULL);

	assert_string_equal(fake_string(record->path), absolute);
	free(absolute);
}

static void test_reload(void **state)
{
	uint64_t base[2];
	uint32_t id[2], again, modules;
	const void *frame[2];
	int i;

	id[0] = through(first_library, "first", &base[0]);
	id[1] = through(second_library, "other", &base[1]);
	modules = fake_count(RECORD_MODULE);
	again = through(first_library, "first", &base[0]);
	/* The case meant: another file at the same place, and the same offset in it. */
	assert_int_equal(base[0], base[1]);
	assert_int_equal(frames(id[0])->offset, frames(id[1])->offset);
	assert_int_not_equal(id[0], id[1]);
	assert_path(module(frames(id[0])->module), first_library);
	assert_path(module(frames(id[1])->module), second_library);
	/* The first one once more at its old place is the same module. */
	assert_int_equal(frames(again)->module, frames(id[0])->module);
	assert_int_equal(fake_count(RECORD_MODULE), modules);
	/* From one place, where every word of the stack is the same: still two sites. */
	for (i = 0; i < 2 * three; i++) {
		again = through(i & 1 ? second_library : first_library, i & 1 ? "other" : "first",
				&base[i & 1]);
		assert_true(i < 2 || id[i & 1] == again);
		id[i & 1] = again;
		frame[i & 1] = last_frame;
	}
	assert_ptr_equal(frame[0], frame[1]);
	assert_int_not_equal(id[0], id[1]);
	assert_int_equal(differences, 0);
}

static void test_generated_code(void **state)
{
	/* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
	static const uint8_t code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t id;

	assert_true(page != MAP_FAILED);
	memcpy(page, code, sizeof(code));
	id = ((uint32_t(*)(uint32_t(*)(void)))(uintptr_t)page)(wrapper);
	assert_int_equal(frames(id)[0].module, 0);
	assert_int_equal(frames(id)[0].offset, (uint64_t)(uintptr_t)page + 6);
	/* No unwind information: the stack ends here. */
	assert_int_equal(site(id)->frames, 1);
	munmap(page, 4096);
}

/* Assembly without call frame information, which uses the frame pointer for something else. */
uint32_t without_information(uint32_t (*callback)(void));
__asm__(".text\n"
	".globl without_information\n"
	".type without_information, @function\n"
	"without_information:\n"
	"	push %rbp\n"
	"	mov $0x123456789, %rbp\n"
	"	call *%rdi\n"
	"	pop %rbp\n"
	"	ret\n"
	".size without_information, . - without_information\n");

static void test_assembly(void **state)
{
	uint32_t id = without_information(wrapper);

	assert_int_equal(site(id)->frames, 1);
	assert_true(lies_in(frames(id), (void *)without_information));
	id = without_information(wrapper_cached);
	assert_int_equal(site(id)->frames, 1);
}

/* A return address that is not on the stack: that alone. */
static void test_not_on_stack(void **state)
{
	uint32_t id = site_take((const void *)&config, NULL);

	assert_int_equal(site(id)->frames, 1);
	assert_int_equal(address_of(frames(id)), (uint64_t)(uintptr_t)&config);
	id = site_take(NULL, NULL);
	assert_int_equal(site(id)->frames, 1);
	assert_int_equal(frames(id)[0].module, 0);
}

static void *small_body(void *data)
{
	return (void *)(uintptr_t)level(10);
}

static void test_small_stack(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *id;

	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN), 0);
	assert_int_equal(pthread_create(&thread, &attributes, small_body, NULL), 0);
	pthread_join(thread, &id);
	assert_true(site((uint32_t)(uintptr_t)id)->frames > 11);
}

static volatile sig_atomic_t signals, sites_in_signals;

static void on_signal(int number)
{
	uint32_t id = level(1);

	signals++;
	sites_in_signals += id != 0;
}

static void test_in_handler(void **state)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, before;
	stack_t stack = {.ss_sp = malloc(32768), .ss_size = 32768}, off = {.ss_flags = SS_DISABLE};

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, &before);
	raise(SIGUSR1);
	assert_int_equal(signals, 1);
	assert_int_equal(sites_in_signals, 1);
	sigaction(SIGUSR1, &before, NULL);
	sigaltstack(&off, NULL);
	free(stack.ss_sp);
}

/* Handlers that come while this thread is taking a site: no deadlock, no site rather than a wrong
 * one. */
static void test_interrupted(void **state)
{
	struct sigaction action = {.sa_handler = on_signal}, before;
	struct itimerval interval = {{0, 50}, {0, 50}}, stop = {{0, 0}, {0, 0}};
	uint32_t id[2], i;

	signals = 0;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &interval, NULL);
	for (i = 0; i < 20000 || (signals < 100 && i < 10000000); i++) {
		id[i & 1] = level(2);
		if (i && id[0] != id[1])
			break;
	}
	setitimer(ITIMER_REAL, &stop, NULL);
	sigaction(SIGALRM, &before, NULL);
	assert_int_equal(id[0], id[1]);
	assert_true(signals >= 100);
}

static void *thread_body(void *data)
{
	uint32_t *ids = data, i, k;

	for (k = 0; k < 50; k++) {
		for (i = 0; i < 40; i++) {
			uint32_t id = level((int)i);

			if (k && ids[i] != id)
				return (void *)1;
			ids[i] = id;
		}
	}
	return NULL;
}

static void test_threads(void **state)
{
	static uint32_t ids[6][40]; /* outlives a failure: the threads go on */
	pthread_t threads[6];
	uint32_t i, records = fake_count(RECORD_SITE), k;
	void *failed;

	config.stack_depth = 50;
	for (i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, thread_body, ids[i]);
	for (i = 0; i < 6; i++) {
		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	config.stack_depth = 32;
	for (i = 1; i < 6; i++)
		assert_memory_equal(ids[0], ids[i], sizeof(ids[0]));
	for (k = 1; k < 40; k++)
		assert_int_not_equal(ids[0][k], ids[0][k - 1]);
	assert_int_equal(fake_count(RECORD_SITE), records + 40);
	assert_int_equal(fake_notes(NOTE_LOST, NULL), 0);
}

static void test_cached(void **state)
{
	unsigned int before = 0, again = known_again;
	uint32_t id[3], records = 0;
	int i;

	for (i = 0; i < three; i++) {
		id[i] = wrapper_cached();
		if (!i) {
			records = fake_count(RECORD_SITE);
			before = unwound;
		}
	}
	assert_true(id[0]);
	assert_int_equal(id[0], id[1]);
	assert_int_equal(id[0], id[2]);
	assert_int_equal(fake_count(RECORD_SITE), records);
	assert_int_equal(unwound, before);
	assert_int_not_equal(wrapper_cached(), id[0]);
	assert_true(lies_in(frames(id[0]), (void *)test_cached));
	/* Frames whose address hangs on the frame pointer, or on an expression, are known again. */
	for (i = 0; i < three; i++)
		variable_wrapped(64);
	assert_int_equal(known_again, again + 2);
	for (i = 0; i < three; i++)
		aligned_wrapped();
	assert_int_equal(known_again, again + 4);
}

static void test_recursion(void **state)
{
	unsigned int again = known_again;
	uint32_t ids[30];
	int round, depth;

	/* Twice each, from one place: deeper, known again, and not for another depth. */
	for (round = 0; round < three; round++) {
		for (depth = 0; depth < 30; depth++) {
			uint32_t id = level(depth);

			assert_true(!round || ids[depth] == id);
			assert_true(!depth || ids[depth - 1] != id);
			ids[depth] = id;
		}
	}
	assert_true(known_again >= again + 50);
}

/* Takes a site with the stack pointer at `target`, however deep it was called. */
__attribute__((noinline)) static uint32_t take_at(const char *target, int unused)
{
	volatile char *bytes = alloca((size_t)((char *)__builtin_frame_address(0) - target));
	uint32_t id;

	bytes[0] = 1;
	id = wrapper();
	AFTER;
	return id + bytes[0] - 1;
}

static uint32_t (*volatile inner)(const char *target, int size) = take_at;

/* One frame more, of which the stack is otherwise full of what was there before. */
__attribute__((noinline)) static uint32_t take_between(const char *target, int size)
{
	volatile char *bytes = alloca((size_t)size);
	uint32_t id;

	bytes[0] = 1;
	id = inner(target, 0);
	AFTER;
	return id + bytes[0] - 1;
}

/*
 * The same stack pointer, the same place that calls, even the same return addresses where the other
 * stack had them: only the frame pointers on the way say that there is a frame in between.
 */
static void test_same_place(void **state)
{
	uint32_t (*const ways[])(const char *, int) = {take_at, take_between};
	const char *target = (const char *)__builtin_frame_address(0) - 8192;
	const void *frame[2];
	uint32_t id[2];
	int i, size;

	target -= (uintptr_t)target % 16;
	for (size = 16; size < 2048; size += 16 * three) {
		for (i = 0; i < 6; i++) {
			uint32_t got = ways[i & 1](target, size);

			assert_true(i < 2 || id[i & 1] == got);
			id[i & 1] = got;
			frame[i & 1] = last_frame;
		}
#ifdef __SANITIZE_ADDRESS__ /* it puts more around what alloca() gives */
		(void)frame;
#else
		assert_ptr_equal(frame[0], frame[1]);
#endif
		assert_int_not_equal(id[0], id[1]);
		assert_int_equal(site(id[0])->frames + 1, site(id[1])->frames);
	}
	assert_int_equal(differences, 0);
}

static jmp_buf thrown;

__attribute__((noinline)) static void throwing(int depth)
{
	if (depth > 0)
		throwing(depth - 1);
	wrapper();
	if (!depth)
		longjmp(thrown, 1);
	AFTER;
}

/* What a jump left behind on the stack is not taken for a caller. */
static void test_thrown(void **state)
{
	static uint32_t id;
	static int i; /* static: kept through a jump */

	for (i = 0; i < 50; i++) {
		uint32_t got;

		if (!setjmp(thrown))
			throwing(i % 7);
		got = level(4);
		assert_true(!i || got == id);
		id = got;
	}
	assert_int_equal(differences, 0);
}

/* Runs on a stack of its own, and goes back and forth. */
static ucontext_t main_context, contexts[2];
static const char *coroutine_target;
static uint32_t coroutine_ids[2][20];

static void coroutine(int number)
{
	int i;

	for (i = 0; i < 20; i++) {
		coroutine_ids[number][i] = number ? level(5) : level(i % 3);
		swapcontext(&contexts[number], &main_context);
	}
}

static void test_coroutines(void **state)
{
	char *stacks[2];
	static int k; /* static: the compiler fears for it across contexts */
	int i;

	for (k = 0; k < 2; k++) {
		stacks[k] = malloc(65536);
		getcontext(&contexts[k]);
		contexts[k].uc_stack = (stack_t){.ss_sp = stacks[k], .ss_size = 65536};
		contexts[k].uc_link = &main_context;
		makecontext(&contexts[k], (void (*)(void))coroutine, 1, k);
	}
	for (i = 0; i < 20; i++) {
		for (k = 0; k < 2; k++)
			swapcontext(&main_context, &contexts[k]);
	}
	for (i = 3; i < 20; i++) {
		assert_int_equal(coroutine_ids[0][i], coroutine_ids[0][i - 3]);
		assert_int_equal(coroutine_ids[1][i], coroutine_ids[1][i - 1]);
		assert_int_not_equal(coroutine_ids[0][i], coroutine_ids[0][i - 1]);
	}
	free(stacks[0]);
	free(stacks[1]);
	assert_int_equal(differences, 0);
}

static uint32_t at_id;

__attribute__((noinline)) static void take_deep(int depth)
{
	if (depth)
		take_deep(depth - 1);
	else
		at_id = take_at(coroutine_target, 0);
	AFTER;
}

/*
 * A stack unmapped, and a lower one in its place that comes by the same frame: what was above it is
 * not looked at.
 */
static void test_lower_stack(void **state)
{
	enum { SIZE = 256 * 1024, LOWER = 64 * 1024 };
	unsigned int again = known_again;
	static const void *frame; /* static: the compiler fears for it across contexts */
	uint32_t id[2];
	char *base;
	int i;

	base = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(base != MAP_FAILED);
	coroutine_target = base + 16 * 1024;
	for (i = 0; i < 6; i++) {
		size_t size = i & 1 ? LOWER : SIZE;

		assert_int_equal(mprotect(base, SIZE, PROT_NONE), 0);
		assert_int_equal(mprotect(base, size, PROT_READ | PROT_WRITE), 0);
		getcontext(&contexts[0]);
		contexts[0].uc_stack = (stack_t){.ss_sp = base, .ss_size = size};
		contexts[0].uc_link = &main_context;
		makecontext(&contexts[0], (void (*)(void))take_deep, 1, i & 1 ? 2 : 10);
		swapcontext(&main_context, &contexts[0]);
		assert_true(!frame || frame == last_frame);
		frame = last_frame;
		assert_true(i < 2 || at_id == id[i & 1]);
		id[i & 1] = at_id;
	}
	assert_int_not_equal(id[0], id[1]);
	assert_int_equal(known_again, again + 4);
	assert_int_equal(differences, 0);
	munmap(base, SIZE);
}

static void *other_body(void *data)
{
	return (void *)(uintptr_t)level(10);
}

/* A thread on the stack of one that has ended, from the same frame on but begun elsewhere. */
static void test_stack_again(void **state)
{
	void *(*const bodies[])(void *) = {small_body, other_body};
	pthread_t thread;
	void *got, *id[2];
	const int size = 4 << 20; /* a sanitizer keeps much of its own there */
	pthread_attr_t attributes;
	void *stack = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	int i;

	assert_true(stack != MAP_FAILED);
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstack(&attributes, stack, (size_t)size), 0);
	for (i = 0; i < 8; i++) {
		assert_int_equal(pthread_create(&thread, &attributes, bodies[i & 1], NULL), 0);
		pthread_join(thread, &got);
		assert_true(i < 2 || id[i & 1] == got);
		id[i & 1] = got;
	}
	assert_ptr_not_equal(id[0], id[1]);
	assert_int_equal(differences, 0);
	pthread_attr_destroy(&attributes);
	munmap(stack, (size_t)size);
}

static void *evicting_body(void *data)
{
	int round, i;

	for (round = 0; round < 6; round++) {
		for (i = 0; i < 400; i++)
			level(i);
	}
	return NULL;
}

/* More stacks than are kept, by threads that read what others replace. */
static void test_evicted(void **state)
{
	pthread_t threads[6];
	unsigned int again = known_again;
	int i;

	for (i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, evicting_body, NULL);
	for (i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(differences, 0);
	assert_true(known_again > again);
	assert_true(known_again < again + 6 * 6 * 400);
}

/* Over all tests before. */
static void test_no_difference(void **state)
{
	assert_int_equal(differences, 0);
	assert_true(known_again > 10000);
}

static void test_fork(void **state)
{
	uint32_t before = level(2), mark[3];
	int status, i;
	pid_t child = -1;

	assert_true(before > 1);
	/* One call site: cached in the parent, asked again in the child. */
	for (i = 0; i < three; i++) {
		mark[i] = wrapper_cached();
		if (!child) {
			/*
			 * The child's file is another: ids begin anew, modules are written again.
			 */
			if (mark[i] != 1 || !fake_count(RECORD_MODULE) ||
			    fake_count(RECORD_SITE) != 1)
				_exit(1);
			_exit(level(2) == 2 && frames(2)->module == frames(1)->module ? 0 : 2);
		}
		if (i == 1) {
			child = fork();
			if (!child)
				fake_reset();
		}
	}
	assert_true(mark[0] > 1);
	assert_int_equal(mark[0], mark[1]);
	assert_int_equal(mark[0], mark[2]);
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(level(2) != 0, 1);
}

static void test_refused(void **state)
{
	uint32_t known = level(1), id[3];
	int i;

	for (i = 0; i < three; i++) {
		fake_refuse(i == 0);
		id[i] = level(9);
	}
	fake_refuse(0);
	assert_true(known);
	assert_int_equal(id[0], 0);
	assert_true(id[1]);
}

static jmp_buf out;

static void jump_out(void)
{
	longjmp(out, 1);
}

static void *after_jump(void *data)
{
	struct timespec from, to;
	int i;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < 1000; i++) {
		if (level(3))
			return (void *)1;
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	/* One of them waited for the holder, the others knew better. */
	return to.tv_sec - from.tv_sec > 3 ? (void *)2 : NULL;
}

/* A thread that is thrown out of the shim while it holds the table: later sites are lost, soon and
 * counted, and nothing hangs. In a child, since it does not heal. */
static void test_jumped_out(void **state)
{
	pthread_t thread;
	void *failed;
	int status;
	pid_t child = fork();

	if (!child) {
		fake_reset();
		level(2); /* the modules are written: the jump is not out of the loader */
		fake_hook = jump_out;
		if (!setjmp(out)) {
			level(17);
			_exit(10);
		}
		fake_hook = NULL;
		if (level(3)) /* this thread is still inside, for all it knows */
			_exit(11);
		alarm(30);
		pthread_create(&thread, NULL, after_jump, NULL);
		pthread_join(thread, &failed);
		_exit(failed                                               ? (int)(intptr_t)failed
		      : fake_notes(NOTE_LOST, "sites: table busy") == 2000 ? 0
									   : 12);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

static double cost(int depth, uint32_t rounds, uint32_t (*take)(void))
{
	struct timespec from, to;
	uint32_t i;

	if (depth) {
		double each = cost(depth - 1, rounds, take);

		AFTER;
		return each;
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (i = 0; i < rounds; i++)
		take();
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       rounds;
}

static void test_cost(void **state)
{
	static const uint32_t depths[] = {10, 30};
	double slow, quick;
	int i;

	for (i = 0; i < 2; i++) {
		config.stack_depth = depths[i];
		slow = cost(40, 20000, wrapper_unwound);
		quick = cost(40, 200000, wrapper_cached);
		print_message("site_take at %u frames: unwound %.0f ns, known again %.0f ns\n",
			      depths[i], slow, quick);
		/* Far above what it should be: catches a table scan or a file read per site, not a
		 * slow machine. */
		assert_true(slow < 400000 && quick < 50000);
		assert_true(quick < slow / 3);
	}
	config.stack_depth = 32;
}

/* Must be last: nothing fits any more afterwards. */
static void test_full(void **state)
{
	uint32_t id = level(2), last = 0, i;

	for (i = 1; i < 70000; i++)
		last = site_take((const void *)(uintptr_t)(i * 16), NULL);
	assert_int_equal(last, 0);
	assert_true(fake_notes(NOTE_LOST, "sites: too many") > 4000);
	assert_int_equal(fake_count(RECORD_SITE), 65536);
	/* What is known stays known. */
	assert_int_equal(site_take((const void *)16, NULL) != 0, 1);
	assert_true(id);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),      cmocka_unit_test(test_lies),
		cmocka_unit_test(test_corrupted),      cmocka_unit_test(test_frames),
		cmocka_unit_test(test_interned),       cmocka_unit_test(test_depth),
		cmocka_unit_test(test_errno),          cmocka_unit_test(test_reload),
		cmocka_unit_test(test_generated_code), cmocka_unit_test(test_assembly),
		cmocka_unit_test(test_not_on_stack),   cmocka_unit_test(test_small_stack),
		cmocka_unit_test(test_in_handler),     cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_threads),        cmocka_unit_test(test_cached),
		cmocka_unit_test(test_recursion),      cmocka_unit_test(test_same_place),
		cmocka_unit_test(test_thrown),         cmocka_unit_test(test_coroutines),
		cmocka_unit_test(test_lower_stack),    cmocka_unit_test(test_stack_again),
		cmocka_unit_test(test_fork),           cmocka_unit_test(test_refused),
		cmocka_unit_test(test_jumped_out),     cmocka_unit_test(test_evicted),
		cmocka_unit_test(test_no_difference),  cmocka_unit_test(test_cost),
		cmocka_unit_test(test_full),
	};

	site_prepare();
	if (argc != 3)
		return 2;
	/* Given relative to the working folder, they are recorded absolute. */
	first_library = argv[1];
	second_library = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
