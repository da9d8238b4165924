// SPDX-License-Identifier: MIT
/*
 * Deny list (deny_list.h): one line in, one entry out. Allocates nothing, keeps nothing.
 */
#include "deny_list.h"

#include <string.h>

#define KEY_DIGITS 16
#define WORDS_MAX  3

struct word {
	const char *text;
	size_t length;
};

static bool is(const struct word *word, const char *text)
{
	return word->length == strlen(text) && !memcmp(word->text, text, word->length);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* How many words before a comment; WORDS_MAX + 1: more than fit. */
static size_t split(const char *line, size_t length, struct word *ret_words)
{
	size_t i = 0, count = 0, start;

	for (;;) {
		while (i < length && is_blank(line[i]))
			i++;
		if (i == length || line[i] == '#')
			return count;
		if (count == WORDS_MAX)
			return WORDS_MAX + 1;
		for (start = i; i < length && !is_blank(line[i]); i++)
			;
		ret_words[count++] = (struct word){line + start, i - start};
	}
}

static bool parse_key(const struct word *word, uint64_t *ret_key)
{
	uint64_t key = 0;
	size_t i;
	char c;

	if (word->length != KEY_DIGITS)
		return false;
	for (i = 0; i < word->length; i++) {
		c = word->text[i];
		if (c >= '0' && c <= '9')
			key = key << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			key = key << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret_key = key;
	return key != 0;
}

/* Bit n for the n-th of `words`; 0: a word that is not among them. */
static uint32_t parse_rewrites(const struct word *list, const char *words)
{
	const char *text = list->text, *end = text + list->length, *comma, *word;
	uint32_t bits = 0, bit;
	size_t size;

	for (;; text = comma + 1) {
		comma = memchr(text, ',', (size_t)(end - text));
		if (!comma)
			comma = end;
		for (word = words, bit = 1; *word; word += *word == '|', bit <<= 1) {
			size = strcspn(word, "|");
			if (size == (size_t)(comma - text) && !memcmp(word, text, size))
				break;
			word += size;
		}
		if (!*word)
			return 0;
		bits |= bit;
		if (comma == end)
			return bits;
	}
}

bool deny_means(const struct deny_entry *entry, const char *function)
{
	const char *rest;

	if (strncmp(function, entry->name, entry->length) != 0)
		return false;
	rest = function + entry->length;
	/* cuMemcpy is not cuMemcpyHtoD; cuMemcpyHtoD is cuMemcpyHtoD_v2 and cuMemcpyHtoD_v2_ptds. */
	return !*rest || !strncmp(rest, "_v", 2) || !strcmp(rest, "_ptds") ||
	       !strcmp(rest, "_ptsz");
}

int deny_line(const char *line, size_t length, const char *words, struct deny_entry *ret_entry,
	      const char **reterr_text)
{
	struct deny_entry entry = {.rewrites = UINT32_MAX};
	struct word word[WORDS_MAX];
	size_t count;

	count = split(line, length, word);
	if (!count)
		return 0;
	*reterr_text = "expected: site KEY, file NAME, python FUNCTION or function NAME, then no "
		       "more than a list of rewrites";
	if (count < 2 || count > WORDS_MAX)
		return -1;
	if (is(&word[0], "site"))
		entry.kind = DENY_SITE;
	else if (is(&word[0], "file"))
		entry.kind = DENY_FILE;
	else if (is(&word[0], "python"))
		entry.kind = DENY_PYTHON;
	else if (is(&word[0], "function"))
		entry.kind = DENY_FUNCTION;
	else
		return -1;
	if (entry.kind == DENY_SITE && !parse_key(&word[1], &entry.key)) {
		*reterr_text = "the key of a site is 16 digits, 0 to 9 and a to f";
		return -1;
	}
	entry.name = word[1].text;
	entry.length = word[1].length;
	if (count == WORDS_MAX) {
		entry.rewrites = parse_rewrites(&word[2], words);
		if (!entry.rewrites) {
			*reterr_text = "no such rewrite";
			return -1;
		}
	}
	*ret_entry = entry;
	return 1;
}
