// SPDX-License-Identifier: MIT
/*
 * The simulated driver's private header: every structure and the calls between its files.
 *
 * Thread rules. One lock, sim.lock, protects everything declared here unless a field says
 * otherwise. sim_enter() takes it, sim_leave() gives it back; an implementation (impl_*) therefore
 * runs with it held and may call any other implementation. It is let go in three places only: while
 * the host waits (sim_block), while an operation's bytes are moved (engine.c) and while a host
 * function runs (engine.c). Nothing read before one of these may be trusted after it, except
 * objects on which a reference is held.
 */
#ifndef SIM_H
#define SIM_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cudaProfiler.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_IMPLEMENTATION __attribute__((visibility("hidden")))

#define SIM_DRIVER_VERSION 13000
#define SIM_DEVICE_LIMIT   8
#define SIM_QUEUE_LIMIT    1024 /* pending operations of one stream before a submission blocks */
/* A pageable host-to-device "async" copy above this waits for its own stream (measured: 1 MiB no,
 * 16 MiB yes). */
#define SIM_PAGEABLE_WAIT_BYTES ((size_t)8 << 20)
#define SIM_DEVICE_SPACE        ((size_t)256 << 30) /* address range of one device, at most */

/* How a device says that it reaches pageable memory; its kernels do not. */
enum sim_pageable { SIM_PAGEABLE_NONE, SIM_PAGEABLE_HMM, SIM_PAGEABLE_ATS };

struct sim_stream;
struct sim_context;
struct sim_operation;
struct sim_capture;
struct hold;

/* ---- exported face (exports.c, written by gen/exports.py) ---- */

enum { SIM_PER_THREAD = 1, SIM_WITHOUT_INIT = 2, SIM_IN_CALLBACK = 4, SIM_CAPTURE_UNSAFE = 8 };

struct sim_export {
	const char *name;
	void *address;
	unsigned flags;
	unsigned calls; /* counted only while fault rules exist */
};

struct sim_lookup {
	const char *name;
	int version;
	int per_thread;
	unsigned export;
};

struct sim_call {
	struct sim_export *export;
	bool per_thread; /* handle 0 means the per-thread stream */
	bool locked;
	bool waited; /* the host blocked for an operation */
	bool noting;
	unsigned note_length;
	uint64_t cost_ns; /* CPU time that the call is given on top, spent after the lock is
			     released */
	char notes[360];
};

extern struct sim_export sim_exports[];
extern const unsigned sim_export_count;
extern const struct sim_lookup sim_lookups[];
extern const unsigned sim_lookup_count;

bool sim_enter(struct sim_call *call, struct sim_export *export, CUresult *ret_result);
CUresult sim_leave(struct sim_call *call, CUresult result);
extern __thread struct sim_call *sim_current_call; /* the call this thread is in */
extern __thread bool sim_in_callback;

void sim_note_number(struct sim_call *call, const char *name, long long value);
void sim_note_pointer(struct sim_call *call, const char *name, uint64_t address);
void sim_note_handle(struct sim_call *call, const char *name, char letter, const void *handle);

/* ---- objects: handles are addresses of slots in one arena, re-used last in first out ---- */

enum sim_magic {
	SIM_FREE = 0,
	SIM_CONTEXT = 0x43545801,
	SIM_STREAM,
	SIM_EVENT,
	SIM_MODULE,
	SIM_FUNCTION,
	SIM_GRAPH,
	SIM_EXEC,
	SIM_NODE,
	SIM_MEMORY_POOL,
	SIM_ARRAY,
	SIM_USER_OBJECT,
	SIM_PHYSICAL,
	SIM_DEAD, /* destroyed, still referred to by pending work */
};

struct sim_object {
	uint32_t magic;
	uint32_t references;
	uint64_t id; /* never used twice */
};

void *sim_object_new(enum sim_magic magic); /* zeroed; one reference; NULL without memory */
void sim_object_free(void *object);
void *sim_object_check(const void *handle, enum sim_magic magic); /* NULL if it is no such handle */

/* ---- work: what an operation or a graph node does ---- */

