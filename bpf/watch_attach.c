// SPDX-License-Identifier: MIT
/*
 * The programs in the kernel and their links: loading, probing, and taking away again.
 *
 * Common probes (uprobe.multi) are made by the system call itself, since older libbpf has no call for
 * them: one link for all entries of a library, one for all returns. Returns are probed before entries, so
 * that a call that is entered is one whose return is seen, up to those that are still inside when the
 * watch ends. Taken away they are side by side, in no order: that time counts as the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "privilege.h"
#include "watch_internal.h"

/* Since Linux 6.6; the headers built against may be older. */
#define ATTACH_UPROBE_MULTI 48
#define MULTI_RETURN        1

enum {
	CLOSERS = 32,    /* threads that close links */
	SINGLE_MS = 110, /* to close one, measured on Linux 6.18 */
};

/* The part of the system call's argument that attaches many probes at once. */
struct link_create {
	__u32 program, target;
	__u32 attach_type, flags;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 count, multi_flags, process, padding;
};

static void fill_shapes(struct watch_bpf *skeleton)
{
	_Static_assert(sizeof(((struct function_shape *)0)->stream) >= sizeof(struct watch_operand),
		       "operands fit");
	for (size_t i = 0; i < WATCH_FUNCTION_COUNT; i++) {
		const struct watch_function *function = &watch_functions[i];
		/* The skeleton's type is another one by name. */
		struct function_shape *shape = (void *)&skeleton->rodata->shapes[i];

		shape->direction = function->direction;
		shape->stream_class = function->stream_class;
		shape->structure = function->structure;
		shape->structure_position = function->structure_position;
		memcpy(&shape->stream, &function->stream, sizeof(function->stream));
		memcpy(&shape->source, &function->source, sizeof(function->source));
		memcpy(&shape->destination, &function->destination, sizeof(function->destination));
		memcpy(&shape->bytes, &function->bytes, sizeof(function->bytes));
	}
}

static size_t ring_bytes(const struct watch *watch)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = watch->options.ring_bytes;

	if (!bytes)
		return 8 << 20;
	return bytes < page ? page : bytes;
}

static void set_common(struct watch_bpf *skeleton)
{
	struct bpf_program *programs[] = {
		skeleton->progs.entered,       skeleton->progs.left,
		skeleton->progs.scope_entered, skeleton->progs.scope_left,
		skeleton->progs.rewritten,
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_expected_attach_type(programs[i], ATTACH_UPROBE_MULTI);
}

static int load(struct watch *watch)
{
	struct watch_bpf *skeleton = watch_bpf__open();
	struct stat namespace;

	if (!skeleton)
		return -errno;
	watch->skeleton = skeleton;
	if (stat("/proc/self/ns/pid", &namespace))
		return -errno;
	skeleton->rodata->namespace_inode = (__u32) namespace.st_ino;
	skeleton->rodata->all = watch->options.all;
	skeleton->rodata->keep_callers = watch->options.callers;
	skeleton->rodata->count_system_calls = watch->options.system_calls;
	skeleton->rodata->frames_wanted = watch->options.frames;
	skeleton->rodata->least_ns = watch->options.least_ns;
	fill_shapes(skeleton);
	bpf_program__set_autoload(skeleton->progs.system_call, watch->options.system_calls);
	bpf_map__set_max_entries(skeleton->maps.ring, (__u32)ring_bytes(watch));
	if (!watch->options.callers)
		bpf_map__set_max_entries(skeleton->maps.callers, 1);
	bpf_program__set_autoload(skeleton->progs.scope_entered, watch->options.claimed != NULL);
	bpf_program__set_autoload(skeleton->progs.scope_left, watch->options.claimed != NULL);
	bpf_program__set_autoload(skeleton->progs.rewritten, watch->options.claimed != NULL);
	if (!watch->single)
		set_common(skeleton);
	return watch_bpf__load(skeleton);
}

/* `semaphores` NULL: none has one. */
static int create_link(const struct bpf_program *program, int file, const uint64_t *offsets,
		       const uint64_t *semaphores, const uint64_t *cookies, size_t count,
		       unsigned int flags)
{
	char path[32];
	struct link_create create = {
		.program = (__u32)bpf_program__fd(program),
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (__u64)(uintptr_t)path,
		.offsets = (__u64)(uintptr_t)offsets,
		.ref_ctr_offsets = (__u64)(uintptr_t)semaphores,
		.cookies = (__u64)(uintptr_t)cookies,
		.count = (__u32)count,
		.multi_flags = flags,
	};
	long r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	r = syscall(SYS_bpf, BPF_LINK_CREATE, &create, sizeof(create));
	return r < 0 ? -errno : (int)r;
}

/* Does the kernel have common probes? Tried on a function of our own, which nobody calls. */
static int try_common(struct watch *watch)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), link;
	uint64_t offset = 0, cookie = 0;
	struct image image;
	int r;

	if (file < 0)
		return -errno;
	r = image_read(&image, file, "", 0);
	if (!r) {
		r = image.count ? 0 : -ENOENT;
		if (!r)
			offset = image.function[0].offset;
		image_done(&image);
	}
	/* A program without any symbol: its first byte of code will do for that. */
	if (r)
		offset = 64;
	link = create_link(watch->skeleton->progs.entered, file, &offset, NULL, &cookie, 1, 0);
	close(file);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

