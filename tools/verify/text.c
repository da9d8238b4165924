// SPDX-License-Identifier: MIT
/* Golden traces and journals, which have their form (tracing/analysis/text_parse.h), to verify.h. Called by main.c. */
#include "verify/verify.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "tracing/analysis/text_parse.h"

/* A host and a pid, from one start of a process to the next. */
struct sender {
	const char *host; /* the parser's */
	uint32_t pid;
	uint64_t start_ns; /* 0: not known yet */
};

struct senders {
	struct sender *items;
	size_t count, capacity, last;
};

static size_t add_sender(struct senders *senders, struct verify *verify, const char *host,
			 uint32_t pid)
{
	_cleanup_free_ char *name =
		memory_format("%s%sprocess %" PRIu32, host, *host ? ", " : "", pid);

	senders->items = memory_grow(senders->items, senders->count, &senders->capacity,
				     sizeof(senders->items[0]));
	senders->items[senders->count] = (struct sender){.host = host, .pid = pid};
	verify_name_process(verify, (uint32_t)senders->count, name);
	return senders->count++;
}

static size_t find_sender(struct senders *senders, struct verify *verify,
			  const struct text_line *line)
{
	const struct sender *last = &senders->items[senders->last];

	/* Hosts are kept once. */
	if (senders->count && last->host == line->host && last->pid == line->pid)
		return senders->last;
	for (size_t i = senders->count; i-- > 0;)
		if (senders->items[i].host == line->host && senders->items[i].pid == line->pid)
			return i;
	return add_sender(senders, verify, line->host, line->pid);
}

static void take(struct senders *senders, struct verify *verify, const struct text_line *line)
{
	size_t number = find_sender(senders, verify, line);

	if (line->event == TRACE_DEF_PROCESS) {
		uint64_t start_ns = line->payload.def_process.start_ns;

		if (senders->items[number].start_ns && senders->items[number].start_ns != start_ns)
			number = add_sender(senders, verify, line->host, line->pid);
		senders->items[number].start_ns = start_ns;
	}
	senders->last = number;
	verify_take(verify, (uint32_t)number, line->event, &line->payload);
}

int verify_read_text(struct verify *verify, const char *path, char **reterr_text)
{
	FILE *file = fopen(path, "re");
	int status = file ? 0 : -errno;
	struct text_parser *parser;
	struct senders senders = {0};
	struct text_line line;

	if (!file) {
		*reterr_text = memory_format("%s: %s", path, strerror(-status));
		return status;
	}
	parser = text_parser_new(path, file);
	while ((status = text_parser_next(parser, &line, reterr_text)) > 0) {
		if (line.kind == TEXT_EVENT)
			take(&senders, verify, &line);
		else if (line.kind == TEXT_DISCARDED)
			verify_incomplete(verify,
					  memory_format("incomplete: the tracer lost %" PRIu64
							" event%s",
							line.count, line.count == 1 ? "" : "s"));
	}
	text_parser_free(parser);
	free(senders.items);
	return status;
}
