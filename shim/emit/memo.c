// SPDX-License-Identifier: MIT
/*
 * Memo (memo.h). Called by emit_wait(), and where a thread ends. Relies on intern.h, which knows what is not found here.
 *
 * own		its thread
 * spare	blocks of threads that have ended, under emit's lock. In a forked child those of other threads are lost
 */
#include "emit/memo.h"

#include <string.h>

#include "emit/arena.h"
#include "emit/intern.h"
#include "emit/internal.h"

#define WAITS      4  /* a power of two */
#define CANDIDATES 64 /* a power of two */
#define ARENA_MAX  ((size_t)16 << 20)

/* What intern_wait() goes by. */
struct wait_key {
	uint32_t function, rule, site, region;
	uint8_t source_kind, destination_kind, idle_basis, allowed;
};

/* What intern_waited_for() goes by; two to a cache line. */
struct candidate {
	uint32_t wait; /* 0: empty */
	uint32_t stream;
	uint64_t context;
	uint16_t stream_kind, operation;
	uint32_t name;
	struct record_waited_for *record;
};

struct memo {
	uint64_t life; /* intern_life() when the first of it was asked for */
	struct memo *next;
	struct {
		struct wait_key key;
		uint32_t id; /* 0: empty */
		struct record_wait *record;
	} waits[WAITS];
	struct candidate candidates[CANDIDATES];
};

_Static_assert(sizeof(struct candidate) == 32, "two to a cache line");

static __thread struct memo *own __attribute__((tls_model("initial-exec")));
static struct memo *spare;
static struct arena arena = {.bound = ARENA_MAX};

static __attribute__((noinline)) struct memo *begin_life(uint64_t life)
{
	if (!own && emit_lock()) {
		own = spare;
		if (own)
			spare = own->next;
		else
			own = arena_take(&arena, sizeof(*own));
		emit_unlock();
	}
	if (own) {
		memset(own, 0, sizeof(*own));
		own->life = life;
	}
	return own;
}

struct memo *memo_own(void)
{
	uint64_t life = intern_life();

	return __builtin_expect(own && own->life == life, 1) ? own : begin_life(life);
}

void memo_give_back(void)
{
	if (!own || !emit_lock())
		return;
	own->next = spare;
	spare = own;
	emit_unlock();
	own = NULL;
}

void memo_clear(void)
{
	/* Not unmapped: the own block lies there. */
	spare = NULL;
	arena = (struct arena){.bound = ARENA_MAX};
}

static inline bool is_same(const struct wait_key *key, const struct emit_finding *finding)
{
	return key->site == finding->site && key->function == finding->function &&
	       key->rule == finding->rule && key->region == finding->region &&
	       key->source_kind == finding->source_kind &&
	       key->destination_kind == finding->destination_kind &&
	       key->idle_basis == finding->idle_basis && key->allowed == finding->allowed;
}

struct record_wait *memo_wait(struct memo *memo, const struct emit_finding *finding,
			      uint32_t *ret_id)
{
	uint32_t at = (finding->site ^ finding->function) & (WAITS - 1);
	struct record_wait *record;

	if (__builtin_expect(!memo, 0))
		return intern_wait(finding, ret_id);
	if (memo->waits[at].id && is_same(&memo->waits[at].key, finding)) {
		*ret_id = memo->waits[at].id;
		return memo->waits[at].record;
	}
	record = intern_wait(finding, ret_id);
	if (!record)
		return NULL;
	memo->waits[at].key = (struct wait_key){
		.function = finding->function,
		.rule = finding->rule,
		.site = finding->site,
		.region = finding->region,
		.source_kind = finding->source_kind,
		.destination_kind = finding->destination_kind,
		.idle_basis = finding->idle_basis,
		.allowed = finding->allowed,
	};
	memo->waits[at].id = *ret_id;
	memo->waits[at].record = record;
	return record;
}

static __attribute__((noinline)) struct record_waited_for *
ask(uint32_t wait, const struct emit_candidate *candidate)
{
	uint32_t id = intern_candidate(candidate);

	return id ? intern_waited_for(wait, id) : NULL;
}

struct record_waited_for *memo_waited_for(struct memo *memo, uint32_t wait,
					  const struct emit_candidate *candidate)
{
	struct candidate *known;

	if (__builtin_expect(!memo, 0))
		return ask(wait, candidate);
	known = &memo->candidates[(candidate->stream ^ wait * 8) % CANDIDATES];
	if (known->wait == wait && known->stream == candidate->stream &&
	    known->name == candidate->name && known->context == candidate->context &&
	    known->stream_kind == candidate->stream_kind &&
	    known->operation == candidate->operation && !candidate->certain)
		return known->record;
	/* What has no place here is not remembered. */
	if (candidate->certain || candidate->stream > UINT32_MAX ||
	    candidate->stream_kind > UINT16_MAX || candidate->operation > UINT16_MAX)
		return ask(wait, candidate);
	known->record = ask(wait, candidate);
	known->wait = known->record ? wait : 0;
	known->stream = (uint32_t)candidate->stream;
	known->context = candidate->context;
	known->stream_kind = (uint16_t)candidate->stream_kind;
	known->operation = (uint16_t)candidate->operation;
	known->name = candidate->name;
	return known->record;
}
