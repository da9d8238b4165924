// SPDX-License-Identifier: MIT
/*
 * Summary of witnessed calls (witness_summary.h). Lines are found by their content in trees, and sorted
 * when they are written.
 */
#include "witness_summary.h"

#include <search.h>
#include <sys/syscall.h>

#include "memory.h"
#include "sum.h"
#include "text.h"

/* On the processor, a loop around a system call makes one at least this often. */
#define LOOP_NS UINT64_C(20000)

#define CLAIM_STAGED 3 /* USDT_REWRITE_STAGED */

const char *const witness_how_names[WITNESS_HOWS] = {
	[WITNESS_SPIN] = "spin",   [WITNESS_YIELD] = "yield", [WITNESS_POLL] = "poll",
	[WITNESS_FUTEX] = "futex", [WITNESS_IOCTL] = "ioctl", [WITNESS_PREEMPTED] = "preempted",
	[WITNESS_OTHER] = "other",
};
static const char *const stream_names[WITNESS_STREAM_CLASSES] = {"none", "legacy", "per_thread",
								 "other"};
static const char *const direction_names[WITNESS_DIRECTIONS] = {"none", "h2d", "d2h",
								"d2d",  "h2h", "unknown"};

/* Calls of one function from one place, in one of three lists. */
struct line {
	char *function, *how; /* how: of a claim; else "" */
	uint64_t key;         /* of the stack */
	struct witness_frame *frames;
	size_t frame_count;
	uint64_t calls, returned, call_ns, call_max, blocked_ns, blocked_max, off_cpu_ns, driver_ns;
	uint64_t ns[WITNESS_HOWS];
};

/* Calls of one function. */
struct function {
	char *name;
	uint64_t calls, returned, nested, call_ns, blocked_ns, blocked_max, bytes;
	uint64_t ns[WITNESS_HOWS];
	uint64_t streams[WITNESS_STREAM_CLASSES];
	uint64_t direction_calls[WITNESS_DIRECTIONS], direction_bytes[WITNESS_DIRECTIONS];
	uint64_t switches, preemptions, yields, entries;
	uint64_t by[WITNESS_BYS]; /* entries in processes with the preload library */
	uint32_t system_call;
	uint64_t system_calls; /* of that one call which made most */
	bool is_called;        /* it has calls with a record */
};

struct tree {
	void *root;
	void **items;
	size_t count, capacity;
};

struct witness_summary {
	struct tree functions;       /* struct function */
	struct tree sites;           /* struct line: all calls that are shown */
	struct tree escaped, denied; /* struct line */
	uint64_t shim_by[WITNESS_BYS], other_entries;
	struct witness_loss loss;
	bool has_loss, has_counts;
	uint64_t claims;
};

struct witness_summary *witness_summary_new(void)
{
	return memory_new(sizeof(struct witness_summary));
}

static void keep_data(void *data)
{
	(void)data;
}

static void tree_done(struct tree *tree)
{
	tdestroy(tree->root, keep_data);
	free(tree->items);
}

static void lines_done(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct line *line = tree->items[i];

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
		struct function *function = summary->functions.items[i];

		free(function->name);
		free(function);
	}
	tree_done(&summary->functions);
	lines_done(&summary->sites);
	lines_done(&summary->escaped);
	lines_done(&summary->denied);
	free(summary);
	return NULL;
}

/* ---- finding ---- */

static int order_functions(const void *left, const void *right)
{
	return strcmp(((const struct function *)left)->name,
		      ((const struct function *)right)->name);
}

static int order_lines(const void *left, const void *right)
{
	const struct line *a = left, *b = right;
	int order = strcmp(a->function, b->function);

	if (!order)
		order = strcmp(a->how, b->how);
	return order ? order : (a->key > b->key) - (a->key < b->key);
}

static void tree_keep(struct tree *tree, void *item)
{
	tree->items = memory_grow(tree->items, tree->count, &tree->capacity, sizeof(void *));
	tree->items[tree->count++] = item;
}

