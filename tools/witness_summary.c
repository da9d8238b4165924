// SPDX-License-Identifier: MIT
/*
 * Summary of witnessed calls (witness_summary.h). Lines are found by their content in trees; witness_summary_json.c
 * sorts and writes them.
 */
#include "witness_summary_internal.h"

#include <search.h>

#include "../bpf/watch_system_calls.h"
#include "emit/usdt_how.h"
#include "memory.h"
#include "sum.h"

/* On the processor, a loop around a system call makes one at least this often. */
#define LOOP_NS UINT64_C(20000)

const char *const witness_how_names[WITNESS_HOWS] = {
	[WITNESS_SPIN] = "spin",   [WITNESS_YIELD] = "yield", [WITNESS_POLL] = "poll",
	[WITNESS_FUTEX] = "futex", [WITNESS_IOCTL] = "ioctl", [WITNESS_PREEMPTED] = "preempted",
	[WITNESS_OTHER] = "other",
};

struct witness_summary *witness_summary_new(void)
{
	return memory_new(sizeof(struct witness_summary));
}

static void keep_data(void *data)
{
	(void)data;
}

static void tree_done(struct witness_tree *tree)
{
	tdestroy(tree->root, keep_data);
	free(tree->items);
}

static void lines_done(struct witness_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct witness_line *line = tree->items[i];

		for (size_t k = 0; k < line->frame_count; k++) {
			free((char *)line->frames[k].module);
			free((char *)line->frames[k].build_id);
		}
		free(line->frames);
		free(line->function);
		free(line->how);
		free(line);
	}
	tree_done(tree);
}

struct witness_summary *witness_summary_free(struct witness_summary *summary)
{
	if (!summary)
		return NULL;
	for (size_t i = 0; i < summary->functions.count; i++) {
		struct witness_function *function = summary->functions.items[i];

		free(function->name);
		free(function);
	}
	tree_done(&summary->functions);
	lines_done(&summary->sites);
	lines_done(&summary->escaped);
	lines_done(&summary->unpreloaded);
	lines_done(&summary->denied);
	free(summary);
	return NULL;
}

/* ---- finding ---- */

static int order_functions(const void *left, const void *right)
{
	return strcmp(((const struct witness_function *)left)->name,
		      ((const struct witness_function *)right)->name);
}

int witness_order_lines(const void *left, const void *right)
{
	const struct witness_line *a = left, *b = right;
	int order = strcmp(a->function, b->function);

	if (!order)
		order = strcmp(a->how, b->how);
	return order ? order : (a->key > b->key) - (a->key < b->key);
}

static void tree_keep(struct witness_tree *tree, void *item)
{
	tree->items = memory_grow(tree->items, tree->count, &tree->capacity, sizeof(void *));
	tree->items[tree->count++] = item;
}

static struct witness_function *function_of(struct witness_summary *summary, const char *name)
{
	struct witness_function key = {.name = (char *)name}, *function;
	void **node = memory_check(tsearch(&key, &summary->functions.root, order_functions));

	if (*node != &key)
		return *node;
	function = memory_new(sizeof(*function));
	function->name = memory_copy(name);
	*node = function;
	tree_keep(&summary->functions, function);
	return function;
}

#define HASH_START UINT64_C(0xcbf29ce484222325)
#define HASH_STEP  UINT64_C(0x100000001b3)

/* FNV-1a: equal stacks have equal keys, and others of one run do not meet by chance. */
static uint64_t key_of(const struct witness_stack *stack)
{
	uint64_t key = HASH_START;

	for (size_t i = 0; i < stack->count; i++) {
		const struct witness_frame *frame = &stack->frames[i];

		for (const char *c = frame->module ? frame->module : ""; *c; c++)
			key = (key ^ (uint8_t)*c) * HASH_STEP;
		for (unsigned int shift = 0; shift < 64; shift += 8)
			key = (key ^ (frame->offset >> shift & 0xff)) * HASH_STEP;
	}
	return key;
}

