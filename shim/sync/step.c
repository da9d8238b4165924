// SPDX-License-Identifier: MIT
/*
 * Step: a region of the whole process that begins anew with each call of its marker (step.h): slipstream_step() of the public header, a driver
 * function, or an NVTX mark (nvtx.c). Any thread may mark; what any thread waits for between two marks belongs to the step that runs.
 *
 * `step` is shared by all threads, in relaxed atomics: a wait that ends while another thread marks belongs to one of the two steps. What comes
 * before the first mark belongs to none.
 */
#include "sync/step.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "step_mark.h"
#include "sync/region.h"

#define NAME        "step"
#define STEP_EXPORT __attribute__((visibility("default")))

static struct {
	uint32_t process; /* whose steps these are, by pid; 0: none has begun */
	uint64_t number;  /* of the step, from 1; 0: none has begun */
	uint64_t implicit, explicit, blocked_ns;
	uint32_t waited; /* the step has had a wait */
} step;

bool step_functions_any;
static bool marks[FUNCTION_COUNT]; /* written by step_prepare() only */

/* What this thread found last: launches that join ask each time. */
static __thread struct {
	uint32_t generation; /* of the record file that the rest is in; 0: of none */
	uint32_t id;
	struct record_region *record;
} known __attribute__((tls_model("initial-exec")));

static void clear_figures(void)
{
	__atomic_store_n(&step.implicit, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&step.explicit, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&step.blocked_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&step.waited, 0, __ATOMIC_RELAXED);
}

/* A forked child has its parent's steps before it: the one that runs is its first, and what the parent did in that is not the child's. */
static void settle(void)
{
	uint32_t process = (uint32_t)getpid(),
		 seen = __atomic_load_n(&step.process, __ATOMIC_RELAXED);

	if (seen == process ||
	    !__atomic_compare_exchange_n(&step.process, &seen, process, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) ||
	    !seen)
		return;
	clear_figures();
	__atomic_store_n(&step.number, 1, __ATOMIC_RELAXED);
}

/* NULL: no step has begun, or it has no record. */
static struct record_region *record_of(uint32_t *ret_id)
{
	uint32_t generation;

	if (!__atomic_load_n(&step.number, __ATOMIC_RELAXED))
		return NULL;
	generation = emit_generation();
	if (!generation || known.generation != generation) {
		settle();
		known.record = emit_region(0, NAME, &known.id);
		known.generation = known.record ? generation : 0;
	}
	*ret_id = known.id;
	return known.record;
}

void step_begin(void)
{
	/* A thread that found the record in this process needs no system call. */
	if (!region_is_own_process() || !known.generation || known.generation != emit_generation())
		settle();
	clear_figures();
	__atomic_add_fetch(&step.number, 1, __ATOMIC_RELAXED);
	if (region_is_own_process())
		(void)step_region_id();
}

STEP_EXPORT void slipstream_step(void)
{
	int saved_errno = errno;

	step_begin();
	errno = saved_errno;
}

/* Marks that came before the file was open are steps, too: they are made good here. */
uint32_t step_region_id(void)
{
	uint32_t id;
	struct record_region *record = record_of(&id);
	uint64_t number, seen;

	if (!record)
		return 0;
	number = __atomic_load_n(&step.number, __ATOMIC_RELAXED);
	seen = __atomic_load_n(&record->entries, __ATOMIC_RELAXED);
	while (seen < number && !__atomic_compare_exchange_n(&record->entries, &seen, number, true,
							     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return id;
}

void step_count(const struct emit_spent *spent)
{
	uint32_t id;
	struct record_region *record = record_of(&id);
	struct emit_spent sum;

	if (!record)
		return;
	if ((spent->implicit || spent->explicit) &&
	    !__atomic_exchange_n(&step.waited, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&record->waiting, 1, __ATOMIC_RELAXED);
	sum.implicit = __atomic_add_fetch(&step.implicit, spent->implicit, __ATOMIC_RELAXED);
	sum.explicit = __atomic_add_fetch(&step.explicit, spent->explicit, __ATOMIC_RELAXED);
	sum.blocked_ns = __atomic_add_fetch(&step.blocked_ns, spent->blocked_ns, __ATOMIC_RELAXED);
	emit_region_raise(record, __atomic_load_n(&step.number, __ATOMIC_RELAXED), &sum);
}

/* "", or what names of the driver's functions end with: _v2, _ptsz, _v3_ptds. */
static bool is_form(const char *tail)
{
	if (tail[0] == '_' && tail[1] == 'v' && tail[2] >= '1' && tail[2] <= '9')
		tail += 3;
	return !*tail || !strcmp(tail, "_ptsz") || !strcmp(tail, "_ptds");
}

/* Only calls that come through sync each time: launches and memory have short ways. */
static bool can_mark(uint32_t function)
{
	const struct catalogue_row *row = &catalogue_rows[function];

	return function < FUNCTION_WRAPPED_COUNT && row->level != CATALOGUE_LEVEL_COUNT &&
	       row->kind != CATALOGUE_KIND_LAUNCH && row->kind != CATALOGUE_KIND_ALLOC &&
	       row->kind != CATALOGUE_KIND_FREE;
}

void step_prepare(void)
{
	const char *name = config.step;
	size_t length = name ? strlen(name) : 0;
	bool any = false;
	uint32_t i;

	if (!length || !strncmp(name, STEP_OF_NVTX, strlen(STEP_OF_NVTX)))
		return;
	for (i = 0; i < FUNCTION_COUNT; i++) {
		marks[i] = !strncmp(function_names[i], name, length) &&
			   is_form(function_names[i] + length) && can_mark(i);
		any |= marks[i];
	}
	if (any)
		step_functions_any = true;
	else
		emit_note(NOTE_CONFIG, "SLIPSTREAM_STEP: no driver function of this name can mark "
				       "a step (plain launches, allocations and frees cannot)");
}

bool step_is_function(uint32_t function)
{
	return marks[function];
}
