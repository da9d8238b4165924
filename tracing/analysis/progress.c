// SPDX-License-Identifier: MIT
/* Progress (progress.h). Called by slipstream-analyze. */
#include "tracing/analysis/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "process_state.h"

#define INTERVAL_NS UINT64_C(250000000)

void progress_init(struct progress *progress, int64_t begin_ns, int64_t end_ns)
{
	*progress = (struct progress){
		.is_shown = isatty(STDERR_FILENO),
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.next_ns = process_now_ns() + INTERVAL_NS,
	};
}

void progress_show(struct progress *progress, uint64_t events, int64_t ns)
{
	int64_t length = progress->end_ns - progress->begin_ns;
	uint64_t now_ns;

	if (!progress->is_shown)
		return;
	now_ns = process_now_ns();
	if (now_ns < progress->next_ns)
		return;
	progress->next_ns = now_ns + INTERVAL_NS;
	progress->has_line = true;
	(void)fprintf(stderr, "\r\033[Kslipstream: %" PRIu64 " events read", events);
	if (length > 0 && ns >= progress->begin_ns && ns <= progress->end_ns)
		(void)fprintf(stderr, ", %.0f %% of the trace",
			      100.0 * (double)(ns - progress->begin_ns) / (double)length);
	(void)fflush(stderr);
}

void progress_clear(struct progress *progress)
{
	if (!progress->has_line)
		return;
	(void)fputs("\r\033[K", stderr);
	(void)fflush(stderr);
	progress->has_line = false;
}
