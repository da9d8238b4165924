// SPDX-License-Identifier: MIT
/*
 * The live table (command_watch.h): functions by the time spent in them since the last one was drawn, on a
 * terminal that is stderr. One thread.
 */
#include "command_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "memory.h"
#include "text.h"
#include "watch.h"

#define EVERY_NS        UINT64_C(1000000000)
#define ROWS_MAX        20
#define ROWS_KEPT       6 /* of the screen, for head, foot and prompt */
#define COLUMNS_LEAST   20
#define COLUMNS_ASSUMED 120

struct live {
	struct watch_stats before;
	uint64_t shown_ns, began_ns;
	unsigned int rows; /* on the screen */
};

struct row {
	uint32_t function;
	uint64_t calls, ns, all_calls, all_ns;
};

struct live *live_new(void)
{
	return memory_new(sizeof(struct live));
}

struct live *live_free(struct live *live)
{
	free(live);
	return NULL;
}

void live_clear(struct live *live)
{
	if (live->rows)
		(void)fprintf(stderr, "\033[%uA\033[J", live->rows);
	(void)fflush(stderr);
	live->rows = 0;
}

static int rank(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->ns != b->ns)
		return a->ns > b->ns ? -1 : 1;
	if (a->all_ns != b->all_ns)
		return a->all_ns > b->all_ns ? -1 : 1;
	return a->function < b->function ? -1 : a->function > b->function;
}

static size_t rows_of(const struct live *live, const struct watch_stats *stats,
		      struct row rows[WATCH_FUNCTION_COUNT])
{
	size_t count = 0;

	for (uint32_t i = 0; i < WATCH_FUNCTION_COUNT; i++) {
		const struct watch_count *now = &stats->functions[i];
		const struct watch_count *before = &live->before.functions[i];

		if (now->calls)
			rows[count++] = (struct row){
				.function = i,
				.calls = now->calls - before->calls,
				.ns = now->ns - before->ns,
				.all_calls = now->calls,
				.all_ns = now->ns,
			};
	}
	qsort(rows, count, sizeof(rows[0]), rank);
	return count;
}

static unsigned int room(void)
{
	struct winsize size;

	if (ioctl(fileno(stderr), TIOCGWINSZ, &size) || size.ws_row <= ROWS_KEPT)
		return ROWS_MAX;
	return size.ws_row - ROWS_KEPT < ROWS_MAX ? size.ws_row - ROWS_KEPT : ROWS_MAX;
}

static unsigned int columns(void)
{
	struct winsize size;

	if (ioctl(fileno(stderr), TIOCGWINSZ, &size) || size.ws_col < COLUMNS_LEAST)
		return COLUMNS_ASSUMED;
	return size.ws_col;
}

/* "  lost: 3 records, 1 libraries", in as many rows as it takes. */
static void draw_lost(struct live *live, const struct watch_stats *stats)
{
	const struct {
		uint64_t count;
		const char *what;
	} losses[] = {
		{stats->lost_records, "records"},
		{stats->lost_calls, "calls without room"},
		{stats->deep_calls, "calls too deep"},
		{stats->left_calls, "calls left without return"},
		{stats->late_returns, "calls begun before"},
		{stats->lost_callers, "callers"},
		{stats->lost_processes, "processes"},
		{stats->lost_process_records, "news of processes"},
		{stats->lost_mappings, "news of mappings"},
		{stats->unwatched_libraries, "libraries"},
		{stats->unwatched_functions, "functions"},
		{stats->unheard_shims, "files whose claims are not heard"},
		{stats->unseen_switches, "switches (put right)"},
		{stats->missed_runs, "looks"},
	};
	unsigned int width = columns(), used = width;
	unsigned int before = live->rows;

	for (size_t i = 0; i < ARRAY_SIZE(losses); i++) {
		_cleanup_free_ char *text = NULL;
		unsigned int length;

		if (!losses[i].count)
			continue;
		text = memory_format("%" PRIu64 " %s", losses[i].count, losses[i].what);
		length = (unsigned int)strlen(text) + 2;
		if (used + length >= width) {
			(void)fprintf(stderr, "%s  lost: %s", live->rows > before ? "\n" : "",
				      text);
			used = 8;
			live->rows++;
		} else {
			(void)fprintf(stderr, ", %s", text);
		}
		used += length;
	}
	if (live->rows > before)
		(void)fprintf(stderr, "\n");
}

static void draw(struct live *live, const struct watch_stats *stats, const struct row *rows,
		 size_t count, uint64_t span_ns)
{
	unsigned int shown = room(), losses;
	char time[TEXT_FIGURE], share[TEXT_FIGURE], all[TEXT_FIGURE];

	live_clear(live);
	(void)fprintf(stderr, "%" PRIu32 " of %" PRIu32 " processes run, %" PRIu64 " records\n",
		      stats->alive, stats->processes, stats->records);
	live->rows = 1;
	draw_lost(live, stats);
	losses = live->rows - 1;
	shown = shown > losses ? shown - losses : 1;
	live->rows++;
	(void)fprintf(stderr, "  %9s %8s %10s  %10s %10s  %s\n", "in it", "share", "calls/s",
		      "all calls", "all time", "function");
	for (size_t i = 0; i < count && i < shown; i++, live->rows++)
		(void)fprintf(stderr, "  %9s %8s %10.0f  %10" PRIu64 " %10s  %s\n",
			      text_ns(rows[i].ns, time), text_share(rows[i].ns, span_ns, share),
			      (double)rows[i].calls * 1e9 / (double)span_ns, rows[i].all_calls,
			      text_ns(rows[i].all_ns, all), watch_functions[rows[i].function].name);
	(void)fflush(stderr);
}

void live_show(struct live *live, const struct watch_stats *stats, uint64_t now_ns)
{
	_cleanup_free_ struct row *rows = NULL;
	size_t count;

	if (!live->began_ns)
		live->began_ns = live->shown_ns = now_ns;
	if (now_ns - live->shown_ns < EVERY_NS)
		return;
	rows = memory_new(WATCH_FUNCTION_COUNT * sizeof(*rows));
	count = rows_of(live, stats, rows);
	draw(live, stats, rows, count, now_ns - live->shown_ns);
	live->before = *stats;
	live->shown_ns = now_ns;
}
