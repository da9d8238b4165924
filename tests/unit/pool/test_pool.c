// SPDX-License-Identifier: MIT
/*
 * The pool of pinned blocks without a driver: sizes, keys, the way of a block, limit, and threads.
 */
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

#include "config.h"
#include "pool/pool.h"

#define LIMIT (UINT64_C(1) << 30)

static bool none_lives(uint64_t context)
{
	return false;
}

static bool first_lives(uint64_t context)
{
	return context == 1;
}

static int begin(void **state)
{
	struct pool_bytes bytes;

	pool_spare(pool_drop(none_lives));
	pool_start(POOL_PINNED, LIMIT);
	pool_bytes(POOL_PINNED, &bytes);
	return bytes.held || bytes.live;
}

static void add(uint64_t context, uint32_t flags, uint64_t bytes, uint64_t address)
{
	assert_true(pool_add(context, flags, bytes, pool_size(POOL_PINNED, bytes), address));
}

static uint64_t take(uint64_t context, uint32_t flags, uint64_t bytes)
{
	bool parked;

	return pool_take(context, flags, bytes, &parked);
}

static void make_ready(void)
{
	assert_true(pool_batch_is_empty(1));
	pool_close(1);
	pool_release(1);
}

static void assert_bytes(uint64_t live, uint64_t held)
{
	struct pool_bytes bytes;

	pool_bytes(POOL_PINNED, &bytes);
	assert_int_equal(bytes.live, live);
	assert_int_equal(bytes.held, held);
}

static void test_sizes(void **state)
{
	uint64_t size, bytes;

	assert_int_equal(pool_size(POOL_PINNED, 0), 0);
	for (bytes = 1; bytes < LIMIT; bytes += bytes < 100000 ? 1 : bytes / 977 + 1) {
		size = pool_size(POOL_PINNED, bytes);
		assert_true(size >= bytes);
		assert_true(size - bytes < 64 || (size - bytes) * 8 <= bytes);
		/* A class serves its own size. */
		assert_int_equal(pool_size(POOL_PINNED, size), size);
	}
	assert_int_equal(pool_size(POOL_PINNED, LIMIT), LIMIT);
	assert_int_equal(pool_size(POOL_PINNED, LIMIT + 1), 0);
	assert_int_equal(pool_size(POOL_PINNED, UINT64_MAX), 0);
}

/* Of device memory no more than drivers' own units, or an eighth. */
static void test_device_sizes(void **state)
{
	uint64_t bytes, size;

	pool_start(POOL_DEVICE, UINT64_C(1) << 40);
	for (bytes = 1; bytes < UINT64_C(1) << 34; bytes += bytes / 7 + 1) {
		size = pool_size(POOL_DEVICE, bytes);
		assert_true(size >= bytes && size % 512 == 0);
		assert_true(size - bytes < 512 || (size - bytes) * 8 <= bytes);
		assert_true(size - bytes < 2 << 20);
		assert_int_equal(pool_size(POOL_DEVICE, size), size);
	}
	/* As many of them share a unit of the driver as without us. */
	for (bytes = 512; bytes <= 2 << 20; bytes += 512)
		assert_int_equal((2 << 20) / pool_size(POOL_DEVICE, bytes), (2 << 20) / bytes);
	assert_int_equal(pool_size(POOL_DEVICE, 1), 512);
	assert_int_equal(pool_size(POOL_DEVICE, (UINT64_C(1) << 30) + 1),
			 (UINT64_C(1) << 30) + (2 << 20));
	pool_start(POOL_DEVICE, 0);
	assert_int_equal(pool_size(POOL_DEVICE, 1), 0);
}

static void test_life(void **state)
{
	struct pool_block block;
	bool parked;

	add(1, 2, 1000, 0x10000);
	assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
	assert_int_equal(block.requested, 1000);
	assert_int_equal(block.buffer_id, 0);
	assert_int_equal(pool_look(0x10001, &block), POOL_NOT_OURS);
	assert_bytes(1024, 0);
	assert_true(pool_park(0x10000, 1, false));
	assert_int_equal(pool_look(0x10000, &block), POOL_PARKED);
	assert_bytes(0, 1024);
	assert_false(pool_park(0x10000, 1, false));
	assert_false(pool_remove(0x10000, &block));
	/* Not before it is proven. */
	assert_int_equal(pool_take(1, 2, 1000, &parked), 0);
	assert_true(parked);
	pool_close(1);
	assert_int_equal(pool_take(1, 2, 1000, &parked), 0);
	assert_true(parked);
	pool_release(1);
	assert_int_equal(pool_look(0x10000, &block), POOL_READY);
	assert_int_equal(pool_take(1, 2, 1010, &parked), 0x10000);
	assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
	assert_int_equal(block.requested, 1010);
	assert_int_not_equal(block.buffer_id, 0);
	assert_int_equal(pool_take(1, 2, 1000, &parked), 0);
	assert_false(parked);
	assert_bytes(1024, 0);
}

