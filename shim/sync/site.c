// SPDX-License-Identifier: MIT
/*
 * Call sites (site.h): unwinds the calling thread, turns addresses into modules and offsets,
 * interns the result. Called by sync.c.
 *
 * A stack seen before is known again by the words that the unwinder went by (site_cache.h), which
 * takes no lock. Unwinding (unwind.c) goes over the program's own call frame information and needs no frame
 * pointers; where there is no information (assembly, generated code) it ends, and the site is as
 * deep as it got; where it does not pass our own frames the return address alone is the site.
 *
 * Locks of the loader: dl_iterate_phdr() takes the one of its list, in every glibc that we support.
 * It is held only while the list changes, never while constructors run (that is another), and is
 * recursive, so that a thread inside dlopen() gets here too. We do hold our own meanwhile; nobody
 * waits for that one without end (tables_lock() gives up), so the two cannot deadlock.
 *
 * Tables live in one mapping that a forked child finds zeroed (MADV_WIPEONFORK): its record file is
 * another, with ids of its own. Where the kernel cannot do that (before 4.14) the process id is
 * compared instead.
 */
#include "sync/site.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "emit/emit.h"
#include "sync/module.h"
#include "sync/python.h"
#include "sync/site_cache.h"
#include "sync/site_key.h"
#include "sync/unwind.h"

#define DEPTH_MAX   64
#define CALL_FRAMES 4  /* of an interpreter, between its loop and the function called, at most */
#define OWN_FRAMES  16 /* of the shim, above the return address, at most */
#define SLOTS       (2 * SITES_MAX) /* half full at most; a power of two */
#define SPINS       200             /* for another thread, before sleeping */
#define SLEEPS      2000            /* of 50 us and the timer slack, before it is given up on */

struct slot {
	uint64_t hash;
	const struct record_site *record; /* NULL: free. emit never moves a record. */
};

/*
 * All under `lock`, a word of its own: a pthread mutex would be inherited locked by a forked child
 * and could not be given up on. A thread that does not get it in some 200 ms goes without a site:
 * whoever holds it may be stopped, or be waiting for a loader lock that we are called under.
 */
struct tables {
	atomic_uint lock;
	uint32_t count; /* sites, and the last id */
	int pid;        /* owner, where the mapping is not wiped */
	struct module_table modules;
	struct unwind_cache unwinding;
	struct unwind_trace trace; /* of the stack being unwound; here since a stack may be small */
	struct site_cache cache;   /* read without the lock */
	struct slot slots[SLOTS];
	const struct record_site *sites[SITES_MAX]; /* by id less 1 */
};

/*
 * Set once by the first thread that maps them (compare and swap, release), read by all (acquire).
 */
static _Atomic(struct tables *) tables_mapped;
static atomic_bool wiped_on_fork; /* written before tables_mapped is, the same by all */
/* Somebody gave up on the lock: its holder may never come back (a thread cancelled or thrown out of
 * here by a signal handler), so nobody sleeps for it until it is seen free. A hint, no order
 * needed. */
static atomic_bool stuck;
/* This thread is in here already: a signal handler's driver call gets no site. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

static struct tables *tables_get(void)
{
	/* Paired with the release below. */
	struct tables *tables = atomic_load_explicit(&tables_mapped, memory_order_acquire);
	struct tables *none = NULL;

	if (tables)
		return tables;
	tables = mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tables == MAP_FAILED)
		return NULL;
	wiped_on_fork = !madvise(tables, sizeof(*tables), MADV_WIPEONFORK);
	/* Paired with the acquire above: the mapping before its address. */
	if (!atomic_compare_exchange_strong_explicit(&tables_mapped, &none, tables,
						     memory_order_release, memory_order_acquire)) {
		munmap(tables, sizeof(*tables));
		return none;
	}
	return tables;
}

void site_prepare(void)
{
	int saved_errno = errno;

	tables_get();
	errno = saved_errno;
}

