// SPDX-License-Identifier: MIT
/*
 * Options (options.h). Called by trace.c. The options of `run` are among them, so that `run --trace`
 * can hand its command line over as it is.
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "command.h"
#include "memory.h"
#include "report_style.h"
#include "run.h"
#include "text.h"
#include "tracing_parts.h"

#define TIMEOUT_S   30
#define TIMEOUT_MAX 3600

/* Sub-buffers of a processor: LTTng asks for powers of two, at least a page and two of them. */
#define SIZE_MIN  UINT64_C(4096)
#define SIZE_MAX_ (UINT64_C(1) << 30)
#define COUNT_MAX UINT64_C(1024)

/*
 * 8 sub-buffers of 512 KiB took 3 million events in a burst without a loss (lttng-ust 2.13, 2
 * processors). They are made once for each processor of the machine, used or not.
 */
#define SIZE_STANDARD  (UINT64_C(512) << 10)
#define COUNT_STANDARD UINT64_C(8)
#define TOTAL_STANDARD (UINT64_C(256) << 20) /* over all processors, at most */

/*
 * What a program that does not do much else than wait fills in a second, on the processor where it runs:
 * 15000 waits of 70 bytes, or 200000 events of level full of 40. Another may fill them sooner; each
 * snapshot tells what it holds.
 */
#define RATE_WAITS    (UINT64_C(1) << 20)
#define RATE_FULL     (UINT64_C(8) << 20)
#define KEEP_LEAST_NS UINT64_C(1000000)
#define TOTAL_KEEP    (UINT64_C(1) << 30) /* for a time, over all processors, at most */

/*
 * Definitions that lie among the events are overwritten with them, within milliseconds at level full. The
 * dump of a small program has 100 KiB: the buffers of a processor hold those of several processes, as
 * far as /dev/shm allows that.
 */
#define DEFINITIONS_LEAST (UINT64_C(256) << 10)
#define DEFINITIONS_MIN   (UINT64_C(1) << 20)
#define DEFINITIONS_MAX   (UINT64_C(4) << 20)

enum {
	KEY_FOLDER = 0x500,
	KEY_TRACE,
	KEY_DRIVER,
	KEY_KEEP,
	KEY_BUFFERS,
	KEY_SNAPSHOT,
	KEY_DUMP,
	KEY_DEFINITIONS,
	KEY_BLOCKED,
	KEY_LIVE,
	KEY_STREAM,
	KEY_RELAYD,
	KEY_SESSION,
	KEY_TIMEOUT,
	KEY_WITNESS,
};

static const struct argp_option options[] = {
	{"folder", KEY_FOLDER, "DIR", 0,
	 "where the trace goes; must be empty or not there (default slipstream-trace-TIME)", 1},
	{"trace", KEY_TRACE, "DIR", OPTION_HIDDEN, NULL, 1}, /* of run */
	{"keep", KEY_KEEP, NULL, OPTION_HIDDEN, NULL, 1},    /* of run; always so here */
	{"driver", KEY_DRIVER, "DIR", 0, "put DIR, with its libcuda.so.1, first on LD_LIBRARY_PATH",
	 1},
	{"buffers", KEY_BUFFERS, "SIZExCOUNT", 0,
	 "sub-buffers for each processor, both powers of two (default 512Kx8, less where there are "
	 "many processors)",
	 1},
	{"snapshot", KEY_SNAPSHOT, "SIZE|TIME", 0,
	 "keep the last SIZE bytes (K, M, G) or about the last TIME (ms, s) in memory; save them "
	 "at "
	 "the end and on SIGUSR1 (without --snapshot that signal is the program's)",
	 1},
	{"definitions", KEY_DEFINITIONS, "SIZE", 0,
	 "with --snapshot: SIZE bytes (K, M, G) for each processor keep what names the events "
	 "(default 1M to 4M, as SIZE of --snapshot)",
	 1},
	{"blocked-over", KEY_BLOCKED, "TIME", 0,
	 "with --snapshot: save when a call blocked longer than TIME (ns, us, ms, s), not at the "
	 "end",
	 1},
	{"live", KEY_LIVE, NULL, 0, "print an address where the trace can be read meanwhile", 1},
	{"stream-to", KEY_STREAM, "HOST[:PORT[:PORT]]", 0,
	 "send the trace to the lttng-relayd there (control and data port)", 1},
	{"relayd", KEY_RELAYD, NULL, 0,
	 "take the trace through an lttng-relayd of our own on loopback, where each slipstream "
	 "trace below sends to as well",
	 1},
	{"session", KEY_SESSION, "NAME", 0, "take part in the recording session that you have", 1},
	{"dump", KEY_DUMP, "DIR", 0,
	 "start nothing: have the traced processes whose record files are in DIR repeat their "
	 "definitions, for a snapshot of a session of yours",
	 1},
	{"witness", KEY_WITNESS, NULL, 0,
	 "have the kernel watch too, and leave what it saw beside the trace (needs CAP_BPF and "
	 "CAP_PERFMON)",
	 1},
	{"timeout", KEY_TIMEOUT, "SECONDS", 0, "for each answer of the LTTng daemons (default 30)",
	 1},
	{0},
};

