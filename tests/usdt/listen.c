// SPDX-License-Identifier: MIT
/*
 * Attaches to the probes of the preloaded library, and tells what it heard. Started by run.py.
 *
 *	listen LIBRARY PID usdt				by libbpf, which reads the notes
 *	listen LIBRARY PID multi OFFSET:COUNTER ...	one link of all probes, at file offsets of probes and their semaphores
 *
 * PID 0: all processes. Prints "ready" once it listens, and what it heard once its input ends, by lines: probe, process, a, b, c, count, sum; then
 * "faults" with their numbers. Status 77: BPF is refused here.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "listen.h"
#include "listen.skel.h"

#define SKIPPED             77
#define ATTACH_UPROBE_MULTI 48 /* since Linux 6.6; libbpf and the headers may be older */

static const char *const names[LISTEN_PROBES] = {"scope_enter", "scope_exit", "wait", "rewrite",
						 "pool"};

/* The part of the system call's argument that attaches many probes at once. */
struct link_create {
	__u32 program, target;
	__u32 attach_type, flags;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 count, multi_flags, process, padding;
};

static int be_quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	return getenv("LISTEN_VERBOSE") ? vfprintf(stderr, format, arguments) : 0;
}

static int attach_multi(const struct listen_bpf *skeleton, const char *library, pid_t process,
			char *const *places)
{
	unsigned long long offsets[LISTEN_PROBES], counters[LISTEN_PROBES];
	unsigned long long cookies[LISTEN_PROBES];
	struct link_create create = {
		.program = (__u32)bpf_program__fd(skeleton->progs.hit),
		.attach_type = ATTACH_UPROBE_MULTI,
		.path = (__u64)(uintptr_t)library,
		.offsets = (__u64)(uintptr_t)offsets,
		.ref_ctr_offsets = (__u64)(uintptr_t)counters,
		.cookies = (__u64)(uintptr_t)cookies,
		.process = (__u32)process,
	};

	for (; *places && create.count < LISTEN_PROBES; places++, create.count++) {
		if (sscanf(*places, "%llu:%llu", &offsets[create.count], &counters[create.count]) !=
		    2)
			return -EINVAL;
		cookies[create.count] = create.count;
	}
	return syscall(SYS_bpf, BPF_LINK_CREATE, &create, sizeof(create)) < 0 ? -errno : 0;
}

static int attach_each(const struct listen_bpf *skeleton, const char *library, pid_t process)
{
	struct bpf_program *const programs[LISTEN_PROBES] = {
		skeleton->progs.scope_enter, skeleton->progs.scope_exit, skeleton->progs.wait,
		skeleton->progs.rewrite,     skeleton->progs.pool,
	};

	for (int i = 0; i < LISTEN_PROBES; i++)
		if (!bpf_program__attach_usdt(programs[i], process ? process : -1, library,
					      "slipstream", names[i], NULL))
			return -errno;
	return 0;
}

static struct listen_bpf *load(bool multi)
{
	struct listen_bpf *skeleton = listen_bpf__open();
	struct bpf_program *program;
	struct stat namespace;

	if (!skeleton || stat("/proc/self/ns/pid", &namespace))
		return NULL;
	skeleton->rodata->namespace_device = namespace.st_dev;
	skeleton->rodata->namespace_inode = namespace.st_ino;
	bpf_object__for_each_program(program, skeleton->obj)
		bpf_program__set_autoload(program, (program == skeleton->progs.hit) == multi);
	if (multi)
		bpf_program__set_expected_attach_type(skeleton->progs.hit, ATTACH_UPROBE_MULTI);
	if (!listen_bpf__load(skeleton))
		return skeleton;
	listen_bpf__destroy(skeleton);
	return NULL;
}

static void tell(const struct listen_bpf *skeleton)
{
	int counts = bpf_map__fd(skeleton->maps.counts),
	    faults = bpf_map__fd(skeleton->maps.faults);
	struct listen_key key, *previous = NULL;
	struct listen_value value;

	while (!bpf_map_get_next_key(counts, previous, &key)) {
		if (!bpf_map_lookup_elem(counts, &key, &value))
			printf("%s %u %u %u %u %llu %llu\n", names[key.probe], key.process, key.a,
			       key.b, key.c, value.count, value.sum);
		previous = &key;
	}
	printf("faults");
	for (__u32 i = 0; i < LISTEN_FAULTS; i++) {
		unsigned long long count = 0;

		bpf_map_lookup_elem(faults, &i, &count);
		printf(" %llu", count);
	}
	printf("\n");
}

int main(int argc, char **argv)
{
	struct listen_bpf *skeleton;
	bool multi;
	int r;

	if (argc < 4)
		return 2;
	multi = !strcmp(argv[3], "multi");
	libbpf_set_print(be_quiet);
	skeleton = load(multi);
	if (!skeleton) {
		fprintf(stderr, "BPF is refused here: %s\n", strerror(errno));
		return SKIPPED;
	}
	r = multi ? attach_multi(skeleton, argv[1], atoi(argv[2]), argv + 4)
		  : attach_each(skeleton, argv[1], atoi(argv[2]));
	if (r) {
		fprintf(stderr, "%s probes are refused here: %s\n", argv[3], strerror(-r));
		return SKIPPED;
	}
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	tell(skeleton);
	return 0;
}
