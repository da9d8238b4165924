// SPDX-License-Identifier: MIT
/*
 * Summary of witnessed calls: how threads waited by function and call site, which calls escaped the
 * preload library, which of its claims the kernel contradicts, how much of its coverage is proven.
 * Filled by slipstream-witness itself (`run --witness`) or from the events of a trace; becomes the
 * object "witness" of the report (slipstream.schema.json), whose frames still lack their symbols
 * (report_witness.h). One thread.
 */
#ifndef SLIPSTREAM_TOOLS_WITNESS_SUMMARY_H
#define SLIPSTREAM_TOOLS_WITNESS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* A call that was answered without a wait, as its claim says, and yet took this long. */
#define WITNESS_CLAIM_NS UINT64_C(200000)

/* What the time of a call was spent with; the sum of all is the blocked time. */
enum witness_how {
	WITNESS_SPIN,      /* on the processor */
	WITNESS_YIELD,     /* around sched_yield */
	WITNESS_POLL,      /* asleep in poll, select, epoll */
	WITNESS_FUTEX,     /* asleep in a futex */
	WITNESS_IOCTL,     /* asleep in the kernel driver, or in a loop around it */
	WITNESS_PREEMPTED, /* ready to run, and another thread ran */
	WITNESS_OTHER,     /* asleep elsewhere */
	WITNESS_HOWS,
};

extern const char *const witness_how_names[WITNESS_HOWS];

/* As enum watch_by, watch_stream_class and watch_direction of bpf/watch.h; bpf/command_write.c holds them together. */
enum {
	WITNESS_BY_UNKNOWN,
	WITNESS_BY_WRAPPER,
	WITNESS_BY_SHIM,
	WITNESS_BY_LIBRARY,
	WITNESS_BY_PROGRAM,
	WITNESS_BYS
};
enum { WITNESS_STREAM_CLASSES = 4, WITNESS_DIRECTIONS = 6 };

struct witness_frame {
	const char *module;   /* path; NULL: none known, `offset` is the address */
	const char *build_id; /* in hexadecimal; NULL: not known */
	uint64_t offset;      /* return address in the module's own numbering */
};

struct witness_stack {
	const struct witness_frame *frames;
	size_t count;
};

struct witness_call {
	const char *function;
	struct witness_stack stack;
	uint8_t by, stream_class, direction; /* values out of range count as unknown */
	bool shim, returned, nested;
	uint64_t bytes, call_ns, blocked_ns;
	/* off_cpu_ns: the sum of the six behind it. system_call: the most frequent one, made system_calls times. */
	uint64_t off_cpu_ns, futex_ns, poll_ns, ioctl_ns, yield_ns, preempted_ns, other_ns;
	uint32_t switches, preemptions, yields, system_call, system_calls;
};

struct witness_claim {
	const char *function;
	uint32_t how; /* enum usdt_how of shim/emit/usdt_how.h */
	struct witness_stack stack;
	uint64_t call_ns, off_cpu_ns, driver_ns;
};

/* Entries of one function in one process, exact. */
struct witness_count {
	const char *function;
	bool shim;
	uint64_t by[WITNESS_BYS];
};

/* As struct watch_stats of bpf/watch.h, and the trace's def_witness_loss. */
struct witness_loss {
	uint64_t processes, entries, records;
	uint64_t lost_records, lost_calls, deep_calls, left_calls, late_returns, lost_callers;
	uint64_t least_ns;
	uint64_t lost_processes, lost_process_records, lost_mappings;
	uint64_t unwatched_libraries, unwatched_functions, unheard_shims;
	uint64_t unseen_switches, missed_runs;
};

struct witness_summary;

struct witness_summary *witness_summary_new(void);
struct witness_summary *witness_summary_free(struct witness_summary *summary);

/* Texts are copied. */
void witness_summary_call(struct witness_summary *summary, const struct witness_call *call);
void witness_summary_claim(struct witness_summary *summary, const struct witness_claim *claim);
void witness_summary_count(struct witness_summary *summary, const struct witness_count *count);
void witness_summary_loss(struct witness_summary *summary, const struct witness_loss *loss);

/* Nothing was told: there is no such section. */
bool witness_summary_is_empty(const struct witness_summary *summary);

/* A new reference. Equal calls in any order give equal objects. */
json_t *witness_summary_json(const struct witness_summary *summary);

/* How one call spent its blocked time. */
void witness_split(const struct witness_call *call, uint64_t ret_ns[WITNESS_HOWS]);

#endif
