// SPDX-License-Identifier: MIT
/*
 * Emit: opening the record file, what it begins with, notes and findings (emit.h). Called by every
 * other room. Relies on file.c for room, intern.c for ids, the catalogue for names, config for
 * where.
 *
 * phase	CLOSED -> OPENING -> OPEN or FAILED, by compare-and-swap; release store when OPEN,
 *		acquire load in emit_is_open(). A forked child goes back to CLOSED.
 * early	what is told before the file is open (hand-outs, notes, the driver's path), under
 *		emit's lock; written into the file by emit_open(). Nothing is opened for a process
 *		that never uses CUDA.
 */
#include "emit/emit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/file.h"
#include "emit/intern.h"
#include "emit/internal.h"
#include "emit/lock.h"
#include "emit/memo.h"
#include "emit/trace.h"
#include "emit/usdt.h"
#include "uncancelled.h"

enum phase { PHASE_CLOSED, PHASE_OPENING, PHASE_OPEN, PHASE_FAILED };

#define EARLY_NOTES          64
#define TEXT_LENGTH          4096
#define REGIONS_WITHOUT_WAIT 1024
#define OPEN_PATIENCE        200 /* times 100 us that a second thread waits for the opener */

__thread uint32_t lock_held __attribute__((tls_model("initial-exec")));

static struct lock lock = LOCK_INITIALIZER(LOCK_EMIT);
static int phase;
static bool forked;   /* a parent of this process had a record file */
static uint32_t home; /* the process this memory belongs to; a vfork child is another */
static uint32_t generation = 1;
static uint64_t lost_before; /* dropped while no header could count it */

static struct record_function *function_records[FUNCTION_COUNT]; /* release / acquire */

static struct {
	uint32_t handed_out[FUNCTION_COUNT];
	bool in_driver[FUNCTION_COUNT];
	struct {
		enum note_code code;
		uint32_t count;
		char text[160];
	} note[EARLY_NOTES];
	uint32_t notes;
	char driver[1024];
	int driver_version;
} early;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

bool emit_lock(void)
{
	return lock_take(&lock);
}

void emit_unlock(void)
{
	lock_give(&lock);
}

bool emit_is_open(void)
{
	return __atomic_load_n(&phase, __ATOMIC_ACQUIRE) == PHASE_OPEN;
}

void emit_count_dropped(void)
{
	struct record_header *header = file_base();
	uint64_t *dropped = header ? &header->dropped : &lost_before;

	__atomic_fetch_add(dropped, 1, __ATOMIC_RELAXED);
}

void *emit_take_locked(size_t size)
{
	int saved_errno = errno;
	void *record;

	record = file_take((size + RECORD_ALIGN - 1) & ~(size_t)(RECORD_ALIGN - 1));
	errno = saved_errno;
	return record;
}

void *emit_reserve(size_t size)
{
	void *record = NULL;

	if (!emit_is_open())
		return NULL;
	if (emit_lock()) {
		record = emit_take_locked(size);
		emit_unlock();
	}
	if (!record)
		emit_count_dropped();
	return record;
}

void emit_publish(void *record, enum record_type type)
{
	/* Pairs with the acquire load of the type in the reader: who sees it sees the payload. */
	__atomic_store_n(&((struct record *)record)->type, type, __ATOMIC_RELEASE);
	if (__builtin_expect(trace_is_loaded(), 0))
		trace_published(record);
}

uint32_t emit_string(const char *bytes, size_t length)
{
	if (!emit_is_open() || !bytes)
		return 0;
	if (length > RECORD_SEGMENT / 2)
		length = RECORD_SEGMENT / 2;
	return intern_string(bytes, length);
}

const char *emit_string_bytes(uint32_t id, size_t *ret_length)
{
	return emit_is_open() ? intern_string_bytes(id, ret_length) : NULL;
}

static uint32_t text_id(const char *text)
{
	return text ? intern_string(text, strlen(text)) : 0;
}

struct record_region *emit_region(uint32_t parent, const char *name, uint32_t *ret_id)
{
	uint32_t text;

	if (!emit_is_open() || !name)
		return NULL;
	text = emit_string(name, strnlen(name, TEXT_LENGTH));
	return text ? intern_region(parent, text, ret_id) : NULL;
}

struct record_region *emit_region_early(uint32_t parent, const char *name, uint32_t *ret_id)
{
	if (!emit_is_open())
		return NULL;
	return intern_regions() < REGIONS_WITHOUT_WAIT
		       ? emit_region(parent, name, ret_id)
		       : intern_known_region(parent, name, strnlen(name, TEXT_LENGTH), ret_id);
}