/* Freed with nothing at work anywhere. */
static void test_ready_at_once(void **state)
{
	struct pool_block block;

	add(1, 2, 1000, 0x10000);
	assert_true(pool_park(0x10000, 1, true));
	assert_true(pool_batch_is_empty(0));
	assert_int_equal(pool_look(0x10000, &block), POOL_READY);
	assert_false(pool_park(0x10000, 1, true));
	assert_bytes(0, 1024);
	assert_int_equal(take(1, 2, 1000), 0x10000);
	assert_bytes(1024, 0);
}

static void test_key(void **state)
{
	add(1, 2, 1000, 0x10000);
	assert_true(pool_park(0x10000, 1, false));
	make_ready();
	assert_int_equal(take(2, 2, 1000), 0);
	assert_int_equal(take(1, 0, 1000), 0);
	assert_int_equal(take(1, 2, 500), 0);
	assert_int_equal(take(1, 2, 1025), 0);
	assert_int_equal(take(1, 2, 1024), 0x10000);
}

/* Only the open batch becomes another one; what is freed later stays open. */
static void test_batches(void **state)
{
	add(1, 0, 100, 0x10000);
	add(1, 0, 100, 0x20000);
	assert_true(pool_batch_is_empty(0));
	assert_true(pool_park(0x10000, 1, false));
	assert_false(pool_batch_is_empty(0));
	pool_close(3);
	assert_true(pool_batch_is_empty(0));
	assert_true(pool_park(0x20000, 1, false));
	pool_release(3);
	assert_int_equal(take(1, 0, 100), 0x10000);
	assert_int_equal(take(1, 0, 100), 0);
}

static void test_other_context(void **state)
{
	add(1, 0, 100, 0x10000);
	assert_false(pool_park(0x10000, 2, false));
	assert_true(pool_park(0x10000, 1, false));
}

static void test_limit(void **state)
{
	pool_start(POOL_PINNED, 3000);
	add(1, 0, 1000, 0x10000);
	add(1, 0, 1000, 0x20000);
	add(1, 0, 1000, 0x30000);
	assert_true(pool_park(0x10000, 1, false));
	assert_true(pool_park(0x20000, 1, false));
	assert_false(pool_park(0x30000, 1, false));
	assert_bytes(1024, 2048);
	make_ready();
	assert_int_not_equal(take(1, 0, 1000), 0);
	assert_true(pool_park(0x30000, 1, false));
}

/* The driver has the address again, though nobody told the pool: whatever stood there is forgotten. */
static void test_address_comes_back(void **state)
{
	struct pool_block block;

	for (int held = 0; held < 3; held++) {
		add(1, 0, 4096, 0x10000);
		if (held)
			assert_true(pool_park(0x10000, 1, false));
		if (held == 2)
			make_ready();
		add(1, 0, 100, 0x10000);
		assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
		assert_int_equal(block.requested, 100);
		assert_bytes(128, 0);
		pool_close(1);
		pool_release(1);
		assert_int_equal(take(1, 0, 4096), 0);
		assert_true(pool_remove(0x10000, &block));
		assert_bytes(0, 0);
	}
}

static void test_put_back(void **state)
{
	struct pool_block block;

	add(1, 4, 1000, 0x10000);
	assert_true(pool_remove(0x10000, &block));
	assert_int_equal(pool_look(0x10000, &block), POOL_NOT_OURS);
	assert_false(pool_remove(0x10000, &block));
	pool_put_back(&block);
	assert_int_equal(pool_look(0x10000, &block), POOL_LIVE);
	assert_true(pool_park(0x10000, 1, false));
	make_ready();
	assert_int_equal(take(1, 4, 1000), 0x10000);
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
	struct pool_block *list, block;

	for (uint64_t i = 1; i <= 8; i++) {
		add(i % 2 + 1, 0, 1000, i << 16);
		assert_true(pool_park(i << 16, i % 2 + 1, false));
		if (i == 4)
			make_ready();
	}
	list = pool_give_back(POOL_PINNED, 1, 0, false);
	assert_int_equal(count(list), 2); /* ready ones of that context */
	assert_int_equal(pool_look(list->address, &block), POOL_NOT_OURS);
	pool_spare(list);
	assert_bytes(0, 6 * 1024);
	list = pool_give_back(POOL_PINNED, 1, 5 * 1024, true);
	assert_int_equal(count(list), 1);
	pool_spare(list);
	list = pool_give_back(POOL_PINNED, 1, 0, true);
	assert_int_equal(count(list), 1);
	pool_spare(list);
	assert_bytes(0, 4 * 1024);
	pool_close(1);
	pool_release(1);
	assert_int_equal(take(1, 0, 1000), 0);
	assert_int_not_equal(take(2, 0, 1000), 0);
}

