// SPDX-License-Identifier: MIT
/*
 * Watching the driver calls of running processes from the kernel: who called what, from where, how
 * long it took and how the thread spent that time. Needs no preload, no ptrace, and nothing of what
 * the processes say about themselves. Static library `witness_watch`; used by slipstream-witness's
 * watch mode and by the tests. watch_table.h has the functions; watch.bpf.c is the kernel's part.
 *
 *     watch_open(&watch, &options, &error);
 *     while (wanted) {
 *             watch_poll(watch, 100, each, data);
 *             (watch_stats(watch, &stats) now and then, for a table)
 *     }
 *     watch_detach(watch);                  no probe is left in any process
 *     watch_poll(watch, 0, each, data);     what the ring still held
 *     watch_stats(watch, &stats);           the last word
 *     watch_done(watch);
 *
 * Threads: a watch belongs to one thread at a time. watch_detach(), and whatever finds a library of which the
 * kernel refuses functions, start threads of their own and end them before they return. Signals: nothing is blocked or handled here; an
 * interrupted watch_poll() returns what it has so far. Nothing is printed; what a person must know
 * goes to options.say. A loader that is killed leaves no probe: the kernel takes them away with its
 * descriptors.
 *
 * Process and thread ids are those of the loader's pid namespace everywhere, also for processes in
 * containers. Times are CLOCK_MONOTONIC nanoseconds. Functions return 0, or -errno with `error`
 * filled in where one is given (NULL is allowed).
 */
#ifndef SLIPSTREAM_WATCH_H
#define SLIPSTREAM_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capability.h"
#include "watch_kinds.h"
#include "watch_table.h"

/* Whose call it was, by the file that holds the return address (and the function in it). */
enum watch_by {
	WATCH_BY_UNKNOWN = 0, /* mappings not known any more: a process that was too short-lived */
	WATCH_BY_WRAPPER,     /* the shim's wrapper of that very function */
	WATCH_BY_SHIM,        /* the shim, for its own ends */
	WATCH_BY_LIBRARY,     /* from inside the driver library */
	WATCH_BY_PROGRAM, /* anybody else; where the process has the shim: the call escaped it */
	WATCH_BYS,
};

struct watch_call {
	uint64_t entered_ns, left_ns; /* left: where `returned` is false, when the thread ended */
	pid_t process, thread;
	uint32_t function; /* index of watch_functions[] */
	bool returned;     /* false: the thread or process ended inside the call */
	bool nested;       /* inside another watched call of the thread */
	bool shim;         /* the process had the shim when the call was made */
	uint8_t stream_class, direction, by;
	/* Arguments by the catalogue's row; 0: the function has none, or not readable. */
	uint64_t stream, bytes, source, destination;
	uint64_t off_cpu_ns, off_cpu_by[WATCH_HOWS]; /* sum, and what it is the sum of */
	/* Times the thread slept; lost its processor; gave it up in sched_yield without being put to
	 * sleep. Each counted once, inner calls' included. */
	uint32_t switches, preemptions, yields;
	/* The most frequent system call of the call and how often: with options.system_calls of all
	 * made, else of those it slept or yielded in. Count 0: none, the number means nothing. */
	uint32_t top_system_call, top_system_calls;
	/* frame 0: the return address, always there. Others by frame pointers: code built without
	 * them gives fewer or wrong ones. */
	uint32_t frame_count;
	uint64_t frames[WATCH_FRAMES];
	uint32_t scope; /* call id of the shim's scope that was open (its USDT probes), 0 none */
};

/* What a shim said of a call of the program's by its probe `rewrite`, beside what was measured of that call until then. */
struct watch_claim {
	uint64_t ns; /* when it was said */
	pid_t process, thread;
	uint32_t function, scope;     /* that the program called; scope of the call */
	uint8_t how;                  /* enum usdt_how of shim/emit/usdt_how.h */
	uint64_t call_ns, off_cpu_ns; /* since the scope began, preemption left out of the second */
	uint64_t driver_ns;           /* the longest watched call of the driver inside the scope */
	/* From the program's call of the wrapper outwards, as those of a call; 0: not known. */
	uint32_t frame_count;
	uint64_t frames[WATCH_FRAMES];
};

/* One function's calls, exact also where records were lost or left out (least_ns). */
struct watch_count {
	uint64_t calls;    /* entered */
	uint64_t returned; /* of those, by now */
	uint64_t ns;       /* sum of the returned ones' durations */
	uint64_t nested;   /* of `calls`: inside another watched call */
	uint64_t scoped;   /* of `calls`: inside a scope of the shim (its USDT probes) */
};

