// SPDX-License-Identifier: MIT
/*
 * Memory: what kind of memory an address lies in. Called by state_before() for the operands of a
 * call, and by the hooks of allocations and frees. Relies on lock.h and arena.h.
 *
 * Ranges are kept sorted by address in chunks, and the chunks in one sorted array, so that an
 * address inside a block is found by two binary searches and an insertion moves one chunk at most.
 * Everything here is under LOCK_MEMORY, a leaf that is held for a search or one such move.
 *
 * A range is taken out before the real free: once the driver has freed it, the address may be given
 * to another thread's allocation before the free returns here.
 *
 * Most copies are between places that were copied between before. What the table says of a pair is remembered by its
 * thread, in one cache line, with the table's version: that changes, under the lock, with whatever is in the
 * table. Whoever has learned of an allocation or a free from another thread sees its version, too.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "state/internal.h"
#include "state/place.h"
#include "state/state.h"

#define CHUNK      128
#define CHUNKS_MAX 16384

enum range_flag {
	RANGE_SYNC_MEMOPS = 1 << 0,
	RANGE_FOREIGN = 1 << 1,  /* mapped or imported */
	RANGE_UNPLACED = 1 << 2, /* of a pool that was named, which may lie on the host */
	RANGE_SHARED = 1 << 3,   /* reachable from outside the process */
	RANGE_FLAGS = 0xffff,
};
/* Above the flags: ordinal + 1 of the device on which the driver has said that this is plain memory; 0: not asked. */
#define RANGE_ASKED_SHIFT 16

struct range {
	uint64_t address, bytes;
	uint32_t kind, flags; /* enum memory_kind; enum range_flag, and who was asked */
};

struct chunk {
	struct chunk *next; /* in the list of empty ones */
	uint32_t count;
	struct range range[CHUNK];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_MEMORY);
static struct arena arena = {.bound = (size_t)128 << 20};
static struct chunk *chunks[CHUNKS_MAX]; /* never an empty one */
static uint32_t chunk_count;
static struct chunk *empty;
/* Where find() found something last: a free or a copy is about one range several times. Checked by who uses it. */
static struct {
	uint32_t chunk, range;
} last;
static uint64_t
	host_ranges; /* that the device may write and the host read; written under the lock, read by anyone */
static uint64_t shared_ranges; /* that other processes see; likewise */
static uint64_t on_devices;    /* bytes of ranges that lie there; likewise */
static uint32_t incomplete;    /* something could not be stored; for good */
/* Written under the lock, read by anyone; never the same again. A line of its own: every copy reads it. */
static struct {
	uint64_t number;
} __attribute__((aligned(64))) version = {1};

#define MEMOS 16

static __thread struct pair_memo {
	uint64_t addresses[2];
	uint64_t version; /* all of this holds for; 0: empty */
	uint8_t kinds[2]; /* enum memory_kind */
	bool sync_memops;
	/* state_sides() of these two and of so many bytes; `ordinal` -1: not asked. */
	uint8_t sides;
	int ordinal;
	uint64_t host, host_bytes, device_bytes;
} __attribute__((aligned(64))) memos[MEMOS] __attribute__((tls_model("initial-exec")));
_Static_assert(sizeof(struct pair_memo) == 64, "a cache line");

static struct pair_memo *memo_of(uint64_t one, uint64_t other)
{
	return &memos[((one ^ other) >> 6 ^ (one ^ other) >> 12 ^ (one ^ other) >> 17) % MEMOS];
}

/* Under the lock. */
static void table_changes(void)
{
	/* Release: with what made it change, for who learns of that by other ways than the lock. */
	__atomic_store_n(&version.number, version.number + 1, __ATOMIC_RELEASE);
}

static bool may_be_on_host(const struct range *range)
{
	return range->kind == MEMORY_PINNED || range->kind == MEMORY_REGISTERED ||
	       range->kind == MEMORY_MANAGED || range->flags & (RANGE_FOREIGN | RANGE_UNPLACED);
}

