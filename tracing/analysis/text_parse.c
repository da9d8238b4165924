// SPDX-License-Identifier: MIT
/*
 * Golden traces (text_parse.h). A line is taken apart in its own buffer: words are cut and quoted
 * texts unescaped in place.
 */
#include "tracing/analysis/text_parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>

#include "memory.h"
#include "tracing/analysis/hex.h"
#include "tracing/event_table.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define SECONDS_MAX   UINT64_C(4000000000)

struct text_parser {
	char *name;
	FILE *file;
	char *buffer;
	size_t size;
	uint64_t line;
	char *at; /* what is next in the line */
	int64_t last_ns;
	uint32_t pid, thread; /* of the line before */
	const char *host;
	char **hosts;
	size_t host_count, host_capacity;
};

struct text_parser *text_parser_new(const char *name, FILE *file)
{
	struct text_parser *parser = memory_new(sizeof(*parser));

	parser->name = memory_copy(name);
	parser->file = file;
	parser->host = "";
	return parser;
}

struct text_parser *text_parser_free(struct text_parser *parser)
{
	if (!parser)
		return NULL;
	for (size_t i = 0; i < parser->host_count; i++)
		free(parser->hosts[i]);
	free(parser->hosts);
	(void)fclose(parser->file);
	free(parser->buffer);
	free(parser->name);
	free(parser);
	return NULL;
}

static int fail(const struct text_parser *parser, const char *where, char **reterr_text,
		const char *format, ...) __attribute__((format(printf, 4, 5)));

static int fail(const struct text_parser *parser, const char *where, char **reterr_text,
		const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = memory_vformat(format, arguments);
	va_end(arguments);
	*reterr_text = memory_format("%s:%" PRIu64 ":%zu: %s", parser->name, parser->line,
				     (size_t)(where - parser->buffer) + 1, text);
	return -EBADMSG;
}

/* ---- words ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct text_parser *parser)
{
	while (is_blank(*parser->at))
		parser->at++;
}

static bool at_end(const struct text_parser *parser)
{
	return !*parser->at || *parser->at == '#';
}

/*
 * Up to a blank, or the `=` behind a name. Not empty unless the line is at its end. The character
 * that ended it is in *ret_end and passed; the word ends with a NUL in the buffer.
 */
static char *take_word(struct text_parser *parser, const char *ends, char *ret_end)
{
	char *word = parser->at;
	size_t length = strcspn(word, ends);

	*ret_end = word[length];
	parser->at = word + length + (word[length] != '\0');
	word[length] = '\0';
	return word;
}

/* Behind the backslash; a NUL byte cannot be in a string of a trace. */
static int unescape(struct text_parser *parser, char **from, char **to, char **reterr_text)
{
	static const char letters[] = "nrtab\\\"", values[] = "\n\r\t\a\b\\\"";
	const char *letter = **from ? strchr(letters, **from) : NULL;
	int high, low;

	if (letter) {
		*(*to)++ = values[letter - letters];
		(*from)++;
		return 0;
	}
	high = **from == 'x' ? hex_digit((*from)[1]) : -1;
	low = high >= 0 ? hex_digit((*from)[2]) : -1;
	if (low < 0 || !(high | low))
		return fail(parser, *from - 1, reterr_text,
			    "no such escape (\\n \\r \\t \\a \\b \\\\ \\\" \\xNN)");
	*(*to)++ = (char)(high << 4 | low);
	*from += 3;
	return 0;
}

static int take_quoted(struct text_parser *parser, const char **ret_text, char **reterr_text)
{
	char *start = parser->at, *from = start + 1, *to = start;
	int error;

	if (*start != '"')
		return fail(parser, start, reterr_text, "a text in quotes is expected");
	while (*from != '"') {
		if (!*from)
			return fail(parser, start, reterr_text, "the closing quote is missing");
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		from++;
		error = unescape(parser, &from, &to, reterr_text);
		if (error)
			return error;
	}
	*to = '\0';
	parser->at = from + 1;
	if (*parser->at && !is_blank(*parser->at))
		return fail(parser, parser->at, reterr_text,
			    "a blank is expected behind the quote");
	*ret_text = start;
	return 0;
}

