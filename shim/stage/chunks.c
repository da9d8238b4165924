// SPDX-License-Identifier: MIT
/*
 * Chunks (chunks.h).
 *
 * When one is made: registering 2 MiB takes about half a millisecond with the first touch, and staging saves about 80 us a MiB. So memory
 * is earned: one byte for each EARN_SHARE copied, each copy counted as EARN_LEAST at least. A program that copies 1 MiB a few times pays
 * nothing; one that copies 256 MiB at once has its ring in that very copy.
 */
#include "stage/chunks.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "driver/driver.h"
#include "stage/stage.h"

#define EARN_SHARE 8
#define EARN_LEAST ((uint64_t)1 << 20)
/* Pending chunks that are asked for in one look; a query costs up to 1.3 us. */
#define ASK_MOST 4
/* The first that is asked for is so many behind the oldest, where both are on the legacy stream: if it is done, all up to it are. */
#define ASK_AHEAD  15
#define SMALL_MAX  (CHUNKS_MAX / 2)
#define SMALL_EACH (CHUNK_BYTES / CHUNK_SMALL_BYTES)

enum { EMPTY, MAKING, FREE, TAKEN, PENDING, CUT, DEAD };

#define WORDS(count) (((count) + 63) / 64)
#define SMALL_COUNT  (SMALL_MAX * SMALL_EACH)

static struct chunk large[CHUNKS_MAX];
/* SMALL_EACH in a row lie in one large one. */
static struct chunk small[SMALL_COUNT];
static uint64_t large_free[WORDS(CHUNKS_MAX)], large_pending[WORDS(CHUNKS_MAX)];
static uint64_t small_free[WORDS(SMALL_COUNT)], small_pending[WORDS(SMALL_COUNT)];

/*
 * Chunks of a kind. A bit for each that is FREE, and for each that is PENDING, so that nobody walks through all of them: what a walk costs is
 * cache lines. States decide, bits say where to look: one may be there for a moment longer than its state, but never be missing. So who owns
 * a chunk sets its bit before it lets go of it, and clears it once it has taken it.
 */
static struct set {
	struct chunk *chunks;
	uint64_t *free, *pending;
	uint32_t words; /* of bits that may be set; only rises */
	uint32_t next;  /* where to look first; a hint */
} set_large = {large, large_free, large_pending, WORDS(CHUNKS_MAX), 0},
  set_small = {small, small_free, small_pending, 0, 0};

static uint64_t earned, registered;
static uint64_t tickets; /* the last one drawn */

void chunks_earn(uint64_t bytes)
{
	__atomic_fetch_add(&earned, bytes > EARN_LEAST ? bytes : EARN_LEAST, __ATOMIC_RELAXED);
}

static uint32_t state_of(const struct chunk *chunk)
{
	return __atomic_load_n(&chunk->state, __ATOMIC_RELAXED);
}

