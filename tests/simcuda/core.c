// SPDX-License-Identifier: MIT
/*
 * Start and end of every call, and the process-wide state.
 *
 * Owns: sim, the order of checks at entry (ended, forked, callback, initialized, fault rule), the
 * object arena. Called by: every exported function (exports.c). Relies on nothing but libc.
 */
#include "sim.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

struct sim sim = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

__thread struct sim_call *sim_current_call;
__thread bool sim_in_callback;

/* ---- objects ---- */

#define ARENA_BYTES ((size_t)4 << 30)
#define SLOT_BYTES  512

static uint8_t *arena;
static size_t arena_used;
static void *free_slots; /* linked behind the head, so that a stale handle reads as free */

_Static_assert(sizeof(struct sim_context) <= SLOT_BYTES, "slot too small");
_Static_assert(sizeof(struct sim_node) <= SLOT_BYTES, "slot too small");
_Static_assert(sizeof(struct sim_stream) <= SLOT_BYTES, "slot too small");

/*
 * What objects point to is no leak: shows the leak check a next piece of the arena, since it looks
 * at no mapping by itself.
 */
static void show_leak_check(void)
{
#ifdef __SANITIZE_ADDRESS__
	size_t piece = SLOT_BYTES * 128;

	if (!(arena_used % piece))
		__lsan_register_root_region(arena + arena_used, piece);
#endif
}

void *sim_object_new(enum sim_magic magic)
{
	struct sim_object *object;

	if (!arena) {
		void *map = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (map == MAP_FAILED)
			return NULL;
		arena = map;
	}
	if (free_slots) {
		object = free_slots;
		memcpy(&free_slots, object + 1, sizeof(free_slots));
	} else {
		if (arena_used + SLOT_BYTES > ARENA_BYTES)
			return NULL;
		show_leak_check();
		object = (struct sim_object *)(arena + arena_used);
		arena_used += SLOT_BYTES;
	}
	memset(object, 0, SLOT_BYTES);
	object->magic = magic;
	object->references = 1;
	object->id = ++sim.next_id;
	return object;
}

void sim_object_free(void *pointer)
{
	struct sim_object *object = pointer;

	object->magic = SIM_FREE;
	memcpy(object + 1, &free_slots, sizeof(free_slots));
	free_slots = object;
}

void *sim_object_check(const void *handle, enum sim_magic magic)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)arena;
	struct sim_object *object = (struct sim_object *)handle;

	if (!arena || offset >= arena_used || offset % SLOT_BYTES)
		return NULL;
	return object->magic == magic ? object : NULL;
}

void *sim_grow(void *array, unsigned count, unsigned *space, size_t element)
{
	unsigned wanted = *space ? *space * 2 : 8;
	void *grown;

	if (count < *space)
		return array;
	grown = realloc(array, wanted * element);
	if (grown)
		*space = wanted;
	return grown;
}

/* ---- calls ---- */

bool sim_forked(void)
{
	return sim.fork_mark && !*(volatile unsigned char *)sim.fork_mark;
}

bool sim_enter(struct sim_call *call, struct sim_export *export, CUresult *ret_result)
{
	memset(call, 0, offsetof(struct sim_call, notes));
	call->export = export;
	call->per_thread = export->flags & SIM_PER_THREAD;
	call->notes[0] = 0;
	if (sim_in_callback && !(export->flags & SIM_IN_CALLBACK)) {
		*ret_result = CUDA_ERROR_NOT_PERMITTED;
		return false;
	}
	/* The lock may be held for ever in a forked child: look before taking it. */
	if (sim_forked()) {
		if (!(export->flags & SIM_WITHOUT_INIT) || !strcmp(export->name, "cuInit")) {
			*ret_result = CUDA_ERROR_NOT_INITIALIZED;
			return false;
		}
		return true;
	}
	if (__atomic_load_n(&sim.ended, __ATOMIC_ACQUIRE) && !(export->flags & SIM_IN_CALLBACK)) {
		/* Pairs with the release store of end(). */
		*ret_result = CUDA_ERROR_DEINITIALIZED;
		return false;
	}
	pthread_mutex_lock(&sim.lock);
	call->locked = true;
	sim_configure();
	sim_current_call = call;
	call->noting = sim.journal;
	if (!sim.initialized && !(export->flags & SIM_WITHOUT_INIT)) {
		*ret_result = CUDA_ERROR_NOT_INITIALIZED;
		return false;
	}
	*ret_result = sim_fault_hit(export);
	if (*ret_result != CUDA_SUCCESS)
		return false;
	if (sim.initialized && sim.virtual_time)
		sim_engine_poll();
	if ((export->flags & SIM_CAPTURE_UNSAFE) && sim.captures) {
		*ret_result = sim_capture_prohibits();
		if (*ret_result != CUDA_SUCCESS)
			return false;
	}
	return true;
}

static void spend(uint64_t ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)((now.tv_sec - start.tv_sec) * 1000000000LL + now.tv_nsec -
			  start.tv_nsec) < ns);
}

CUresult sim_leave(struct sim_call *call, CUresult result)
{
	uint64_t cost = call->cost_ns;

	if (!call->locked)
		return result;
	if (sim.journal)
		sim_journal_call(call, result);
	sim_current_call = NULL;
	if (sim.virtual_time)
		sim_clock_advance(cost);
	pthread_mutex_unlock(&sim.lock);
	if (cost && !sim.virtual_time)
		spend(cost);
	return result;
}

