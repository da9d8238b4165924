// SPDX-License-Identifier: MIT
/*
 * Bisect, words (bisect.h): what can be switched off in mode fix. The words are those of shim/options.def; none is written down here, but
 * for the rule that `strict-WORD` forbids the relaxation WORD. Called by bisect.c after run_options_export().
 */
#include "bisect.h"

#include <string.h>

#include "memory.h"

#define STRICT "strict-"

static const struct row {
	const char *variable;
	const char *standard, *unit;
} rows[] = {
#define OPTION(variable, field, kind, standard, unit, help) {#variable, standard, unit},
#include "options.def"
#undef OPTION
};

static const struct row *find_row(const char *variable)
{
	const struct row *row = rows;

	while (strcmp(row->variable, variable))
		row++;
	return row;
}

/* In effect: the variable's, else the table's. */
static const char *value_of(const struct row *row)
{
	_cleanup_free_ char *name = memory_format("SLIPSTREAM_%s", row->variable);
	const char *value = getenv(name);

	return value && *value ? value : row->standard;
}

static bool has_word(const char *list, char separator, const char *word)
{
	size_t length = strlen(word);

	for (; list; list = strchr(list, separator), list = list ? list + 1 : NULL)
		if (!strncmp(list, word, length) && (!list[length] || list[length] == separator))
			return true;
	return false;
}

static void add(struct bisect_words *words, const char *text, size_t length)
{
	words->words =
		memory_check(reallocarray(words->words, words->count + 1, sizeof(*words->words)));
	words->words[words->count++] = memory_check(strndup(text, length));
}

struct bisect_words bisect_switches(void)
{
	struct bisect_words words = {0};
	const struct row *row = find_row("FIX");
	const char *value = value_of(row), *word;
	size_t length;

	for (word = row->unit; *word; word += length + (word[length] == '|')) {
		_cleanup_free_ char *name = NULL;

		length = strcspn(word, "|");
		name = memory_check(strndup(word, length));
		if (has_word(value, ',', name))
			add(&words, word, length);
	}
	return words;
}

struct bisect_words bisect_relaxations(void)
{
	struct bisect_words words = {0};
	const struct row *row = find_row("RELAX");
	const char *value = value_of(row), *word;
	size_t length;

	for (word = row->unit; *word; word += length + (word[length] == '|')) {
		_cleanup_free_ char *name = NULL, *strict = NULL;

		length = strcspn(word, "|");
		if (!strncmp(word, STRICT, strlen(STRICT)))
			continue;
		name = memory_check(strndup(word, length));
		strict = memory_format(STRICT "%s", name);
		/* What a word can forbid is in effect without being asked for. */
		if (has_word(row->unit, '|', strict) ? !has_word(value, ',', strict)
						     : has_word(value, ',', name))
			add(&words, word, length);
	}
	return words;
}

void bisect_words_done(struct bisect_words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->words[i]);
	free(words->words);
}

static char *append(char *list, const char *word)
{
	char *longer = list ? memory_format("%s,%s", list, word) : memory_copy(word);

	free(list);
	return longer;
}

char *bisect_words_join(const struct bisect_words *words, const bool *off)
{
	char *list = NULL;

	for (size_t i = 0; i < words->count; i++)
		if (!off || !off[i])
			list = append(list, words->words[i]);
	return list;
}

char *bisect_relax_value(const struct bisect_words *relaxations, const bool *off)
{
	const struct row *row = find_row("RELAX");
	const char *value = value_of(row);
	char *list = NULL;

	/* Strict words of the user stay. */
	for (const char *word = value; *word; word += *word == ',') {
		size_t length = strcspn(word, ",");
		_cleanup_free_ char *name = memory_check(strndup(word, length));

		if (!strncmp(word, STRICT, strlen(STRICT)))
			list = append(list, name);
		word += length;
	}
	for (size_t i = 0; i < relaxations->count; i++) {
		_cleanup_free_ char *strict = memory_format(STRICT "%s", relaxations->words[i]);

		if (!off || !off[i])
			list = append(list, relaxations->words[i]);
		else if (has_word(row->unit, '|', strict))
			list = append(list, strict);
	}
	return list;
}
