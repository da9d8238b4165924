// SPDX-License-Identifier: MIT
/*
 * Stage gated (stage_gated.h): the caller's part of a copy of many pieces.
 *
 * To the device: threads fill chunks; when the first is full the place in the program's stream is taken, and pieces are moved in order as
 * they are full. From it: the place is taken first, as many pieces are moved as there are chunks, and threads empty those that are
 * confirmed. The gate is opened by the internal stream, behind the last piece.
 *
 * Both ways this returns only when the last piece is confirmed. To the device that is later than the source needs it, by the time of a
 * piece or two. But a gate that is not known to open could hang the program: the driver knows nothing of what it waits for, and may put
 * the internal stream into a queue of the hardware behind something that waits for the gate. While we are here that can be seen:
 * the program's stream has arrived at the gate, and yet nothing moves. Then the host opens it, and the driver copies.
 *
 * The gate is placed in a stream that has just been waited for, so that it is closed for the time of the copy alone. Calls that drain wait for
 * closed gates, and what the stream waits for may be behind such a call: a host function that wants the caller's mutex, or makes the call itself,
 * a value that another thread's next call writes. Only what others put into the stream in the moment between counts for nothing.
 *
 * Submissions cannot block behind the gate: the internal stream holds at most twice the ring's pieces and a few words.
 */
#include "stage/stage_gated.h"

#include <sched.h>
#include <unistd.h>

#include "driver/driver.h"
#include "emit/busy.h"
#include "stage/copy_threads.h"
#include "stage/drain.h"
#include "stage/stage.h"
#include "stage/stage_tuning.h"

/* Without progress: then a thread sleeps between its looks, and the driver is asked for errors. */
#define SPIN_NS  60000
#define CHECK_NS 2000000
/* Looks before a thread sleeps between them that waits for others to go. */
#define YIELDS 64

/* Copies that submit behind a gate, and calls that drain the device. Each side counts itself, then looks at the other (sequentially consistent). */
static uint32_t gates, drains;

uint32_t stage_on;

struct gated {
	struct stage_job *job;
	struct stage_ring *ring;
	CUstream stream;
	int slot;
	bool entered; /* among `gates` */
	bool placed, posted;
	bool lost;    /* the context is broken */
	bool arrived; /* the program's stream stands at the gate, or is past it */
	bool suspect; /* nothing has moved for long: one more look */
	bool stuck;   /* nothing moves */
	uint64_t submitted;
	uint64_t emptied; /* from the device: pieces copied out, in order */
	uint32_t confirmed;
	uint64_t since, checked; /* last progress; last question to the driver */
	bool slept;
};

/* For who looks at a process that hangs. */
#define SHOW(ring, field, value) __atomic_store_n(&(ring)->shown->field, value, __ATOMIC_RELAXED)

static void show(const struct stage_ring *ring, const struct stage_job *job, CUstream stream)
{
	const struct stage_shape *shape = &job->shape;

	SHOW(ring, thread, (uint32_t)gettid());
	SHOW(ring, context, ring->context);
	SHOW(ring, stream, (uintptr_t)stream);
	SHOW(ring, begin_ns, copy_now());
	SHOW(ring, bytes, shape->width * shape->height * shape->depth);
	SHOW(ring, to_device, shape->to_device);
	SHOW(ring, pieces, (uint32_t)shape->pieces);
	SHOW(ring, submitted, 0);
	SHOW(ring, confirmed, 0);
	SHOW(ring, state, GATE_WAITS);
}

/* Who is waited for may need this processor, and this thread be a real-time one. */
static void give_way(unsigned int looks)
{
	if (looks < YIELDS)
		sched_yield();
	else
		copy_nap();
}

void stage_job_leave(struct stage_job *job, int slot)
{
	unsigned int looks;

	copy_threads_close(slot);
	for (looks = 0; copy_threads_inside(slot); looks++)
		give_way(looks);
}

static bool enter(struct gated *gated)
{
	/* Pairs with stage_drain_begin(): one of the two sees the other. */
	__atomic_add_fetch(&gates, 1, __ATOMIC_SEQ_CST);
	gated->entered = true;
	return !__atomic_load_n(&drains, __ATOMIC_SEQ_CST);
}

