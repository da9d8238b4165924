// SPDX-License-Identifier: MIT
/* The watch's life: opening, records, the end. */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "library_find.h"
#include "privilege.h"
#include "watch_internal.h"

enum {
	DRAIN_MS = 5, /* between looks into the ring, which nobody wakes */
	PRUNE_NS = 2000000000,
};

_Static_assert(WATCH_FUNCTION_COUNT <= RECORD_FUNCTIONS, "the kernel's tables have room");
void watch_say(const struct watch *watch, const char *format, ...)
{
	va_list arguments;
	char line[1024];

	if (!watch->options.say)
		return;
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	watch->options.say(line, watch->options.say_data);
}

uint64_t watch_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void take_call(struct watch *watch, const struct call_record *record)
{
	struct watch_call call = {
		.entered_ns = record->entered_ns,
		.left_ns = record->left_ns,
		.process = (pid_t)record->process,
		.thread = (pid_t)record->thread,
		.function = record->function,
		.returned = record->flags & CALL_RETURNED,
		.nested = record->flags & CALL_NESTED,
		.stream_class = record->stream_class,
		.direction = record->direction,
		.stream = record->stream,
		.bytes = record->bytes,
		.source = record->source,
		.destination = record->destination,
		.switches = record->switches,
		.preemptions = record->preemptions,
		.yields = record->yields,
		.top_system_call = record->top_number,
		.top_system_calls = record->top_count,
		.frame_count = record->frame_count,
		.scope = record->scope,
	};

	if (record->function >= WATCH_FUNCTION_COUNT)
		return;
	for (size_t i = 0; i < WATCH_HOWS; i++) {
		call.off_cpu_by[i] = record->off_cpu[i];
		call.off_cpu_ns += record->off_cpu[i];
	}
	for (size_t i = 0; i < record->frame_count && i < WATCH_FRAMES; i++)
		call.frames[i] = record->frames[i];
	process_whose(watch, call.process, call.function, call.frames[0], call.entered_ns, &call.by,
		      &call.shim);
	watch->records++;
	watch->polled++;
	if (watch->each)
		watch->each(&call, watch->each_data);
}

/* The program's part of the stack: what the shim calls inside itself is left out. */
static void take_frames(struct watch *watch, const struct claim_record *record,
			struct watch_claim *claim)
{
	__u32 at = 0;

	while (at < record->frame_count && at < RECORD_CLAIM_FRAMES) {
		uint8_t by;
		bool shim;

		process_whose(watch, claim->process, claim->function, record->frames[at], claim->ns,
			      &by, &shim);
		if (by != WATCH_BY_WRAPPER && by != WATCH_BY_SHIM)
			break;
		at++;
	}
	while (at < record->frame_count && at < RECORD_CLAIM_FRAMES &&
	       claim->frame_count < watch->options.frames)
		claim->frames[claim->frame_count++] = record->frames[at++];
}

static void take_claim(struct watch *watch, const struct claim_record *record)
{
	struct watch_claim claim = {
		.ns = record->ns,
		.process = (pid_t)record->process,
		.thread = (pid_t)record->thread,
		.function = record->function,
		.scope = record->scope,
		.how = (uint8_t)record->how,
		.call_ns = record->call_ns,
		.off_cpu_ns = record->off_cpu_ns,
		.driver_ns = record->driver_ns,
	};

	if (record->function >= WATCH_FUNCTION_COUNT || !watch->options.claimed)
		return;
	take_frames(watch, record, &claim);
	watch->options.claimed(&claim, watch->options.claimed_data);
}

static int take_record(void *context, void *data, size_t size)
{
	const size_t without_frames = offsetof(struct call_record, frames);
	const struct call_record *call = data;
	struct watch *watch = context;
	__u32 kind;

	if (size < sizeof(kind))
		return 0;
	memcpy(&kind, data, sizeof(kind));
	if (kind == RECORD_CALL) {
		if (size >= without_frames &&
		    size >= without_frames + call->frame_count * sizeof(call->frames[0]))
			take_call(watch, call);
	} else if (kind == RECORD_CLAIM) {
		if (size >= sizeof(struct claim_record))
			take_claim(watch, data);
	} else if (size >= sizeof(struct process_record)) {
		process_take(watch, data);
	}
	return 0;
}

