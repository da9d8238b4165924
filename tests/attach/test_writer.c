// SPDX-License-Identifier: MIT
/*
 * The writer on a watch that is told what it saw: the trace to the byte, the summary, the rules. Numbers of
 * functions and rules and idle costs are the catalogue's, so the golden text has names for them (fill()).
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <elf.h>
#include <jansson.h>
#include <link.h>
#include <sys/stat.h>

#include "catalogue/catalogue.h"
#include "command_modules.h"
#include "command_rule.h"
#include "command_watch.h"
#include "command_write.h"
#include "fake_watch.h"
#include "summary_number.h"
#include "witness_summary.h"

/* Above any process id there is, so that /proc has nothing to say. */
#define PLAIN   5000001
#define SHIMMED 5000002
#define MS      UINT64_C(1000000)
#define START   (UINT64_C(10) * 1000 * MS)

static const struct watch_process processes[] = {
	{.id = PLAIN,
	 .since_ns = START,
	 .ended_ns = START + 90 * MS,
	 .program = "/opt/a b\"\n\x1b[31m"},
	{.id = SHIMMED,
	 .parent = PLAIN,
	 .since_ns = START + 5 * MS,
	 .shim = true,
	 .program = "/opt/shimmed"},
};

static const struct fake_mapping mappings[] = {
	{PLAIN, 0x400000, 0x500000, 0x1000, 11, "/nowhere/program"},
	{PLAIN, 0x700000, 0x800000, 0, 12, "/nowhere/\x1b]0;evil\a\\lib.so (deleted)"},
	{SHIMMED, 0x600000, 0x700000, 0, 13, "/nowhere/libslipstream.so"},
	{SHIMMED, 0x400000, 0x500000, 0x1000, 11, "/nowhere/program"},
};

static uint32_t function(const char *name)
{
	int number = watch_function_index(name);

	assert_true(number >= 0);
	return (uint32_t)number;
}

static struct watch_call call(pid_t process, const char *name, uint64_t left_ns, uint64_t ns)
{
	struct watch_call made = {
		.entered_ns = START + left_ns - ns,
		.left_ns = START + left_ns,
		.process = process,
		.thread = process + 1,
		.function = function(name),
		.returned = true,
		.by = WATCH_BY_PROGRAM,
		.frame_count = 1,
		.frames = {0x400100},
	};

	return made;
}

/* ---- golden text ---- */

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 20);

	assert_non_null(file);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
	fclose(file);
	return text;
}

static uint64_t idle_of(const char *name, uint64_t bytes)
{
	const struct catalogue_row *row = &catalogue_rows[function(name)];

	return row->idle_fixed_ns + bytes * row->idle_ps_per_byte / 1000;
}

/* {fn NAME}, {rule SLUG}, {catalogue}, {less NS NAME BYTES}: a duration without the idle cost. */
static void fill(FILE *out, const char *word)
{
	char name[128];
	uint64_t ns, bytes;

	if (sscanf(word, "fn %127[^}]", name) == 1) {
		fprintf(out, "%" PRIu32, function(name));
	} else if (sscanf(word, "rule %127[^}]", name) == 1) {
		uint32_t rule = 0;

		while (rule < RULE_COUNT && strcmp(catalogue_rules[rule].slug, name) != 0)
			rule++;
		assert_true(rule < RULE_COUNT);
		fprintf(out, "%" PRIu32, rule);
	} else if (!strncmp(word, "catalogue}", 10)) {
		fprintf(out, "0x%" PRIx64, catalogue_id);
	} else {
		assert_int_equal(sscanf(word, "less %" SCNu64 " %127s %" SCNu64, &ns, name, &bytes),
				 3);
		fprintf(out, "%" PRIu64, ns - idle_of(name, bytes));
	}
}

static char *filled(const char *golden)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	for (; *golden; golden++) {
		if (*golden != '{') {
			putc(*golden, out);
			continue;
		}
		fill(out, golden + 1);
		golden = strchr(golden, '}');
		assert_non_null(golden);
	}
	fclose(out);
	return text;
}