static void leave(struct gated *gated)
{
	if (gated->entered)
		__atomic_sub_fetch(&gates, 1, __ATOMIC_SEQ_CST);
	gated->entered = false;
}

void stage_drain_begin(void)
{
	unsigned int looks;

	/* Pairs with enter(). */
	__atomic_add_fetch(&drains, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&gates, __ATOMIC_SEQ_CST))
		return;
	busy_drain(true);
	for (looks = 0; __atomic_load_n(&gates, __ATOMIC_SEQ_CST); looks++)
		give_way(looks);
	busy_drain(false);
}

void stage_drain_end(void)
{
	__atomic_sub_fetch(&drains, 1, __ATOMIC_SEQ_CST);
}

static void post(struct gated *gated)
{
	uint64_t units = gated->job->shape.pieces * gated->job->shape.units;
	unsigned int wanted = stage_helpers(gated->job->shape.to_device);

	gated->posted = true;
	if (units - 1 < wanted)
		wanted = (unsigned int)units - 1;
	copy_threads_post(gated->slot, stage_job_help, gated->job, wanted);
}

static bool may_submit(struct gated *gated)
{
	struct stage_job *job = gated->job;

	if (gated->submitted == job->shape.pieces)
		return false;
	if (job->shape.to_device)
		return stage_job_is_finished(job, gated->submitted);
	if (gated->emptied < gated->submitted && stage_job_is_finished(job, gated->emptied))
		gated->emptied++;
	return gated->submitted < gated->emptied + job->ring;
}

static bool wait_for_stream(struct gated *gated)
{
	uint64_t before = copy_now();
	CUresult result = driver.cuStreamSynchronize(gated->stream);

	/* Helpers that found nothing meanwhile have left. */
	gated->slept = gated->slept || copy_now() - before > SPIN_NS;
	return result == CUDA_SUCCESS;
}

static bool place(struct gated *gated)
{
	if (!wait_for_stream(gated)) {
		stage_says("a staged copy could not wait for its stream");
		return false;
	}
	if (!stage_source_is_same(gated->job->copy)) {
		stage_says(stage_source_changed);
		return false;
	}
	if (!enter(gated)) {
		stage_says("a staged copy met a call that drains the device");
		return false;
	}
	gated->placed = stage_ring_place(gated->ring, gated->stream);
	if (gated->placed)
		SHOW(gated->ring, state, GATE_PLACED);
	else
		stage_says("a staged copy found no place in its stream");
	return gated->placed;
}

static bool submit(struct gated *gated)
{
	struct stage_job *job = gated->job;

	if (!gated->placed && !place(gated))
		return false;
	stage_job_reset(job, gated->submitted);
	if (stage_ring_move(gated->ring, job, gated->submitted) != CUDA_SUCCESS) {
		stage_says("a piece of a staged copy could not be submitted");
		return false;
	}
	gated->submitted++;
	SHOW(gated->ring, submitted, (uint32_t)gated->submitted);
	if (gated->submitted < job->shape.pieces)
		return true;
	if (!stage_ring_open_behind(gated->ring)) {
		stage_says("a staged copy could not be ended");
		return false;
	}
	leave(gated);
	return true;
}

static bool is_done(struct gated *gated)
{
	struct stage_job *job = gated->job;

	if (gated->submitted < job->shape.pieces || gated->confirmed < job->shape.pieces)
		return false;
	while (!job->shape.to_device && gated->emptied < gated->submitted &&
	       stage_job_is_finished(job, gated->emptied))
		gated->emptied++;
	/* Whoever asks for the stream then finds it as idle as behind the driver's copy. */
	return job->shape.to_device ||
	       (gated->emptied == job->shape.pieces && stage_ring_has_passed(gated->ring));
}

static void progressed(struct gated *gated)
{
	gated->since = gated->checked = copy_now();
	/* Helpers that found nothing for long have left. */
	if (gated->slept && gated->posted)
		copy_threads_kick();
	gated->slept = gated->suspect = false;
}

