// SPDX-License-Identifier: MIT
/*
 * Pool (pool.h). Called by the rewrites. Relies on lock.h and arena.h; descriptors are used again and never unmapped.
 */
#include "pool/pool.h"

#include <string.h>

#include "emit/arena.h"
#include "emit/lock.h"
#include "emit/table.h"

#define TABLE_SIZE (1U << 14)
#define DEPOTS     (1U << 10)
#define SMALL_MAX  512 /* below it sizes go in steps of SMALL_STEP */
#define SMALL_STEP 64
/* Drivers give device memory in these: finer steps save nothing. Coarser ones would cost memory that a program near the end of it misses. */
#define DEVICE_STEP_MIN 512
#define DEVICE_STEP_MAX ((uint64_t)2 << 20)
/* Above what drivers give; a recycled block must not look like the buffer it was (FORMAT of the attribute: process-unique). */
#define OWN_BUFFER_IDS (UINT64_C(1) << 63)

/* Blocks of one key that are held. */
struct pool_depot {
	uint64_t context, size;
	uint32_t flags;
	uint32_t parked; /* blocks of it in batches */
	struct pool_block *ready;
	struct pool_depot *chain;
};

static struct lock lock = LOCK_INITIALIZER(LOCK_POOL);
static struct arena arena = {.bound = (size_t)256 << 20};
static struct pool_block *table[TABLE_SIZE];
static struct pool_depot *depots[DEPOTS];
static struct pool_block *batches[POOL_BATCHES];
static struct pool_block *spare;
static struct pool_bytes bytes_of[POOL_KINDS];
static uint64_t buffer_ids;

/* Under the lock; read by anyone. */
#define ADD(kind, figure, bytes)                                                                   \
	__atomic_store_n(&bytes_of[kind].figure, bytes_of[kind].figure + (bytes), __ATOMIC_RELAXED)

void pool_start(enum pool_kind kind, uint64_t limit)
{
	if (!lock_take(&lock))
		return;
	__atomic_store_n(&bytes_of[kind].limit, limit, __ATOMIC_RELAXED);
	lock_give(&lock);
}

uint64_t pool_size(enum pool_kind kind, uint64_t bytes)
{
	uint64_t step = SMALL_STEP, size;

	if (bytes > SMALL_MAX)
		step = UINT64_C(1)
		       << (60 - __builtin_clzll(bytes - 1)); /* an eighth of the power below */
	if (kind == POOL_DEVICE && step < DEVICE_STEP_MIN)
		step = DEVICE_STEP_MIN;
	if (kind == POOL_DEVICE && step > DEVICE_STEP_MAX)
		step = DEVICE_STEP_MAX;
	size = (bytes + step - 1) & ~(step - 1);
	if (!bytes || size < bytes ||
	    size > __atomic_load_n(&bytes_of[kind].limit, __ATOMIC_RELAXED))
		return 0;
	return size;
}

static struct pool_block **bucket(uint64_t address)
{
	return &table[table_mix(address) % TABLE_SIZE];
}

static struct pool_block *find(uint64_t address)
{
	struct pool_block *block = *bucket(address);

	while (block && block->address != address)
		block = block->chain;
	return block;
}

static struct pool_depot *find_depot(uint64_t context, uint32_t flags, uint64_t size, bool make)
{
	uint64_t hash = table_mix(context * 31 + size) ^ flags;
	struct pool_depot **first = &depots[hash % DEPOTS], *depot;

	for (depot = *first; depot; depot = depot->chain)
		if (depot->size == size && depot->context == context && depot->flags == flags)
			return depot;
	if (!make)
		return NULL;
	depot = arena_take(&arena, sizeof(*depot));
	if (!depot)
		return NULL;
	depot->context = context;
	depot->flags = flags;
	depot->size = size;
	depot->chain = *first;
	*first = depot;
	return depot;
}

/* Out of the address table; in its list it stays. */
static void unlink_address(struct pool_block *block)
{
	struct pool_block **link = bucket(block->address);

	while (*link != block)
		link = &(*link)->chain;
	*link = block->chain;
}

static void held_less(const struct pool_block *block)
{
	ADD(pool_kind(block->flags), held, -block->size);
	if (block->state == POOL_PARKED)
		block->depot->parked--;
}

