// SPDX-License-Identifier: MIT
/*
 * Stage job (stage_job.h).
 *
 * A target that the program has not touched yet is mapped by whoever copies to it. On huge pages several threads in one page would each
 * clear all 2 MiB of it, and all but one throw it away; so the target is mapped in extents of 2 MiB, one thread each, and who finds an
 * extent busy maps one of those that will be needed next.
 */
#include "stage/stage_job.h"

#include <sched.h>
#include <string.h>

#include "stage/copy_threads.h"

/* A helper that finds nothing to do for so long leaves; the caller kicks when it goes on. The device takes 40 us for a piece. */
#define HELP_WAIT_NS 100000

#define EXTENT       ((uintptr_t)2 << 20)
#define EXTENTS_NEXT 12

enum { EXTENT_BUSY = 1, EXTENT_DONE = 2 };

void stage_job_prepare(struct stage_job *job, enum stage_memory memory)
{
	stage_shape_span(&job->shape, &job->first, &job->end);
	job->dense = stage_shape_is_dense(&job->shape);
	job->memory = memory;
	job->failed = 0;
	job->next = 0;
	memset(job->finished, 0, sizeof(job->finished));
	memset(job->extents, 0, sizeof(job->extents));
}

bool stage_job_look(struct stage_job *job)
{
	if (job->dense)
		job->memory = stage_memory_look(job->first, job->end, !job->shape.to_device);
	return job->memory != STAGE_MEMORY_BAD;
}

/* Extents are numbered from 1. */
static uint64_t extent_of(const struct stage_job *job, uintptr_t address)
{
	return address / EXTENT - job->first / EXTENT + 1;
}

static bool claim_extent(struct stage_job *job, uint64_t extent)
{
	uint64_t *word = &job->extents[extent % STAGE_EXTENTS],
		 now = __atomic_load_n(word, __ATOMIC_RELAXED);

	return now / 4 < extent && now % 4 != EXTENT_BUSY &&
	       __atomic_compare_exchange_n(word, &now, extent * 4 + EXTENT_BUSY, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void map_extent(struct stage_job *job, uint64_t extent)
{
	uintptr_t first = (job->first / EXTENT + extent - 1) * EXTENT, end = first + EXTENT;

	if (first < job->first)
		first = job->first;
	if (end > job->end)
		end = job->end;
	if (!stage_memory_populate(first, end, true))
		stage_job_fail(job);
	/* Release: pairs with is_mapped(). */
	__atomic_store_n(&job->extents[extent % STAGE_EXTENTS], extent * 4 + EXTENT_DONE,
			 __ATOMIC_RELEASE);
}

static bool is_mapped(const struct stage_job *job, uint64_t extent)
{
	uint64_t now = __atomic_load_n(&job->extents[extent % STAGE_EXTENTS], __ATOMIC_ACQUIRE);

	return now >= extent * 4 + EXTENT_DONE;
}

static void map_next(struct stage_job *job, uint64_t extent)
{
	uint64_t last = extent_of(job, job->end - 1), next;

	for (next = extent + 1; next <= last && next <= extent + EXTENTS_NEXT; next++) {
		if (claim_extent(job, next)) {
			map_extent(job, next);
			return;
		}
	}
	sched_yield();
}

static void map_target(struct stage_job *job, uintptr_t first, uintptr_t end)
{
	uint64_t extent, last = extent_of(job, end - 1);

	for (extent = extent_of(job, first); extent <= last; extent++) {
		while (!is_mapped(job, extent)) {
			if (stage_job_has_failed(job))
				return;
			if (claim_extent(job, extent))
				map_extent(job, extent);
			else
				map_next(job, extent);
		}
	}
}

/* The rows on the host may be touched; or the job has failed. */
static void prepare_rows(struct stage_job *job, const struct copy_rows *rows)
{
	bool write = !job->shape.to_device;
	uintptr_t first = (uintptr_t)(write ? rows->to : rows->from), end;
	size_t row;

	if (job->memory == STAGE_MEMORY_TRUST)
		return;
	end = first + (rows->rows - 1) * job->shape.host_pitch + rows->width;
	if (job->memory == STAGE_MEMORY_PRIVATE && stage_memory_is_there(first, end))
		return;
	if (job->dense && write) {
		map_target(job, first, end);
	} else if (job->dense) {
		if (!stage_memory_populate(first, end, false))
			stage_job_fail(job);
	} else {
		for (row = 0; row < rows->rows; row++, first += job->shape.host_pitch)
			if (!stage_memory_populate(first, first + rows->width, write))
				stage_job_fail(job);
	}
}

static void copy_unit(struct stage_job *job, uint64_t number)
{
	uint64_t piece_number = number / job->shape.units;
	unsigned int slot = (unsigned int)(piece_number % job->ring);
	struct stage_piece piece;
	struct copy_rows rows;
	size_t run;

	stage_shape_piece(&job->shape, piece_number, &piece);
	for (run = 0; stage_shape_run(&job->shape, &piece, number % job->shape.units, run,
				      job->chunks[slot], &rows);
	     run++) {
		prepare_rows(job, &rows);
		if (stage_job_has_failed(job))
			break;
		copy_rows(&rows, job->streamed);
	}
	/* Release: pairs with stage_job_is_finished(). */
	__atomic_fetch_add(&job->finished[slot].units, 1, __ATOMIC_RELEASE);
}

static bool may_be_copied(const struct stage_job *job, uint64_t unit)
{
	uint64_t piece = unit / job->shape.units;

	if (!job->shape.to_device)
		return stage_job_confirmed(job) > piece;
	return piece < job->ring || stage_job_confirmed(job) > piece - job->ring;
}

/* *ret_over: all have been handed out, or it is no use. */
static bool claim(struct stage_job *job, uint64_t *ret_unit, bool *ret_over)
{
	uint64_t unit = __atomic_load_n(&job->next, __ATOMIC_RELAXED);

	do {
		*ret_over =
			unit >= job->shape.pieces * job->shape.units || stage_job_has_failed(job);
		if (*ret_over || !may_be_copied(job, unit))
			return false;
	} while (!__atomic_compare_exchange_n(&job->next, &unit, unit + 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	*ret_unit = unit;
	return true;
}

bool stage_job_step(struct stage_job *job)
{
	uint64_t unit;
	bool over;

	if (!claim(job, &unit, &over))
		return false;
	copy_unit(job, unit);
	return true;
}

void stage_job_help(void *data)
{
	struct stage_job *job = data;
	uint64_t unit, since = 0;
	unsigned int i;
	bool over;

	for (;;) {
		if (claim(job, &unit, &over)) {
			copy_unit(job, unit);
			since = 0;
			continue;
		}
		if (over)
			return;
		if (!since)
			since = copy_now();
		else if (copy_now() - since > HELP_WAIT_NS)
			return;
		for (i = 0; i < 8; i++)
			copy_pause();
	}
}
