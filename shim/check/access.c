// SPDX-License-Identifier: MIT
/*
 * Check, the last accesses to memory (access.h). An access that the host knows complete is before everything that can still come, and goes; so does
 * one that a later write, ordered behind it, covers. What is left is short, and looked through.
 */
#include "check/access.h"

#include "check/lane.h"
#include "check/map.h"

#define ACCESSES_MAX 4096
#define BLOCKS_MAX   4096

static struct access accesses[ACCESSES_MAX];
static uint32_t count;
static uint64_t added; /* ever; read without the lock, too */

static struct block {
	uint64_t unseen; /* `unseen` when it was made */
	bool is_written;
} blocks[BLOCKS_MAX];
CHECK_MAP(map, BLOCKS_MAX);
static uint64_t unseen; /* operations that may have written anywhere */

static bool is_kernel(const struct access *access)
{
	return access->how == ACCESS_KERNEL || access->how == ACCESS_PRODUCER;
}

/*
 * A copy and a kernel. Where a kernel is given a block and an index, or the begin of a part, others may copy other parts meanwhile: only a copy of
 * more than half of what lies behind the address must be meant for the same part.
 */
static bool meets_kernel(const struct access *copy, const struct access *kernel)
{
	if (copy->how == ACCESS_READ && kernel->how != ACCESS_PRODUCER)
		return false;
	if (copy->begin > kernel->begin || copy->end <= kernel->begin ||
	    copy->end - copy->begin <= FLAG_BYTES)
		return false;
	return copy->end - kernel->begin > (kernel->end - kernel->begin) / 2;
}

static bool must_be_ordered(const struct access *one, const struct access *other)
{
	if (is_kernel(one) && is_kernel(other))
		return false;
	if (is_kernel(other))
		return meets_kernel(one, other);
	if (is_kernel(one))
		return meets_kernel(other, one);
	return (one->how == ACCESS_WRITE || other->how == ACCESS_WRITE) &&
	       one->begin < other->end && other->begin < one->end;
}

static bool is_replaced(const struct access *old, const struct access *by)
{
	if (by->how == ACCESS_WRITE && old->begin >= by->begin && old->end <= by->end)
		return lane_is_behind(by->lane, old->lane, old->number);
	return old->lane == by->lane && old->how == by->how && old->begin == by->begin &&
	       old->end == by->end;
}

/* A few bytes that a kernel behind the old access is given: a flag, which is meant to be written while the kernel looks at it. */
static bool is_polled(const struct access *access, const struct access *old)
{
	uint32_t i;

	if (access->end - access->begin > FLAG_BYTES)
		return false;
	for (i = 0; i < count; i++)
		if (is_kernel(&accesses[i]) && accesses[i].lane == old->lane &&
		    accesses[i].number > old->number && accesses[i].begin == access->begin)
			return true;
	return false;
}

static void drop(uint32_t at)
{
	accesses[at] = accesses[--count];
}

static void remember(const struct access *access)
{
	uint32_t i, oldest = 0;

	if (count == ACCESSES_MAX) {
		check_lost("order: more than " CHECK_TEXT(
			ACCESSES_MAX) " accesses at once" NOTE_CHECK_HIDES);
		for (i = 1; i < count; i++)
			if (accesses[i].number < accesses[oldest].number)
				oldest = i;
		drop(oldest);
	}
	accesses[count] = *access;
	accesses[count++].serial = __atomic_add_fetch(&added, 1, __ATOMIC_RELAXED);
}

static void find_conflict(const struct access *access, const struct access *old, bool *ret_found,
			  struct access_conflict *ret_conflict)
{
	if (*ret_found || access->is_unknown || old->is_unknown ||
	    lane_is_behind(access->lane, old->lane, old->number) || !must_be_ordered(access, old) ||
	    is_polled(access, old))
		return;
	*ret_conflict = (struct access_conflict){
		.side = old->side, .lane = old->lane, .number = old->number};
	*ret_found = true;
}

bool access_add(const struct access *access, struct access_conflict *ret_conflict)
{
	bool found = false;
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (lane_is_done(accesses[i].lane, accesses[i].number)) {
			drop(i--);
			continue;
		}
		find_conflict(access, &accesses[i], &found, ret_conflict);
		if (is_replaced(&accesses[i], access))
			drop(i--);
	}
	if (found)
		lane_settle(access->lane, ret_conflict->lane, ret_conflict->number);
	remember(access);
	return found;
}

uint64_t access_count(void)
{
	return __atomic_load_n(&added, __ATOMIC_RELAXED);
}

/* A kernel's use of a block is where its address lies in it. */
static bool is_of(const struct access *access, uint64_t begin, uint64_t end, uint64_t made)
{
	if (access->serial > made)
		return false;
	if (is_kernel(access))
		return access->begin >= begin && access->begin < end;
	return access->begin < end && begin < access->end;
}

bool access_free(uint64_t begin, uint64_t end, uint64_t made, uint32_t lane,
		 struct access_conflict *ret_conflict)
{
	bool found = false;
	uint32_t i;

	for (i = 0; i < count; i++) {
		const struct access *old = &accesses[i];

		if (!is_of(old, begin, end, made))
			continue;
		if (!found && !old->is_unknown && !lane_at(lane)->clock.is_unknown &&
		    !lane_is_done(old->lane, old->number) &&
		    !lane_is_behind(lane, old->lane, old->number)) {
			*ret_conflict = (struct access_conflict){
				.side = old->side, .lane = old->lane, .number = old->number};
			found = true;
		}
		drop(i--);
	}
	return found;
}

void access_drop(uint64_t begin, uint64_t end, uint64_t made)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (is_of(&accesses[i], begin, end, made))
			drop(i--);
}

void block_made(uint64_t address, uint64_t bytes)
{
	uint32_t at;

	if (!address || !bytes)
		return;
	/* Whatever was remembered of the place is of a block that is gone. */
	access_drop(address, address + bytes, UINT64_MAX);
	check_map_remove(&map, address);
	at = check_map_add(&map, address);
	/* Full: no kernel is the first that is given it. */
	if (at != CHECK_NONE)
		blocks[at] = (struct block){.unseen = unseen};
}

void block_gone(uint64_t address)
{
	if (address)
		check_map_remove(&map, address);
}

void block_unseen(void)
{
	unseen++;
}

bool block_is_first(uint64_t address)
{
	uint32_t at = address ? check_map_find(&map, address) : CHECK_NONE;
	bool is_first;

	if (at == CHECK_NONE)
		return false;
	is_first = !blocks[at].is_written && blocks[at].unseen == unseen;
	blocks[at].is_written = true;
	return is_first;
}

void access_forget(void)
{
	count = 0;
	unseen = 0;
	check_map_clear(&map);
}
