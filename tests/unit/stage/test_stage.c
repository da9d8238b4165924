// SPDX-License-Identifier: MIT
/*
 * Staged copies on the tests' device (stage_device.h): the order of driver calls, every failure at every place, bytes of random geometries,
 * memory that cannot be had, several callers, gates that would hang. `test_stage [SEED [TEST]]`.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "emit/emit.h"
#include "rounds.h"
#include "stage/chunks.h"
#include "stage/copy_threads.h"
#include "stage/stage.h"
#include "stage/stage_memory.h"
#include "stage/stage_ring.h"
#include "stage/stage_tuning.h"
#include "stage_device.h"

#define KIB     ((size_t)1 << 10)
#define MIB     ((size_t)1 << 20)
#define PAGE    ((size_t)4096)
#define HELPERS 3

static uint64_t seed, context = 1;
static __thread char last_note[128];
static __thread unsigned int notes;

void emit_note(enum note_code code, const char *text)
{
	assert_int_equal(code, NOTE_REWRITE);
	snprintf(last_note, sizeof(last_note), "%s", text);
	notes++;
}

static uint64_t chance(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

static char *map(size_t bytes)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

/* The device may be reading it. */
static void release(void *memory, size_t bytes)
{
	assert_true(device_settle());
	munmap(memory, bytes);
}

static char *random_bytes(size_t bytes)
{
	char *memory = map(bytes + 8);

	for (size_t i = 0; i < bytes; i += 8) {
		chance(1);
		memcpy(memory + i, &seed, 8);
	}
	return memory;
}

static struct stage_copy line(bool to_device, void *device, void *host, size_t bytes)
{
	return (struct stage_copy){
		.device = (uintptr_t)device,
		.host = host,
		.to_device = to_device,
		.width = bytes,
		.height = 1,
		.depth = 1,
		.context = context,
		.stream = DEVICE_STREAM(0),
	};
}

static bool none_lives(uint64_t id)
{
	return false;
}

static int begin(void **state)
{
	stage_drop(none_lives);
	context++;
	device_start(seed);
	stage_tuning.by_value = true;
	stage_tuning.fill_helpers = stage_tuning.empty_helpers = HELPERS;
	stage_tuning.stuck_ns = 10000000000;
	chunks_earn((uint64_t)1 << 40);
	last_note[0] = '\0';
	return 0;
}

static int end(void **state)
{
	assert_true(device_settle());
	device_stop();
	stage_drop(none_lives);
	/* A chunk that nobody gave back would still be counted. */
	assert_int_equal(stage_held_bytes(), 0);
	return 0;
}

/* Without what is asked more or less often. */
static void assert_calls(const char *expected)
{
	const char *journal = device_journal();
	char found[4096];
	size_t length = 0, number, i;

	for (i = 0; journal[i]; i += number + 1) {
		number = strspn(journal + i, "0123456789");
		if (journal[i + number] == 'Q' || journal[i + number] == 'q')
			continue;
		memcpy(found + length, journal + i, number + 1);
		length += number + 1;
	}
	found[length] = '\0';
	assert_string_equal(found, expected);
}

static void test_order_of_calls(void **state)
{
	char *host = random_bytes(8 * MIB), *device = map(8 * MIB);
	struct stage_copy copy = line(true, device, host, 1000);

	/* The first makes a chunk, and an event. */
	device_journal();
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("xr1Cn1Rx");
	/* The next has none yet. */
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("x1Cn1Rx");
	assert_true(device_settle());
	copy.width = MIB;
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("xr1Cn1Rx");
	copy.to_device = false;
	assert_true(device_settle());
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("x1C1Rsx");
	/* Rows, slices: one operation, of what is packed. */
	copy = (struct stage_copy){.device = (uintptr_t)device,
				   .host = host,
				   .to_device = true,
				   .width = 100,
				   .height = 50,
				   .depth = 3,
				   .device_pitch = 128,
				   .device_slice = 128 * 60,
				   .host_pitch = 110,
				   .host_slice = 110 * 50,
				   .context = context,
				   .stream = DEVICE_STREAM(1)};
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("x2Cn2Rx");
	/* Many: eight pieces, behind a place in the stream. */
	copy = line(true, device, host, 4 * MIB);
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("xrpgcrrrrrrr1S1P9W9C9w9C9w9C9w9C9w9C9w9C9w9C9w9C9w9wx");
	copy.to_device = false;
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("xrpgc1S1P10W10C10w10C10w10C10w10C10w10C10w10C10w10C10w10C10w10wx");
	stage_tuning.by_value = false;
	copy.width = 3 * MIB;
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_calls("x1S1P10W10Cn10R10Cn10R10Cn10R10Cn10R10Cn10R10Cn10R10Cn10R10Cn10R10wx");
	release(host, 8 * MIB);
	release(device, 8 * MIB);
}

