// SPDX-License-Identifier: MIT
/*
 * The watch mode of slipstream-witness (command_watch.h): opens a watch, lets the writer have what comes, and
 * ends when it is told to, when the time is over, or when nobody is left to watch. The only part of
 * slipstream that needs privileges: whoever starts it does the rest without.
 *
 * Signals: SIGINT, SIGTERM and SIGHUP end the watch, and what was seen is written. With --program SIGINT
 * and SIGQUIT of the terminal are the program's, and it is the starter who ends the watch.
 */
#include "command_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "alive.h"
#include "command.h"
#include "command_write.h"
#include "memory.h"
#include "watch.h"
#include "witness_summary.h"

#define POLL_MS 100
/*
 * Calls that ended this long ago have all come: the ring is emptied at each look, and a record waits
 * for nothing but its own program in the kernel.
 */
#define SETTLED_NS UINT64_C(300000000)

static volatile sig_atomic_t is_stopped;

struct session {
	struct command_options options;
	struct watch *watch;
	struct writer *writer;
	struct witness_summary *summary;
	struct live *live;
	struct watch_stats *stats;
	FILE *trace;
};

static uint64_t now(void)
{
	struct timespec time;

	(void)clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/* ---- talking ---- */

static void tell(const struct session *session, const char *text)
{
	if (session->options.control >= 0)
		while (write(session->options.control, text, strlen(text)) < 0 && errno == EINTR)
			;
}

static void fail(const struct session *session, int status, const char *text)
{
	_cleanup_free_ char *line = memory_format("failed %d\n", status);

	tell(session, line);
	command_fail(status, "%s", text);
}

/* A path of another process is told as that process names it. */
static void say(const char *line, void *data)
{
	struct session *session = data;
	const char *found = strstr(line, "/proc/");
	const char *root = found ? found + 6 + strspn(found + 6, "0123456789") : NULL;

	if (session->live)
		live_clear(session->live);
	if (root && !strncmp(root, "/root/", 6))
		command_say("%.*s%s", (int)(found - line), line, root + 5);
	else
		command_say("%s", line);
}

/* The other end is closed, or says anything. */
static bool is_told_to_stop(const struct session *session)
{
	struct pollfd wanted = {.fd = session->options.control, .events = POLLIN};

	return session->options.control >= 0 && poll(&wanted, 1, 0) > 0 && wanted.revents;
}

/* ---- beginning ---- */

static void handle_stop(int number)
{
	(void)number;
	is_stopped = 1;
}

static void catch_signals(bool program)
{
	struct sigaction stop = {.sa_handler = handle_stop};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(SIGTERM, &stop, NULL);
	(void)sigaction(SIGHUP, program ? &ignore : &stop, NULL);
	(void)sigaction(SIGINT, program ? &ignore : &stop, NULL);
	(void)sigaction(SIGQUIT, program ? &ignore : &stop, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
}

/* Before anything is loaded: a wrong process id is the user's mistake, and told as one. */
static void check_process(const struct session *session, pid_t process)
{
	_cleanup_free_ char *folder = memory_format("/proc/%d", process), *text = NULL;
	_cleanup_free_ char *maps = memory_format("%s/maps", folder);
	_cleanup_close_ int descriptor = open(maps, O_RDONLY | O_CLOEXEC);
	struct stat status;

	if (descriptor >= 0)
		return;
	if (errno != EACCES && errno != EPERM) {
		text = memory_format("process %d: %s", process, strerror(errno));
		fail(session, EXIT_USAGE, text);
	}
	text = stat(folder, &status) || status.st_uid != geteuid()
		       ? memory_format("process %d is another user's: watching it needs "
				       "CAP_SYS_PTRACE",
				       process)
		       : memory_format("process %d may not be looked into: that needs "
				       "CAP_SYS_PTRACE",
				       process);
	fail(session, EXIT_USAGE, text);
}

/* Of several that were found a moment ago (pidof) one may have ended: the others are watched. */
static void check_processes(struct session *session)
{
	struct command_options *options = &session->options;
	size_t kept = 0;

	for (size_t i = 0; i < options->process_count; i++) {
		pid_t process = options->processes[i];
		_cleanup_free_ char *text = NULL;

		if (alive_thread(process)) {
			check_process(session, process);
			options->processes[kept++] = process;
			continue;
		}
		text = memory_format("there is no process %d", process);
		if (options->process_count == 1 && !options->all)
			fail(session, EXIT_USAGE, text);
		command_say("%s", text);
	}
	if (options->process_count && !kept && !options->all)
		fail(session, EXIT_USAGE, "none of these processes is there");
	options->process_count = kept;
}

static void on_call(const struct watch_call *call, void *data)
{
	writer_call(((struct session *)data)->writer, call);
}

static void on_claim(const struct watch_claim *claim, void *data)
{
	writer_claim(((struct session *)data)->writer, claim);
}

static void open_watch(struct session *session)
{
	const struct command_options *from = &session->options;
	struct watch_options options = {
		.processes = from->processes,
		.process_count = from->process_count,
		.all = from->all,
		.libraries = (const char *const *)from->libraries,
		.library_count = from->library_count,
		.shim = from->shim,
		.shim_path = from->shim_path,
		.functions = from->functions,
		.function_count = from->function_count,
		.system_calls = from->system_calls,
		.callers = true,
		.single = from->single,
		.frames = from->frames,
		.least_ns = from->least_ns,
		.claimed = on_claim,
		.claimed_data = session,
		.say = say,
		.say_data = session,
	};
	struct watch_error error = {0};
	int r = watch_open(&session->watch, &options, &error);

	if (r)
		fail(session, r == -ESRCH ? EXIT_USAGE : command_failure_status,
		     *error.text ? error.text : strerror(-r));
}

static void open_writer(struct session *session)
{
	struct writer_options options = {
		.watch = session->watch,
		.least_ns = session->options.least_ns,
		.whole = session->options.program,
	};
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	options.host = host;
	options.file = session->trace;
	if (session->options.summary)
		options.summary = session->summary = witness_summary_new();
	session->writer = writer_new(&options);
}

/* Before the probes: a folder that cannot be written costs nobody anything then. */
static void open_trace(struct session *session)
{
	const char *path = session->options.trace;
	int descriptor;

	if (!path)
		return;
	descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	session->trace = descriptor < 0 ? NULL : fdopen(descriptor, "w");
	if (!session->trace) {
		_cleanup_free_ char *text =
			memory_format("cannot write %s: %s", path, strerror(errno));

		fail(session, command_failure_status, text);
	}
}

/* ---- watching ---- */

/* Each look at the ring, and what is old enough after it. */
static int look(struct session *session, int timeout_ms)
{
	uint64_t began_ns = now();
	int r = watch_poll(session->watch, timeout_ms, on_call, session);

	if (began_ns > SETTLED_NS)
		writer_flush(session->writer, began_ns - SETTLED_NS);
	return r == -EINTR ? 0 : r;
}

static void watch(struct session *session)
{
	uint64_t end_ns = session->options.seconds
				  ? now() + session->options.seconds * UINT64_C(1000000000)
				  : UINT64_MAX;

	while (!is_stopped && !is_told_to_stop(session) && now() < end_ns &&
	       !watch_ended(session->watch)) {
		int r = look(session, POLL_MS);

		if (r < 0) {
			command_say("the watch ends here: %s", strerror(-r));
			return;
		}
		if (!session->live)
			continue;
		(void)watch_stats(session->watch, session->stats);
		live_show(session->live, session->stats, now());
	}
}

/* ---- the end ---- */

static int write_summary(const struct session *session)
{
	json_t *object = witness_summary_json(session->summary);
	int r = json_dump_file(object, session->options.summary, JSON_INDENT(1) | JSON_SORT_KEYS);

	json_decref(object);
	if (r)
		command_say("cannot write %s", session->options.summary);
	return r;
}

static int finish(struct session *session)
{
	int status = EXIT_SUCCESS;

	if (session->live)
		live_clear(session->live);
	watch_detach(session->watch);
	(void)watch_poll(session->watch, 0, on_call, session);
	(void)watch_stats(session->watch, session->stats);
	writer_finish(session->writer, session->stats, now());
	if (session->summary && write_summary(session))
		status = command_failure_status;
	if (session->trace && (ferror(session->trace) | fclose(session->trace))) {
		command_say("cannot write %s", session->options.trace);
		status = command_failure_status;
	}
	writer_free(session->writer);
	witness_summary_free(session->summary);
	live_free(session->live);
	watch_done(session->watch);
	return status;
}

int command_watch(int argc, char **argv)
{
	struct session session = {0};
	int status;

	command_name = "slipstream-witness watch";
	command_usage_status = EXIT_USAGE;
	command_options_read(argc, argv, &session.options);
	catch_signals(session.options.program);
	check_processes(&session);
	session.stats = memory_new(sizeof(*session.stats));
	open_trace(&session);
	open_watch(&session);
	open_writer(&session);
	if (session.options.live)
		session.live = live_new();
	tell(&session, "ready\n");
	watch(&session);
	status = finish(&session);
	free(session.stats);
	command_options_done(&session.options);
	return status;
}