struct watch_stats {
	struct watch_count functions[WATCH_FUNCTION_COUNT]; /* by index of watch_functions[] */
	uint64_t records;                                   /* given to watch_poll() */
	uint64_t lost_records; /* ring full: calls are counted, their records gone; claims gone */
	uint64_t
		lost_calls; /* no room or no memory for the thread's state: only `calls` has them */
	uint64_t deep_calls;   /* more than WATCH_DEPTH inside each other: likewise */
	uint64_t left_calls;   /* left by longjmp or an exception: no return seen */
	uint64_t late_returns; /* entered before the watch began, or a process added: not counted */
	uint64_t lost_callers; /* options.callers: no room */
	/* That the scheduler did not tell: put right by the task's own clock, so nothing is missing. */
	uint64_t unseen_switches;
	uint64_t lost_processes; /* children that found no room: not watched */
	uint64_t
		lost_process_records; /* ring full: beginnings, ends, programs; looked up afterwards */
	uint64_t
		lost_mappings; /* the kernel's messages, or no room: libraries and callers may be missing */
	uint64_t
		unwatched_libraries; /* driver libraries found that could not be probed; each once */
	uint64_t unwatched_functions; /* of those that are: that the kernel refused to probe */
	uint64_t unheard_shims; /* options.claimed: files of the shim whose probes are not heard */
	uint64_t
		missed_runs; /* that the kernel left out, of the watch's programs but those at functions */
	uint32_t processes; /* seen so far: roots, their children, or with `all` who called */
	uint32_t alive;     /* of those */
};

/* options.callers: calls from one place; exact. `by` and `shim` as in watch_call. */
struct watch_caller {
	pid_t process;
	uint32_t function;
	uint64_t return_address;
	uint64_t calls;
	bool shim;
	uint8_t by;
};

/* How a function can be probed, by what stands at its entry. */
enum watch_site {
	WATCH_SITE_NONE = 0, /* the library has no such function */
	WATCH_SITE_NOP,      /* cheap: emulated, or turned into a call by new kernels */
	WATCH_SITE_PUSH,     /* cheap: emulated */
	WATCH_SITE_JUMP,     /* cheap: a jump or call, emulated */
	WATCH_SITE_STEPPED,  /* dear: single-stepped out of line, about 15 times as much */
};

struct watch_library {
	const char *path; /* to be shown only: as given, or /proc/PID/root and the name there */
	dev_t device;
	ino_t inode;
	uint32_t probed;  /* functions with a probe; aliases of one address share one */
	uint32_t stepped; /* of those, of kind WATCH_SITE_STEPPED */
	uint32_t skipped; /* stepped and frequent, so left out unless asked for */
};

/* What is known of a process, for readers that name it. `program` lives until the next watch_poll(): a process that starts another one has a
 * new name then. */
struct watch_process {
	pid_t id, parent;            /* parent 0: a root, or not known */
	uint64_t since_ns, ended_ns; /* 0: it is still there */
	bool shim;                   /* has the shim mapped */
	const char *program;         /* path of the executable, as the kernel names it; or its short
					name where that is not known; not to be trusted as a path */
};

/* The file behind an address. Valid until the next call with the same watch. */
struct watch_place {
	const char
		*path; /* as the kernel names it; "" without a file; not to be trusted as a path */
	dev_t device;
	ino_t inode;
	uint64_t start, end; /* of the mapping */
	uint64_t offset;     /* of `address` in the file */
};

struct watch_error {
	int number;       /* errno */
	char text[512];   /* one line, no newline: what failed, and what would help */
	char missing[64]; /* name of the capability that is missing ("CAP_PERFMON"); else "" */
};

