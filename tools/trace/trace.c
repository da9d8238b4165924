// SPDX-License-Identifier: MIT
/*
 * slipstream-trace: runs a program as `slipstream run` does, with an LTTng recording session around
 * it: a private session daemon unless the user has one. Started by `slipstream trace` and by
 * `slipstream run --trace`. Nothing goes to stdout; ends as the program ended.
 *
 * Once the program runs, nothing that fails here changes what it does or how it ends: it is told in
 * one line.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "ask.h"
#include "command.h"
#include "daemon_log.h"
#include "daemon_user.h"
#include "folder.h"
#include "keeper.h"
#include "memory.h"
#include "options.h"
#include "place.h"
#include "process_state.h"
#include "program.h"
#include "relayd.h"
#include "run.h"
#include "session.h"
#include "snapshot.h"
#include "tracing_parts.h"

#define SNAPSHOTS_MAX    16 /* that the daemon saves of its own accord: a disk has an end */
#define DUMP_OVER        "SLIPSTREAM_DUMP_OVER"
#define DUMP_EVERY       "SLIPSTREAM_DUMP_EVERY"
#define REGISTER_TIMEOUT "LTTNG_UST_REGISTER_TIMEOUT"
#define EMPTY_BYTES      UINT64_C(12288) /* of a stream: a page or two are there without an event */

struct tracer {
	struct trace_options options;
	struct tracing_parts parts;
	struct program program;
	struct keeper_plan daemons;
	struct session_plan plan;
	struct keeper *keeper;
	struct session *session;
	FILE *log; /* of the daemons; NULL: none are ours */
	char *folder, *records, *home, *name;
	struct run_beside beside; /* the kernel's witness; zero: none */
	sigset_t mask;            /* of the signals, as the program is to find it */
	struct snapshots snapshots;
	size_t snapshot_count;                  /* at the last tick */
	bool wants_snapshot;                    /* somebody asked before there was anything */
	int control_port, data_port, live_port; /* of our relay daemon; 0: none */
};

/* ---- Before the program ---- */

/*
 * From the very start to the very end: who asks for a snapshot while none can be saved shall not end the
 * tracer. run_wait() takes the signal while the program runs.
 */
static void hold_snapshot_signal(sigset_t *ret_before)
{
	sigset_t only;

	(void)sigemptyset(&only);
	(void)sigaddset(&only, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &only, ret_before);
	if (getenv(RUN_TRACE_HOLDS))
		(void)sigdelset(ret_before, SIGUSR1);
	(void)unsetenv(RUN_TRACE_HOLDS);
}

static void plan_relayd(struct tracer *tracer)
{
	char **arguments = memory_new(6 * sizeof(*arguments));
	int ports[3];

	if (!tracer->parts.relayd)
		command_fail(EXIT_RUN, "lttng-relayd not found (Debian package lttng-tools)");
	relayd_choose_ports(ports);
	tracer->control_port = ports[0];
	tracer->data_port = ports[1];
	tracer->live_port = ports[2];
	arguments[0] = tracer->parts.relayd;
	arguments[1] = memory_format("--control-port=tcp://127.0.0.1:%d", ports[0]);
	arguments[2] = memory_format("--data-port=tcp://127.0.0.1:%d", ports[1]);
	arguments[3] = memory_format("--live-port=tcp://127.0.0.1:%d", ports[2]);
	arguments[4] = memory_format("--output=%s", tracer->folder);
	tracer->daemons.relayd = arguments;
	tracer->daemons.relayd_port = ports[0];
	tracer->options.url = memory_format("net://127.0.0.1:%d:%d", ports[0], ports[1]);
}

static void end_daemons(struct tracer *tracer)
{
	session_end(tracer->session);
	tracer->session = NULL;
	keeper_end(tracer->keeper);
	tracer->keeper = NULL;
}

/* The daemons said why, if anybody did. */
static void fail_start(struct tracer *tracer, const char *why)
{
	end_daemons(tracer);
	daemon_log_show(tracer->log);
	command_fail(EXIT_RUN, "%s", why);
}

