// SPDX-License-Identifier: MIT
/*
 * Dump: the records of this process's record file as the definitions of a trace (trace.h). Called by
 * trace.c, by one thread at a time. Relies on the walking rule of record.h alone, and reads the file
 * as a stranger would: it is shared memory that other processes can write to.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "emit/file.h"
#include "emit/trace.h"

/* Bytes of a string in one event: small enough for buffers of one page. */
#define PIECE 512

/* Under the token. What dump_coverage() sends; index is the function number. */
static struct {
	uint64_t calls[FUNCTION_COUNT];
	bool is_handed_out[FUNCTION_COUNT];
} sums;

#define LIVE(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static void send_header(const struct record *record, size_t size)
{
	const struct record_header *header = (const void *)record;
	struct trace_def_process event = {
		.pid = header->pid,
		.parent_pid = header->parent_pid,
		.forked = header->forked,
		.rank = header->rank,
		.start_ns = header->start_ns,
		.catalogue = header->catalogue_id,
		.exe = LIVE(header->exe),
		.command = LIVE(header->command),
		.shim_version = LIVE(header->shim_version),
		.config = LIVE(header->config),
		.driver = LIVE(header->driver),
		.driver_version = LIVE(header->driver_version),
		.dropped = LIVE(header->dropped),
	};

	trace_send(TRACE_DEF_PROCESS, &event);
}

static void send_string(const struct record *record, size_t size)
{
	const struct record_string *string = (const void *)record;
	size_t room = size - sizeof(*string);
	char piece[PIECE + 1];
	struct trace_def_string event = {
		.id = string->id,
		.length = string->length,
		.text = piece,
	};
	size_t part;

	if (event.length > room)
		event.length = (uint32_t)room;
	do {
		part = event.length - event.offset < PIECE ? event.length - event.offset : PIECE;
		memcpy(piece, string->bytes + event.offset, part);
		piece[part] = '\0';
		trace_send(TRACE_DEF_STRING, &event);
		event.offset += (uint32_t)part;
	} while (event.offset < event.length);
}

static void send_function(const struct record *record, size_t size)
{
	const struct record_function *function = (const void *)record;
	struct trace_def_function event = {
		.number = function->number,
		.name = function->name,
		.flags = LIVE(function->flags),
		.handed_out = LIVE(function->handed_out),
	};

	if (event.number < FUNCTION_COUNT)
		sums.is_handed_out[event.number] = event.handed_out > 0;
	trace_send(TRACE_DEF_FUNCTION, &event);
}

static void send_rule(const struct record *record, size_t size)
{
	const struct record_rule *rule = (const void *)record;
	struct trace_def_rule event = {
		.number = rule->number,
		.slug = rule->slug,
		.cause = rule->cause,
		.class = rule->class,
		.flags = rule->flags,
	};

	trace_send(TRACE_DEF_RULE, &event);
}

static void add_counts(const struct record *record, size_t size)
{
	const struct record_counters *counters = (const void *)record;
	size_t room = (size - sizeof(*counters)) / sizeof(counters->count[0]);
	size_t i;

	for (i = 0; i < room && i < FUNCTION_COUNT; i++)
		sums.calls[i] += LIVE(counters->count[i]);
}

static void send_module(const struct record *record, size_t size)
{
	static const char digits[] = "0123456789abcdef";
	const struct record_module *module = (const void *)record;
	char build_id[2 * sizeof(module->build_id) + 1];
	struct trace_def_module event = {
		.id = module->id,
		.path = module->path,
		.base = module->base,
		.build_id = build_id,
	};
	size_t length = module->build_id_length, i;

	if (length > sizeof(module->build_id))
		length = sizeof(module->build_id);
	for (i = 0; i < length; i++) {
		build_id[2 * i] = digits[module->build_id[i] >> 4];
		build_id[2 * i + 1] = digits[module->build_id[i] & 15];
	}
	build_id[2 * length] = '\0';
	trace_send(TRACE_DEF_MODULE, &event);
}

static void send_frames(const struct record_site *site, uint32_t count)
{
	const struct record_frame *frames = (const void *)(site + 1);
	struct trace_def_frame event = {.site = site->id};

	for (; event.index < count; event.index++) {
		event.module = frames[event.index].module;
		event.offset = frames[event.index].offset;
		trace_send(TRACE_DEF_FRAME, &event);
	}
}

static void send_python_frames(const struct record_site *site, const void *from, uint32_t count)
{
	const struct record_python_frame *frames = from;
	struct trace_def_python_frame event = {.site = site->id};

	for (; event.index < count; event.index++) {
		event.file = frames[event.index].file;
		event.function = frames[event.index].function;
		event.line = frames[event.index].line;
		trace_send(TRACE_DEF_PYTHON_FRAME, &event);
	}
}

