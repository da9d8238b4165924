// SPDX-License-Identifier: MIT
/*
 * Intern: one table per kind of record (intern.h). Called by emit.c from any thread.
 *
 * A value of a table is a small private key that carries what is compared, and the record itself.
 * The record file is shared memory that others can write; ids and lengths are therefore kept here
 * and never read back from it.
 */
#include "emit/intern.h"

#include <string.h>

#include "emit/arena.h"
#include "emit/internal.h"
#include "emit/memo.h"
#include "emit/table.h"

enum intern_kind {
	INTERN_STRING,
	INTERN_REGION,
	INTERN_CANDIDATE,
	INTERN_WAIT,
	INTERN_WAITED_FOR,
	INTERN_NOTE,
	INTERN_REMARK,
	INTERN_COUNT
};

#define KEY_WORDS 5

/* Written once under emit's lock before it is published in a table; constant afterwards. */
struct intern_key {
	uint64_t word[KEY_WORDS]; /* strings: length first, bytes are compared in the record */
	uint32_t id;
	uint32_t padding;
	void *record;
};

static struct table tables[INTERN_COUNT] = {
	[INTERN_STRING] = {.bound = 1 << 18},     [INTERN_REGION] = {.bound = 1 << 14},
	[INTERN_CANDIDATE] = {.bound = 1 << 15},  [INTERN_WAIT] = {.bound = 1 << 16},
	[INTERN_WAITED_FOR] = {.bound = 1 << 17}, [INTERN_NOTE] = {.bound = 1 << 12},
	[INTERN_REMARK] = {.bound = 1 << 12},
};

/* Written under emit's lock. */
static uint32_t next_id[INTERN_COUNT];
static struct arena arena = {.bound = (size_t)128 << 20};

struct text {
	const char *bytes;
	size_t length;
};

static void fill_string(void *record, uint32_t id, const void *from)
{
	struct record_string *string = record;
	const struct text *text = from;

	string->id = id;
	string->length = (uint32_t)text->length;
	memcpy(string->bytes, text->bytes, text->length);
}

static void fill_region(void *record, uint32_t id, const void *from)
{
	struct record_region *region = record;
	const uint64_t *word = from;

	region->id = id;
	region->parent = (uint32_t)word[0];
	region->name = (uint32_t)word[1];
}

static void fill_candidate(void *record, uint32_t id, const void *from)
{
	struct record_candidate *made = record;
	const struct emit_candidate *candidate = from;

	made->id = id;
	made->context = candidate->context;
	made->stream = candidate->stream;
	made->stream_kind = candidate->stream_kind;
	made->operation = candidate->operation;
	made->name = candidate->name;
	made->certain = candidate->certain;
}

static void fill_wait(void *record, uint32_t id, const void *from)
{
	struct record_wait *wait = record;
	const struct emit_finding *finding = from;

	wait->id = id;
	wait->function = finding->function;
	wait->rule = finding->rule;
	wait->site = finding->site;
	wait->source_kind = finding->source_kind;
	wait->destination_kind = finding->destination_kind;
	wait->idle_basis = finding->idle_basis;
	wait->allowed = finding->allowed;
	wait->region = finding->region;
	wait->first_ns = finding->returned_ns;
}

static void fill_waited_for(void *record, uint32_t id, const void *from)
{
	struct record_waited_for *waited_for = record;
	const uint64_t *word = from;

	waited_for->wait = (uint32_t)word[0];
	waited_for->candidate = (uint32_t)word[1];
}

static void fill_note(void *record, uint32_t id, const void *from)
{
	struct record_note *note = record;
	const uint64_t *word = from;

	note->code = (uint32_t)word[0];
	note->text = (uint32_t)word[1];
	note->number = id;
}

static void fill_remark(void *record, uint32_t id, const void *from)
{
	struct record_remark *made = record;
	const struct emit_remark *remark = from;

	made->id = id;
	made->rule = remark->rule;
	made->function = remark->function;
	made->site = remark->site;
	made->stream = remark->stream;
	made->region = remark->region;
	made->allowed = remark->allowed;
	made->other_function = remark->other_function;
	made->other_site = remark->other_site;
	made->other_stream = remark->other_stream;
	made->first_ns = remark->ns;
}

