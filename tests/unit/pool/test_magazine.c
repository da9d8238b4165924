// SPDX-License-Identifier: MIT
/*
 * Magazines without a driver: what a thread keeps, how much of it, and that whoever needs it gets it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "pool/magazine.h"
#include "pool/pool.h"

#define LIMIT (UINT64_C(1) << 30)
#define MIB   (UINT64_C(1) << 20)

static struct record_rewrite records[64];
static unsigned int record_count;

static struct record_rewrite *new_record(void)
{
	return record_count < 64 ? &records[record_count++] : NULL;
}

static bool none_lives(uint64_t context)
{
	return false;
}

static struct pool_magazine *own;

static int begin(void **state)
{
	struct pool_bytes bytes;

	if (!own)
		own = pool_magazine_begin(new_record);
	pool_spare(pool_drop(none_lives));
	pool_start(POOL_PINNED, LIMIT);
	pool_bytes(POOL_PINNED, &bytes);
	return bytes.held || bytes.reserved;
}

static void add(uint64_t context, uint64_t bytes, uint64_t address)
{
	assert_true(pool_add(context, 0, bytes, pool_size(POOL_PINNED, bytes), address));
}

static bool keep(struct pool_magazine *magazine, uint64_t address, uint64_t context)
{
	struct pool_block *block = pool_find_unlocked(address);

	return block && pool_magazine_keep(magazine, block, address, context);
}

/* As the long way of a free does. */
static bool prepare_and_keep(struct pool_magazine *magazine, uint64_t address, uint64_t context)
{
	struct pool_block block;

	if (pool_look(address, &block) == POOL_NOT_OURS)
		return false;
	pool_magazine_prepare(magazine, context, block.flags, block.size);
	return keep(magazine, address, context);
}

static uint64_t take(struct pool_magazine *magazine, uint64_t context, uint64_t bytes)
{
	struct pool_block *block = pool_magazine_take(magazine, context, 0, bytes);

	return block ? block->address : 0;
}

static uint64_t long_take(uint64_t context, uint64_t bytes)
{
	bool parked;

	return pool_take(context, 0, bytes, &parked);
}

static struct pool_bytes sums(void)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_PINNED, &bytes);
	for (unsigned int i = 0; i < record_count; i++) {
		bytes.held += records[i].held_bytes;
		bytes.live += records[i].live_bytes;
	}
	return bytes;
}

static void assert_sums(uint64_t live, uint64_t held)
{
	assert_int_equal(sums().live, live);
	assert_int_equal(sums().held, held);
	assert_true(sums().held <= sums().limit);
	assert_true(sums().held <= sums().peak);
}

static void test_keeps(void **state)
{
	struct pool_block block;

	add(1, 1000, 0x10000);
	assert_int_equal(take(own, 1, 1000), 0);
	/* Without room. */
	assert_false(keep(own, 0x10000, 1));
	assert_true(prepare_and_keep(own, 0x10000, 1));
	assert_sums(0, 1024);
	assert_int_equal(pool_look(0x10000, &block), POOL_READY);
	assert_false(keep(own, 0x10000, 1));
	assert_false(pool_park(0x10000, 1, true));
	assert_false(pool_remove(0x10000, &block));
	assert_int_equal(take(own, 2, 1000), 0);
	assert_int_equal(take(own, 1, 1025), 0);
	assert_int_equal(take(own, 1, 500), 0);
	assert_null(pool_magazine_take(own, 1, 2, 1000));
	assert_int_equal(take(own, 1, 1024), 0x10000);
	assert_sums(1024, 0);
	assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
	assert_int_equal(block.requested, 1024);
	assert_false(keep(own, 0x10000, 2));
	assert_true(keep(own, 0x10000, 1));
	assert_null(pool_find_unlocked(0x10001));
	assert_null(pool_find_unlocked(0));
}

static void test_special(void **state)
{
	add(1, 1000, 0x10000);
	pool_mark_special(0x10000);
	assert_false(prepare_and_keep(own, 0x10000, 1));
	assert_true(pool_park(0x10000, 1, true));
}