/* Under emit's lock: the figure and its entry belong together. */
static void raise_pair(uint64_t *figure, uint64_t *entry, uint64_t value, uint64_t number)
{
	if (value <= __atomic_load_n(figure, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(figure, value, __ATOMIC_RELAXED);
	__atomic_store_n(entry, number, __ATOMIC_RELAXED);
}

void emit_region_raise(struct record_region *record, uint64_t number,
		       const struct emit_spent *spent)
{
	if (spent->implicit <= __atomic_load_n(&record->implicit, __ATOMIC_RELAXED) &&
	    spent->explicit <= __atomic_load_n(&record->explicit, __ATOMIC_RELAXED) &&
	    spent->blocked_ns <= __atomic_load_n(&record->blocked_ns, __ATOMIC_RELAXED))
		return;
	if (!emit_lock()) {
		emit_count_dropped();
		return;
	}
	raise_pair(&record->implicit, &record->implicit_entry, spent->implicit, number);
	raise_pair(&record->explicit, &record->explicit_entry, spent->explicit, number);
	raise_pair(&record->blocked_ns, &record->blocked_entry, spent->blocked_ns, number);
	emit_unlock();
}

static void note_early(enum note_code code, const char *text)
{
	uint32_t i;

	if (!emit_lock()) {
		emit_count_dropped();
		return;
	}
	for (i = 0; i < early.notes; i++)
		if (early.note[i].code == code &&
		    !strncmp(early.note[i].text, text, sizeof(early.note[i].text) - 1))
			break;
	if (i < EARLY_NOTES) {
		if (i == early.notes) {
			early.note[i].code = code;
			early.note[i].count = 0;
			strncpy(early.note[i].text, text, sizeof(early.note[i].text) - 1);
			early.notes++;
		}
		early.note[i].count++;
	} else {
		emit_count_dropped();
	}
	emit_unlock();
}

static void note_now(enum note_code code, const char *text, uint64_t count)
{
	struct record_note *note;
	uint32_t id = intern_string(text, strnlen(text, TEXT_LENGTH));

	note = id ? intern_note(code, id) : NULL;
	if (note)
		__atomic_fetch_add(&note->count, count, __ATOMIC_RELAXED);
}

void emit_note(enum note_code code, const char *text)
{
	if (!text)
		text = "";
	if (emit_is_open())
		note_now(code, text, 1);
	else
		note_early(code, text);
}

void emit_function_handed_out(uint32_t function)
{
	struct record_function *record;

	if (function >= FUNCTION_COUNT)
		return;
	/* Pairs with the release store in write_functions(). */
	record = __atomic_load_n(&function_records[function], __ATOMIC_ACQUIRE);
	__atomic_fetch_add(record ? &record->handed_out : &early.handed_out[function], 1,
			   __ATOMIC_RELAXED);
}

void emit_function_in_driver(uint32_t function)
{
	struct record_function *record;

	if (function >= FUNCTION_COUNT)
		return;
	__atomic_store_n(&early.in_driver[function], true, __ATOMIC_RELAXED);
	/* Pairs with the release store in write_functions(). */
	record = __atomic_load_n(&function_records[function], __ATOMIC_ACQUIRE);
	if (record)
		__atomic_fetch_or(&record->flags, RECORD_FUNCTION_IN_DRIVER, __ATOMIC_RELAXED);
}

void emit_driver(const char *path, int version)
{
	struct record_header *header;
	uint32_t id = 0;

	if (emit_lock()) {
		if (path)
			strncpy(early.driver, path, sizeof(early.driver) - 1);
		if (version)
			early.driver_version = version;
		emit_unlock();
	}
	if (!emit_is_open())
		return;
	header = file_base();
	if (path)
		id = emit_string(path, strnlen(path, TEXT_LENGTH));
	if (id)
		__atomic_store_n(&header->driver, id, __ATOMIC_RELAXED);
	if (version)
		__atomic_store_n(&header->driver_version, version, __ATOMIC_RELAXED);
}

/* Adds up in place; the record is live. A join on the device has no time and no bytes, and each locked instruction costs a launch 5 to 20 ns. */
static void add_to(uint64_t *live, uint64_t value)
{
	if (value)
		__atomic_fetch_add(live, value, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *live, uint64_t value)
{
	uint64_t seen = __atomic_load_n(live, __ATOMIC_RELAXED);

	while (seen < value && !__atomic_compare_exchange_n(live, &seen, value, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* The ids of those that are known, for the trace. */
static uint32_t name_candidates(const struct emit_finding *finding,
				uint32_t known[EMIT_CANDIDATES_MAX])
{
	uint32_t i, id, count = 0;

	for (i = 0; i < finding->candidate_count && count < EMIT_CANDIDATES_MAX; i++) {
		id = intern_candidate(&finding->candidates[i]);
		if (id)
			known[count++] = id;
	}
	return count;
}

void emit_wait(const struct emit_finding *finding)
{
	struct record_waited_for *waited_for;
	struct record_wait *wait;
	struct memo *memo;
	uint32_t known[EMIT_CANDIDATES_MAX];
	uint32_t wait_id, i;

	if (!emit_is_open())
		return;
	memo = memo_own();
	wait = memo_wait(memo, finding, &wait_id);
	if (!wait)
		return;
	add_to(&wait->count, 1);
	add_to(&wait->blocked_ns, finding->blocked_ns);
	add_to(&wait->call_ns, finding->call_ns);
	add_to(&wait->bytes, finding->bytes);
	raise_to(&wait->blocked_max, finding->blocked_ns);
	raise_to(&wait->last_ns, finding->returned_ns);
	for (i = 0; i < finding->candidate_count; i++) {
		waited_for = memo_waited_for(memo, wait_id, &finding->candidates[i]);
		if (!waited_for)
			continue;
		add_to(&waited_for->count, 1);
		add_to(&waited_for->blocked_ns, finding->blocked_ns);
	}
	if (__builtin_expect(trace_wants_waits(), 0))
		trace_wait(finding, wait_id, known, name_candidates(finding, known));
	USDT_WAIT(finding->rule, finding->function, finding->blocked_ns, finding->site);
}

void emit_remark(const struct emit_remark *remark)
{
	struct record_remark *record;

	if (!emit_is_open())
		return;
	record = intern_remark(remark);
	if (!record)
		return;
	add_to(&record->count, 1);
	add_to(&record->bytes, remark->bytes);
	raise_to(&record->last_ns, remark->ns);
}

struct record_remark *emit_remark_open(const struct emit_remark *remark)
{
	struct record_remark *record = emit_is_open() ? intern_remark(remark) : NULL;

	if (record)
		raise_to(&record->last_ns, remark->ns);
	return record;
}

void emit_remark_count(struct record_remark *record, int64_t calls)
{
	add_to(&record->count, (uint64_t)calls);
}

bool emit_records(enum trace_event event)
{
	/* Pairs with the release store in load_provider(): the provider is whole. */
	const struct trace_emitter *emitters = __atomic_load_n(&trace_emitters, __ATOMIC_ACQUIRE);
	int saved_errno = errno;
	bool records = emitters && __atomic_load_n(emitters[event].state, __ATOMIC_RELAXED) &&
		       emitters[event].is_enabled();

	errno = saved_errno;
	return records;
}

static void write_functions(void)
{
	struct record_function *record;
	uint32_t number, name;

	for (number = 0; number < FUNCTION_COUNT; number++) {
		name = text_id(function_names[number]);
		if (!emit_lock())
			return;
		record = emit_take_locked(sizeof(*record));
		emit_unlock();
		if (!record) {
			emit_count_dropped();
			return;
		}
		record->number = number;
		record->name = name;
		if (number < FUNCTION_WRAPPED_COUNT)
			record->flags = RECORD_FUNCTION_WRAPPED;
		if (__atomic_load_n(&early.in_driver[number], __ATOMIC_RELAXED))
			record->flags |= RECORD_FUNCTION_IN_DRIVER;
		emit_publish(record, RECORD_FUNCTION);
		/*
		 * Pairs with the acquire load in emit_function_handed_out(). What others add to the
		 * early count after the exchange is lost: one hand-out while another thread opens.
		 */
		__atomic_store_n(&function_records[number], record, __ATOMIC_RELEASE);
		__atomic_fetch_add(
			&record->handed_out,
			__atomic_exchange_n(&early.handed_out[number], 0, __ATOMIC_RELAXED),
			__ATOMIC_RELAXED);
	}
}

static void write_rules(void)
{
	const struct catalogue_rule *rule;
	struct record_rule *record;
	uint32_t number, slug, cause;

	for (number = 0; number < RULE_COUNT; number++) {
		rule = &catalogue_rules[number];
		slug = text_id(rule->slug);
		cause = text_id(rule->cause);
		if (!emit_lock())
			return;
		record = emit_take_locked(sizeof(*record));
		emit_unlock();
		if (!record) {
			emit_count_dropped();
			return;
		}
		record->number = number;
		record->slug = slug;
		record->cause = cause;
		record->class = rule->wait_class;
		record->flags = rule->flags;
		record->padding = 0;
		emit_publish(record, RECORD_RULE);
	}
}

static void write_early(struct record_header *header)
{
	uint32_t i;

	for (i = 0; i < early.notes; i++)
		note_now(early.note[i].code, early.note[i].text, early.note[i].count);
	early.notes = 0;
	if (early.driver[0])
		header->driver = text_id(early.driver);
	header->driver_version = early.driver_version;
}

static int open_file(uint32_t pid, uint64_t start_ns)
{
	char line[512];
	int err, length;

	if (!config.out || !config.out[0])
		return file_open(NULL, pid, start_ns);
	err = file_open(config.out, pid, start_ns);
	if (!err)
		return 0;
	length = snprintf(line, sizeof(line),
			  "slipstream: cannot write records into '%.300s' (SLIPSTREAM_OUT): %s\n",
			  config.out, strerrordesc_np(-err));
	if (length > 0 && uncancelled_write(STDERR_FILENO, line, (size_t)length) < 0) {
		/* Nobody to tell. */
	}
	return file_open(NULL, pid, start_ns);
}

static bool open_here(void)
{
	struct record_header *header;
	uint32_t pid = (uint32_t)getpid();
	uint64_t start_ns = now();

	if (!emit_lock())
		return false;
	config_tell();
	if (open_file(pid, start_ns)) {
		emit_unlock();
		return false;
	}
	header = file_take(sizeof(*header));
	header->magic = RECORD_MAGIC;
	header->version = RECORD_VERSION;
	header->header_size = sizeof(*header);
	header->catalogue_id = catalogue_id;
	header->start_ns = start_ns;
	header->pid = pid;
	header->parent_pid = (uint32_t)getppid();
	header->state = RECORD_STATE_LIVE;
	header->forked = forked;
	header->rank = config.rank;
	header->dropped = __atomic_exchange_n(&lost_before, 0, __ATOMIC_RELAXED);
	emit_publish(header, RECORD_HEADER);
	emit_unlock();
	header->exe = process_executable();
	header->command = process_command();
	header->shim_version = text_id(SLIPSTREAM_VERSION);
	header->config = process_settings();
	write_functions();
	write_rules();
	write_early(header);
	return true;
}

/* Runs before the program's threads; a vfork child shares this memory but not the number. */
static void __attribute__((constructor)) remember_home(void)
{
	if (!home)
		__atomic_store_n(&home, (uint32_t)getpid(), __ATOMIC_RELAXED);
}

bool emit_open(void)
{
	int saved_errno = errno;
	int seen = PHASE_CLOSED;
	int patience = OPEN_PATIENCE;

	if (emit_is_open())
		return true;
	/* A vfork child must leave its parent's memory as it is. */
	remember_home();
	if ((uint32_t)getpid() != __atomic_load_n(&home, __ATOMIC_RELAXED))
		return false;
	/* The acquires pair with the release stores of `phase`, here and in emit_forked(). */
	if (__atomic_compare_exchange_n(&phase, &seen, PHASE_OPENING, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		/* A signal handler of this thread finds OPENING and the lock mark, and goes on. */
		seen = open_here() ? PHASE_OPEN : PHASE_FAILED;
		/* Pairs with the acquire load in emit_is_open(). */
		__atomic_store_n(&phase, seen, __ATOMIC_RELEASE);
		if (seen == PHASE_OPEN)
			trace_opened();
	}
	while (seen == PHASE_OPENING && patience-- > 0) {
		uncancelled_nap(100000);
		seen = __atomic_load_n(&phase, __ATOMIC_ACQUIRE);
	}
	errno = saved_errno;
	return seen == PHASE_OPEN;
}

uint32_t emit_generation(void)
{
	return emit_is_open() ? __atomic_load_n(&generation, __ATOMIC_RELAXED) : 0;
}

void emit_forked(void)
{
	int saved_errno = errno;
	uint32_t i;

	lock_reset(&lock);
	forked = forked || file_base();
	file_abandon();
	intern_clear();
	counters_clear();
	busy_clear();
	for (i = 0; i < FUNCTION_COUNT; i++)
		__atomic_store_n(&function_records[i], NULL, __ATOMIC_RELEASE);
	early.notes = 0;
	lost_before = 0;
	__atomic_store_n(&home, (uint32_t)getpid(), __ATOMIC_RELAXED);
	generation++;
	__atomic_store_n(&phase, PHASE_CLOSED, __ATOMIC_RELEASE);
	trace_forked();
	errno = saved_errno;
}

void emit_finish(void)
{
	struct record_header *header = file_base();
	int saved_errno = errno;

	/* A vfork child that exits by mistake through exit() is not the owner. */
	if (!emit_is_open() || header->pid != (uint32_t)getpid()) {
		errno = saved_errno;
		return;
	}
	__atomic_store_n(&header->end_ns, now(), __ATOMIC_RELAXED);
	__atomic_store_n(&header->state, RECORD_STATE_EXITED, __ATOMIC_RELAXED);
	errno = saved_errno;
}
