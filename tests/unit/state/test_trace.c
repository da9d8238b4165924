// SPDX-License-Identifier: MIT
/*
 * What the state room tells the trace at level full, in what order, and under which locks (none): over
 * the fake driver, with a provider that has no tracer. Argument: that provider.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/emit.h"
#include "emit/fake_provider.h"
#include "emit/lock.h"
#include "fake/world.h"
#include "state/internal.h"
#include "state/state.h"

static const char *library;
static char story[4096];
static char contexts[4096]; /* defined: id and device */
static struct fake_provider *fake;

static bool is_enabled(enum trace_event event)
{
	return true;
}

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add(const char *format, ...)
{
	size_t used = strlen(story);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(story + used, sizeof(story) - used, format, arguments);
	va_end(arguments);
	assert_true(strlen(story) < sizeof(story) - 1);
}

static void take(enum trace_event event, const void *payload)
{
	const union trace_payload *of = payload;
	uint32_t i;

	/* A tracer may block: nobody may have to wait for us, or do without a conclusion. */
	assert_int_equal(lock_held, 0);
	for (i = 0; i < stream_count(); i++)
		assert_int_equal(stream_at(i)->joining, 0);
	switch ((int)event) {
	case TRACE_SUBMIT:
		add("submit %u:%u ", of->submit.stream, (unsigned int)of->submit.number);
		break;
	case TRACE_RECORD:
		add("record %u:%u ", of->record.stream, (unsigned int)of->record.number);
		break;
	case TRACE_STREAM_WAIT:
		add("stream_wait %u:%u<%u:%u ", of->stream_wait.stream,
		    (unsigned int)of->stream_wait.number, of->stream_wait.of_stream,
		    (unsigned int)of->stream_wait.of_number);
		break;
	case TRACE_JOIN:
		add("join %u:%u<%u:%u ", of->join.stream, (unsigned int)of->join.number,
		    of->join.of_stream, (unsigned int)of->join.of_number);
		break;
	case TRACE_COMPLETED:
		add("completed %u:%u ", of->completed.stream, (unsigned int)of->completed.number);
		break;
	case TRACE_DEF_CONTEXT:
		snprintf(contexts + strlen(contexts), sizeof(contexts) - strlen(contexts),
			 "%u on %d ", (unsigned int)of->def_context.id, of->def_context.device);
		break;
	default:
		break;
	}
}

/* The legacy stream is number 1, then in the order of creation. */
static int begin(void **state)
{
	int failed;

	config.lttng = library;
	config.level = CONFIG_TRACE_FULL;
	failed = world_begin(state);
	emit_trace_start(state_open_allocations);
	if (!fake) {
		fake = dlsym(dlopen(library, RTLD_NOW), "fake_provider");
		assert_non_null(fake);
		fake->take = take;
		fake->is_enabled = is_enabled;
	}
	assert_true(emit_traces_full());
	world_create_stream(STREAM(1), CU_STREAM_DEFAULT);
	world_create_stream(STREAM(2), CU_STREAM_NON_BLOCKING);
	story[0] = '\0';
	return failed;
}

static void expect(const char *wanted)
{
	assert_string_equal(story, wanted);
	story[0] = '\0';
}

static void test_submissions(void **state)
{
	world_launch(STREAM(1), KERNEL(1));
	world_launch(STREAM(2), KERNEL(1));
	world_launch(STREAM(2), KERNEL(1));
	expect("submit 2:1 submit 3:1 submit 3:2 ");
}

static void test_refused_submission(void **state)
{
	struct call call = world_call(FUNCTION_cuLaunchKernel, STREAM(1));

	state_before(&call);
	state_after(&call, CUDA_ERROR_INVALID_VALUE);
	expect("");
}

static void test_events(void **state)
{
	world_create_event(EVENT(1));
	world_launch(STREAM(1), KERNEL(1));
	world_record(EVENT(1), STREAM(1));
	world_wait_event(STREAM(2), EVENT(1));
	expect("submit 2:1 record 2:1 stream_wait 3:0<2:1 submit 3:1 ");
	world_event_synchronize(EVENT(1));
	expect("completed 2:1 ");
	/* An event that was never recorded holds nobody up. */
	world_create_event(EVENT(2));
	world_wait_event(STREAM(2), EVENT(2));
	expect("submit 3:2 ");
}

