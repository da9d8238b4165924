// SPDX-License-Identifier: MIT
/*
 * The watch as a program for the tests: watches a program that it starts, or processes by id, and
 * writes what it saw as JSON.
 *
 *     watch-tool [options] [-- PROGRAM ARGUMENTS]
 *
 * Status: 0, 77 if BPF is refused here, 1 for a failure, with the watch's own line on stderr.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "watch.h"

static struct tool {
	struct watch *watch; /* once it is open */
	struct watch_options options;
	const char *output;
	char **program;
	bool records;
	int seconds, stall_ms, detach_after_ms;
	const char *offset;
	pid_t process[16];
	const char *library[8];
	uint32_t function[WATCH_FUNCTION_COUNT];
	json_t *lines, *calls, *sums, *claims;
	uint64_t detach_ns;
} tool = {.seconds = 60, .detach_after_ms = -1};

enum {
	KEY_ALL = 256,
	KEY_SYSTEM_CALLS,
	KEY_CALLERS,
	KEY_SINGLE,
	KEY_PAIRS,
	KEY_STEPPED,
	KEY_FRAMES,
	KEY_LEAST,
	KEY_RING,
	KEY_PROCESS_ROOM,
	KEY_CALLER_ROOM,
	KEY_SHIM,
	KEY_SHIM_PATH,
	KEY_RECORDS,
	KEY_SECONDS,
	KEY_STALL,
	KEY_DETACH,
	KEY_OFFSET,
	KEY_MISSING,
	KEY_EVERY,
	KEY_CLAIMS,
};

