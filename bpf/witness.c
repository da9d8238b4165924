// SPDX-License-Identifier: MIT
/*
 * slipstream-witness: runs a program, counts in the kernel every call of the driver library's
 * exported functions made by it and its descendants, and writes who made them: the shim's wrapper
 * of that very function, the shim for its own ends, the library itself, or anybody else. What the
 * shim says it saw can be held against that.
 *
 * A wrapper's call and the shim's own calls are told apart by the function that holds the return
 * address, so nothing of what the shim counts is taken on trust.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <jansson.h>

#include "command_watch.h"
#include "follow.h"
#include "image.h"
#include "library_find.h"
#include "probe_link.h"
#include "witness.h"
#include "witness.skel.h"

#define OWN_FAILURE 125
#define SKIPPED     77

static struct env {
	const char *library, *output, *shim;
	bool probe, verbose, single;
	char **program;
} env = {.shim = "libslipstream.so"};

enum { KEY_SHIM = 256, KEY_PROBE, KEY_SINGLE };

static const struct argp_option options[] = {
	{"library", 'l', "PATH", 0,
	 "The driver library (default: the libcuda.so.1 that the loader finds)", 0},
	{"output", 'o', "FILE", 0, "Write the counts there as JSON (default: standard error)", 0},
	{"shim", KEY_SHIM, "NAME", 0,
	 "File name of the preloaded library (default: libslipstream.so)", 0},
	{"single", KEY_SINGLE, NULL, 0, "One probe a function, as kernels before 6.6 need it", 0},
	{"probe", KEY_PROBE, NULL, 0,
	 "Only try whether counting works here: status 0, or 77 if not", 0},
	{"verbose", 'v', NULL, 0, "Print what libbpf says", 0},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	switch (key) {
	case 'l':
		env.library = argument;
		break;
	case 'o':
		env.output = argument;
		break;
	case 'v':
		env.verbose = true;
		break;
	case KEY_SHIM:
		env.shim = argument;
		break;
	case KEY_PROBE:
		env.probe = true;
		break;
	case KEY_SINGLE:
		env.single = true;
		break;
	case ARGP_KEY_ARGS:
		env.program = state->argv + state->next;
		break;
	case ARGP_KEY_END:
		if (!env.program && !env.probe)
			argp_error(state, "no program given");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {
	.options = options,
	.parser = parse,
	.args_doc = "PROGRAM [ARGUMENTS]",
	.doc = "Count in the kernel which driver functions a program calls, and from where.\v"
	       "Needs the rights to load BPF programs. Exit status: the program's own; 125 own "
	       "failure.",
};

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	return env.verbose ? vfprintf(stderr, format, arguments) : 0;
}

static int attach_multi(struct witness_bpf *skeleton, const struct image *library)
{
	uint64_t *offsets = calloc(library->count, sizeof(*offsets));
	uint64_t *cookies = calloc(library->count, sizeof(*cookies));
	struct probe_link link = {
		.program = bpf_program__fd(skeleton->progs.call),
		.type = PROBE_LINK_MULTI,
		.path = library->path,
		.offsets = offsets,
		.cookies = cookies,
	};
	int r = -ENOMEM;

	if (offsets && cookies) {
		for (size_t i = 0; i < library->count; i++) {
			/* Aliases share one probe: the first name stands for all. */
			if (i && library->function[i].offset == library->function[i - 1].offset)
				continue;
			offsets[link.count] = library->function[i].offset;
			cookies[link.count++] = i;
		}
		r = probe_link_create(&link);
	}
	free(offsets);
	free(cookies);
	/* The descriptor stays open until the process ends, and with it the link. */
	return r < 0 ? r : 0;
}

static int attach_single(struct witness_bpf *skeleton, const struct image *library)
{
	for (size_t i = 0; i < library->count; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = i);

		if (i && library->function[i].offset == library->function[i - 1].offset)
			continue;
		if (!bpf_program__attach_uprobe_opts(skeleton->progs.call, -1, library->path,
						     library->function[i].offset, &opts))
			return -errno;
	}
	return 0;
}

