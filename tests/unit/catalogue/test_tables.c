// SPDX-License-Identifier: MIT
/*
 * The generated tables: each cell of the table measured on an H200 (host time of a call while a 2
 * ms kernel runs) comes out of the rules, and without any one of these rules at least one cell
 * would come out wrong.
 *
 * A wait is predicted by a rule of confidence measured or documented whose `when` holds and whose
 * scope holds the busy stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "state/launch.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define KIB               1024u
#define MIB               (1024u * 1024u)

/* One line of the measured table; the call is on NULL unless `own` says that it is on the stream
 * given. */
struct line {
	const char *label;
	int function, function_after; /* -1: none */
	enum memory_kind source, destination;
	uint64_t bytes, subject;
	enum stream_kind on;
	bool waits[3]; /* kernel on NULL, on a blocking stream, on a non-blocking stream */
};

static const enum stream_kind busy_kinds[3] = {STREAM_LEGACY, STREAM_BLOCKING, STREAM_NON_BLOCKING};

#define NO -1
#define YES_YES_NO                                                                                 \
	{                                                                                          \
		true, true, false                                                                  \
	}
#define NEVER                                                                                      \
	{                                                                                          \
		false, false, false                                                                \
	}
#define ALWAYS                                                                                     \
	{                                                                                          \
		true, true, true                                                                   \
	}
#define OWN                                                                                        \
	{                                                                                          \
		false, false, true                                                                 \
	}