uint64_t pool_take(uint64_t context, uint32_t flags, uint64_t bytes, bool *ret_parked)
{
	struct pool_block *block = NULL;
	struct pool_depot *depot;
	uint64_t address = 0;

	*ret_parked = false;
	if (!lock_take(&lock))
		return 0;
	depot = find_depot(context, flags, pool_size(pool_kind(flags), bytes), false);
	if (depot) {
		block = depot->ready;
		*ret_parked = depot->parked != 0;
	}
	if (block) {
		depot->ready = block->next;
		held_less(block);
		ADD(pool_kind(block->flags), live, block->size);
		block->state = POOL_LIVE;
		block->requested = bytes;
		block->buffer_id = OWN_BUFFER_IDS + ++buffer_ids;
		address = block->address;
	}
	lock_give(&lock);
	return address;
}

static void take_from_list(struct pool_block **link, const struct pool_block *block)
{
	while (*link && *link != block)
		link = &(*link)->next;
	if (*link)
		*link = block->next;
}

/* The driver gave its address to something else: it had been freed past us. */
static void displace(struct pool_block *block)
{
	unsigned int i;

	unlink_address(block);
	if (block->state == POOL_LIVE) {
		ADD(pool_kind(block->flags), live, -block->size);
	} else {
		held_less(block);
		take_from_list(&block->depot->ready, block);
		for (i = 0; i < POOL_BATCHES; i++)
			take_from_list(&batches[i], block);
	}
	block->next = spare;
	spare = block;
}

bool pool_add(uint64_t context, uint32_t flags, uint64_t bytes, uint64_t size, uint64_t address)
{
	const struct pool_block block = {
		.address = address,
		.size = size,
		.requested = bytes,
		.context = context,
		.flags = flags,
	};
	struct pool_block *old;

	if (!lock_take(&lock))
		return false;
	old = find(address);
	if (old)
		displace(old);
	lock_give(&lock);
	pool_put_back(&block);
	return pool_look(address, &(struct pool_block){0}) == POOL_LIVE;
}

void pool_put_back(const struct pool_block *given)
{
	struct pool_block *block, **first = bucket(given->address);

	if (!lock_take(&lock))
		return;
	block = spare;
	if (block)
		spare = block->next;
	else
		block = arena_take(&arena, sizeof(*block));
	if (block) {
		*block = *given;
		block->depot = find_depot(given->context, given->flags, given->size, true);
		block->state = POOL_LIVE;
		block->next = NULL;
		if (block->depot) {
			block->chain = *first;
			*first = block;
			ADD(pool_kind(block->flags), live, block->size);
		} else {
			block->next = spare;
			spare = block;
		}
	}
	lock_give(&lock);
}

enum pool_state pool_look(uint64_t address, struct pool_block *ret_block)
{
	enum pool_state state = POOL_NOT_OURS;
	struct pool_block *block;

	if (!lock_take(&lock))
		return POOL_NOT_OURS;
	block = find(address);
	if (block) {
		*ret_block = *block;
		state = block->state;
	}
	lock_give(&lock);
	return state;
}

bool pool_park(uint64_t address, uint64_t context, bool ready)
{
	struct pool_block *block;
	struct pool_bytes *sum;
	bool parked = false;

	if (!lock_take(&lock))
		return false;
	block = find(address);
	sum = block ? &bytes_of[pool_kind(block->flags)] : NULL;
	if (block && block->state == POOL_LIVE && block->context == context &&
	    block->size <= sum->limit && sum->held <= sum->limit - block->size) {
		if (ready) {
			block->state = POOL_READY;
			block->next = block->depot->ready;
			block->depot->ready = block;
		} else {
			block->state = POOL_PARKED;
			block->depot->parked++;
			block->next = batches[0];
			batches[0] = block;
		}
		ADD(pool_kind(block->flags), live, -block->size);
		ADD(pool_kind(block->flags), held, block->size);
		if (sum->held > sum->peak)
			__atomic_store_n(&sum->peak, sum->held, __ATOMIC_RELAXED);
		parked = true;
	}
	lock_give(&lock);
	return parked;
}