static struct function *function_of(struct witness_summary *summary, const char *name)
{
	struct function key = {.name = (char *)name}, *function;
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

static struct line *line_of(struct tree *tree, const char *name, const char *how,
			    const struct witness_stack *stack)
{
	struct line key = {.function = (char *)name, .how = (char *)how, .key = key_of(stack)};
	struct line *line;
	void **node = memory_check(tsearch(&key, &tree->root, order_lines));

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

static enum witness_how loop_of(uint32_t system_call)
{
	switch (system_call) {
	case SYS_sched_yield:
		return WITNESS_YIELD;
	case SYS_ioctl:
		return WITNESS_IOCTL;
	case SYS_futex:
		return WITNESS_FUTEX;
	case SYS_poll:
	case SYS_ppoll:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_select:
	case SYS_pselect6:
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

static void add_line(struct line *line, const struct witness_call *call,
		     const uint64_t ns[WITNESS_HOWS])
{
	line->calls++;
	line->returned += call->returned;
	sum_add(&line->call_ns, call->call_ns);
	sum_add(&line->blocked_ns, call->blocked_ns);
	if (call->blocked_ns > line->blocked_max)
		line->blocked_max = call->blocked_ns;
	for (int how = 0; how < WITNESS_HOWS; how++)
		sum_add(&line->ns[how], ns[how]);
}

static void add_function(struct function *function, const struct witness_call *call,
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
	/* Its time is that of the call around it. */
	if (call->by == WITNESS_BY_LIBRARY || call->nested) {
		function_of(summary, call->function)->nested++;
		return;
	}
	add_function(function_of(summary, call->function), call, ns);
	add_line(line_of(&summary->sites, call->function, "", &call->stack), call, ns);
}

static const char *claim_words(uint32_t how)
{
	static const char *const words[] = {"rewritten", "served from what is held", "held back",
					    "staged", "redirected"};

	return how < ARRAY_SIZE(words) ? words[how] : words[0];
}

void witness_summary_claim(struct witness_summary *summary, const struct witness_claim *claim)
{
	uint64_t worst =
		claim->off_cpu_ns > claim->driver_ns ? claim->off_cpu_ns : claim->driver_ns;
	struct line *line;

	summary->claims++;
	/* A copy through staging memory waits for what its own stream has before it, as the driver's does. */
	if (claim->how == CLAIM_STAGED || worst <= WITNESS_CLAIM_NS)
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
	struct function *function = function_of(summary, count->function);

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

/* ---- writing ---- */

static void set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, memory_check(value)) ? NULL : object);
}

static void append(json_t *array, json_t *value)
{
	memory_check(json_array_append_new(array, memory_check(value)) ? NULL : array);
}

static json_t *integer(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Foreign text may be anything; JSON is UTF-8. */
static json_t *string(const char *raw)
{
	_cleanup_free_ char *text = NULL;

	if (!raw)
		return json_null();
	text = text_printable(raw, true);
	return json_string(text);
}

static json_t *how_json(const uint64_t ns[WITNESS_HOWS])
{
	json_t *object = memory_check(json_object());

	for (int how = 0; how < WITNESS_HOWS; how++) {
		_cleanup_free_ char *key = memory_format("%s_ns", witness_how_names[how]);

		set(object, key, integer(ns[how]));
	}
	return object;
}

static json_t *frames_json(const struct line *line)
{
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < line->frame_count; i++) {
		json_t *item = memory_check(json_object());

		set(item, "module", string(line->frames[i].module));
		set(item, "build_id", string(line->frames[i].build_id));
		set(item, "offset", integer(line->frames[i].offset));
		append(array, item);
	}
	return array;
}

static json_t *line_json(const struct line *line)
{
	json_t *item = memory_check(json_object());

	set(item, "calls", integer(line->calls));
	set(item, "call_ns", integer(line->call_ns));
	set(item, "blocked_ns", integer(line->blocked_ns));
	set(item, "blocked_max_ns", integer(line->blocked_max));
	set(item, "how", how_json(line->ns));
	set(item, "frames", frames_json(line));
	return item;
}

static int rank_lines(const void *left, const void *right)
{
	const struct line *a = *(const void *const *)left, *b = *(const void *const *)right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->calls != b->calls)
		return a->calls > b->calls ? -1 : 1;
	return order_lines(a, b);
}

static int rank_functions(const void *left, const void *right)
{
	const struct function *a = *(const void *const *)left, *b = *(const void *const *)right;

	if (a->blocked_ns != b->blocked_ns)
		return a->blocked_ns > b->blocked_ns ? -1 : 1;
	if (a->calls != b->calls)
		return a->calls > b->calls ? -1 : 1;
	return strcmp(a->name, b->name);
}

static void **ranked(const struct tree *tree, int (*rank)(const void *left, const void *right))
{
	void **items = memory_new(tree->count * sizeof(*items));

	if (tree->count)
		memcpy(items, tree->items, tree->count * sizeof(*items));
	qsort(items, tree->count, sizeof(*items), rank);
	return items;
}

static json_t *sites_json(const struct witness_summary *summary, const struct function *function)
{
	_cleanup_free_ void **lines = ranked(&summary->sites, rank_lines);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < summary->sites.count; i++)
		if (!strcmp(((const struct line *)lines[i])->function, function->name))
			append(array, line_json(lines[i]));
	return array;
}

static json_t *copies_json(const struct function *function)
{
	json_t *array = memory_check(json_array());

	for (int direction = 1; direction < WITNESS_DIRECTIONS; direction++) {
		json_t *item;

		if (!function->direction_calls[direction])
			continue;
		item = memory_check(json_object());
		set(item, "direction", json_string(direction_names[direction]));
		set(item, "calls", integer(function->direction_calls[direction]));
		set(item, "bytes", integer(function->direction_bytes[direction]));
		append(array, item);
	}
	return array;
}