static void test_legacy_joins(void **state)
{
	world_launch(STREAM(1), KERNEL(1));
	world_launch(STREAM(2), KERNEL(1));
	world_launch(LEGACY, KERNEL(1));
	expect("submit 2:1 submit 3:1 submit 1:1 join 1:1<2:1 ");
	world_launch(LEGACY, KERNEL(1));
	expect("submit 1:2 ");
	world_launch(STREAM(1), KERNEL(1));
	expect("submit 2:2 join 2:2<1:2 ");
	world_launch(STREAM(2), KERNEL(1));
	expect("submit 3:2 ");
}

/* What a wait proves is told with it: of its own stream, and what legacy order lets conclude. */
static void test_completions(void **state)
{
	world_launch(STREAM(1), KERNEL(1));
	world_launch(LEGACY, KERNEL(1));
	story[0] = '\0';
	world_synchronize(LEGACY);
	assert_non_null(strstr(story, "completed 1:1 "));
	assert_non_null(strstr(story, "completed 2:1 "));
	assert_null(strstr(story, "completed 3:"));
	world_launch(LEGACY, KERNEL(1));
	world_launch(STREAM(1), KERNEL(1));
	story[0] = '\0';
	world_synchronize(STREAM(1));
	assert_non_null(strstr(story, "completed 2:2 "));
	assert_non_null(strstr(story, "completed 1:2 "));
}

/* Queries of --attribute are made under a lock; what they find is told behind it. */
static void test_attribute(void **state)
{
	struct call call;

	config.attribute = true;
	world_query_result = CUDA_SUCCESS;
	world_launch(STREAM(1), KERNEL(1));
	world_launch(STREAM(2), KERNEL(1));
	story[0] = '\0';
	call = world_call(FUNCTION_cuCtxSynchronize, NULL);
	state_before(&call);
	assert_int_equal(call.pending_count, 0);
	assert_non_null(strstr(story, "completed 2:1 "));
	assert_non_null(strstr(story, "completed 3:1 "));
}

/* The end of a context and of streams is under a lock: nothing is told there. */
static void test_ends(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);

	world_launch(STREAM(1), KERNEL(1));
	world_launch(LEGACY, KERNEL(1));
	world_destroy_stream(STREAM(2));
	story[0] = '\0';
	state_before(&call);
	state_context_destroying(&call, (CUcontext)1);
	state_after(&call, CUDA_SUCCESS);
	expect("");
}

/* A context that was just made is the thread's current one: its device is known. */
static void test_contexts(void **state)
{
	struct call call = world_call(FUNCTION_cuCtxCreate_v4, NULL);

	state_before(&call);
	world_context = 2;
	state_context_created(&call, (CUcontext)2);
	state_context_created(&call, (CUcontext)3);
	state_after(&call, CUDA_SUCCESS);
	world_context = 1;
	contexts[0] = '\0';
	world_launch(STREAM(1), KERNEL(1));
	assert_non_null(strstr(contexts, "2 on 0 "));
	assert_non_null(strstr(contexts, "3 on -1 "));
}

/* In parts, as a dump asks for them. */
static void test_all_blocks_are_found(void **state)
{
	struct emit_allocation found[300];
	struct call call = world_call(FUNCTION_cuMemAlloc_v2, NULL);
	uint64_t address = 0, seen = 0;
	size_t count, i;

	state_before(&call);
	for (i = 0; i < 1000; i++)
		state_allocated(&call, MEMORY_DEVICE, 0x100000 + i * 0x1000, 0x800);
	state_freeing(&call, 0x100000 + 500 * 0x1000);
	do {
		count = state_open_allocations(address, found, 300);
		for (i = 0; i < count; i++) {
			assert_true(found[i].address > address);
			assert_true(found[i].bytes == 0x800 && found[i].memory == MEMORY_DEVICE);
			address = found[i].address;
			seen++;
		}
	} while (count);
	assert_int_equal(seen, 999);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup(test_##name, begin)
	const struct CMUnitTest tests[] = {
		TEST(submissions),  TEST(refused_submission), TEST(events),
		TEST(legacy_joins), TEST(completions),        TEST(attribute),
		TEST(ends),         TEST(contexts),           TEST(all_blocks_are_found),
	};

	if (argc != 2)
		return 2;
	library = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