static bool tables_lock(struct tables *tables)
{
	unsigned int spins, expected, most = SPINS;

	if (!wiped_on_fork && tables->pid != getpid() && tables->pid) {
		/*
		 * A child of a fork: other threads, and with them any holder of the lock, are gone.
		 */
		memset(tables, 0, sizeof(*tables));
	}
	if (!atomic_load_explicit(&stuck, memory_order_relaxed))
		most += SLEEPS;
	for (spins = 0; spins < most; spins++) {
		expected = 0;
		/* Paired with the release in tables_unlock(). */
		if (atomic_compare_exchange_weak_explicit(&tables->lock, &expected, 1,
							  memory_order_acquire,
							  memory_order_relaxed))
			break;
		if (spins >= SPINS) {
			/* Not nanosleep(): that is a place where a thread can be cancelled. */
			syscall(SYS_nanosleep, &(struct timespec){0, 50 * 1000}, NULL);
		}
	}
	if (spins == most) {
		atomic_store_explicit(&stuck, true, memory_order_relaxed);
		return false;
	}
	if (most == SPINS)
		atomic_store_explicit(&stuck, false, memory_order_relaxed);
	if (!tables->pid)
		tables->pid = getpid();
	return true;
}

static void tables_unlock(struct tables *tables)
{
	/* Paired with the acquire in tables_lock(). */
	atomic_store_explicit(&tables->lock, 0, memory_order_release);
}

/* The program's return addresses, innermost first; at least the one given. Under the lock. */
static uint32_t addresses_of(struct tables *tables, const struct site_key *key,
			     uint64_t *ret_addresses)
{
	uint64_t all[DEPTH_MAX + OWN_FRAMES];
	uint32_t count = 0, depth = key->depth, first, kept;

	tables->trace.from = key->frame;
	tables->trace.complete = false;
	if (depth > 1)
		count = unwind(&tables->unwinding, &tables->modules, all, depth + OWN_FRAMES,
			       &tables->trace);
	for (first = 0; first < count && all[first] != key->return_address; first++)
		;
	kept = count - first < depth ? count - first : depth;
	memcpy(ret_addresses, all + first, kept * sizeof(*all));
	/* Who reads a site looks one byte before a return address. */
	ret_addresses[0] = key->return_address + key->is_interrupted;
	return kept ? kept : 1;
}

/*
 * Native frames to keep where there are Python frames: those before the interpreter. What is in its
 * loop, and the few functions by which the loop calls into C, changes as it specializes its
 * instructions: the same place in the program would become several sites. Frames behind the loop
 * are told by the Python frames. Where the loop is no single function (3.14 by tail calls) all of
 * the interpreter's module counts as the loop.
 */
static uint32_t before_interpreter(const struct tables *tables, const uint64_t *addresses,
				   const struct record_frame *frames, uint32_t count)
{
	uint64_t loop, size, offset;
	uint32_t n, i, kept, module;

	for (n = 0; (loop = python_loop(n, &size)); n++) {
		for (i = 1; i < count && addresses[i] - 1 - loop >= size; i++)
			;
		if (i == count)
			continue;
		for (kept = i; kept > 1 && i - kept < CALL_FRAMES; kept--) {
			if (frames[kept - 1].module != frames[i].module)
				break;
		}
		return kept;
	}
	for (n = 0; (loop = python_loop(n, &size)); n++) {
		module = size ? module_find(&tables->modules, loop, &offset) : 0;
		for (i = 1; module && i < count; i++) {
			if (frames[i].module == module)
				return i;
		}
	}
	return count;
}

static uint64_t hash_bytes(const void *bytes, size_t size)
{
	const unsigned char *byte = bytes;
	uint64_t hash = size * UINT64_C(0x9e3779b97f4a7c15), word;
	size_t i;

	for (i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, byte + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 29;
	}
	return hash;
}

/* What a site record holds behind its head. */
struct stack {
	uint32_t frames, python_frames;
	struct record_frame frame[DEPTH_MAX];
	struct record_python_frame python[DEPTH_MAX];
};