static int choose_functions(struct watch *watch, const struct watch_options *options,
			    struct watch_error *error)
{
	if (!options->functions) {
		for (size_t i = 0; i < WATCH_FUNCTION_COUNT; i++)
			watch->wanted[i] = watch_functions[i].by_default;
		return 0;
	}
	for (size_t i = 0; i < options->function_count; i++) {
		if (options->functions[i] >= WATCH_FUNCTION_COUNT) {
			if (error) {
				error->number = EINVAL;
				snprintf(error->text, sizeof(error->text),
					 "no function has the number %u", options->functions[i]);
			}
			return -EINVAL;
		}
		watch->wanted[options->functions[i]] = true;
	}
	return 0;
}

static int open_libraries(struct watch *watch, const struct watch_options *options,
			  struct watch_error *error)
{
	char *found;
	int r = 0;

	for (size_t i = 0; i < options->library_count && !r; i++)
		r = library_add_path(watch, options->libraries[i], error);
	if (options->library_count)
		return r;
	/* For processes that will load it later. */
	found = library_find();
	if (found) {
		struct watch_error ignored = {0};

		r = library_add_path(watch, found, &ignored);
		/* A refused probe will be refused for others as well. */
		if ((r == -EPERM || r == -EACCES) && error)
			*error = ignored;
		else
			r = 0;
	}
	free(found);
	return r;
}

static int start(struct watch *watch, const struct watch_options *options,
		 struct watch_error *error)
{
	int r;

	watch->places = places_new();
	watch->shim = strdup(options->shim ? options->shim : "libslipstream.so");
	if (!watch->places || !watch->shim)
		return -ENOMEM;
	r = choose_functions(watch, options, error);
	if (r)
		return r;
	r = attach_load(watch, error);
	if (r)
		return r;
	r = mappings_open(&watch->mappings);
	if (r)
		watch_say(watch,
			  "new mappings are not told here (%s): whose calls they are may stay "
			  "unknown "
			  "for processes that end soon",
			  strerror(-r));
	watch->ring =
		ring_buffer__new(bpf_map__fd(watch->skeleton->maps.ring), take_record, watch, NULL);
	if (!watch->ring)
		return privilege_explain(error, errno, "mapping the ring", false);
	r = attach_tracepoints(watch, error);
	if (r)
		return r;
	if (options->shim_path)
		shim_add_path(watch, options->shim_path);
	r = open_libraries(watch, options, error);
	if (!r)
		r = roots_add(watch, options, error);
	if (!r && !watch->libraries && !options->all && !options->process_count) {
		r = -ENOENT;
		if (error) {
			error->number = ENOENT;
			snprintf(error->text, sizeof(error->text),
				 "no driver library (libcuda.so.1) found, and no process given");
		}
	}
	return r;
}

