// SPDX-License-Identifier: MIT
/*
 * The record file: what one process leaves in SLIPSTREAM_OUT, shared by the shim (writer) and the
 * tools (reader).
 *
 * One file a process, named `<pid>-<start>.slip` (start = CLOCK_MONOTONIC ns, decimal, when the
 * file was made). It is a sequence of records, each an 8-byte aligned `struct record` followed by
 * its payload. The file begins with one RECORD_HEADER. It grows by segments: every segment begins
 * at a multiple of RECORD_SEGMENT bytes with a record, and what is left of the segment before it is
 * covered by one RECORD_PAD (or by zeros: a reader that meets type 0 skips to the next segment). No
 * record crosses a segment.
 *
 * Publication: a record is filled first, and its `type` is stored last with release order; a reader
 * that sees type 0 sees no record: type 0 with a size other than 0 is reserved and not yet filled
 * (skip that size), with size 0 the rest of the segment is unused. The shim never moves or deletes
 * a record. Fields marked "live" below are written in place after publication, each by relaxed
 * 64-bit stores; a reader may see them a little apart from each other while the process lives. A
 * killed process therefore leaves a valid file at every moment.
 *
 * One word goes the other way: who wants the definitions of a trace repeated (shim/emit/trace.c) writes
 * the time into record_header.dump_wanted of a live file. dump_done not below it, later: they were.
 * dump_ns tells whoever saved a snapshot whether it reaches back to them.
 *
 * All integers are host-endian (the file is read on the machine that wrote it, or one like it);
 * RECORD_HEADER says so by its magic. All times are CLOCK_MONOTONIC nanoseconds, all durations
 * nanoseconds, all sizes bytes. The reader must treat the file as hostile: sizes, ids and counts
 * are checked before use.
 */
#ifndef SLIPSTREAM_EMIT_RECORD_H
#define SLIPSTREAM_EMIT_RECORD_H

#include <stdint.h>

#define RECORD_MAGIC   UINT64_C(0x31504d5254534c53) /* "SLSTRMP1" read as little-endian */
#define RECORD_VERSION 1
#define RECORD_SEGMENT (UINT64_C(1) << 20) /* bytes; largest record, too */
#define RECORD_ALIGN   8

enum record_type {
	RECORD_NONE = 0,     /* not written (yet) */
	RECORD_HEADER = 1,   /* struct record_header; first in the file */
	RECORD_PAD = 2,      /* filler up to the segment's end */
	RECORD_STRING = 3,   /* struct record_string; ids from 1 */
	RECORD_FUNCTION = 4, /* struct record_function; names the function numbers used below */
	RECORD_RULE = 5,     /* struct record_rule; names the rule numbers used below */
	RECORD_COUNTERS = 6, /* struct record_counters; one a live or past thread slot */
	RECORD_THUNKS = 7, /* struct record_counters; calls of unwrapped functions, whole process */
	RECORD_MODULE = 8, /* struct record_module; ids from 1 */
	RECORD_SITE = 9,   /* struct record_site; ids from 1 */
	RECORD_CANDIDATE = 10,  /* struct record_candidate; ids from 1 */
	RECORD_WAIT = 11,       /* struct record_wait; ids from 1; live */
	RECORD_WAITED_FOR = 12, /* struct record_waited_for; live */
	RECORD_NOTE = 13,       /* struct record_note; live; coverage, loss, pass-through reasons */
	RECORD_REGION = 14,     /* struct record_region; ids from 1 */
	RECORD_CONTEXT = 15,    /* struct record_context; numbers from 1; live */
	RECORD_STREAM = 16,     /* struct record_stream; numbers from 1; live */
	RECORD_REWRITE = 17,    /* struct record_rewrite; live; one a rewrite of mode fix */
	RECORD_REWRITE_SITE = 18, /* struct record_rewrite_site; live; with a deny list only */
	RECORD_REAL_FREE = 19,    /* struct record_real_free; live */
	/* What a process of mode fix is inside now (`slipstream dump`). */
	RECORD_CLOCK = 20,  /* struct record_clock; one, before the first that needs it */
	RECORD_THREAD = 21, /* struct record_thread; live; one a live or past thread slot */
	RECORD_ORDER = 22,  /* struct record_order; live */
	RECORD_GATE = 23,   /* struct record_gate; live */
	RECORD_HELD = 24,   /* struct record_held; live; one */
	RECORD_REMARK = 25, /* struct record_remark; ids from 1; live; with SLIPSTREAM_CHECK only */
};