static void test_small_ones_queue_up(void **state)
{
	char *host = random_bytes(64 * KIB), *device = map(64 * 64 * KIB);
	unsigned int i, staged = 0;

	device_hold(true);
	for (i = 0; i < 64; i++) {
		struct stage_copy copy = line(true, device + i * 64 * KIB, host, 64 * KIB - i);

		staged += stage_copy(&copy) == STAGE_DONE;
	}
	/* Two large ones are cut, and no more: the next does not wait. */
	assert_int_equal(staged, 64);
	{
		struct stage_copy copy = line(true, device, host, 1);

		assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
	}
	assert_int_equal(stage_held_bytes(), 2 * CHUNK_BYTES);
	device_hold(false);
	stage_wait_pending();
	for (i = 0; i < 64; i++)
		assert_memory_equal(device + i * 64 * KIB, host, 64 * KIB - i);
	release(host, 64 * KIB);
	release(device, 64 * 64 * KIB);
}

static unsigned int stage_many(unsigned int count, uint64_t of_context, CUstream stream,
			       char *device, char *host, unsigned int *ret_asked)
{
	unsigned int staged = 0;

	device_fail(DEVICE_EVENT_QUERY, 0, CUDA_SUCCESS);
	for (unsigned int i = 0; i < count; i++) {
		struct stage_copy copy = line(true, device + i * KIB, host, KIB);

		copy.context = of_context;
		copy.stream = stream;
		staged += stage_copy(&copy) == STAGE_DONE;
	}
	*ret_asked = device_count(DEVICE_EVENT_QUERY);
	return staged;
}

/*
 * Free ones are taken without a question; of pending ones the oldest is asked first, so a stream that is done never costs a second one. On the legacy
 * stream one that is done stands for those before it.
 */
static void test_small_chunks_are_asked_oldest_first(void **state)
{
	const struct {
		CUstream stream;
		unsigned int asked, exchanged;
	} runs[] = {{CU_STREAM_LEGACY, 8, 7}, {DEVICE_STREAM(3), 64, 64}};
	char *host = random_bytes(KIB), *device = map(64 * KIB);
	unsigned int asked, i;

	for (i = 0; i < 2; i++, context += 2) {
		CUstream stream = runs[i].stream;

		device_hold(true);
		/* Before a second large one is cut. */
		assert_int_equal(stage_many(64, context, stream, device, host, &asked), 64);
		assert_int_equal(asked, 4);
		/* Full: a few are asked, and the driver copies. */
		assert_int_equal(stage_many(1, context, stream, device, host, &asked), 0);
		assert_int_equal(asked, 4);
		/* Another context has its own. */
		assert_int_equal(stage_many(64, context + 1, stream, device, host, &asked), 64);
		assert_int_equal(asked, 4);
		device_hold(false);
		stage_wait_pending();
		/* Those that are done, each once; behind them are those that the held stream has by now. */
		device_hold(true);
		assert_int_equal(stage_many(64, context, stream, device, host, &asked), 64);
		assert_int_equal(asked, runs[i].asked);
		/* Only who asks needs another capture mode. */
		assert_int_equal(device_count(DEVICE_EXCHANGE), 2 * runs[i].exchanged);
		assert_int_equal(stage_many(1, context, stream, device, host, &asked), 0);
		assert_int_equal(asked, 4);
		device_hold(false);
		stage_wait_pending();
	}
	release(host, KIB);
	release(device, 64 * KIB);
}