static const struct argp_option options[] = {
	{"pid", 'p', "PID", 0, "Watch it", 0},
	{"all", KEY_ALL, NULL, 0, "Watch all", 0},
	{"library", 'l', "PATH", 0, "Driver library", 0},
	{"function", 'f', "NAME", 0, "Watch it instead of the default set", 0},
	{"system-calls", KEY_SYSTEM_CALLS, NULL, 0, "Count system calls", 0},
	{"callers", KEY_CALLERS, NULL, 0, "Count by return address", 0},
	{"single", KEY_SINGLE, NULL, 0, "Single probes", 0},
	{"pairs", KEY_PAIRS, NULL, 0, "Common probes without sessions", 0},
	{"stepped", KEY_STEPPED, NULL, 0, "Dear probes too", 0},
	{"frames", KEY_FRAMES, "N", 0, "Of stacks", 0},
	{"least", KEY_LEAST, "NS", 0, "Records of calls that took that long", 0},
	{"ring", KEY_RING, "BYTES", 0, "Ring size", 0},
	{"process-room", KEY_PROCESS_ROOM, "N", 0, "Processes at a time", 0},
	{"caller-room", KEY_CALLER_ROOM, "N", 0, "Callers kept", 0},
	{"shim", KEY_SHIM, "NAME", 0, "The shim's file name", 0},
	{"shim-path", KEY_SHIM_PATH, "PATH", 0, "The shim's file", 0},
	{"records", KEY_RECORDS, NULL, 0, "Every record", 0},
	{"seconds", KEY_SECONDS, "N", 0, "At most", 0},
	{"stall", KEY_STALL, "MS", 0, "Look only after that time", 0},
	{"detach", KEY_DETACH, "MS", 0, "Detach after that time, programs running", 0},
	{"offset", KEY_OFFSET, "OFFSET:NAME", 0, "A function without symbol", 0},
	{"missing", KEY_MISSING, NULL, 0, "Only say which capability is missing", 0},
	{"claims", KEY_CLAIMS, NULL, 0, "Hear the shim's probes", 0},
	{"every", KEY_EVERY, NULL, 0, "All functions instead of the default set", 0},
	{"output", 'o', "FILE", 0, "JSON", 0},
	{0},
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void claimed(const struct watch_claim *claim, void *data)
{
	json_t *frames = json_array(), *object;
	struct watch_place place;

	for (size_t i = 0; i < claim->frame_count; i++)
		json_array_append_new(frames, json_integer((json_int_t)claim->frames[i]));
	object =
		json_pack("{s:o,s:s,s:i,s:i,s:i,s:i,s:I,s:I,s:I}", "frames", frames, "function",
			  watch_functions[claim->function].name, "process", (int)claim->process,
			  "thread", (int)claim->thread, "scope", (int)claim->scope, "how",
			  (int)claim->how, "call_ns", (json_int_t)claim->call_ns, "off_cpu_ns",
			  (json_int_t)claim->off_cpu_ns, "driver_ns", (json_int_t)claim->driver_ns);
	if (claim->frame_count &&
	    !watch_place_of(tool.watch, claim->process, claim->frames[0] - 1, claim->ns, &place)) {
		json_object_set_new(object, "path", json_string_nocheck(place.path));
		json_object_set_new(object, "offset", json_integer((json_int_t)place.offset));
	}
	json_array_append_new(tool.claims, object);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct watch_options *watch = &tool.options;
	const char *what;
	int index;

	switch (key) {
	case 'p':
		tool.process[watch->process_count++] = atoi(argument);
		watch->processes = tool.process;
		break;
	case 'l':
		tool.library[watch->library_count++] = argument;
		watch->libraries = tool.library;
		break;
	case 'f':
		index = watch_function_index(argument);
		if (index < 0)
			argp_error(state, "no function %s", argument);
		tool.function[watch->function_count++] = (uint32_t)index;
		watch->functions = tool.function;
		break;
	case 'o':
		tool.output = argument;
		break;
	case KEY_EVERY:
		for (uint32_t i = 0; i < WATCH_FUNCTION_COUNT; i++)
			tool.function[i] = i;
		watch->functions = tool.function;
		watch->function_count = WATCH_FUNCTION_COUNT;
		break;
	case KEY_CLAIMS:
		watch->claimed = claimed;
		break;
	case KEY_ALL:
		watch->all = true;
		break;
	case KEY_SYSTEM_CALLS:
		watch->system_calls = true;
		break;
	case KEY_CALLERS:
		watch->callers = true;
		break;
	case KEY_SINGLE:
		watch->single = true;
		break;
	case KEY_PAIRS:
		watch->pairs = true;
		break;
	case KEY_STEPPED:
		watch->stepped = true;
		break;
	case KEY_FRAMES:
		watch->frames = (unsigned int)atoi(argument);
		break;
	case KEY_LEAST:
		watch->least_ns = strtoull(argument, NULL, 10);
		break;
	case KEY_RING:
		watch->ring_bytes = strtoull(argument, NULL, 10);
		break;
	case KEY_PROCESS_ROOM:
		watch->process_room = (uint32_t)atoi(argument);
		break;
	case KEY_CALLER_ROOM:
		watch->caller_room = (uint32_t)atoi(argument);
		break;
	case KEY_SHIM:
		watch->shim = argument;
		break;
	case KEY_SHIM_PATH:
		watch->shim_path = argument;
		break;
	case KEY_RECORDS:
		tool.records = true;
		break;
	case KEY_SECONDS:
		tool.seconds = atoi(argument);
		break;
	case KEY_STALL:
		tool.stall_ms = atoi(argument);
		break;
	case KEY_DETACH:
		tool.detach_after_ms = atoi(argument);
		break;
	case KEY_OFFSET:
		tool.offset = argument;
		break;
	case KEY_MISSING:
		argument = (char *)watch_missing_capability(watch->single, &what);
		printf("%s %s\n", argument ? argument : "none", what ? what : "");
		exit(0);
	case ARGP_KEY_ARGS:
		tool.program = state->argv + state->next;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const struct argp argp = {options, parse, "[PROGRAM ARGUMENTS]", NULL, NULL, NULL, NULL};

static void say(const char *line, void *data)
{
	json_array_append_new(tool.lines, json_string(line));
}

static void add(json_t *object, const char *key, uint64_t count)
{
	json_int_t old = json_integer_value(json_object_get(object, key));

	json_object_set_new(object, key, json_integer(old + (json_int_t)count));
}

static const char *const by_names[] = {"unknown", "wrapper", "shim", "library", "program"};
static const char *const how_names[] = {"futex", "poll", "ioctl", "yield", "preempted", "other"};

static json_t *record(struct watch *watch, const struct watch_call *call)
{
	json_t *object = json_object(), *frames = json_array(), *off = json_object();
	struct watch_place place;

	json_object_set_new(object, "function", json_string(watch_functions[call->function].name));
	json_object_set_new(object, "process", json_integer(call->process));
	json_object_set_new(object, "thread", json_integer(call->thread));
	json_object_set_new(object, "ns",
			    json_integer((json_int_t)(call->left_ns - call->entered_ns)));
	json_object_set_new(object, "entered", json_integer((json_int_t)call->entered_ns));
	json_object_set_new(object, "returned", json_boolean(call->returned));
	json_object_set_new(object, "nested", json_boolean(call->nested));
	json_object_set_new(object, "shim", json_boolean(call->shim));
	json_object_set_new(object, "by", json_string(by_names[call->by]));
	json_object_set_new(object, "stream", json_integer((json_int_t)call->stream));
	json_object_set_new(object, "stream_class", json_integer(call->stream_class));
	json_object_set_new(object, "direction", json_integer(call->direction));
	json_object_set_new(object, "bytes", json_integer((json_int_t)call->bytes));
	json_object_set_new(object, "source", json_integer((json_int_t)call->source));
	json_object_set_new(object, "destination", json_integer((json_int_t)call->destination));
	json_object_set_new(object, "switches", json_integer(call->switches));
	json_object_set_new(object, "preemptions", json_integer(call->preemptions));
	json_object_set_new(object, "yields", json_integer(call->yields));
	json_object_set_new(object, "top", json_integer(call->top_system_call));
	json_object_set_new(object, "tops", json_integer(call->top_system_calls));
	json_object_set_new(object, "off_cpu", json_integer((json_int_t)call->off_cpu_ns));
	json_object_set_new(object, "scope", json_integer(call->scope));
	for (size_t i = 0; i < WATCH_HOWS; i++)
		json_object_set_new(off, how_names[i],
				    json_integer((json_int_t)call->off_cpu_by[i]));
	json_object_set_new(object, "off", off);
	for (size_t i = 0; i < call->frame_count; i++)
		json_array_append_new(frames, json_integer((json_int_t)call->frames[i]));
	json_object_set_new(object, "frames", frames);
	if (!watch_place_of(watch, call->process, call->frames[0] - 1, call->entered_ns, &place)) {
		json_object_set_new(object, "path", json_string_nocheck(place.path));
		json_object_set_new(object, "offset", json_integer((json_int_t)place.offset));
	}
	return object;
}

static void each(const struct watch_call *call, void *data)
{
	json_t *sum = json_object_get(tool.sums, watch_functions[call->function].name);

	if (!sum) {
		sum = json_object();
		json_object_set_new(tool.sums, watch_functions[call->function].name, sum);
	}
	add(sum, "records", 1);
	add(sum, by_names[call->by], 1);
	add(sum, "ns", call->left_ns - call->entered_ns);
	if (call->shim)
		add(sum, "with_shim", 1);
	if (!call->returned)
		add(sum, "not_returned", 1);
	if (tool.records)
		json_array_append_new(tool.calls, record(data, call));
}

static int each_caller(const struct watch_caller *caller, void *data)
{
	json_t *object = json_object();

	json_object_set_new(object, "process", json_integer(caller->process));
	json_object_set_new(object, "function",
			    json_string(watch_functions[caller->function].name));
	json_object_set_new(object, "address", json_integer((json_int_t)caller->return_address));
	json_object_set_new(object, "calls", json_integer((json_int_t)caller->calls));
	json_object_set_new(object, "by", json_string(by_names[caller->by]));
	json_object_set_new(object, "shim", json_boolean(caller->shim));
	json_array_append_new(data, object);
	return 0;
}

static json_t *count(const struct watch_count *of)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I}", "calls", (json_int_t)of->calls, "returned",
			 (json_int_t)of->returned, "ns", (json_int_t)of->ns, "nested",
			 (json_int_t)of->nested, "scoped", (json_int_t)of->scoped);
}