struct record {
	uint32_t type; /* enum record_type; stored last, release */
	uint32_t size; /* bytes with this head, multiple of RECORD_ALIGN, at most RECORD_SEGMENT */
};

/* record_header.state */
enum record_state {
	RECORD_STATE_LIVE = 1,   /* still running, or killed */
	RECORD_STATE_EXITED = 2, /* exit handlers ran */
};

struct record_header {
	struct record head;
	uint64_t magic;
	uint32_t version;      /* RECORD_VERSION */
	uint32_t header_size;  /* sizeof(struct record_header): newer writers may append */
	uint64_t catalogue_id; /* hash of the catalogue the shim was built from */
	uint64_t start_ns;     /* when the file was made */
	uint64_t end_ns;       /* live: 0 until exit handlers ran */
	uint32_t pid, parent_pid;
	uint32_t state;        /* live: enum record_state */
	uint32_t forked;       /* 1: made in a child forked after its parent had used CUDA */
	uint32_t exe;          /* string id: /proc/self/exe */
	uint32_t command;      /* string id: command line, blanks between arguments, cut at 4 KiB */
	uint32_t shim_version; /* string id */
	uint32_t config;       /* string id: effective settings as NAME=VALUE lines */
	uint32_t driver;       /* live: string id: path of the driver library found, 0 if none */
	int32_t driver_version; /* live: cuDriverGetVersion's, asked for or after cuInit; 0 unknown */
	uint64_t dropped;       /* live: records that could not be written (full disk, caps) */
	/* Early writers end here: look at head.size. */
	int32_t rank; /* among the processes that a launcher started together; -1: none known */
	uint32_t padding;
	/* Writers of which no dump can be asked end here. Both are live. */
	uint64_t dump_wanted; /* by the tools: when they asked last; the shim reads, never writes */
	uint64_t dump_done;   /* what stood in dump_wanted when the last dump of a trace began */
	/* Writers that do not say when they dumped end here. All are live, and of dumps that ended. */
	uint64_t dump_ns[2];  /* when the last one began, and the one before; 0: there was none */
	uint64_t dump_events; /* of the last one */
};

struct record_string {
	struct record head;
	uint32_t id;
	uint32_t length; /* bytes, without the NUL that follows them */
	char bytes[];
};

enum record_function_flag {
	RECORD_FUNCTION_WRAPPED = 1 << 0,   /* has a wrapper; else counted by a thunk */
	RECORD_FUNCTION_IN_DRIVER = 1 << 1, /* the driver found exports it */
};

struct record_function {
	struct record head;
	uint32_t number;     /* index into counters */
	uint32_t name;       /* string id: exported name */
	uint32_t flags;      /* live: enum record_function_flag */
	uint32_t handed_out; /* live: times the program got its address (dlsym, cuGetProcAddress) */
};

enum record_rule_flag {
	/* The call's own work took long: the finding is its whole duration, no wait. */
	RECORD_RULE_OWN_COST = 1 << 0,
	/* It waited for room (a queue, a buffer), and handed its own operation over only then. */
	RECORD_RULE_ROOM = 1 << 1,
	/* It waited for what an event stands for, and nothing else. */
	RECORD_RULE_EVENT = 1 << 2,
	/* No rule explains it. */
	RECORD_RULE_UNEXPLAINED = 1 << 3,
};

struct record_rule {
	struct record head;
	uint32_t number;
	uint32_t slug;  /* string id */
	uint32_t cause; /* string id: a few words */
	uint32_t class; /* enum wait_class */
	uint32_t flags; /* enum record_rule_flag; early writers end before it: look at head.size */
	uint32_t padding;
};

enum wait_class {
	WAIT_EXPLICIT = 1, /* the program asked to wait */
	WAIT_IMPLICIT = 2, /* the host was blocked by a call that is no wait by name */
	WAIT_DEVICE = 3,   /* the device was serialized; the host was not blocked */
	WAIT_ORDER = 4,    /* no wait: something lacks an order that it needs (record_remark) */
};

struct record_counters {
	struct record head;
	uint32_t thread;    /* kernel thread id of the present or last owner; 0 for RECORD_THUNKS */
	uint32_t functions; /* length of count[]; index = function number */
	uint64_t count[];   /* live: calls */
};

