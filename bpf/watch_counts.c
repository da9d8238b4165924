// SPDX-License-Identifier: MIT
/*
 * What the kernel has counted: functions, losses, callers; and what is probed. Read from its tables when somebody asks (watch.h); nothing
 * is kept here.
 */
#include <errno.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "watch_internal.h"

uint64_t counts_lost(const struct watch *watch, __u32 which)
{
	int processors = libbpf_num_possible_cpus();
	__u64 *counts, sum = 0;

	if (processors <= 0)
		return 0;
	counts = calloc((size_t)processors, sizeof(*counts));
	if (counts &&
	    !bpf_map_lookup_elem(bpf_map__fd(watch->skeleton->maps.losses), &which, counts)) {
		for (int i = 0; i < processors; i++)
			sum += counts[i];
	}
	free(counts);
	return sum;
}

/*
 * A program at a tracepoint does not run where it runs on that processor already. Those at functions do; theirs stay 0. Programs that were not
 * loaded have no descriptor.
 */
static uint64_t missed_runs(const struct watch *watch)
{
	struct bpf_program *program;
	uint64_t sum = 0;

	bpf_object__for_each_program(program, watch->skeleton->obj)
	{
		struct bpf_prog_info info = {0};
		__u32 size = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size))
			sum += info.recursion_misses;
	}
	return sum;
}

int watch_stats(struct watch *watch, struct watch_stats *stats)
{
	int map = bpf_map__fd(watch->skeleton->maps.counts), r = 0;
	int processors = libbpf_num_possible_cpus();
	struct function_count *counts;

	*stats = (struct watch_stats){
		.records = watch->records,
		.lost_records = counts_lost(watch, LOSS_RECORD),
		.lost_calls = counts_lost(watch, LOSS_CALL),
		.deep_calls = counts_lost(watch, LOSS_DEEP),
		.left_calls = counts_lost(watch, LOSS_LEFT),
		.late_returns = counts_lost(watch, LOSS_LATE),
		.lost_callers = counts_lost(watch, LOSS_CALLER),
		.unseen_switches = counts_lost(watch, LOSS_SWITCH),
		.lost_processes = counts_lost(watch, LOSS_WATCHED),
		.lost_process_records = counts_lost(watch, LOSS_PROCESS),
		.lost_mappings = watch->lost_mappings,
		.unwatched_libraries = watch->unwatched.count,
		.unwatched_functions = watch->unwatched_functions,
		.unheard_shims = watch->unheard.count,
		.missed_runs = missed_runs(watch),
		.processes = (uint32_t)watch->processes,
		.alive = (uint32_t)watch->alive,
	};
	if (processors <= 0)
		return processors;
	counts = calloc((size_t)processors, sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	for (__u32 i = 0; i < WATCH_FUNCTION_COUNT && !r; i++) {
		struct watch_count *sum = &stats->functions[i];

		if (!watch->wanted[i])
			continue;
		if (bpf_map_lookup_elem(map, &i, counts)) {
			r = -errno;
			break;
		}
		for (int p = 0; p < processors; p++) {
			sum->calls += counts[p].calls;
			sum->returned += counts[p].returned;
			sum->ns += counts[p].ns;
			sum->nested += counts[p].nested;
			sum->scoped += counts[p].scoped;
		}
	}
	free(counts);
	return r;
}

int watch_callers(struct watch *watch, int (*each)(const struct watch_caller *caller, void *data),
		  void *data)
{
	int map = bpf_map__fd(watch->skeleton->maps.callers), r = 0;
	struct caller_key key, *previous = NULL;
	__u64 count;

	if (!watch->options.callers)
		return -EINVAL;
	while (!r && !bpf_map_get_next_key(map, previous, &key)) {
		struct watch_caller caller = {
			.process = (pid_t)key.process,
			.function = key.function,
			.return_address = key.return_address,
		};

		previous = &key;
		if (bpf_map_lookup_elem(map, &key, &count) || key.function >= WATCH_FUNCTION_COUNT)
			continue;
		caller.calls = count;
		process_whose(watch, caller.process, caller.function, caller.return_address,
			      UINT64_MAX, &caller.by, &caller.shim);
		r = each(&caller, data);
	}
	return r;
}

size_t watch_libraries(const struct watch *watch, const struct watch_library **ret_libraries)
{
	struct watch *kept = (struct watch *)watch;
	struct watch_library *libraries =
		reallocarray(kept->public_libraries, watch->libraries + 1, sizeof(*libraries));

	*ret_libraries = NULL;
	if (!libraries)
		return 0;
	for (size_t i = 0; i < watch->libraries; i++)
		libraries[i] = watch->library[i].public;
	kept->public_libraries = libraries;
	*ret_libraries = libraries;
	return watch->libraries;
}

enum watch_site watch_site_of(const struct watch *watch, uint32_t function)
{
	for (size_t i = 0; i < watch->libraries; i++) {
		for (size_t n = 0; n < watch->library[i].probes; n++) {
			if (watch->library[i].probe[n].function == function)
				return watch->library[i].probe[n].site;
		}
	}
	return WATCH_SITE_NONE;
}