/* What is done on the legacy stream says nothing of another one, nor of another context's: their chunks are not filled anew under a copy. */
static void test_done_for_its_own_stream_only(void **state)
{
	char *host = random_bytes(4 * KIB), *device = map(200 * KIB);
	CUstream late = DEVICE_STREAM(2);
	unsigned int asked, i;

	device_hold_stream(late);
	for (i = 0; i < 32; i++) {
		memset(host, (int)i, KIB);
		assert_int_equal(stage_many(1, context, i % 4 == 1 ? late : CU_STREAM_LEGACY,
					    device + i * KIB, host, &asked),
				 1);
	}
	assert_int_equal(stage_many(8, context + 1, late, device + 100 * KIB, host, &asked), 8);
	/* As many as there are chunks; some are the driver's, then. */
	for (i = 0; i < 200; i++) {
		memset(host, 100, KIB);
		(void)stage_many(1, context + i % 2, CU_STREAM_LEGACY, device + 150 * KIB, host,
				 &asked);
		if (i % 40 == 0)
			usleep(2000);
	}
	device_hold_stream(NULL);
	assert_true(device_settle());
	for (i = 0; i < 32; i++) {
		memset(host, (int)i, KIB);
		assert_memory_equal(device + i * KIB, host, KIB);
	}
	memset(host, 31, KIB);
	for (i = 0; i < 8; i++)
		assert_memory_equal(device + (100 + i) * KIB, host, KIB);
	context++;
	release(host, 4 * KIB);
	release(device, 200 * KIB);
}

/* A few pages are asked about one by one: their borders, and what the first and the last byte lie in. */
static void test_readable_to_the_byte(void **state)
{
	char *pages = map(8 * PAGE);
	size_t first, bytes;

	mprotect(pages, PAGE, PROT_NONE);
	mprotect(pages + 6 * PAGE, PAGE, PROT_NONE);
	for (bytes = 1; bytes <= 5 * PAGE; bytes += bytes < 3 ? 1 : 511) {
		for (first = PAGE - 2; first < 6 * PAGE; first += first < PAGE ? 1 : 499) {
			uintptr_t at = (uintptr_t)pages + first;

			errno = 7;
			assert_int_equal(stage_memory_is_readable(at, at + bytes),
					 first >= PAGE && first + bytes <= 6 * PAGE);
			assert_int_equal(errno, 7);
		}
	}
	release(pages, 8 * PAGE);
}

static void test_memory_is_earned(void **state)
{
	/* In a process of its own: what earlier tests earned is not there. */
	char *host = random_bytes(MIB), *device = map(MIB);
	struct stage_copy copy = line(true, device, host, MIB);
	unsigned int i;

	for (i = 1; i < 16; i++)
		assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
	assert_int_equal(stage_held_bytes(), 0);
	assert_int_equal(stage_copy(&copy), STAGE_DONE);
	assert_int_equal(stage_held_bytes(), CHUNK_BYTES);
	release(host, MIB);
	release(device, MIB);
}

/* ---- failures ---- */

static void copy_with_failure(bool to_device, size_t bytes, enum device_call call, unsigned int n,
			      bool *ret_reached)
{
	char *host = random_bytes(bytes), *device = random_bytes(bytes);
	struct stage_copy copy = line(to_device, device, host, bytes);
	char *to = to_device ? device : host, *from = to_device ? host : device;
	char *expected = map(bytes);
	enum stage_outcome outcome;

	memcpy(expected, from, bytes);
	context++;
	copy.context = context;
	device_fail(call, n,
		    call == DEVICE_QUERY || call == DEVICE_EVENT_QUERY ? CUDA_ERROR_ILLEGAL_ADDRESS
								       : CUDA_ERROR_INVALID_VALUE);
	outcome = stage_copy(&copy);
	*ret_reached = device_count(call) >= n;
	device_fail(call, 0, CUDA_SUCCESS);
	assert_false(device_is_relaxed());
	if (outcome == STAGE_DRIVER)
		device_copy(copy.stream, to, from, bytes);
	/* The gate is open, and the copy made. */
	assert_true(device_settle());
	assert_memory_equal(to, expected, bytes);
	/* And it goes on: another copy, in another stream. */
	copy.stream = DEVICE_STREAM(1);
	memset(to, 0, bytes);
	if (stage_copy(&copy) == STAGE_DRIVER)
		device_copy(copy.stream, to, from, bytes);
	assert_true(device_settle());
	assert_memory_equal(to, expected, bytes);
	stage_drop(none_lives);
	assert_int_equal(stage_held_bytes(), 0);
	release(host, bytes);
	release(device, bytes);
	release(expected, bytes);
}

