// SPDX-License-Identifier: MIT
/* Events as lines (command_text.h). Called by the writer. */
#include "command_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "tracing/event_table.h"

#define SECOND UINT64_C(1000000000)

void text_out_init(struct text_out *out, FILE *file, const char *host)
{
	size_t length = 0;

	*out = (struct text_out){.file = file};
	for (; *host && length + 1 < sizeof(out->host); host++)
		if (isalnum((unsigned char)*host) || strchr("-._", *host))
			out->host[length++] = *host;
}

static void put_quoted(FILE *file, const char *text)
{
	(void)putc('"', file);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
			(void)putc(c, file);
		else
			(void)fprintf(file, "\\x%02x", c);
	}
	(void)putc('"', file);
}

/* Fields of value 0 are left out: that is what they then read as. */
static void put_field(FILE *file, const struct trace_field *field, const char *payload)
{
	const void *at = payload + field->offset;
	uint64_t wide;
	uint32_t narrow;

	switch (field->type) {
	case TRACE_FIELD_STRING:
		(void)fprintf(file, " %s=", field->name);
		put_quoted(file, *(const char *const *)at);
		return;
	case TRACE_FIELD_U64:
	case TRACE_FIELD_X64:
		memcpy(&wide, at, sizeof(wide));
		if (wide)
			(void)fprintf(file,
				      field->type == TRACE_FIELD_X64 ? " %s=0x%" PRIx64
								     : " %s=%" PRIu64,
				      field->name, wide);
		return;
	case TRACE_FIELD_U32:
	case TRACE_FIELD_I32:
		memcpy(&narrow, at, sizeof(narrow));
		if (!narrow)
			return;
		if (field->type == TRACE_FIELD_I32)
			(void)fprintf(file, " %s=%" PRId32, field->name, (int32_t)narrow);
		else
			(void)fprintf(file, " %s=%" PRIu32, field->name, narrow);
		return;
	}
}

void text_out_event(struct text_out *out, uint64_t ns, uint32_t process, uint32_t thread,
		    enum trace_event event, const void *payload)
{
	const struct trace_event_type *type = &trace_event_types[event];

	if (ns > out->last_ns)
		out->last_ns = ns;
	(void)fprintf(out->file, "%" PRIu64 ".%09" PRIu64, out->last_ns / SECOND,
		      out->last_ns % SECOND);
	if (!out->lines++ && *out->host)
		(void)fprintf(out->file, " host=%s", out->host);
	if (process != out->process || out->lines == 1)
		(void)fprintf(out->file, " pid=%" PRIu32, process);
	if (thread != out->thread || out->lines == 1)
		(void)fprintf(out->file, " tid=%" PRIu32, thread);
	out->process = process;
	out->thread = thread;
	(void)fprintf(out->file, " %s", type->name);
	for (unsigned int i = 0; i < type->field_count; i++)
		put_field(out->file, &type->fields[i], payload);
	(void)putc('\n', out->file);
}