int attach_load(struct watch *watch, struct watch_error *error)
{
	int r;

	watch->single = watch->options.single;
	r = load(watch);
	if (!r && !watch->single) {
		r = try_common(watch);
		if (!r)
			return 0;
	}
	if (!r)
		return 0;
	if (!watch->single) {
		/* Before Linux 6.6. */
		int single;

		watch_bpf__destroy(watch->skeleton);
		watch->skeleton = NULL;
		watch->single = true;
		single = load(watch);
		if (!single) {
			watch_say(watch,
				  "no common probes here (%s): one for each function, slow to take "
				  "away again",
				  strerror(-r));
			return 0;
		}
		r = single;
	}
	return privilege_explain(error, r, "loading the BPF programs", false);
}

static int attach_tracepoint(struct watch *watch, struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach(program);

	if (!link)
		return -errno;
	watch->tracepoint[watch->tracepoints++] = link;
	return 0;
}

int attach_tracepoints(struct watch *watch, struct watch_error *error)
{
	struct bpf_program *programs[] = {
		watch->skeleton->progs.forked,
		watch->skeleton->progs.executed,
		watch->skeleton->progs.exited,
		watch->skeleton->progs.switched,
		watch->options.system_calls ? watch->skeleton->progs.system_call : NULL,
	};
	int r = 0;

	watch->tracepoint =
		calloc(sizeof(programs) / sizeof(programs[0]), sizeof(struct bpf_link *));
	if (!watch->tracepoint)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]) && !r; i++) {
		if (programs[i])
			r = attach_tracepoint(watch, programs[i]);
	}
	return r ? privilege_explain(error, r, "following the scheduler", false) : 0;
}

/* What the programs are told: the function, and by which file it was probed. */
static uint64_t cookie_of(const struct watch *watch, const struct probe *probe)
{
	return (uint64_t)watch->attachments << 32 | probe->function;
}

static int attach_common(struct watch *watch, int file, const struct probe *probes, size_t count)
{
	uint64_t *offsets = calloc(count, sizeof(*offsets));
	uint64_t *cookies = calloc(count, sizeof(*cookies));
	int *grown = reallocarray(watch->common_link, watch->common_links + 2, sizeof(*grown));
	int back = -ENOMEM, there = -ENOMEM;

	if (grown)
		watch->common_link = grown;
	if (offsets && cookies && grown) {
		for (size_t i = 0; i < count; i++) {
			offsets[i] = probes[i].offset;
			cookies[i] = cookie_of(watch, &probes[i]);
		}
		back = create_link(watch->skeleton->progs.left, file, offsets, NULL, cookies, count,
				   MULTI_RETURN);
		there = back < 0 ? back
				 : create_link(watch->skeleton->progs.entered, file, offsets, NULL,
					       cookies, count, 0);
		if (there < 0 && back >= 0)
			close(back);
	}
	free(offsets);
	free(cookies);
	if (there < 0)
		return there;
	watch->common_link[watch->common_links++] = there;
	watch->common_link[watch->common_links++] = back;
	return 0;
}

static int attach_one(struct watch *watch, const char *path, const struct probe *probe, bool back)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie_of(watch, probe), .retprobe = back);
	struct bpf_link *link = bpf_program__attach_uprobe_opts(
		back ? watch->skeleton->progs.left : watch->skeleton->progs.entered, -1, path,
		probe->offset, &opts);

	if (!link)
		return -errno;
	watch->single_link[watch->single_links++] = link;
	return 0;
}