static const struct line measured[] = {
	{"cuMemcpyHtoD pageable 4 KiB", FUNCTION_cuMemcpyHtoD_v2, NO, MEMORY_PAGEABLE,
	 MEMORY_DEVICE, 4 * KIB, 0, STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpyHtoD pageable 1 MiB", FUNCTION_cuMemcpyHtoD_v2, NO, MEMORY_PAGEABLE,
	 MEMORY_DEVICE, MIB, 0, STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpyHtoD pinned 1 MiB", FUNCTION_cuMemcpyHtoD_v2, NO, MEMORY_PINNED, MEMORY_DEVICE,
	 MIB, 0, STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpyDtoH pageable 4 KiB", FUNCTION_cuMemcpyDtoH_v2, NO, MEMORY_DEVICE,
	 MEMORY_PAGEABLE, 4 * KIB, 0, STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpyDtoD 1 MiB", FUNCTION_cuMemcpyDtoD_v2, NO, MEMORY_DEVICE, MEMORY_DEVICE, MIB, 0,
	 STREAM_LEGACY, NEVER},
	{"cuMemsetD8 device 1 MiB", FUNCTION_cuMemsetD8_v2, NO, MEMORY_NONE, MEMORY_DEVICE, MIB, 0,
	 STREAM_LEGACY, NEVER},
	{"cuMemsetD8 pinned", FUNCTION_cuMemsetD8_v2, NO, MEMORY_NONE, MEMORY_PINNED, MIB, 0,
	 STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpyHtoDAsync pageable 4 KiB, non-blocking", FUNCTION_cuMemcpyHtoDAsync_v2, NO,
	 MEMORY_PAGEABLE, MEMORY_DEVICE, 4 * KIB, 0, STREAM_NON_BLOCKING, NEVER},
	{"cuMemcpyHtoDAsync pageable 1 MiB, non-blocking", FUNCTION_cuMemcpyHtoDAsync_v2, NO,
	 MEMORY_PAGEABLE, MEMORY_DEVICE, MIB, 0, STREAM_NON_BLOCKING, NEVER},
	{"cuMemcpyHtoDAsync pageable 16 MiB, non-blocking", FUNCTION_cuMemcpyHtoDAsync_v2, NO,
	 MEMORY_PAGEABLE, MEMORY_DEVICE, 16 * MIB, 0, STREAM_NON_BLOCKING, OWN},
	{"cuMemcpyDtoHAsync pageable 4 KiB, non-blocking", FUNCTION_cuMemcpyDtoHAsync_v2, NO,
	 MEMORY_DEVICE, MEMORY_PAGEABLE, 4 * KIB, 0, STREAM_NON_BLOCKING, OWN},
	{"cuMemcpyDtoHAsync pageable 1 MiB, non-blocking", FUNCTION_cuMemcpyDtoHAsync_v2, NO,
	 MEMORY_DEVICE, MEMORY_PAGEABLE, MIB, 0, STREAM_NON_BLOCKING, OWN},
	{"cuMemcpyHtoDAsync pinned 1 MiB, non-blocking", FUNCTION_cuMemcpyHtoDAsync_v2, NO,
	 MEMORY_PINNED, MEMORY_DEVICE, MIB, 0, STREAM_NON_BLOCKING, NEVER},
	{"cuMemAlloc + cuMemFree 1 MiB", FUNCTION_cuMemAlloc_v2, FUNCTION_cuMemFree_v2,
	 MEMORY_DEVICE, MEMORY_NONE, MIB, 4096, STREAM_UNKNOWN, ALWAYS},
	{"cuMemAlloc 256 MiB", FUNCTION_cuMemAlloc_v2, NO, MEMORY_NONE, MEMORY_NONE, 256 * MIB, 0,
	 STREAM_UNKNOWN, NEVER},
	{"cuMemHostAlloc 1 MiB", FUNCTION_cuMemHostAlloc, NO, MEMORY_NONE, MEMORY_NONE, MIB, 0,
	 STREAM_UNKNOWN, NEVER},
	{"cuMemHostAlloc + cuMemFreeHost 1 MiB", FUNCTION_cuMemHostAlloc, FUNCTION_cuMemFreeHost,
	 MEMORY_NONE, MEMORY_NONE, MIB, 4096, STREAM_UNKNOWN, ALWAYS},
	{"cuMemHostRegister + Unregister 1 MiB", FUNCTION_cuMemHostRegister_v2,
	 FUNCTION_cuMemHostUnregister, MEMORY_NONE, MEMORY_NONE, MIB, 4096, STREAM_UNKNOWN, ALWAYS},
	{"cuStreamCreate + Destroy", FUNCTION_cuStreamCreate, FUNCTION_cuStreamDestroy_v2,
	 MEMORY_NONE, MEMORY_NONE, 0, 0, STREAM_UNKNOWN, NEVER},
	{"cuEventCreate + Destroy", FUNCTION_cuEventCreate, FUNCTION_cuEventDestroy_v2, MEMORY_NONE,
	 MEMORY_NONE, 0, 0, STREAM_UNKNOWN, NEVER},
	{"cuLaunchKernel on NULL", FUNCTION_cuLaunchKernel, NO, MEMORY_NONE, MEMORY_NONE, 0, 4096,
	 STREAM_LEGACY, NEVER},
	{"cuCtxSetLimit(STACK_SIZE)", FUNCTION_cuCtxSetLimit, NO, MEMORY_NONE, MEMORY_NONE, 0,
	 CU_LIMIT_STACK_SIZE, STREAM_UNKNOWN, ALWAYS},
	{"cuPointerGetAttribute", FUNCTION_cuPointerGetAttribute, NO, MEMORY_NONE, MEMORY_NONE, 0,
	 0, STREAM_UNKNOWN, NEVER},
	/* The NULL-stream facts of the same page. */
	{"cuStreamQuery(NULL)", FUNCTION_cuStreamQuery, NO, MEMORY_NONE, MEMORY_NONE, 0, 0,
	 STREAM_LEGACY, NEVER},
	{"cuStreamSynchronize(NULL)", FUNCTION_cuStreamSynchronize, NO, MEMORY_NONE, MEMORY_NONE, 0,
	 0, STREAM_LEGACY, YES_YES_NO},
	{"cuGraphLaunch(NULL)", FUNCTION_cuGraphLaunch, NO, MEMORY_NONE, MEMORY_NONE, 0, 4096,
	 STREAM_LEGACY, NEVER},
	{"cuMemFreeAsync(p, NULL)", FUNCTION_cuMemFreeAsync, NO, MEMORY_NONE, MEMORY_NONE, 0, 4096,
	 STREAM_LEGACY, NEVER},
	/* And what the text adds to them. */
	{"cuMemFree of pool memory", FUNCTION_cuMemFree_v2, NO, MEMORY_POOL, MEMORY_NONE, 0, 4096,
	 STREAM_UNKNOWN, NEVER},
	{"cuMemFree(0)", FUNCTION_cuMemFree_v2, NO, MEMORY_NONE, MEMORY_NONE, 0, 0, STREAM_UNKNOWN,
	 NEVER},
	{"cuMemFreeHost(NULL)", FUNCTION_cuMemFreeHost, NO, MEMORY_NONE, MEMORY_NONE, 0, 0,
	 STREAM_UNKNOWN, NEVER},
	{"cuCtxSetLimit(PRINTF_FIFO_SIZE)", FUNCTION_cuCtxSetLimit, NO, MEMORY_NONE, MEMORY_NONE, 0,
	 CU_LIMIT_PRINTF_FIFO_SIZE, STREAM_UNKNOWN, NEVER},
	{"cuCtxSynchronize", FUNCTION_cuCtxSynchronize, NO, MEMORY_NONE, MEMORY_NONE, 0, 0,
	 STREAM_UNKNOWN, ALWAYS},
	{"cuMemcpy between host buffers", FUNCTION_cuMemcpy, NO, MEMORY_PAGEABLE, MEMORY_PAGEABLE,
	 4 * KIB, 0, STREAM_LEGACY, YES_YES_NO},
	{"cuMemcpy between device buffers", FUNCTION_cuMemcpy, NO, MEMORY_DEVICE, MEMORY_DEVICE,
	 4 * KIB, 0, STREAM_LEGACY, NEVER},
};