bool pool_remove(uint64_t address, struct pool_block *ret_block)
{
	struct pool_block *block;
	bool removed = false;

	if (!lock_take(&lock))
		return false;
	block = find(address);
	if (block && block->state == POOL_LIVE) {
		*ret_block = *block;
		displace(block);
		removed = true;
	}
	lock_give(&lock);
	return removed;
}

bool pool_batch_is_empty(unsigned int batch)
{
	bool empty;

	if (!lock_take(&lock))
		return true;
	empty = !batches[batch];
	lock_give(&lock);
	return empty;
}

void pool_close(unsigned int batch)
{
	if (!lock_take(&lock))
		return;
	batches[batch] = batches[0];
	batches[0] = NULL;
	lock_give(&lock);
}

void pool_release(unsigned int batch)
{
	struct pool_block *block, *next;

	if (!lock_take(&lock))
		return;
	for (block = batches[batch]; block; block = next) {
		next = block->next;
		block->state = POOL_READY;
		block->depot->parked--;
		block->next = block->depot->ready;
		block->depot->ready = block;
	}
	batches[batch] = NULL;
	lock_give(&lock);
}

/* Which held blocks are moved out: those of a kind and context; or where `lives` is given, of contexts that do not live. */
struct which {
	enum pool_kind kind;
	uint64_t context;
	bool (*lives)(uint64_t context);
	uint64_t keep;
};

static bool stays(const struct which *which, const struct pool_block *block)
{
	if (which->lives)
		return which->lives(block->context);
	return block->context != which->context || pool_kind(block->flags) != which->kind;
}

/* Moves blocks of a list to *to. */
static void move(struct pool_block **link, const struct which *which, struct pool_block **to)
{
	struct pool_block *block;

	while ((block = *link)) {
		if (!which->lives && bytes_of[which->kind].held <= which->keep)
			return;
		if (stays(which, block)) {
			link = &block->next;
			continue;
		}
		*link = block->next;
		unlink_address(block);
		held_less(block);
		block->next = *to;
		*to = block;
	}
}

static void move_all(const struct which *which, bool parked, struct pool_block **to)
{
	struct pool_depot *depot;
	unsigned int i;

	for (i = 0; i < DEPOTS; i++)
		for (depot = depots[i]; depot; depot = depot->chain)
			move(&depot->ready, which, to);
	for (i = POOL_BATCHES; parked && i-- > 0;)
		move(&batches[i], which, to);
}

struct pool_block *pool_drain(enum pool_kind kind, uint64_t context, uint64_t keep, bool parked)
{
	const struct which which = {.kind = kind, .context = context, .keep = keep};
	struct pool_block *list = NULL;

	if (!lock_take(&lock))
		return NULL;
	move_all(&which, parked, &list);
	lock_give(&lock);
	return list;
}

void pool_spare(struct pool_block *list)
{
	struct pool_block *next;

	if (!lock_take(&lock))
		return;
	for (; list; list = next) {
		next = list->next;
		list->next = spare;
		spare = list;
	}
	lock_give(&lock);
}

void pool_drop(bool (*lives)(uint64_t context))
{
	const struct which which = {.lives = lives};
	struct pool_block *block, *list = NULL, **link;
	unsigned int i;

	if (!lock_take(&lock))
		return;
	move_all(&which, true, &list);
	for (i = 0; i < TABLE_SIZE; i++) {
		for (link = &table[i]; (block = *link);) {
			if (lives(block->context)) {
				link = &block->chain;
				continue;
			}
			*link = block->chain;
			ADD(pool_kind(block->flags), live, -block->size);
			block->next = list;
			list = block;
		}
	}
	lock_give(&lock);
	pool_spare(list);
}

void pool_bytes(enum pool_kind kind, struct pool_bytes *ret_bytes)
{
	const struct pool_bytes *of = &bytes_of[kind];

	ret_bytes->held = __atomic_load_n(&of->held, __ATOMIC_RELAXED);
	ret_bytes->peak = __atomic_load_n(&of->peak, __ATOMIC_RELAXED);
	ret_bytes->live = __atomic_load_n(&of->live, __ATOMIC_RELAXED);
	ret_bytes->limit = __atomic_load_n(&of->limit, __ATOMIC_RELAXED);
}
