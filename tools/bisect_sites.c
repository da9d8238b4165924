// SPDX-License-Identifier: MIT
/*
 * Bisect, call sites (bisect.h): which sites made rewrites, from the record files of runs with a deny list, and the deny list for some of
 * them. Called by bisect.c. Sites of all runs are kept in one report, which names their frames.
 */
#include "bisect.h"

#include <errno.h>
#include <inttypes.h>

#include "command.h"
#include "memory.h"
#include "report.h"
#include "report_order.h"
#include "text.h"

size_t bisect_sites_add(struct bisect_sites *sites, const char *folder)
{
	_cleanup_free_ char *error_text = NULL;
	size_t first;

	if (!sites->report)
		sites->report = report_new();
	first = sites->report->file_count;
	/* A program that never called the driver leaves none. */
	if (report_add_path(sites->report, folder, 0, &error_text))
		return 0;
	return report_rewrite_uses_add(&sites->uses, sites->report, first, true);
}

void bisect_sites_done(struct bisect_sites *sites)
{
	report_list_done(&sites->uses);
	report_free(sites->report);
	*sites = (struct bisect_sites){0};
}

static void copy_base(const char *base, FILE *out)
{
	_cleanup_fclose_ FILE *file = fopen(base, "re");
	int c, last = '\n';

	if (!file)
		command_fail(EXIT_RUN, "cannot read %s: %s", base, strerror(errno));
	while ((c = getc(file)) != EOF) {
		(void)putc(c, out);
		last = c;
	}
	if (last != '\n')
		(void)putc('\n', out);
}

/* The innermost frame that has a name. */
static char *place_of(struct report *report, struct report_site *site)
{
	report_site_symbolize(report, site);
	for (size_t i = 0; i < site->python_count; i++)
		if (site->python[i].function)
			return memory_format("%s (%s:%d)", site->python[i].function,
					     site->python[i].file ? site->python[i].file : "?",
					     site->python[i].line);
	for (size_t i = 0; i < site->frame_count; i++)
		if (site->frames[i].function)
			return memory_format("%s (%s:%" PRIu32 ")", site->frames[i].function,
					     site->frames[i].file ? site->frames[i].file : "?",
					     site->frames[i].line);
	return memory_copy("a function without a name");
}

void bisect_sites_write(const struct bisect_sites *sites, const bool *off, const char *base,
			const char *program, const char *path)
{
	FILE *out = fopen(path, "we");

	if (!out)
		command_fail(EXIT_RUN, "cannot write %s: %s", path, strerror(errno));
	if (base)
		copy_base(base, out);
	if (program) {
		_cleanup_free_ char *shown = text_printable(program, false);

		(void)fprintf(
			out,
			"# slipstream bisect: call sites whose rewrite changes the outcome of %s\n",
			shown);
	}
	for (size_t i = 0; i < sites->uses.count; i++) {
		const struct report_rewrite_use *site = sites->uses.items[i];

		if (!off[i])
			continue;
		if (program) {
			_cleanup_free_ char *place = place_of(sites->report, site->site);
			_cleanup_free_ char *shown = text_printable(place, false);

			(void)fprintf(out, "# %s in %s\n",
				      site->function ? site->function : "a driver function", shown);
		}
		(void)fprintf(out, "site %016" PRIx64 " %s\n", site->site->id, site->rewrite);
	}
	if (fclose(out))
		command_fail(EXIT_RUN, "cannot write %s: %s", path, strerror(errno));
}