static bool is_on_device(const struct range *range)
{
	return range->kind == MEMORY_DEVICE || range->kind == MEMORY_POOL;
}

/* The chunk that holds, or would hold, the address: the last that begins at or below it, or 0. */
static uint32_t chunk_of(uint64_t address)
{
	uint32_t low = 0, high = chunk_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (chunks[middle]->range[0].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : 0;
}

/* Number of ranges in the chunk that begin at or below the address. */
static uint32_t ranges_up_to(const struct chunk *chunk, uint64_t address)
{
	uint32_t low = 0, high = chunk->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (chunk->range[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_in(const struct range *range, uint64_t address)
{
	return address - range->address < range->bytes;
}

/* NULL: it is there no more. */
static struct range *found_last(void)
{
	if (last.chunk >= chunk_count || last.range >= chunks[last.chunk]->count)
		return NULL;
	return &chunks[last.chunk]->range[last.range];
}

static struct range *find(uint64_t address)
{
	struct range *range = found_last();
	struct chunk *chunk;
	uint32_t at, i;

	/* No two lie in each other. */
	if (range && is_in(range, address))
		return range;
	if (!chunk_count)
		return NULL;
	at = chunk_of(address);
	chunk = chunks[at];
	i = ranges_up_to(chunk, address);
	if (!i || !is_in(&chunk->range[i - 1], address))
		return NULL;
	last.chunk = at;
	last.range = i - 1;
	return &chunk->range[i - 1];
}

static void take_out(struct range *range)
{
	uint32_t at = range == found_last() ? last.chunk : chunk_of(range->address);
	struct chunk *chunk = chunks[at];
	uint32_t i = (uint32_t)(range - chunk->range);

	table_changes();
	if (may_be_on_host(range))
		STATE_STORE(&host_ranges, host_ranges - 1);
	if (range->flags & RANGE_SHARED)
		STATE_STORE(&shared_ranges, shared_ranges - 1);
	if (is_on_device(range))
		STATE_STORE(&on_devices, on_devices - range->bytes);
	chunk->count--;
	if (i < chunk->count)
		memmove(range, range + 1, (chunk->count - i) * sizeof(*range));
	if (chunk->count)
		return;
	memmove(&chunks[at], &chunks[at + 1], (chunk_count - at - 1) * sizeof(chunks[0]));
	chunk_count--;
	chunk->next = empty;
	empty = chunk;
}

static struct chunk *new_chunk(uint32_t at)
{
	struct chunk *chunk = empty;

	if (chunk_count == CHUNKS_MAX)
		return NULL;
	if (chunk)
		empty = chunk->next;
	else
		chunk = arena_take(&arena, sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->count = 0;
	memmove(&chunks[at + 1], &chunks[at], (chunk_count - at) * sizeof(chunks[0]));
	chunks[at] = chunk;
	chunk_count++;
	return chunk;
}

static bool insert(const struct range *range)
{
	struct chunk *chunk, *upper;
	uint32_t at, i;

	at = chunk_of(range->address);
	chunk = chunk_count ? chunks[at] : new_chunk(0);
	if (!chunk)
		return false;
	if (chunk->count == CHUNK) {
		upper = new_chunk(at + 1);
		if (!upper)
			return false;
		upper->count = CHUNK / 2;
		chunk->count = CHUNK - CHUNK / 2;
		memcpy(upper->range, chunk->range + chunk->count, upper->count * sizeof(*range));
		if (range->address >= upper->range[0].address)
			chunk = upper;
	}
	table_changes();
	i = ranges_up_to(chunk, range->address);
	memmove(&chunk->range[i + 1], &chunk->range[i], (chunk->count - i) * sizeof(*range));
	chunk->range[i] = *range;
	chunk->count++;
	if (may_be_on_host(range))
		STATE_STORE(&host_ranges, host_ranges + 1), live_changed();
	if (range->flags & RANGE_SHARED)
		STATE_STORE(&shared_ranges, shared_ranges + 1), live_changed();
	if (is_on_device(range))
		STATE_STORE(&on_devices, on_devices + range->bytes);
	return true;
}

/* The first range that ends above the address; NULL: none. */
static struct range *first_above(uint64_t address)
{
	struct chunk *chunk;
	uint32_t at, i;

	if (!chunk_count)
		return NULL;
	at = chunk_of(address);
	chunk = chunks[at];
	i = ranges_up_to(chunk, address);
	if (i && is_in(&chunk->range[i - 1], address))
		return &chunk->range[i - 1];
	if (i < chunk->count)
		return &chunk->range[i];
	return at + 1 < chunk_count ? &chunks[at + 1]->range[0] : NULL;
}

/* What the driver hands out is free: whatever stands there was freed without our seeing it. */
static void clear_place(uint64_t address, uint64_t bytes)
{
	struct range *range;

	while ((range = first_above(address)) &&
	       (range->address <= address || range->address - address < bytes))
		take_out(range);
}

static void add(const struct range *range)
{
	bool stored;

	if (!range->address || !range->bytes)
		return;
	if (!lock_take(&lock)) {
		STATE_STORE(&incomplete, 1);
		return;
	}
	clear_place(range->address, range->bytes);
	stored = insert(range);
	lock_give(&lock);
	if (!stored) {
		STATE_STORE(&incomplete, 1);
		state_lost("allocations");
	}
}

bool memory_look_up(const uint64_t addresses[2], enum memory_kind ret_kinds[2])
{
	struct pair_memo *memo = memo_of(addresses[0], addresses[1]);
	const struct range *range;
	bool sync_memops = false;
	unsigned int i;

	if (memo->version == STATE_LOAD(&version.number) && memo->addresses[0] == addresses[0] &&
	    memo->addresses[1] == addresses[1]) {
		ret_kinds[0] = memo->kinds[0];
		ret_kinds[1] = memo->kinds[1];
		return memo->sync_memops;
	}
	ret_kinds[0] = ret_kinds[1] = MEMORY_UNKNOWN;
	if (!lock_take(&lock))
		return false;
	for (i = 0; i < 2; i++) {
		range = addresses[i] ? find(addresses[i]) : NULL;
		ret_kinds[i] = range ? (enum memory_kind)range->kind : MEMORY_NONE;
		sync_memops |= range && range->flags & RANGE_SYNC_MEMOPS;
	}
	*memo = (struct pair_memo){.addresses = {addresses[0], addresses[1]},
				   .version = version.number,
				   .kinds = {(uint8_t)ret_kinds[0], (uint8_t)ret_kinds[1]},
				   .sync_memops = sync_memops,
				   .ordinal = -1};
	lock_give(&lock);
	return sync_memops;
}

static bool is_plain_device_memory(const struct range *range, uint64_t address, uint64_t bytes)
{
	return !(range->flags & (RANGE_FOREIGN | RANGE_SYNC_MEMOPS)) &&
	       (range->kind == MEMORY_DEVICE || range->kind == MEMORY_POOL) &&
	       range->bytes - (address - range->address) >= bytes;
}

/* Under the lock. */
static uint32_t look_at_sides(uint64_t host, uint64_t host_bytes, uint64_t device,
			      uint64_t device_bytes, int ordinal)
{
	const struct range *range = first_above(host);
	uint32_t sides = 0;

	if (!range || (range->address > host && range->address - host >= host_bytes))
		sides |= SIDES_HOST_UNKNOWN;
	range = find(device);
	if (range && is_plain_device_memory(range, device, device_bytes)) {
		sides |= SIDES_DEVICE_PLAIN;
		if (range->flags >> RANGE_ASKED_SHIFT == (uint32_t)ordinal + 1)
			sides |= SIDES_DEVICE_ASKED;
	}
	return sides;
}

uint32_t state_sides(uint64_t host, uint64_t host_bytes, uint64_t device, uint64_t device_bytes,
		     int ordinal)
{
	/* That of the copy that asks, where state_before() has just looked: the same two addresses. */
	struct pair_memo *memo = memo_of(host, device);
	uint32_t sides;
	bool fits;

	if (STATE_LOAD(&incomplete))
		return 0;
	fits = memo->version == STATE_LOAD(&version.number) &&
	       (memo->addresses[0] ^ memo->addresses[1]) == (host ^ device) &&
	       (memo->addresses[0] == host || memo->addresses[0] == device);
	if (fits && memo->ordinal == ordinal && memo->host == host &&
	    memo->host_bytes == host_bytes && memo->device_bytes == device_bytes)
		return memo->sides;
	if (!lock_take(&lock))
		return 0;
	sides = look_at_sides(host, host_bytes, device, device_bytes, ordinal);
	if (fits && memo->version == version.number) {
		memo->sides = (uint8_t)sides;
		memo->ordinal = ordinal;
		memo->host = host;
		memo->host_bytes = host_bytes;
		memo->device_bytes = device_bytes;
	}
	lock_give(&lock);
	return sides;
}

void state_device_asked(uint64_t address, uint64_t start, uint64_t bytes, int ordinal)
{
	struct range *range;

	if (!lock_take(&lock))
		return;
	range = find(address);
	/* All that it holds lies in what the driver has told of. */
	if (range && range->address >= start && range->address - start <= bytes &&
	    bytes - (range->address - start) >= range->bytes) {
		range->flags = (range->flags & RANGE_FLAGS) | ((uint32_t)ordinal + 1)
								      << RANGE_ASKED_SHIFT;
		table_changes();
	}
	lock_give(&lock);
}

bool memory_host_reads(void)
{
	return STATE_LOAD(&host_ranges) || STATE_LOAD(&incomplete);
}

uint64_t state_device_bytes(void)
{
	return STATE_LOAD(&on_devices);
}

bool memory_others_read(void)
{
	return STATE_LOAD(&shared_ranges);
}

static bool makes_plain_blocks(const struct call *call)
{
	return catalogue_rows[call->function].kind == CATALOGUE_KIND_ALLOC;
}

void state_allocated(struct call *call, enum memory_kind kind, uint64_t address, uint64_t bytes)
{
	const struct range range = {
		.address = address,
		.bytes = bytes,
		.kind = kind,
		.flags = makes_plain_blocks(call) ? 0 : RANGE_FOREIGN,
	};

	add(&range);
}

void state_unplaced(struct call *call, uint64_t address)
{
	struct range *range;

	if (!lock_take(&lock))
		return;
	range = find(address);
	if (range) {
		if (!may_be_on_host(range))
			STATE_STORE(&host_ranges, host_ranges + 1), live_changed();
		range->flags |= RANGE_UNPLACED;
		table_changes();
	}
	lock_give(&lock);
}

void state_host_registered(struct call *call, const void *address, uint64_t bytes)
{
	state_allocated(call, MEMORY_REGISTERED, (uintptr_t)address, bytes);
}

void state_mapped(struct call *call, enum memory_kind kind, uint64_t address)
{
	CUdeviceptr base = 0;
	size_t size = 0;

	if (address && driver.cuMemGetAddressRange_v2 &&
	    driver.cuMemGetAddressRange_v2(&base, &size, address) == CUDA_SUCCESS)
		state_allocated(call, kind, base, size);
}

void state_freeing(struct call *call, uint64_t address)
{
	struct range *range;

	if (!lock_take(&lock))
		return;
	range = find(address);
	/* The driver refuses addresses inside a block. */
	if (range && range->address == address) {
		call->freed_address = range->address;
		call->freed_bytes = range->bytes;
		call->freed_kind = range->kind;
		call->freed_flags = range->flags & RANGE_FLAGS;
		/* What comes before the free in its stream may use it for a while. */
		if (call->operation == OPERATION_ALLOCATION &&
		    range->flags & (RANGE_FOREIGN | RANGE_UNPLACED | RANGE_SHARED))
			state_host_code("order: memory that the host or others may write was freed "
					"in a stream's order");
		if (!call->bytes)
			call->bytes = range->bytes;
		take_out(range);
	}
	lock_give(&lock);
}

enum memory_kind state_block_at(uint64_t address, uint64_t *ret_start, uint64_t *ret_bytes)
{
	enum memory_kind kind = MEMORY_NONE;
	const struct range *range;

	if (!lock_take(&lock))
		return MEMORY_UNKNOWN;
	range = find(address);
	if (range) {
		*ret_start = range->address;
		*ret_bytes = range->bytes;
		kind = range->kind;
	}
	lock_give(&lock);
	return kind;
}

void state_pinned_begins(uint64_t address, uint64_t bytes)
{
	const struct range range = {.address = address, .bytes = bytes, .kind = MEMORY_PINNED};

	add(&range);
}

void state_pinned_ends(uint64_t address)
{
	struct range *range;

	if (!lock_take(&lock))
		return;
	range = find(address);
	if (range && range->address == address)
		take_out(range);
	lock_give(&lock);
}

uint64_t state_device_ends(uint64_t address)
{
	struct range *range;
	uint64_t bytes = 0;

	if (context_has_sync_memops() || !lock_take(&lock))
		return 0;
	range = find(address);
	if (range && range->address == address && range->kind == MEMORY_DEVICE &&
	    !(range->flags & RANGE_FLAGS)) {
		bytes = range->bytes;
		take_out(range);
	}
	lock_give(&lock);
	return bytes;
}

void state_device_begins(uint64_t address, uint64_t bytes)
{
	const struct range range = {.address = address, .bytes = bytes, .kind = MEMORY_DEVICE};

	add(&range);
}

void state_freed(struct call *call, CUresult result)
{
	const struct range range = {
		.address = call->freed_address,
		.bytes = call->freed_bytes,
		.kind = call->freed_kind,
		.flags = call->freed_flags,
	};

	if (result != CUDA_SUCCESS)
		add(&range);
	call->freed_bytes = 0;
}

void state_sync_memops(struct call *call, uint64_t address)
{
	struct range *range;

	if (!address) {
		if (call->context)
			context_set_sync_memops(call->context);
		return;
	}
	if (!lock_take(&lock))
		return;
	range = find(address);
	if (range) {
		range->flags |= RANGE_SYNC_MEMOPS;
		table_changes();
	}
	lock_give(&lock);
}

void state_memory_shared(uint64_t address)
{
	struct range *range;

	if (!lock_take(&lock)) {
		state_unseen();
		return;
	}
	range = find(address);
	if (range && !(range->flags & RANGE_SHARED)) {
		STATE_STORE(&shared_ranges, shared_ranges + 1), live_changed();
		range->flags |= RANGE_SHARED;
	}
	lock_give(&lock);
}

bool state_range_of(uint64_t address, struct state_range *ret_range)
{
	const struct range *range;

	if (!lock_take(&lock))
		return false;
	range = find(address);
	if (range)
		*ret_range = (struct state_range){
			.address = range->address, .bytes = range->bytes, .kind = range->kind};
	lock_give(&lock);
	return range;
}

size_t state_open_allocations(uint64_t after, struct emit_allocation *ret_found, size_t most)
{
	const struct range *range;
	size_t count = 0;
	uint32_t at, i;

	if (!lock_take(&lock))
		return 0;
	at = chunk_of(after);
	i = at < chunk_count ? ranges_up_to(chunks[at], after) : 0;
	for (; at < chunk_count && count < most; at++, i = 0) {
		for (; i < chunks[at]->count && count < most; i++) {
			range = &chunks[at]->range[i];
			ret_found[count++] = (struct emit_allocation){
				.address = range->address,
				.bytes = range->bytes,
				.memory = range->kind,
			};
		}
	}
	lock_give(&lock);
	return count;
}

void memory_clear(void)
{
	lock_reset(&lock);
	table_changes();
	chunk_count = 0;
	empty = NULL;
	host_ranges = 0;
	shared_ranges = 0;
	on_devices = 0;
	incomplete = 0;
	arena_done(&arena);
}