/* "512K", "4M", "1G", "4096"; 0: no such number. */
static uint64_t read_size(const char *text, const char **ret_end)
{
	static const char units[] = "KMG";
	unsigned long long number;
	const char *unit;
	char *end;

	*ret_end = text;
	if (!isdigit((unsigned char)*text))
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || number > SIZE_MAX_)
		return 0;
	unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit) {
		number <<= 10 * (unit - units + 1);
		end++;
	}
	*ret_end = end;
	return number;
}

static bool is_power_of_two(uint64_t number)
{
	return number && !(number & (number - 1));
}

static void read_buffers(const char *text, struct trace_options *ret_options)
{
	const char *end;
	uint64_t size = read_size(text, &end), count = 0;

	if (*end == 'x')
		count = read_size(end + 1, &end);
	if (*end || !is_power_of_two(size) || size < SIZE_MIN || size > SIZE_MAX_ ||
	    !is_power_of_two(count) || count < 2 || count > COUNT_MAX)
		command_fail(EXIT_RUN,
			     "--buffers needs SIZExCOUNT as in 512Kx8, both powers of two, from "
			     "4Kx2, not '%s'",
			     text);
	ret_options->size = size;
	ret_options->count = count;
}

/* Nanoseconds; 0: no such time. */
static uint64_t read_time(const char *text)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	size_t digits = strspn(text, "0123456789");

	for (size_t i = 0; digits && digits < 10 && i < ARRAY_SIZE(units); i++)
		if (!strcmp(text + digits, units[i].name))
			return strtoull(text, NULL, 10) * units[i].ns;
	return 0;
}

static void read_snapshot(const char *text, struct trace_options *ret_options)
{
	const char *end;
	uint64_t size = read_size(text, &end), ns = *end ? read_time(text) : 0;

	if (*end && ns >= KEEP_LEAST_NS)
		size = 0;
	else if (*end || !size)
		command_fail(EXIT_RUN,
			     "--snapshot needs a size as in 64M or a time as in 5s, not '%s'",
			     text);
	ret_options->snapshot = true;
	ret_options->keep = size;
	ret_options->keep_ns = size ? 0 : ns;
}

static uint64_t read_definitions(const char *text)
{
	const char *end;
	uint64_t size = read_size(text, &end);

	if (*end || size < SIZE_MIN * COUNT_STANDARD || size > SIZE_MAX_)
		command_fail(EXIT_RUN,
			     "--definitions needs a size from 32K to 1G as in 4M, not '%s'", text);
	return size;
}

