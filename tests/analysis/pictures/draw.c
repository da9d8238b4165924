// SPDX-License-Identifier: MIT
/*
 * Draws a golden trace: `draw TRACE NAME=FILE...` gives the lines of TRACE to the consumers named (timeline,
 * html, ...), without babeltrace2. The tests beside it look at the files. Prints its peak memory. Exit status 1: an error, in one line.
 */
#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/consumers.h"
#include "tracing/analysis/page.h"
#include "tracing/analysis/table.h"
#include "tracing/analysis/text_parse.h"

#define CONSUMERS_MAX 8

static struct consumer consumers[CONSUMERS_MAX];
static size_t consumer_count;

/* Takes the text over. */
static int fail(char *text)
{
	(void)fprintf(stderr, "draw: %s\n", text ? text : "failed");
	free(text);
	return 1;
}

static int add_consumer(const char *argument)
{
	const char *equals = strchr(argument, '=');
	char *text = NULL;

	for (const struct consumer_type *type = consumer_types; type->name && equals; type++)
		if (!strncmp(type->name, argument, (size_t)(equals - argument)) &&
		    strlen(type->name) == (size_t)(equals - argument) &&
		    consumer_count < CONSUMERS_MAX)
			return type->create(equals + 1, &consumers[consumer_count++], &text)
				       ? fail(text)
				       : 0;
	return fail(memory_copy("no such consumer"));
}

/* `savings`: what a what-if analysis would say of traces.small(): one call site, its rule as a whole, and another rule. */
static const struct page_saving *find_savings(void *context, size_t *ret_count)
{
	static const struct page_saving savings[] = {
		{.process = 0,
		 .rule = 1,
		 .site = 1,
		 .low_ns = 10000,
		 .high_ns = 20000,
		 .middle_ns = 15000},
		{.process = 0,
		 .rule = 1,
		 .site = 0,
		 .low_ns = 12000,
		 .high_ns = 12000,
		 .middle_ns = 12000},
		/* The middle is what is given: threads overtake each other. */
		{.process = 0,
		 .rule = 0,
		 .site = 0,
		 .low_ns = 0,
		 .high_ns = 90000,
		 .middle_ns = 1000},
		{.process = 7, .rule = 99, .site = 99, .low_ns = -5, .high_ns = 5},
	};

	(void)context;
	*ret_count = ARRAY_SIZE(savings);
	return savings;
}

static int add_argument(const char *argument)
{
	if (strcmp(argument, "savings") != 0)
		return add_consumer(argument);
	for (size_t i = 0; i < consumer_count; i++)
		if (!strcmp(consumers[i].ops->name, "html"))
			page_set_savings(&consumers[i], find_savings, NULL);
	return 0;
}

/* Processes by host and pid, as the reader tells them apart. */
static uint32_t process_of(struct model *model, const struct text_line *line)
{
	for (uint32_t i = 0; i < model_process_count(model); i++) {
		const struct model_process *process = model_process(model, i);

		if (process->pid == line->pid && !strcmp(process->host, line->host))
			return i;
	}
	return model_add_process(model, line->host, line->pid);
}

static int take(struct model *model, const struct text_line *line, struct analysis_end *end)
{
	struct analysis_event event = {.id = line->event,
				       .thread = line->thread,
				       .ns = line->ns,
				       .payload = &line->payload};
	char *text = NULL;

	if (line->kind == TEXT_DISCARDED)
		end->discarded += line->count;
	if (line->kind != TEXT_EVENT)
		return 0;
	event.process = process_of(model, line);
	model_take(model, event.process, event.id, &line->payload);
	if (!end->events++)
		end->begin_ns = line->ns;
	end->end_ns = line->ns;
	for (size_t i = 0; i < consumer_count; i++)
		if (consumers[i].ops->event(consumers[i].state, model, &event, &text))
			return fail(text);
	return 0;
}

/* The peak of this program alone: ru_maxrss begins with what the parent had. */
static void print_peak(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmHWM:", 6))
			(void)fputs(line, stdout);
	if (file)
		(void)fclose(file);
}

int main(int argc, char **argv)
{
	struct analysis_end end = {0};
	struct text_parser *parser;
	struct model *model;
	struct text_line line;
	char *text = NULL;
	int status = 0, found = 0;
	FILE *file = argc > 1 ? fopen(argv[1], "re") : NULL;

	if (!file)
		return fail(memory_copy("usage: draw TRACE NAME=FILE... [savings]"));
	model = model_new();
	for (int i = 2; i < argc && !status; i++)
		status = add_argument(argv[i]);
	if (status) {
		/* The last one was not made. */
		for (size_t i = 0; i < consumer_count; i++)
			if (consumers[i].ops)
				consumers[i].ops->free(consumers[i].state);
		(void)fclose(file);
		model_free(model);
		return status;
	}
	parser = text_parser_new(argv[1], file);
	while (!status && (found = text_parser_next(parser, &line, &text)) > 0)
		status = take(model, &line, &end);
	if (found < 0)
		status = fail(text);
	for (size_t i = 0; i < consumer_count; i++) {
		if (consumers[i].ops->finish(consumers[i].state, model, &end, &text))
			status = fail(text);
		consumers[i].ops->free(consumers[i].state);
	}
	print_peak();
	text_parser_free(parser);
	model_free(model);
	return status;
}
