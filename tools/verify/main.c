// SPDX-License-Identifier: MIT
/*
 * slipstream-verify: what `slipstream verify` starts. Reads traces one after the other and says of each
 * whether legacy order follows from what was recorded (verify.h).
 *
 * Exit status, the worst of all traces: 0 proved, 1 not proved, 2 could not be read, or usage.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "command.h"
#include "memory.h"
#include "text.h"
#include "trace_find.h"
#include "verify/verify.h"
#include "verify/write.h"

#define EXIT_NOT_PROVED 1
#define EXIT_UNREAD     2
#define LIMIT           20

enum key { KEY_JSON = 256, KEY_LIMIT, KEY_EMPTY, KEY_QUIET };

struct arguments {
	char **paths;
	int path_count;
	const char *json_path;
	size_t limit;
	bool may_be_empty, is_quiet;
	json_t *traces; /* NULL: no JSON is wanted */
};

static const struct argp_option options[] = {
	{"json", KEY_JSON, "FILE", 0, "write the result as JSON", 0},
	{"limit", KEY_LIMIT, "N", 0, "show N findings of a trace (default 20, 0: 1000)", 0},
	{"empty", KEY_EMPTY, NULL, 0, "a trace without any record of legacy order is proved", 0},
	{"quiet", KEY_QUIET, NULL, 0, "say nothing of traces that are proved", 0},
	{0},
};

static size_t parse_limit(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *end || *text == '-' || value > VERIFY_FINDINGS_MAX)
		command_fail(EXIT_USAGE, "--limit needs a number up to %d, not '%s'",
			     VERIFY_FINDINGS_MAX, text);
	return value;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case KEY_JSON:
		arguments->json_path = argument;
		return 0;
	case KEY_LIMIT:
		arguments->limit = parse_limit(argument);
		return 0;
	case KEY_EMPTY:
		arguments->may_be_empty = true;
		return 0;
	case KEY_QUIET:
		arguments->is_quiet = true;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->paths = state->argv + state->next;
		arguments->path_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		command_fail(EXIT_USAGE, "no trace given (try --help)");
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Foreign text may be in it. */
static void say(const char *line)
{
	_cleanup_free_ char *text = text_printable(line, false);

	command_say("%s", text);
}

static int worse(int one, int other)
{
	return one > other ? one : other;
}

static int finish(struct arguments *arguments, const char *path, struct verify *verify,
		  const char *error)
{
	bool is_proved;

	verify_finish(verify);
	is_proved = !error && verify_is_proved(verify, arguments->may_be_empty);
	if (error)
		say(error);
	if (!is_proved || !arguments->is_quiet)
		write_text(stdout, path, verify, is_proved, arguments->limit);
	if (arguments->traces)
		memory_check(json_array_append_new(arguments->traces,
						   write_json(path, verify, is_proved, error))
				     ? NULL
				     : arguments->traces);
	verify_free(verify);
	return error ? EXIT_UNREAD : is_proved ? EXIT_SUCCESS : EXIT_NOT_PROVED;
}

typedef int read_function(struct verify *verify, const char *path, char **reterr_text);

static int verify_one(struct arguments *arguments, const char *path, read_function *read)
{
	struct verify *verify = verify_new();
	_cleanup_free_ char *error_text = NULL;

	(void)read(verify, path, &error_text);
	return finish(arguments, path, verify, error_text);
}

static int is_journal(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');

	return end && end != entry->d_name && !strcmp(end, ".trace");
}

/* A folder of journals, each a trace of its own. */
static int verify_journals(struct arguments *arguments, const char *folder)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_journal, alphasort), status = EXIT_SUCCESS;

	if (count <= 0) {
		if (!count)
			free(entries);
		command_say("%s: there is no trace", folder);
		return EXIT_UNREAD;
	}
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path = memory_format("%s/%s", folder, entries[i]->d_name);

		status = worse(status, verify_one(arguments, path, verify_read_text));
		free(entries[i]);
	}
	free(entries);
	return status;
}

static int verify_path(struct arguments *arguments, const char *path)
{
	struct trace_places places = {0};
	struct stat file;
	bool is_text, is_ctf = false;

	trace_find(path, &places);
	for (size_t i = 0; i < places.count; i++)
		is_ctf |= places.places[i].kind == TRACE_CTF;
	is_text = !is_ctf && !stat(path, &file) && !S_ISDIR(file.st_mode);
	trace_places_done(&places);
	if (is_ctf)
		return verify_one(arguments, path, verify_read_trace);
	if (is_text)
		return verify_one(arguments, path, verify_read_text);
	if (!strncmp(path, "net", 3) && strstr(path, "://")) {
		command_say("%s: a live trace has no end that could be proved", path);
		return EXIT_UNREAD;
	}
	return verify_journals(arguments, path);
}

static int write_json_file(const struct arguments *arguments, int status)
{
	json_t *object = memory_check(json_object());
	bool failed;

	memory_check(json_object_set_new(object, "status", json_integer(status)) ? NULL : object);
	memory_check(json_object_set_new(object, "traces", arguments->traces) ? NULL : object);
	failed = json_dump_file(object, arguments->json_path, JSON_INDENT(2)) != 0;
	json_decref(object);
	if (!failed)
		return status;
	command_say("cannot write %s: %s", arguments->json_path, strerror(errno));
	return EXIT_UNREAD;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "TRACE...",
		.doc = "Prove from a trace of level full, or a journal, that a rewrite of the "
		       "legacy default stream kept its order.",
	};
	struct arguments arguments = {.limit = LIMIT};
	int status = EXIT_SUCCESS;

	command_name = "slipstream verify";
	command_usage_status = EXIT_USAGE;
	command_failure_status = EXIT_UNREAD;
	command_parse(&argp, argc, argv, 0, &arguments);
	if (arguments.json_path)
		arguments.traces = memory_check(json_array());
	for (int i = 0; i < arguments.path_count; i++)
		status = worse(status, verify_path(&arguments, arguments.paths[i]));
	if (arguments.traces)
		status = write_json_file(&arguments, status);
	if (fflush(stdout) || ferror(stdout)) {
		command_say("cannot write the result to stdout");
		status = EXIT_UNREAD;
	}
	return status;
}