static void test_every_failure_at_every_place(void **state)
{
	static const size_t sizes[] = {1000, MIB, 3 * MIB + 77};
	unsigned int failures = 0, i, n, way;
	bool reached;

	for (way = 0; way < 4; way++) {
		stage_tuning.by_value = way & 1;
		for (i = 0; i < 3; i++) {
			for (unsigned int call = 0; call < DEVICE_EXCHANGE; call++) {
				/* Under the thread sanitizer each call in large copies of one way, a third of the places. */
				if (ROUNDS_SHARE > 1 && (i < 2 || way != call % 4))
					continue;
				for (n = 1; n <= 30; n += ROUNDS_SHARE > 1 ? 3 : 1) {
					end(NULL);
					begin(NULL);
					stage_tuning.by_value = way & 1;
					copy_with_failure(way & 2, sizes[i], call, n, &reached);
					if (!reached)
						break;
					failures++;
				}
			}
		}
	}
	printf("%u failures\n", failures);
	assert_true(failures > 150 / ROUNDS_SHARE);
}

static void test_without_a_capture_mode_nothing_is_done(void **state)
{
	char host[100], device[100];
	struct stage_copy copy = line(true, device, host, 100);

	device_fail(DEVICE_EXCHANGE, 1, CUDA_ERROR_NOT_INITIALIZED);
	device_journal();
	assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
	assert_calls("x");
	device_fail(DEVICE_EXCHANGE, 0, CUDA_SUCCESS);
}

/* ---- bytes ---- */

static size_t span(const struct stage_copy *copy, size_t pitch, size_t slice)
{
	return (copy->depth - 1) * slice + (copy->height - 1) * pitch + copy->width;
}

static void reference(const struct stage_copy *copy, char *to, const char *from)
{
	size_t y, z;

	for (z = 0; z < copy->depth; z++)
		for (y = 0; y < copy->height; y++) {
			size_t device = z * copy->device_slice + y * copy->device_pitch,
			       host = z * copy->host_slice + y * copy->host_pitch;

			memcpy(to + (copy->to_device ? device : host),
			       from + (copy->to_device ? host : device), copy->width);
		}
}

static struct stage_copy random_copy(void)
{
	struct stage_copy copy = line(chance(2), NULL, NULL, 0);
	size_t most = (size_t)1 << (10 + chance(14));

	copy.width = 1 + chance(chance(3) ? 20000 : most);
	copy.height = chance(3) ? 1 + chance(most / copy.width + 2) : 1;
	copy.depth = chance(3) ? 1 : 1 + chance(most / copy.width / copy.height + 3);
	copy.device_pitch = copy.width + (chance(2) ? chance(300) : 0);
	copy.host_pitch = copy.width + (chance(2) ? chance(chance(4) ? 300 : 9000) : 0);
	copy.device_slice = copy.device_pitch * (copy.height + (chance(2) ? chance(5) : 0));
	copy.host_slice = copy.host_pitch * copy.height + (chance(2) ? chance(5000) : 0);
	copy.stream = DEVICE_STREAM(chance(DEVICE_PROGRAM));
	return copy;
}