/* NULL: no room. Under the lock. */
static const struct record_site *intern(struct tables *tables, const struct stack *stack)
{
	size_t frame_size = stack->frames * sizeof(stack->frame[0]);
	size_t python_size = stack->python_frames * sizeof(stack->python[0]);
	uint64_t hash =
		hash_bytes(stack->frame, frame_size) * 3 + hash_bytes(stack->python, python_size);
	struct record_site *record;
	struct slot *slot;
	uint64_t i;

	for (i = hash;; i++) {
		slot = &tables->slots[i & (SLOTS - 1)];
		if (!slot->record)
			break;
		if (slot->hash == hash && slot->record->frames == stack->frames &&
		    slot->record->python_frames == stack->python_frames &&
		    !memcmp(slot->record + 1, stack->frame, frame_size) &&
		    !memcmp((const char *)(slot->record + 1) + frame_size, stack->python,
			    python_size))
			return slot->record;
	}
	if (tables->count == SITES_MAX) {
		emit_note(NOTE_LOST, "sites: too many");
		return NULL;
	}
	record = emit_reserve(sizeof(*record) + frame_size + python_size);
	if (!record)
		return NULL;
	record->id = tables->count + 1;
	record->frames = (uint16_t)stack->frames;
	record->python_frames = (uint16_t)stack->python_frames;
	memcpy(record + 1, stack->frame, frame_size);
	memcpy((char *)(record + 1) + frame_size, stack->python, python_size);
	emit_publish(record, RECORD_SITE);
	tables->sites[tables->count++] = record;
	*slot = (struct slot){hash, record};
	return record;
}

static uint32_t depth_of_sites(void)
{
	if (config.stack_depth < 1)
		return 1;
	return config.stack_depth < DEPTH_MAX ? config.stack_depth : DEPTH_MAX;
}

/* The native frames of `record`, of a stack with the Python frames that are there already. */
static uint32_t take_known(struct tables *tables, const struct record_site *record,
			   struct stack *stack)
{
	const char *frames = (const char *)(record + 1);
	size_t frame_size = record->frames * sizeof(stack->frame[0]);

	if (record->python_frames == stack->python_frames &&
	    !memcmp(frames + frame_size, stack->python,
		    stack->python_frames * sizeof(stack->python[0])))
		return record->id;
	stack->frames = record->frames;
	memcpy(stack->frame, frames, frame_size);
	if (!tables_lock(tables)) {
		emit_note(NOTE_LOST, "sites: table busy");
		return 0;
	}
	record = intern(tables, stack);
	tables_unlock(tables);
	return record ? record->id : 0;
}

static uint32_t take_unwound(struct tables *tables, const struct site_key *key, struct stack *stack)
{
	const struct record_site *record;
	uint64_t addresses[DEPTH_MAX];
	uint32_t i;

	if (!tables_lock(tables)) {
		emit_note(NOTE_LOST, "sites: table busy");
		return 0;
	}
	module_scan(&tables->modules, key->generation);
	stack->frames = addresses_of(tables, key, addresses);
	for (i = 0; i < stack->frames; i++) {
		stack->frame[i].module =
			module_find(&tables->modules, addresses[i], &stack->frame[i].offset);
		stack->frame[i].padding = 0;
	}
	if (stack->python_frames)
		stack->frames = before_interpreter(tables, addresses, stack->frame, stack->frames);
	record = intern(tables, stack);
	site_cache_add(&tables->cache, key, &tables->trace, record);
	tables_unlock(tables);
	return record ? record->id : 0;
}

static uint32_t take(const void *return_address, const void *frame, bool is_interrupted)
{
	struct tables *tables = tables_get();
	const struct record_site *record = NULL;
	struct site_key key = {
		.return_address = (uint64_t)(uintptr_t)return_address,
		.frame = (uint64_t)(uintptr_t)frame,
		.generation = module_generation(),
		.depth = depth_of_sites(),
		.is_interrupted = is_interrupted,
	};
	struct stack stack;

	if (!tables)
		return 0;
	stack.python_frames = python_frames(key.generation, stack.python, key.depth);
	key.in_python = stack.python_frames > 0;
	if (frame && wiped_on_fork) /* else entries may be of the process that forked this one */
		record = site_cache_find(&tables->cache, &key);
	return record ? take_known(tables, record, &stack) : take_unwound(tables, &key, &stack);
}

static uint32_t take_once(const void *return_address, const void *frame, bool is_interrupted)
{
	int saved_errno = errno;
	uint32_t id = 0;

	if (!inside) {
		inside = true;
		atomic_signal_fence(
			memory_order_seq_cst); /* with a signal handler of this thread */
		id = take(return_address, frame, is_interrupted);
		atomic_signal_fence(memory_order_seq_cst);
		inside = false;
	}
	errno = saved_errno;
	return id;
}