int watch_open(struct watch **ret_watch, const struct watch_options *options,
	       struct watch_error *error)
{
	struct watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (error)
		*error = (struct watch_error){0};
	if (!watch)
		return -ENOMEM;
	watch->options = *options;
	watch->fixed = options->library_count > 0;
	if (!watch->options.frames)
		watch->options.frames = 1;
	if (watch->options.frames > WATCH_FRAMES)
		watch->options.frames = WATCH_FRAMES;
	r = start(watch, options, error);
	if (r) {
		if (error && !error->number)
			error->number = -r;
		if (error && !error->text[0])
			snprintf(error->text, sizeof(error->text), "watching: %s", strerror(-r));
		watch_done(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

int watch_add_offset(struct watch *watch, const char *path, uint64_t offset, uint32_t function,
		     struct watch_error *error)
{
	struct probe probe = {.offset = offset, .function = function};
	int file, r;

	if (error)
		*error = (struct watch_error){0};
	if (function >= WATCH_FUNCTION_COUNT)
		return -EINVAL;
	file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	r = file < 0 ? -errno : attach_probes(watch, file, &probe, 1, error);
	if (file >= 0)
		close(file);
	if (r && error && !error->text[0]) {
		error->number = -r;
		snprintf(error->text, sizeof(error->text), "%.300s: %s", path, strerror(-r));
	}
	return r;
}

/* They are missing in all figures: whoever reads those must know. */
static void say_lost_children(struct watch *watch)
{
	if (watch->children_said || !counts_lost(watch, LOSS_WATCHED))
		return;
	watch->children_said = true;
	watch_say(watch, "more than %u processes at a time: those that came then are not watched",
		  bpf_map__max_entries(watch->skeleton->maps.watched));
}

/* Of messages that were lost, what they told is read. */
static void drain_mappings(struct watch *watch)
{
	uint64_t before = watch->lost_mappings;

	if (watch->mappings)
		watch->lost_mappings +=
			mappings_drain(watch->mappings, watch->places, process_note, watch);
	watch->must_scan |= watch->lost_mappings != before;
	if (!watch->mappings || watch->must_scan)
		process_scan_all(watch);
}

/* Mappings first: a record's call came after the mapping that it was made from. */
static int drain(struct watch *watch)
{
	uint64_t losses;
	int r;

	drain_mappings(watch);
	process_look_at(watch);
	r = ring_buffer__consume(watch->ring);
	losses = counts_lost(watch, LOSS_PROCESS);
	if (losses != watch->seen_process_losses) {
		watch->seen_process_losses = losses;
		process_resync(watch);
	}
	return r < 0 ? r : 0;
}

int watch_poll(struct watch *watch, int timeout_ms,
	       void (*each)(const struct watch_call *call, void *data), void *data)
{
	uint64_t now = watch_now_ns();
	uint64_t deadline = now + (timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000 : 0);
	int r;

	watch->each = each;
	watch->each_data = data;
	watch->polled = 0;
	for (;;) {
		struct timespec pause = {0};
		uint64_t rest_ns;

		r = drain(watch);
		now = watch_now_ns();
		if (r || now >= deadline)
			break;
		rest_ns = deadline - now;
		pause.tv_nsec = (long)(rest_ns < DRAIN_MS * 1000000 ? rest_ns : DRAIN_MS * 1000000);
		if (nanosleep(&pause, NULL)) {
			r = -errno;
			break;
		}
	}
	say_lost_children(watch);
	if (now - watch->pruned_ns > PRUNE_NS) {
		watch->pruned_ns = now;
		process_prune(watch);
	}
	watch->each = NULL;
	return r ? r : watch->polled;
}

bool watch_ended(const struct watch *watch)
{
	return !watch->options.all && watch->processes && !watch->alive;
}

void watch_detach(struct watch *watch)
{
	if (!watch->detached)
		attach_detach(watch);
	watch->detached = true;
}

void watch_done(struct watch *watch)
{
	if (!watch)
		return;
	watch_detach(watch);
	ring_buffer__free(watch->ring);
	watch_bpf__destroy(watch->skeleton);
	mappings_done(watch->mappings);
	places_done(watch->places);
	for (size_t i = 0; i < watch->libraries; i++)
		library_done(&watch->library[i]);
	for (size_t i = 0; i < watch->processes; i++) {
		free((char *)watch->process[i]->public.program);
		free(watch->process[i]);
	}
	for (size_t i = 0; i < watch->pendings; i++)
		free(watch->pending[i].place.path);
	free(watch->pending);
	free(watch->process);
	free(watch->library);
	free(watch->public_libraries);
	free(watch->rejected);
	free(watch->unwatched.items);
	free(watch->unheard.items);
	shims_done(watch);
	free(watch->shim);
	free(watch);
}
