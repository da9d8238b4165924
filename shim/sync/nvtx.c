// SPDX-License-Identifier: MIT
/*
 * NVTX: what takes the place of its functions (nvtx.h). Called by the program's ranges and marks, from any thread.
 *
 * What is declared here of NVTX is the layout of its tables and structures, which no version changes: an injected library finds pointers to the
 * places where NVTX keeps its functions, by number.
 *
 * Push and pop ranges nest in their thread, and each domain has a stack of its own there: they are regions. Start and end ranges may overlap, and end in
 * another thread: they are none, and are not followed.
 *
 * names	domains and registered strings: filled once, in order, never given back; a handle of NVTX is the address of one
 */
#include "sync/nvtx.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <wchar.h>

#include "config.h"
#include "emit/emit.h"
#include "step_mark.h"
#include "sync/region.h"
#include "sync/step.h"

#define TABLE_OF_CALLBACKS 1
#define MODULE_CORE        1
#define MODULE_CORE2       5

enum core { MARK_EX = 1, MARK_A = 2, MARK_W = 3, PUSH_EX = 8, PUSH_A = 9, PUSH_W = 10, POP = 11 };
enum core2 {
	DOMAIN_MARK_EX = 1,
	DOMAIN_PUSH_EX = 4,
	DOMAIN_POP = 5,
	REGISTER_A = 10,
	REGISTER_W = 11,
	DOMAIN_CREATE_A = 12,
	DOMAIN_CREATE_W = 13
};

typedef void (*any_function)(void);

struct callbacks {
	size_t size;
	int (*get_functions)(uint32_t module, any_function ***ret_table, unsigned int *ret_count);
};

/* What a range or mark is given. `size`: bytes that the caller knows of. */
struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};
_Static_assert(offsetof(struct attributes, message) == 40, "as NVTX has it");

enum { MESSAGE_ASCII = 1, MESSAGE_WIDE = 2, MESSAGE_REGISTERED = 3 };

#define DOMAINS_MAX 256
#define STRINGS_MAX 4096
#define OF_DEFAULT  1    /* source of the default domain's regions; the n-th domain's: 2 + n */
#define NOT_TRACKED (-2) /* what push and pop return where nobody follows them */

struct name {
	uint32_t is_ready; /* release store; pairs with the acquire load in find() */
	char text[REGION_NAME_LENGTH];
};

static struct name domains[DOMAINS_MAX], strings[STRINGS_MAX];
static uint32_t domain_count, string_count; /* taken, by fetch-and-add; may run beyond the bound */

/* ---- texts ---- */

/* As UTF-8, cut before the character that does not fit; what is no character becomes a question mark. */
static void copy_wide(char *into, const wchar_t *text)
{
	size_t used = 0;

	for (; *text; text++) {
		uint32_t c = (uint32_t)*text;
		size_t length;

		if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			c = '?';
		length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		if (used + length >= REGION_NAME_LENGTH)
			break;
		if (length == 1) {
			into[used++] = (char)c;
			continue;
		}
		into[used++] = (char)((0xf00U >> length & 0xff) | c >> 6 * (length - 1));
		while (--length)
			into[used++] = (char)(0x80 | (c >> 6 * (length - 1) & 0x3f));
	}
	into[used] = '\0';
}

/* A text that lies in this table, whatever the program gives as a handle; NULL: it does not. */
static const char *text_of(const struct name *table, size_t count, const void *handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)table;

	if (!handle || offset >= count * sizeof(*table) || offset % sizeof(*table))
		return NULL;
	return table[offset / sizeof(*table)].text;
}

static struct name *find(struct name *table, uint32_t most, uint32_t *count, const char *text)
{
	uint32_t taken = __atomic_load_n(count, __ATOMIC_RELAXED), i;