static struct call call_of(const struct line *line, int function)
{
	const struct catalogue_row *row = &catalogue_rows[function];
	struct call call;

	memset(&call, 0, sizeof(call));
	call.function = (uint16_t)function;
	call.stream_form = row->stream_form;
	call.flags = row->flags & CATALOGUE_ASYNC ? CALL_ASYNC : 0;
	call.source_kind = (uint8_t)line->source;
	call.destination_kind = (uint8_t)line->destination;
	call.bytes = line->bytes;
	call.subject = line->subject;
	call.stream_kind = line->on;
	return call;
}

static bool in_scope(unsigned int scope, enum stream_kind on, enum stream_kind busy)
{
	bool legacy_group =
		busy == STREAM_LEGACY || busy == STREAM_BLOCKING || busy == STREAM_PER_THREAD;

	switch (scope) {
	case CATALOGUE_SCOPE_STREAM:
		return on == busy || (on == STREAM_LEGACY && legacy_group);
	case CATALOGUE_SCOPE_LEGACY:
		return legacy_group;
	case CATALOGUE_SCOPE_CONTEXT:
	case CATALOGUE_SCOPE_DEVICE:
		return true;
	default:
		return false;
	}
}

/* The rule that predicts a wait of the host, or -1. */
static int predicted(const struct line *line, int function, enum stream_kind busy, int without)
{
	struct call call = call_of(line, function);

	for (const uint8_t *number = catalogue_rows[function].rules; *number; number++) {
		const struct catalogue_rule *rule = &catalogue_rules[*number - 1];

		if (*number - 1 == without || rule->wait_class == WAIT_DEVICE || !rule->measured)
			continue;
		if (rule->when(&call) && in_scope(rule->scope, line->on, busy))
			return *number - 1;
	}
	return -1;
}

