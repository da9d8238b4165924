// SPDX-License-Identifier: MIT
/*
 * Region: the calling thread's stack of regions, in thread-local memory of its own, and how deep it is in allowed-sync scopes (region.h). Called
 * by the program through the public header, by nvtx.c, and by sync.c.
 *
 * A name is copied at begin. It is interned there if a record file is open and the program has few regions; else at the first finding inside it,
 * since a program may have regions around code that never waits, make up names, and enter them before there is a file.
 *
 * A signal handler may begin and end regions of its own between any two instructions here. So a place is taken before it is filled, and given
 * back when all is in order below it: the handler's regions lie above.
 */
#include "sync/region.h"

#include <errno.h>
#include <string.h>

#include "emit/emit.h"
#include "state/launch.h"
#include "sync/step.h"

#define DEPTH_MAX 128 /* regions of a thread that are open at once, those without a name too */
#define NAMED_MAX 32
#define NO_ENTRY  UINT8_MAX

#define REGION_EXPORT __attribute__((visibility("default")))

/* For handlers of this thread only. */
#define IN_ORDER() __atomic_signal_fence(__ATOMIC_SEQ_CST)

struct entry {
	char name[REGION_NAME_LENGTH];
	uint32_t generation; /* of the record file that all below belongs to; 0: of none yet */
	uint32_t id, parent;
	bool is_ready; /* all but the last two may be read; false in free places */
	struct record_region *record;
	uint64_t number; /* of this entry, among those of the region, from 1 */
	struct emit_spent spent;
};

/*
 * Written and read by its own thread. `beyond` counts what came on top of a full stack, so that ends fit begins; which source those were of is
 * not known any more.
 */
static __thread struct {
	uint32_t depth, named, beyond;
	uint32_t allowed;
	struct {
		uint16_t source;
		uint8_t entry; /* in entries[], NO_ENTRY: none */
	} open[DEPTH_MAX];
	struct entry entries[NAMED_MAX];
} stack __attribute__((tls_model("initial-exec")));

/* Only the kernel knows, by the page that it wipes. */
bool region_is_own_process(void)
{
	return __atomic_load_n(&launch_stamps.stamp[LAUNCH_ALWAYS], __ATOMIC_RELAXED) != 0;
}

/* Not within a character: three bytes at most follow a character's first. */
void region_copy_name(char *into, const char *name)
{
	size_t length = strnlen(name, REGION_NAME_LENGTH), first;

	if (length == REGION_NAME_LENGTH) {
		first = --length;
		while (first > length - 3 && (name[first] & 0xc0) == 0x80)
			first--;
		if ((name[first] & 0xc0) == 0xc0)
			length = first;
	}
	memcpy(into, name, length);
	into[length] = '\0';
}

/* The entry has its record in the open file. Inside `parent` if it gets it now. `early`: it may do without. */
static bool know(struct entry *entry, uint32_t parent, bool early)
{
	uint32_t generation = emit_generation();

	if (generation && entry->generation == generation)
		return true;
	entry->record = !generation ? NULL
			: early     ? emit_region_early(parent, entry->name, &entry->id)
				    : emit_region(parent, entry->name, &entry->id);
	if (!entry->record)
		return false;
	entry->parent = parent;
	entry->number = __atomic_add_fetch(&entry->record->entries, 1, __ATOMIC_RELAXED);
	entry->spent = (struct emit_spent){0};
	entry->generation = generation;
	return true;
}

/* Id of the innermost of the first `count` named ones. One that began before the steps lies in them now. */
static uint32_t innermost(uint32_t count, bool early)
{
	uint32_t outer = step_region_id(), i, id;

	for (i = 0; i < count; i++) {
		struct entry *entry = &stack.entries[i];

		if (!entry->is_ready || !know(entry, outer, early))
			continue;
		if (entry->parent == outer)
			outer = entry->id;
		else if (early ? emit_region_early(outer, entry->name, &id) != NULL
			       : emit_region(outer, entry->name, &id) != NULL)
			outer = id;
	}
	return outer;
}