enum sim_kind {
	SIM_EMPTY,
	SIM_KERNEL,
	SIM_COPY,
	SIM_MEMSET,
	SIM_HOST_FUNCTION,
	SIM_EVENT_RECORD,
	SIM_EVENT_WAIT,
	SIM_VALUE_WAIT,
	SIM_VALUE_WRITE,
	SIM_ALLOC,
	SIM_FREE_ASYNC,
	SIM_CHILD_GRAPH,
	SIM_BATCH,
};

struct sim_operand {
	uint64_t address;
	size_t pitch; /* bytes from row to row */
	size_t slice; /* bytes from slice to slice */
};

struct sim_copy {
	struct sim_operand source, destination;
	size_t width, height, depth; /* width in bytes */
};

struct sim_memset {
	uint64_t address;
	size_t pitch, width, height; /* width in elements */
	unsigned value, element;
};

struct sim_kernel {
	const struct sim_builtin
		*builtin; /* NULL: an entry with no built-in kernel, does nothing */
	struct sim_function *function;
	unsigned grid[3], block[3], shared;
};

struct sim_host {
	CUhostFn function;
	CUstreamCallback callback; /* with handle; function is NULL then */
	CUstream handle;
	void *data;
};

struct sim_value {
	uint64_t address, value;
	unsigned flags;
	bool wide;
};

struct sim_work {
	enum sim_kind kind;
	union {
		struct sim_kernel kernel;
		struct sim_copy copy;
		struct sim_memset memset;
		struct sim_host host;
		struct sim_value value;
		struct sim_event *event;
		struct sim_allocation *allocation;
		struct sim_graph *child;
		uint64_t address;
	};
	struct sim_ipc_event *mark; /* event record or wait: counters shared with other processes,
				       and the number there */
	uint64_t mark_number;
	uint8_t *bytes; /* owned: kernel parameters, or the staged source of a pageable copy; value
			   batch */
	size_t byte_count;
};

int sim_work_copy(struct sim_work *to, const struct sim_work *from); /* 0 or -ENOMEM */
void sim_work_clear(struct sim_work *work);
const char *sim_work_name(const struct sim_work *work);

/* ---- operations and the engine (engine.c) ---- */

enum sim_state { SIM_WAITING, SIM_READY, SIM_STARTED, SIM_RUNNING, SIM_DONE };

struct sim_operation {
	unsigned references;
	enum sim_state state;
	unsigned unmet;    /* operations it still waits for */
	unsigned position; /* index in the engine's list of ready or started operations */
	uint64_t order;    /* submission number */
	uint64_t ready_at, started_at, finish_at; /* engine clock, ns */
	bool polls;                               /* finishes when its condition holds */
	struct sim_context *context;
	struct sim_stream *stream; /* NULL for an inner node of a graph */
	struct sim_operation **dependents;
	unsigned dependent_count, dependent_space;
	struct sim_work work;
};

struct sim_operation *sim_operation_new(struct sim_context *context, struct sim_stream *stream);
struct sim_operation *sim_operation_get(struct sim_operation *operation);
void sim_operation_put(struct sim_operation *operation);
int sim_operation_after(struct sim_operation *operation, struct sim_operation *earlier);
void sim_operation_commit(struct sim_operation *operation);
uint64_t sim_now(void); /* engine clock: real or virtual ns */
void sim_engine_start(void);
void sim_engine_poll(void);          /* virtual time: let some work happen at a call */
void sim_clock_advance(uint64_t ns); /* virtual time only */
void sim_block(void); /* wait until something completes; gives up the lock meanwhile */
void sim_wait_operation(struct sim_operation *operation);
void sim_wait_context(struct sim_context *context);
void sim_wait_load(struct sim_context *context);
void sim_wait_device(int device);
void sim_wait_all(void);
void sim_wait_device_and_peers(int device);
uint64_t sim_random(uint64_t bound);

/* Runs the bytes of a work item without the lock; 0 or the sticky error. Built-in kernels:
 * kernels.c. */
CUresult sim_run_bytes(const struct sim_work *work);

