// SPDX-License-Identifier: MIT
/*
 * Command (command.h): messages and option parsing of all sub-commands. argp prints two lines for
 * an error and cannot say which word was wrong without printing, so its own messages are off and
 * the one line is made here.
 */
#include "command.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>

#include "memory.h"
#include "text.h"

const char *command_name = "slipstream";
int command_usage_status = EXIT_USAGE;
int command_failure_status = EXIT_FAILURE;

static void say(const char *format, va_list arguments)
{
	_cleanup_free_ char *raw = NULL, *text = NULL;

	if (vasprintf(&raw, format, arguments) < 0)
		raw = memory_check(NULL);
	text = text_printable(raw, false);
	(void)fprintf(stderr, "%s: %s\n", command_name, text);
}

void command_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void command_fail(int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	exit(status);
}

#define KEY_HELP 'h'

static const struct argp_option common_options[] = {
	{"help", KEY_HELP, NULL, 0, "give this help list", -1},
	{0},
};

struct parse {
	const struct argp *argp;
	void *input;
};

/*
 * How many options begin with `name`, the last of them in *ret_match; an exact match counts alone.
 */
static size_t find_option(const struct argp *argp, const char *name, size_t length,
			  const struct argp_option **ret_match)
{
	const struct argp_child *child = argp->children;
	const struct argp_option *option = argp->options;
	size_t matches = 0;

	for (; option && (option->name || option->key); option++) {
		if (!option->name || strncmp(option->name, name, length))
			continue;
		*ret_match = option;
		matches++;
		if (!option->name[length])
			return 1;
	}
	for (; child && child->argp; child++) {
		const struct argp_option *match = NULL;
		size_t more = find_option(child->argp, name, length, &match);

		if (!more)
			continue;
		*ret_match = match;
		if (more == 1 && !match->name[length])
			return 1;
		matches += more;
	}
	return matches;
}

/* What is wrong with the word that argp stopped at. */
static void refuse(const struct parse *parse, const struct argp_state *state)
{
	int at = state->next > 1 ? state->next - 1 : 1;
	const char *word = at < state->argc ? state->argv[at] : "";
	size_t length = strcspn(word, "=");
	const struct argp_option *match = NULL;
	size_t matches;

	if (strncmp(word, "--", 2))
		command_fail(command_usage_status, "unknown option %s (try --help)", word);
	matches = find_option(parse->argp, word + 2, length - 2, &match);
	if (!matches)
		command_fail(command_usage_status, "unknown option %.*s (try --help)", (int)length,
			     word);
	if (matches > 1)
		command_fail(command_usage_status, "option %.*s is ambiguous (try --help)",
			     (int)length, word);
	command_fail(command_usage_status, "option --%s %s (try --help)", match->name,
		     match->arg ? "needs a value" : "takes no value");
}

static error_t parse_common(int key, char *argument, struct argp_state *state)
{
	struct parse *parse = state->input;

	(void)argument;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = parse->input;
		return 0;
	case KEY_HELP: {
		const struct argp_child children[] = {{.argp = parse->argp}, {0}};
		const struct argp all = {.options = common_options, .children = children};

		argp_help(&all, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC,
			  (char *)command_name);
		exit(fflush(stdout) ? command_failure_status : EXIT_SUCCESS);
	}
	case ARGP_KEY_ERROR:
		refuse(parse, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void command_parse(const struct argp *argp, int argc, char **argv, unsigned int flags, void *input)
{
	struct argp_child children[] = {{.argp = argp}, {0}};
	struct argp outer = {
		.options = common_options, .parser = parse_common, .children = children};
	struct parse parse = {.argp = argp, .input = input};
	error_t error;

	error = argp_parse(&outer, argc, argv, flags | ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &parse);
	if (error)
		command_fail(command_usage_status, "cannot read the command line: %s",
			     strerror(error));
}

void command_hold_descriptors(void)
{
	int descriptor;

	do
		descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (descriptor >= 0 && descriptor <= STDERR_FILENO);
	if (descriptor >= 0)
		(void)close(descriptor);
}