static void start_private(struct tracer *tracer)
{
	_cleanup_free_ char *error_text = NULL, *user = NULL;
	struct trace_options *options = &tracer->options;

	trace_options_size(options);
	tracer->snapshots.definitions = options->definitions * options->count;
	if (options->live || options->relayd)
		plan_relayd(tracer);
	if (!geteuid()) {
		user = place_daemon_user();
		if (!user)
			command_fail(EXIT_RUN, "libslipstream-daemon-user.so is not there: root "
					       "cannot have a private session daemon without it");
	}
	tracer->home = folder_make_home();
	tracer->daemons.home = tracer->home;
	tracer->daemons.log = memory_format("%s/log", tracer->home);
	tracer->log = daemon_log_open(tracer->daemons.log);
	tracer->daemons.sessiond = tracer->parts.sessiond;
	tracer->daemons.preload = user;
	tracer->daemons.timeout_s = options->timeout_s;
	if (keeper_start(&tracer->daemons, &tracer->keeper, &error_text))
		fail_start(tracer, error_text);
	tracer->daemons.preload = NULL;

	tracer->plan = (struct session_plan){
		.keeper = tracer->keeper,
		.home = tracer->home,
		.name = tracer->name,
		.mode = options->snapshot ? SESSION_SNAPSHOT
			: options->live   ? SESSION_LIVE
					  : SESSION_RECORD,
		.folder = options->url ? NULL : tracer->folder,
		.url = options->url,
		.size = options->size,
		.count = options->count,
		.definitions = options->definitions,
		.blocked_over_ns = options->blocked_over_ns,
		.timeout_s = options->timeout_s,
	};
	if (session_start(&tracer->plan, &tracer->session, &error_text))
		fail_start(tracer, error_text);
}

static void join(struct tracer *tracer)
{
	_cleanup_free_ char *error_text = NULL, *notice = NULL;

	/* For the channel that a session which was never started gets. */
	trace_options_size(&tracer->options);
	tracer->plan = (struct session_plan){
		.name = tracer->options.session,
		.size = tracer->options.size,
		.count = tracer->options.count,
		.timeout_s = tracer->options.timeout_s,
	};
	if (session_join(&tracer->plan, &tracer->session, &notice, &error_text))
		fail_start(tracer, error_text);
	if (notice)
		command_say("%s", notice);
}

static void set_variable(const char *name, const char *value)
{
	if (setenv(name, value, 1) < 0)
		command_fail(EXIT_RUN, "cannot set %s: %s", name, strerror(errno));
}

/*
 * The daemon saves the snapshot of a call that blocked long without asking anybody, so that it holds what
 * came before. The process itself repeats its definitions before it tells of that call.
 */
static void export_blocked_over(uint64_t ns)
{
	_cleanup_free_ char *time = memory_format("%lluns", (unsigned long long)ns);

	if (ns && !getenv(DUMP_OVER))
		set_variable(DUMP_OVER, time);
}

/* What the program finds: where its events and its record file go. */
static void export(struct tracer *tracer)
{
	_cleanup_free_ char *socket_folder = NULL, *address = NULL, *patience = NULL;
	unsigned int major = 0, minor = 0;

	set_variable("SLIPSTREAM_OUT", tracer->records);
	export_blocked_over(tracer->options.blocked_over_ns);
	/* What is repeated unasked would overwrite what an idle process has said once. */
	if (tracer->options.snapshot && !getenv(DUMP_EVERY))
		set_variable(DUMP_EVERY, "0");
	set_variable(PLACE_PROVIDER_VARIABLE, tracer->parts.provider);
	if (!tracer->home)
		return;
	set_variable("LTTNG_HOME", tracer->home);
	/*
	 * Processes register one after the other. One of many that gives up after LTTng's three
	 * seconds is in no trace, and nobody would say so.
	 */
	patience = memory_format("%u", 1000U * (unsigned int)tracer->options.timeout_s);
	if (!getenv(REGISTER_TIMEOUT))
		set_variable(REGISTER_TIMEOUT, patience);
	if (tracer->parts.sessiond_version)
		(void)sscanf(tracer->parts.sessiond_version, "%u.%u", &major, &minor);
	if (major * 1000 + minor >= 2014) {
		socket_folder = memory_format("%s/.lttng", tracer->home);
		set_variable("LTTNG_UST_APP_PATH", socket_folder);
	}
	if (tracer->options.relayd) {
		address = memory_format("127.0.0.1:%d:%d", tracer->control_port, tracer->data_port);
		set_variable(TRACE_STREAM_VARIABLE, address);
	}
}

static void say_where_live(const struct tracer *tracer)
{
	char host[256] = "localhost";

	(void)gethostname(host, sizeof(host) - 1);
	command_say("live at net://127.0.0.1:%d/host/%s/%s", tracer->live_port, host, tracer->name);
}