struct sim_builtin {
	const char *name;
	unsigned parameter_count;
	uint8_t parameter_sizes[6];
	CUresult (*run)(const struct sim_kernel *kernel, const uint64_t *parameters);
};

const struct sim_builtin *sim_builtin_find(const char *name);
/* Duration of the kernel in ns; *ret_polls when it ends on a condition that sim_kernel_ready()
 * tells. */
uint64_t sim_kernel_duration(const struct sim_work *work, bool *ret_polls);
bool sim_kernel_ready(const struct sim_work *work);
void sim_kernel_parameters(const struct sim_work *work, uint64_t parameters[6]);

/* ---- contexts, streams, events ---- */

struct sim_context {
	struct sim_object object;
	int device;
	bool primary, active;
	unsigned retained;
	unsigned flags;
	unsigned api_version;
	CUresult sticky;
	unsigned pending; /* operations not done */
	struct sim_stream *legacy;
	struct sim_stream **streams; /* all but legacy, per-thread ones included */
	unsigned stream_count, stream_space;
	size_t limits[16];
	unsigned peers; /* bit per device whose memory was enabled */
	CUfunc_cache cache_config;
	CUsharedconfig shared_config;
};

enum sim_stream_kind { SIM_LEGACY, SIM_BLOCKING, SIM_NON_BLOCKING, SIM_THREAD_STREAM };

struct sim_stream {
	struct sim_object object;
	enum sim_stream_kind kind;
	unsigned flags;
	int priority;
	uint64_t thread; /* owner of a per-thread stream */
	struct sim_context *context;
	struct sim_operation *tail; /* youngest operation, NULL when all done */
	unsigned pending;
	struct sim_capture *capture;
	struct sim_node **frontier; /* nodes that the next captured operation follows */
	unsigned frontier_count;
	CUstreamAttrValue policy;
};

struct sim_event {
	struct sim_object object;
	unsigned flags;
	struct sim_context *context; /* no reference: valid while its id is context_id */
	uint64_t context_id;
	struct sim_operation *record; /* last record, NULL if never */
	uint64_t capture_id; /* capture of the last record, running or not; 0: last record was a
				real one */
	struct sim_node **frontier;
	unsigned frontier_count;
	struct sim_ipc_event *shared;
};

CUresult sim_context_current(
	struct sim_context **ret_context); /* INVALID_CONTEXT, CONTEXT_IS_DESTROYED, sticky */
struct sim_context *sim_context_handle(CUcontext handle);
CUresult sim_stream_resolve(CUstream handle, struct sim_stream **ret_stream);
struct sim_stream *sim_stream_legacy(struct sim_context *context);
/* The stream that a synchronous call without stream argument uses. */
CUresult sim_stream_implicit(struct sim_stream **ret_stream);
void sim_stream_put(struct sim_stream *stream);
bool sim_stream_is_blocking(const struct sim_stream *stream);
void sim_streams_release(struct sim_context *context);
/*
 * Puts work on a stream: a node if the stream captures, else an operation. Takes over what the work
 * owns, also on failure. ret_operation (may be NULL) gets a reference, or NULL if it was captured.
 */
CUresult sim_submit(struct sim_stream *stream, struct sim_work *work,
		    struct sim_operation **ret_operation);
/* As sim_submit with more operations to follow. */
CUresult sim_submit_list(struct sim_stream *stream, struct sim_work *work,
			 struct sim_operation **earlier, unsigned count,
			 struct sim_operation **ret_operation);
CUresult sim_submit_after(struct sim_stream *stream, struct sim_work *work,
			  struct sim_operation *earlier, struct sim_operation **ret_operation);
/* Waits until all that the stream holds now is done; legacy: all blocking streams too. */
void sim_wait_stream(struct sim_stream *stream);
bool sim_stream_idle(struct sim_stream *stream);
uint64_t sim_thread_number(void);

/* ---- memory (memory.c) ---- */

enum sim_memory {
	SIM_PAGEABLE,
	SIM_PINNED,
	SIM_REGISTERED,
	SIM_MANAGED,
	SIM_DEVICE,
	SIM_POOL,
	SIM_OTHER
};

