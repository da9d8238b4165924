// SPDX-License-Identifier: MIT
/*
 * Graph: the run's dependencies, and how much sooner each point of it would have come had waits been
 * missing. What the files of the what-if analysis share.
 *
 * All is told in differences. An operation ends at the latest of its inputs (handed over, the one
 * before it, those it waits for) plus its duration; a call returns at the latest of its own work done
 * and what it waits for done. So if a point's inputs come sooner by known amounts, it comes sooner by
 * "latest of the inputs, less latest of the inputs moved": durations, which a trace does not have,
 * cancel out. What does not cancel out is which input was the latest, and by how much; where the
 * trace tells that only as an interval, the amount is an interval too (whatif_shift.c).
 *
 * A lane is one experiment: the waits of one site (or rule) are missing. Each has two lanes: in the
 * even one host threads do not wait for each other but through the device, in the odd one they
 * all move together, as threads do that hand work to each other. With one thread they are the same.
 *
 * Everything is done in one pass and forgotten again: what stays is one operation a stream with a short
 * history, operations that nobody saw complete, and one vector of lanes for each difference among them.
 */
#ifndef SLIPSTREAM_TRACING_WHATIF_GRAPH_H
#define SLIPSTREAM_TRACING_WHATIF_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracing/analysis/model.h"
#include "tracing/analysis/table.h"
#include "tracing/analysis/whatif.h"

#define WHATIF_FAR   (INT64_MAX / 8) /* later, or more, than anything that happens */
#define WHATIF_RULES 12              /* rules replayed as a whole */
#define WHATIF_OPEN  4096            /* operations of a stream that nobody saw complete */
#define WHATIF_RING  8               /* completed operations that can still be named */

struct span {
	int64_t low, high;
};

/* How much sooner: one interval a lane. Shared, counted, constant once made. */
struct shift {
	uint32_t references;
	struct shift *next, **link; /* list of all, for taking a lane out of use */
	struct span lane[];
};

struct input {
	struct span when; /* in the measured run */
	const struct shift *even, *odd;
	int gone[2]; /* numbers of slots in whose lanes the input is missing; -1 none */
	bool loose;  /* stands for one before it: it comes no later, but may come sooner by more */
	/* Later by up to this where the first input comes sooner by more: what was no wait becomes one. */
	int64_t late_ns;
	/*
	 * And what was a wait becomes none: where it comes sooner by this much more than the first input, it
	 * takes no wake-up, and `when` is not before `plain` only.
	 */
	int64_t reach_ns, plain_ns;
};

struct inputs {
	struct input *item;
	size_t count, capacity;
};

struct operation;

/* Runs after `of`. */
struct edge {
	struct edge *next;
	struct operation *of;
	uint32_t of_stream;
	uint64_t number; /* of the operation that waits; the first one from here on */
	bool loose;      /* `of` is younger than what is meant, which is forgotten: at most that */
	bool join;       /* legacy order */
};

struct operation {
	uint32_t references;
	uint32_t thread; /* index of its host_thread; UINT32_MAX none */
	uint32_t stream;
	uint64_t number;
	struct span sent;
	struct shift *even, *odd; /* of the thread that sent it; once resolved, `even` of itself */
	struct edge *edges;
	uint64_t joining; /* key of the device wait of its call, see site_key(); 0 none */
	struct span done;
	bool resolved;
	int64_t longest_ns; /* it takes at most this; 0: any time */
	bool instant;       /* takes next to no time: a wait for an event */
	/* An operation that was behind it, by an edge; 0, 0 none. */
	uint32_t follower_stream;
	uint64_t follower;
};

struct device_stream {
	uint32_t number;
	uint32_t kind; /* enum stream_kind */
	uint64_t context;
	struct operation **open; /* by number; those from `first` on */
	size_t first, end, capacity;
	struct operation *ring[WHATIF_RING]; /* resolved ones, the youngest first */
	struct edge *waiting;                /* edges of operations to come */
	bool resolving;
};

/* One call that waited, until it is certain that all its events were seen. */
struct open_call {
	bool waits;
	struct trace_wait wait;
	struct trace_def_wait about; /* all 0: not known */
	int64_t returned_ns, last_ns;
	uint64_t joining;      /* key of its device wait; 0 none */
	struct operation *own; /* what the call itself put on a stream; a reference */
	uint32_t own_stream;
	struct trace_completed *completed; /* what the host knew when it returned */
	size_t completed_count, completed_capacity;
};

/* Of a thread's waits for many streams, in one lane. */
struct horizon {
	int64_t latest;    /* the last one begins then, at the latest */
	int64_t most_high; /* one of them comes sooner by this, at most */
};