static uint8_t add_entry(const char *name)
{
	uint32_t place = stack.named;
	struct entry *entry = &stack.entries[place];

	if (place == NAMED_MAX) {
		emit_note(NOTE_LOST, "regions nested more than 32 deep");
		return NO_ENTRY;
	}
	stack.named++;
	IN_ORDER();
	region_copy_name(entry->name, name);
	entry->generation = 0;
	if (region_is_own_process())
		(void)know(entry, innermost(place, true), true);
	IN_ORDER();
	entry->is_ready = true;
	return (uint8_t)place;
}

static void remove_entry(uint8_t place)
{
	uint32_t last = stack.named - 1, i;

	if (place < last) {
		memmove(&stack.entries[place], &stack.entries[place + 1],
			(last - place) * sizeof(stack.entries[0]));
		for (i = 0; i < stack.depth; i++)
			if (stack.open[i].entry != NO_ENTRY && stack.open[i].entry > place)
				stack.open[i].entry--;
	}
	stack.entries[last].is_ready = false;
	IN_ORDER();
	stack.named = last;
}

static int open_of(uint16_t source)
{
	int count = 0;
	uint32_t i;

	for (i = 0; i < stack.depth; i++)
		count += stack.open[i].source == source;
	return count;
}

int region_begin(uint16_t source, const char *name)
{
	int before = open_of(source), saved_errno = errno;
	uint32_t place = stack.depth;

	if (place == DEPTH_MAX) {
		stack.beyond++;
		emit_note(NOTE_LOST, "regions nested more than 128 deep");
	} else {
		stack.depth = place + 1;
		IN_ORDER();
		stack.open[place].source = source;
		stack.open[place].entry = NO_ENTRY;
		if (name)
			stack.open[place].entry = add_entry(name);
	}
	errno = saved_errno;
	return before;
}

int region_end(uint16_t source)
{
	uint32_t place = stack.depth;

	if (stack.beyond) {
		stack.beyond--;
		return open_of(source);
	}
	while (place && stack.open[place - 1].source != source)
		place--;
	if (!place)
		return -1;
	if (stack.open[place - 1].entry != NO_ENTRY)
		remove_entry(stack.open[place - 1].entry);
	memmove(&stack.open[place - 1], &stack.open[place],
		(stack.depth - place) * sizeof(stack.open[0]));
	IN_ORDER();
	stack.depth--;
	return open_of(source);
}

REGION_EXPORT void slipstream_region_begin(const char *name)
{
	(void)region_begin(REGION_OF_HEADER, name ? name : "");
}

REGION_EXPORT void slipstream_region_end(void)
{
	(void)region_end(REGION_OF_HEADER);
}

REGION_EXPORT void slipstream_allow_begin(const char *reason)
{
	stack.allowed++;
}

REGION_EXPORT void slipstream_allow_end(void)
{
	if (stack.allowed)
		stack.allowed--;
}

uint32_t region_current(void)
{
	return innermost(stack.named, false);
}

bool region_allows(void)
{
	return stack.allowed != 0;
}

static void add_to_entry(struct entry *entry, const struct emit_spent *spent)
{
	if (!entry->spent.implicit && !entry->spent.explicit &&
	    (spent->implicit || spent->explicit))
		__atomic_fetch_add(&entry->record->waiting, 1, __ATOMIC_RELAXED);
	entry->spent.implicit += spent->implicit;
	entry->spent.explicit += spent->explicit;
	entry->spent.blocked_ns += spent->blocked_ns;
	emit_region_raise(entry->record, entry->number, &entry->spent);
}

/* The figures of the records are raised with each finding, so that a killed process has left them, too. */
void region_count(const struct emit_spent *spent)
{
	uint32_t outer = step_region_id(), i;

	for (i = 0; i < stack.named; i++) {
		struct entry *entry = &stack.entries[i];

		if (!entry->is_ready || !know(entry, outer, false))
			continue;
		outer = entry->id;
		add_to_entry(entry, spent);
	}
	step_count(spent);
}