static int wrong_cells(int without, bool print)
{
	int wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(measured); i++) {
		const struct line *line = &measured[i];

		for (int kind = 0; kind < 3; kind++) {
			bool waits =
				predicted(line, line->function, busy_kinds[kind], without) >= 0 ||
				(line->function_after >= 0 &&
				 predicted(line, line->function_after, busy_kinds[kind], without) >=
					 0);

			if (waits == line->waits[kind])
				continue;
			wrong++;
			if (print)
				print_error("%s, kernel on stream kind %d: %s\n", line->label,
					    busy_kinds[kind], waits ? "waits" : "does not wait");
		}
	}
	return wrong;
}

static void test_measured_table(void **state)
{
	assert_int_equal(wrong_cells(-1, true), 0);
}

/* Each of these rules is needed: off, the table comes out wrong. */
static void test_every_rule_counts(void **state)
{
	static const int rules[] = {
		RULE_PAGEABLE_H2D,
		RULE_PINNED_H2D,
		RULE_D2H,
		RULE_PAGEABLE_H2D_ASYNC,
		RULE_PAGEABLE_D2H_ASYNC,
		RULE_MEMSET_HOST,
		RULE_FREE_DRAINS_DEVICE,
		RULE_HOST_FREE_DRAINS_DEVICE,
		RULE_UNREGISTER_DRAINS_DEVICE,
		RULE_STACK_LIMIT,
		RULE_CONTEXT_SYNCHRONIZE,
		RULE_STREAM_SYNCHRONIZE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		if (wrong_cells(rules[i], false) == 0)
			fail_msg("the table does not need rule %s", catalogue_rules[rules[i]].slug);
	}
}

/* Which rule explains which call. */
static void test_rule_names(void **state)
{
	static const struct {
		const char *label, *slug;
	} expected[] = {
		{"cuMemcpyHtoD pageable 4 KiB", "pageable-h2d"},
		{"cuMemcpyHtoD pinned 1 MiB", "pinned-h2d"},
		{"cuMemcpyDtoH pageable 4 KiB", "d2h"},
		{"cuMemsetD8 pinned", "memset-host"},
		{"cuCtxSetLimit(STACK_SIZE)", "stack-limit"},
		{"cuStreamSynchronize(NULL)", "stream-synchronize"},
		{"cuMemcpy between host buffers", "h2h"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(measured); j++) {
			int rule;

			if (strcmp(expected[i].label, measured[j].label) != 0)
				continue;
			rule = predicted(&measured[j], measured[j].function, STREAM_LEGACY, -1);
			assert_true(rule >= 0);
			assert_string_equal(catalogue_rules[rule].slug, expected[i].slug);
			break;
		}
	}
}

static bool has_rule(int function, int rule)
{
	for (const uint8_t *number = catalogue_rows[function].rules; *number; number++) {
		if (*number - 1 == rule)
			return true;
	}
	return false;
}

static void test_legacy_join(void **state)
{
	const struct catalogue_rule *rule = &catalogue_rules[RULE_LEGACY_JOIN];
	struct call call;

	memset(&call, 0, sizeof(call));
	assert_int_equal(rule->wait_class, WAIT_DEVICE);
	assert_int_equal(rule->scope, CATALOGUE_SCOPE_JOIN);
	call.stream_kind = STREAM_LEGACY;
	assert_true(rule->when(&call));
	call.stream_kind = STREAM_BLOCKING;
	assert_true(rule->when(&call));
	call.stream_kind = STREAM_PER_THREAD;
	assert_true(rule->when(&call));
	call.stream_kind = STREAM_NON_BLOCKING;
	assert_false(rule->when(&call));
	call.stream_kind = STREAM_BLOCKING;
	call.flags = CALL_CAPTURED;
	assert_false(rule->when(&call));
	assert_true(has_rule(FUNCTION_cuLaunchKernel, RULE_LEGACY_JOIN));
	assert_true(has_rule(FUNCTION_cuLaunchKernel_ptsz, RULE_LEGACY_JOIN));
	assert_true(has_rule(FUNCTION_cuEventRecord, RULE_LEGACY_JOIN));
	assert_false(has_rule(FUNCTION_cuEventQuery, RULE_LEGACY_JOIN));
}