struct record_module {
	struct record head;
	uint32_t id;
	uint32_t path;            /* string id */
	uint64_t base;            /* load bias: file address = runtime address - base */
	uint32_t build_id_length; /* 0 to 64 */
	uint8_t build_id[64];
	uint32_t padding;
};

struct record_frame {
	/*
	 * Return address less the module's base (subtract 1 before asking for a line); absolute if
	 * module 0.
	 */
	uint64_t offset;
	uint32_t module; /* module id; 0: none known */
	uint32_t padding;
};

struct record_python_frame {
	uint32_t file, function; /* string ids */
	int32_t line;            /* 0: unknown */
	uint32_t padding;
};

struct record_site {
	struct record head;
	uint32_t id;
	uint16_t frames;        /* native, innermost (the caller of the driver function) first */
	uint16_t python_frames; /* innermost first */
	/* struct record_frame[frames], then struct record_python_frame[python_frames] */
};

enum stream_kind {
	STREAM_UNKNOWN = 0,
	STREAM_LEGACY = 1,
	STREAM_PER_THREAD = 2,
	STREAM_BLOCKING = 3,
	STREAM_NON_BLOCKING = 4,
};

enum memory_kind {
	MEMORY_NONE = 0, /* no such operand */
	MEMORY_UNKNOWN = 1,
	MEMORY_PAGEABLE = 2,
	MEMORY_PINNED = 3,     /* cuMemHostAlloc, cuMemAllocHost */
	MEMORY_REGISTERED = 4, /* cuMemHostRegister */
	MEMORY_MANAGED = 5,
	MEMORY_DEVICE = 6, /* cuMemAlloc, pitch, VMM */
	MEMORY_POOL = 7,   /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
	MEMORY_ARRAY = 8,
	MEMORY_KIND_COUNT
};

/* The same in words, as initialiser of a table: for reports, and for the tables of calibrate. */
#define MEMORY_KIND_NAMES                                                                          \
	{                                                                                          \
		[MEMORY_NONE] = "none", [MEMORY_UNKNOWN] = "unknown",                              \
		[MEMORY_PAGEABLE] = "pageable", [MEMORY_PINNED] = "pinned",                        \
		[MEMORY_REGISTERED] = "registered", [MEMORY_MANAGED] = "managed",                  \
		[MEMORY_DEVICE] = "device", [MEMORY_POOL] = "pool", [MEMORY_ARRAY] = "array",      \
	}

enum operation_kind {
	OPERATION_UNKNOWN = 0,
	OPERATION_KERNEL = 1,
	OPERATION_COPY = 2,
	OPERATION_MEMSET = 3,
	OPERATION_HOST_FUNCTION = 4,
	OPERATION_GRAPH = 5,
	OPERATION_EVENT_WAIT = 6, /* cuStreamWaitEvent */
	OPERATION_MEMORY_OP = 7,  /* wait/write value, batch */
	OPERATION_ALLOCATION = 8, /* async alloc/free */
	OPERATION_OTHER = 9,
};

/* "stream S of context C, whose youngest operation not known complete was O" */
struct record_candidate {
	struct record head;
	uint32_t id;
	uint32_t stream_kind; /* enum stream_kind */
	uint64_t context;     /* cuCtxGetId, 0 unknown */
	uint64_t stream;      /* the shim's own stream number in this process, from 1; 0 legacy */
	uint32_t operation;   /* enum operation_kind */
	uint32_t name;        /* string id: kernel name, "HtoD", ...; 0 unknown */
	uint32_t certain;     /* 1: a query before the call found it unfinished (--attribute) */
	uint32_t padding;
};

/* What was taken off the duration to give blocked time. */
enum idle_basis {
	IDLE_NONE = 0, /* nothing: the rule counts the call's own cost (pinning, module load) */
	IDLE_CALIBRATED = 1, /* table of `slipstream calibrate` */
	IDLE_MINIMUM = 2, /* the run's own minimum of this function, memory kinds and size class */
	IDLE_DEFAULT = 3, /* the catalogue's figure */
};

