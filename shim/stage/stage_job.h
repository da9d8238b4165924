// SPDX-License-Identifier: MIT
/*
 * Stage job: the part of a staged copy that copies memory. One caller, which also talks to the driver, and copy threads that help. No driver
 * in here.
 *
 * Units are handed out in order by `next`. A unit may be copied when its chunk is there for it:
 *	to the device	the piece that had the chunk before is confirmed moved
 *	from it		its own piece is confirmed moved
 * `finished` counts a chunk's units for the caller, which resets it before it has the chunk's next piece moved.
 *
 *	word		written by			read by
 *	next		all, compare-and-swap		all
 *	finished	all, add (release)		the caller (acquire): chunk filled, or empty again
 *	confirmed	the device, or the caller	all (acquire): what the device wrote is there
 *	failed		all				all
 *	extents		all, compare-and-swap		all
 */
#ifndef SLIPSTREAM_STAGE_STAGE_JOB_H
#define SLIPSTREAM_STAGE_STAGE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/stage_memory.h"
#include "stage/stage_shape.h"

/* A benchmark is built with more (tests/bench/meson.build). */
#ifndef STAGE_RING
#define STAGE_RING 8
#endif
#define STAGE_EXTENTS 64

struct stage_copy;

struct stage_job {
	const struct stage_copy
		*copy; /* of many pieces: what it is for; the caller's thread only */
	struct stage_shape shape;
	unsigned int ring; /* chunks */
	char *chunks[STAGE_RING];
	enum stage_memory memory;
	bool dense, streamed;
	uintptr_t first, end; /* span on the host */
	/* Pieces confirmed: *confirmed - base. */
	const uint32_t *confirmed;
	uint32_t base;
	uint32_t failed
		__attribute__((aligned(64))); /* memory that cannot be had, or the caller gave up */
	uint64_t next __attribute__((aligned(64)));
	struct {
		uint32_t units __attribute__((aligned(64)));
	} finished[STAGE_RING];
	/* Targets from the device: ranges of 2 MiB being mapped (stage_job.c). */
	uint64_t extents[STAGE_EXTENTS] __attribute__((aligned(64)));
};

/* Sets what follows from the shape, and what changes. `memory`: as is known, the mappings are not looked at. */
void stage_job_prepare(struct stage_job *job, enum stage_memory memory);
/* Looks at the mappings. False: memory that the driver is to see. */
bool stage_job_look(struct stage_job *job);

/* One unit, if any may be copied now. */
bool stage_job_step(struct stage_job *job);

/* What a helper does: units until there are none, or none for a while. */
void stage_job_help(void *job);

static inline bool stage_job_has_failed(const struct stage_job *job)
{
	return __atomic_load_n(&job->failed, __ATOMIC_RELAXED);
}

/* All units of the piece are copied. A unit that failed is counted, too; acquire: pairs with stage_job_step(), so its failure is seen then. */
static inline bool stage_job_is_finished(const struct stage_job *job, uint64_t piece)
{
	return __atomic_load_n(&job->finished[piece % job->ring].units, __ATOMIC_ACQUIRE) ==
		       job->shape.units &&
	       !stage_job_has_failed(job);
}

static inline void stage_job_reset(struct stage_job *job, uint64_t piece)
{
	/* Nobody adds before the piece is confirmed, and that is ordered behind its move. */
	__atomic_store_n(&job->finished[piece % job->ring].units, 0, __ATOMIC_RELAXED);
}

static inline uint32_t stage_job_confirmed(const struct stage_job *job)
{
	/* Acquire: pairs with the device's write (stage_ring.c), or with the caller's store in stage_ring_ask(). */
	return __atomic_load_n(job->confirmed, __ATOMIC_ACQUIRE) - job->base;
}

static inline void stage_job_fail(struct stage_job *job)
{
	__atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
}

#endif