static void test_give_some_back(void **state)
{
	struct pool_block *list;

	for (uint64_t i = 1; i <= 8; i++) {
		add(1, 0, 1000, i << 16);
		assert_true(pool_park(i << 16, 1, i % 2 == 0));
	}
	for (unsigned int left = 8; left; left -= 2) {
		list = pool_give_some_back(POOL_PINNED, 1, 0, 2);
		assert_int_equal(count(list), 2);
		pool_spare(list);
		assert_bytes(0, (left - 2) * 1024);
	}
	assert_null(pool_give_some_back(POOL_PINNED, 1, 0, 2));
}

static void test_drop(void **state)
{
	struct pool_block block;

	for (uint64_t i = 1; i <= 6; i++) {
		add(i % 2 + 1, 0, 1000, i << 16);
		if (i > 2)
			assert_true(pool_park(i << 16, i % 2 + 1, false));
		if (i == 4)
			make_ready();
	}
	pool_spare(pool_drop(first_lives));
	assert_bytes(1024, 2048);
	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(pool_look(i << 16, &block) != POOL_NOT_OURS, i % 2 == 0);
}

#define THREADS 8
#define STEPS   20000
#define BLOCKS  64

/* Who has the block, 0: nobody. */
static uint32_t owner[BLOCKS];
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

static void *use(void *data)
{
	uint32_t self = (uint32_t)(uintptr_t)data;
	uint64_t mine[BLOCKS], state = self;
	unsigned int have = 0;
	uint64_t address;

	for (int i = 0; i < STEPS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (state >> 63 && have) {
			address = mine[--have];
			__atomic_store_n(&owner[address >> 16], 0, __ATOMIC_SEQ_CST);
			if (!pool_park(address, 1, false))
				abort();
		} else if (have < BLOCKS / THREADS) {
			address = take(1, 0, 1000);
			if (address) {
				/* Nobody else may have it. */
				if (__atomic_exchange_n(&owner[address >> 16], self,
							__ATOMIC_SEQ_CST))
					abort();
				mine[have++] = address;
			}
		}
		if (i % 16 == 0 && pthread_mutex_trylock(&closing) == 0) {
			pool_close(1);
			pool_release(1);
			pthread_mutex_unlock(&closing);
		}
	}
	while (have) {
		address = mine[--have];
		__atomic_store_n(&owner[address >> 16], 0, __ATOMIC_SEQ_CST);
		if (!pool_park(address, 1, false))
			abort();
	}
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];

	memset(owner, 0, sizeof(owner));
	for (uint64_t i = 1; i < BLOCKS; i++) {
		add(1, 0, 1000, i << 16);
		assert_true(pool_park(i << 16, 1, false));
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_bytes(0, (BLOCKS - 1) * 1024);
	assert_int_equal(count(pool_give_back(POOL_PINNED, 1, 0, true)), BLOCKS - 1);
}

static void test_limit_setting(void **state)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t share = pool_limit_of(CONFIG_PERCENT | 6),
		 all = pool_limit_of(CONFIG_PERCENT | 100);

	assert_true(share > 0);
	assert_true(all <= memory);
	assert_true(share <= memory / 16);
	assert_true(share * 16 <= all && share * 17 >= all);
	assert_int_equal(pool_limit_of(CONFIG_PERCENT), 0);
	/* Whatever the machine has. */
	assert_int_equal(pool_limit_of(12345), 12345);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_sizes, begin),
		cmocka_unit_test_setup(test_device_sizes, begin),
		cmocka_unit_test_setup(test_life, begin),
		cmocka_unit_test_setup(test_ready_at_once, begin),
		cmocka_unit_test_setup(test_key, begin),
		cmocka_unit_test_setup(test_batches, begin),
		cmocka_unit_test_setup(test_other_context, begin),
		cmocka_unit_test_setup(test_limit, begin),
		cmocka_unit_test_setup(test_address_comes_back, begin),
		cmocka_unit_test_setup(test_put_back, begin),
		cmocka_unit_test_setup(test_give_back, begin),
		cmocka_unit_test_setup(test_give_some_back, begin),
		cmocka_unit_test_setup(test_drop, begin),
		cmocka_unit_test_setup(test_threads, begin),
		cmocka_unit_test(test_limit_setting),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