static int load(struct witness_bpf **ret_skeleton, bool multi)
{
	struct witness_bpf *skeleton = witness_bpf__open();
	struct stat namespace;
	int r;

	if (!skeleton)
		return -errno;
	if (stat("/proc/self/ns/pid", &namespace)) {
		r = -errno;
		witness_bpf__destroy(skeleton);
		return r;
	}
	skeleton->rodata->namespace_device = namespace.st_dev;
	skeleton->rodata->namespace_inode = namespace.st_ino;
	if (multi)
		bpf_program__set_expected_attach_type(skeleton->progs.call, PROBE_LINK_MULTI);
	r = witness_bpf__load(skeleton);
	if (r) {
		witness_bpf__destroy(skeleton);
		return r;
	}
	*ret_skeleton = skeleton;
	return 0;
}

static int attach(struct witness_bpf **ret_skeleton, const struct image *library)
{
	int r = -ENOTSUP;

	if (!env.single) {
		r = load(ret_skeleton, true);
		if (!r) {
			r = attach_multi(*ret_skeleton, library);
			if (!r)
				return 0;
			witness_bpf__destroy(*ret_skeleton);
		}
	}
	/* Before Linux 6.6. */
	if (!env.probe && !env.single)
		fprintf(stderr,
			"slipstream-witness: no common probe (%s): one for each function, slow to "
			"take away again\n",
			strerror(-r));
	r = load(ret_skeleton, false);
	if (!r)
		r = attach_single(*ret_skeleton, library);
	return r;
}

struct cover {
	const struct image *library;
	uint64_t offset; /* in the library, of the function called */
	char name[128];  /* of a function that holds the return address */
	bool wrapper;
};

static int cover_each(const struct image_function *function, void *data)
{
	struct cover *cover = data;
	size_t length = strcspn(function->name, ".");

	/* A compiler's .part, .cold or .isra piece belongs to its function. */
	snprintf(cover->name, sizeof(cover->name), "%.*s", (int)length, function->name);
	cover->wrapper = false;
	/* A function of several names can be wrapped under any of them. */
	for (size_t i = 0; i < cover->library->count && !cover->wrapper; i++)
		cover->wrapper = cover->library->function[i].offset == cover->offset &&
				 !strcmp(cover->library->function[i].name, cover->name);
	return cover->wrapper;
}

static void add(json_t *object, const char *key, json_int_t count)
{
	json_object_set_new(object, key,
			    json_integer(json_integer_value(json_object_get(object, key)) + count));
}

static json_t *below(json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (!value) {
		value = json_object();
		json_object_set_new(object, key, value);
	}
	return value;
}

struct report {
	const struct image *library;
	const struct follow *follow;
	struct image shim;
	bool shim_tried;
	json_t *functions;
};

/* Whom the return address belongs to. */
static void classify(struct report *report, const struct witness_key *key, json_int_t count)
{
	const char *name = report->library->function[key->function].name, *file;
	const struct follow_range *range;
	json_t *function = below(report->functions, name);
	/* The call ends just before the return address; the next byte may be another function's. */
	uint64_t address = key->return_address - 1;

	add(function, "total", count);
	range = follow_range(report->follow, (pid_t)key->process, address);
	if (!range) {
		add(function, "unknown", count);
		return;
	}
	/* By path too: where layers are stacked, stat() and the mappings may name different
	 * devices. */
	if ((range->inode == report->library->inode && range->device == report->library->device) ||
	    !strcmp(range->path, report->library->path)) {
		add(function, "inside_library", count);
		return;
	}
	file = strrchr(range->path, '/');
	if (!file || strcmp(file + 1, env.shim)) {
		add(below(function, "elsewhere"), range->path[0] ? range->path : "(no file)",
		    count);
		return;
	}
	if (!report->shim_tried) {
		report->shim_tried = true;
		(void)image_open(&report->shim, range->path, "", 0);
	}
	struct cover cover = {
		.library = report->library,
		.offset = report->library->function[key->function].offset,
		.name = "(no symbol)",
	};

	(void)image_cover(&report->shim, address - range->start + range->offset, cover_each,
			  &cover);
	if (cover.wrapper)
		add(function, "wrapper", count);
	else
		add(below(function, "shim_own"), cover.name, count);
}

