// SPDX-License-Identifier: MIT
/*
 * Pool (pool.h). Called by the rewrites. Relies on lock.h and arena.h; descriptors are used again and never unmapped.
 */
#include "pool/internal.h"

/* Drivers give device memory in these: finer steps save nothing. Coarser ones would cost memory that a program near the end of it misses. */
#define DEVICE_STEP_MIN 512
#define DEVICE_STEP_MAX ((uint64_t)2 << 20)

struct lock pool_lock = LOCK_INITIALIZER(LOCK_POOL);
struct arena pool_arena = {.bound = (size_t)256 << 20};
struct pool_bytes pool_sums[POOL_KINDS];
struct pool_block *pool_table[POOL_TABLE_SIZE];
struct pool_depot *pool_depots[POOL_DEPOTS];
struct pool_block *pool_batches[POOL_BATCHES];
static struct pool_block *spare;
static uint64_t buffer_ids;
/* Blocks, as the record file has them too, which others can write. */
static uint64_t parked[POOL_KINDS];
uint64_t pool_blocks[POOL_KINDS];
static struct record_held nowhere;
struct record_held *pool_shown = &nowhere;
uint32_t pool_round;

void pool_start(enum pool_kind kind, uint64_t limit)
{
	if (!lock_take(&pool_lock))
		return;
	__atomic_store_n(&pool_sums[kind].limit, limit, __ATOMIC_RELAXED);
	lock_give(&pool_lock);
}

/* Of blocks that share a unit of the driver as many must fit as without us: not three where the program's own sizes let four. */
static uint64_t as_many_fit(uint64_t bytes, uint64_t size)
{
	uint64_t own = (bytes + DEVICE_STEP_MIN - 1) & ~(uint64_t)(DEVICE_STEP_MIN - 1);
	uint64_t largest =
		(DEVICE_STEP_MAX / (DEVICE_STEP_MAX / own)) & ~(uint64_t)(DEVICE_STEP_MIN - 1);

	return size < largest ? size : largest;
}

uint64_t pool_size(enum pool_kind kind, uint64_t bytes)
{
	uint64_t step = UINT64_C(1) << pool_class_shift(bytes), size;

	if (kind != POOL_PINNED && step < DEVICE_STEP_MIN)
		step = DEVICE_STEP_MIN;
	if (kind != POOL_PINNED && step > DEVICE_STEP_MAX)
		step = DEVICE_STEP_MAX;
	size = (bytes + step - 1) & ~(step - 1);
	if (kind == POOL_DEVICE && bytes && bytes <= DEVICE_STEP_MAX)
		size = as_many_fit(bytes, size);
	if (!bytes || size < bytes ||
	    size > __atomic_load_n(&pool_sums[kind].limit, __ATOMIC_RELAXED))
		return 0;
	return size;
}

static struct pool_block *find(uint64_t address)
{
	struct pool_block *block = *pool_bucket(address);

	while (block && block->address != address)
		block = block->chain;
	return block;
}

void pool_ready(struct pool_block *block)
{
	struct pool_depot *depot = block->depot;

	block->round = pool_round;
	block->next = depot->ready;
	depot->ready = block;
}

struct pool_depot *pool_find_depot(uint64_t context, uint32_t flags, uint64_t size, bool make)
{
	uint64_t hash = table_mix(context * 31 + size) ^ flags;
	struct pool_depot **first = &pool_depots[hash % POOL_DEPOTS], *depot;

	for (depot = *first; depot; depot = depot->chain)
		if (depot->size == size && depot->context == context && depot->flags == flags)
			return depot;
	if (!make)
		return NULL;
	depot = arena_take(&pool_arena, sizeof(*depot));
	if (!depot)
		return NULL;
	depot->context = context;
	depot->flags = flags;
	depot->size = size;
	depot->chain = *first;
	*first = depot;
	return depot;
}

void pool_unlink(struct pool_block *block)
{
	struct pool_block **link = pool_bucket(block->address);

	while (*link != block)
		link = &(*link)->chain;
	/* Who walks the chain without the lock may be led astray by it, and then finds nothing: tags tell. Pairs with pool_find_unlocked(). */
	__atomic_store_n(link, block->chain, __ATOMIC_RELEASE);
}