static void test_conditions(void **state)
{
	struct call call;

	memset(&call, 0, sizeof(call));
	assert_false(catalogue_rules[RULE_LAZY_LOAD].when(&call));
	assert_false(catalogue_rules[RULE_SYNC_MEMOPS].when(&call));
	call.flags = CALL_FIRST_USE | CALL_SYNC_MEMOPS;
	assert_true(catalogue_rules[RULE_LAZY_LOAD].when(&call));
	assert_true(catalogue_rules[RULE_SYNC_MEMOPS].when(&call));
	call.flags |= CALL_ASYNC;
	assert_false(catalogue_rules[RULE_SYNC_MEMOPS].when(&call));
	call.subject = CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
	assert_true(catalogue_rules[RULE_SYNC_MEMOPS_SET].when(&call));
	call.subject = CU_POINTER_ATTRIBUTE_CONTEXT;
	assert_false(catalogue_rules[RULE_SYNC_MEMOPS_SET].when(&call));
	call.subject = CU_CTX_SYNC_MEMOPS | CU_CTX_MAP_HOST;
	assert_true(catalogue_rules[RULE_SYNC_MEMOPS_CONTEXT].when(&call));
	call.subject = CU_CTX_MAP_HOST;
	assert_false(catalogue_rules[RULE_SYNC_MEMOPS_CONTEXT].when(&call));
	call.source_kind = MEMORY_PAGEABLE;
	call.bytes = MIB;
	assert_false(catalogue_rules[RULE_PAGEABLE_H2D_ASYNC].when(&call));
	call.bytes = MIB + 1;
	assert_true(catalogue_rules[RULE_PAGEABLE_H2D_ASYNC].when(&call));
}

static void test_tables_are_whole(void **state)
{
	assert_true(FUNCTION_WRAPPED_COUNT > 400);
	assert_true(FUNCTION_WRAPPED_COUNT <= FUNCTION_COUNT);
	assert_true(catalogue_id != 0);
	for (int i = 0; i < FUNCTION_COUNT; i++) {
		assert_non_null(function_names[i]);
		assert_non_null(catalogue_rows[i].rules);
		assert_int_equal(catalogue_function(function_names[i]), i);
		for (const uint8_t *number = catalogue_rows[i].rules; *number; number++) {
			assert_true(i < FUNCTION_WRAPPED_COUNT);
			assert_true(*number <= RULE_COUNT);
			assert_int_equal(catalogue_rows[i].level, CATALOGUE_LEVEL_FULL);
		}
		/* The per-thread form of a function has its facts. */
		if (i < FUNCTION_WRAPPED_COUNT) {
			char name[128];
			int form;

			snprintf(name, sizeof(name), "%s_ptsz", function_names[i]);
			form = catalogue_function(name);
			if (form >= 0) {
				assert_int_equal(catalogue_rows[form].stream_form,
						 catalogue_rows[i].stream_form);
				assert_ptr_equal(catalogue_rows[form].rules,
						 catalogue_rows[i].rules);
			}
		}
	}
	for (int i = 0; i < RULE_COUNT; i++) {
		assert_non_null(catalogue_rules[i].slug);
		assert_non_null(catalogue_rules[i].cause);
		assert_non_null(catalogue_rules[i].when);
		assert_in_range(catalogue_rules[i].wait_class, WAIT_EXPLICIT, WAIT_ORDER);
		assert_true(!(catalogue_rules[i].flags & RECORD_RULE_OWN_COST) ||
			    catalogue_rules[i].scope == CATALOGUE_SCOPE_HOST);
	}
}