/* One line of the report before symbolisation: same function, rule, site, kinds, region. */
struct record_wait {
	struct record head;
	uint32_t id;
	uint32_t function, rule, site;         /* numbers / id; site 0: none taken */
	uint8_t source_kind, destination_kind; /* enum memory_kind */
	uint8_t idle_basis;                    /* enum idle_basis */
	uint8_t allowed;            /* 1: inside an allowed-sync scope of the public header */
	uint32_t region;            /* region id, 0 none */
	uint64_t count;             /* live */
	uint64_t blocked_ns;        /* live; WAIT_DEVICE: 0 */
	uint64_t blocked_max;       /* live */
	uint64_t call_ns;           /* live: whole duration of the calls, own cost included */
	uint64_t bytes;             /* live */
	uint64_t first_ns, last_ns; /* live: when the first / last such call returned */
};

/* In the text of a NOTE_CHECK: what was lost could have shown that a rule of level error is broken. */
#define NOTE_CHECK_HIDES "; an error may hide there"

#define RECORD_NO_FUNCTION UINT32_MAX
/* In the place of a function: what the host did by itself, at the site (guard). */
#define RECORD_HOST_READ  (UINT32_MAX - 1)
#define RECORD_HOST_WRITE (UINT32_MAX - 2)
#define RECORD_HOST_FREE  (UINT32_MAX - 3)

/* At this call site a rule of class order is broken, together with what another call did. */
struct record_remark {
	struct record head;
	uint32_t id;
	uint32_t rule, function, site; /* numbers / id; site 0: none taken */
	uint32_t stream;               /* number (record_stream) of the first such call; 0: none */
	uint32_t region;               /* region id, 0 none */
	uint32_t allowed;              /* 1: inside an allowed-sync scope of the public header */
	/* The other side. RECORD_NO_FUNCTION: there is none, and the rest is 0. */
	uint32_t other_function, other_site, other_stream;
	uint32_t padding;
	uint64_t count;             /* live: calls */
	uint64_t bytes;             /* live: of these calls */
	uint64_t first_ns, last_ns; /* live: when the first / last such call was made */
};

struct record_waited_for {
	struct record head;
	uint32_t wait, candidate; /* ids */
	uint64_t count;           /* live */
	uint64_t blocked_ns;      /* live: blocked time of the calls that had it as a candidate */
};

enum note_code {
	NOTE_UNWRAPPED_HANDED_OUT = 1, /* text: name of a function given out without wrapper */
	NOTE_EXPORT_TABLE =
		2, /* text: table id as hex, and a blank and who asked where that matters */
	NOTE_SECOND_DRIVER = 3,  /* text: path; another libcuda image was asked for a symbol */
	NOTE_PASS_THROUGH = 4,   /* text: reason; calls passed without classification */
	NOTE_LOST = 5,           /* text: what was full */
	NOTE_PYTHON = 6,         /* text: why no Python frames (unknown version ...) */
	NOTE_ERROR = 7,          /* text: own failure, in words */
	NOTE_CONFIG = 8,         /* text: a bad setting that was ignored */
	NOTE_MISSING_SYMBOL = 9, /* text: a linked function the driver does not have was called */
	NOTE_UNTIMED = 10,       /* text: which calls; their duration is not known */
	NOTE_REWRITE = 11,       /* text: why calls that mode fix rewrites went to the driver */
	NOTE_SIZES = 12, /* text: whose sizes staged copies go by, where there is a choice */
	NOTE_CHECK =
		13, /* text: what SLIPSTREAM_CHECK did not follow, so that it says nothing of it */
};

struct record_note {
	struct record head;
	uint32_t code;  /* enum note_code */
	uint32_t text;  /* string id */
	uint64_t count; /* live */
	/* Early writers end here: look at head.size. */
	uint32_t number; /* of the note in this process, from 1 */
	uint32_t padding;
};

/*
 * A region by its name and what is around it: the same name in two regions is two regions. Its figures are those of single entries, from begin
 * to end: the most that any one had, regions inside it included, and the number of that entry, from 1. What lint holds against budgets:
 * allowed-sync scopes and what rests on a time alone are left out, a call's own work is time and no wait.
 */
struct record_region {
	struct record head;
	uint32_t id;
	uint32_t name; /* string id */
	/* Early writers end here: look at head.size. */
	uint32_t parent; /* id of the region around it, 0 none */
	uint32_t padding;
	/* All live. */
	uint64_t entries; /* begun; of a region that is seen late (many names) those that waited */
	uint64_t waiting; /* of these, entries with a wait */
	uint64_t implicit, implicit_entry;
	uint64_t explicit, explicit_entry;
	uint64_t blocked_ns, blocked_entry; /* of both, and of calls' own work */
};