struct sim_allocation {
	uint64_t address;
	size_t size;     /* as asked */
	size_t reserved; /* address range taken */
	uint8_t *backing;
	enum sim_memory kind;
	int device;
	unsigned flags;
	uint64_t id; /* buffer id, never used twice */
	uint64_t context_id;
	struct sim_context *context;
	struct sim_memory_pool *pool;
	uint64_t freed_on; /* pool: id of the stream of the free */
	bool freed;        /* pool: free submitted */
	bool released;     /* pool: the free has run: in the pool's hands, no access */
	bool replaced; /* pool: taken again on its stream before the free ran; out of the table */
	struct sim_allocation *next; /* pool: list of its blocks */
	bool sync_memops;
	bool array;
	bool imported;  /* opened from another process */
	bool whole_map; /* backing is an own mapping, to be unmapped */
	struct sim_physical *physical;
};

struct sim_allocation *sim_memory_find(uint64_t address);
enum sim_memory sim_memory_kind(uint64_t address);
bool sim_memory_is_host(enum sim_memory kind);
/* Host address of device-visible bytes; NULL if the range is not mapped. `host`: pageable memory is
 * allowed. */
uint8_t *sim_memory_translate(uint64_t address, size_t size, bool host);
bool sim_memory_sync(uint64_t address); /* SYNC_MEMOPS applies */
CUresult sim_memory_device_new(struct sim_context *context, size_t size, size_t alignment,
			       struct sim_allocation **ret_allocation);
void sim_memory_device_free(struct sim_allocation *allocation);
int sim_memory_insert(struct sim_allocation *allocation);
void sim_memory_remove(struct sim_allocation *allocation);
void sim_memory_release_context(struct sim_context *context);
void sim_memory_setup(int device);
size_t sim_memory_used(int device);
int sim_memory_file(int device);
uint64_t sim_memory_offset(const struct sim_allocation *allocation);
uint64_t sim_memory_space(int device, size_t size); /* bare address range of the device */
void sim_memory_space_free(int device, uint64_t address, size_t size);
bool sim_array_layout(CUarray handle, uint64_t *ret_base, size_t *ret_pitch, size_t *ret_height);
CUresult sim_copy_operand(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
			  size_t x, size_t y, size_t z, size_t pitch, size_t height,
			  struct sim_operand *ret_operand);
CUresult sim_copy_3d(const CUDA_MEMCPY3D *from, struct sim_copy *ret_copy);
void sim_register_end(struct sim_allocation *allocation);
void sim_pool_free_done(struct sim_allocation *allocation);
void sim_pools_synchronized(int device);

/* ---- modules ---- */

struct sim_module {
	struct sim_object object;
	struct sim_context *context; /* NULL for a library */
	bool library;
	struct sim_function **functions;
	unsigned function_count;
	struct sim_allocation **globals;
	char **global_names;
	unsigned global_count;
};

struct sim_function {
	struct sim_object object;
	struct sim_module *module;
	const struct sim_builtin *builtin;
	char *name;
	bool loaded;
	unsigned maximum_shared;
};

CUresult sim_kernel_work(struct sim_function *function, const unsigned grid[3],
			 const unsigned block[3], unsigned shared, void **parameters, void **extra,
			 struct sim_work *ret_work);
void sim_modules_release(struct sim_context *context);

/* ---- events shared between processes (ipc.c) ---- */

CUresult sim_ipc_event_open(struct sim_event *event);
void sim_ipc_event_record(struct sim_event *event, struct sim_work *work);
void sim_ipc_mark(const struct sim_work *work);
bool sim_ipc_mark_done(const struct sim_work *work);
CUresult sim_ipc_event_wait(struct sim_stream *stream, struct sim_event *event);
bool sim_ipc_event_done(struct sim_event *event);
void sim_ipc_event_synchronize(struct sim_event *event);
void sim_ipc_event_close(struct sim_event *event);

/* ---- capture (capture.c) and graphs (graph.c, node.c) ---- */