	for (i = 0; i < taken && i < most; i++)
		if (__atomic_load_n(&table[i].is_ready, __ATOMIC_ACQUIRE) &&
		    !strcmp(table[i].text, text))
			return &table[i];
	/* Full: the count stays where it is, so that it cannot come round. */
	i = taken < most ? __atomic_fetch_add(count, 1, __ATOMIC_RELAXED) : most;
	if (i >= most) {
		emit_note(NOTE_LOST, "NVTX: too many domains or registered strings");
		return NULL;
	}
	strcpy(table[i].text, text);
	__atomic_store_n(&table[i].is_ready, 1, __ATOMIC_RELEASE);
	return &table[i];
}

/* False: it has none. `into`: REGION_NAME_LENGTH bytes. */
static bool message_of(const struct attributes *attributes, char *into)
{
	const char *registered;

	if (!attributes || attributes->size < sizeof(*attributes) || !attributes->message)
		return false;
	switch (attributes->message_type) {
	case MESSAGE_ASCII:
		region_copy_name(into, attributes->message);
		return true;
	case MESSAGE_WIDE:
		copy_wide(into, attributes->message);
		return true;
	case MESSAGE_REGISTERED:
		registered = text_of(strings, STRINGS_MAX, attributes->message);
		if (registered)
			region_copy_name(into, registered);
		return registered != NULL;
	default:
		return false;
	}
}

/* ---- which are wanted ---- */

/* `*` any number of characters, `?` one; the pattern ends at `end`. */
static bool fits(const char *pattern, const char *end, const char *text)
{
	const char *star = NULL, *from = NULL;

	while (*text) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			from = text;
		} else if (pattern < end && (*pattern == '?' || *pattern == *text)) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star;
			text = ++from;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

/* NAME@DOMAIN; without @ of the default domain, whose name is empty. */
static bool fits_one(const char *pattern, const char *end, const char *name, const char *domain)
{
	const char *at = end;

	while (at > pattern && at[-1] != '@')
		at--;
	if (at == pattern)
		return !*domain && fits(pattern, end, name);
	return fits(pattern, at - 1, name) && fits(at, end, domain);
}

static bool fits_any(const char *list, const char *name, const char *domain)
{
	while (list && *list) {
		size_t length = strcspn(list, ",");

		if (fits_one(list, list + length, name, domain))
			return true;
		list += length;
		list += *list == ',';
	}
	return false;
}

static const char *mark_wanted(void)
{
	return config.step && !strncmp(config.step, STEP_OF_NVTX, strlen(STEP_OF_NVTX))
		       ? config.step + strlen(STEP_OF_NVTX)
		       : NULL;
}

/* ---- what the program calls ---- */

static const char *domain_name(const void *domain)
{
	const char *name = text_of(domains, DOMAINS_MAX, domain);

	return name ? name : "";
}

static uint16_t source_of(const void *domain)
{
	if (!text_of(domains, DOMAINS_MAX, domain))
		return OF_DEFAULT;
	return (uint16_t)(OF_DEFAULT + 1 + ((const struct name *)domain - domains));
}

/* Not wanted, or without a name: it takes its place, so that the pops fit. */
static int push(const void *domain, const char *name)
{
	if (!config.nvtx)
		return NOT_TRACKED;
	return region_begin(
		source_of(domain),
		name && *name && fits_any(config.nvtx, name, domain_name(domain)) ? name : NULL);
}

static int pop(const void *domain)
{
	int left = config.nvtx ? region_end(source_of(domain)) : NOT_TRACKED;

	return left < 0 ? NOT_TRACKED : left;
}

static void mark(const void *domain, const char *name)
{
	int saved_errno = errno;

	if (fits_any(mark_wanted(), name, domain_name(domain)))
		step_begin();
	errno = saved_errno;
}

static int domain_push_ex(const void *domain, const struct attributes *attributes)
{
	char name[REGION_NAME_LENGTH];

	return push(domain, message_of(attributes, name) ? name : NULL);
}

static int push_ex(const struct attributes *attributes)
{
	return domain_push_ex(NULL, attributes);
}