/* Acquire: pairs with to(): what the last owner did and wrote is seen. */
static bool from_to(struct chunk *chunk, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&chunk->state, &from, to, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Release: pairs with from_to(). */
static void to(struct chunk *chunk, uint32_t state)
{
	__atomic_store_n(&chunk->state, state, __ATOMIC_RELEASE);
}

static struct set *set_of(const struct chunk *chunk)
{
	/* Addresses: of different arrays no order is promised. */
	return (uintptr_t)chunk - (uintptr_t)small < sizeof(small) ? &set_small : &set_large;
}

static void mark(uint64_t *bits, size_t number)
{
	__atomic_fetch_or(&bits[number / 64], UINT64_C(1) << number % 64, __ATOMIC_RELAXED);
}

static void unmark(uint64_t *bits, size_t number)
{
	__atomic_fetch_and(&bits[number / 64], ~(UINT64_C(1) << number % 64), __ATOMIC_RELAXED);
}

/* The owner lets go of it. */
static void to_free(struct chunk *chunk)
{
	struct set *set = set_of(chunk);

	mark(set->free, (size_t)(chunk - set->chunks));
	to(chunk, FREE);
}

static void to_pending(struct chunk *chunk)
{
	struct set *set = set_of(chunk);

	mark(set->pending, (size_t)(chunk - set->chunks));
	to(chunk, PENDING);
}

static bool take_free(struct chunk *chunk, uint64_t context)
{
	if (state_of(chunk) != FREE ||
	    __atomic_load_n(&chunk->context, __ATOMIC_RELAXED) != context ||
	    !from_to(chunk, FREE, TAKEN))
		return false;
	if (__atomic_load_n(&chunk->context, __ATOMIC_RELAXED) == context)
		return true;
	to(chunk, FREE);
	return false;
}

/* From PENDING: nobody else has it, until it is given on. */
static bool take_pending(struct chunk *chunk, uint64_t context)
{
	if (state_of(chunk) != PENDING ||
	    __atomic_load_n(&chunk->context, __ATOMIC_RELAXED) != context ||
	    !from_to(chunk, PENDING, MAKING))
		return false;
	if (__atomic_load_n(&chunk->context, __ATOMIC_RELAXED) == context)
		return true;
	to(chunk, PENDING);
	return false;
}

/*
 * A copy with this ticket is done on the legacy stream of the context: so are those of lesser tickets, which had been submitted before its event was
 * recorded. The stream runs them in order.
 */
static void free_older(struct set *set, uint64_t context, uint64_t ticket)
{
	/* Acquire: pairs with more_words(). */
	uint32_t words = __atomic_load_n(&set->words, __ATOMIC_ACQUIRE), word;
	struct chunk *chunk;
	uint64_t found;

	for (word = 0; word < words; word++) {
		found = __atomic_load_n(&set->pending[word], __ATOMIC_RELAXED);
		for (; found; found &= found - 1) {
			chunk = &set->chunks[word * 64 + (uint32_t)__builtin_ctzll(found)];
			if (!take_pending(chunk, context))
				continue;
			if (chunk->ticket && chunk->ticket < ticket) {
				unmark(set->pending, (size_t)(chunk - set->chunks));
				to_free(chunk);
			} else {
				to(chunk, PENDING);
			}
		}
	}
}

/* True: it was pending, and is done; now taken. */
static bool take_done(struct chunk *chunk, uint64_t context, unsigned int *left)
{
	CUresult result;

	if (!*left || !take_pending(chunk, context))
		return false;
	--*left;
	result = driver.cuEventQuery(chunk->event);
	if (result == CUDA_SUCCESS) {
		to(chunk, TAKEN);
		return true;
	}
	if (result == CUDA_ERROR_NOT_READY) {
		to(chunk, PENDING);
	} else {
		unmark(set_of(chunk)->pending, (size_t)(chunk - set_of(chunk)->chunks));
		to(chunk, DEAD);
	}
	return false;
}

/* `left`: questions that may still be asked. */
static struct chunk *take_from(struct set *set, const uint64_t *bits, uint64_t context,
			       unsigned int *left)
{
	/* Acquire: pairs with more_words(). */
	uint32_t words = __atomic_load_n(&set->words, __ATOMIC_ACQUIRE);
	uint32_t first = __atomic_load_n(&set->next, __ATOMIC_RELAXED), word, i;
	uint64_t behind = ~UINT64_C(0) << first % 64, found;
	struct chunk *chunk;

	word = first / 64 < words ? first / 64 : 0;
	/* It begins and ends within the first word. */
	for (i = 0; words && i <= words && *left; i++, word = word + 1 < words ? word + 1 : 0) {
		found = __atomic_load_n(&bits[word], __ATOMIC_RELAXED) &
			(!i           ? behind
			 : i == words ? ~behind
				      : ~UINT64_C(0));
		for (; found; found &= found - 1) {
			chunk = &set->chunks[word * 64 + (uint32_t)__builtin_ctzll(found)];
			if (bits == set->free ? take_free(chunk, context)
					      : take_done(chunk, context, left))
				return chunk;
		}
	}
	return NULL;
}

static struct chunk *taken(struct set *set, uint64_t *bits, struct chunk *chunk)
{
	size_t number = (size_t)(chunk - set->chunks);

	unmark(bits, number);
	/* From the one behind it on: so the oldest pending one comes first. */
	__atomic_store_n(&set->next, (uint32_t)number + 1, __ATOMIC_RELAXED);
	return chunk;
}

/* One that is some way behind the oldest, if it is done; those before it are free then. One question instead of one for each. */
static struct chunk *take_ahead(struct set *set, uint64_t context, unsigned int *left)
{
	uint32_t words = __atomic_load_n(&set->words, __ATOMIC_RELAXED);
	uint32_t number = __atomic_load_n(&set->next, __ATOMIC_RELAXED) + ASK_AHEAD;
	struct chunk *chunk;

	if (!words)
		return NULL;
	chunk = &set->chunks[number % (words * 64)];
	/* Before it is taken this is a hint only; behind that it is the owner's. */
	if (!__atomic_load_n(&chunk->ticket, __ATOMIC_RELAXED) || !take_done(chunk, context, left))
		return NULL;
	if (chunk->ticket)
		free_older(set, context, chunk->ticket);
	return chunk;
}

static struct chunk *find(struct set *set, uint64_t context)
{
	unsigned int left = ASK_MOST;
	struct chunk *chunk = take_from(set, set->free, context, &left);

	if (chunk)
		return taken(set, set->free, chunk);
	chunk = take_ahead(set, context, &left);
	if (!chunk)
		chunk = take_from(set, set->pending, context, &left);
	return chunk ? taken(set, set->pending, chunk) : NULL;
}

struct chunk *chunk_take_ready(uint64_t context, enum chunk_kind kind)
{
	struct set *set = kind == CHUNK_SMALL ? &set_small : &set_large;
	unsigned int left = 1; /* nobody is asked about a free one */
	struct chunk *chunk = take_from(set, set->free, context, &left);

	if (!chunk)
		return NULL;
	if (chunk->event)
		return taken(set, set->free, chunk);
	/* It will get one where that may be asked for. */
	to(chunk, FREE);
	return NULL;
}

void *chunk_map(size_t bytes)
{
	size_t room = bytes >= CHUNK_BYTES ? bytes + CHUNK_BYTES : bytes, before;
	int saved = errno;
	char *memory;

	memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		errno = saved;
		return NULL;
	}
	if (room > bytes) {
		before = -(uintptr_t)memory & (CHUNK_BYTES - 1);
		if (before)
			munmap(memory, before);
		munmap(memory + before + bytes, room - bytes - before);
		memory += before;
		madvise(memory, bytes, MADV_HUGEPAGE);
	}
	/* The device goes on writing to these very pages, so that a child must not make us copy them. */
	madvise(memory, bytes, MADV_DONTFORK);
	errno = saved;
	return memory;
}

