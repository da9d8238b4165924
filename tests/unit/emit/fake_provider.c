// SPDX-License-Identifier: MIT
/*
 * A provider without a tracer (test_trace.c): hands every event to a function of the test. Built as it
 * should be, of another build (OTHER_SCHEMA), with another head (OTHER_MAGIC), and as no provider at
 * all (NO_PROVIDER).
 */
#include <stddef.h>
#include <unistd.h>

#include "fake_provider.h"

struct fake_provider fake_provider = {.state = 1};

static bool is_enabled(enum trace_event event)
{
	bool (*function)(enum trace_event) =
		__atomic_load_n(&fake_provider.is_enabled, __ATOMIC_ACQUIRE);

	return function && function(event);
}

#define EVENTS(X)                                                                                  \
	X(def_process, DEF_PROCESS)                                                                \
	X(def_string, DEF_STRING)                                                                  \
	X(def_function, DEF_FUNCTION)                                                              \
	X(def_rule, DEF_RULE)                                                                      \
	X(def_module, DEF_MODULE)                                                                  \
	X(def_site, DEF_SITE)                                                                      \
	X(def_frame, DEF_FRAME)                                                                    \
	X(def_python_frame, DEF_PYTHON_FRAME)                                                      \
	X(def_context, DEF_CONTEXT)                                                                \
	X(def_stream, DEF_STREAM)                                                                  \
	X(def_candidate, DEF_CANDIDATE)                                                            \
	X(def_candidate_set, DEF_CANDIDATE_SET)                                                    \
	X(def_wait, DEF_WAIT)                                                                      \
	X(def_region, DEF_REGION)                                                                  \
	X(def_note, DEF_NOTE)                                                                      \
	X(def_allocation, DEF_ALLOCATION)                                                          \
	X(def_coverage, DEF_COVERAGE)                                                              \
	X(dump_begin, DUMP_BEGIN)                                                                  \
	X(dump_end, DUMP_END)                                                                      \
	X(process_end, PROCESS_END)                                                                \
	X(wait, WAIT)                                                                              \
	X(submit, SUBMIT)                                                                          \
	X(record, RECORD)                                                                          \
	X(stream_wait, STREAM_WAIT)                                                                \
	X(join, JOIN)                                                                              \
	X(completed, COMPLETED)                                                                    \
	X(def_rewrite, DEF_REWRITE)                                                                \
	X(def_rewrite_site, DEF_REWRITE_SITE)                                                      \
	X(real_free, REAL_FREE)                                                                    \
	X(rewritten, REWRITTEN)                                                                    \
	X(def_real_free, DEF_REAL_FREE)                                                            \
	X(order_turn, ORDER_TURN)                                                                  \
	X(order_barrier, ORDER_BARRIER)                                                            \
	X(order_submit, ORDER_SUBMIT)                                                              \
	X(order_end, ORDER_END)                                                                    \
	X(order_stream, ORDER_STREAM)                                                              \
	X(order_return, ORDER_RETURN)                                                              \
	X(def_remark, DEF_REMARK)

#define FUNCTIONS(name, NAME)                                                                      \
	static bool name##_is_enabled(void)                                                        \
	{                                                                                          \
		return is_enabled(TRACE_##NAME);                                                   \
	}                                                                                          \
	static void emit_##name(const void *event)                                                 \
	{                                                                                          \
		fake_provider.take(TRACE_##NAME, event);                                           \
	}
EVENTS(FUNCTIONS)

#define ROW(name, NAME) [TRACE_##NAME] = {&fake_provider.state, name##_is_enabled, emit_##name},
static const struct trace_emitter emitters[TRACE_EVENT_COUNT] = {EVENTS(ROW)};

static uint32_t process(void)
{
	return fake_provider.process ? fake_provider.process : (uint32_t)getpid();
}

static void at_end(void (*function)(void))
{
	fake_provider.end = function;
}

#ifndef NO_PROVIDER
extern const struct trace_provider slipstream_trace_provider;
const struct trace_provider slipstream_trace_provider = {
#ifdef OTHER_MAGIC
	.magic = TRACE_PROVIDER_MAGIC + 1,
#else
	.magic = TRACE_PROVIDER_MAGIC,
#endif
	.event_count = TRACE_EVENT_COUNT,
#ifdef OTHER_SCHEMA
	.schema = TRACE_SCHEMA + 1,
#else
	.schema = TRACE_SCHEMA,
#endif
	.emitters = emitters,
	.process = process,
	.at_end = at_end,
};
#else
extern const void *const fake_parts[];
const void *const fake_parts[] = {emitters, (const void *)process, (const void *)at_end};
#endif
