// SPDX-License-Identifier: MIT
/*
 * Page (page.h): collects while the trace streams by (page_collect.c), writes at the end. Its reasons for doubt are those of
 * a report of the whole trace, which it has made for them. Called by the reader's thread only.
 */
#include "tracing/analysis/page.h"

#include <errno.h>

#include "memory.h"
#include "tracing/analysis/consumers.h"
#include "tracing/analysis/page_collect.h"
#include "tracing/analysis/page_json.h"
#include "tracing/analysis/page_parts.h"
#include "tracing/analysis/report_consumer.h"

struct page {
	char *path;
	FILE *out;
	struct page_collection collection;
	struct report_select everything;
	struct consumer report;
	page_find_savings *find_savings;
	void *find_context;
};

static void page_free(void *consumer)
{
	struct page *page = consumer;

	if (!page)
		return;
	if (page->out)
		(void)fclose(page->out);
	page_collection_done(&page->collection);
	page->report.ops->free(page->report.state);
	free(page->path);
	free(page);
}

static int page_event(void *consumer, const struct model *model, const struct analysis_event *event,
		      char **reterr_text)
{
	struct page *page = consumer;

	page_take_event(&page->collection, model, event);
	return page->report.ops->event(page->report.state, model, event, reterr_text);
}

/* JSON inside HTML: what could end the element or begin another is written as an escape. It stands in strings only. */
static int write_escaped(const char *bytes, size_t length, void *out)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] == '<' || bytes[i] == '>' || bytes[i] == '&')
			(void)fprintf(out, "\\u%04x", (unsigned int)bytes[i]);
		else
			(void)fputc(bytes[i], out);
	return ferror(out) ? -1 : 0;
}

static int page_finish(void *consumer, const struct model *model, const struct analysis_end *end,
		       char **reterr_text)
{
	struct page *page = consumer;
	struct sites *sites = sites_new();
	size_t saving_count = 0;
	const struct page_saving *savings =
		page->find_savings ? page->find_savings(page->find_context, &saving_count) : NULL;
	struct report *report = report_consumer_build(&page->report, model, end);
	json_t *data =
		page_json(&page->collection, sites, model, end, report, savings, saving_count);
	int error = 0;

	errno = 0;
	(void)fputs(page_before_data, page->out);
	(void)json_dump_callback(data, write_escaped, page->out, JSON_COMPACT | JSON_ENSURE_ASCII);
	(void)fputs(page_after_data, page->out);
	if (ferror(page->out))
		error = errno ? errno : EIO;
	if (fclose(page->out) && !error)
		error = errno;
	page->out = NULL;
	json_decref(data);
	report_free(report);
	sites_free(sites);
	if (error)
		*reterr_text = memory_format("the page %s cannot be written: %s", page->path,
					     strerror(error));
	return -error;
}

static const struct consumer_ops page_ops = {
	.name = "html",
	.event = page_event,
	.finish = page_finish,
	.free = page_free,
};

int page_create(const char *path, struct consumer *ret_consumer, char **reterr_text)
{
	struct page *page;
	FILE *out = fopen(path, "we");

	if (!out) {
		int error = errno;

		*reterr_text =
			memory_format("the page %s cannot be written: %s", path, strerror(error));
		return -error;
	}
	page = memory_new(sizeof(*page));
	page->path = memory_copy(path);
	page->out = out;
	page_collection_begin(&page->collection);
	report_select_init(&page->everything);
	page->report = report_consumer_new(&(struct report_request){.select = &page->everything});
	*ret_consumer = (struct consumer){&page_ops, page};
	return 0;
}

void page_set_savings(struct consumer *consumer, page_find_savings *find, void *context)
{
	struct page *page = consumer->state;

	page->find_savings = find;
	page->find_context = context;
}