static uint32_t of_context(uint64_t context)
{
	uint32_t i, count = 0;

	for (i = 0; i < CHUNKS_MAX; i++)
		count += state_of(&large[i]) != EMPTY &&
			 __atomic_load_n(&large[i].context, __ATOMIC_RELAXED) == context;
	return count;
}

static bool make(struct chunk *chunk, uint64_t context)
{
	CUresult result;

	if (!chunk->memory)
		chunk->memory = chunk_map(CHUNK_BYTES);
	if (!chunk->memory) {
		stage_says("no memory for a chunk");
		return false;
	}
	/* By this thread, so that it lies on this thread's node. */
	memset(chunk->memory, 0, CHUNK_BYTES);
	result = QUIETLY(driver.cuMemHostRegister_v2(chunk->memory, CHUNK_BYTES,
						     CU_MEMHOSTREGISTER_PORTABLE));
	if (result != CUDA_SUCCESS) {
		stage_says("a chunk could not be pinned");
		return false;
	}
	chunk->event = NULL;
	__atomic_store_n(&chunk->context, context, __ATOMIC_RELAXED);
	__atomic_fetch_add(&registered, CHUNK_BYTES, __ATOMIC_RELAXED);
	return true;
}

/* Has the next chunk been paid for? Two threads at once may make one more than that. */
static bool is_earned(void)
{
	return __atomic_load_n(&registered, __ATOMIC_RELAXED) + CHUNK_BYTES <=
	       __atomic_load_n(&earned, __ATOMIC_RELAXED) / EARN_SHARE;
}

static struct chunk *grow(uint64_t context)
{
	uint32_t i;

	if (!is_earned() || of_context(context) >= CHUNKS_CONTEXT_MAX)
		return NULL;
	for (i = 0; i < CHUNKS_MAX; i++) {
		if (state_of(&large[i]) != EMPTY || !from_to(&large[i], EMPTY, MAKING))
			continue;
		if (make(&large[i], context)) {
			to(&large[i], TAKEN);
			return &large[i];
		}
		to(&large[i], EMPTY);
		return NULL;
	}
	return NULL;
}

static uint32_t cut_of(uint64_t context)
{
	uint32_t i, count = 0;

	for (i = 0; i < CHUNKS_MAX; i++)
		count += state_of(&large[i]) == CUT && large[i].context == context;
	return count;
}

static bool is_empty(const struct chunk *pieces)
{
	uint32_t i;

	for (i = 0; i < SMALL_EACH; i++)
		if (state_of(&pieces[i]) != EMPTY)
			return false;
	return true;
}

