// SPDX-License-Identifier: MIT
/*
 * Call sites in words (timeline_sites.h). What report_sites.c does for record files, for the definitions
 * of a trace. The trace is hostile: counts are those of the parts that came, build ids are checked.
 */
#include "tracing/analysis/timeline_sites.h"

#include <inttypes.h>

#include "memory.h"
#include "symbolize.h"
#include "text.h"
#include "tracing/analysis/hex.h"
#include "tracing/analysis/table.h"

#define BUILD_ID_MAX 64

struct sites {
	struct site **sites;
	size_t count, capacity;
	struct table by_id;   /* struct site *, by process and id */
	struct table by_hash; /* struct site *, by hash */
	struct symbolizer *symbolizer;
};

struct sites *sites_new(void)
{
	struct sites *sites = memory_new(sizeof(*sites));

	sites->by_id.data_size = sizeof(struct site *);
	sites->by_hash.data_size = sizeof(struct site *);
	return sites;
}

struct sites *sites_free(struct sites *sites)
{
	if (!sites)
		return NULL;
	for (size_t i = 0; i < sites->count; i++) {
		struct site *site = sites->sites[i];

		for (size_t k = 0; k < site->frame_count; k++) {
			free(site->frames[k].function);
			free(site->frames[k].file);
		}
		free(site->frames);
		free(site->python);
		free(site->label);
		free(site);
	}
	free(sites->sites);
	table_done(&sites->by_id);
	table_done(&sites->by_hash);
	symbolizer_free(sites->symbolizer);
	free(sites);
	return NULL;
}

size_t sites_count(const struct sites *sites)
{
	return sites->count;
}

struct site *sites_at(const struct sites *sites, size_t number)
{
	return sites->sites[number];
}

/* ---- the same place in all processes ---- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return hash_bytes(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static const struct trace_def_module *find_module(const struct model *model, uint32_t process,
						  uint32_t id)
{
	return id ? model_find(model, process, TRACE_DEF_MODULE, id) : NULL;
}

/* Content, not addresses: load addresses differ from process to process. */
static uint64_t site_hash(const struct model *model, uint32_t process,
			  const struct trace_def_frame *frames, size_t frame_count,
			  const struct trace_def_python_frame *python, size_t python_count)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < frame_count; i++) {
		const struct trace_def_module *module =
			find_module(model, process, frames[i].module);

		if (module && module->build_id && module->build_id[0])
			hash = hash_text(hash, module->build_id);
		else if (module)
			hash = hash_text(hash, model_string(model, process, module->path));
		hash = hash_bytes(hash, &frames[i].offset, sizeof(frames[i].offset));
	}
	for (size_t i = 0; i < python_count; i++) {
		hash = hash_text(hash, model_string(model, process, python[i].file));
		hash = hash_text(hash, model_string(model, process, python[i].function));
		hash = hash_bytes(hash, &python[i].line, sizeof(python[i].line));
	}
	return hash ? hash : 1;
}

struct site *sites_find(struct sites *sites, const struct model *model, uint32_t process,
			uint32_t id)
{
	struct site **place = id ? table_find(&sites->by_id, id, process) : NULL;
	const struct trace_def_site *definition;
	const struct trace_def_frame *frames;
	const struct trace_def_python_frame *python;
	size_t frame_count, python_count;
	struct site *site;
	uint64_t hash;
	bool is_new;

	if (place)
		return *place;
	definition = id ? model_find(model, process, TRACE_DEF_SITE, id) : NULL;
	if (!definition)
		return NULL;
	frames = model_parts(model, process, TRACE_DEF_FRAME, id, &frame_count);
	python = model_parts(model, process, TRACE_DEF_PYTHON_FRAME, id, &python_count);
	if (frame_count < definition->frames || python_count < definition->python_frames ||
	    frame_count + python_count == 0)
		return NULL;
	hash = site_hash(model, process, frames, frame_count, python, python_count);
	place = table_add(&sites->by_hash, hash, 0, &is_new);
	if (is_new) {
		site = *place = memory_new(sizeof(*site));
		site->hash = hash;
		site->number = (uint32_t)sites->count;
		site->process = process;
		site->id = id;
		sites->sites =
			memory_grow(sites->sites, sites->count, &sites->capacity, sizeof(site));
		sites->sites[sites->count++] = site;
	}
	site = *place;
	*(struct site **)table_add(&sites->by_id, id, process, &is_new) = site;
	return site;
}

/* ---- names and lines ---- */

/* The bytes of a build id; 0: it is none. */
static size_t build_id_bytes(const char *text, uint8_t bytes[BUILD_ID_MAX])
{
	size_t length = 0;

	for (; text && text[0] && length < BUILD_ID_MAX; text += 2) {
		int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);

		if (low < 0)
			return 0;
		bytes[length++] = (uint8_t)(high << 4 | low);
	}
	return length;
}

static struct site_frame *frame_add(struct site *site, size_t *capacity)
{
	struct site_frame *frame;

