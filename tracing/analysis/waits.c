// SPDX-License-Identifier: MIT
/* List of waits (waits.h): `slipstream report --waits`. */
#include "tracing/analysis/waits.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "text.h"
#include "tracing/analysis/held_waits.h"
#include "tracing/analysis/report_window.h"
#include "tracing/analysis/timeline_sites.h"
#include "tracing/analysis/wait_text.h"

struct waits {
	struct report_request request;
	struct report_window window;
	struct held_waits held;
	struct sites *sites;
	FILE *out;        /* NULL: not opened yet */
	int64_t begin_ns; /* of the first event */
	uint64_t written;
};

static int open_out(struct waits *waits, char **reterr_text)
{
	const char *path = waits->request.output->output_path;
	int error;

	if (waits->out)
		return 0;
	waits->out = path ? fopen(path, "we") : waits->request.output->text_stream;
	if (waits->out)
		return 0;
	error = errno;
	*reterr_text = memory_format("cannot write %s: %s", path, strerror(error));
	return -error;
}

static void write_text(FILE *out, const char *before, const char *raw)
{
	_cleanup_free_ char *text = text_printable(raw, false);

	if (*text)
		(void)fprintf(out, "%s%s", before, text);
}

static void write_wait(struct waits *waits, const struct model *model, const struct held_wait *wait)
{
	int64_t ns = wait->event.ns - waits->begin_ns;
	char blocked[TEXT_FIGURE], bytes[TEXT_FIGURE];
	struct wait_text text;

	if (!report_selects(waits->request.select, model_process(model, wait->event.process)))
		return;
	text = wait_text_of(model, waits->sites, wait);
	(void)fprintf(waits->out, "%" PRId64 ".%09" PRId64, ns / 1000000000, ns % 1000000000);
	write_text(waits->out, " ", text.process);
	(void)fprintf(waits->out, ", thread %" PRIu32, wait->event.thread);
	write_text(waits->out, ": ", text.rule);
	write_text(waits->out, " in ", text.function);
	(void)fprintf(waits->out, " (%s), blocked %s", text.class,
		      text_ns(wait->wait.blocked_ns, blocked));
	if (wait->wait.bytes)
		(void)fprintf(waits->out, ", %s", text_bytes(wait->wait.bytes, bytes));
	write_text(waits->out, ", on ", text.stream);
	write_text(waits->out, ", waited for ", text.waited_for);
	write_text(waits->out, ", at ", text.site);
	(void)putc('\n', waits->out);
	waits->written++;
	wait_text_done(&text);
}

static void write_ready(struct waits *waits, const struct model *model, int64_t now_ns)
{
	const struct held_wait *wait;

	while ((wait = held_waits_next(&waits->held, model, now_ns)))
		write_wait(waits, model, wait);
}

static int write_error(const struct waits *waits, char **reterr_text)
{
	*reterr_text = memory_format("cannot write the list of waits to %s",
				     waits->request.output->output_path ?: "stdout");
	return -EIO;
}

static int take(void *data, const struct model *model, const struct analysis_event *event,
		char **reterr_text)
{
	struct waits *waits = data;
	int error = open_out(waits, reterr_text);

	if (error)
		return error;
	if (!waits->window.is_set)
		waits->begin_ns = event->ns;
	report_window_begin(&waits->window, &waits->request, event->ns);
	if (event->id == TRACE_WAIT && report_window_has(&waits->window, event->ns))
		held_waits_add(&waits->held, event);
	if (waits->held.count)
		write_ready(waits, model, event->ns);
	return ferror(waits->out) ? write_error(waits, reterr_text) : 0;
}

static int finish(void *data, const struct model *model, const struct analysis_end *end,
		  char **reterr_text)
{
	struct waits *waits = data;
	bool failed;

	if (!end->events) {
		*reterr_text = memory_format("the trace has no event of slipstream's");
		return -ENODATA;
	}
	write_ready(waits, model, INT64_MAX);
	if (end->discarded || end->discarded_packets)
		(void)fprintf(waits->out,
			      "%" PRIu64 " events and %" PRIu64
			      " packets were lost by the tracer: there may have been more\n",
			      end->discarded, end->discarded_packets);
	failed = fflush(waits->out) || ferror(waits->out);
	if (waits->request.output->output_path)
		failed |= fclose(waits->out) != 0;
	waits->out = NULL;
	return failed ? write_error(waits, reterr_text) : 0;
}

static void free_waits(void *data)
{
	struct waits *waits = data;

	if (waits->out && waits->request.output->output_path)
		(void)fclose(waits->out);
	held_waits_done(&waits->held);
	sites_free(waits->sites);
	free(waits);
}

struct consumer waits_consumer_new(const struct report_request *request)
{
	static const struct consumer_ops ops = {
		.name = "waits", .event = take, .finish = finish, .free = free_waits};
	struct waits *waits = memory_new(sizeof(*waits));

	waits->request = *request;
	waits->sites = sites_new();
	return (struct consumer){.ops = &ops, .state = waits};
}
