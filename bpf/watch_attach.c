// SPDX-License-Identifier: MIT
/*
 * The programs in the kernel and their links: loading, probing, and taking away again.
 *
 * Common probes: one link for all of a library, by sessions where the kernel has them (Linux 6.13), entry and return in one; else (6.6) one for all
 * entries and one for all returns. Returns are probed before entries then, so that a call that is entered is one whose return is seen, up to those
 * that are still inside when the watch ends. What takes time when a link is taken away is not the probes but the kernel's grace periods, three for
 * each link, and of several links side by side they come one after the other: so the fewer links the better.
 *
 * Taken away they are side by side, in no order: that time counts as the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "privilege.h"
#include "probe_link.h"
#include "side_by_side.h"
#include "watch_internal.h"

#define SINGLE_MS 110 /* to close one, measured on Linux 6.18 */

#define SAME_OPERAND(field)                                                                        \
	_Static_assert(offsetof(struct operand, field) == offsetof(struct watch_operand, field) && \
			       sizeof(((struct operand *)0)->field) ==                             \
				       sizeof(((struct watch_operand *)0)->field),                 \
		       #field " lies alike on both sides")

/* fill_shapes() copies one into the other. */
SAME_OPERAND(position);
SAME_OPERAND(width);
SAME_OPERAND(second);
SAME_OPERAND(second_width);
SAME_OPERAND(factor);
_Static_assert(sizeof(struct watch_operand) <= sizeof(struct operand), "operands fit");

static void fill_shapes(struct watch_bpf *skeleton)
{
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

/* What the kernel is to have, and which programs are for that. */
static void set_form(struct watch *watch)
{
	struct watch_bpf *skeleton = watch->skeleton;
	bool session = watch->form == PROBES_SESSION;

	bpf_program__set_autoload(skeleton->progs.passed, session);
	bpf_program__set_autoload(skeleton->progs.entered, !session);
	bpf_program__set_autoload(skeleton->progs.left, !session);
	bpf_program__set_autoload(skeleton->progs.probed, watch->options.claimed != NULL);
	if (watch->form == PROBES_SINGLE)
		return;
	bpf_program__set_expected_attach_type(skeleton->progs.passed, PROBE_LINK_SESSION);
	bpf_program__set_expected_attach_type(skeleton->progs.entered, PROBE_LINK_MULTI);
	bpf_program__set_expected_attach_type(skeleton->progs.left, PROBE_LINK_MULTI);
	bpf_program__set_expected_attach_type(skeleton->progs.probed, PROBE_LINK_MULTI);
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
	else if (watch->options.caller_room)
		bpf_map__set_max_entries(skeleton->maps.callers, watch->options.caller_room);
	if (watch->options.process_room)
		bpf_map__set_max_entries(skeleton->maps.watched, watch->options.process_room);
	set_form(watch);
	return watch_bpf__load(skeleton);
}

/* Of an open file, whatever its name is by now. `semaphores` NULL: none has one. */
static int create_link(const struct bpf_program *program, int file, const uint64_t *offsets,
		       const uint64_t *semaphores, const uint64_t *cookies, size_t count,
		       unsigned int flags)
{
	char path[32];
	struct probe_link link = {
		.program = bpf_program__fd(program),
		.type = bpf_program__expected_attach_type(program),
		.flags = flags,
		.path = path,
		.count = count,
		.offsets = offsets,
		.cookies = cookies,
		.semaphores = semaphores,
	};

	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	return probe_link_create(&link);
}

/* The program at entries. */
static struct bpf_program *at_entries(const struct watch *watch)
{
	return watch->form == PROBES_SESSION ? watch->skeleton->progs.passed
					     : watch->skeleton->progs.entered;
}

/* Does the kernel have such probes? Tried on a function of our own, which nobody calls. */
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
	link = create_link(at_entries(watch), file, &offset, NULL, &cookie, 1, 0);
	close(file);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

static int load_form(struct watch *watch, enum probes form)
{
	int r;

	watch_bpf__destroy(watch->skeleton);
	watch->skeleton = NULL;
	watch->form = form;
	r = load(watch);
	return r || form == PROBES_SINGLE ? r : try_common(watch);
}

int attach_load(struct watch *watch, struct watch_error *error)
{
	enum probes form = watch->options.single  ? PROBES_SINGLE
			   : watch->options.pairs ? PROBES_PAIRS
						  : PROBES_SESSION;
	int r = load_form(watch, form), common = r;

	if (r && form == PROBES_SESSION)
		common = r = load_form(watch, PROBES_PAIRS);
	if (r && form != PROBES_SINGLE) {
		r = load_form(watch, PROBES_SINGLE);
		if (!r)
			watch_say(watch,
				  "no common probes here (%s): one for each function, slow to take "
				  "away again",
				  strerror(-common));
	}
	return r ? privilege_explain(error, r, "loading the BPF programs", false) : 0;
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

/* Into the list of links, if it is one; it is the watch's then. */
static int keep_link(struct watch *watch, int link)
{
	int *grown;

	if (link < 0)
		return link;
	grown = reallocarray(watch->common_link, watch->common_links + 1, sizeof(*grown));
	if (!grown) {
		close(link);
		return -ENOMEM;
	}
	watch->common_link = grown;
	grown[watch->common_links++] = link;
	return 0;
}

static int attach_common(struct watch *watch, int file, const struct probe *probes, size_t count)
{
	uint64_t *offsets = calloc(count, sizeof(*offsets));
	uint64_t *cookies = calloc(count, sizeof(*cookies));
	size_t before = watch->common_links;
	int r = offsets && cookies ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !r; i++) {
		offsets[i] = probes[i].offset;
		cookies[i] = cookie_of(watch, &probes[i]);
	}
	if (!r && watch->form == PROBES_PAIRS)
		r = keep_link(watch, create_link(watch->skeleton->progs.left, file, offsets, NULL,
						 cookies, count, PROBE_LINK_RETURN));
	if (!r)
		r = keep_link(watch, create_link(at_entries(watch), file, offsets, NULL, cookies,
						 count, 0));
	free(offsets);
	free(cookies);
	while (r && watch->common_links > before)
		close(watch->common_link[--watch->common_links]);
	return r;
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
	r = watch->form == PROBES_SINGLE ? attach_single(watch, file, probes, count)
					 : attach_common(watch, file, probes, count);

	return r ? privilege_explain(error, r, "probing the driver library",
				     watch->form == PROBES_SINGLE)
		 : 0;
}

struct sieve {
	const struct watch *watch;
	const struct probe *probes;
	bool *taken; /* one of each, written by one thread */
	int file;
};

static void try_probe(size_t number, void *data)
{
	const struct sieve *sieve = data;
	uint64_t cookie = 0;
	int link = create_link(at_entries(sieve->watch), sieve->file, &sieve->probes[number].offset,
			       NULL, &cookie, 1, 0);

	sieve->taken[number] = link >= 0;
	if (link >= 0)
		close(link);
}

size_t attach_sieve(struct watch *watch, int file, struct probe *probes, size_t count)
{
	struct sieve sieve = {.watch = watch, .probes = probes, .file = file};
	size_t kept = 0;

	if (watch->form == PROBES_SINGLE)
		return count;
	sieve.taken = calloc(count, sizeof(*sieve.taken));
	if (!sieve.taken)
		return count;
	side_by_side(count, try_probe, &sieve);
	for (size_t i = 0; i < count; i++) {
		if (sieve.taken[i])
			probes[kept++] = probes[i];
	}
	free(sieve.taken);
	return kept;
}

static int attach_usdt_single(struct watch *watch, int file, const struct probe *probe,
			      uint64_t cookie)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = cookie,
		    .ref_ctr_offset = probe->semaphore);
	struct bpf_link **grown = reallocarray(watch->single_link, watch->single_links + 1,
					       sizeof(struct bpf_link *));
	struct bpf_link *link;
	char path[32];

	if (!grown)
		return -ENOMEM;
	watch->single_link = grown;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	link = bpf_program__attach_uprobe_opts(watch->skeleton->progs.probed, -1, path,
					       probe->offset, &opts);
	if (!link)
		return -errno;
	watch->single_link[watch->single_links++] = link;
	return 0;
}