static bool copy_and_compare(const struct stage_copy *shape)
{
	struct stage_copy copy = *shape;
	size_t device_bytes = span(&copy, copy.device_pitch, copy.device_slice),
	       host_bytes = span(&copy, copy.host_pitch, copy.host_slice), to_bytes,
	       shift = chance(100);
	char *device = random_bytes(device_bytes + 100), *host = random_bytes(host_bytes + 100),
	     *to, *expected;
	bool done;

	copy.device = (uintptr_t)device + shift;
	copy.host = host + shift;
	to = (copy.to_device ? device : host) + shift;
	to_bytes = copy.to_device ? device_bytes : host_bytes;
	expected = map(to_bytes);
	memcpy(expected, to, to_bytes);
	reference(&copy, expected, (copy.to_device ? host : device) + shift);
	done = stage_copy(&copy) == STAGE_DONE;
	if (done) {
		if (copy.to_device) /* it may be reused at once */
			memset(host, 0, host_bytes + 100);
		assert_true(!copy.to_device || device_settle());
		assert_memory_equal(to, expected, to_bytes);
	}
	release(device, device_bytes + 108);
	release(host, host_bytes + 108);
	release(expected, to_bytes);
	return done;
}

static void test_random_geometries(void **state)
{
	unsigned int i, done = 0;

	for (i = 0; i < ROUNDS(400); i++) {
		struct stage_copy copy = random_copy();

		stage_tuning.by_value = chance(2);
		stage_tuning.fill_streamed = chance(2);
		stage_tuning.ring = 2 + (unsigned int)chance(STAGE_RING - 1);
		done += copy_and_compare(&copy);
	}
	stage_tuning.ring = STAGE_RING;
	stage_tuning.fill_streamed = true;
	printf("%u of %u staged\n", done, i);
	assert_int_equal(done, ROUNDS(400));
}

static void test_numbers_wrap(void **state)
{
	for (int to_device = 0; to_device < 2; to_device++) {
		struct stage_ring *ring = stage_ring_take(context, to_device);
		struct stage_copy copy = line(to_device, NULL, NULL, 9 * MIB);

		assert_non_null(ring);
		ring->pieces = ring->seen = ring->words->progress = UINT32_MAX - 5;
		ring->copies = ring->words->gate = ring->words->arrived = UINT32_MAX - 1;
		stage_ring_give(ring);
		for (int i = 0; i < 4; i++)
			assert_true(copy_and_compare(&copy));
		assert_true(ring->pieces < 1000);
		assert_true(ring->copies < 10);
	}
}

static void test_targets_that_were_never_touched(void **state)
{
	for (int way = 0; way < 4; way++) {
		size_t bytes = 40 * MIB + 12345;
		char *device = random_bytes(bytes), *host = map(bytes);
		struct stage_copy copy = line(false, device, host, bytes);

		stage_memory_forget(way & 1, false);
		madvise(host, bytes, way & 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		assert_int_equal(stage_copy(&copy), STAGE_DONE);
		assert_memory_equal(device, host, bytes);
		release(device, bytes);
		release(host, bytes);
	}
	stage_memory_forget(false, false);
}

/* ---- memory that cannot be had ---- */

static void faulted(int signal)
{
	static const char text[] = "a signal\n";

	_exit(write(2, text, sizeof(text) - 1) ? 99 : 98);
}

enum bad { HOLE, NO_ACCESS, READ_ONLY, BEHIND_FILE, BAD_COUNT };

static void spoil(char *page, enum bad bad)
{
	FILE *file;

	switch (bad) {
	case HOLE:
		munmap(page, PAGE);
		break;
	case NO_ACCESS:
		mprotect(page, PAGE, PROT_NONE);
		break;
	case READ_ONLY:
		mprotect(page, PAGE, PROT_READ);
		break;
	default:
		file = tmpfile();
		assert_non_null(file);
		assert_ptr_equal(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				      fileno(file), 0),
				 page);
		fclose(file);
	}
}

