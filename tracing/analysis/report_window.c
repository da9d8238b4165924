// SPDX-License-Identifier: MIT
/* Selection (report_window.h). Called by the report and the list of waits. */
#include "tracing/analysis/report_window.h"

#include <string.h>

static int64_t point(const struct report_request *request, const struct report_time *time,
		     int64_t first_ns, int64_t if_none)
{
	if (!time->is_set)
		return if_none;
	if (!time->is_share)
		return first_ns + time->ns;
	return request->range_begin_ns +
	       (int64_t)((double)(request->range_end_ns - request->range_begin_ns) * time->share);
}

void report_window_set(struct report_window *window, const struct report_request *request,
		       int64_t first_ns)
{
	window->is_set = true;
	window->begin_ns = point(request, &request->select->begin, first_ns, INT64_MIN);
	window->end_ns = point(request, &request->select->end, first_ns, INT64_MAX);
}

bool report_selects(const struct report_select *select, const struct model_process *process)
{
	return (select->rank < 0 || process->rank == select->rank) &&
	       (select->pid < 0 || process->pid == select->pid) &&
	       (!select->host || !strcmp(process->host, select->host));
}
