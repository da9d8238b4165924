// SPDX-License-Identifier: MIT
/* Timeline, output (timeline_write.h). jansson writes all values but times, whose decimals must be exact. */
#include "tracing/analysis/timeline_write.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"
#include "text.h"
#include "tracing/analysis/timeline_fixed.h"

#define FRACTION "%" PRId64 ".%03d"

json_t *timeline_text(const char *raw)
{
	_cleanup_free_ char *cut = NULL, *text = NULL;
	size_t length;

	if (!raw)
		return memory_check(json_null());
	cut = memory_check(
		strndup(raw, TIMELINE_TEXT + 1)); /* text_printable() may grow it fourfold */
	text = text_printable(cut, false);
	length = strlen(text);
	if (length > TIMELINE_TEXT) {
		length = TIMELINE_TEXT;
		while (length && (text[length] & 0xc0) == 0x80)
			length--;
		text[length] = '\0';
		return memory_check(json_sprintf("%s\u2026", text));
	}
	return memory_check(json_string(text));
}

json_t *timeline_number(uint64_t value)
{
	return memory_check(json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value));
}

void timeline_set(json_t *object, const char *key, json_t *value)
{
	memory_check(json_object_set_new(object, key, value) ? NULL : object);
}

static int write_bytes(const char *bytes, size_t length, void *out)
{
	return fwrite(bytes, 1, length, out) == length ? 0 : -1;
}

/* Takes the value over. A failed write is found by ferror() at the end. */
static void write_value(struct timeline_file *file, json_t *value)
{
	(void)json_dump_callback(value, write_bytes, file->out, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(value);
}

static void write_us(struct timeline_file *file, const char *key, int64_t ns)
{
	(void)fprintf(file->out, ",\"%s\":" FRACTION, key, ns / 1000, (int)(ns % 1000));
}

/* What came before the origin is moved to it: readers do not take negative times. */
static int64_t since_origin(const struct timeline_file *file, int64_t ns)
{
	int64_t since;

	if (__builtin_sub_overflow(ns, file->origin_ns, &since) || since < 0)
		return 0;
	return since;
}

static void begin_line(struct timeline_file *file, char phase, struct timeline_track track)
{
	(void)fprintf(file->out, "%s{\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
		      file->lines++ ? ",\n" : "", phase, track.pid, track.tid);
}

static void write_name(struct timeline_file *file, const char *name, const char *category)
{
	(void)fputs(",\"name\":", file->out);
	write_value(file, timeline_text(name[0] ? name : "(empty name)"));
	if (category)
		(void)fprintf(file->out, ",\"cat\":\"%s\"", category);
}

static void end_line(struct timeline_file *file, json_t *args)
{
	if (args) {
		(void)fputs(",\"args\":", file->out);
		write_value(file, args);
	}
	(void)fputc('}', file->out);
}

void timeline_file_begin(struct timeline_file *file)
{
	(void)fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file->out);
}

int timeline_file_end(struct timeline_file *file, json_t *other)
{
	(void)fputs("\n],\"otherData\":", file->out);
	write_value(file, other);
	(void)fputs("}\n", file->out);
	errno = 0;
	if (fflush(file->out) || ferror(file->out))
		return errno ? -errno : -EIO;
	return 0;
}

void timeline_slice(struct timeline_file *file, struct timeline_track track, int64_t begin_ns,
		    int64_t end_ns, const char *name, const char *category, json_t *args)
{
	int64_t begin = since_origin(file, begin_ns), end = since_origin(file, end_ns);

	begin_line(file, 'X', track);
	write_us(file, "ts", begin);
	write_us(file, "dur", end > begin ? end - begin : 0);
	write_name(file, name, category);
	end_line(file, args);
}

void timeline_fixed_slice(struct timeline_file *file, struct timeline_track track, int64_t begin_ns,
			  int64_t end_ns, const struct timeline_fixed *text,
			  const struct timeline_value *values, size_t count)
{
	int64_t begin = since_origin(file, begin_ns), end = since_origin(file, end_ns);

	begin_line(file, 'X', track);
	write_us(file, "ts", begin);
	write_us(file, "dur", end > begin ? end - begin : 0);
	(void)fputs(text->head, file->out);
	(void)fputs(",\"args\":{", file->out);
	for (size_t i = 0; i < count; i++)
		if (values[i].value == UINT64_MAX)
			(void)fprintf(file->out, "\"%s\":null,", values[i].name);
		else
			(void)fprintf(file->out, "\"%s\":%" PRIu64 ",", values[i].name,
				      values[i].value < INT64_MAX ? values[i].value
								  : (uint64_t)INT64_MAX);
	(void)fputs(text->args, file->out);
	(void)fputs("}}", file->out);
}

void timeline_instant(struct timeline_file *file, struct timeline_point at, const char *name,
		      const char *category, json_t *args)
{
	begin_line(file, 'i', at.track);
	write_us(file, "ts", since_origin(file, at.ns));
	(void)fputs(",\"s\":\"t\"", file->out);
	write_name(file, name, category);
	end_line(file, args);
}

static void write_end_of_flow(struct timeline_file *file, char phase, const char *name,
			      struct timeline_point at, uint64_t id)
{
	begin_line(file, phase, at.track);
	write_us(file, "ts", since_origin(file, at.ns));
	(void)fprintf(file->out, ",\"id\":%" PRIu64 "%s", id, phase == 'f' ? ",\"bp\":\"e\"" : "");
	write_name(file, name, "flow");
	end_line(file, NULL);
}

void timeline_flow(struct timeline_file *file, const char *name, struct timeline_point from,
		   struct timeline_point to)
{
	uint64_t id = ++file->flows;

	if (to.ns < from.ns) /* readers go by time, and would meet the end first */
		to.ns = from.ns;
	write_end_of_flow(file, 's', name, from, id);
	write_end_of_flow(file, 'f', name, to, id);
}

static void write_metadata(struct timeline_file *file, struct timeline_track track,
			   const char *what, const char *key, json_t *value)
{
	json_t *args = memory_check(json_object());

	timeline_set(args, key, value);
	begin_line(file, 'M', track);
	(void)fprintf(file->out, ",\"name\":\"%s\"", what);
	end_line(file, args);
}

void timeline_name_track(struct timeline_file *file, struct timeline_track track, const char *what,
			 const char *name)
{
	write_metadata(file, track, what, "name", timeline_text(name));
}

void timeline_sort_track(struct timeline_file *file, struct timeline_track track, const char *what,
			 int64_t index)
{
	write_metadata(file, track, what, "sort_index", memory_check(json_integer(index)));
}