static void write_report(struct watch *watch, int status)
{
	static struct watch_stats stats;
	json_t *root = json_object(), *functions = json_object(), *processes = json_array();
	json_t *libraries = json_array(), *callers = json_array(), *sites = json_object();
	const struct watch_library *library;
	const struct watch_process *process;
	size_t count_of;

	watch_stats(watch, &stats);
	for (size_t i = 0; i < WATCH_FUNCTION_COUNT; i++) {
		if (stats.functions[i].calls)
			json_object_set_new(functions, watch_functions[i].name,
					    count(&stats.functions[i]));
		if (watch_site_of(watch, (uint32_t)i))
			json_object_set_new(sites, watch_functions[i].name,
					    json_integer(watch_site_of(watch, (uint32_t)i)));
	}
	for (size_t i = 0; (process = watch_process_at(watch, i)); i++)
		json_array_append_new(
			processes, json_pack("{s:i,s:i,s:b,s:b,s:s}", "id", (int)process->id,
					     "parent", (int)process->parent, "shim", process->shim,
					     "ended", process->ended_ns != 0, "program",
					     process->program ? process->program : ""));
	count_of = watch_libraries(watch, &library);
	for (size_t i = 0; i < count_of; i++)
		json_array_append_new(libraries,
				      json_pack("{s:s,s:i,s:i,s:i}", "path", library[i].path,
						"probed", (int)library[i].probed, "stepped",
						(int)library[i].stepped, "skipped",
						(int)library[i].skipped));
	(void)watch_callers(watch, each_caller, callers);
	json_object_set_new(root, "functions", functions);
	json_object_set_new(root, "sites", sites);
	json_object_set_new(root, "processes", processes);
	json_object_set_new(root, "libraries", libraries);
	json_object_set_new(root, "callers", callers);
	json_object_set_new(root, "sums", tool.sums);
	json_object_set_new(root, "calls", tool.calls);
	json_object_set_new(root, "claims", tool.claims);
	json_object_set_new(root, "said", tool.lines);
	json_object_set_new(root, "status", json_integer(status));
	json_object_set_new(root, "detach_us", json_integer((json_int_t)(tool.detach_ns / 1000)));
	json_object_set_new(root, "records", json_integer((json_int_t)stats.records));
	json_object_set_new(root, "lost_records", json_integer((json_int_t)stats.lost_records));
	json_object_set_new(root, "lost_calls", json_integer((json_int_t)stats.lost_calls));
	json_object_set_new(root, "deep_calls", json_integer((json_int_t)stats.deep_calls));
	json_object_set_new(root, "left_calls", json_integer((json_int_t)stats.left_calls));
	json_object_set_new(root, "late_returns", json_integer((json_int_t)stats.late_returns));
	json_object_set_new(root, "lost_callers", json_integer((json_int_t)stats.lost_callers));
	json_object_set_new(root, "lost_processes", json_integer((json_int_t)stats.lost_processes));
	json_object_set_new(root, "unseen_switches",
			    json_integer((json_int_t)stats.unseen_switches));
	json_object_set_new(root, "lost_process_records",
			    json_integer((json_int_t)stats.lost_process_records));
	json_object_set_new(root, "lost_mappings", json_integer((json_int_t)stats.lost_mappings));
	json_object_set_new(root, "unwatched_libraries",
			    json_integer((json_int_t)stats.unwatched_libraries));
	json_object_set_new(root, "unwatched_functions",
			    json_integer((json_int_t)stats.unwatched_functions));
	json_object_set_new(root, "unheard_shims", json_integer((json_int_t)stats.unheard_shims));
	json_object_set_new(root, "missed_runs", json_integer((json_int_t)stats.missed_runs));
	json_object_set_new(root, "alive", json_integer(stats.alive));
	if (tool.output)
		json_dump_file(root, tool.output, JSON_INDENT(1) | JSON_SORT_KEYS);
	else
		json_dumpf(root, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
	json_decref(root);
}

/* Started, but waiting for its gate to open: nothing of it is missed. */
static pid_t start(int *ret_gate)
{
	int gate[2];
	char byte;
	pid_t child;

	if (pipe(gate))
		return -1;
	child = fork();
	if (!child) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(125);
		close(gate[0]);
		execvp(tool.program[0], tool.program);
		_exit(127);
	}
	close(gate[0]);
	*ret_gate = gate[1];
	return child;
}

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	stopped = number;
}

