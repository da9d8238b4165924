// SPDX-License-Identifier: MIT
/*
 * Rows and rules of the unit tests' small catalogue.
 */
#include <string.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "config.h"
#include "driver/driver.h"

struct driver_ops driver;
struct config config = {.mode = CONFIG_OBSERVE, .stack_depth = 32, .threshold_ns = 5000};

void config_tell(void)
{
}

void config_tell_lttng(const char *why)
{
}

void config_tell_deny(const char *why)
{
}

#define NAME(name) [FUNCTION_##name] = #name
const char *const function_names[FUNCTION_COUNT] = {
	NAME(cuModuleUnload),   NAME(cuCtxSynchronize),     NAME(cuEventQuery),
	NAME(cuEventRecord),    NAME(cuEventSynchronize),   NAME(cuLaunchKernel),
	NAME(cuMemAlloc_v2),    NAME(cuMemFree_v2),         NAME(cuMemHostRegister_v2),
	NAME(cuMemcpyDtoH_v2),  NAME(cuMemcpyHtoDAsync_v2), NAME(cuMemcpyHtoD_v2),
	NAME(cuMemsetD8_v2),    NAME(cuStreamCreate),       NAME(cuStreamDestroy_v2),
	NAME(cuStreamQuery),    NAME(cuStreamSynchronize),  NAME(cuStreamWaitEvent),
	NAME(cuThunkOnly),      NAME(cuCtxCreate_v4),       NAME(cuInit),
	NAME(cuModuleLoadData),
};

const uint64_t catalogue_id = UINT64_C(0x1234);

/* For all rows; the real ones have a generated one each. */
static uint32_t held(const struct call *call)
{
	const uint8_t *rules = catalogue_rows[call->function].rules;
	uint32_t found = CATALOGUE_HELD_KNOWN, i;

	for (i = 0; rules[i]; i++) {
		const struct catalogue_rule *rule = &catalogue_rules[rules[i] - 1];

		if (!rule->when(call))
			continue;
		found |= 1U << i | 1U << rule->scope << CATALOGUE_HELD_SCOPE_SHIFT;
		if (rule->wait_class == WAIT_EXPLICIT)
			found |= CATALOGUE_HELD_EXPLICIT;
	}
	return found;
}

#define RULES(...) ((const uint8_t[]){__VA_ARGS__, 0})
#define NO_RULES   ((const uint8_t[]){0})

#define ROW(name, kind_, level_, form, flags_, submits_, ...)                                      \
	[FUNCTION_##name] = {                                                                      \
		.kind = CATALOGUE_KIND_##kind_,                                                    \
		.level = CATALOGUE_LEVEL_##level_,                                                 \
		.stream_form = CALL_STREAM_##form,                                                 \
		.flags = flags_,                                                                   \
		.submits = OPERATION_##submits_,                                                   \
		.held = held,                                                                      \
		.rules = __VA_ARGS__,                                                              \
	}