/* Device memory has a way of its own. */
static void test_kind(void **state)
{
	struct pool_block block;

	pool_start(POOL_DEVICE, LIMIT);
	assert_true(pool_add(1, POOL_DEVICE_FLAG, 1024, 1024, 0x10000));
	pool_magazine_prepare(own, 1, POOL_DEVICE_FLAG, 1024);
	assert_false(keep(own, 0x10000, 1));
	assert_true(pool_remove(0x10000, &block));
}

/* A slot holds so many; the long way frees half of it. */
static void test_depth(void **state)
{
	uint64_t i, kept = 0;

	for (i = 1; i <= 40; i++) {
		add(1, 1000, i << 16);
		if (keep(own, i << 16, 1))
			kept++;
		else
			assert_true(prepare_and_keep(own, i << 16, 1));
	}
	assert_sums(0, 40 * 1024);
	for (i = 1; i <= 40; i++)
		if (!take(own, 1, 1000))
			assert_int_not_equal(long_take(1, 1000), 0);
	assert_sums(40 * 1024, 0);
	assert_int_equal(long_take(1, 1000), 0);
	for (i = 1; i <= 10; i++) {
		add(1, 64 * MIB, i << 32);
		if (!prepare_and_keep(own, i << 32, 1))
			break;
	}
	/* Few large ones: the rest are where others look first. */
	for (kept = 0; take(own, 1, 64 * MIB); kept++)
		;
	assert_true(kept >= 1 && kept <= 2);
}

/* Another key in the same slot takes its place. */
static void test_slot(void **state)
{
	uint64_t context, blocks = 0;

	for (context = 1; context <= 4; context++) {
		add(context, 1000, context << 16);
		assert_true(prepare_and_keep(own, context << 16, context));
	}
	for (context = 1; context <= 4; context++)
		blocks += take(own, context, 1000) != 0;
	assert_int_equal(blocks, 1);
	for (context = 1; context <= 3; context++)
		assert_int_equal(long_take(context, 1000), context << 16);
}

/* Room that a magazine does not use goes to who needs it; held bytes never exceed the limit. */
static void test_room(void **state)
{
	pool_start(POOL_PINNED, 4096);
	for (uint64_t i = 1; i <= 6; i++)
		add(1, 1000, i << 16);
	for (uint64_t i = 1; i <= 4; i++)
		assert_true(prepare_and_keep(own, i << 16, 1));
	assert_false(prepare_and_keep(own, 5 << 16, 1));
	assert_false(pool_park(5 << 16, 1, true));
	assert_sums(2 * 1024, 4 * 1024);
	assert_int_not_equal(take(own, 1, 1000), 0);
	assert_int_not_equal(take(own, 1, 1000), 0);
	/* The magazine has room for two, and none is held elsewhere. */
	assert_true(pool_park(5 << 16, 1, true));
	assert_true(pool_park(6 << 16, 1, false));
	assert_sums(2 * 1024, 4 * 1024);
	assert_false(keep(own, 3 << 16, 1));
	assert_false(keep(own, 4 << 16, 1));
}

static unsigned int count(const struct pool_block *list)
{
	unsigned int blocks = 0;

	for (; list; list = list->next)
		blocks++;
	return blocks;
}

static void test_give_back(void **state)
{
	struct pool_magazine *other = pool_magazine_begin(new_record);
	struct pool_block *list, block;

	assert_ptr_not_equal(own, other);
	for (uint64_t i = 1; i <= 6; i++) {
		add(1 + i % 2, 1000 * i, i << 16);
		assert_true(prepare_and_keep(i > 3 ? own : other, i << 16, 1 + i % 2));
	}
	list = pool_give_back(POOL_PINNED, 1, 0, true);
	assert_int_equal(count(list), 3);
	assert_int_equal(pool_look(list->address, &block), POOL_NOT_OURS);
	assert_null(pool_find_unlocked(list->address));
	assert_true(list->listed != 0);
	pool_spare(list);
	for (uint64_t i = 2; i <= 6; i += 2) {
		assert_int_equal(take(own, 1, 1000 * i), 0);
		assert_int_equal(take(other, 1, 1000 * i), 0);
	}
	list = pool_drop(none_lives);
	assert_int_equal(count(list), 3);
	pool_spare(list);
	assert_sums(0, 0);
	pool_magazine_end(other);
}