static void feed(struct writer *writer)
{
	struct watch_call copy = call(PLAIN, "cuMemcpyHtoD_v2", 20 * MS, 3 * MS);
	struct watch_call sync = call(PLAIN, "cuStreamSynchronize", 30 * MS, 4 * MS);
	struct watch_call wrapped = call(SHIMMED, "cuStreamSynchronize", 25 * MS, 2 * MS);
	struct watch_call inner = call(PLAIN, "cuMemcpyHtoD_v2", 29 * MS, 1 * MS);
	struct watch_claim claim = {.ns = START + 40 * MS,
				    .process = SHIMMED,
				    .thread = SHIMMED + 1,
				    .function = function("cuMemFree_v2"),
				    .scope = 7,
				    .how = 2,
				    .call_ns = 5 * MS,
				    .off_cpu_ns = 1 * MS,
				    .driver_ns = 4 * MS,
				    /* That of the wrapped call, and rubbish. */
				    .frame_count = 3,
				    .frames = {0x600200, 0x70000000beef, 0x600300}};

	copy.stream_class = WATCH_STREAM_LEGACY;
	copy.direction = WATCH_H2D;
	copy.bytes = 65536;
	copy.source = 0x1000;
	copy.destination = 0x7f0000000000;
	copy.frame_count = 2;
	copy.frames[1] = 0x700123;
	copy.off_cpu_ns = 2 * MS;
	copy.off_cpu_by[WATCH_FUTEX] = 2 * MS;
	copy.switches = 3;
	sync.stream_class = WATCH_STREAM_OTHER;
	sync.stream = 0xabc0;
	sync.frames[0] = 0x999999; /* no file there */
	inner.nested = true;
	inner.by = WATCH_BY_LIBRARY;
	wrapped.shim = true;
	wrapped.by = WATCH_BY_WRAPPER;
	wrapped.scope = 4;
	wrapped.frames[0] = 0x600200;
	wrapped.stream_class = WATCH_STREAM_PER_THREAD;
	/* As processors give them: not in order. */
	writer_call(writer, &sync);
	writer_call(writer, &copy);
	writer_claim(writer, &claim);
	writer_call(writer, &wrapped);
	writer_call(writer, &inner);
	copy.left_ns += 30 * MS;
	copy.entered_ns += 30 * MS;
	writer_call(writer, &copy);
}

static struct watch_stats *stats_of(void)
{
	static struct watch_stats stats;

	memset(&stats, 0, sizeof(stats));
	stats.processes = 2;
	stats.records = 5;
	stats.lost_records = 9;
	stats.lost_calls = 11;
	stats.deep_calls = 12;
	stats.left_calls = 13;
	stats.late_returns = 14;
	stats.lost_callers = 15;
	stats.lost_processes = 16;
	stats.lost_process_records = 17;
	stats.lost_mappings = 18;
	stats.unwatched_libraries = 19;
	stats.unwatched_functions = 20;
	stats.unheard_shims = 21;
	stats.unseen_switches = 22;
	stats.missed_runs = 23;
	stats.functions[function("cuMemcpyHtoD_v2")].calls = 12;
	stats.functions[function("cuStreamSynchronize")].calls = 2;
	return &stats;
}

static struct watch watch_of(void)
{
	static struct watch_caller callers[4];

	callers[0] = (struct watch_caller){.process = PLAIN,
					   .function = function("cuMemcpyHtoD_v2"),
					   .return_address = 0x400100,
					   .calls = 11,
					   .by = WATCH_BY_PROGRAM};
	callers[1] = callers[0];
	callers[1].by = WATCH_BY_LIBRARY;
	callers[1].calls = 1;
	callers[2] = (struct watch_caller){.process = SHIMMED,
					   .function = function("cuStreamSynchronize"),
					   .return_address = 0x600200,
					   .calls = 3,
					   .shim = true,
					   .by = WATCH_BY_WRAPPER};
	callers[3] = callers[2];
	callers[3].by = WATCH_BY_PROGRAM;
	callers[3].calls = 1;
	return (struct watch){
		.processes = processes,
		.process_count = 2,
		.mappings = mappings,
		.mapping_count = 4,
		.callers = callers,
		.caller_count = 4,
		.library = {.path = "/proc/5000001/root/usr/lib/libcuda.so.1"},
	};
}