/* ---- options ---- */

void sim_complain(const char *what, const char *value)
{
	fprintf(stderr, "simcuda: %s: \"%s\"\n", what, value);
}

static uint64_t option_number(const char *name, uint64_t unset, uint64_t least, uint64_t most)
{
	const char *text = getenv(name);
	char *rest;
	uint64_t value;

	if (!text || !*text)
		return unset;
	errno = 0;
	value = strtoull(text, &rest, 0);
	if (*rest || errno || value < least || value > most) {
		char what[80];

		snprintf(what, sizeof(what), "%s must be a number from %llu to %llu", name,
			 (unsigned long long)least, (unsigned long long)most);
		sim_complain(what, text);
		return unset;
	}
	return value;
}

static int option_word(const char *name, const char *const *words, int unset)
{
	const char *text = getenv(name);

	if (!text || !*text)
		return unset;
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	sim_complain(name, text);
	return unset;
}

/* A name that is meant for us but that we do not know is most likely misspelt. */
static void check_names(void)
{
	static const char *const names[] = {"DEVICES",  "MEMORY",     "TIME", "SEED",
					    "DELAY_US", "COSTS",      "FAIL", "JOURNAL",
					    "PAGEABLE", "DRAIN_LOCK", "SPACE"};

	for (char **entry = environ; entry && *entry; entry++) {
		const char *name = *entry + strlen("SIMCUDA_");
		bool known = false;

		if (strncmp(*entry, "SIMCUDA_", strlen("SIMCUDA_")))
			continue;
		for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			known |= !strncmp(name, names[i], strlen(names[i])) &&
				 name[strlen(names[i])] == '=';
		if (!known)
			sim_complain("unknown variable", *entry);
	}
}

void sim_configure(void)
{
	static const char *const times[] = {"real", "virtual", NULL};
	static const char *const costs[] = {"none", "small", "measured", NULL};
	static const char *const switches[] = {"off", "on", NULL};
	static const char *const pageable[] = {"none", "hmm", "ats", NULL};
	static bool done;
	const char *text;

	if (done)
		return;
	done = true;
	check_names();
	sim.device_count = option_number("SIMCUDA_DEVICES", 2, 0, SIM_DEVICE_LIMIT);
	sim.device_space =
		option_number("SIMCUDA_SPACE", SIM_DEVICE_SPACE, 1 << 20, SIM_DEVICE_SPACE);
	sim.memory_total = option_number("SIMCUDA_MEMORY", 150119055360, 1 << 20, SIM_DEVICE_SPACE);
	sim.seeded = getenv("SIMCUDA_SEED") && *getenv("SIMCUDA_SEED");
	sim.seed = option_number("SIMCUDA_SEED", 0, 0, UINT64_MAX);
	sim.delay_ns = option_number("SIMCUDA_DELAY_US", sim.seeded ? 50 : 0, 0, 1000000) * 1000;
	sim.virtual_time = option_word("SIMCUDA_TIME", times, 0) == 1;
	sim.costs = option_word("SIMCUDA_COSTS", costs, SIM_COSTS_SMALL);
	sim.drain_lock = option_word("SIMCUDA_DRAIN_LOCK", switches, 0);
	sim.pageable = option_word("SIMCUDA_PAGEABLE", pageable, SIM_PAGEABLE_NONE);
	text = getenv("CUDA_MODULE_LOADING");
	sim.lazy = !text || strcmp(text, "EAGER");
	text = getenv("CUDA_LAUNCH_BLOCKING");
	sim.launch_blocking = text && !strcmp(text, "1");
	text = getenv("SIMCUDA_FAIL");
	if (text && *text)
		sim_fault_parse(text);
	text = getenv("SIMCUDA_JOURNAL");
	if (text && *text) {
		sim.journal = fopen(text, "ae");
		if (sim.journal)
			setvbuf(sim.journal, NULL, _IOLBF, 0);
		else
			sim_complain("SIMCUDA_JOURNAL cannot be written", text);
	}
	sim_capture_mark_unsafe();
}

/* CPU time of a call, given as the measured figure. */
void sim_cost(uint64_t measured_ns)
{
	if (!sim_current_call || sim.costs == SIM_COSTS_NONE)
		return;
	sim_current_call->cost_ns +=
		sim.costs == SIM_COSTS_MEASURED ? measured_ns : measured_ns / 10;
}

/* ---- life ---- */

static void end(void)
{
	/* Pairs with the acquire load in sim_enter(): later calls see DEINITIALIZED. */
	__atomic_store_n(&sim.ended, true, __ATOMIC_RELEASE);
	if (sim.journal)
		fflush(sim.journal);
}

CUresult impl_cuInit(unsigned int Flags)
{
	pthread_condattr_t attributes;
	void *mark;

	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim.initialized)
		return CUDA_SUCCESS;
	if (!sim.device_count)
		return CUDA_ERROR_NO_DEVICE;
	mark = mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mark == MAP_FAILED || madvise(mark, sysconf(_SC_PAGESIZE), MADV_WIPEONFORK))
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim.fork_mark = mark;
	*sim.fork_mark = 1;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&sim.changed, &attributes);
	pthread_condattr_destroy(&attributes);
	for (int i = 0; i < sim.device_count; i++)
		sim_memory_setup(i);
	sim_engine_start();
	atexit(end);
	sim.initialized = true;
	return CUDA_SUCCESS;
}