struct watch_options {
	/* Processes to watch, with all children that they have and will have. One that has ended is told to `say` and left out. */
	const pid_t *processes;
	size_t process_count;
	/* Every process that maps a driver library: those that have it already are watched when watch_open() returns, others from their first
	 * call on. `processes` are then watched too. */
	bool all;
	/* Driver libraries, as paths of the loader's own file system. NULL: found in the mappings of
	 * the roots (for `all`: of every process), as they come; and the one that the loader's own
	 * search finds. */
	const char *const *libraries;
	size_t library_count;
	/* File name of the shim. NULL: libslipstream.so. */
	const char *shim;
	/* Path of the shim's file, for processes that map it later. NULL: found in the mappings. */
	const char *shim_path;
	/* Indices of watch_functions[]. NULL: those with by_default. */
	const uint32_t *functions;
	size_t function_count;
	bool system_calls;   /* count all system calls inside calls: costs every system call of the
				machine 60 to 90 ns */
	bool callers;        /* keep exact counts by return address: watch_callers() */
	bool single;         /* no common probes (uprobe.multi), as before Linux 6.6 */
	bool pairs;          /* no sessions (uprobe.session), as before Linux 6.13 */
	bool stepped;        /* probe frequent functions also where that is dear */
	unsigned int frames; /* of stacks, 1 to WATCH_FRAMES; 0: 1 */
	uint64_t least_ns;   /* shorter calls are counted, but give no record */
	size_t ring_bytes;   /* power of two, at least a page; 0: 8 MiB */
	uint32_t process_room,
		caller_room; /* kept at a time; 0: RECORD_PROCESSES, RECORD_CALLERS */
	/* Told of claims, in watch_poll(), where the shim has its probes. NULL: not attached to them. */
	void (*claimed)(const struct watch_claim *claim, void *data);
	void *claimed_data;
	/* Told what a person should know: dear sites, how long detaching will take, libraries found
	 * later. One line, no newline. NULL: not told. */
	void (*say)(const char *line, void *data);
	void *say_data;
};

struct watch;

/*
 * Loads the programs and puts the probes into every library known so far. No process stops for it.
 * Fails with -EPERM or -EACCES and error->missing where a capability is missing, -ENOENT where no
 * library was given or found and `all` is false and no process was given either, -ESRCH where all processes given have ended.
 */
int watch_open(struct watch **ret_watch, const struct watch_options *options,
	       struct watch_error *error);

/* Watches one more process, with the children it has and will have, from now on. -ESRCH: there is none. A library
 * of its own is probed. */
int watch_add(struct watch *watch, pid_t process, struct watch_error *error);

/* Watches a function without a symbol (an export table's), at an offset of a library's file that
 * somebody knows. It counts as `function`, which should be one of options.functions: watch_stats() has
 * no others. */
int watch_add_offset(struct watch *watch, const char *library, uint64_t offset, uint32_t function,
		     struct watch_error *error);

/*
 * Hands all records that are there to `each`, in the order in which the calls ended on each
 * processor, then waits for more until `timeout_ms` have passed (0: does not wait). Records are not
 * pushed by the kernel (that would cost the probed thread 1 to 2 us), so the ring is looked at every
 * 5 ms at most. Also looks for new processes and libraries. Returns the number of records, -EINTR
 * after a signal (records handed out before it are not lost), or -errno.
 */
int watch_poll(struct watch *watch, int timeout_ms,
	       void (*each)(const struct watch_call *call, void *data), void *data);

/* True once every root, and every child of one, has ended; never with `all`. */
bool watch_ended(const struct watch *watch);

/* Counters so far, summed over processors. The structure is large: not for a small stack. */
int watch_stats(struct watch *watch, struct watch_stats *stats);

/* options.callers: every entry, in no order, until `each` returns non-zero, which is returned.
 * Places of processes that have ended are still known. */
int watch_callers(struct watch *watch, int (*each)(const struct watch_caller *caller, void *data),
		  void *data);

/* All libraries with probes; returned array lives until the next call with the watch. */
size_t watch_libraries(const struct watch *watch, const struct watch_library **ret_libraries);

/* How `function` is probed in the first library that has it. */
enum watch_site watch_site_of(const struct watch *watch, uint32_t function);

/* NULL: not seen. Lives until the next call with the watch. */
const struct watch_process *watch_process_of(struct watch *watch, pid_t process);
/* Every process seen, the order of first sight; NULL at the end. */
const struct watch_process *watch_process_at(struct watch *watch, size_t index);

/* Which file stood behind a code address of a process at a time (CLOCK_MONOTONIC; a call's
 * entered_ns). -ENOENT: not known. */
int watch_place_of(struct watch *watch, pid_t process, uint64_t address, uint64_t when_ns,
		   struct watch_place *ret_place);

/* What detaching will take, in milliseconds: about nothing with common probes, 110 ms a probe with
 * single ones (two for a function), which the kernel takes away one after the other. */
unsigned int watch_detach_estimate_ms(const struct watch *watch);

/*
 * Takes all probes out of all processes and the programs off the scheduler. With common probes under
 * 100 ms. With single ones options.say is told the estimate first. Counters and records stay
 * readable.
 */
void watch_detach(struct watch *watch);

/* Frees everything, after watch_detach() if that was not called. NULL is allowed. */
void watch_done(struct watch *watch);

#endif