static const struct intern_way {
	enum record_type type;
	size_t size;
	void (*fill)(void *record, uint32_t id, const void *from);
} ways[INTERN_COUNT] = {
	[INTERN_STRING] = {RECORD_STRING, sizeof(struct record_string), fill_string},
	[INTERN_REGION] = {RECORD_REGION, sizeof(struct record_region), fill_region},
	[INTERN_CANDIDATE] = {RECORD_CANDIDATE, sizeof(struct record_candidate), fill_candidate},
	[INTERN_WAIT] = {RECORD_WAIT, sizeof(struct record_wait), fill_wait},
	[INTERN_WAITED_FOR] = {RECORD_WAITED_FOR, sizeof(struct record_waited_for),
			       fill_waited_for},
	[INTERN_NOTE] = {RECORD_NOTE, sizeof(struct record_note), fill_note},
	[INTERN_REMARK] = {RECORD_REMARK, sizeof(struct record_remark), fill_remark},
};

static uint64_t hash_words(const uint64_t *word)
{
	uint64_t hash = 0;
	int i;

	for (i = 0; i < KEY_WORDS; i++)
		hash = table_mix(hash ^ word[i]) + (uint64_t)i;
	return hash;
}

static uint64_t hash_bytes(const char *bytes, size_t length)
{
	uint64_t hash = length;
	uint64_t word;

	for (; length >= sizeof(word); bytes += sizeof(word), length -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		hash = table_mix(hash ^ word);
	}
	word = 0;
	memcpy(&word, bytes, length);
	return table_mix(hash ^ word);
}

static struct intern_key *find(enum intern_kind kind, uint64_t hash, const uint64_t *word,
			       const char *bytes)
{
	uint64_t index = hash;
	struct intern_key *key;

	while ((key = table_next(&tables[kind], hash, &index))) {
		if (memcmp(key->word, word, sizeof(key->word)))
			continue;
		if (bytes && memcmp(((struct record_string *)key->record)->bytes, bytes, word[0]))
			continue;
		return key;
	}
	return NULL;
}

/* Room for record and key, under emit's lock; NULL: dropped (the caller's caller counts). */
static struct intern_key *add(enum intern_kind kind, uint64_t hash, const uint64_t *word,
			      size_t record_size)
{
	struct intern_key *key;
	void *record;

	if (tables[kind].used >= tables[kind].bound)
		return NULL;
	key = arena_take(&arena, sizeof(*key));
	if (!key)
		return NULL;
	record = emit_take_locked(record_size);
	if (!record)
		return NULL;
	memcpy(key->word, word, sizeof(key->word));
	key->id = next_id[kind] + 1;
	key->record = record;
	return key;
}

/* Publishes the record, then the key. Should the table not take it, the record is in the file but
 * will be written again: harmless. */
static void publish(enum intern_kind kind, uint64_t hash, struct intern_key *key,
		    enum record_type type)
{
	next_id[kind]++;
	emit_publish(key->record, type);
	if (!table_insert(&tables[kind], &arena, hash, key))
		emit_count_dropped();
}

/*
 * The key that stands for these words (and bytes), made if there is none. `fill` writes the fields
 * of a new record from `from`, before it is published. NULL: dropped, and counted.
 */
static const struct intern_key *intern(enum intern_kind kind, uint64_t hash, const uint64_t *word,
				       const char *bytes, const void *from)
{
	const struct intern_way *way = &ways[kind];
	struct intern_key *key = find(kind, hash, word, bytes);
	size_t size;

	if (key)
		return key;
	if (!emit_lock()) {
		emit_count_dropped();
		return NULL;
	}
	/* Somebody may have been faster. */
	key = find(kind, hash, word, bytes);
	if (!key) {
		size = way->size + (bytes ? word[0] + 1 : 0);
		key = add(kind, hash, word, size);
		if (key) {
			way->fill(key->record, key->id, from);
			publish(kind, hash, key, way->type);
		} else {
			emit_count_dropped();
		}
	}
	emit_unlock();
	return key;
}

uint32_t intern_string(const char *bytes, size_t length)
{
	uint64_t word[KEY_WORDS] = {length};
	struct text text = {.bytes = bytes, .length = length};
	const struct intern_key *key;

	key = intern(INTERN_STRING, hash_bytes(bytes, length), word, bytes, &text);
	return key ? key->id : 0;
}