const struct catalogue_row catalogue_rows[FUNCTION_COUNT] = {
	ROW(cuCtxSynchronize, WAIT, FULL, CONTEXT, 0, UNKNOWN, RULES(RULE_CONTEXT_SYNCHRONIZE + 1)),
	ROW(cuCtxCreate_v4, CONTEXT, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuInit, INIT, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuModuleLoadData, MODULE, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuEventQuery, QUERY, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuEventRecord, EVENT, TIMED, ARGUMENT, CATALOGUE_CAPTURABLE, UNKNOWN, NO_RULES),
	ROW(cuEventSynchronize, WAIT, FULL, NONE, 0, UNKNOWN, RULES(RULE_EVENT_SYNCHRONIZE + 1)),
	ROW(cuLaunchKernel, LAUNCH, FULL, ARGUMENT, CATALOGUE_ASYNC | CATALOGUE_CAPTURABLE, KERNEL,
	    RULES(RULE_FIRST_USE + 1, RULE_QUEUE_FULL + 1, RULE_LEGACY_JOIN + 1)),
	ROW(cuMemAlloc_v2, ALLOC, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuMemFree_v2, FREE, FULL, NONE, 0, UNKNOWN, RULES(RULE_FREE_DRAINS_DEVICE + 1)),
	ROW(cuMemHostRegister_v2, REGISTER, TIMED, NONE, 0, UNKNOWN, RULES(RULE_PINNING + 1)),
	ROW(cuMemcpyDtoH_v2, COPY, FULL, IMPLICIT, 0, COPY,
	    RULES(RULE_D2H + 1, RULE_LEGACY_JOIN + 1)),
	ROW(cuMemcpyHtoDAsync_v2, COPY, FULL, ARGUMENT, CATALOGUE_ASYNC | CATALOGUE_CAPTURABLE,
	    COPY, RULES(RULE_LEGACY_JOIN + 1)),
	ROW(cuMemcpyHtoD_v2, COPY, FULL, IMPLICIT, 0, COPY,
	    RULES(RULE_PAGEABLE_H2D + 1, RULE_LEGACY_JOIN + 1)),
	ROW(cuMemsetD8_v2, MEMSET, FULL, IMPLICIT, 0, MEMSET, RULES(RULE_LEGACY_JOIN + 1)),
	ROW(cuModuleUnload, MODULE, FULL, CONTEXT, 0, UNKNOWN,
	    RULES(RULE_FREE_DRAINS_DEVICE + 1, RULE_TEARDOWN + 1)),
	[FUNCTION_cuMemAlloc_v2].makes = MEMORY_DEVICE,
	[FUNCTION_cuMemcpyDtoH_v2].idle_fixed_ns = 10000,
	[FUNCTION_cuMemcpyDtoH_v2].idle_ps_per_byte = 122,
	ROW(cuStreamCreate, STREAM, TIMED, NONE, 0, UNKNOWN, NO_RULES),
	ROW(cuStreamDestroy_v2, STREAM, TIMED, ARGUMENT, 0, UNKNOWN, NO_RULES),
	ROW(cuStreamQuery, QUERY, TIMED, ARGUMENT, 0, UNKNOWN, NO_RULES),
	ROW(cuStreamSynchronize, WAIT, FULL, ARGUMENT, 0, UNKNOWN,
	    RULES(RULE_STREAM_SYNCHRONIZE + 1)),
	ROW(cuStreamWaitEvent, EVENT, TIMED, ARGUMENT, CATALOGUE_ASYNC | CATALOGUE_CAPTURABLE,
	    EVENT_WAIT, RULES(RULE_LEGACY_JOIN + 1)),
	[FUNCTION_cuLaunchKernel].idle_fixed_ns = 4000,
	ROW(cuThunkOnly, MISC, COUNT, NONE, 0, UNKNOWN, NO_RULES),
};

static bool always(const struct call *call)
{
	return true;
}

static bool never(const struct call *call)
{
	return false;
}

static bool pageable_source(const struct call *call)
{
	return call->source_kind == MEMORY_PAGEABLE || call->source_kind == MEMORY_UNKNOWN;
}

static bool backlog(const struct call *call)
{
	return call->backlog >= 500;
}

static bool first_use(const struct call *call)
{
	return call->flags & CALL_FIRST_USE;
}

#define RULE(name, slug_, class_, scope_, flags_, minimum, when_)                                  \
	[RULE_##name] = {                                                                          \
		.slug = slug_,                                                                     \
		.cause = "cause of " slug_,                                                        \
		.wait_class = WAIT_##class_,                                                       \
		.scope = CATALOGUE_SCOPE_##scope_,                                                 \
		.flags = flags_,                                                                   \
		.measured = true,                                                                  \
		.minimum_ns = minimum,                                                             \
		.when = when_,                                                                     \
	}

const struct catalogue_rule catalogue_rules[RULE_COUNT] = {
	RULE(CONTEXT_SYNCHRONIZE, "context-synchronize", EXPLICIT, CONTEXT, 0, 0, always),
	RULE(STREAM_SYNCHRONIZE, "stream-synchronize", EXPLICIT, STREAM, 0, 0, always),
	RULE(EVENT_SYNCHRONIZE, "event-synchronize", EXPLICIT, EVENT, RECORD_RULE_EVENT, 0, always),
	RULE(PAGEABLE_H2D, "pageable-h2d", IMPLICIT, STREAM, 0, 0, pageable_source),
	RULE(TEARDOWN, "teardown", IMPLICIT, HOST, RECORD_RULE_OWN_COST, 50000, always),
	RULE(D2H, "d2h", IMPLICIT, STREAM, 0, 0, always),
	RULE(FREE_DRAINS_DEVICE, "free-drains-device", IMPLICIT, DEVICE, 0, 0, always),
	RULE(PINNING, "pinning", IMPLICIT, HOST, RECORD_RULE_OWN_COST, 100000, always),
	RULE(FIRST_USE, "first-use", IMPLICIT, HOST, RECORD_RULE_OWN_COST, 50000, first_use),
	RULE(QUEUE_FULL, "queue-full", IMPLICIT, STREAM, RECORD_RULE_ROOM, 100000, backlog),
	RULE(LEGACY_JOIN, "legacy-join", DEVICE, JOIN, 0, 0, always),
	RULE(OBSERVED_UNKNOWN, "observed-unknown", IMPLICIT, HOST, RECORD_RULE_UNEXPLAINED, 50000,
	     never),
};

int catalogue_function(const char *name)
{
	int number;

	for (number = 0; number < FUNCTION_COUNT; number++)
		if (!strcmp(function_names[number], name))
			return number;
	return -1;
}