/* All figures of it, in this order: FIGURE(name). */
#define RECORD_REGION_FIGURES(FIGURE)                                                              \
	FIGURE(entries)                                                                            \
	FIGURE(waiting)                                                                            \
	FIGURE(implicit)                                                                           \
	FIGURE(implicit_entry)                                                                     \
	FIGURE(explicit)                                                                           \
	FIGURE(explicit_entry)                                                                     \
	FIGURE(blocked_ns)                                                                         \
	FIGURE(blocked_entry)

struct record_context {
	struct record head;
	uint32_t number;
	int32_t device; /* live: ordinal; -1: not known */
	uint64_t id;    /* as in record_candidate */
};

/* A stream. When it is gone, another one may take its number over: then all fields change. */
struct record_stream {
	struct record head;
	uint32_t number;  /* the legacy streams have one each, too, unlike in record_candidate */
	uint32_t kind;    /* live: enum stream_kind */
	uint64_t context; /* live: id; 0: not known */
	uint64_t handle;  /* live: the program's; 0: legacy, per-thread */
};

/* What a rewrite of mode fix did; the reasons for which it left calls to the driver are notes (NOTE_REWRITE). */
struct record_rewrite {
	struct record head;
	uint32_t name; /* string id: as in SLIPSTREAM_FIX */
	uint32_t padding;
	/* live: calls */
	uint64_t hits;     /* allocations served from what was held */
	uint64_t misses;   /* allocations that the driver made */
	uint64_t unproven; /* of these: a block was held, but may have been in use */
	uint64_t parked;   /* frees that the driver did not see */
	uint64_t
		waits_avoided; /* of these: work was unfinished that the driver would have waited for */
	uint64_t waits_made; /* the same, waited for (strict-free) */
	uint64_t real_frees; /* frees by the driver, of blocks that the rewrite knew */
	uint64_t purges;     /* allocations for which all held blocks were given back */
	uint64_t events;     /* recorded to prove that blocks are not in use */
	uint64_t queries;    /* of streams, for the same */
	/* live: bytes */
	uint64_t held_bytes, peak_bytes, live_bytes, limit_bytes;
	/* live: copies of pageable memory through memory of the rewrite's own, and their bytes */
	uint64_t to_device, to_device_bytes, from_device, from_device_bytes;
	uint64_t
		to_driver; /* copies that were large enough, and went to the driver; notes say why */
	/* live: operations on the legacy stream: sent to the substitute; left where they were though blocking streams are used, too */
	uint64_t redirected, native;
	/* live: barriers that were placed; operations, of legacy and blocking streams, that needed none; changes between the two */
	uint64_t barriers, elided, turns;
};

/* All figures of it, in this order: FIGURE(name). */
#define RECORD_REWRITE_FIGURES(FIGURE)                                                             \
	FIGURE(hits)                                                                               \
	FIGURE(misses)                                                                             \
	FIGURE(unproven)                                                                           \
	FIGURE(parked)                                                                             \
	FIGURE(waits_avoided)                                                                      \
	FIGURE(waits_made)                                                                         \
	FIGURE(real_frees)                                                                         \
	FIGURE(purges)                                                                             \
	FIGURE(events)                                                                             \
	FIGURE(queries)                                                                            \
	FIGURE(held_bytes)                                                                         \
	FIGURE(peak_bytes)                                                                         \
	FIGURE(live_bytes)                                                                         \
	FIGURE(limit_bytes)                                                                        \
	FIGURE(to_device)                                                                          \
	FIGURE(to_device_bytes)                                                                    \
	FIGURE(from_device)                                                                        \
	FIGURE(from_device_bytes)                                                                  \
	FIGURE(to_driver)                                                                          \
	FIGURE(redirected)                                                                         \
	FIGURE(native)                                                                             \
	FIGURE(barriers)                                                                           \
	FIGURE(elided)                                                                             \
	FIGURE(turns)

/* A call site that asked to make a rewrite, where there is a deny list. Several of the same site and rewrite add up. */
struct record_rewrite_site {
	struct record head;
	uint32_t site;     /* id */
	uint32_t rewrite;  /* string id: as in SLIPSTREAM_FIX */
	uint32_t function; /* number */
	uint32_t padding;
	uint64_t calls;  /* live */
	uint64_t denied; /* live: of these, left to the driver by the list */
};

