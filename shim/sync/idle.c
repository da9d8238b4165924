// SPDX-License-Identifier: MIT
/*
 * Idle: two small open-addressed tables, one of the run's minima, one of the calibrated costs.
 * Called by sync.c on every classified call. No lock: an entry is one word, key and cost together,
 * changed by compare-and-swap; it is never moved or removed. What finds no place within a few steps
 * is not kept (the next better source is used).
 */
#include "sync/idle.h"

#include <string.h>

#include "call.h"
#include "catalogue/catalogue.h"

#define SLOTS 8192
#define STEPS 32
#define COST  UINT64_C(0xffffffff) /* low half: ns, at most 4.29 s */

static uint64_t minima[SLOTS];     /* any thread */
static uint64_t calibrated[SLOTS]; /* written by sync_prepare() only, before any call */
static bool is_calibrated;         /* likewise: anything is in it */

uint32_t idle_key_of(uint16_t function, uint8_t source_kind, uint8_t destination_kind,
		     uint8_t size_class)
{
	/* 16 + 4 + 4 + 7 bits; the top bit tells a key from a free slot. */
	return UINT32_C(1) << 31 | (uint32_t)function << 15 | (uint32_t)(source_kind & 15) << 11 |
	       (uint32_t)(destination_kind & 15) << 7 | (size_class & 127);
}

uint32_t idle_key(const struct call *call)
{
	uint8_t size_class = 0;

	if (call->bytes > 1)
		size_class = (uint8_t)(64 - __builtin_clzll(call->bytes - 1));
	/* No size is of class 64 and more. */
	if (call->flags & CALL_STAGED)
		size_class |= 64;
	return idle_key_of(call->function, call->source_kind, call->destination_kind, size_class);
}

/* How often a minimum was lowered; any thread. What was concluded from one before may be untrue. */
static uint32_t lowered;

/* The least samples that this thread has told of, in ticks. One that drives another out is told again. */
#define OWN 16
static __thread struct {
	uint32_t key, ticks;  /* key 0: empty */
	uint32_t bound, seen; /* idle_bound(), while `lowered` is what was seen; 0: none */
} own[OWN] __attribute__((aligned(64), tls_model("initial-exec")));

/* Function and size class. */
static uint32_t own_place(uint32_t key)
{
	return (key >> 15 ^ key) % OWN;
}

bool idle_is_news(uint32_t key, uint64_t ticks)
{
	uint32_t at = own_place(key);

	if (own[at].key == key && own[at].ticks <= ticks)
		return false;
	if (own[at].key != key)
		own[at].bound = 0;
	own[at].key = key;
	own[at].ticks = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
	return true;
}

uint64_t idle_bound(uint32_t key)
{
	uint32_t at = own_place(key);

	return own[at].key == key && own[at].seen == __atomic_load_n(&lowered, __ATOMIC_RELAXED)
		       ? own[at].bound
		       : 0;
}

uint32_t idle_lowered(void)
{
	/* Pairs with the release in idle_sample(): who sees the number sees the cost. */
	return __atomic_load_n(&lowered, __ATOMIC_ACQUIRE);
}

void idle_set_bound(uint32_t key, uint64_t ticks, uint32_t seen)
{
	uint32_t at = own_place(key);

	if (own[at].key != key) {
		own[at].key = key;
		own[at].ticks = UINT32_MAX; /* nothing told: any sample is news */
	}
	own[at].bound = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
	own[at].seen = seen;
}

static uint32_t place(uint32_t key)
{
	return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

static bool find(const uint64_t *table, uint32_t key, uint64_t *ret_cost)
{
	uint32_t at = place(key);
	uint32_t step;
	uint64_t slot;

	for (step = 0; step < STEPS; step++) {
		slot = __atomic_load_n(&table[(at + step) % SLOTS], __ATOMIC_RELAXED);
		if (!slot)
			return false;
		if (slot >> 32 == key) {
			*ret_cost = slot & COST;
			return true;
		}
	}
	return false;
}

/* Stores the cost, or the lesser one if there is one. */
static bool store(uint64_t *table, uint32_t key, uint64_t cost)
{
	uint32_t at = place(key);
	uint64_t *slot;
	uint64_t seen;
	uint32_t step;

	if (cost > COST)
		cost = COST;
	for (step = 0; step < STEPS; step++) {
		slot = &table[(at + step) % SLOTS];
		seen = __atomic_load_n(slot, __ATOMIC_RELAXED);
		while (!seen || seen >> 32 == key) {
			if (seen && (seen & COST) <= cost)
				return true;
			if (__atomic_compare_exchange_n(slot, &seen, (uint64_t)key << 32 | cost,
							true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				return true;
		}
	}
	return false;
}

uint64_t idle_cost(const struct call *call, uint32_t key, enum idle_basis *ret_basis)
{
	const struct catalogue_row *row = &catalogue_rows[call->function];
	uint64_t cost;

	*ret_basis = IDLE_CALIBRATED;
	if (is_calibrated && find(calibrated, key, &cost))
		return cost;
	*ret_basis = IDLE_MINIMUM;
	if (find(minima, key, &cost))
		return cost;
	*ret_basis = IDLE_DEFAULT;
	if (row->idle_fixed_ns || row->idle_ps_per_byte)
		return row->idle_fixed_ns + call->bytes * row->idle_ps_per_byte / 1000;
	*ret_basis = IDLE_NONE;
	return 0;
}

bool idle_minimum(uint32_t key, uint64_t *ret_cost)
{
	return find(minima, key, ret_cost);
}

void idle_sample(uint32_t key, uint64_t duration_ns)
{
	uint64_t least;

	if (find(minima, key, &least) && duration_ns >= least)
		return;
	store(minima, key, duration_ns);
	/* Behind it, with release order: who saw the number before, and the cost before, has a bound that ends here. */
	__atomic_add_fetch(&lowered, 1, __ATOMIC_RELEASE);
}

bool idle_calibrate(uint32_t key, uint64_t idle_ns)
{
	is_calibrated = true;
	return store(calibrated, key, idle_ns);
}

void idle_clear(void)
{
	memset(minima, 0, sizeof(minima));
	memset(calibrated, 0, sizeof(calibrated));
	memset(own, 0, sizeof(own)); /* of this thread, which is alone */
	is_calibrated = false;
}