static int attach_single(struct watch *watch, int file, const struct probe *probes, size_t count)
{
	struct bpf_link **grown = reallocarray(watch->single_link, watch->single_links + 2 * count,
					       sizeof(struct bpf_link *));
	size_t before = watch->single_links;
	char path[32];
	int r = 0;

	if (!grown)
		return -ENOMEM;
	watch->single_link = grown;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	for (size_t i = 0; i < count && !r; i++) {
		r = attach_one(watch, path, &probes[i], true);
		if (!r)
			r = attach_one(watch, path, &probes[i], false);
	}
	while (r && watch->single_links > before)
		bpf_link__destroy(watch->single_link[--watch->single_links]);
	return r;
}

int attach_probes(struct watch *watch, int file, const struct probe *probes, size_t count,
		  struct watch_error *error)
{
	int r;

	watch->attachments++;
	r = watch->single ? attach_single(watch, file, probes, count)
			  : attach_common(watch, file, probes, count);

	return r ? privilege_explain(error, r, "probing the driver library", watch->single) : 0;
}

size_t attach_sieve(struct watch *watch, int file, struct probe *probes, size_t count)
{
	size_t kept = 0;

	if (watch->single)
		return count;
	for (size_t i = 0; i < count; i++) {
		uint64_t cookie = 0;
		int link = create_link(watch->skeleton->progs.entered, file, &probes[i].offset,
				       NULL, &cookie, 1, 0);

		if (link < 0)
			continue;
		close(link);
		probes[kept++] = probes[i];
	}
	return kept;
}

int attach_usdt(struct watch *watch, struct bpf_program *program, int file,
		const struct probe *probe)
{
	uint64_t cookie = probe->function;
	char path[32];

	if (watch->single) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie,
			    .ref_ctr_offset = probe->semaphore);
		struct bpf_link **grown = reallocarray(watch->single_link, watch->single_links + 1,
						       sizeof(struct bpf_link *));
		struct bpf_link *link;

		if (!grown)
			return -ENOMEM;
		watch->single_link = grown;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
		link = bpf_program__attach_uprobe_opts(program, -1, path, probe->offset, &opts);
		if (!link)
			return -errno;
		watch->single_link[watch->single_links++] = link;
	} else {
		int *grown =
			reallocarray(watch->common_link, watch->common_links + 1, sizeof(*grown));
		int link;

		if (!grown)
			return -ENOMEM;
		watch->common_link = grown;
		link = create_link(program, file, &probe->offset,
				   probe->semaphore ? &probe->semaphore : NULL, &cookie, 1, 0);
		if (link < 0)
			return link;
		watch->common_link[watch->common_links++] = link;
	}
	return 0;
}

/* The kernel takes single probes away one after the other (Linux 6.18), whoever asks. */
unsigned int watch_detach_estimate_ms(const struct watch *watch)
{
	return (unsigned int)(watch->single_links * SINGLE_MS + watch->common_links);
}

/*
 * Everything that is to be taken away, shared by threads: the kernel waits at each for all processors to
 * have seen it gone, and the waits may run side by side.
 */
struct closing {
	struct watch *watch; /* read only until all threads are joined */
	size_t next, count;  /* next: taken by one thread each; count: fixed */
};

static void close_number(struct watch *watch, size_t i)
{
	if (i < watch->common_links) {
		close(watch->common_link[i]);
		return;
	}
	i -= watch->common_links;
	if (i < watch->tracepoints)
		bpf_link__destroy(watch->tracepoint[i]);
	else
		bpf_link__destroy(watch->single_link[i - watch->tracepoints]);
}

static void *close_next(void *data)
{
	struct closing *closing = data;
	size_t i;

	/* Relaxed: nothing but the number is told by it; creating and joining the threads orders the rest. */
	while ((i = __atomic_fetch_add(&closing->next, 1, __ATOMIC_RELAXED)) < closing->count)
		close_number(closing->watch, i);
	return NULL;
}

void attach_detach(struct watch *watch)
{
	struct closing closing = {
		.watch = watch,
		.count = watch->common_links + watch->tracepoints + watch->single_links,
	};
	pthread_t thread[CLOSERS];
	size_t threads = 0;

	if (watch->single_links)
		watch_say(watch, "taking %zu single probes away: about %u.%u s",
			  watch->single_links, watch_detach_estimate_ms(watch) / 1000,
			  watch_detach_estimate_ms(watch) / 100 % 10);
	while (threads < CLOSERS && threads + 1 < closing.count &&
	       !pthread_create(&thread[threads], NULL, close_next, &closing))
		threads++;
	close_next(&closing);
	while (threads > 0)
		pthread_join(thread[--threads], NULL);
	free(watch->common_link);
	free(watch->single_link);
	free(watch->tracepoint);
	watch->common_link = NULL;
	watch->single_link = NULL;
	watch->tracepoint = NULL;
	watch->common_links = watch->single_links = watch->tracepoints = 0;
}