/* Calls at one site in which the driver freed blocks that a rewrite knew. Several of the same add up. */
struct record_real_free {
	struct record head;
	uint32_t site;     /* id; 0: none could be taken */
	uint32_t rewrite;  /* string id: as in SLIPSTREAM_FIX */
	uint32_t function; /* number */
	uint32_t why;      /* string id */
	uint64_t calls;    /* live */
	uint64_t blocks;   /* live: freed in them; more than one where held blocks went as well */
};

/*
 * What a process of mode fix is inside now. Nobody reads the clock for it, so its times are readings that were taken anyway, in ticks; one
 * moment in both clocks is here, another the reader takes itself, on the same machine.
 */
struct record_clock {
	struct record head;
	uint64_t ticks, ns;
	uint32_t is_counter; /* 1: ticks are those of the processor's counter, 0: nanoseconds */
	uint32_t padding;
};

/* A word that says what and since when. `what` is less than 2^16; 0: nothing. */
#define RECORD_AT_BITS  48
#define RECORD_AT_SHIFT 8 /* of ticks */
#define RECORD_AT_MASK  ((UINT64_C(1) << RECORD_AT_BITS) - 1)
#define RECORD_AT_SINCE(what, ticks)                                                               \
	((uint64_t)(what) << RECORD_AT_BITS | ((ticks) >> RECORD_AT_SHIFT & RECORD_AT_MASK))

/* What a thread has to do with the submission lock of a context: or-ed to the context's number, as far as it fits. */
#define RECORD_LOCK_WAITS   (1U << 14)
#define RECORD_LOCK_HOLDS   (2U << 14)
#define RECORD_LOCK_CONTEXT ((1U << 14) - 1)

/* Written by its thread alone, which shares no cache line of it with anybody. */
struct record_thread {
	struct record head;
	uint32_t thread; /* live: kernel thread id; 0: no thread has the record now */
	uint32_t padding;
	uint64_t apart[6];
	/* live, words as above */
	uint64_t
		call; /* function number plus 1; since the driver was called; since 0: it is not, yet; 1: it is, and nobody looked at the clock */
	uint64_t lock; /* RECORD_LOCK_...; since when it waits */
	uint64_t
		drain; /* 1: about to make the driver wait for the device, it waits for staged copies to open their gates */
	/* live: numbers of contexts in which its call is in flight without the submission lock; 0: none */
	uint64_t in_flight[3];
	uint64_t apart_too[6];
};

/* A context whose default stream is rewritten. */
struct record_order {
	struct record head;
	uint32_t context; /* live: number; 0: it has ended */
	uint32_t
		in_substitute; /* live: whose turn it is. 1: the substitute's, 0: the legacy stream's own */
	uint64_t turns; /* live: changes so far */
};

enum record_gate_state {
	GATE_NONE = 0, /* no copy */
	GATE_WAITS =
		1, /* to come: the copy waits until the program's stream is idle, or pieces are filled before */
	GATE_PLACED = 2,   /* the gate stands in the program's stream, closed */
	GATE_ARRIVED = 3,  /* and the stream has come to it */
	GATE_GIVEN_UP = 4, /* the driver is to copy, once what was submitted has ended */
};

/* A staged copy of more than one piece: one record for each internal stream, whose copies take turns. */
struct record_gate {
	struct record head;
	uint32_t state;  /* live: enum record_gate_state */
	uint32_t thread; /* live: kernel thread id */
	/* live, of this copy */
	uint64_t context; /* id */
	uint64_t stream;  /* handle, as the driver is told: 1 legacy, 2 the thread's own */
	uint64_t begin_ns, bytes;
	uint32_t to_device;
	uint32_t pieces, submitted, confirmed;
};

enum held_kind { HELD_PINNED, HELD_DEVICE, HELD_ARRAY, HELD_KINDS };
#define HELD_BATCHES 8

/* Freed memory that mode fix holds, and what it waits for. Without what threads keep for themselves (record_rewrite tells their bytes). */
struct record_held {
	struct record head;
	struct {
		uint64_t blocks, bytes; /* live */
		uint64_t parked;        /* live: blocks, of these, that work may still use */
	} kind[HELD_KINDS];
	uint32_t
		closed; /* live: batches of parked blocks, as they were when a proof was last tried; blocks freed since are in none */
	uint32_t padding;
	/* live, the oldest first: number of streams that the batch waits for, and one of them (record_stream); 0 streams: too many to tell */
	struct {
		uint32_t streams, stream;
	} batch[HELD_BATCHES];
};

#endif
