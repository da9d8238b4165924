// SPDX-License-Identifier: MIT
/*
 * Record reader (record_read.h). Called by the report and its fuzzer; relies only on
 * shim/emit/record.h.
 */
#include "record_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include "memory.h"

/* Every record with an id or number has it right behind the head; the look-ups rely on it. */
struct record_with_id {
	struct record head;
	uint32_t id;
};

#define HAS_ID(type, field)                                                                        \
	_Static_assert(offsetof(struct type, field) == offsetof(struct record_with_id, id), #type)
HAS_ID(record_string, id);
HAS_ID(record_function, number);
HAS_ID(record_rule, number);
HAS_ID(record_module, id);
HAS_ID(record_site, id);
HAS_ID(record_candidate, id);
HAS_ID(record_wait, id);
HAS_ID(record_region, id);
HAS_ID(record_remark, id);

static uint32_t id_of(const struct record *record)
{
	return ((const struct record_with_id *)record)->id;
}

static void problem(struct record_file *file, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void problem(struct record_file *file, const char *format, ...)
{
	if (file->problem_count < RECORD_PROBLEMS_MAX) {
		va_list arguments;

		va_start(arguments, format);
		file->problems[file->problem_count] = memory_vformat(format, arguments);
		va_end(arguments);
	}
	file->problem_count++;
}

/* The list a record goes to and the least size it needs, payload included; SIZE_MAX: refuse it.
 * NULL list: needs no place. */
static struct record_list *place(struct record_file *file, const struct record *record,
				 size_t *ret_need)
{
	size_t fits = record->size;

	switch (record->type) {
	case RECORD_PAD:
		*ret_need = sizeof(struct record);
		return NULL;
	case RECORD_STRING: {
		const struct record_string *string = (const void *)record;

		*ret_need = sizeof(*string);
		if (fits >= *ret_need) {
			*ret_need += (size_t)string->length + 1;
			if (fits >= *ret_need && string->bytes[string->length])
				*ret_need = SIZE_MAX;
		}
		return &file->strings;
	}
	case RECORD_FUNCTION:
		*ret_need = sizeof(struct record_function);
		return &file->functions;
	case RECORD_RULE:
		*ret_need = offsetof(struct record_rule, flags);
		return &file->rules;
	case RECORD_COUNTERS:
	case RECORD_THUNKS: {
		const struct record_counters *counters = (const void *)record;

		*ret_need = sizeof(*counters);
		if (fits >= *ret_need)
			*ret_need += (size_t)counters->functions * sizeof(counters->count[0]);
		return record->type == RECORD_THUNKS ? &file->thunks : &file->counters;
	}
	case RECORD_MODULE: {
		const struct record_module *module = (const void *)record;

		*ret_need = sizeof(*module);
		if (fits >= *ret_need && module->build_id_length > sizeof(module->build_id))
			*ret_need = SIZE_MAX;
		return &file->modules;
	}
	case RECORD_SITE: {
		const struct record_site *site = (const void *)record;

		*ret_need = sizeof(*site);
		if (fits >= *ret_need)
			*ret_need += site->frames * sizeof(struct record_frame) +
				     site->python_frames * sizeof(struct record_python_frame);
		if (fits >= sizeof(*site) &&
		    (site->frames > RECORD_FRAMES_MAX || site->python_frames > RECORD_FRAMES_MAX))
			*ret_need = SIZE_MAX;
		return &file->sites;
	}
	case RECORD_CANDIDATE:
		*ret_need = sizeof(struct record_candidate);
		return &file->candidates;
	case RECORD_WAIT:
		*ret_need = sizeof(struct record_wait);
		return &file->waits;
	case RECORD_WAITED_FOR:
		*ret_need = sizeof(struct record_waited_for);
		return &file->waited_for;
	case RECORD_NOTE:
		*ret_need = offsetof(struct record_note, number);
		return &file->notes;
	case RECORD_REWRITE:
		*ret_need = sizeof(struct record_rewrite);
		return &file->rewrites;
	case RECORD_REWRITE_SITE:
		*ret_need = sizeof(struct record_rewrite_site);
		return &file->rewrite_sites;
	case RECORD_REAL_FREE:
		*ret_need = sizeof(struct record_real_free);
		return &file->real_frees;
	case RECORD_REGION:
		*ret_need = offsetof(struct record_region, parent);
		return &file->regions;
	case RECORD_REMARK:
		*ret_need = sizeof(struct record_remark);
		return &file->remarks;
	/* Nothing of the report: what is too short is passed over. */
	case RECORD_CONTEXT:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_context) ? NULL : &file->contexts;
	case RECORD_STREAM:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_stream) ? NULL : &file->streams;
	case RECORD_CLOCK:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_clock) ? NULL : &file->clocks;
	case RECORD_THREAD:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_thread) ? NULL : &file->threads;
	case RECORD_ORDER:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_order) ? NULL : &file->orders;
	case RECORD_GATE:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_gate) ? NULL : &file->gates;
	case RECORD_HELD:
		*ret_need = sizeof(struct record);
		return fits < sizeof(struct record_held) ? NULL : &file->held;
	case RECORD_HEADER: /* a second one */
		*ret_need = SIZE_MAX;
		return NULL;
	default: /* for the trace only, or newer than this reader */
		*ret_need = sizeof(struct record);
		return NULL;
	}
}