struct sim_node {
	struct sim_object object;
	struct sim_graph *graph;
	unsigned index; /* in graph->nodes; a node comes after all that it depends on, unless edges
			   were added by hand */
	bool disabled;
	struct sim_node **dependencies;
	unsigned dependency_count;
	uint64_t original_id; /* in a clone: the node it was made from */
	struct sim_work work;
	void *parameters[6]; /* handed out by the getter of a kernel node */
};

struct sim_graph {
	struct sim_object object;
	struct sim_node **nodes;
	unsigned node_count, node_space;
	bool owned;         /* child of a node, inside an exec, or being captured */
	struct hold *holds; /* user objects (user_object.c) */
};

struct sim_exec {
	struct sim_object object;
	struct sim_graph *graph;    /* own copy */
	struct sim_operation *last; /* end of the last launch */
	cuuint64_t flags;
};

struct sim_capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t thread;
	bool invalid;
	bool to_graph; /* the graph is the program's */
	struct sim_graph *graph;
	struct sim_stream *origin;
	struct sim_stream **streams;
	unsigned stream_count;
	struct sim_capture *next;
};

CUresult sim_capture_add(struct sim_stream *stream,
			 struct sim_work *work); /* takes over what the work owns */
CUresult sim_capture_prohibits(
	void); /* for calls unsafe during capture: SUCCESS, or 900 with invalidation */
bool sim_capture_blocking(
	struct sim_context *context); /* a blocking stream of the context captures */
void sim_capture_invalidate_blocking(struct sim_context *context);
bool sim_capture_context(struct sim_context *context,
			 bool invalidate); /* any stream of the context captures */
void sim_capture_invalidate(struct sim_capture *capture);
void sim_capture_drop_stream(struct sim_stream *stream);
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event, bool external);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool external);
bool sim_event_captured(struct sim_event *event);
void sim_event_invalidate(struct sim_event *event);
void sim_event_uncapture(struct sim_event *event);
void sim_capture_mark_unsafe(void);

void sim_user_objects_drop(struct hold *holds);
struct hold *sim_user_objects_clone(const struct hold *holds);
struct sim_graph *sim_graph_new(void);
void sim_graph_free(struct sim_graph *graph);
struct sim_graph *sim_graph_clone(const struct sim_graph *graph);
/* Takes over what the work owns; NULL without memory. */
struct sim_node *sim_node_new(struct sim_graph *graph, struct sim_node *const *dependencies,
			      unsigned count, struct sim_work *work);
CUresult sim_exec_node(CUgraphExec exec_handle, CUgraphNode handle, struct sim_node **ret_node);
CUresult sim_node_add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
		      size_t count, struct sim_work *work); /* takes over what the work owns */
int sim_node_depend(struct sim_node *node, struct sim_node *on);

/* ---- process-wide ---- */

enum sim_costs { SIM_COSTS_NONE, SIM_COSTS_SMALL, SIM_COSTS_MEASURED };

struct sim {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an operation completed, or work arrived */
	bool initialized, ended;
	unsigned char *fork_mark; /* one page, zero in a forked child */
	int device_count;
	size_t memory_total, device_space;
	bool virtual_time, seeded, lazy, launch_blocking;
	bool drain_lock; /* nobody submits while a call drains a device */
	unsigned drains; /* calls that do */
	enum sim_pageable pageable;
	uint64_t seed, delay_ns;
	enum sim_costs costs;
	FILE *journal;
	uint64_t next_id, next_order;
	unsigned pending[SIM_DEVICE_LIMIT]; /* operations not done, by device */
	struct sim_context *primary[SIM_DEVICE_LIMIT];
	struct sim_context **contexts;
	unsigned context_count, context_space;
	struct sim_capture *captures;
};

extern struct sim sim;

bool sim_forked(void); /* this is a child of the process that called cuInit */
void sim_configure(void);
void sim_cost(uint64_t measured_ns);
void sim_fault_parse(const char *text);
CUresult sim_fault_hit(struct sim_export *export); /* SUCCESS: no fault now */
void sim_journal_call(struct sim_call *call, CUresult result);
void sim_journal_operation(const struct sim_operation *operation);
void sim_complain(const char *what, const char *value);
void *sim_grow(void *array, unsigned count, unsigned *space, size_t element);

#include "impls.h"

#endif