int attach_usdt(struct watch *watch, int file, const struct probe *probes, size_t count)
{
	uint64_t offsets[USDT_PROBES], semaphores[USDT_PROBES], cookies[USDT_PROBES];
	int r = count > USDT_PROBES ? -ENOSPC : 0;

	for (size_t i = 0; i < count && !r; i++) {
		offsets[i] = probes[i].offset;
		semaphores[i] = probes[i].semaphore;
		cookies[i] = (uint64_t)probes[i].kind << 32 | probes[i].function;
		if (watch->form == PROBES_SINGLE)
			r = attach_usdt_single(watch, file, &probes[i], cookies[i]);
	}
	if (r || !count || watch->form == PROBES_SINGLE)
		return r;
	return keep_link(watch, create_link(watch->skeleton->progs.probed, file, offsets,
					    semaphores, cookies, count, 0));
}

/* The kernel takes single probes away one after the other (Linux 6.18), whoever asks. */
unsigned int watch_detach_estimate_ms(const struct watch *watch)
{
	return (unsigned int)(watch->single_links * SINGLE_MS + watch->common_links);
}

static void close_number(size_t i, void *data)
{
	const struct watch *watch = data;

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

void attach_detach(struct watch *watch)
{
	if (watch->single_links)
		watch_say(watch, "taking %zu single probes away: about %u.%u s",
			  watch->single_links, watch_detach_estimate_ms(watch) / 1000,
			  watch_detach_estimate_ms(watch) / 100 % 10);
	side_by_side(watch->common_links + watch->tracepoints + watch->single_links, close_number,
		     watch);
	free(watch->common_link);
	free(watch->single_link);
	free(watch->tracepoint);
	watch->common_link = NULL;
	watch->single_link = NULL;
	watch->tracepoint = NULL;
	watch->common_links = watch->single_links = watch->tracepoints = 0;
}