static bool parse_number(const char *word, bool may_be_negative, uint64_t most, uint64_t *ret_value)
{
	bool negative = *word == '-';
	uint64_t value;
	char *end;
	int base = 10;

	if (negative && !may_be_negative)
		return false;
	word += negative;
	if (word[0] == '0' && word[1] == 'x') {
		base = 16;
		word += 2;
	}
	if (!isxdigit((unsigned char)*word))
		return false;
	errno = 0;
	value = strtoull(word, &end, base);
	if (errno || *end || value > most + negative)
		return false;
	*ret_value = negative ? -value : value;
	return true;
}

/* ---- parts of a line ---- */

/* SECONDS[.FRACTION], the fraction of one to nine digits. */
static int take_time(struct text_parser *parser, struct text_line *line, char **reterr_text)
{
	char end, *word = take_word(parser, " \t", &end), *dot = strchr(word, '.');
	uint64_t seconds, fraction = 0, scale = NS_PER_SECOND;

	if (dot)
		*dot = '\0';
	for (const char *digit = dot ? dot + 1 : ""; *digit; digit++) {
		if (!isdigit((unsigned char)*digit) || scale == 1)
			return fail(parser, digit, reterr_text, "no fraction of a second");
		scale /= 10;
		fraction += (uint64_t)(*digit - '0') * scale;
	}
	if ((dot && !dot[1]) || word[strspn(word, "0123456789")] ||
	    !parse_number(word, false, SECONDS_MAX, &seconds))
		return fail(parser, word, reterr_text, "a time in seconds is expected");
	line->ns = (int64_t)(seconds * NS_PER_SECOND + fraction);
	if (line->ns < parser->last_ns)
		return fail(parser, word, reterr_text,
			    "the time is before that of the line before");
	parser->last_ns = line->ns;
	return 0;
}

static const char *host_of(struct text_parser *parser, const char *name)
{
	for (size_t i = 0; i < parser->host_count; i++)
		if (!strcmp(parser->hosts[i], name))
			return parser->hosts[i];
	parser->hosts = memory_grow(parser->hosts, parser->host_count, &parser->host_capacity,
				    sizeof(parser->hosts[0]));
	return parser->hosts[parser->host_count++] = memory_copy(name);
}

/* Who: host=, pid= and tid= in any order, each as on the line before if it is left out. */
static int take_sender(struct text_parser *parser, char **reterr_text)
{
	for (;;) {
		char *word, end;
		uint64_t number;
		uint32_t *into;

		skip_blanks(parser);
		if (!strncmp(parser->at, "host=", 5)) {
			parser->at += 5;
			parser->host = host_of(parser, take_word(parser, " \t", &end));
			continue;
		}
		if (strncmp(parser->at, "pid=", 4) && strncmp(parser->at, "tid=", 4))
			return 0;
		into = *parser->at == 'p' ? &parser->pid : &parser->thread;
		parser->at += 4;
		word = take_word(parser, " \t", &end);
		if (!parse_number(word, false, UINT32_MAX, &number))
			return fail(parser, word, reterr_text, "a number below 2^32 is expected");
		*into = (uint32_t)number;
	}
}

static const struct trace_field *find_field(const struct trace_event_type *type, const char *name)
{
	for (unsigned int i = 0; i < type->field_count; i++)
		if (!strcmp(type->fields[i].name, name))
			return &type->fields[i];
	return NULL;
}

static int take_value(struct text_parser *parser, const struct trace_field *field, void *into,
		      char **reterr_text)
{
	bool is_signed = field->type == TRACE_FIELD_I32;
	bool is_wide = field->type == TRACE_FIELD_U64 || field->type == TRACE_FIELD_X64;
	uint64_t most = is_wide ? UINT64_MAX : is_signed ? INT32_MAX : UINT32_MAX, number;
	char *word, end;

	if (field->type == TRACE_FIELD_STRING)
		return take_quoted(parser, into, reterr_text);
	word = take_word(parser, " \t", &end);
	if (!parse_number(word, is_signed, most, &number))
		return fail(parser, word, reterr_text, "field %s needs %s", field->name,
			    is_wide     ? "a number below 2^64"
			    : is_signed ? "a signed number of 32 bits"
					: "a number below 2^32");
	if (is_wide)
		*(uint64_t *)into = number;
	else
		*(uint32_t *)into = (uint32_t)number;
	return 0;
}