static void test_memory_that_cannot_be_had(void **state)
{
	static const size_t sizes[] = {2 * PAGE, 64 * KIB, 300 * KIB, 2 * MIB, 20 * MIB};
	unsigned int i, bad, way;

	for (i = 0; i < 5; i++)
		for (bad = 0; bad < BAD_COUNT; bad++)
			for (way = 0; way < 6; way++) {
				/* Under the thread sanitizer two ways of each. */
				if (ROUNDS_SHARE > 1 && (i + bad + way) % 3)
					continue;
				size_t bytes = sizes[i], at = way >= 4 ? bytes - PAGE : bytes / 2;
				char *device = random_bytes(bytes), *host = random_bytes(bytes);
				struct stage_copy copy = line(way & 1, device, host, bytes);

				if (bad == READ_ONLY && copy.to_device)
					goto next;
				stage_memory_forget(way & 2, false);
				spoil(host + (at & ~(PAGE - 1)), bad);
				notes = 0;
				assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
				assert_int_equal(notes, 1);
				assert_string_equal(last_note,
						    "memory that only the driver may touch");
				assert_true(device_settle());
			next:
				release(host, bytes);
				release(device, bytes);
			}
	stage_memory_forget(false, false);
	/* None of it spoils the next. */
	test_targets_that_were_never_touched(NULL);
}

/* What lies between rows is none of the copy's business. */
static void test_gaps_are_not_touched(void **state)
{
	for (int to_device = 0; to_device < 2; to_device++) {
		size_t rows = 600, pitch = 4 * PAGE, width = 2 * PAGE;
		char *host = map(rows * pitch), *device = random_bytes(rows * width);
		struct stage_copy copy = line(to_device, device, host, width);
		size_t i;

		copy.height = rows;
		copy.host_pitch = pitch;
		copy.device_pitch = width;
		for (i = 0; i < rows; i++) {
			memset(host + i * pitch, (int)i, width);
			mprotect(host + i * pitch + width, pitch - width, PROT_NONE);
		}
		assert_int_equal(stage_copy(&copy), STAGE_DONE);
		assert_true(device_settle());
		for (i = 0; i < rows; i++)
			assert_memory_equal(host + i * pitch, device + i * width, width);
		release(host, rows * pitch);
		release(device, rows * width);
	}
}

/* The last unit fails, mostly in a helper, when all others are done: it counts as copied no more than the first would. */
static void test_a_failure_at_the_very_end(void **state)
{
	size_t rows = 400, pitch = 4 * PAGE, width = 2 * PAGE;
	char *host = map(rows * pitch), *device = random_bytes(rows * width);

	mprotect(host + (rows - 1) * pitch, width, PROT_NONE);
	for (int i = 0; i < 100; i++) {
		struct stage_copy copy = line(i & 1, device, host, width);

		copy.height = rows;
		copy.host_pitch = pitch;
		copy.device_pitch = width;
		assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
	}
	release(host, rows * pitch);
	release(device, rows * width);
}

static void test_without_populate_the_caller_copies_alone(void **state)
{
	struct stage_copy copy = line(true, NULL, NULL, MIB);

	stage_memory_forget(true, true);
	assert_true(copy_and_compare(&copy));
	copy.to_device = false;
	assert_true(copy_and_compare(&copy));
	copy.width = 5 * MIB;
	assert_false(copy_and_compare(&copy));
	stage_memory_forget(false, false);
}

/* ---- several threads ---- */

/* Of each thread; more than a tenth, since threads are what these are about. */
#define CALLER_ROUNDS (ROUNDS_SHARE > 1 ? 13 : 39)

static void *copy_for_long(void *data)
{
	unsigned int self = (unsigned int)(uintptr_t)data, i, done = 0;
	size_t bytes = 5 * MIB + self * 4096;
	uint32_t *host = (void *)map(bytes), *device = (void *)map(bytes),
		 *back = (void *)map(bytes);

	for (i = 1; i <= CALLER_ROUNDS; i++) {
		struct stage_copy copy = line(true, device, host, i % 3 ? bytes : 10000);
		size_t words = copy.width / 4, n;

		copy.stream = DEVICE_STREAM(self);
		copy.context = context * 1000 + self / 2;
		for (n = 0; n < words; n++)
			host[n] = self << 24 | i << 16 | (n & 0xffff);
		if (stage_copy(&copy) == STAGE_DONE)
			done++;
		else
			device_copy(copy.stream, device, memcpy(back, host, copy.width),
				    copy.width);
		memset(host, 0, copy.width);
		copy.to_device = false;
		if (stage_copy(&copy) == STAGE_DONE) {
			done++;
			for (n = 0; n < words; n++)
				if (host[n] != (self << 24 | i << 16 | (n & 0xffff)))
					return NULL;
		} else {
			stage_wait_pending();
			device_settle();
		}
	}
	return (void *)(uintptr_t)(1 + done);
}

