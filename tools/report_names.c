// SPDX-License-Identifier: MIT
/*
 * Report, names: words for the enums of shim/emit/record.h, the same in text, JSON and schema.
 * Called by both writers.
 */
#include "memory.h"
#include "report.h"

static const char *name_in(const char *const *names, size_t count, uint32_t value)
{
	return value < count && names[value] ? names[value] : "unknown";
}

const char *report_stream_kind(uint32_t kind)
{
	static const char *const names[] = {
		[STREAM_UNKNOWN] = "unknown",           [STREAM_LEGACY] = "legacy",
		[STREAM_PER_THREAD] = "per-thread",     [STREAM_BLOCKING] = "blocking",
		[STREAM_NON_BLOCKING] = "non-blocking",
	};

	return name_in(names, ARRAY_SIZE(names), kind);
}

const char *report_memory_kind(uint32_t kind)
{
	static const char *const names[MEMORY_KIND_COUNT] = MEMORY_KIND_NAMES;

	return name_in(names, ARRAY_SIZE(names), kind);
}

const char *report_operation(uint32_t operation)
{
	static const char *const names[] = {
		[OPERATION_UNKNOWN] = "unknown",
		[OPERATION_KERNEL] = "kernel",
		[OPERATION_COPY] = "copy",
		[OPERATION_MEMSET] = "memset",
		[OPERATION_HOST_FUNCTION] = "host-function",
		[OPERATION_GRAPH] = "graph",
		[OPERATION_EVENT_WAIT] = "event-wait",
		[OPERATION_MEMORY_OP] = "memory-op",
		[OPERATION_ALLOCATION] = "allocation",
		[OPERATION_OTHER] = "other",
	};

	return name_in(names, ARRAY_SIZE(names), operation);
}

const char *report_class(uint32_t class)
{
	static const char *const names[] = {
		[WAIT_EXPLICIT] = "explicit",
		[WAIT_IMPLICIT] = "implicit",
		[WAIT_DEVICE] = "device",
	};

	return name_in(names, ARRAY_SIZE(names), class);
}

const char *report_idle_basis(uint32_t basis)
{
	static const char *const names[] = {
		[IDLE_NONE] = "none",
		[IDLE_CALIBRATED] = "calibrated",
		[IDLE_MINIMUM] = "minimum",
		[IDLE_DEFAULT] = "default",
	};

	return name_in(names, ARRAY_SIZE(names), basis);
}

const char *report_note_code(uint32_t code)
{
	static const char *const names[] = {
		[NOTE_UNWRAPPED_HANDED_OUT] = "unwrapped-handed-out",
		[NOTE_EXPORT_TABLE] = "export-table",
		[NOTE_SECOND_DRIVER] = "second-driver",
		[NOTE_PASS_THROUGH] = "pass-through",
		[NOTE_LOST] = "lost",
		[NOTE_PYTHON] = "python",
		[NOTE_ERROR] = "error",
		[NOTE_CONFIG] = "config",
		[NOTE_MISSING_SYMBOL] = "missing-symbol",
		[NOTE_UNTIMED] = "untimed",
		[NOTE_REWRITE] = "rewrite",
		[NOTE_SIZES] = "sizes",
		[NOTE_CHECK] = "check",
	};

	return name_in(names, ARRAY_SIZE(names), code);
}

int report_by_name(const char *name)
{
	static const char *const names[] = {
		[REPORT_BY_RULE] = "rule",         [REPORT_BY_SITE] = "site",
		[REPORT_BY_FUNCTION] = "function", [REPORT_BY_STREAM] = "stream",
		[REPORT_BY_THREAD] = "thread",     [REPORT_BY_RANK] = "rank",
		[REPORT_BY_HOST] = "host",         [REPORT_BY_GPU] = "gpu",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return (int)i;
	return -1;
}