static void send_site(const struct record *record, size_t size)
{
	const struct record_site *site = (const void *)record;
	struct trace_def_site event = {
		.id = site->id,
		.frames = site->frames,
		.python_frames = site->python_frames,
	};
	size_t native = event.frames * sizeof(struct record_frame);

	if (sizeof(*site) + native + event.python_frames * sizeof(struct record_python_frame) >
	    size)
		return;
	trace_send(TRACE_DEF_SITE, &event);
	send_frames(site, event.frames);
	send_python_frames(site, (const char *)(site + 1) + native, event.python_frames);
}

static void send_context(const struct record *record, size_t size)
{
	const struct record_context *context = (const void *)record;
	struct trace_def_context event = {
		.context = context->number,
		.device = LIVE(context->device),
		.id = context->id,
	};

	trace_send(TRACE_DEF_CONTEXT, &event);
}

static void send_stream(const struct record *record, size_t size)
{
	const struct record_stream *stream = (const void *)record;
	struct trace_def_stream event = {
		.stream = stream->number,
		.kind = LIVE(stream->kind),
		.context = LIVE(stream->context),
		.handle = LIVE(stream->handle),
	};

	trace_send(TRACE_DEF_STREAM, &event);
}

static void send_candidate(const struct record *record, size_t size)
{
	const struct record_candidate *candidate = (const void *)record;
	struct trace_def_candidate event = {
		.id = candidate->id,
		.stream_kind = candidate->stream_kind,
		.context = candidate->context,
		.stream = candidate->stream,
		.operation = candidate->operation,
		.name = candidate->name,
		.certain = candidate->certain,
	};

	trace_send(TRACE_DEF_CANDIDATE, &event);
}

static void send_wait(const struct record *record, size_t size)
{
	const struct record_wait *wait = (const void *)record;
	struct trace_def_wait event = {
		.id = wait->id,
		.function = wait->function,
		.rule = wait->rule,
		.site = wait->site,
		.region = wait->region,
		.source_kind = wait->source_kind,
		.destination_kind = wait->destination_kind,
		.idle_basis = wait->idle_basis,
		.allowed = wait->allowed,
	};

	trace_send(TRACE_DEF_WAIT, &event);
}

static void send_note(const struct record *record, size_t size)
{
	const struct record_note *note = (const void *)record;
	struct trace_def_note event = {
		.note = note->number,
		.code = note->code,
		.text = note->text,
		.count = LIVE(note->count),
	};

	trace_send(TRACE_DEF_NOTE, &event);
}

static void send_region(const struct record *record, size_t size)
{
	const struct record_region *region = (const void *)record;
	struct trace_def_region event = {.id = region->id,
					 .name = region->name,
					 .parent = region->parent,
#define FIGURE(field) .field = LIVE(region->field),
					 RECORD_REGION_FIGURES(FIGURE)
#undef FIGURE
	};

	trace_send(TRACE_DEF_REGION, &event);
}

/* Records without a number of their own are told apart by their place in the file, which has no room for more than 32 bits of them. */
static uint32_t place_of(const struct record *record)
{
	const unsigned char *base = file_base();

	return (uint32_t)((uint64_t)((const unsigned char *)record - base) / RECORD_ALIGN);
}

static void send_rewrite(const struct record *record, size_t size)
{
	const struct record_rewrite *rewrite = (const void *)record;
	struct trace_def_rewrite event = {.rewrite = place_of(record),
					  .name = rewrite->name,
#define FIGURE(field) .field = LIVE(rewrite->field),
					  RECORD_REWRITE_FIGURES(FIGURE)
#undef FIGURE
	};

	trace_send(TRACE_DEF_REWRITE, &event);
}

static void send_rewrite_site(const struct record *record, size_t size)
{
	const struct record_rewrite_site *site = (const void *)record;
	struct trace_def_rewrite_site event = {
		.rewrite_site = place_of(record),
		.site = site->site,
		.name = site->rewrite,
		.function = site->function,
		.calls = LIVE(site->calls),
		.denied = LIVE(site->denied),
	};

	trace_send(TRACE_DEF_REWRITE_SITE, &event);
}

static void send_real_free(const struct record *record, size_t size)
{
	const struct record_real_free *freed = (const void *)record;
	struct trace_def_real_free event = {
		.real_free = place_of(record),
		.site = freed->site,
		.name = freed->rewrite,
		.function = freed->function,
		.why = freed->why,
		.calls = LIVE(freed->calls),
		.blocks = LIVE(freed->blocks),
	};

	trace_send(TRACE_DEF_REAL_FREE, &event);
}