static void test_several_callers(void **state)
{
	pthread_t threads[DEVICE_PROGRAM];
	unsigned int done = 0;

	for (uintptr_t i = 0; i < DEVICE_PROGRAM; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, copy_for_long, (void *)i), 0);
	for (int i = 0; i < DEVICE_PROGRAM; i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_non_null(result);
		done += (unsigned int)(uintptr_t)result - 1;
	}
	printf("%u of %d staged\n", done, DEVICE_PROGRAM * CALLER_ROUNDS * 2);
	assert_true(done > DEVICE_PROGRAM * 20 * CALLER_ROUNDS / 39);
}

static char *torn_device;
static uint32_t torn_stop;
#define TORN (4 * MIB)

/* Operations of another thread in the same stream: each sees all of a copy, or nothing. */
static void *take_pictures(void *unused)
{
	char *picture = map(TORN);
	uintptr_t pictures = 0;

	while (!__atomic_load_n(&torn_stop, __ATOMIC_ACQUIRE)) {
		device_copy(DEVICE_STREAM(0), picture, torn_device, TORN);
		if (!device_settle())
			return NULL;
		for (size_t i = 1; i < TORN; i++)
			if (picture[i] != picture[0])
				return NULL;
		pictures++;
	}
	munmap(picture, TORN);
	return (void *)pictures;
}

static void test_no_operation_comes_between_the_pieces(void **state)
{
	char *host = map(TORN);
	struct stage_copy copy;
	pthread_t thread;
	void *pictures;

	torn_device = map(TORN);
	torn_stop = 0;
	copy = line(true, torn_device, host, TORN);
	assert_int_equal(pthread_create(&thread, NULL, take_pictures, NULL), 0);
	for (int i = 1; i < 60; i++) {
		memset(host, i, TORN);
		assert_int_equal(stage_copy(&copy), STAGE_DONE);
	}
	__atomic_store_n(&torn_stop, 1, __ATOMIC_RELEASE);
	pthread_join(thread, &pictures);
	printf("%u pictures\n", (unsigned int)(uintptr_t)pictures);
	assert_non_null(pictures);
	release(host, TORN);
	release(torn_device, TORN);
}

/* ---- gates ---- */

static void *let_go(void *unused)
{
	usleep(500000);
	device_hold(false);
	return NULL;
}

static void test_a_busy_stream_is_waited_for(void **state)
{
	for (int to_device = 0; to_device < 2; to_device++) {
		struct stage_copy copy = line(to_device, NULL, NULL, 30 * MIB);
		pthread_t thread;

		/* Longer than what counts as stuck: the stream has not arrived. */
		stage_tuning.stuck_ns = 200000000;
		device_hold(true);
		pthread_create(&thread, NULL, let_go, NULL);
		assert_true(copy_and_compare(&copy));
		pthread_join(thread, NULL);
	}
}

static void test_stuck_behind_its_own_gate(void **state)
{
	for (int to_device = 0; to_device < 2; to_device++) {
		char *host = random_bytes(4 * MIB), *device = random_bytes(4 * MIB);
		struct stage_copy copy = line(to_device, device, host, 4 * MIB);

		stage_tuning.stuck_ns = 20000000;
		device_share(true);
		assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
		assert_string_equal(last_note, "off: a staged copy was stuck behind its own place");
		assert_true(device_settle());
		/* Not a second time; smaller ones go on. */
		device_journal();
		assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
		assert_calls("xx");
		copy.width = MIB;
		assert_int_equal(stage_copy(&copy), STAGE_DONE);
		assert_true(device_settle());
		assert_memory_equal(host, device, MIB);
		device_share(false);
		release(host, 4 * MIB);
		release(device, 4 * MIB);
	}
}

