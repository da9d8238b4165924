// SPDX-License-Identifier: MIT
/*
 * Text: figures with units and the escape of foreign names (text.h). Called by the report and the
 * doctor; relies on nothing.
 */
#include "text.h"

#include <stdarg.h>
#include <string.h>

#include "memory.h"

char *memory_vformat(const char *format, va_list arguments)
{
	char *text = NULL;
	int length = vasprintf(&text, format, arguments);

	return memory_check(length < 0 ? NULL : text);
}

char *memory_format(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = memory_vformat(format, arguments);
	va_end(arguments);
	return text;
}

/* Three significant digits, as many as a person compares. */
static const char *scaled(double value, const char *unit, char figure[TEXT_FIGURE])
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	(void)snprintf(figure, TEXT_FIGURE, "%.*f %s", decimals, value, unit);
	return figure;
}

const char *text_ns(uint64_t ns, char figure[TEXT_FIGURE])
{
	if (ns < 1000) {
		(void)snprintf(figure, TEXT_FIGURE, "%u ns", (unsigned int)ns);
		return figure;
	}
	if (ns < 999500)
		return scaled((double)ns / 1e3, "us", figure);
	if (ns < 999500000)
		return scaled((double)ns / 1e6, "ms", figure);
	return scaled((double)ns / 1e9, "s", figure);
}

const char *text_bytes(uint64_t bytes, char figure[TEXT_FIGURE])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		(void)snprintf(figure, TEXT_FIGURE, "%u B", (unsigned int)bytes);
		return figure;
	}
	while (value >= 1023.5 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	return scaled(value, units[unit], figure);
}

const char *text_share(uint64_t part, uint64_t whole, char figure[TEXT_FIGURE])
{
	if (!whole)
		(void)snprintf(figure, TEXT_FIGURE, "-");
	else
		(void)snprintf(figure, TEXT_FIGURE, "%.1f %%", 100 * (double)part / (double)whole);
	return figure;
}

/* Length of the valid UTF-8 sequence at `bytes`, 0 if there is none. Surrogates and overlong forms
 * are not valid. */
static size_t utf8_length(const unsigned char *bytes, uint32_t *ret_point)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t point;
	size_t length;

	if (bytes[0] < 0x80) {
		*ret_point = bytes[0];
		return 1;
	}
	if (bytes[0] >= 0xc2 && bytes[0] < 0xe0)
		length = 2;
	else if (bytes[0] >= 0xe0 && bytes[0] < 0xf0)
		length = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] < 0xf5)
		length = 4;
	else
		return 0;

	point = bytes[0] & (0x7f >> length);
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (bytes[i] & 0x3f);
	}
	if (point < smallest[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
		return 0;
	*ret_point = point;
	return length;
}

/* C0, DEL, C1, and the marks that reorder or hide text on a terminal. */
static bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
	       (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
	       (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
}

char *text_printable(const char *raw, bool keep_control)
{
	const unsigned char *bytes = (const unsigned char *)raw;
	char *text = memory_new(4 * strlen(raw) + 1);
	char *end = text;

	while (*bytes) {
		uint32_t point = 0;
		size_t length = utf8_length(bytes, &point);

		if (length && (keep_control || !is_control(point))) {
			memcpy(end, bytes, length);
			end += length;
			bytes += length;
			continue;
		}
		for (size_t i = 0; i < (length ? length : 1); i++)
			end += sprintf(end, "\\x%02x", *bytes++);
	}
	*end = '\0';
	return text;
}

size_t text_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}