static uint64_t read_blocked(const char *text)
{
	uint64_t ns = read_time(text);

	if (!ns)
		command_fail(EXIT_RUN, "--blocked-over needs a time as in 5ms, not '%s'", text);
	return ns;
}

static int read_timeout(const char *text)
{
	const char *end;
	uint64_t seconds = read_size(text, &end);

	if (*end || !seconds || seconds > TIMEOUT_MAX)
		command_fail(EXIT_RUN, "--timeout needs seconds from 1 to %d, not '%s'",
			     TIMEOUT_MAX, text);
	return (int)seconds;
}

/* An IPv6 address stands in brackets, as LTTng wants it. */
static char *read_address(const char *text)
{
	size_t good = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789.-_:[]%");

	if (!*text || *text == ':' || text[good])
		command_fail(EXIT_RUN, "--stream-to needs HOST[:PORT[:PORT]], not '%s'", text);
	return memory_format("%s://%s", *text == '[' ? "net6" : "net", text);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct trace_options *ret_options = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &ret_options->output;
		state->child_inputs[1] = NULL;
		return 0;
	case KEY_FOLDER:
	case KEY_TRACE:
		ret_options->folder = argument;
		return 0;
	case KEY_DRIVER:
		ret_options->driver = argument;
		return 0;
	case KEY_KEEP:
		return 0;
	case KEY_BUFFERS:
		read_buffers(argument, ret_options);
		return 0;
	case KEY_SNAPSHOT:
		read_snapshot(argument, ret_options);
		return 0;
	case KEY_DEFINITIONS:
		ret_options->definitions = read_definitions(argument);
		return 0;
	case KEY_DUMP:
		ret_options->dump = argument;
		return 0;
	case KEY_BLOCKED:
		ret_options->blocked_over_ns = read_blocked(argument);
		return 0;
	case KEY_LIVE:
		ret_options->live = true;
		return 0;
	case KEY_STREAM:
		free(ret_options->url);
		ret_options->url = read_address(argument);
		return 0;
	case KEY_WITNESS:
		ret_options->witness = true;
		return 0;
	case KEY_RELAYD:
		ret_options->relayd = true;
		return 0;
	case KEY_SESSION:
		ret_options->session = argument;
		return 0;
	case KEY_TIMEOUT:
		ret_options->timeout_s = read_timeout(argument);
		return 0;
	case ARGP_KEY_ARG:
		ret_options->program = state->argv + state->next - 1;
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (ret_options->dump)
			return 0;
		command_fail(EXIT_RUN, "no program given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void refuse_both(bool one, bool other, const char *names)
{
	if (one && other)
		command_fail(EXIT_RUN, "%s exclude each other", names);
}

static void check_together(const struct trace_options *given)
{
	bool own_place = given->live || given->relayd;

	refuse_both(given->dump, given->program, "--dump and a program");
	if (given->blocked_over_ns && !given->snapshot)
		command_fail(EXIT_RUN, "--blocked-over needs --snapshot");
	if (given->definitions && !given->snapshot)
		command_fail(EXIT_RUN, "--definitions needs --snapshot");
	refuse_both(given->live, given->url, "--live and --stream-to");
	refuse_both(given->relayd, given->url, "--relayd and --stream-to");
	refuse_both(given->snapshot, own_place, "--snapshot and --live or --relayd");
	refuse_both(given->snapshot, given->size, "--snapshot and --buffers");
	refuse_both(given->session, own_place || given->url || given->snapshot || given->size,
		    "--session and options of a session of our own");
}

void trace_options_read(int argc, char **argv, struct trace_options *ret_options)
{
	static const struct argp_child children[] = {
		{.argp = &report_style_argp}, {.argp = &run_options_argp}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARGUMENT...]\n--dump=DIR",
		.doc = "Run PROGRAM, leave an LTTng trace of its synchronizations in a folder, and "
		       "report them to stderr."
		       "\vExit status: that of PROGRAM (a signal is raised again), 125 if "
		       "slipstream "
		       "itself fails, 126 if PROGRAM cannot be executed, 127 if it cannot be "
		       "found.",
		.children = children,
	};
	const char *inherited = getenv(TRACE_STREAM_VARIABLE);

	*ret_options = (struct trace_options){.timeout_s = TIMEOUT_S};
	run_options_init();
	report_style_init(&ret_options->output, STDERR_FILENO);
	ret_options->output.text_stream = stderr;
	command_parse(&argp, argc, argv, ARGP_IN_ORDER, ret_options);
	if (inherited && *inherited && !ret_options->url && !ret_options->live &&
	    !ret_options->relayd && !ret_options->session)
		ret_options->url = read_address(inherited);
	check_together(ret_options);
}

/* Smallest power of two not below the number. */
static uint64_t power_above(uint64_t number)
{
	uint64_t power = 1;

	while (power < number)
		power *= 2;
	return power;
}

/* Largest power of two not above the number; 0 for 0. */
static uint64_t power_below(uint64_t number)
{
	uint64_t power = 1;

	if (!number)
		return 0;
	while (power <= number / 2)
		power *= 2;
	return power;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* Bytes for each processor, of which a thread may fill one alone. */
static uint64_t size_of_time(uint64_t ns, uint64_t processors, uint64_t available)
{
	const char *level = getenv("SLIPSTREAM_LEVEL");
	uint64_t rate = level && !strcmp(level, "full") ? RATE_FULL : RATE_WAITS;
	uint64_t size = ns / 1000000 * rate / 1000;

	return smaller(size, smaller(available / 2, TOTAL_KEEP) / processors);
}

static uint64_t size_of_definitions(uint64_t events, uint64_t available)
{
	uint64_t size =
		events < DEFINITIONS_MIN ? DEFINITIONS_MIN : smaller(events, DEFINITIONS_MAX);

	size = smaller(size, power_below(available));
	return size < DEFINITIONS_LEAST ? DEFINITIONS_LEAST : size;
}

static void size_snapshot(struct trace_options *given, uint64_t processors, uint64_t available)
{
	given->count = COUNT_STANDARD;
	if (given->keep)
		given->size = power_above(given->keep / processors / COUNT_STANDARD);
	else
		given->size = power_below(size_of_time(given->keep_ns, processors, available) /
					  COUNT_STANDARD);
	if (given->size < SIZE_MIN)
		given->size = SIZE_MIN;
	if (given->definitions)
		given->definitions = power_above(given->definitions / COUNT_STANDARD);
	else
		given->definitions = size_of_definitions(given->size * COUNT_STANDARD,
							 available / 8 / processors) /
				     COUNT_STANDARD;
}

void trace_options_size(struct trace_options *given)
{
	uint64_t processors = tracing_parts_processors();
	uint64_t available = UINT64_MAX, total;
	char figure[2][TEXT_FIGURE];
	struct statvfs shared;

	/* A full /dev/shm does not fail: it ends the consumer, or the program, by SIGBUS. */
	if (!statvfs("/dev/shm", &shared))
		available = (uint64_t)shared.f_bavail * shared.f_frsize;
	if (given->snapshot) {
		size_snapshot(given, processors, available);
	} else if (!given->size) {
		total = smaller(available / 2, TOTAL_STANDARD);
		given->count = COUNT_STANDARD;
		given->size =
			smaller(power_below(total / processors / COUNT_STANDARD), SIZE_STANDARD);
	}
	if (given->size < SIZE_MIN)
		given->size = SIZE_MIN;
	/* One that is overwritten has a spare for its reader. */
	total = (given->size + given->definitions) * (given->count + given->snapshot) * processors;
	if (total > available)
		command_fail(
			EXIT_RUN,
			"the buffers need %s in /dev/shm, which has %s: give smaller --buffers "
			"(or a container a larger --shm-size)",
			text_bytes(total, figure[0]), text_bytes(available, figure[1]));
}