static void link_address(struct pool_block *block)
{
	struct pool_block **first = pool_bucket(block->address);

	__atomic_store_n(&block->chain, *first, __ATOMIC_RELAXED);
	/* Pairs with the acquire load in pool_find_unlocked(). */
	__atomic_store_n(first, block, __ATOMIC_RELEASE);
}

static void to_spare(struct pool_block *block)
{
	block->next = spare;
	spare = block;
}

/* Out of the address table, and its descriptor may be used again. */
static void forget(struct pool_block *block)
{
	pool_unlink(block);
	to_spare(block);
}

void pool_spare(struct pool_block *list)
{
	struct pool_block *next;

	if (!lock_take(&pool_lock))
		return;
	for (; list; list = next) {
		next = list->next;
		to_spare(list);
	}
	lock_give(&pool_lock);
}

_Static_assert(HELD_PINNED == (int)POOL_PINNED && HELD_DEVICE == (int)POOL_DEVICE &&
		       HELD_ARRAY == (int)POOL_ARRAY && HELD_KINDS == (int)POOL_KINDS,
	       "kinds");

void pool_show(struct record_held *record)
{
	pool_shown = record;
}

static void parked_add(const struct pool_block *block, enum pool_kind kind, uint32_t count)
{
	block->depot->parked += count;
	parked[kind] += count;
	__atomic_store_n(&pool_shown->kind[kind].parked, parked[kind], __ATOMIC_RELAXED);
}

void pool_held_less(struct pool_block *block, enum pool_state next)
{
	enum pool_kind kind = pool_kind(block->flags);

	pool_held_add(kind, -block->size, -UINT64_C(1));
	if (pool_state_of(block) == POOL_PARKED)
		parked_add(block, kind, -1U);
	pool_set_state(block, next);
}

/* From now on the program has it. */
static void give_out(struct pool_block *block, uint64_t bytes)
{
	POOL_ADD(pool_kind(block->flags), live, block->size);
	__atomic_store_n(&block->requested, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&block->listed, bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&block->buffer_id, POOL_OWN_BUFFER_IDS + ++buffer_ids, __ATOMIC_RELAXED);
}

uint64_t pool_take(uint64_t context, uint32_t flags, uint64_t bytes, bool *ret_parked)
{
	struct pool_block *block = NULL;
	struct pool_depot *depot;
	uint64_t address = 0;

	*ret_parked = false;
	if (!lock_take(&pool_lock))
		return 0;
	depot = pool_find_depot(context, flags, pool_size(pool_kind(flags), bytes), false);
	if (depot) {
		block = depot->ready;
		*ret_parked = depot->parked != 0;
	}
	if (block) {
		depot->ready = block->next;
		give_out(block, bytes);
		address = block->address;
		pool_held_less(block, POOL_LIVE);
	}
	lock_give(&pool_lock);
	return address;
}

static void take_from_list(struct pool_block **link, const struct pool_block *block)
{
	while (*link && *link != block)
		link = &(*link)->next;
	if (*link)
		*link = block->next;
}

/*
 * The driver gave its address to something else: it had been freed past us. Or `only_live`: it goes back to the driver; false: it is live no
 * more.
 */
static bool displace(struct pool_block *block, bool only_live)
{
	enum pool_state state;
	unsigned int i;

	/* Live blocks and those of magazines change without the lock. */
	while (!pool_turn(block, POOL_LIVE, POOL_NOT_OURS)) {
		state = pool_state_of(block);
		if (only_live)
			return false;
		if (state == POOL_CACHED)
			magazine_give_up(block);
		if (state != POOL_PARKED && state != POOL_READY)
			continue;
		take_from_list(&block->depot->ready, block);
		for (i = 0; i < POOL_BATCHES; i++)
			take_from_list(&pool_batches[i], block);
		pool_held_less(block, POOL_NOT_OURS);
		forget(block);
		return true;
	}
	POOL_ADD(pool_kind(block->flags), live, -block->size);
	forget(block);
	return true;
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

	if (!lock_take(&pool_lock))
		return false;
	old = find(address);
	if (old)
		(void)displace(old, false);
	lock_give(&pool_lock);
	pool_put_back(&block);
	return pool_look(address, &(struct pool_block){0}) == POOL_LIVE;
}

