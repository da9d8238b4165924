// SPDX-License-Identifier: MIT
/* Lint, words of a configuration (config.h): numbers, times, dates. Called by config.c. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lint/config.h"
#include "report_select.h"

#define HOUR_NS INT64_C(3600000000000)
#define DAY_S   86400

bool lint_parse_count(const char *text, uint64_t *ret_count)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || digits > 10)
		return false;
	*ret_count = strtoull(text, NULL, 10);
	return *ret_count <= UINT32_MAX;
}

/* Without a unit only 0 is clear. Digits and a point: strtod() knows more, which no one means here. */
bool lint_parse_time(const char *text, uint64_t *ret_ns)
{
	struct report_time time;
	size_t number = strspn(text, "0123456789.");

	if (text[number] == 'e' || text[number] == 'E' || text[number] == 'x' ||
	    text[number] == 'X')
		return false;
	if (!report_time_parse(text, &time) || time.is_share || time.ns < 0 || time.ns > HOUR_NS)
		return false;
	if (!text[number] && time.ns)
		return false;
	*ret_ns = (uint64_t)time.ns;
	return true;
}

bool lint_parse_date(const char *text, int64_t *ret_day)
{
	static const char form[] = "dddd-dd-dd";
	struct tm parts = {0}, again;
	time_t seconds;

	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
			return false;
	parts.tm_year = (int)strtol(text, NULL, 10) - 1900;
	parts.tm_mon = (int)strtol(text + 5, NULL, 10) - 1;
	parts.tm_mday = (int)strtol(text + 8, NULL, 10);
	again = parts;
	seconds = timegm(&again); /* moves what is no day of the month to the next */
	if (again.tm_mon != parts.tm_mon || again.tm_mday != parts.tm_mday)
		return false;
	*ret_day = seconds >= 0 ? seconds / DAY_S : -1;
	return true;
}