static void send_remark(const struct record *record, size_t size)
{
	const struct record_remark *remark = (const void *)record;
	struct trace_def_remark event = {
		.id = remark->id,
		.rule = remark->rule,
		.function = remark->function,
		.site = remark->site,
		.stream = remark->stream,
		.region = remark->region,
		.allowed = remark->allowed,
		.other_function = remark->other_function,
		.other_site = remark->other_site,
		.other_stream = remark->other_stream,
		.count = LIVE(remark->count),
		.bytes = LIVE(remark->bytes),
		.first_ns = LIVE(remark->first_ns),
		.last_ns = LIVE(remark->last_ns),
	};

	trace_send(TRACE_DEF_REMARK, &event);
}

/* What has no way here is said by the events themselves (record_waited_for). */
static const struct way {
	size_t least; /* bytes of the record */
	void (*send)(const struct record *record, size_t size);
} ways[] = {
	[RECORD_HEADER] = {sizeof(struct record_header), send_header},
	[RECORD_STRING] = {sizeof(struct record_string), send_string},
	[RECORD_FUNCTION] = {sizeof(struct record_function), send_function},
	[RECORD_RULE] = {sizeof(struct record_rule), send_rule},
	[RECORD_COUNTERS] = {sizeof(struct record_counters), add_counts},
	[RECORD_THUNKS] = {sizeof(struct record_counters), add_counts},
	[RECORD_MODULE] = {sizeof(struct record_module), send_module},
	[RECORD_SITE] = {sizeof(struct record_site), send_site},
	[RECORD_CANDIDATE] = {sizeof(struct record_candidate), send_candidate},
	[RECORD_WAIT] = {sizeof(struct record_wait), send_wait},
	[RECORD_NOTE] = {sizeof(struct record_note), send_note},
	[RECORD_REGION] = {sizeof(struct record_region), send_region},
	[RECORD_CONTEXT] = {sizeof(struct record_context), send_context},
	[RECORD_STREAM] = {sizeof(struct record_stream), send_stream},
	[RECORD_REWRITE] = {sizeof(struct record_rewrite), send_rewrite},
	[RECORD_REWRITE_SITE] = {sizeof(struct record_rewrite_site), send_rewrite_site},
	[RECORD_REAL_FREE] = {sizeof(struct record_real_free), send_real_free},
	[RECORD_REMARK] = {sizeof(struct record_remark), send_remark},
};

/* The record at this offset and its size, which lies within the file and its segment; NULL: damaged. */
static const struct record *record_at(uint64_t offset, uint64_t end, uint32_t *ret_size)
{
	const unsigned char *base = file_base();
	uint64_t segment_end = offset - offset % RECORD_SEGMENT + RECORD_SEGMENT;
	const struct record *record = (const void *)(base + offset);

	if (!base || end - offset < sizeof(*record))
		return NULL;
	*ret_size = __atomic_load_n(&record->size, __ATOMIC_ACQUIRE);
	if (*ret_size < sizeof(*record) || *ret_size % RECORD_ALIGN ||
	    *ret_size > segment_end - offset || *ret_size > end - offset)
		return NULL;
	return record;
}

/* False: not published yet. */
static bool send(const struct record *record, uint32_t size)
{
	/* Pairs with the release store in emit_publish(): who sees the type sees the payload. */
	uint32_t type = __atomic_load_n(&record->type, __ATOMIC_ACQUIRE);

	if (type == RECORD_NONE)
		return false;
	if (type < sizeof(ways) / sizeof(ways[0]) && ways[type].send && size >= ways[type].least)
		ways[type].send(record, size);
	return true;
}

void dump_record(uint64_t offset)
{
	uint64_t end = file_used();
	const struct record *record;
	uint32_t size;

	record = offset < end ? record_at(offset, end, &size) : NULL;
	if (record)
		send(record, size);
}

uint64_t dump_records(uint64_t from, struct dump_skipped *ret_skipped)
{
	uint64_t offset = from, at;
	const struct record *record;
	uint32_t size;

	while (offset < file_used()) {
		at = offset;
		record = record_at(offset, file_used(), &size);
		if (!record) {
			offset = offset - offset % RECORD_SEGMENT + RECORD_SEGMENT;
			continue;
		}
		offset += size;
		if (send(record, size))
			continue;
		if (ret_skipped->count < DUMP_SKIPPED_MAX)
			ret_skipped->offset[ret_skipped->count++] = at;
		else
			ret_skipped->count = DUMP_SKIPPED_MAX + 1;
	}
	return offset;
}

void dump_start(void)
{
	memset(&sums, 0, sizeof(sums));
}

void dump_coverage(void)
{
	struct trace_def_coverage event;
	uint32_t function;

	for (function = 0; function < FUNCTION_COUNT; function++) {
		if (!sums.calls[function] && !sums.is_handed_out[function])
			continue;
		event.function = function;
		event.calls = sums.calls[function];
		trace_send(TRACE_DEF_COVERAGE, &event);
	}
}