static void *drain(void *data)
{
	stage_drain_begin();
	__atomic_store_n((uint32_t *)data, 1, __ATOMIC_RELEASE);
	stage_drain_end();
	return NULL;
}

static void *copy_held(void *data)
{
	return (void *)(uintptr_t)(stage_copy(data) == STAGE_DONE);
}

static void test_no_drain_while_a_gate_is_submitted_to(void **state)
{
	char *host = random_bytes(40 * MIB), *device = map(40 * MIB);
	struct stage_copy copy = line(true, device, host, 40 * MIB);
	pthread_t copier, drainer;
	uint32_t drained = 0;
	void *done;

	stage_drain_begin();
	notes = 0;
	assert_int_equal(stage_copy(&copy), STAGE_DRIVER);
	assert_int_equal(notes, 1);
	assert_string_equal(last_note, "a staged copy met a call that drains the device");
	stage_drain_end();
	device_hold(true);
	device_journal();
	assert_int_equal(pthread_create(&copier, NULL, copy_held, &copy), 0);
	while (!strstr(device_journal(), "1P"))
		sched_yield();
	assert_int_equal(pthread_create(&drainer, NULL, drain, &drained), 0);
	usleep(20000);
	/* More pieces than chunks: it is still submitting. */
	assert_int_equal(__atomic_load_n(&drained, __ATOMIC_ACQUIRE), 0);
	device_hold(false);
	pthread_join(copier, &done);
	pthread_join(drainer, NULL);
	assert_int_equal(drained, 1);
	assert_int_equal((uintptr_t)done, 1);
	assert_true(device_settle());
	assert_memory_equal(host, device, 40 * MIB);
	release(host, 40 * MIB);
	release(device, 40 * MIB);
}

static void test_contexts_come_and_go(void **state)
{
	struct stage_copy copy = line(true, NULL, NULL, 3 * MIB);

	for (int i = 0; i < ROUNDS(40); i++) {
		copy.context = ++context;
		assert_true(copy_and_compare(&copy));
		copy.width = 5000;
		assert_true(copy_and_compare(&copy));
		copy.width = 3 * MIB;
		stage_drop(none_lives);
		assert_int_equal(stage_held_bytes(), 0);
		end(NULL);
		begin(NULL);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest first[] = {
		cmocka_unit_test_setup_teardown(test_memory_is_earned, NULL, end),
	};
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_order_of_calls),
		TEST(test_small_ones_queue_up),
		TEST(test_small_chunks_are_asked_oldest_first),
		TEST(test_done_for_its_own_stream_only),
		TEST(test_readable_to_the_byte),
		TEST(test_every_failure_at_every_place),
		TEST(test_without_a_capture_mode_nothing_is_done),
		TEST(test_random_geometries),
		TEST(test_numbers_wrap),
		TEST(test_targets_that_were_never_touched),
		TEST(test_memory_that_cannot_be_had),
		TEST(test_gaps_are_not_touched),
		TEST(test_a_failure_at_the_very_end),
		TEST(test_without_populate_the_caller_copies_alone),
		TEST(test_several_callers),
		TEST(test_no_operation_comes_between_the_pieces),
		TEST(test_a_busy_stream_is_waited_for),
		TEST(test_stuck_behind_its_own_gate),
		TEST(test_no_drain_while_a_gate_is_submitted_to),
		TEST(test_contexts_come_and_go),
	};
	int failed = 0;

	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	printf("seed %llu\n", (unsigned long long)seed);
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	signal(SIGSEGV, faulted);
	signal(SIGBUS, faulted);
	copy_threads_limit(HELPERS, true);
	if (argc <= 2) {
		device_start(seed);
		failed = cmocka_run_group_tests_name("stage-growth", first, NULL, NULL);
	}
	return failed + cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