static void writes_the_golden_trace(void **state)
{
	struct watch watch = watch_of();
	char *text = NULL, *golden = read_file(getenv("GOLDEN_TRACE")), *wanted = filled(golden);
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct writer_options options = {
		.watch = &watch, .file = out, .host = "al\"pha !", .least_ns = 1000, .whole = true};
	struct writer *writer = writer_new(&options);

	feed(writer);
	writer_finish(writer, stats_of(), START + 100 * MS);
	writer_free(writer);
	fclose(out);
	if (strcmp(text, wanted) != 0)
		fprintf(stderr, "---- written:\n%s---- wanted:\n%s", text, wanted);
	assert_string_equal(text, wanted);
	for (const char *c = text; *c; c++)
		assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
	free(text);
	free(golden);
	free(wanted);
}

/* What is younger than asked for stays, and comes in order with what comes later. */
static void holds_back_what_may_be_overtaken(void **state)
{
	struct watch watch = watch_of();
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct writer_options options = {.watch = &watch, .file = out, .host = "alpha"};
	struct writer *writer = writer_new(&options);
	struct watch_call late = call(PLAIN, "cuStreamSynchronize", 30 * MS, MS);
	struct watch_call early = call(PLAIN, "cuCtxSynchronize", 20 * MS, MS);

	writer_call(writer, &late);
	writer_flush(writer, START + 25 * MS);
	fflush(out);
	assert_int_equal(size, 0);
	writer_call(writer, &early);
	writer_flush(writer, START + 40 * MS);
	fflush(out);
	assert_non_null(strstr(text, "cuCtxSynchronize"));
	assert_true(strstr(text, "cuCtxSynchronize") < strstr(text, "cuStreamSynchronize"));
	writer_free(writer);
	fclose(out);
	free(text);
}

/* ---- summary ---- */

static const json_t *of_function(const json_t *object, const char *list, const char *name)
{
	const json_t *item;
	size_t index;

	json_array_foreach(json_object_get(object, list), index,
			   item) if (!strcmp(json_string_value(json_object_get(item, "function")),
					     name)) return item;
	return NULL;
}

static void sums_up(void **state)
{
	struct watch watch = watch_of();
	struct witness_summary *summary = witness_summary_new();
	struct writer_options options = {.watch = &watch, .summary = summary, .host = ""};
	struct writer *writer = writer_new(&options);
	struct watch_call escaped = call(SHIMMED, "cuCtxSynchronize", 60 * MS, MS);
	const json_t *item;
	json_t *object;

	escaped.shim = true;
	assert_true(witness_summary_is_empty(summary));
	feed(writer);
	writer_call(writer, &escaped);
	writer_finish(writer, stats_of(), START + 100 * MS);
	writer_free(writer);
	object = witness_summary_json(summary);

	assert_int_equal(number(object, "entries"), 14);
	assert_int_equal(number(object, "lost.records"), 9);
	assert_int_equal(number(object, "coverage.calls"), 4 + 11 + 15); /* with what was lost */
	assert_int_equal(number(object, "coverage.wrapper"), 3);
	assert_int_equal(number(object, "coverage.escaped"), 1);
	assert_int_equal(number(object, "coverage.without_shim"), 12);
	assert_true(json_real_value(
			    json_object_get(json_object_get(object, "coverage"), "proven")) == 0.1);
	item = of_function(object, "functions", "cuMemcpyHtoD_v2");
	assert_non_null(item);
	assert_int_equal(number(item, "calls"), 2); /* without the inner one */
	assert_int_equal(number(item, "nested"), 1);
	assert_int_equal(number(item, "entries"), 12);
	assert_int_equal(number(item, "bytes"), 131072);
	assert_int_equal(number(item, "streams.legacy"), 2);
	assert_int_equal(number(item, "blocked_ns"),
			 2 * (3 * MS - idle_of("cuMemcpyHtoD_v2", 65536)));
	assert_int_equal(number(item, "how.futex_ns") + number(item, "how.spin_ns"),
			 number(item, "blocked_ns"));
	assert_int_equal(number(item, "how.futex_ns"), 4 * MS);
	item = of_function(object, "escaped", "cuCtxSynchronize");
	assert_non_null(item);
	assert_int_equal(number(item, "calls"), 1);
	assert_int_equal(json_array_size(json_object_get(item, "frames")), 1);
	assert_int_equal(json_array_size(json_object_get(object, "escaped")), 1);
	item = of_function(object, "contradicted", "cuMemFree_v2");
	assert_non_null(item);
	assert_int_equal(json_array_size(json_object_get(item, "frames")), 1);
	assert_int_equal(number(item, "blocked_max_ns"), 4 * MS);
	assert_int_equal(number(object, "claims"), 1);
	json_decref(object);
	witness_summary_free(summary);
}