static struct pool_block *new_block(void)
{
	struct pool_block *block = spare;

	if (block)
		spare = block->next;
	else
		block = arena_take(&pool_arena, sizeof(*block));
	return block;
}

/* Fields one by one: a thread that still looks at what the descriptor was reads them. */
static void fill(struct pool_block *block, const struct pool_block *given)
{
	__atomic_store_n(&block->address, given->address, __ATOMIC_RELAXED);
	__atomic_store_n(&block->size, given->size, __ATOMIC_RELAXED);
	__atomic_store_n(&block->requested, given->requested, __ATOMIC_RELAXED);
	__atomic_store_n(&block->listed, given->requested, __ATOMIC_RELAXED);
	__atomic_store_n(&block->context, given->context, __ATOMIC_RELAXED);
	__atomic_store_n(&block->buffer_id, given->buffer_id, __ATOMIC_RELAXED);
	__atomic_store_n(&block->flags, given->flags, __ATOMIC_RELAXED);
	__atomic_store_n(&block->slot, magazine_slot(given->size, given->flags), __ATOMIC_RELAXED);
	__atomic_store_n(&block->special, given->special, __ATOMIC_RELAXED);
	block->next = NULL;
}

void pool_put_back(const struct pool_block *given)
{
	struct pool_block *block;

	/* Addresses of drivers are multiples of 512; the last bits of a tag are the state. */
	if (given->address & POOL_TAG_STATE || !lock_take(&pool_lock))
		return;
	block = new_block();
	if (block) {
		block->depot = pool_find_depot(given->context, given->flags, given->size, true);
		fill(block, given);
		if (block->depot) {
			POOL_ADD(pool_kind(block->flags), live, block->size);
			pool_set_state(block, POOL_LIVE);
			link_address(block);
		} else {
			to_spare(block);
		}
	}
	lock_give(&pool_lock);
}

/* For a caller; what magazines change is read as it is at this moment. */
static void copy(const struct pool_block *block, enum pool_state state,
		 struct pool_block *ret_block)
{
	*ret_block = (struct pool_block){
		.address = block->address,
		.size = block->size,
		.requested = __atomic_load_n(&block->requested, __ATOMIC_RELAXED),
		.context = block->context,
		.buffer_id = __atomic_load_n(&block->buffer_id, __ATOMIC_RELAXED),
		.flags = block->flags,
		.state = state,
		.special = __atomic_load_n(&block->special, __ATOMIC_RELAXED),
	};
}

enum pool_state pool_look(uint64_t address, struct pool_block *ret_block)
{
	enum pool_state state = POOL_NOT_OURS;
	const struct pool_block *block;

	if (!lock_take(&pool_lock))
		return POOL_NOT_OURS;
	block = find(address);
	if (block) {
		state = pool_state_of(block);
		if (state == POOL_CACHED)
			state = POOL_READY;
		copy(block, state, ret_block);
	}
	lock_give(&pool_lock);
	return state;
}

void pool_mark_special(uint64_t address)
{
	struct pool_block *block;

	if (!lock_take(&pool_lock))
		return;
	block = find(address);
	if (block)
		__atomic_store_n(&block->special, 1, __ATOMIC_RELAXED);
	lock_give(&pool_lock);
}

bool pool_has_room(enum pool_kind kind, uint64_t size)
{
	const struct pool_bytes *sum = &pool_sums[kind];

	return size <= sum->limit && sum->held + sum->reserved <= sum->limit - size;
}

void pool_peak(enum pool_kind kind)
{
	struct pool_bytes *sum = &pool_sums[kind];

	if (sum->held + sum->reserved > sum->peak)
		__atomic_store_n(&sum->peak, sum->held + sum->reserved, __ATOMIC_RELAXED);
}

/* Room for a block that is to be held; magazines give up what they have no use for. */
static bool make_room(const struct pool_block *block)
{
	enum pool_kind kind = pool_kind(block->flags);

	if (pool_has_room(kind, block->size))
		return true;
	magazine_trim_room();
	return pool_has_room(kind, block->size);
}

