// SPDX-License-Identifier: MIT
/*
 * Report, call sites: one site for the same place in all processes, and its frames with names and
 * lines. Called while a report is built, and by the writers, which symbolize only what they show.
 */
#include "report_sites.h"

#include "memory.h"
#include "report.h"
#include "report_order.h"
#include "symbolize.h"
#include "sync/site_key.h"

static uint64_t add_text(uint64_t key, const char *text)
{
	return site_key_text(key, text ? text : "", text ? strlen(text) : 0);
}

/* As the shim makes it, for deny lists. */
static uint64_t site_key(const struct record_file *file, const struct record_site *site)
{
	uint64_t key = SITE_KEY_START;

	for (uint16_t i = 0; i < site->frames; i++) {
		const struct record_frame *frame = &record_site_frames(site)[i];
		const struct record_module *module =
			(const void *)record_find(&file->modules, frame->module);
		const char *path = module ? record_string_text(file, module->path) : NULL;

		key = module ? site_key_frame(key, module->build_id, module->build_id_length,
					      path ? path : "", path ? strlen(path) : 0,
					      frame->offset)
			     : site_key_bytes(key, &frame->offset, sizeof(frame->offset));
	}
	for (uint16_t i = 0; i < site->python_frames; i++) {
		const struct record_python_frame *frame = &record_site_python_frames(site)[i];

		key = add_text(key, record_string_text(file, frame->file));
		key = add_text(key, record_string_text(file, frame->function));
		key = site_key_bytes(key, &frame->line, sizeof(frame->line));
	}
	return site_key_end(key);
}

struct report_site *report_site_of(struct report *report, const struct record_file *file,
				   uint32_t id)
{
	const struct record_site *record = (const void *)record_find(&file->sites, id);
	struct report_site key = {.source = file, .record = record}, *site;

	if (!record || (!record->frames && !record->python_frames))
		return NULL;
	key.id = site_key(file, record);
	site = report_list_find_or_add(&report->sites, &key, sizeof(key), report_site_identity);
	if (!site->python && record->python_frames) {
		site->python = memory_new(record->python_frames * sizeof(site->python[0]));
		for (uint16_t i = 0; i < record->python_frames; i++) {
			const struct record_python_frame *frame =
				&record_site_python_frames(record)[i];

			site->python[i] = (struct report_python_frame){
				.file = record_string_text(file, frame->file),
				.function = record_string_text(file, frame->function),
				.line = frame->line > 0 ? frame->line : 0,
			};
		}
		site->python_count = record->python_frames;
	}
	return site;
}

static struct report_frame *frame_add(struct report_site *site, size_t *capacity)
{
	struct report_frame *frame;

	site->frames = memory_grow(site->frames, site->frame_count, capacity, sizeof(*frame));
	frame = &site->frames[site->frame_count++];
	*frame = (struct report_frame){0};
	return frame;
}

/* False: nothing is known about this place. */
static bool add_symbols(struct report *report, struct report_site *site, size_t *capacity,
			const struct record_module *module, const char *path, uint64_t offset)
{
	const struct symbol_frames *symbols;

	/* The return address lies behind the call: one byte less is inside it. */
	if (!path || !offset || !report->symbolizer ||
	    symbolizer_frame(report->symbolizer, path, module->build_id, module->build_id_length,
			     offset - 1, &symbols))
		return false;
	for (size_t i = 0; i < symbols->count; i++) {
		const struct symbol_frame *symbol = &symbols->frames[i];
		struct report_frame *frame = frame_add(site, capacity);

		frame->function = symbol->function ? memory_copy(symbol->function) : NULL;
		frame->file = symbol->file ? memory_copy(symbol->file) : NULL;
		frame->line = symbol->line;
		frame->module = path;
		frame->offset = offset;
		frame->inlined = i + 1 < symbols->count;
	}
	return symbols->count;
}

/* Announces all frames of the report: a writer asks site by site, and large files would be walked
 * through for each of their frames. What cannot be announced is found all the same. */
static void symbolizer_begin(struct report *report)
{
	report->symbolizer = symbolizer_new();
	for (size_t i = 0; report->symbolizer && i < report->sites.count; i++) {
		const struct report_site *site = report->sites.items[i];

		for (uint16_t k = 0; k < site->record->frames; k++) {
			const struct record_frame *frame = &record_site_frames(site->record)[k];
			const struct record_module *module =
				(const void *)record_find(&site->source->modules, frame->module);
			const char *path =
				module ? record_string_text(site->source, module->path) : NULL;

			if (path && frame->offset)
				(void)symbolizer_expect(report->symbolizer, path, module->build_id,
							module->build_id_length, frame->offset - 1);
		}
	}
}

struct symbolizer *report_symbolizer(struct report *report)
{
	if (!report->symbolizer)
		symbolizer_begin(report);
	return report->symbolizer;
}

void report_site_symbolize(struct report *report, struct report_site *site)
{
	size_t capacity = 0;

	if (site->symbolized)
		return;
	site->symbolized = true;
	(void)report_symbolizer(report);
	for (uint16_t i = 0; i < site->record->frames; i++) {
		const struct record_frame *record = &record_site_frames(site->record)[i];
		const struct record_module *module =
			(const void *)record_find(&site->source->modules, record->module);
		const char *path = module ? record_string_text(site->source, module->path) : NULL;
		struct report_frame *frame;

		if (add_symbols(report, site, &capacity, module, path, record->offset))
			continue;
		frame = frame_add(site, &capacity);
		frame->module = path;
		frame->offset = record->offset;
	}
}

void report_sites_done(struct report *report)
{
	for (size_t i = 0; i < report->sites.count; i++) {
		struct report_site *site = report->sites.items[i];

		for (size_t k = 0; k < site->frame_count; k++) {
			free(site->frames[k].function);
			free(site->frames[k].file);
		}
		free(site->frames);
		free(site->python);
	}
	symbolizer_free(report->symbolizer);
}
