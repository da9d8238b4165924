// SPDX-License-Identifier: MIT
/*
 * What the parts of the watch share: watch.c (life, records), watch_counts.c (counters), watch_attach.c (programs and probes),
 * watch_library.c (driver libraries), watch_found.c (those in mappings), watch_shim.c (the shim and its probes), watch_roots.c (who is watched from the beginning),
 * watch_process.c (processes, whose call it was). All in the thread that has the watch, but for closing (watch_attach.c). Functions return 0 or
 * -errno unless they say otherwise; the watch owns what it points to.
 */
#ifndef SLIPSTREAM_WATCH_INTERNAL_H
#define SLIPSTREAM_WATCH_INTERNAL_H

#include <stdbool.h>

#include <bpf/libbpf.h>

#include "image.h"
#include "mappings.h"
#include "places.h"
#include "watch.h"
#include "watch_record.h"

/* Behind it: its types are in the skeleton. */
#include "watch.skel.h"

/* A file as different interfaces name it: stat(), /proc/PID/maps and the kernel's messages may give
 * different devices where layers are stacked (overlay). */
struct identity {
	dev_t device;
	ino_t inode;
};

enum { IDENTITIES = 8, LIBRARY_LIMIT = 64, IDENTITIES_LIMIT = 4096 };

struct file_identity {
	struct identity identity[IDENTITIES];
	size_t count;
};

/* Files of which one thing is known; each once. */
struct identities {
	struct identity *items;
	size_t count;
};

/* One probed function of a library. */
struct probe {
	uint64_t offset;    /* of the probe, in the file */
	uint64_t semaphore; /* of a USDT probe; 0: none */
	uint32_t function;  /* index of watch_functions[]; the first of the names of that address.
			       Of a USDT probe: the slot of its arguments' places */
	uint8_t site;       /* enum watch_site */
	uint8_t kind;       /* of a USDT probe: enum probe_kind */
};

struct library {
	struct watch_library public; /* path: owned */
	int file; /* open: probes go to this very file, whatever its name becomes */
	struct file_identity identity;
	struct probe *probe;
	size_t probes;
};

/* A file of the shim: each copy and each build has symbols of its own. */
struct shim {
	struct file_identity identity;
	struct image image;
	bool is_read; /* else it could not be opened: whose its calls are is not known */
};

struct process {
	struct watch_process public; /* program: owned */
	struct process *older;       /* of the same bucket, seen earlier */
	bool forgotten; /* it has ended, and the kernel's table has no entry of it any more */
};

/* How functions are probed: as the kernel and the options allow, the first of these. */
enum probes {
	PROBES_SESSION, /* entries and returns of a file in one link (uprobe.session) */
	PROBES_PAIRS,   /* in two (uprobe.multi) */
	PROBES_SINGLE,  /* two links for each function */
};

enum { USDT_PROBES = 32 }; /* of one file */

enum { PROCESS_BUCKETS = 4096 };

/* A mapping to be looked at once the messages about it have all been read. */
struct pending {
	pid_t process;
	struct place place; /* path: owned */
};

/* An answer kept: whose call from this address. */
struct answer {
	pid_t process;
	uint32_t function;
	uint64_t return_address;
	uint64_t changes; /* places_changes() then: with another number it is old */
	uint8_t by;
	bool shim;
};

enum { ANSWERS = 1024 };

struct watch {
	struct watch_options options; /* what its pointers point to is not used after watch_open(),
					 but for say and claimed */
	char *shim;                   /* file name */
	bool wanted[WATCH_FUNCTION_COUNT];
	enum probes form;
	bool detached;
	bool fixed; /* the user gave the libraries: no others */
	bool children_said, libraries_said, refused_said, shims_said; /* told once */

	struct watch_bpf *skeleton;
	struct ring_buffer *ring;
	struct bpf_link **tracepoint;
	size_t tracepoints;
	struct bpf_link **single_link; /* single probes */
	size_t single_links;
	int *common_link; /* descriptors: one of a library, two without sessions; one of a shim's file */
	size_t common_links;

	struct library *library;
	size_t libraries;
	struct watch_library *public_libraries; /* for watch_libraries() */
	struct file_identity *rejected; /* looked at, no driver library: not looked at again */
	size_t rejecteds;
	struct shim *shims; /* files known as the shim */
	size_t shim_count;
	unsigned int probe_slots; /* of USDT probes, used */
	uint32_t attachments;     /* files probed so far */

	struct process **process; /* in the order of first sight; pointers, since they are lent */
	struct process *bucket[PROCESS_BUCKETS]; /* by id, the latest first */
	size_t processes, alive;
	struct places *places;
	struct mappings *mappings; /* NULL: refused */
	struct pending *pending;
	size_t pendings;
	uint64_t lost_mappings;               /* messages, or no room for them */
	struct identities unwatched, unheard; /* driver libraries; files of the shim */
	uint64_t unwatched_functions;
	bool must_scan;                           /* messages were lost since mappings were read */
	uint64_t seen_process_losses;             /* LOSS_PROCESS at the last look */
	uint64_t pruned_ns, scanned_ns, found_ns; /* when that was done last */
	struct answer answer[ANSWERS];
	struct identity own; /* of the mapping that was asked for, by the kernel's messages */
	uint64_t own_address;