/* Under the lock, a live block for which there is room. False: another thread was faster. */
static bool hold(struct pool_block *block, bool ready)
{
	enum pool_kind kind = pool_kind(block->flags);

	if (!pool_turn(block, POOL_LIVE, ready ? POOL_READY : POOL_PARKED))
		return false;
	if (ready) {
		pool_ready(block);
	} else {
		parked_add(block, kind, 1);
		block->next = pool_batches[0];
		pool_batches[0] = block;
	}
	POOL_ADD(kind, live, -block->size);
	pool_held_add(kind, block->size, 1);
	pool_peak(kind);
	return true;
}

bool pool_park(uint64_t address, uint64_t context, bool ready)
{
	struct pool_block *block;
	bool done;

	if (!lock_take(&pool_lock))
		return false;
	block = find(address);
	done = block && block->context == context && make_room(block) && hold(block, ready);
	if (done)
		__atomic_store_n(&block->listed, 0, __ATOMIC_RELAXED);
	lock_give(&pool_lock);
	return done;
}

/* A block of this kind without attributes of its own. */
static bool park_plain(uint64_t address, uint64_t context, enum pool_kind kind, bool ready)
{
	struct pool_block *block;
	bool done;

	if (!lock_take(&pool_lock))
		return false;
	block = find(address);
	done = block && block->context == context && !block->special &&
	       pool_kind(block->flags) == kind && make_room(block) && hold(block, ready);
	if (done && kind != POOL_PINNED)
		__atomic_store_n(&block->listed, 0, __ATOMIC_RELAXED);
	lock_give(&pool_lock);
	return done;
}

bool pool_park_listed(uint64_t address, uint64_t context)
{
	return park_plain(address, context, POOL_PINNED, false);
}

bool pool_park_device(uint64_t address, uint64_t context, bool ready)
{
	return park_plain(address, context, POOL_DEVICE, ready);
}

bool pool_remove(uint64_t address, struct pool_block *ret_block)
{
	struct pool_block *block;
	bool removed = false;

	if (!lock_take(&pool_lock))
		return false;
	block = find(address);
	if (block) {
		copy(block, POOL_LIVE, ret_block);
		removed = displace(block, true);
	}
	lock_give(&pool_lock);
	return removed;
}

bool pool_batch_is_empty(unsigned int batch)
{
	bool empty;

	if (!lock_take(&pool_lock))
		return true;
	empty = !pool_batches[batch];
	lock_give(&pool_lock);
	return empty;
}

bool pool_has_parked(uint64_t context)
{
	const struct pool_block *block = NULL;
	unsigned int i;

	if (!lock_take(&pool_lock))
		return true;
	for (i = 0; i < POOL_BATCHES && !block; i++)
		for (block = pool_batches[i]; block && block->context != context;
		     block = block->next)
			;
	lock_give(&pool_lock);
	return block;
}

void pool_close(unsigned int batch)
{
	if (!lock_take(&pool_lock))
		return;
	pool_batches[batch] = pool_batches[0];
	pool_batches[0] = NULL;
	lock_give(&pool_lock);
}

void pool_release(unsigned int batch)
{
	struct pool_block *block, *next;

	if (!lock_take(&pool_lock))
		return;
	for (block = pool_batches[batch]; block; block = next) {
		next = block->next;
		parked_add(block, pool_kind(block->flags), -1U);
		pool_set_state(block, POOL_READY);
		pool_ready(block);
	}
	pool_batches[batch] = NULL;
	lock_give(&pool_lock);
}

void pool_bytes(enum pool_kind kind, struct pool_bytes *ret_bytes)
{
	const struct pool_bytes *of = &pool_sums[kind];

	ret_bytes->held = __atomic_load_n(&of->held, __ATOMIC_RELAXED);
	ret_bytes->reserved = __atomic_load_n(&of->reserved, __ATOMIC_RELAXED);
	ret_bytes->peak = __atomic_load_n(&of->peak, __ATOMIC_RELAXED);
	ret_bytes->live = __atomic_load_n(&of->live, __ATOMIC_RELAXED);
	ret_bytes->limit = __atomic_load_n(&of->limit, __ATOMIC_RELAXED);
}