	site->frames = memory_grow(site->frames, site->frame_count, capacity, sizeof(*frame));
	frame = &site->frames[site->frame_count++];
	*frame = (struct site_frame){0};
	return frame;
}

/* False: nothing is known about this place. */
static bool add_symbols(struct sites *sites, struct site *site, size_t *capacity,
			const struct trace_def_module *module, const char *path, uint64_t offset)
{
	uint8_t build_id[BUILD_ID_MAX];
	const struct symbol_frames *symbols;

	/* The return address lies behind the call: one byte less is inside it. */
	if (!sites->symbolizer || !path || !offset ||
	    symbolizer_frame(sites->symbolizer, path, build_id,
			     build_id_bytes(module->build_id, build_id), offset - 1, &symbols))
		return false;
	for (size_t i = 0; i < symbols->count; i++) {
		const struct symbol_frame *symbol = &symbols->frames[i];
		struct site_frame *frame = frame_add(site, capacity);

		frame->function = symbol->function ? memory_copy(symbol->function) : NULL;
		frame->file = symbol->file ? memory_copy(symbol->file) : NULL;
		frame->line = symbol->line;
		frame->module = path;
		frame->offset = offset;
		frame->inlined = i + 1 < symbols->count;
	}
	return symbols->count;
}

/* Announces the frames of all sites known by now: a large file is then walked through once. */
static void begin_symbols(struct sites *sites, const struct model *model)
{
	sites->symbolizer = symbolizer_new();
	for (size_t i = 0; sites->symbolizer && i < sites->count; i++) {
		const struct site *site = sites->sites[i];
		size_t count;
		const struct trace_def_frame *frames =
			model_parts(model, site->process, TRACE_DEF_FRAME, site->id, &count);

		for (size_t k = 0; k < count; k++) {
			const struct trace_def_module *module =
				find_module(model, site->process, frames[k].module);
			const char *path =
				module ? model_string(model, site->process, module->path) : NULL;
			uint8_t build_id[BUILD_ID_MAX];

			if (path && frames[k].offset)
				(void)symbolizer_expect(sites->symbolizer, path, build_id,
							build_id_bytes(module->build_id, build_id),
							frames[k].offset - 1);
		}
	}
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* What a person looks for first: the Python line, else the innermost line of source, else a name. */
static char *label_of(const struct site *site)
{
	const struct site_frame *best = NULL;
	_cleanup_free_ char *raw = NULL;

	if (site->python_count && site->python[0].file) {
		raw = memory_format("%s:%" PRIi32 " %s", base_name(site->python[0].file),
				    site->python[0].line,
				    site->python[0].function ? site->python[0].function : "");
		return text_printable(raw, false);
	}
	for (size_t i = 0; i < site->frame_count && !best; i++)
		if (site->frames[i].file && site->frames[i].line)
			best = &site->frames[i];
	for (size_t i = 0; i < site->frame_count && !best; i++)
		if (site->frames[i].function)
			best = &site->frames[i];
	if (!best && site->frame_count)
		best = &site->frames[0];
	if (best && best->file && best->line)
		raw = memory_format("%s:%" PRIu32 " %s", base_name(best->file), best->line,
				    best->function ? best->function : "");
	else if (best && best->function)
		raw = memory_format("%s in %s", best->function,
				    best->module ? base_name(best->module) : "no module");
	else
		raw = memory_format("%s+0x%" PRIx64,
				    best && best->module ? base_name(best->module) : "address",
				    best ? best->offset : 0);
	return text_printable(raw, false);
}

static void add_python(const struct model *model, struct site *site)
{
	const struct trace_def_python_frame *python = model_parts(
		model, site->process, TRACE_DEF_PYTHON_FRAME, site->id, &site->python_count);

	site->python = memory_new(site->python_count * sizeof(site->python[0]));
	for (size_t i = 0; i < site->python_count; i++)
		site->python[i] = (struct site_python_frame){
			.file = model_string(model, site->process, python[i].file),
			.function = model_string(model, site->process, python[i].function),
			.line = python[i].line > 0 ? python[i].line : 0,
		};
}

void sites_symbolize(struct sites *sites, const struct model *model, struct site *site,
		     bool with_symbols)
{
	const struct trace_def_frame *frames;
	size_t count, capacity = 0;

	if (site->label)
		return;
	if (with_symbols && !sites->symbolizer)
		begin_symbols(sites, model);
	frames = model_parts(model, site->process, TRACE_DEF_FRAME, site->id, &count);
	for (size_t i = 0; i < count; i++) {
		const struct trace_def_module *module =
			find_module(model, site->process, frames[i].module);
		const char *path = module ? model_string(model, site->process, module->path) : NULL;
		struct site_frame *frame;

		if (with_symbols &&
		    add_symbols(sites, site, &capacity, module, path, frames[i].offset))
			continue;
		frame = frame_add(site, &capacity);
		frame->module = path;
		frame->offset = frames[i].offset;
	}
	add_python(model, site);
	site->label = label_of(site);
}
