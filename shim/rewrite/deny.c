// SPDX-License-Identifier: MIT
/*
 * Deny list (deny.h). Called by the rewrites, and deny_start() by rewrite.c. Relies on sync/site.h for stacks and keys.
 *
 * The entries are written by deny_start() alone, before any rewrite. What they say of a site is worked out at its first call and kept by
 * the site's id; two threads may do so at once and store the same. Nothing here takes a lock.
 */
#include "rewrite/deny.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "call.h"
#include "catalogue/catalogue.h"
#include "deny_list.h"
#include "emit/emit.h"
#include "rewrite/events.h"
#include "sync/site.h"
#include "uncancelled.h"

#define FILE_MAX ((off_t)1 << 20)
#define REWRITES 8 /* words of SLIPSTREAM_FIX that are told apart */
#define IS_KNOWN (UINT32_C(1) << 31)

uint32_t deny_on;

/* Zero: not asked for yet. Atomic both; records are published before their address is stored, release. */
struct verdict {
	uint32_t denied; /* enum config_fix, and IS_KNOWN */
	struct record_rewrite_site *record[REWRITES];
};

/* Mapped by deny_start(); touched only as far as there are sites. */
static struct verdict *verdicts; /* by site id; 0: sites that could not be taken */
static struct deny_entry *entries;
static size_t entry_count;
static uint32_t by_function[FUNCTION_COUNT]; /* enum config_fix */

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* The whole file, of *ret_size bytes; NULL: it cannot be read, or is too large to be a list. Stays mapped. */
static char *read_file(const char *path, size_t *ret_size)
{
	/* An empty list: for who wants the sites recorded only. */
	static const char nothing[] = "/dev/null";
	int descriptor = uncancelled_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	struct stat status;
	char *text = NULL;
	size_t size = 0;
	ssize_t got = 1;

	if (descriptor < 0)
		return NULL;
	if (!fstat(descriptor, &status) && status.st_size < FILE_MAX &&
	    (S_ISREG(status.st_mode) || !strcmp(path, nothing)))
		text = map((size_t)status.st_size + 1);
	while (text && size < (size_t)status.st_size && got > 0) {
		got = uncancelled_read(descriptor, text + size, (size_t)status.st_size - size);
		if (got > 0)
			size += (size_t)got;
		else if (got < 0 && errno == EINTR)
			got = 1;
	}
	uncancelled_close(descriptor);
	/* Shorter than it was: half a list is none. */
	if (!text || size < (size_t)status.st_size)
		return NULL;
	*ret_size = size;
	return text;
}

/* False: no such function. Who denies one wants it denied. */
static bool deny_function(const struct deny_entry *entry)
{
	bool found = false;

	for (unsigned int i = 0; i < FUNCTION_COUNT; i++) {
		if (!deny_means(entry, function_names[i]))
			continue;
		by_function[i] |= entry->rewrites;
		found = true;
	}
	return found;
}

static const char *parse(const char *text, size_t size)
{
	const char *end = text + size, *line, *next, *why;
	struct deny_entry entry;
	size_t lines = 1;
	int found;

	for (line = text; (line = memchr(line, '\n', (size_t)(end - line))); line++)
		lines++;
	entries = map(lines * sizeof(*entries));
	if (!entries)
		return "off: no memory for the deny list";
	for (line = text; line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		if (!next)
			next = end;
		found = deny_line(line, (size_t)(next - line), config_fix_words(), &entry, &why);
		if (found < 0)
			return "off: the deny list has a bad line";
		if (found && entry.kind == DENY_FUNCTION) {
			if (!deny_function(&entry))
				return "off: the deny list names a function that the driver does "
				       "not have";
		} else if (found) {
			entries[entry_count++] = entry;
		}
	}
	return NULL;
}

const char *deny_start(void)
{
	int saved_errno = errno;
	const char *why;
	size_t size;
	char *text;

	if (!config.deny)
		return NULL;
	text = read_file(config.deny, &size);
	why = text ? parse(text, size) : "off: the deny list cannot be read";
	if (!why) {
		verdicts = map((SITES_MAX + 1) * sizeof(*verdicts));
		if (!verdicts)
			why = "off: no memory for the deny list";
	}
	if (why)
		config_tell_deny(why);
	else
		/* Before rewrite_on, which is stored with release. */
		__atomic_store_n(&deny_on, 1, __ATOMIC_RELAXED);
	errno = saved_errno;
	return why;
}

static uint32_t judge(uint32_t site)
{
	uint64_t key = site_key(site);
	const struct deny_entry *entry;
	uint32_t denied = IS_KNOWN;
	bool is_meant;
	size_t i;

	for (i = 0; i < entry_count; i++) {
		entry = &entries[i];
		if (entry->kind == DENY_SITE)
			is_meant = entry->key == key;
		else if (entry->kind == DENY_FILE)
			is_meant = site_in_file(site, entry->name, entry->length);
		else
			is_meant = site_in_python(site, entry->name, entry->length);
		if (is_meant)
			denied |= entry->rewrites;
	}
	return denied;
}

/* NULL: no room in the record file. */
static struct record_rewrite_site *record_of(struct verdict *verdict, uint32_t site,
					     const struct call *call, enum config_fix rewrite)
{
	struct record_rewrite_site *record, *first = NULL;
	uint32_t number = (uint32_t)__builtin_ctz(rewrite);

	if (number >= REWRITES)
		return NULL;
	/* Pairs with the release below. */
	record = __atomic_load_n(&verdict->record[number], __ATOMIC_ACQUIRE);
	if (record)
		return record;
	record = emit_reserve(sizeof(*record));
	if (!record)
		return NULL;
	record->site = site;
	record->rewrite = events_name(rewrite);
	record->function = call->function;
	emit_publish(record, RECORD_REWRITE_SITE);
	/* Another thread was faster: ours stays in the file and counts nothing. */
	if (!__atomic_compare_exchange_n(&verdict->record[number], &first, record, false,
					 __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
		return first;
	return record;
}

bool deny_ask(const struct call *call, enum config_fix rewrite)
{
	uint32_t site = site_take(call->return_address, call->frame), denied;
	struct verdict *verdict = &verdicts[site <= SITES_MAX ? site : 0];
	struct record_rewrite_site *record;

	if (!site || site > SITES_MAX) {
		emit_note(NOTE_REWRITE, "a call site that cannot be told, with a deny list");
		return true;
	}
	denied = __atomic_load_n(&verdict->denied, __ATOMIC_RELAXED);
	if (!denied) {
		denied = judge(site);
		__atomic_store_n(&verdict->denied, denied, __ATOMIC_RELAXED);
	}
	denied |= by_function[call->function];
	record = record_of(verdict, site, call, rewrite);
	if (record) {
		__atomic_fetch_add(&record->calls, 1, __ATOMIC_RELAXED);
		if (denied & rewrite)
			__atomic_fetch_add(&record->denied, 1, __ATOMIC_RELAXED);
	}
	return denied & rewrite;
}