	/* Of the watch_poll() under way. */
	void (*each)(const struct watch_call *call, void *data);
	void *each_data;
	uint64_t records;
	int polled;
};

void watch_say(const struct watch *watch, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
uint64_t watch_now_ns(void);

/* watch_attach.c */
int attach_load(struct watch *watch, struct watch_error *error);
int attach_tracepoints(struct watch *watch, struct watch_error *error);
/* Probes at `count` offsets of an open file. */
int attach_probes(struct watch *watch, int file, const struct probe *probes, size_t count,
		  struct watch_error *error);
/*
 * Keeps those that the kernel takes, each tried alone, and returns their number: with one instruction that it refuses (a breakpoint, say) it
 * refuses the whole library to processes that have it mapped. Side by side, since each waits for the kernel; and only where common probes were refused.
 */
size_t attach_sieve(struct watch *watch, int file, struct probe *probes, size_t count);
/* USDT probes of one file, in that order. */
int attach_usdt(struct watch *watch, int file, const struct probe *probes, size_t count);
void attach_detach(struct watch *watch);

/* watch_library.c */
/* A driver library by an open file, which is taken over; `path` is only shown. 1: known already. -EINVAL, -ENOENT: no driver library;
 * -ENOSPC: LIBRARY_LIMIT; else why it could not be probed. */
int library_add(struct watch *watch, int file, const char *path, struct watch_error *error);
int library_add_path(struct watch *watch, const char *path, struct watch_error *error);
bool identity_matches(const struct file_identity *file, dev_t device, ino_t inode);
void identity_add(struct file_identity *file, dev_t device, ino_t inode);
/* Once for each file; of more than IDENTITIES_LIMIT the last is counted for all. */
void identities_note(struct identities *identities, dev_t device, ino_t inode);
/* All names of an open file. */
struct stat;
void identify(struct watch *watch, struct file_identity *ret_file, int file,
	      const struct stat *status);
void library_done(struct library *library);

/* watch_found.c */
/* A mapping of a process that may be one of a driver library or of the shim: then it is probed, or
 * noted. */
void library_consider(struct watch *watch, pid_t process, const struct place *place);
/* Would it look at that mapping? By its name only. */
bool library_is_named(const struct watch *watch, const struct place *place);
/* Is it one of a driver library, as far as is known by now? */
bool library_is_driver(const struct watch *watch, const struct place *place);

/* watch_shim.c */
/* A file of the shim, which stays the caller's. Known already: nothing is done. */
void shim_add(struct watch *watch, int file);
/* By its path, for processes that map it later. */
void shim_add_path(struct watch *watch, const char *path);
/* One that cannot be opened. */
void shim_note(struct watch *watch, dev_t device, ino_t inode);
/* NULL: it is none. Good until another one is added. */
const struct shim *shim_find(const struct watch *watch, dev_t device, ino_t inode);
void shims_done(struct watch *watch);

/* watch_counts.c */
/* `which`: enum loss. Summed over processors; 0 also where it cannot be read. */
uint64_t counts_lost(const struct watch *watch, __u32 which);

/* watch_roots.c */
/* Those that the options name. One that has ended is told and left out, unless nobody is left to watch: -ESRCH. */
int roots_add(struct watch *watch, const struct watch_options *options, struct watch_error *error);
/* Whoever has a driver library mapped and is not watched yet. */
void roots_find(struct watch *watch);

/* watch_process.c */
struct process *process_find(const struct watch *watch, pid_t id);
struct process *process_new(struct watch *watch, pid_t id, pid_t parent, uint64_t since_ns,
			    const char *name);
/* Libraries that it has mapped by now. -errno: its mappings cannot be read. */
int process_look(struct watch *watch, pid_t id);
void process_end(struct watch *watch, struct process *process, uint64_t ns);
void process_take(struct watch *watch, const struct process_record *record);
/* After records of processes were lost: the kernel's table has them all. */
void process_resync(struct watch *watch);
/* Whose call that was (enum watch_by), and whether the process had the shim then. `when_ns` UINT64_MAX: the last that is known. */
void process_whose(struct watch *watch, pid_t process, uint32_t function, uint64_t return_address,
		   uint64_t when_ns, uint8_t *ret_by, bool *ret_shim);
void process_prune(struct watch *watch);
/* Notes a mapping that was told, for process_look_at(); called from inside the reading of messages. */
void process_note(pid_t process, const struct place *place, void *watch);
/* Without messages, and where some were lost: reads the mappings of all that live, 20 times a second at most. */
void process_scan_all(struct watch *watch);
/* Libraries among the mappings that were noted. */
void process_look_at(struct watch *watch);

#endif