static uint32_t held_one_by_one(const struct call *call)
{
	const uint8_t *rules = catalogue_rows[call->function].rules;
	uint32_t held = CATALOGUE_HELD_KNOWN;

	for (unsigned int i = 0; rules[i]; i++) {
		const struct catalogue_rule *rule = &catalogue_rules[rules[i] - 1];

		assert_true(i < 16);
		if (!rule->when(call))
			continue;
		held |= 1U << i | 1U << rule->scope << CATALOGUE_HELD_SCOPE_SHIFT;
		if (rule->wait_class == WAIT_EXPLICIT)
			held |= CATALOGUE_HELD_EXPLICIT;
	}
	return held;
}

/* What a row's function says of a call is what the conditions of its rules say one by one. */
static void test_held(void **state)
{
	static const uint64_t subjects[] = {0, CU_LIMIT_STACK_SIZE, CU_CTX_SYNC_MEMOPS,
					    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS};
	uint32_t seed = 1;
	struct call call;

	memset(&call, 0, sizeof(call));
	for (int i = 0; i < FUNCTION_COUNT; i++) {
		for (int times = 0; times < 1000; times++) {
			seed = seed * 1664525 + 1013904223;
			call.function = (uint16_t)i;
			call.flags = (uint16_t)(seed >> 8);
			call.source_kind = (uint8_t)((seed >> 4) % MEMORY_KIND_COUNT);
			call.destination_kind = (uint8_t)((seed >> 13) % MEMORY_KIND_COUNT);
			call.bytes = seed & 0x10000 ? 4096 : 4 << 20;
			call.subject = subjects[seed >> 18 & 3];
			call.stream_kind = (seed >> 20) % 5;
			call.backlog = seed & 0x800000 ? 500 : 0;
			assert_int_equal(catalogue_rows[i].held(&call), held_one_by_one(&call));
		}
	}
}

static void test_look_up(void **state)
{
	assert_int_equal(catalogue_function("cuInit"), FUNCTION_cuInit);
	assert_int_equal(catalogue_function("cuGLInit"), FUNCTION_cuGLInit);
	assert_true(FUNCTION_cuGLInit >= FUNCTION_WRAPPED_COUNT);
	assert_int_equal(catalogue_function(""), -1);
	assert_int_equal(catalogue_function("cuIni"), -1);
	assert_int_equal(catalogue_function("cuInitX"), -1);
	assert_int_equal(catalogue_function("cublasCreate"), -1);
	assert_int_equal(catalogue_function("\377"), -1);
}

static void test_facts(void **state)
{
	const struct catalogue_row *row = &catalogue_rows[FUNCTION_cuLaunchKernel];

	assert_int_equal(row->kind, CATALOGUE_KIND_LAUNCH);
	assert_int_equal(row->stream_form, CALL_STREAM_ARGUMENT);
	assert_int_equal(row->submits, OPERATION_KERNEL);
	assert_int_equal(row->barrier, CATALOGUE_BARRIER_JOIN);
	assert_int_equal(row->idle_fixed_ns, 4000);
	assert_int_equal(row->flags, CATALOGUE_ASYNC | CATALOGUE_CAPTURABLE);
	row = &catalogue_rows[FUNCTION_cuMemcpyHtoD_v2_ptds];
	assert_int_equal(row->stream_form, CALL_STREAM_IMPLICIT);
	assert_int_equal(row->submits, OPERATION_COPY);
	assert_int_equal(row->flags, CATALOGUE_SIZED);
	assert_int_equal(row->idle_ps_per_byte, 98); /* 100 ns a KiB */
	row = &catalogue_rows[FUNCTION_cuMemFree_v2];
	assert_int_equal(row->flags, CATALOGUE_HAS_BEFORE | CATALOGUE_HAS_RESULT);
	row = &catalogue_rows[FUNCTION_cuCtxGetCurrent];
	assert_int_equal(row->level, CATALOGUE_LEVEL_COUNT);
	assert_int_equal(row->rules[0], 0);
}

