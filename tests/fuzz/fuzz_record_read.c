// SPDX-License-Identifier: MIT
/*
 * Fuzzer: record file -> report -> text (each view) and JSON; the same of the dump. The first byte says whether a good
 * header is put before the rest, so that most inputs reach the records behind it. Also run on a
 * corpus of files by tests/tools/replay.c.
 */
#include <stddef.h>
#include <stdint.h>

#include "dump.h"
#include "memory.h"
#include "report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *make_file(const uint8_t *data, size_t size, size_t *ret_size)
{
	struct record_header header = {
		.head = {.type = RECORD_HEADER, .size = sizeof(header)},
		.magic = RECORD_MAGIC,
		.version = RECORD_VERSION,
		.header_size = sizeof(header),
		.start_ns = 1000,
		.end_ns = 2000,
		.pid = UINT32_MAX,
		.state = RECORD_STATE_EXITED,
		.exe = 1,
		.command = 1,
		.config = 1,
	};
	size_t before = size && data[0] & 1 ? sizeof(header) : 0;
	uint8_t *bytes = memory_new(before + size);

	memcpy(bytes, &header, before);
	if (size)
		memcpy(bytes + before, data + 1, size - 1);
	*ret_size = before + (size ? size - 1 : 0);
	return bytes;
}

/* Nothing raw reaches the terminal. */
static void check_text(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
			abort();
}

static void write_dump(const struct record_file *file)
{
	struct dump_tasks tasks = {0};
	_cleanup_free_ char *text = NULL;
	struct dump dump;
	size_t length;
	FILE *out;

	dump_build(&dump, file, "input", 1, false, &tasks);
	out = memory_check(open_memstream(&text, &length));
	dump_write_text(&dump, out);
	if (fclose(out))
		abort();
	check_text(text, length);
	json_decref(dump_json(&dump));
	dump_done(&dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum report_by views[] = {REPORT_BY_RULE, REPORT_BY_SITE, REPORT_BY_FUNCTION};
	_cleanup_free_ char *error_text = NULL, *text = NULL;
	struct record_file *file;
	struct report *report;
	size_t file_size, length;
	uint8_t *bytes = make_file(data, size, &file_size);
	json_t *object;
	FILE *out;

	if (record_file_parse("input", bytes, file_size, &file, &error_text)) {
		if (!error_text || strchr(error_text, '\n'))
			abort(); /* one line, always */
		return 0;
	}
	write_dump(file);
	report = report_new();
	report_add(report, file);
	report_finish(report, 3000, 0);

	out = memory_check(open_memstream(&text, &length));
	for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
		struct report_style style = {
			.by = views[i], .limit = i ? 2 : 0, .width = i ? 0 : 80};

		report_write_text(report, &style, out);
	}
	if (fclose(out))
		abort();
	check_text(text, length);

	object = report_json(report);
	if (!object)
		abort();
	json_decref(object);
	report_free(report);
	return 0;
}