/* Whatever is counted is told: in the summary and in the live table (the golden trace has them too). */
static void every_loss_is_told(void **state)
{
	static const struct {
		const char *key, *live;
		int count;
	} losses[] = {
		{"lost.records", "9 records", 9},
		{"lost.calls", "11 calls without room", 11},
		{"lost.deep", "12 calls too deep", 12},
		{"lost.left", "13 calls left without return", 13},
		{"lost.late", "14 calls begun before", 14},
		{"lost.callers", "15 callers", 15},
		{"lost.processes", "16 processes", 16},
		{"lost.process_records", "17 news of processes", 17},
		{"lost.mappings", "18 news of mappings", 18},
		{"lost.libraries", "19 libraries", 19},
		{"lost.functions", "20 functions", 20},
		{"lost.claims", "21 files whose claims are not heard", 21},
		{"lost.switches", "22 switches (put right)", 22},
		{"lost.runs", "23 looks", 23},
	};
	struct watch watch = watch_of();
	struct witness_summary *summary = witness_summary_new();
	struct writer_options options = {.watch = &watch, .summary = summary, .host = ""};
	struct writer *writer = writer_new(&options);
	struct live *live = live_new();
	FILE *terminal = stderr;
	char *shown = NULL;
	size_t size;
	json_t *object;

	writer_finish(writer, stats_of(), START + 100 * MS);
	writer_free(writer);
	object = witness_summary_json(summary);
	assert_int_equal(json_object_size(json_object_get(object, "lost")),
			 sizeof(losses) / sizeof(losses[0]));
	stderr = open_memstream(&shown, &size);
	live_show(live, stats_of(), START);
	live_show(live, stats_of(), START + 1000 * MS);
	fclose(stderr);
	stderr = terminal;
	assert_non_null(strstr(shown, "  lost: 9 records, 11 calls without room, "));
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		assert_int_equal(number(object, losses[i].key), losses[i].count);
		assert_non_null(strstr(shown, losses[i].live));
	}
	for (const char *line = shown, *end; (end = strchr(line, '\n')); line = end + 1)
		assert_true(end - line < 120);
	free(shown);
	live_free(live);
	json_decref(object);
	witness_summary_free(summary);
}

/* ---- rules ---- */