static struct witness_line *line_of(struct witness_tree *tree, const char *name, const char *how,
				    const struct witness_stack *stack)
{
	struct witness_line key = {
		.function = (char *)name, .how = (char *)how, .key = key_of(stack)};
	struct witness_line *line;
	void **node = memory_check(tsearch(&key, &tree->root, witness_order_lines));

	if (*node != &key)
		return *node;
	line = memory_new(sizeof(*line));
	line->function = memory_copy(name);
	line->how = memory_copy(how);
	line->key = key.key;
	line->frames = memory_new(stack->count * sizeof(line->frames[0]));
	line->frame_count = stack->count;
	for (size_t i = 0; i < stack->count; i++) {
		const struct witness_frame *from = &stack->frames[i];

		line->frames[i] = (struct witness_frame){
			.module = from->module ? memory_copy(from->module) : NULL,
			.build_id = from->build_id ? memory_copy(from->build_id) : NULL,
			.offset = from->offset,
		};
	}
	*node = line;
	tree_keep(tree, line);
	return line;
}

/* ---- taking in ---- */

/* The wait class of a loop around that call (watch_system_calls.h). */
static enum witness_how loop_of(uint32_t system_call)
{
	switch (system_call) {
		WATCH_YIELD_CALLS(WATCH_CALL_CASE)
		return WITNESS_YIELD;
		WATCH_IOCTL_CALLS(WATCH_CALL_CASE)
		return WITNESS_IOCTL;
		WATCH_FUTEX_CALLS(WATCH_CALL_CASE)
		return WITNESS_FUTEX;
		WATCH_POLL_CALLS(WATCH_CALL_CASE)
		return WITNESS_POLL;
	default:
		return WITNESS_SPIN;
	}
}

/*
 * Time on the processor is that of a loop around a system call, where such calls were made often
 * enough to fill it.
 */
static enum witness_how on_processor(const struct witness_call *call, uint64_t ns)
{
	if (call->system_calls && ns / call->system_calls < LOOP_NS)
		return loop_of(call->system_call);
	if (call->yields && ns / call->yields < LOOP_NS)
		return WITNESS_YIELD;
	return WITNESS_SPIN;
}

void witness_split(const struct witness_call *call, uint64_t ret_ns[WITNESS_HOWS])
{
	uint64_t left =
		call->blocked_ns > call->off_cpu_ns ? call->blocked_ns - call->off_cpu_ns : 0;

	memset(ret_ns, 0, WITNESS_HOWS * sizeof(ret_ns[0]));
	ret_ns[WITNESS_FUTEX] = call->futex_ns;
	ret_ns[WITNESS_POLL] = call->poll_ns;
	ret_ns[WITNESS_IOCTL] = call->ioctl_ns;
	ret_ns[WITNESS_YIELD] = call->yield_ns;
	ret_ns[WITNESS_PREEMPTED] = call->preempted_ns;
	ret_ns[WITNESS_OTHER] = call->other_ns;
	/* The idle cost was taken off the whole: what is left is shared alike. */
	for (int how = 0; call->off_cpu_ns > call->blocked_ns && how < WITNESS_HOWS; how++)
		ret_ns[how] = (uint64_t)((double)ret_ns[how] * (double)call->blocked_ns /
					 (double)call->off_cpu_ns);
	sum_add(&ret_ns[on_processor(call, left)], left);
}

static void add_line(struct witness_line *line, const struct witness_call *call,
		     const uint64_t ns[WITNESS_HOWS])
{
	line->calls++;
	sum_add(&line->call_ns, call->call_ns);
	sum_add(&line->blocked_ns, call->blocked_ns);
	if (call->blocked_ns > line->blocked_max)
		line->blocked_max = call->blocked_ns;
	for (int how = 0; how < WITNESS_HOWS; how++)
		sum_add(&line->ns[how], ns[how]);
}