static void test_collect(void **state)
{
	struct pool_magazine *other = pool_magazine_begin(new_record);

	add(1, 1000, 0x10000);
	assert_true(prepare_and_keep(other, 0x10000, 1));
	assert_false(pool_collect(2, 0, 1000));
	assert_false(pool_collect(1, 0, 2000));
	assert_int_equal(long_take(1, 1000), 0);
	assert_true(pool_collect(1, 0, 1000));
	assert_int_equal(take(other, 1, 1000), 0);
	assert_int_equal(long_take(1, 1000), 0x10000);
	pool_magazine_end(other);
}

/* A magazine whose thread ended keeps nothing, and serves the next. */
static void test_end(void **state)
{
	struct pool_magazine *other = pool_magazine_begin(new_record);
	struct pool_bytes bytes;

	add(1, 1000, 0x10000);
	assert_true(prepare_and_keep(other, 0x10000, 1));
	pool_magazine_end(other);
	pool_bytes(POOL_PINNED, &bytes);
	assert_int_equal(bytes.held, 1024);
	assert_int_equal(bytes.reserved, 0);
	assert_int_equal(long_take(1, 1000), 0x10000);
	assert_ptr_equal(pool_magazine_begin(new_record), other);
	pool_magazine_end(other);
}

static void test_fill(void **state)
{
	unsigned int in_magazine = 0;

	for (uint64_t i = 1; i <= 10; i++) {
		add(1, 1000, i << 16);
		assert_true(pool_park(i << 16, 1, true));
	}
	assert_int_not_equal(long_take(1, 1000), 0);
	pool_magazine_fill(own, 1, 0, 1000);
	assert_sums(1024, 9 * 1024);
	while (take(own, 1, 1000))
		in_magazine++;
	assert_true(in_magazine >= 2 && in_magazine <= 8);
	assert_sums((in_magazine + 1) * 1024, (9 - in_magazine) * 1024);
}

/* A block that the driver has given to somebody else at this address. */
static void test_address_comes_back(void **state)
{
	struct pool_block block;

	add(1, 1000, 0x10000);
	assert_true(prepare_and_keep(own, 0x10000, 1));
	add(1, 5000, 0x10000);
	assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
	assert_int_equal(block.size, 5120);
	assert_int_equal(take(own, 1, 1000), 0);
	assert_sums(5120, 0);
}

/* Unused for some rounds, in a depot or in a magazine whose thread does something else. */
static void test_old(void **state)
{
	struct pool_block *list;

	for (uint64_t i = 1; i <= 4; i++)
		add(1, 1000 * i, i << 16);
	assert_true(pool_park(1 << 16, 1, true));
	assert_true(prepare_and_keep(own, 2 << 16, 1));
	assert_true(prepare_and_keep(own, 3 << 16, 1));
	assert_true(pool_park(4 << 16, 1, false));
	for (int round = 0; round < 8; round++) {
		list = pool_old(POOL_PINNED, 1, 3, 1);
		/* One a round, the oldest first; not the one in use, nor the one that is not proven. */
		if (round == 3)
			assert_int_equal(list->address, 1 << 16);
		else if (round == 5)
			assert_int_equal(list->address, 2 << 16);
		else
			assert_null(list);
		pool_spare(list);
		assert_int_equal(take(own, 1, 3000), 3 << 16);
		assert_true(keep(own, 3 << 16, 1));
	}
	assert_null(pool_old(POOL_PINNED, 2, 0, 9));
}

#define THREADS 6
#define STEPS   60000
#define BLOCKS  48

/* Who has the block, 0: nobody. */
static uint32_t owner[BLOCKS + 1];
static uint32_t stop;

static void claim(uint64_t address, uint32_t self)
{
	/* Nobody else may have it. */
	if (__atomic_exchange_n(&owner[address >> 16], self, __ATOMIC_SEQ_CST))
		abort();
}

static void let_go(struct pool_magazine *magazine, uint64_t address)
{
	__atomic_store_n(&owner[address >> 16], 0, __ATOMIC_SEQ_CST);
	if (!keep(magazine, address, 1) && !prepare_and_keep(magazine, address, 1) &&
	    !pool_park(address, 1, true))
		abort();
}