static int push_narrow(const char *text)
{
	char name[REGION_NAME_LENGTH];

	if (text)
		region_copy_name(name, text);
	return push(NULL, text ? name : NULL);
}

static int push_wide(const wchar_t *text)
{
	char name[REGION_NAME_LENGTH];

	if (text)
		copy_wide(name, text);
	return push(NULL, text ? name : NULL);
}

static int pop_default(void)
{
	return pop(NULL);
}

static void domain_mark_ex(const void *domain, const struct attributes *attributes)
{
	char name[REGION_NAME_LENGTH];

	if (message_of(attributes, name))
		mark(domain, name);
}

static void mark_ex(const struct attributes *attributes)
{
	domain_mark_ex(NULL, attributes);
}

static void mark_narrow(const char *text)
{
	char name[REGION_NAME_LENGTH];

	if (!text)
		return;
	region_copy_name(name, text);
	mark(NULL, name);
}

static void mark_wide(const wchar_t *text)
{
	char name[REGION_NAME_LENGTH];

	if (!text)
		return;
	copy_wide(name, text);
	mark(NULL, name);
}

static const void *register_narrow(const void *domain, const char *text)
{
	char name[REGION_NAME_LENGTH];

	(void)domain;
	if (!text)
		return NULL;
	region_copy_name(name, text);
	return find(strings, STRINGS_MAX, &string_count, name);
}

static const void *register_wide(const void *domain, const wchar_t *text)
{
	char name[REGION_NAME_LENGTH];

	(void)domain;
	if (!text)
		return NULL;
	copy_wide(name, text);
	return find(strings, STRINGS_MAX, &string_count, name);
}

static const void *create_narrow(const char *text)
{
	char name[REGION_NAME_LENGTH];

	if (!text)
		return NULL;
	region_copy_name(name, text);
	return find(domains, DOMAINS_MAX, &domain_count, name);
}

static const void *create_wide(const wchar_t *text)
{
	char name[REGION_NAME_LENGTH];

	if (!text)
		return NULL;
	copy_wide(name, text);
	return find(domains, DOMAINS_MAX, &domain_count, name);
}

/* ---- attaching ---- */

struct place {
	uint32_t number;
	any_function function;
};

static const struct place core[] = {
	{MARK_EX, (any_function)mark_ex},    {MARK_A, (any_function)mark_narrow},
	{MARK_W, (any_function)mark_wide},   {PUSH_EX, (any_function)push_ex},
	{PUSH_A, (any_function)push_narrow}, {PUSH_W, (any_function)push_wide},
	{POP, (any_function)pop_default},
};

static const struct place core2[] = {
	{DOMAIN_MARK_EX, (any_function)domain_mark_ex},
	{DOMAIN_PUSH_EX, (any_function)domain_push_ex},
	{DOMAIN_POP, (any_function)pop},
	{REGISTER_A, (any_function)register_narrow},
	{REGISTER_W, (any_function)register_wide},
	{DOMAIN_CREATE_A, (any_function)create_narrow},
	{DOMAIN_CREATE_W, (any_function)create_wide},
};

static bool fill(const struct callbacks *callbacks, uint32_t module, const struct place *places,
		 size_t count)
{
	any_function **table = NULL;
	unsigned int size = 0;

	if (!callbacks->get_functions(module, &table, &size) || !table)
		return false;
	for (size_t i = 0; i < count; i++)
		if (places[i].number < size && table[places[i].number])
			*table[places[i].number] = places[i].function;
	return true;
}

bool nvtx_is_wanted(void)
{
	return config.nvtx || mark_wanted();
}

bool nvtx_attach(nvtx_get_table get_table)
{
	const struct callbacks *callbacks;

	if (!nvtx_is_wanted() || !get_table)
		return false;
	callbacks = get_table(TABLE_OF_CALLBACKS);
	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return false;
	/* Version 1 has no domains. */
	(void)fill(callbacks, MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
	return fill(callbacks, MODULE_CORE, core, sizeof(core) / sizeof(core[0]));
}