static void judges_by_the_catalogue(void **state)
{
	struct watch_call sync = call(PLAIN, "cuStreamSynchronize", 10 * MS, 1000);
	struct watch_call copy = call(PLAIN, "cuMemcpyHtoD_v2", 10 * MS, 3 * MS);
	uint64_t idle = idle_of("cuMemcpyHtoD_v2", 4096);
	struct verdict verdict = rule_judge(&sync);

	assert_true(verdict.waited);
	assert_string_equal(catalogue_rules[verdict.rule].slug, "stream-synchronize");

	copy.bytes = 4096;
	copy.direction = WATCH_H2D;
	verdict = rule_judge(&copy);
	assert_true(verdict.waited);
	assert_string_equal(catalogue_rules[verdict.rule].slug, "pageable-h2d");
	assert_int_equal(verdict.blocked_ns, 3 * MS - idle);
	assert_int_equal(verdict.source_kind, MEMORY_UNKNOWN);
	assert_int_equal(verdict.destination_kind, MEMORY_DEVICE);

	/* The scheduler's doing. */
	copy.off_cpu_ns = copy.off_cpu_by[WATCH_PREEMPTED] = 3 * MS - idle - 1000;
	assert_false(rule_judge(&copy).waited);
	copy.off_cpu_ns = copy.off_cpu_by[WATCH_PREEMPTED] = 0;

	/* Its own cost. */
	copy.entered_ns = copy.left_ns - idle - 1000;
	verdict = rule_judge(&copy);
	assert_false(verdict.waited);
	assert_int_equal(verdict.blocked_ns, 1000);
	/* Its thread ended in it. */
	sync.returned = false;
	assert_false(rule_judge(&sync).waited);
	/* Sizes of any kind do not wrap. */
	copy.bytes = UINT64_MAX;
	assert_int_equal(rule_judge(&copy).blocked_ns, 0);
}

static void shares_its_enumerations(void **state)
{
	assert_int_equal(WATCH_BYS, WITNESS_BYS);
	assert_int_equal(WATCH_BY_UNKNOWN, WITNESS_BY_UNKNOWN);
	assert_int_equal(WATCH_BY_WRAPPER, WITNESS_BY_WRAPPER);
	assert_int_equal(WATCH_BY_SHIM, WITNESS_BY_SHIM);
	assert_int_equal(WATCH_BY_LIBRARY, WITNESS_BY_LIBRARY);
	assert_int_equal(WATCH_BY_PROGRAM, WITNESS_BY_PROGRAM);
	assert_int_equal(WATCH_STREAM_OTHER + 1, WITNESS_STREAM_CLASSES);
	assert_int_equal(WATCH_UNKNOWN + 1, WITNESS_DIRECTIONS);
	assert_int_equal(WATCH_FUNCTION_COUNT, FUNCTION_COUNT);
}

/* ---- modules ---- */

struct own {
	uint64_t bias;
};

static int first_object(struct dl_phdr_info *info, size_t size, void *data)
{
	((struct own *)data)->bias = info->dlpi_addr;
	return 1;
}

/* Of this very program: an address of it, less where it was loaded, is what its symbols have. */
static void reads_the_mapped_file(void **state)
{
	uint64_t address = (uintptr_t)reads_the_mapped_file, start, end, offset;
	struct module_files files = {0};
	const struct module_file *file;
	FILE *maps = fopen("/proc/self/maps", "r");
	struct watch_place place = {0};
	struct stat status;
	char line[4096], path[4096];
	struct own own;

	dl_iterate_phdr(first_object, &own);
	assert_int_equal(stat("/proc/self/exe", &status), 0);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %4095s", &start,
			   &end, &offset, path) == 4 &&
		    address >= start && address < end)
			place = (struct watch_place){.path = path,
						     .device = status.st_dev,
						     .inode = status.st_ino,
						     .start = start,
						     .end = end,
						     .offset = address - start + offset};
	fclose(maps);
	assert_non_null(place.path);
	file = module_file_of(&files, getpid(), &place);
	assert_int_equal(module_address(file, &place), address - own.bias);
	assert_true(strlen(file->build_id) >= 16);
	assert_ptr_equal(module_file_of(&files, getpid(), &place), file);

	/* Another file has come to stand there: nothing of it is taken. */
	place.inode++;
	file = module_file_of(&files, 5000001, &place);
	assert_string_equal(file->build_id, "");
	assert_int_equal(module_address(file, &place), place.offset);
	module_files_done(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_the_golden_trace),
		cmocka_unit_test(holds_back_what_may_be_overtaken),
		cmocka_unit_test(sums_up),
		cmocka_unit_test(every_loss_is_told),
		cmocka_unit_test(judges_by_the_catalogue),
		cmocka_unit_test(shares_its_enumerations),
		cmocka_unit_test(reads_the_mapped_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