static int write_report(struct witness_bpf *skeleton, const struct image *library,
			const struct follow *follow)
{
	int calls = bpf_map__fd(skeleton->maps.calls), lost = bpf_map__fd(skeleton->maps.lost);
	struct report report = {.library = library, .follow = follow, .functions = json_object()};
	json_t *root = json_object(), *processes = json_array();
	struct witness_key key, *previous = NULL;
	int cpus = libbpf_num_possible_cpus(), r = 0;
	json_int_t lost_count = 0;
	__u64 count, *per_cpu;
	__u32 zero = 0;

	while (!bpf_map_get_next_key(calls, previous, &key)) {
		bool ours = false;

		for (size_t i = 0; i < follow->count; i++)
			ours |= follow->process[i].id == (pid_t)key.process;
		if (ours && key.function < library->count &&
		    !bpf_map_lookup_elem(calls, &key, &count))
			classify(&report, &key, (json_int_t)count);
		previous = &key;
	}
	per_cpu = cpus > 0 ? calloc((size_t)cpus, sizeof(*per_cpu)) : NULL;
	if (per_cpu && !bpf_map_lookup_elem(lost, &zero, per_cpu)) {
		for (int i = 0; i < cpus; i++)
			lost_count += (json_int_t)per_cpu[i];
	}
	free(per_cpu);
	for (size_t i = 0; i < follow->count; i++)
		json_array_append_new(processes, json_integer(follow->process[i].id));
	json_object_set_new(root, "library", json_string(library->path));
	json_object_set_new(root, "probed", json_integer((json_int_t)library->count));
	json_object_set_new(root, "lost", json_integer(lost_count));
	json_object_set_new(root, "processes", processes);
	json_object_set_new(root, "functions", report.functions);
	if (env.output ? json_dump_file(root, env.output, JSON_INDENT(1) | JSON_SORT_KEYS)
		       : json_dumpf(root, stderr, JSON_INDENT(1) | JSON_SORT_KEYS)) {
		fprintf(stderr, "slipstream-witness: %s: cannot be written\n",
			env.output ? env.output : "standard error");
		r = -EIO;
	}
	json_decref(root);
	image_done(&report.shim);
	return r;
}

int main(int argc, char **argv)
{
	struct witness_bpf *skeleton = NULL;
	struct follow follow = {0};
	struct image library;
	char *found = NULL;
	int r;

	libbpf_set_print(print_libbpf);
	if (argc > 1 && !strcmp(argv[1], COMMAND_WATCH))
		return command_watch(argc - 1, argv + 1);
	argp_err_exit_status = OWN_FAILURE;
	/* The program's own options are none of ours. */
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);

	if (env.probe) {
		/* Any function of any file will do to try: one of our own. */
		if (image_open(&library, "/proc/self/exe", "main", 0))
			return SKIPPED;
		r = attach(&skeleton, &library);
		if (r)
			fprintf(stderr, "slipstream-witness: BPF is refused here: %s\n",
				strerror(-r));
		return r ? SKIPPED : 0;
	}
	if (!env.library)
		env.library = found = library_find();
	if (!env.library) {
		fprintf(stderr, "slipstream-witness: no libcuda.so.1 found; give --library\n");
		return OWN_FAILURE;
	}
	if (image_open(&library, env.library, "cu", 1))
		return OWN_FAILURE;
	if (!library.count) {
		fprintf(stderr, "slipstream-witness: %s exports no cu* function\n", env.library);
		return OWN_FAILURE;
	}
	r = attach(&skeleton, &library);
	if (r) {
		fprintf(stderr, "slipstream-witness: BPF is refused here: %s\n", strerror(-r));
		return OWN_FAILURE;
	}

	/* The keyboard's signals are meant for the program; the counts of an interrupted one are
	 * wanted too. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	r = follow_run(&follow, env.program, 10000);
	if (r) {
		fprintf(stderr, "slipstream-witness: cannot follow %s: %s\n", env.program[0],
			strerror(-r));
		return OWN_FAILURE;
	}
	r = write_report(skeleton, &library, &follow);
	r = r                          ? OWN_FAILURE
	    : WIFEXITED(follow.status) ? WEXITSTATUS(follow.status)
				       : 128 + WTERMSIG(follow.status);
	follow_done(&follow);
	image_done(&library);
	free(found);
	return r;
}