static int by_id(const void *left, const void *right)
{
	const struct record *a = *(const struct record *const *)left;
	const struct record *b = *(const struct record *const *)right;

	if (id_of(a) != id_of(b))
		return id_of(a) < id_of(b) ? -1 : 1;
	return a < b ? -1 : a > b; /* the first in the file stays */
}

static void index_list(struct record_file *file, struct record_list *list, const char *what)
{
	size_t kept = 0;

	if (!list->count)
		return;
	qsort(list->records, list->count, sizeof(list->records[0]), by_id);
	for (size_t i = 0; i < list->count; i++) {
		if (kept && id_of(list->records[kept - 1]) == id_of(list->records[i]))
			problem(file, "%s %" PRIu32 " is there twice, using the first", what,
				id_of(list->records[i]));
		else
			list->records[kept++] = list->records[i];
	}
	list->count = kept;
}

/* Walks the records. Damage costs the rest of its segment, since nothing tells where the next
 * record begins. */
static void scan(struct record_file *file)
{
	size_t at = file->header->head.size;

	while (at < file->size) {
		const struct record *record = (const void *)(file->bytes + at);
		size_t segment_end = (at / RECORD_SEGMENT + 1) * RECORD_SEGMENT;
		struct record_list *list;
		size_t need;

		if (file->size - at < sizeof(*record)) {
			problem(file, "cut off at byte %zu", at);
			return;
		}
		if (record->type == RECORD_NONE && !record->size) {
			at = segment_end;
			continue;
		}
		if (record->size < sizeof(*record) || record->size % RECORD_ALIGN ||
		    record->size > segment_end - at) {
			problem(file,
				"record at byte %zu has an impossible size of %" PRIu32
				", skipping to the next segment",
				at, record->size);
			at = segment_end;
			continue;
		}
		if (record->size > file->size - at) {
			problem(file, "cut off inside the record at byte %zu", at);
			return;
		}

		if (record->type == RECORD_NONE) {
			/* Reserved, not published: its writer is at work or was killed. What
			 * follows it may be whole. */
			at += record->size;
			continue;
		}

		list = place(file, record, &need);
		if (need > record->size) {
			problem(file,
				"record of type %" PRIu32 " at byte %zu is damaged, ignoring it",
				record->type, at);
		} else if (list) {
			list->records = memory_grow(list->records, list->count, &list->capacity,
						    sizeof(list->records[0]));
			list->records[list->count++] = record;
		}
		at += record->size;
	}
}

static int check_header(const struct record_file *file, char **reterr_text)
{
	const struct record_header *header = (const void *)file->bytes;

	if (file->size < sizeof(struct record) || header->head.type == RECORD_NONE)
		*reterr_text =
			memory_format("empty: its process could not write, or ended before it did");
	else if (file->size < offsetof(struct record_header, catalogue_id))
		*reterr_text = memory_format("not a record file: only %zu bytes", file->size);
	else if (header->head.type != RECORD_HEADER || header->magic != RECORD_MAGIC)
		*reterr_text = memory_format("not a record file: its head is another");
	else if (header->version != RECORD_VERSION)
		*reterr_text = memory_format("has version %" PRIu32 ", this slipstream reads %d",
					     header->version, RECORD_VERSION);
	else if (header->head.size < offsetof(struct record_header, rank) ||
		 header->head.size % RECORD_ALIGN || header->head.size > RECORD_SEGMENT ||
		 file->size < header->head.size)
		*reterr_text = memory_format("not a record file: its header is cut off");
	else
		return 0;
	return -EBADMSG;
}