static void prepare(struct tracer *tracer)
{
	_cleanup_free_ char *error_text = NULL, *missing = NULL;
	const char *asked = run_options_out();

	run_inspect(tracer->options.program[0], &tracer->program);
	if (report_output_prepare(&tracer->options.output, &error_text))
		command_fail(EXIT_RUN, "%s", error_text);
	tracing_parts_find(&tracer->parts);
	missing = tracer->options.session ? tracing_parts_missing_provider(&tracer->parts)
					  : tracing_parts_missing(&tracer->parts);
	if (missing)
		command_fail(EXIT_RUN, "%s", missing);

	tracer->folder = folder_make(tracer->options.folder);
	tracer->name = memory_format("slipstream-%d", getpid());
	if (asked) {
		tracer->records = run_make_folder(asked, true);
	} else {
		_cleanup_free_ char *beside = memory_format("%s/" FOLDER_RECORDS, tracer->folder);

		tracer->records = run_make_folder(beside, true);
	}
	tracer->snapshots = (struct snapshots){
		.folder = tracer->folder,
		.records = tracer->records,
		.keep_ns = tracer->options.keep_ns,
	};
}

/* ---- While it runs ---- */

/* One that is asked for before a process is in the trace is saved at the first tick behind that. */
static void save_wanted(struct tracer *tracer)
{
	if (!tracer->wants_snapshot || !snapshots_can_hold(&tracer->snapshots))
		return;
	tracer->wants_snapshot = false;
	snapshots_save(&tracer->snapshots, tracer->session);
}

static bool on_signal(void *context, int number)
{
	struct tracer *tracer = context;

	if (number != SIGUSR1)
		return false;
	tracer->wants_snapshot = true;
	save_wanted(tracer);
	return true;
}

static void on_tick(void *context)
{
	struct tracer *tracer = context;
	size_t count;

	save_wanted(tracer);
	if (!tracer->options.blocked_over_ns || tracer->options.url)
		return;
	/* Those of the last tick: of newer ones the daemon may still be writing. */
	snapshots_tell(&tracer->snapshots, tracer->snapshot_count);
	count = folder_count_snapshots(tracer->folder);
	if (count == tracer->snapshot_count)
		return;
	tracer->snapshot_count = count;
	snapshots_note(&tracer->snapshots);
	if (count < SNAPSHOTS_MAX)
		session_rearm(tracer->session);
}

static void on_start(void *context, pid_t pid)
{
	run_beside_start(&((struct tracer *)context)->beside, pid);
}

static int run(struct tracer *tracer, struct run_end *ret_end)
{
	struct run_watch watch = {.context = tracer};
	_cleanup_free_ char *trace = memory_format("%s/witness", tracer->folder);

	if (tracer->options.witness) {
		run_beside_init(&tracer->beside, tracer->records, trace);
		watch.started = on_start;
	}

	if (tracer->options.snapshot) {
		watch.signal = on_signal;
		watch.tick = on_tick;
		watch.mask = &tracer->mask;
	}
	return run_wait(tracer->program.is_elf ? tracer->program.path : NULL,
			tracer->options.program, &watch, ret_end);
}

/* ---- After it ---- */

static void last_snapshot(struct tracer *tracer)
{
	if (!tracer->options.snapshot)
		return;
	if (tracer->options.blocked_over_ns) {
		snapshots_settle(&tracer->snapshots);
		session_disarm(tracer->session);
		snapshots_tell(&tracer->snapshots, tracer->snapshot_count);
		if (folder_count_snapshots(tracer->folder) != tracer->snapshot_count)
			snapshots_note(&tracer->snapshots);
		snapshots_tell(&tracer->snapshots, UINT64_MAX);
		save_wanted(tracer);
		if (tracer->wants_snapshot)
			command_say("a snapshot was asked for, and not saved: no process was in "
				    "the trace");
		return;
	}
	snapshots_save(&tracer->snapshots, tracer->session);
}

static void say_loss(const struct tracer *tracer, const struct session_loss *loss)
{
	const struct trace_options *options = &tracer->options;

	if (loss->events)
		command_say("%s%llu events lost: the buffers were full (%lluKx%llu for each "
			    "processor; --buffers gives more)",
			    options->session ? "at least " : "", (unsigned long long)loss->events,
			    (unsigned long long)options->size >> 10,
			    (unsigned long long)options->count);
	if (loss->packets && !options->snapshot)
		command_say("%llu sub-buffers lost: overwritten before they were written",
			    (unsigned long long)loss->packets);
}

/*
 * Where the program's LTTng does not reach the session, no part of LTTng says so. Every process that
 * is seen begins with its definitions, which are far more than this.
 */
static void say_empty(const struct tracer *tracer)
{
	bool is_here = !tracer->options.session && (!tracer->options.url || tracer->control_port);

	if (is_here && tracer->plan.mode != SESSION_SNAPSHOT &&
	    folder_count_records(tracer->records) &&
	    folder_largest_stream(tracer->folder) < EMPTY_BYTES)
		command_say("the trace is empty, though the program called the driver: its LTTng "
			    "did not reach the session in time (slipstream doctor; "
			    "LTTNG_UST_REGISTER_TIMEOUT=0?)");
}