uint32_t site_take(const void *return_address, const void *frame)
{
	return take_once(return_address, frame, false);
}

uint32_t site_take_interrupted(const void *pc)
{
	return take_once(pc, NULL, true);
}

/*
 * A copy of the frames of a site, with the files they lie in, made under the lock; the record file is shared memory, so its counts are
 * bounded. False: no such site.
 */
struct place {
	struct stack stack;
	struct module_known module[DEPTH_MAX]; /* id 0: none */
};

static bool look_up(uint32_t id, struct place *ret_place)
{
	struct tables *tables = atomic_load_explicit(&tables_mapped, memory_order_acquire);
	struct stack *stack = &ret_place->stack;
	const struct record_site *record;
	uint32_t i, module;

	if (!tables || !id || id > SITES_MAX || !tables_lock(tables))
		return false;
	record = tables->sites[id - 1];
	if (record) {
		stack->frames = record->frames < DEPTH_MAX ? record->frames : DEPTH_MAX;
		stack->python_frames =
			record->python_frames < DEPTH_MAX ? record->python_frames : DEPTH_MAX;
		memcpy(stack->frame, record + 1, stack->frames * sizeof(stack->frame[0]));
		memcpy(stack->python,
		       (const char *)(record + 1) + stack->frames * sizeof(stack->frame[0]),
		       stack->python_frames * sizeof(stack->python[0]));
		for (i = 0; i < stack->frames; i++) {
			module = stack->frame[i].module;
			/* Ids count up with the entries. */
			if (module && module <= tables->modules.known_count)
				ret_place->module[i] = tables->modules.known[module - 1];
			else
				ret_place->module[i].id = 0;
		}
	}
	tables_unlock(tables);
	return record != NULL;
}

static uint64_t add_string(uint64_t key, uint32_t id)
{
	size_t length = 0;
	const char *bytes = emit_string_bytes(id, &length);

	return site_key_text(key, bytes ? bytes : "", length);
}

uint64_t site_key(uint32_t id)
{
	const struct module_known *module;
	struct place place;
	uint64_t key = SITE_KEY_START;
	const char *path;
	size_t length;
	uint32_t i;

	if (!look_up(id, &place))
		return 0;
	for (i = 0; i < place.stack.frames; i++) {
		module = &place.module[i];
		length = 0;
		path = module->id && !module->build_id_length
			       ? emit_string_bytes(module->path, &length)
			       : NULL;
		key = module->id ? site_key_frame(key, module->build_id, module->build_id_length,
						  path ? path : "", length,
						  place.stack.frame[i].offset)
				 : site_key_bytes(key, &place.stack.frame[i].offset,
						  sizeof(place.stack.frame[i].offset));
	}
	for (i = 0; i < place.stack.python_frames; i++) {
		key = add_string(key, place.stack.python[i].file);
		key = add_string(key, place.stack.python[i].function);
		key = site_key_bytes(key, &place.stack.python[i].line,
				     sizeof(place.stack.python[i].line));
	}
	return site_key_end(key);
}

bool site_in_file(uint32_t id, const char *name, size_t length)
{
	struct place place;
	const char *path;
	size_t size = 0;
	uint32_t i;

	if (!look_up(id, &place))
		return false;
	for (i = 0; i < place.stack.frames; i++) {
		path = place.module[i].id ? emit_string_bytes(place.module[i].path, &size) : NULL;
		if (path && size >= length && !memcmp(path + size - length, name, length) &&
		    (size == length || path[size - length - 1] == '/'))
			return true;
	}
	return false;
}

bool site_in_python(uint32_t id, const char *function, size_t length)
{
	struct place place;
	const char *bytes;
	size_t size = 0;
	uint32_t i;

	if (!look_up(id, &place))
		return false;
	for (i = 0; i < place.stack.python_frames; i++) {
		bytes = emit_string_bytes(place.stack.python[i].function, &size);
		if (bytes && size == length && !memcmp(bytes, function, length))
			return true;
	}
	return false;
}