int record_file_parse(const char *path, uint8_t *bytes, size_t size, struct record_file **ret_file,
		      char **reterr_text)
{
	struct record_file *file = memory_new(sizeof(*file));
	int error;

	file->path = memory_copy(path);
	file->bytes = bytes;
	file->size = size;

	error = check_header(file, reterr_text);
	if (error) {
		record_file_free(file);
		return error;
	}
	file->header = (const void *)bytes;

	scan(file);
	index_list(file, &file->strings, "string");
	index_list(file, &file->functions, "function");
	index_list(file, &file->rules, "rule");
	index_list(file, &file->modules, "module");
	index_list(file, &file->sites, "call site");
	index_list(file, &file->candidates, "candidate");
	index_list(file, &file->waits, "wait");
	index_list(file, &file->regions, "region");
	index_list(file, &file->remarks, "remark");
	*ret_file = file;
	return 0;
}

static int fail(int error, char **reterr_text)
{
	*reterr_text = memory_format("%s", strerror(error));
	return -error;
}

int record_file_read(const char *path, struct record_file **ret_file, char **reterr_text)
{
	_cleanup_close_ int descriptor = -1;
	uint8_t *bytes;
	size_t want, size = 0;
	struct stat status;
	bool cut;
	int error;

	/* O_NONBLOCK: a FIFO of that name must not hang the report. */
	descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (descriptor < 0)
		return fail(errno, reterr_text);
	if (fstat(descriptor, &status) < 0)
		return fail(errno, reterr_text);
	if (!S_ISREG(status.st_mode)) {
		*reterr_text = memory_format("not a regular file");
		return -EINVAL;
	}

	cut = (uint64_t)status.st_size > RECORD_FILE_MAX;
	want = cut ? RECORD_FILE_MAX : (size_t)status.st_size;
	bytes = memory_new(want);
	while (size < want) {
		ssize_t got = pread(descriptor, bytes + size, want - size, (off_t)size);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			error = errno;
			free(bytes);
			return fail(error, reterr_text);
		}
		if (!got)
			break;
		size += (size_t)got;
	}

	error = record_file_parse(path, bytes, size, ret_file, reterr_text);
	if (!error && cut)
		problem(*ret_file, "larger than %" PRIu64 " bytes, the rest is not read",
			(uint64_t)RECORD_FILE_MAX);
	return error;
}

bool record_file_is_named(const char *name)
{
	static const char ending[] = ".slip";
	size_t length = strlen(name), tail = sizeof(ending) - 1;

	return length > tail && name[0] != '.' && !strcmp(name + length - tail, ending);
}

struct record_file *record_file_free(struct record_file *file)
{
	if (!file)
		return NULL;

	struct record_list *lists[] = {
		&file->strings,  &file->functions,     &file->rules,      &file->modules,
		&file->sites,    &file->candidates,    &file->waits,      &file->regions,
		&file->counters, &file->thunks,        &file->waited_for, &file->notes,
		&file->rewrites, &file->rewrite_sites, &file->real_frees, &file->contexts,
		&file->streams,  &file->clocks,        &file->threads,    &file->orders,
		&file->gates,    &file->held,          &file->remarks,
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->records);
	for (size_t i = 0; i < RECORD_PROBLEMS_MAX; i++)
		free(file->problems[i]);
	free(file->bytes);
	free(file->path);
	free(file);
	return NULL;
}

const struct record *record_find(const struct record_list *list, uint32_t id)
{
	size_t low = 0, high = list->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint32_t found = id_of(list->records[middle]);

		if (found == id)
			return list->records[middle];
		if (found < id)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

const char *record_string_text(const struct record_file *file, uint32_t id)
{
	const struct record_string *string = (const void *)record_find(&file->strings, id);

	return string ? string->bytes : NULL;
}
