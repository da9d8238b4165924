// SPDX-License-Identifier: MIT
/* Selection (report_select.h). Called by `slipstream report` and slipstream-analyze. */
#include "report_select.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "command.h"
#include "memory.h"
#include "text.h"

enum {
	KEY_RANK = 0x200,
	KEY_HOST,
	KEY_GPU,
	KEY_PID,
	KEY_BEGIN,
	KEY_END,
	KEY_TIMELINE,
	KEY_HTML,
	KEY_WHAT_IF,
	KEY_WAITS,
	KEY_RECORDS,
};

static const struct argp_option options[] = {
	{0, 0, 0, 0, "Of a trace:", 20},
	{"rank", KEY_RANK, "N", 0, "only the process with this rank", 20},
	{"host", KEY_HOST, "NAME", 0, "only processes of this host", 20},
	{"gpu", KEY_GPU, "N", 0, "only waits for this device", 20},
	{"pid", KEY_PID, "N", 0, "only this process", 20},
	{"begin", KEY_BEGIN, "TIME", 0,
	 "only waits from here on: ns, us, ms, s from the first event, or % of the trace", 20},
	{"end", KEY_END, "TIME", 0, "only waits up to here", 20},
	{"timeline", KEY_TIMELINE, "FILE", 0, "write a timeline in the Chrome trace format to FILE",
	 20},
	{"html", KEY_HTML, "FILE", 0, "write one page with ranking, timeline and stacks to FILE",
	 20},
	{"what-if", KEY_WHAT_IF, 0, 0, "tell what removing each wait would save (level full)", 20},
	{"waits", KEY_WAITS, 0, 0, "list every wait instead of the report", 20},
	{"records", KEY_RECORDS, 0, 0, "report on the record files even where there is a trace",
	 20},
	{0},
};

static int64_t parse_number(const char *option, const char *text)
{
	uint64_t value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || text[0] < '0' || text[0] > '9' || value > UINT32_MAX)
		command_fail(command_usage_status, "--%s needs a number, not %s", option, text);
	return (int64_t)value;
}

bool report_time_parse(const char *text, struct report_time *ret_time)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	double value;
	char *end;

	if ((*text < '0' || *text > '9') && *text != '.')
		return false;
	errno = 0;
	value = strtod(text, &end);
	if (errno || end == text || !isfinite(value))
		return false;
	if (!strcmp(end, "%")) {
		*ret_time = (struct report_time){
			.is_set = true, .is_share = true, .share = value / 100};
		return value <= 100;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(end, units[i].name) && value * units[i].ns < (double)INT64_MAX / 4) {
			*ret_time = (struct report_time){.is_set = true,
							 .ns = (int64_t)(value * units[i].ns)};
			return true;
		}
	return false;
}

static struct report_time parse_time(const char *option, const char *text)
{
	struct report_time time;

	if (!report_time_parse(text, &time))
		command_fail(command_usage_status,
			     "--%s needs a time as 250ms, or a share as 10%%, not %s", option,
			     text);
	return time;
}

/* NULL: not ours. */
static const char *name_of(int key)
{
	for (const struct argp_option *option = options; option->name || option->doc; option++)
		if (option->key == key && option->name)
			return option->name;
	return NULL;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct report_select *select = state->input;
	const char *name = name_of(key);

	switch (key) {
	case KEY_RANK:
		select->rank = parse_number(name, argument);
		break;
	case KEY_HOST:
		select->host = argument;
		break;
	case KEY_GPU:
		select->gpu = parse_number(name, argument);
		break;
	case KEY_PID:
		select->pid = parse_number(name, argument);
		break;
	case KEY_BEGIN:
		select->begin = parse_time(name, argument);
		break;
	case KEY_END:
		select->end = parse_time(name, argument);
		break;
	case KEY_TIMELINE:
		select->timeline = argument;
		break;
	case KEY_HTML:
		select->html = argument;
		break;
	case KEY_WHAT_IF:
		select->what_if = true;
		break;
	case KEY_WAITS:
		select->waits = true;
		break;
	case KEY_RECORDS:
		select->records = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (!select->trace_option)
		select->trace_option = name;
	return 0;
}

const struct argp report_select_argp = {.options = options, .parser = parse};

void report_select_init(struct report_select *select)
{
	*select = (struct report_select){.rank = -1, .gpu = -1, .pid = -1};
}

static void add_word(char **words, char *more)
{
	char *longer = memory_format("%s%s%s", *words ? *words : "", *words ? ", " : "", more);

	free(*words);
	free(more);
	*words = longer;
}

static char *time_words(const char *which, const struct report_time *time)
{
	char figure[TEXT_FIGURE];

	if (time->is_share)
		return memory_format("%s %.4g %%", which, time->share * 100);
	return memory_format("%s %s", which, text_ns((uint64_t)time->ns, figure));
}

char *report_select_words(const struct report_select *select)
{
	char *words = NULL;

	if (select->rank >= 0)
		add_word(&words, memory_format("rank %" PRId64, select->rank));
	if (select->host)
		add_word(&words, memory_format("host %s", select->host));
	if (select->gpu >= 0)
		add_word(&words, memory_format("GPU %" PRId64, select->gpu));
	if (select->pid >= 0)
		add_word(&words, memory_format("process %" PRId64, select->pid));
	if (select->begin.is_set)
		add_word(&words, time_words("from", &select->begin));
	if (select->end.is_set)
		add_word(&words, time_words("up to", &select->end));
	return words;
}