static json_t *streams_json(const struct function *function)
{
	json_t *object = memory_check(json_object());

	for (int class = 0; class < WITNESS_STREAM_CLASSES; class ++)
		set(object, stream_names[class], integer(function->streams[class]));
	return object;
}

static json_t *function_json(const struct witness_summary *summary, const struct function *function)
{
	json_t *item = memory_check(json_object());

	set(item, "function", string(function->name));
	set(item, "entries", integer(function->entries));
	set(item, "wrapper", integer(function->by[WITNESS_BY_WRAPPER]));
	set(item, "escaped", integer(function->by[WITNESS_BY_PROGRAM]));
	set(item, "calls", integer(function->calls));
	set(item, "returned", integer(function->returned));
	set(item, "nested", integer(function->nested));
	set(item, "call_ns", integer(function->call_ns));
	set(item, "blocked_ns", integer(function->blocked_ns));
	set(item, "blocked_max_ns", integer(function->blocked_max));
	set(item, "bytes", integer(function->bytes));
	set(item, "how", how_json(function->ns));
	set(item, "switches", integer(function->switches));
	set(item, "preemptions", integer(function->preemptions));
	set(item, "yields", integer(function->yields));
	set(item, "system_call",
	    function->system_calls ? integer(function->system_call) : json_null());
	set(item, "system_calls", integer(function->system_calls));
	set(item, "streams", streams_json(function));
	set(item, "copies", copies_json(function));
	set(item, "sites", sites_json(summary, function));
	return item;
}

static json_t *functions_json(const struct witness_summary *summary)
{
	_cleanup_free_ void **functions = ranked(&summary->functions, rank_functions);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < summary->functions.count; i++)
		append(array, function_json(summary, functions[i]));
	return array;
}

static json_t *lines_json(const struct tree *tree, bool claims)
{
	_cleanup_free_ void **lines = ranked(tree, rank_lines);
	json_t *array = memory_check(json_array());

	for (size_t i = 0; i < tree->count; i++) {
		const struct line *line = lines[i];
		json_t *item = line_json(line);

		set(item, "function", string(line->function));
		if (claims) {
			set(item, "claim", string(line->how));
			set(item, "off_cpu_ns", integer(line->off_cpu_ns));
			set(item, "driver_ns", integer(line->driver_ns));
			(void)json_object_del(item, "how");
		}
		append(array, item);
	}
	return array;
}

/*
 * Of the calls that the program made, in processes with the preload library, those of which is known
 * that they came through its wrapper. What the library and the driver call for their own ends is
 * nobody's to cover.
 */
static json_t *coverage_json(const struct witness_summary *summary)
{
	json_t *object = memory_check(json_object());
	uint64_t wrapped = summary->shim_by[WITNESS_BY_WRAPPER], all = wrapped;

	sum_add(&all, summary->shim_by[WITNESS_BY_PROGRAM]);
	sum_add(&all, summary->shim_by[WITNESS_BY_UNKNOWN]);
	set(object, "calls", integer(all));
	set(object, "wrapper", integer(wrapped));
	set(object, "escaped", integer(summary->shim_by[WITNESS_BY_PROGRAM]));
	set(object, "unknown", integer(summary->shim_by[WITNESS_BY_UNKNOWN]));
	set(object, "shim_own", integer(summary->shim_by[WITNESS_BY_SHIM]));
	set(object, "inside_library", integer(summary->shim_by[WITNESS_BY_LIBRARY]));
	set(object, "without_shim", integer(summary->other_entries));
	set(object, "proven", all ? json_real((double)wrapped / (double)all) : json_null());
	return object;
}

static json_t *loss_json(const struct witness_loss *loss)
{
	json_t *object = memory_check(json_object());

	set(object, "records", integer(loss->lost_records));
	set(object, "calls", integer(loss->lost_calls));
	set(object, "deep", integer(loss->deep_calls));
	set(object, "left", integer(loss->left_calls));
	set(object, "late", integer(loss->late_returns));
	set(object, "callers", integer(loss->lost_callers));
	return object;
}

json_t *witness_summary_json(const struct witness_summary *summary)
{
	json_t *object = memory_check(json_object());

	set(object, "processes", integer(summary->loss.processes));
	set(object, "entries", integer(summary->loss.entries));
	set(object, "records", integer(summary->loss.records));
	set(object, "least_ns", integer(summary->loss.least_ns));
	set(object, "lost", loss_json(&summary->loss));
	set(object, "functions", functions_json(summary));
	set(object, "coverage", coverage_json(summary));
	set(object, "escaped", lines_json(&summary->escaped, false));
	set(object, "claims", integer(summary->claims));
	set(object, "contradicted", lines_json(&summary->denied, true));
	return object;
}