/* What a call makes is told by its row: the address is known only when it has returned. */
static void test_memory_that_calls_make(void **state)
{
	assert_int_equal(catalogue_rows[FUNCTION_cuMemHostAlloc].makes, MEMORY_PINNED);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemHostRegister_v2].makes, MEMORY_REGISTERED);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemAlloc_v2].makes, MEMORY_DEVICE);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemAllocManaged].makes, MEMORY_MANAGED);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemAllocAsync].makes, MEMORY_POOL);
	assert_int_equal(catalogue_rows[FUNCTION_cuIpcOpenMemHandle_v2].makes, MEMORY_DEVICE);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemPoolImportPointer].makes, MEMORY_POOL);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemFree_v2].makes, MEMORY_NONE);
	assert_int_equal(catalogue_rows[FUNCTION_cuMemcpyHtoD_v2].makes, MEMORY_NONE);
}

/* A rule that waits, and behind it the one for what is slow with nothing to wait for. */
static void test_own_work_behind_waits(void **state)
{
	static const struct {
		int function, waits, own;
	} rows[] = {
		{FUNCTION_cuCtxDestroy_v2, RULE_CONTEXT_DESTROY, RULE_TEARDOWN},
		{FUNCTION_cuDevicePrimaryCtxRelease_v2, RULE_CONTEXT_DESTROY, RULE_TEARDOWN},
		{FUNCTION_cuModuleUnload, RULE_MODULE_UNLOAD, RULE_TEARDOWN},
		{FUNCTION_cuMemUnmap, RULE_VMM_UNMAP, RULE_TEARDOWN},
		{FUNCTION_cuCtxSetLimit, RULE_STACK_LIMIT, RULE_STACK_RESIZE},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint8_t *rules = catalogue_rows[rows[i].function].rules;

		assert_int_equal(rules[0], rows[i].waits + 1);
		assert_int_equal(rules[1], rows[i].own + 1);
		assert_false(catalogue_rules[rows[i].waits].flags & RECORD_RULE_OWN_COST);
		assert_true(catalogue_rules[rows[i].own].flags & RECORD_RULE_OWN_COST);
	}
	assert_true(has_rule(FUNCTION_cuStreamCreate, RULE_STREAM_CREATE));
	assert_true(catalogue_rules[RULE_STREAM_CREATE].flags & RECORD_RULE_OWN_COST);
	assert_true(catalogue_rules[RULE_DEVICE_ALLOC].flags & RECORD_RULE_OWN_COST);
}

/* A thousand operations fill a queue; what is only held up is something else. */
static void test_queue_full_needs_a_backlog(void **state)
{
	struct call call;

	memset(&call, 0, sizeof(call));
	call.backlog = 499;
	assert_false(catalogue_rules[RULE_QUEUE_FULL].when(&call));
	call.backlog = 500;
	assert_true(catalogue_rules[RULE_QUEUE_FULL].when(&call));
	assert_int_equal(catalogue_rules[RULE_QUEUE_FULL].scope, CATALOGUE_SCOPE_STREAM);
}

/* The short way of a launch takes a queue below LAUNCH_SHORT_QUEUE for one that no rule asks for: neither more nor less. */
static void test_short_queue_is_where_a_backlog_begins(void **state)
{
	struct call call, idle;

	memset(&call, 0, sizeof(call));
	memset(&idle, 0, sizeof(idle));
	call.backlog = LAUNCH_SHORT_QUEUE - 1;
	for (int i = 0; i < RULE_COUNT; i++)
		assert_int_equal(catalogue_rules[i].when(&call), catalogue_rules[i].when(&idle));
	call.backlog = LAUNCH_SHORT_QUEUE;
	assert_true(catalogue_rules[RULE_QUEUE_FULL].when(&call));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_measured_table),
		cmocka_unit_test(test_every_rule_counts),
		cmocka_unit_test(test_rule_names),
		cmocka_unit_test(test_legacy_join),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_tables_are_whole),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_look_up),
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_memory_that_calls_make),
		cmocka_unit_test(test_own_work_behind_waits),
		cmocka_unit_test(test_queue_full_needs_a_backlog),
		cmocka_unit_test(test_short_queue_is_where_a_backlog_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