struct host_thread {
	uint32_t thread, index;
	int64_t last_ns;
	bool calls;
	struct shift *shift; /* even lanes count */
	struct open_call call;
	size_t open_index;    /* in graph->open, while its call is open */
	int64_t wide_ns;      /* when its last wait for many streams began; 0 none */
	int64_t wide_seen_ns; /* how far the trace was when that was seen */
	struct host_thread *wide_newer, *wide_older; /* in the list of those that had one */
	struct horizon *horizon;                     /* by slot; NULL: no such wait yet */
};

/* All waits of a site by a rule, or (site 0 and `whole`) of a rule. */
struct wait_sum {
	uint32_t rule, site, function;
	bool whole;
	int slot; /* -1: not replayed (any more) */
	uint64_t count;
	int64_t blocked_ns;
	int64_t missed_ns; /* blocked before it got its slot */
};

struct slot {
	struct wait_sum *sum; /* NULL free */
	int64_t removed_ns;   /* blocked time taken out so far, at most */
	bool overtaken; /* threads may pass each other: the trace does not tell what then happens */
};

struct graph {
	const struct whatif_settings *settings;
	uint32_t process;
	const struct model *model;
	unsigned int site_slots, slots, lanes;
	struct slot *slot;
	struct shift *shifts; /* all */
	struct shift *zero;
	struct shift *shift; /* odd lanes: of all threads */
	struct table threads, streams, sums;
	struct host_thread *last_thread;
	struct host_thread **open; /* threads whose call is not settled */
	size_t open_count, open_capacity;
	struct host_thread *wide_newest; /* by wide_seen_ns, falling */
	struct device_stream *last_stream;
	struct inputs inputs;
	struct shift
		*unknown; /* 0 to all that was taken out; for points of which nothing is known */
	struct operation **targets;
	size_t target_capacity;
	int64_t base_ns; /* taken off all times, so that sums of them stay small */
	int64_t begin_ns, end_ns;
	uint32_t callers; /* threads that called */
	uint64_t waits, submissions, contradictions;
	int64_t unexplained_ns, blocked_ns;
	unsigned int depth;
};

/* whatif_shift.c */
struct shift *shift_new(struct graph *graph); /* all lanes to be written */
struct shift *shift_ref(struct shift *shift);
struct shift *shift_unref(struct shift *shift); /* NULL */
struct input *inputs_add(struct inputs *inputs, struct span when, const struct shift *even,
			 const struct shift *odd);
/* How much sooner the latest of the inputs comes. `at`: when it came. A new reference. */
struct shift *inputs_latest(struct graph *graph, const struct inputs *inputs, struct span at);

/* whatif_device.c */
struct device_stream *device_stream(struct graph *graph, uint32_t number);
void operation_unref(struct operation *operation);
/* The operation `number`, or the oldest younger one that is still known (*ret_loose). NULL: none. */
struct operation *device_find(struct device_stream *stream, uint64_t number, bool *ret_loose);
/* The youngest handed over before `ns`, other than `but`; NULL none. */
struct operation *device_youngest(struct device_stream *stream, int64_t ns,
				  const struct operation *but);
/* Has another thread put one of those that are still known on it? */
bool device_is_shared(const struct device_stream *stream, uint32_t thread);
/* The one before it on its stream. */
struct operation *device_before(struct device_stream *stream, const struct operation *operation);
struct operation *device_submit(struct graph *graph, struct device_stream *stream, uint64_t number,
				struct span sent, const struct host_thread *thread);
void device_edge(struct graph *graph, uint32_t stream, uint64_t number, uint32_t of_stream,
		 uint64_t of_number, bool join);
/* All operations up to `number` were complete at `ns`. */
void device_complete(struct graph *graph, struct device_stream *stream, uint64_t number,
		     int64_t ns);
void device_done(struct graph *graph);

/* whatif_host.c */
void host_event(struct graph *graph, const struct analysis_event *event);
/* By how much sooner the process ends: a new reference. No events afterwards. */
struct shift *host_finish(struct graph *graph);
void host_done(struct graph *graph);

/* whatif_overtake.c: threads that pass each other in a lane. */
void overtake_submit(struct graph *graph, struct device_stream *stream,
		     const struct host_thread *thread, const struct operation *operation);
/*
 * A call of the thread that began at `ns` waits for what all threads handed over, before it is settled; or
 * its operation is ordered with theirs, on the legacy stream.
 */
void overtake_wait(struct graph *graph, struct host_thread *thread, int64_t ns);

/* whatif_slots.c */
static inline uint64_t site_key(uint32_t rule, uint32_t site)
{
	return (uint64_t)(rule + 1) << 32 | site;
}
/* Counts the wait; ret_slots: where its site and its rule are replayed, or -1. */
void slots_wait(struct graph *graph, const struct trace_def_wait *about, int64_t blocked_ns,
		int ret_slots[2]);
/* Slots of a key of site_key(). */
void slots_of(const struct graph *graph, uint64_t key, int ret_slots[2]);

#endif