static void follow(struct watch *watch)
{
	uint64_t begin = now_ns(), end = begin + (uint64_t)tool.seconds * 1000000000;

	if (tool.stall_ms)
		usleep((useconds_t)tool.stall_ms * 1000);
	while (now_ns() < end && !stopped) {
		int r = watch_poll(watch, 20, each, watch);

		if (r < 0 && r != -EINTR)
			fprintf(stderr, "watch-tool: poll: %s\n", strerror(-r));
		if (watch_ended(watch))
			break;
		if (tool.detach_after_ms >= 0 &&
		    now_ns() - begin > (uint64_t)tool.detach_after_ms * 1000000)
			break;
	}
}

int main(int argc, char **argv)
{
	struct watch_error error;
	struct watch *watch;
	int r, status = 0, gate = -1;
	pid_t child = 0;
	uint64_t begin;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	tool.lines = json_array();
	tool.calls = json_array();
	tool.claims = json_array();
	tool.sums = json_object();
	tool.options.say = say;
	signal(SIGTERM, stop);
	if (tool.program) {
		child = start(&gate);
		if (!tool.options.all) {
			tool.process[tool.options.process_count++] = child;
			tool.options.processes = tool.process;
		}
	}
	r = watch_open(&watch, &tool.options, &error);
	if (r) {
		fprintf(stderr, "watch-tool: %s [%s]\n", error.text, error.missing);
		if (child)
			kill(child, SIGKILL);
		return error.number == EPERM || error.number == EACCES ? 77 : 1;
	}
	tool.watch = watch;
	if (tool.offset) {
		char *name;
		uint64_t offset = strtoull(tool.offset, &name, 0);

		r = watch_add_offset(watch, tool.library[0], offset,
				     (uint32_t)watch_function_index(name + 1), &error);
		if (r)
			fprintf(stderr, "watch-tool: %s\n", error.text);
	}
	fprintf(stderr, "watching\n");
	if (child && write(gate, "", 1) != 1)
		return 1;
	follow(watch);
	begin = now_ns();
	watch_detach(watch);
	tool.detach_ns = now_ns() - begin;
	watch_poll(watch, 0, each, watch);
	if (child) {
		if (tool.detach_after_ms >= 0)
			kill(child, SIGKILL);
		waitpid(child, &status, 0);
	}
	write_report(watch, status);
	watch_done(watch);
	return 0;
}