static void add_function(struct witness_function *function, const struct witness_call *call,
			 const uint64_t ns[WITNESS_HOWS])
{
	unsigned int stream = call->stream_class < WITNESS_STREAM_CLASSES ? call->stream_class : 0;
	unsigned int direction =
		call->direction < WITNESS_DIRECTIONS ? call->direction : WITNESS_DIRECTIONS - 1;

	function->is_called = true;
	function->calls++;
	function->returned += call->returned;
	function->nested += call->nested;
	sum_add(&function->call_ns, call->call_ns);
	sum_add(&function->blocked_ns, call->blocked_ns);
	sum_add(&function->bytes, call->bytes);
	if (call->blocked_ns > function->blocked_max)
		function->blocked_max = call->blocked_ns;
	for (int how = 0; how < WITNESS_HOWS; how++)
		sum_add(&function->ns[how], ns[how]);
	function->streams[stream]++;
	function->direction_calls[direction]++;
	sum_add(&function->direction_bytes[direction], call->bytes);
	sum_add(&function->switches, call->switches);
	sum_add(&function->preemptions, call->preemptions);
	sum_add(&function->yields, call->yields);
	if (call->system_calls > function->system_calls) {
		function->system_calls = call->system_calls;
		function->system_call = call->system_call;
	}
}

void witness_summary_call(struct witness_summary *summary, const struct witness_call *call)
{
	uint64_t ns[WITNESS_HOWS];

	witness_split(call, ns);
	if (call->shim && call->by == WITNESS_BY_PROGRAM)
		add_line(line_of(&summary->escaped, call->function, "", &call->stack), call, ns);
	if (!call->shim && call->by == WITNESS_BY_PROGRAM)
		add_line(line_of(&summary->unpreloaded, call->function, "", &call->stack), call,
			 ns);
	/* Its time is that of the call around it. */
	if (call->by == WITNESS_BY_LIBRARY || call->nested) {
		function_of(summary, call->function)->nested++;
		return;
	}
	add_function(function_of(summary, call->function), call, ns);
	add_line(line_of(&summary->sites, call->function, "", &call->stack), call, ns);
}

/* By enum usdt_how, 0 unknown. */
static const char *claim_words(uint32_t how)
{
	static const char *const words[] = {
		[0] = "rewritten",
		[USDT_REWRITE_HIT] = "served from what is held",
		[USDT_REWRITE_PARKED] = "held back",
		[USDT_REWRITE_STAGED] = "staged",
		[USDT_REWRITE_REDIRECTED] = "redirected",
		[USDT_REWRITE_PARKED_WAITED] = "held back behind a wait",
	};

	return how < ARRAY_SIZE(words) ? words[how] : words[0];
}

void witness_summary_claim(struct witness_summary *summary, const struct witness_claim *claim)
{
	uint64_t worst =
		claim->off_cpu_ns > claim->driver_ns ? claim->off_cpu_ns : claim->driver_ns;
	struct witness_line *line;

	summary->claims++;
	/*
	 * A copy through staging memory waits for what its own stream has before it, as the driver's does; and strict-free asks for
	 * the wait of a free.
	 */
	if (claim->how == USDT_REWRITE_STAGED || claim->how == USDT_REWRITE_PARKED_WAITED ||
	    worst <= WITNESS_CLAIM_NS)
		return;
	line = line_of(&summary->denied, claim->function, claim_words(claim->how), &claim->stack);
	line->calls++;
	sum_add(&line->call_ns, claim->call_ns);
	sum_add(&line->off_cpu_ns, claim->off_cpu_ns);
	sum_add(&line->driver_ns, claim->driver_ns);
	sum_add(&line->blocked_ns, worst);
	if (worst > line->blocked_max)
		line->blocked_max = worst;
}

void witness_summary_count(struct witness_summary *summary, const struct witness_count *count)
{
	struct witness_function *function = function_of(summary, count->function);

	summary->has_counts = true;
	for (int by = 0; by < WITNESS_BYS; by++) {
		sum_add(&function->entries, count->by[by]);
		sum_add(count->shim ? &summary->shim_by[by] : &summary->other_entries,
			count->by[by]);
		if (count->shim)
			sum_add(&function->by[by], count->by[by]);
	}
}

void witness_summary_loss(struct witness_summary *summary, const struct witness_loss *loss)
{
	summary->loss = *loss;
	summary->has_loss = true;
}

bool witness_summary_is_empty(const struct witness_summary *summary)
{
	return !summary->has_loss && !summary->has_counts && !summary->functions.count &&
	       !summary->claims;
}