static void finish(struct tracer *tracer)
{
	_cleanup_free_ char *error_text = NULL;
	struct session_loss loss = {0};
	bool is_explained;

	last_snapshot(tracer);
	(void)session_stop(tracer->session, &loss, &error_text);
	say_loss(tracer, &loss);
	/* What the daemons say later is about their own end. */
	if (error_text)
		command_say("the trace is cut short, its loss is not known: %s", error_text);
	is_explained = error_text || daemon_log_say_error(tracer->log) || loss.events;
	session_end(tracer->session);
	tracer->session = NULL;
	if (tracer->options.live)
		relayd_wait_for_readers(tracer->live_port);
	end_daemons(tracer);
	if (!is_explained)
		say_empty(tracer);
	daemon_log_keep(tracer->log, tracer->folder);
}

/* Somebody asked when the last one had been saved. */
static void say_too_late(const struct tracer *tracer)
{
	sigset_t pending;

	if (tracer->options.snapshot && !sigpending(&pending) && sigismember(&pending, SIGUSR1))
		command_say("a snapshot was asked for when the program had ended: none was saved "
			    "then");
}

static void say_place(const struct tracer *tracer)
{
	const struct trace_options *options = &tracer->options;

	if (options->session)
		command_say("the trace is in your session %s; record files are in %s",
			    options->session, tracer->records);
	else if (options->url && !tracer->control_port)
		command_say("the trace is with %s, as %s; record files are in %s", options->url,
			    tracer->name, tracer->records);
	else if (options->snapshot)
		snapshots_say(&tracer->snapshots, options->blocked_over_ns);
	else
		command_say("the trace is in %s", tracer->folder);
}

static void remove_leftovers(const struct tracer *tracer)
{
	/* LTTng's own file, of a user that nobody else is. */
	if (!geteuid() && tracer->home && tracer->parts.sessiond_socket) {
		_cleanup_free_ char *name =
			memory_format(DAEMON_USER_SHM, atoi(tracer->parts.sessiond_socket));

		(void)shm_unlink(name);
	}
}

/* ---- Without a program ---- */

/* The folder of the record files, or the trace's, in which it lies. */
static int ask_in(const char *folder)
{
	_cleanup_free_ char *inner = memory_format("%s/" FOLDER_RECORDS, folder), *silent = NULL;
	const char *records = access(inner, F_OK) < 0 ? folder : inner;
	size_t asked;
	int error = ask_for_dumps(records, &asked, &silent);

	if (error)
		command_fail(EXIT_RUN, "%s: %s", records, strerror(-error));
	if (silent)
		command_say("%s", silent);
	else if (!asked)
		command_say("no process with a record file in %s runs", records);
	return silent || !asked ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct tracer tracer = {0};
	struct run_end end;
	uint64_t since_ns;
	struct json_t *witness;
	int error;

	command_hold_descriptors();
	command_name = strcmp(argv[0], RUN_AS_RUN) ? "slipstream trace" : "slipstream run";
	command_usage_status = command_failure_status = EXIT_RUN;
	hold_snapshot_signal(&tracer.mask);
	trace_options_read(argc, argv, &tracer.options);
	if (!tracer.options.snapshot)
		(void)sigprocmask(SIG_SETMASK, &tracer.mask, NULL);
	if (tracer.options.dump)
		return ask_in(tracer.options.dump);
	/* Of a traced run around this one, perhaps; trace has a place of its own for record files. */
	(void)unsetenv("SLIPSTREAM_OUT");
	run_options_export();
	if (tracer.options.driver)
		run_preload_driver(tracer.options.driver);
	prepare(&tracer);
	if (tracer.options.session)
		join(&tracer);
	else
		start_private(&tracer);
	run_preload(&tracer.program);
	export(&tracer);
	if (tracer.options.live)
		say_where_live(&tracer);

	since_ns = process_now_ns();
	error = run(&tracer, &end);
	witness = run_beside_end(&tracer.beside);
	if (error || end.exec_error) {
		end_daemons(&tracer);
		remove_leftovers(&tracer);
		run_failed_start(tracer.options.program[0], error, &end);
	}
	finish(&tracer);
	error = run_report(&tracer.options.output, &tracer.program, tracer.records, since_ns,
			   end.pid, witness);
	say_place(&tracer);
	remove_leftovers(&tracer);
	program_done(&tracer.program);
	tracing_parts_done(&tracer.parts);
	if (error && WIFEXITED(end.wait_status) && !WEXITSTATUS(end.wait_status))
		return EXIT_RUN;
	say_too_late(&tracer);
	run_end_alike(end.wait_status);
}