/* A string in one piece needs no length. */
static void add_length(struct text_line *line, uint64_t seen)
{
	const struct trace_event_type *type = &trace_event_types[TRACE_DEF_STRING];
	uint64_t pieces = 1 << (find_field(type, "length") - type->fields) |
			  1 << (find_field(type, "offset") - type->fields);

	if (line->event == TRACE_DEF_STRING && !(seen & pieces))
		line->payload.def_string.length = (uint32_t)strlen(line->payload.def_string.text);
}

static int take_fields(struct text_parser *parser, struct text_line *line, char **reterr_text)
{
	const struct trace_event_type *type = &trace_event_types[line->event];
	char *payload = (char *)&line->payload;
	uint64_t seen = 0;
	int error;

	memset(payload, 0, type->size);
	for (unsigned int i = 0; i < type->field_count; i++)
		if (type->fields[i].type == TRACE_FIELD_STRING)
			*(const char **)(void *)(payload + type->fields[i].offset) = "";
	for (;;) {
		const struct trace_field *field;
		char *name, end;

		skip_blanks(parser);
		if (at_end(parser)) {
			add_length(line, seen);
			return 0;
		}
		name = take_word(parser, "= \t", &end);
		if (end != '=')
			return fail(parser, name, reterr_text, "FIELD=VALUE is expected");
		field = find_field(type, name);
		if (!field)
			return fail(parser, name, reterr_text, "event %s has no field '%s'",
				    type->name, name);
		if (seen & UINT64_C(1) << (field - type->fields))
			return fail(parser, name, reterr_text, "field %s is there twice",
				    field->name);
		seen |= UINT64_C(1) << (field - type->fields);
		error = take_value(parser, field, payload + field->offset, reterr_text);
		if (error)
			return error;
	}
}

/* discarded N */
static int take_discarded(struct text_parser *parser, struct text_line *line, char **reterr_text)
{
	char end, *word;

	line->kind = TEXT_DISCARDED;
	skip_blanks(parser);
	word = take_word(parser, " \t", &end);
	if (!parse_number(word, false, UINT64_MAX, &line->count) || !line->count)
		return fail(parser, word, reterr_text, "a number of lost events is expected");
	return 0;
}

static int take_what(struct text_parser *parser, struct text_line *line, char **reterr_text)
{
	char end, *word;
	int error = 0;

	if (at_end(parser))
		return fail(parser, parser->at, reterr_text, "the name of an event is expected");
	word = take_word(parser, " \t", &end);
	if (!strcmp(word, "discarded")) {
		error = take_discarded(parser, line, reterr_text);
	} else if (strchr(word, ':')) {
		line->kind = TEXT_FOREIGN;
		line->name = word;
	} else {
		line->kind = TEXT_EVENT;
		for (line->event = 0; line->event < TRACE_EVENT_COUNT; line->event++)
			if (!strcmp(word, trace_event_types[line->event].name))
				return take_fields(parser, line, reterr_text);
		return fail(parser, word, reterr_text, "there is no event '%s'", word);
	}
	if (error)
		return error;
	skip_blanks(parser);
	return at_end(parser)
		       ? 0
		       : fail(parser, parser->at, reterr_text, "nothing more is expected here");
}

/* ---- interface ---- */

/* 1: a line is in the buffer; 0: the end. */
static int read_line(struct text_parser *parser, char **reterr_text)
{
	ssize_t length = getline(&parser->buffer, &parser->size, parser->file);
	int error = errno;

	if (length < 0 && ferror(parser->file)) {
		*reterr_text = memory_format("%s: %s", parser->name, strerror(error));
		return -error;
	}
	if (length < 0)
		return 0;
	parser->line++;
	parser->at = parser->buffer;
	if (memchr(parser->buffer, '\0', (size_t)length))
		return fail(parser, parser->buffer + strlen(parser->buffer), reterr_text,
			    "a NUL byte: this is no text");
	if (parser->buffer[length - 1] == '\n')
		parser->buffer[--length] = '\0';
	return 1;
}

int text_parser_next(struct text_parser *parser, struct text_line *ret_line, char **reterr_text)
{
	int status;

	do {
		status = read_line(parser, reterr_text);
		if (status <= 0)
			return status;
		skip_blanks(parser);
	} while (at_end(parser));

	status = take_time(parser, ret_line, reterr_text);
	if (!status)
		status = take_sender(parser, reterr_text);
	ret_line->host = parser->host;
	ret_line->pid = parser->pid;
	ret_line->thread = parser->thread;
	if (!status)
		status = take_what(parser, ret_line, reterr_text);
	return status ? status : 1;
}