const char *intern_string_bytes(uint32_t id, size_t *ret_length)
{
	size_t place;
	const struct intern_key *key;

	for (place = 0; table_at(&tables[INTERN_STRING], place, (void **)&key); place++) {
		if (!key || key->id != id)
			continue;
		*ret_length = key->word[0];
		return ((const struct record_string *)key->record)->bytes;
	}
	return NULL;
}

struct record_region *intern_region(uint32_t parent, uint32_t name, uint32_t *ret_id)
{
	uint64_t word[KEY_WORDS] = {parent, name};
	const struct intern_key *key;

	key = intern(INTERN_REGION, hash_words(word), word, NULL, word);
	if (!key)
		return NULL;
	*ret_id = key->id;
	return key->record;
}

struct record_region *intern_known_region(uint32_t parent, const char *name, size_t length,
					  uint32_t *ret_id)
{
	uint64_t text[KEY_WORDS] = {length}, word[KEY_WORDS] = {parent};
	const struct intern_key *key = find(INTERN_STRING, hash_bytes(name, length), text, name);

	if (!key)
		return NULL;
	word[1] = key->id;
	key = find(INTERN_REGION, hash_words(word), word, NULL);
	if (!key)
		return NULL;
	*ret_id = key->id;
	return key->record;
}

uint32_t intern_regions(void)
{
	return __atomic_load_n(&next_id[INTERN_REGION], __ATOMIC_RELAXED);
}

uint32_t intern_candidate(const struct emit_candidate *candidate)
{
	uint64_t word[KEY_WORDS] = {
		candidate->context,
		candidate->stream,
		(uint64_t)candidate->stream_kind << 32 | candidate->operation,
		(uint64_t)candidate->name << 32 | candidate->certain,
	};
	const struct intern_key *key;

	key = intern(INTERN_CANDIDATE, hash_words(word), word, NULL, candidate);
	return key ? key->id : 0;
}

struct record_wait *intern_wait(const struct emit_finding *finding, uint32_t *ret_id)
{
	uint64_t word[KEY_WORDS] = {
		(uint64_t)finding->function << 32 | finding->rule,
		(uint64_t)finding->site << 32 | finding->region,
		(uint64_t)finding->source_kind << 24 | (uint64_t)finding->destination_kind << 16 |
			(uint64_t)finding->idle_basis << 8 | finding->allowed,
	};
	const struct intern_key *key;

	key = intern(INTERN_WAIT, hash_words(word), word, NULL, finding);
	if (!key)
		return NULL;
	*ret_id = key->id;
	return key->record;
}

struct record_waited_for *intern_waited_for(uint32_t wait, uint32_t candidate)
{
	uint64_t word[KEY_WORDS] = {wait, candidate};
	const struct intern_key *key;

	key = intern(INTERN_WAITED_FOR, hash_words(word), word, NULL, word);
	return key ? key->record : NULL;
}

struct record_remark *intern_remark(const struct emit_remark *remark)
{
	uint64_t word[KEY_WORDS] = {
		(uint64_t)remark->function << 32 | remark->rule,
		(uint64_t)remark->site << 32 | remark->region,
		(uint64_t)remark->other_function << 32 | remark->other_site,
		remark->allowed,
	};
	const struct intern_key *key;

	key = intern(INTERN_REMARK, hash_words(word), word, NULL, remark);
	return key ? key->record : NULL;
}

struct record_note *intern_note(enum note_code code, uint32_t text)
{
	uint64_t word[KEY_WORDS] = {code, text};
	const struct intern_key *key;

	key = intern(INTERN_NOTE, hash_words(word), word, NULL, word);
	return key ? key->record : NULL;
}

/* Atomic; written by intern_clear(), when no other thread is there. */
static uint64_t life = 1;

uint64_t intern_life(void)
{
	return __atomic_load_n(&life, __ATOMIC_RELAXED);
}

void intern_clear(void)
{
	int kind;

	__atomic_store_n(&life, life + 1, __ATOMIC_RELAXED);
	for (kind = 0; kind < INTERN_COUNT; kind++) {
		table_clear(&tables[kind]);
		next_id[kind] = 0;
	}
	arena_done(&arena);
	memo_clear();
}