static void *use(void *data)
{
	struct pool_magazine *magazine = pool_magazine_begin(new_record);
	uint32_t self = (uint32_t)(uintptr_t)data;
	uint64_t mine[BLOCKS], state = self, address;
	unsigned int have = 0;

	for (int i = 0; i < STEPS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (state >> 63 && have) {
			let_go(magazine, mine[--have]);
		} else if (have < BLOCKS / THREADS) {
			address = take(magazine, 1, 1000);
			if (!address && (address = long_take(1, 1000)))
				pool_magazine_fill(magazine, 1, 0, 1000);
			if (!address && pool_collect(1, 0, 1000))
				address = long_take(1, 1000);
			if (address) {
				claim(address, self);
				mine[have++] = address;
			}
		}
	}
	while (have)
		let_go(magazine, mine[--have]);
	pool_magazine_end(magazine);
	return NULL;
}

/* What is taken out is put back as another thread's allocation would be. */
static void *take_out(void *data)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct pool_block *list = pool_give_back(POOL_PINNED, 1, 0, true), *block;

		for (block = list; block; block = block->next)
			claim(block->address, 99);
		for (block = list; block; block = block->next) {
			__atomic_store_n(&owner[block->address >> 16], 0, __ATOMIC_SEQ_CST);
			if (!pool_add(1, 0, 1000, 1024, block->address) ||
			    !pool_park(block->address, 1, true))
				abort();
		}
		pool_spare(list);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS + 1];

	for (uint64_t i = 1; i <= BLOCKS; i++) {
		add(1, 1000, i << 16);
		assert_true(pool_park(i << 16, 1, true));
	}
	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	pthread_create(&threads[THREADS], NULL, take_out, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(threads[THREADS], NULL);
	assert_sums(0, BLOCKS * 1024);
	assert_int_equal(count(pool_give_back(POOL_PINNED, 1, 0, true)), BLOCKS);
}

static pthread_barrier_t together;
static uint32_t kept_by;

static void *keep_twice(void *data)
{
	struct pool_magazine *magazine = pool_magazine_begin(new_record);

	for (int i = 0; i < 3000; i++) {
		pool_magazine_prepare(magazine, 1, 0, 1024);
		pthread_barrier_wait(&together);
		if (keep(magazine, 0x10000, 1))
			__atomic_fetch_add(&kept_by, 1, __ATOMIC_RELAXED);
		pthread_barrier_wait(&together);
		/* One of the two takes it out again. */
		if (take(magazine, 1, 1000))
			__atomic_fetch_add(&kept_by, 100000, __ATOMIC_RELAXED);
		pthread_barrier_wait(&together);
	}
	pool_magazine_end(magazine);
	return NULL;
}

/* Of two frees at the same moment one fails. */
static void test_twice(void **state)
{
	pthread_t thread;

	add(1, 1000, 0x10000);
	kept_by = 0;
	pthread_barrier_init(&together, NULL, 2);
	pthread_create(&thread, NULL, keep_twice, NULL);
	keep_twice(NULL);
	pthread_join(thread, NULL);
	assert_int_equal(kept_by, 3000 * 100001);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_keeps, begin),
		cmocka_unit_test_setup(test_special, begin),
		cmocka_unit_test_setup(test_kind, begin),
		cmocka_unit_test_setup(test_depth, begin),
		cmocka_unit_test_setup(test_slot, begin),
		cmocka_unit_test_setup(test_room, begin),
		cmocka_unit_test_setup(test_give_back, begin),
		cmocka_unit_test_setup(test_collect, begin),
		cmocka_unit_test_setup(test_end, begin),
		cmocka_unit_test_setup(test_fill, begin),
		cmocka_unit_test_setup(test_address_comes_back, begin),
		cmocka_unit_test_setup(test_old, begin),
		cmocka_unit_test_setup(test_threads, begin),
		cmocka_unit_test_setup(test_twice, begin),
	};

	return cmocka_run_group_tests_name("magazine", tests, NULL, NULL);
}
