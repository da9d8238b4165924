// SPDX-License-Identifier: MIT
/*
 * Fuzzer: golden trace -> model and report of a trace -> text (each view) and JSON. Every line is
 * an event; what a real trace cannot check in its own format (ids, numbers, order, pieces) the
 * fuzzer reaches by the text.
 */
#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "tracing/analysis/report_consumer.h"
#include "tracing/analysis/text_parse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROCESSES 4

static void check_line(const char *error_text)
{
	if (!error_text || strchr(error_text, '\n'))
		abort(); /* one line, always */
}

/* Returns how many events there were. */
static uint64_t feed(struct text_parser *parser, struct model *model,
		     const struct consumer *consumer)
{
	struct text_line line;
	uint64_t events = 0;
	char *error_text = NULL;
	int status;

	while ((status = text_parser_next(parser, &line, &error_text)) > 0) {
		struct analysis_event event = {
			.id = line.event,
			.process = line.pid % PROCESSES,
			.thread = line.thread,
			.ns = line.ns,
			.payload = &line.payload,
		};

		if (line.kind != TEXT_EVENT)
			continue;
		events++;
		model_take(model, event.process, event.id, event.payload);
		if (consumer->ops->event(consumer->state, model, &event, &error_text))
			abort();
	}
	if (status < 0)
		check_line(error_text);
	free(error_text);
	return events;
}

static void finish(const struct model *model, const struct consumer *consumer, uint64_t events)
{
	struct analysis_end end = {.events = events, .end_ns = 1000, .discarded = events % 3};
	char *error_text = NULL;

	if (consumer->ops->finish(consumer->state, model, &end, &error_text))
		check_line(error_text);
	free(error_text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report_select select;
	struct report_output output = {.style = {.limit = 3, .width = 80}};
	struct report_request request = {.output = &output, .select = &select};
	struct text_parser *parser;
	struct model *model;
	_cleanup_free_ char *text = NULL;
	struct consumer consumer;
	size_t length;

	if (size < 2)
		return 0;
	report_select_init(&select);
	output.style.by = data[0] % (REPORT_BY_GPU + 1);
	output.json_path = data[0] & 0x80 ? "/dev/null" : NULL;
	output.text_stream = memory_check(open_memstream(&text, &length));
	model = model_new();
	for (uint32_t process = 0; process < PROCESSES; process++)
		(void)model_add_process(model, process % 2 ? "alpha" : "beta", process);
	consumer = report_consumer_new(&request);
	parser = text_parser_new(
		"input", memory_check(fmemopen((void *)(uintptr_t)(data + 1), size - 1, "r")));
	finish(model, &consumer, feed(parser, model, &consumer));
	text_parser_free(parser);
	consumer.ops->free(consumer.state);
	model_free(model);
	if (fclose(output.text_stream))
		abort();
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
			abort(); /* nothing raw reaches the terminal */
	return 0;
}