static void more_words(uint32_t words)
{
	uint32_t before = __atomic_load_n(&set_small.words, __ATOMIC_RELAXED);

	/* Release: pairs with take_from(). */
	while (before < words &&
	       !__atomic_compare_exchange_n(&set_small.words, &before, words, true,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Cuts a large one; returns its first piece, taken. */
static struct chunk *cut(uint64_t context)
{
	struct chunk *whole, *piece;
	uint32_t group, i;

	if (cut_of(context) >= CHUNKS_CUT_MAX)
		return NULL;
	for (group = 0; group < SMALL_MAX; group++)
		if (is_empty(&small[group * SMALL_EACH]) &&
		    from_to(&small[group * SMALL_EACH], EMPTY, MAKING))
			break;
	if (group == SMALL_MAX)
		return NULL;
	piece = &small[group * SMALL_EACH];
	whole = find(&set_large, context);
	if (!whole)
		whole = grow(context);
	if (!whole) {
		to(piece, EMPTY);
		return NULL;
	}
	for (i = 0; i < SMALL_EACH; i++) {
		piece[i].memory = (char *)whole->memory + i * CHUNK_SMALL_BYTES;
		__atomic_store_n(&piece[i].context, context, __ATOMIC_RELAXED);
		piece[i].event = NULL;
		if (i)
			to_free(&piece[i]);
		else
			to(piece, TAKEN);
	}
	more_words(WORDS((group + 1) * SMALL_EACH));
	to(whole, CUT);
	return piece;
}

struct chunk *chunk_take(uint64_t context, enum chunk_kind kind)
{
	struct chunk *chunk;

	if (kind == CHUNK_SMALL) {
		chunk = find(&set_small, context);
		return chunk ? chunk : cut(context);
	}
	chunk = find(&set_large, context);
	return chunk ? chunk : grow(context);
}

void chunk_give(struct chunk *chunk)
{
	to_free(chunk);
}

void chunk_lose(struct chunk *chunk)
{
	stage_says("a chunk was lost, since its copy failed");
	to(chunk, DEAD);
}

/* A context whose threads are to sleep in waits has events that sleep. */
static unsigned int event_flags(void)
{
	unsigned int flags = 0;

	if (driver.cuCtxGetFlags && driver.cuCtxGetFlags(&flags) == CUDA_SUCCESS &&
	    (flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC)
		return CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
	return CU_EVENT_DISABLE_TIMING;
}

bool chunk_give_behind(struct chunk *chunk, CUstream stream)
{
	/* Between the copy and the record. Other streams' handles may come back for other streams, and a thread's own names one for each. */
	__atomic_store_n(
		&chunk->ticket,
		stream == CU_STREAM_LEGACY ? __atomic_add_fetch(&tickets, 1, __ATOMIC_SEQ_CST) : 0,
		__ATOMIC_RELAXED);
	if ((chunk->event ||
	     QUIETLY(driver.cuEventCreate(&chunk->event, event_flags())) == CUDA_SUCCESS) &&
	    driver.cuEventRecord(chunk->event, stream) == CUDA_SUCCESS) {
		to_pending(chunk);
		return true;
	}
	chunk_lose(chunk);
	return false;
}

CUresult chunk_wait_behind(struct chunk *chunk, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;

	if (!chunk->event)
		result = QUIETLY(driver.cuEventCreate(&chunk->event, event_flags()));
	if (result == CUDA_SUCCESS)
		result = driver.cuEventRecord(chunk->event, stream);
	if (result == CUDA_SUCCESS)
		result = driver.cuEventSynchronize(chunk->event);
	return result;
}

/* Should it be taken again meanwhile, the event is that of a later copy: a longer wait, and no harm. */
static void wait_for(struct chunk *chunk)
{
	while (state_of(chunk) == MAKING) /* for a query, or a registration */
		sched_yield();
	/* Acquire: pairs with to(): the event is there. */
	if (__atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE) == PENDING)
		driver.cuEventSynchronize(chunk->event);
}

void chunks_wait(void)
{
	uint32_t i;

	for (i = 0; i < CHUNKS_MAX; i++)
		wait_for(&large[i]);
	for (i = 0; i < SMALL_COUNT; i++)
		wait_for(&small[i]);
}

uint64_t chunks_bytes(void)
{
	return __atomic_load_n(&registered, __ATOMIC_RELAXED);
}

/* One whose context is gone becomes empty; its registration and its event went with the context, its memory is kept. */
static bool drop(struct chunk *chunk, bool (*lives)(uint64_t context))
{
	static const uint32_t idle[] = {FREE, PENDING, CUT, DEAD};
	struct set *set = set_of(chunk);
	uint32_t i;

	for (i = 0; i < sizeof(idle) / sizeof(*idle); i++) {
		if (state_of(chunk) != idle[i] || lives(chunk->context) ||
		    !from_to(chunk, idle[i], MAKING))
			continue;
		__atomic_store_n(&chunk->context, 0, __ATOMIC_RELAXED);
		chunk->event = NULL;
		unmark(set->free, (size_t)(chunk - set->chunks));
		unmark(set->pending, (size_t)(chunk - set->chunks));
		to(chunk, EMPTY);
		return true;
	}
	return false;
}

void chunks_drop(bool (*lives)(uint64_t context))
{
	uint32_t i;

	/* The pieces first: a whole that is empty may be cut anew at once. */
	for (i = 0; i < SMALL_COUNT; i++)
		drop(&small[i], lives);
	for (i = 0; i < CHUNKS_MAX; i++)
		if (drop(&large[i], lives))
			__atomic_fetch_sub(&registered, CHUNK_BYTES, __ATOMIC_RELAXED);
}