/* A look at what the device has done. */
static bool look(struct gated *gated)
{
	uint32_t confirmed;

	if (!stage_ring_ask(gated->ring, gated->job, (uint32_t)gated->submitted)) {
		gated->lost = true;
		return false;
	}
	confirmed = stage_job_confirmed(gated->job);
	if (confirmed != gated->confirmed) {
		gated->confirmed = confirmed;
		SHOW(gated->ring, confirmed, confirmed);
		progressed(gated);
	}
	if (gated->placed && !gated->arrived && stage_ring_has_arrived(gated->ring)) {
		gated->arrived = true;
		SHOW(gated->ring, state, GATE_ARRIVED);
		progressed(gated);
		if (!gated->posted)
			post(gated);
	}
	return true;
}

static bool check(struct gated *gated, uint64_t now)
{
	CUresult result = driver.cuStreamQuery(gated->ring->stream);

	gated->checked = now;
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
		stage_says("a staged copy failed on the device");
		gated->lost = true;
		return false;
	}
	if (!gated->arrived || gated->confirmed == gated->submitted ||
	    now - gated->since < stage_tuning.stuck_ns)
		return true;
	/* It may be this thread that did not look for long. */
	if (gated->suspect) {
		stage_says("off: a staged copy was stuck behind its own place");
		gated->stuck = true;
		return false;
	}
	gated->suspect = true;
	return true;
}

/* Nothing to do for this thread. False: it is no use. */
static bool rest(struct gated *gated)
{
	uint64_t now = copy_now();
	int i;

	if (now - gated->checked > CHECK_NS && !check(gated, now))
		return false;
	if (now - gated->since > SPIN_NS) {
		gated->slept = true;
		copy_nap();
		return true;
	}
	for (i = 0; i < 8; i++)
		copy_pause();
	return true;
}

static bool run(struct gated *gated)
{
	struct stage_job *job = gated->job;

	gated->since = gated->checked = copy_now();
	if (job->shape.to_device)
		post(gated);
	for (;;) {
		if (stage_job_has_failed(job)) {
			stage_says("memory that only the driver may touch");
			return false;
		}
		if (!look(gated))
			return false;
		if (may_submit(gated)) {
			if (!submit(gated))
				return false;
			progressed(gated);
			continue;
		}
		if (is_done(gated))
			return true;
		if (stage_job_step(job))
			progressed(gated);
		else if (!rest(gated))
			return false;
	}
}

/* Nobody uses the chunks, the program's memory or the stream's place any more when this returns; false: the device may. */
static bool give_up(struct gated *gated)
{
	CUresult result = CUDA_SUCCESS;

	SHOW(gated->ring, state, GATE_GIVEN_UP);
	stage_job_fail(gated->job);
	stage_job_leave(gated->job, gated->slot);
	if (!gated->placed)
		return true;
	if (gated->stuck || gated->lost) {
		gated->ring->broken = true;
		stage_ring_open(gated->ring);
	}
	if (!gated->lost)
		result = driver.cuStreamSynchronize(gated->ring->stream);
	/* In its order: what follows in the program's stream sees nothing half moved. */
	stage_ring_open(gated->ring);
	if (gated->lost || result != CUDA_SUCCESS) {
		gated->ring->broken = true;
		return false;
	}
	return true;
}

enum stage_end stage_gated(struct stage_job *job, struct stage_ring *ring, int slot,
			   CUstream stream)
{
	struct gated gated = {.job = job, .ring = ring, .slot = slot, .stream = stream};
	enum stage_end end = STAGE_END_DONE;

	job->confirmed = stage_ring_confirmed(ring);
	job->base = ring->pieces;
	show(ring, job, stream);
	if (run(&gated))
		copy_threads_close(slot);
	else
		end = give_up(&gated) ? STAGE_END_AGAIN : STAGE_END_LOST;
	/* A piece whose confirmation failed was moved all the same, so the host says what is over. Release: pairs with stage_job_confirmed() of the next copy's helpers. */
	leave(&gated);
	SHOW(ring, state, GATE_NONE);
	ring->pieces += (uint32_t)gated.submitted + 1;
	__atomic_store_n(&ring->seen, ring->pieces, __ATOMIC_RELEASE);
	if (end != STAGE_END_LOST)
		__atomic_store_n(&ring->words->progress, ring->pieces, __ATOMIC_RELEASE);
	return end;
}
