// SPDX-License-Identifier: MIT
/*
 * Emit: the record file as the reader finds it, its bounds, forks and failures.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "catalogue/catalogue.h"
#include "config.h"
#include "emit/busy.h"
#include "emit/emit.h"
#include "emit/file.h"
#include "emit/internal.h"
#include "emit/lock.h"
#include "fake/records.h"

static char folder[] = "/tmp/slipstream-emit-XXXXXX";

/* Each test starts like a fresh process; files of earlier tests go. */
static int begin(void **state)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s/*", folder);
	assert_int_equal(system(command), 0);
	emit_forked();
	file_set_bound(FILE_BOUND);
	config.out = folder;
	return 0;
}

struct mapped {
	unsigned char *base;
	size_t size;
};

/* Reads back the only record file of the folder, or the one of `pid`. */
static struct mapped read_back(pid_t pid)
{
	struct mapped mapped = {0};
	struct dirent *entry;
	struct stat status;
	char path[PATH_MAX];
	DIR *directory = opendir(folder);
	int fd, found = 0;

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		if (!strstr(entry->d_name, ".slip") || (pid && atoi(entry->d_name) != pid))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		found++;
	}
	closedir(directory);
	assert_int_equal(found, 1);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_true(status.st_size <= (off_t)FILE_BOUND);
	mapped.size = (size_t)status.st_size;
	mapped.base = mmap(NULL, mapped.size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mapped.base, MAP_FAILED);
	close(fd);
	return mapped;
}

static void test_header_functions_rules(void **state)
{
	struct record_header *header;
	struct mapped file;

	emit_function_handed_out(FUNCTION_cuLaunchKernel);
	emit_function_handed_out(FUNCTION_cuLaunchKernel);
	emit_function_in_driver(FUNCTION_cuMemFree_v2);
	emit_note(NOTE_EXPORT_TABLE, "f8cff951");
	emit_note(NOTE_EXPORT_TABLE, "f8cff951");
	emit_driver("/usr/lib/libcuda.so.1", 0);
	assert_true(emit_open());
	assert_true(emit_open());
	emit_driver(NULL, 13000);
	file = read_back(0);
	header = (void *)file.base;
	assert_int_equal(header->head.type, RECORD_HEADER);
	assert_true(header->magic == RECORD_MAGIC);
	assert_int_equal(header->version, RECORD_VERSION);
	assert_int_equal(header->header_size, sizeof(*header));
	assert_true(header->catalogue_id == catalogue_id);
	assert_int_equal(header->pid, getpid());
	assert_int_equal(header->parent_pid, getppid());
	assert_int_equal(header->state, RECORD_STATE_LIVE);
	assert_int_equal(header->driver_version, 13000);
	assert_true(header->dropped == 0);
	assert_int_equal(header->forked, 0);
	assert_string_equal(records_string(file.base, file.size, header->driver),
			    "/usr/lib/libcuda.so.1");
	assert_non_null(strstr(records_string(file.base, file.size, header->command), "test_emit"));
	assert_non_null(
		strstr(records_string(file.base, file.size, header->config), "MODE=observe\n"));
	assert_non_null(
		strstr(records_string(file.base, file.size, header->config), "THRESHOLD=5000ns\n"));
	assert_int_equal(records_count(file.base, file.size, RECORD_FUNCTION), FUNCTION_COUNT);
	assert_int_equal(records_count(file.base, file.size, RECORD_RULE), RULE_COUNT);
	assert_int_equal(records_count(file.base, file.size, RECORD_NOTE), 1);

	struct records records = {.base = file.base, .size = file.size};
	const struct record *record;

	while ((record = records_next(&records))) {
		const struct record_function *function = (const void *)record;
		const struct record_rule *rule = (const void *)record;
		const struct record_note *note = (const void *)record;

		if (record->type == RECORD_FUNCTION) {
			assert_string_equal(records_string(file.base, file.size, function->name),
					    function_names[function->number]);
			assert_int_equal(function->handed_out,
					 function->number == FUNCTION_cuLaunchKernel ? 2 : 0);
			assert_int_equal(
				function->flags,
				(function->number < FUNCTION_WRAPPED_COUNT ? 1 : 0) |
					(function->number == FUNCTION_cuMemFree_v2 ? 2 : 0));
		} else if (record->type == RECORD_RULE) {
			assert_string_equal(records_string(file.base, file.size, rule->slug),
					    catalogue_rules[rule->number].slug);
			assert_int_equal(rule->class, catalogue_rules[rule->number].wait_class);
			assert_int_equal(rule->flags, catalogue_rules[rule->number].flags);
		} else if (record->type == RECORD_NOTE) {
			assert_true(note->count == 2);
			assert_int_equal(note->code, NOTE_EXPORT_TABLE);
		}
	}
	emit_function_handed_out(FUNCTION_cuLaunchKernel);
	emit_finish();
	assert_int_equal(header->state, RECORD_STATE_EXITED);
	assert_true(header->end_ns >= header->start_ns);
	munmap(file.base, file.size);
}

static void test_waits_add_up(void **state)
{
	struct emit_candidate candidates[2] = {
		{.context = 7,
		 .stream = 3,
		 .stream_kind = STREAM_BLOCKING,
		 .operation = OPERATION_KERNEL},
		{.context = 7,
		 .stream = 4,
		 .stream_kind = STREAM_NON_BLOCKING,
		 .operation = OPERATION_COPY},
	};
	struct emit_finding finding = {
		.function = FUNCTION_cuMemFree_v2,
		.rule = RULE_FREE_DRAINS_DEVICE,
		.site = 5,
		.source_kind = MEMORY_DEVICE,
		.idle_basis = IDLE_DEFAULT,
		.blocked_ns = 100,
		.call_ns = 150,
		.bytes = 4096,
		.returned_ns = 1000,
		.candidates = candidates,
		.candidate_count = 2,
	};
	const struct record_wait *wait;

	assert_true(emit_open());
	emit_wait(&finding);
	finding.blocked_ns = 300;
	finding.returned_ns = 2000;
	finding.candidate_count = 1;
	emit_wait(&finding);
	finding.allowed = 1;
	emit_wait(&finding);
	struct mapped file = read_back(0);

	assert_int_equal(records_count(file.base, file.size, RECORD_WAIT), 2);
	assert_int_equal(records_count(file.base, file.size, RECORD_CANDIDATE), 2);
	assert_int_equal(records_count(file.base, file.size, RECORD_WAITED_FOR), 3);
	wait = records_wait(file.base, file.size, RULE_FREE_DRAINS_DEVICE, 0);
	assert_true(wait->count == 2);
	assert_true(wait->blocked_ns == 400);
	assert_true(wait->blocked_max == 300);
	assert_true(wait->call_ns == 300);
	assert_true(wait->bytes == 8192);
	assert_true(wait->first_ns == 1000);
	assert_true(wait->last_ns == 2000);
	assert_int_equal(wait->site, 5);
	wait = records_wait(file.base, file.size, RULE_FREE_DRAINS_DEVICE, 1);
	assert_int_equal(wait->allowed, 1);
	assert_true(wait->count == 1);
	munmap(file.base, file.size);
}

static const struct record_remark *remark_of(const struct mapped *file, uint32_t id)
{
	struct records records = {.base = file->base, .size = file->size};
	const struct record *record;

	while ((record = records_next(&records)))
		if (record->type == RECORD_REMARK &&
		    ((const struct record_remark *)record)->id == id)
			return (const void *)record;
	return NULL;
}

/* One record for each rule, function, site, other side, region and scope; calls add up in it. */
static void test_remarks_add_up(void **state)
{
	const struct emit_remark first = {
		.rule = RULE_D2H,
		.function = FUNCTION_cuMemFree_v2,
		.site = 5,
		.stream = 6,
		.region = 7,
		.other_function = FUNCTION_cuMemAlloc_v2,
		.other_site = 8,
		.other_stream = 9,
		.bytes = 4096,
		.ns = 1000,
	};
	const struct record_remark *made;
	struct emit_remark remark = first;
	uint32_t *const fields[] = {&remark.rule,   &remark.function,       &remark.site,
				    &remark.region, &remark.other_function, &remark.other_site,
				    &remark.allowed};
	uint32_t i;

	assert_true(emit_open());
	emit_remark(&remark);
	remark.ns = 3000;
	remark.stream = 1; /* the first one's stays */
	emit_remark(&remark);
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		remark = first;
		*fields[i] += 1;
		emit_remark(&remark);
	}
	struct mapped file = read_back(0);

	assert_int_equal(records_count(file.base, file.size, RECORD_REMARK), 1 + i);
	made = remark_of(&file, 1);
	assert_non_null(made);
	assert_int_equal(made->rule, RULE_D2H);
	assert_int_equal(made->function, FUNCTION_cuMemFree_v2);
	assert_int_equal(made->site, 5);
	assert_int_equal(made->stream, 6);
	assert_int_equal(made->region, 7);
	assert_int_equal(made->other_function, FUNCTION_cuMemAlloc_v2);
	assert_int_equal(made->other_site, 8);
	assert_int_equal(made->other_stream, 9);
	assert_int_equal(made->allowed, 0);
	assert_true(made->count == 2);
	assert_true(made->bytes == 8192);
	assert_true(made->first_ns == 1000);
	assert_true(made->last_ns == 3000);
	munmap(file.base, file.size);
}

/* What a thread remembers of its last findings (memo.h) is told apart by each field that a record is. */
static void test_findings_that_differ_in_one_field(void **state)
{
	struct emit_candidate candidate = {
		.context = 7, .stream = 3, .stream_kind = 1, .operation = 1, .name = 2};
	struct emit_candidate one;
	struct emit_finding finding = {
		.function = 1, .rule = 2, .site = 5, .candidates = &one, .candidate_count = 1};
	struct emit_finding other;
	unsigned int i, waits = 1, waited_for = 1;

	assert_true(emit_open());
	for (i = 0; i < 14; i++) {
		one = candidate;
		emit_wait(&finding);
		other = finding;
		switch (i) {
		case 0:
			other.function = 33;
			break; /* of the same place in the memo */
		case 1:
			other.rule = 3;
			break;
		case 2:
			other.site = 9;
			break;
		case 3:
			other.region = 1;
			break;
		case 4:
			other.source_kind = 1;
			break;
		case 5:
			other.destination_kind = 1;
			break;
		case 6:
			other.idle_basis = 1;
			break;
		case 7:
			other.allowed = 1;
			break;
		case 8:
			one.context = 8;
			break;
		case 9:
			one.stream = 3 + 64;
			break;
		case 10:
			one.stream_kind = 2;
			break;
		case 11:
			one.operation = 2;
			break;
		case 12:
			one.name = 1;
			break;
		case 13:
			one.certain = 1;
			break;
		}
		waits += i < 8;
		waited_for++;
		emit_wait(&other);
		emit_wait(&other);
	}
	struct mapped file = read_back(0);
	const struct record *record;
	struct records records = {.base = file.base, .size = file.size};

	assert_int_equal(records_count(file.base, file.size, RECORD_WAIT), waits);
	assert_int_equal(records_count(file.base, file.size, RECORD_WAITED_FOR), waited_for);
	while ((record = records_next(&records))) {
		if (record->type == RECORD_WAITED_FOR)
			assert_true(((const struct record_waited_for *)record)->count == 2 ||
				    ((const struct record_waited_for *)record)->count == 14);
	}
	munmap(file.base, file.size);
}

static void test_strings_and_segments(void **state)
{
	static char large[300000];
	char text[32];
	uint32_t id, i;

	assert_true(emit_open());
	id = emit_string("saxpy", 5);
	assert_int_not_equal(id, 0);
	assert_int_equal(emit_string("saxpyz", 5), id);
	assert_int_not_equal(emit_string("saxpy", 4), id);
	memset(large, 'x', sizeof(large));
	for (i = 0; i < 20; i++) {
		large[0] = (char)('a' + i);
		assert_int_not_equal(emit_string(large, sizeof(large)), 0);
	}
	for (i = 0; i < 20000; i++) {
		snprintf(text, sizeof(text), "kernel_%u", i);
		assert_int_not_equal(emit_string(text, strlen(text)), 0);
	}
	assert_string_equal(text, "kernel_19999");
	struct mapped file = read_back(0);

	id = emit_string(text, strlen(text));
	assert_string_equal(records_string(file.base, file.size, id), text);
	assert_true(file.size >= 7 * RECORD_SEGMENT);
	assert_true(records_count(file.base, file.size, RECORD_STRING) >= 20022);
	munmap(file.base, file.size);
}

static void test_cap_counts_losses(void **state)
{
	static char large[500000];
	struct record_header *header;
	uint32_t kept = 0, i;

	file_set_bound(4 * RECORD_SEGMENT);
	assert_true(emit_open());
	memset(large, 'y', sizeof(large));
	for (i = 0; i < 20; i++) {
		large[0] = (char)('a' + i);
		kept += emit_string(large, sizeof(large)) != 0;
	}
	struct mapped file = read_back(0);

	header = (void *)file.base;
	assert_int_equal(file.size, 4 * RECORD_SEGMENT);
	assert_int_equal(kept, 8); /* two a segment */
	assert_true(header->dropped == 20 - kept);
	/* Small records still fit, and the file stays well-formed. */
	assert_int_not_equal(emit_string("small", 5), 0);
	records_count(file.base, file.size, RECORD_STRING);
	munmap(file.base, file.size);
}

/* SIGXFSZ would kill the program. */
static void test_file_size_limit(void **state)
{
	struct rlimit limit = {.rlim_cur = 2 * RECORD_SEGMENT, .rlim_max = RLIM_INFINITY};
	static char large[500000];
	struct mapped file;
	int status;
	pid_t pid = fork();

	if (!pid) {
		emit_forked();
		if (setrlimit(RLIMIT_FSIZE, &limit) || !emit_open())
			_exit(1);
		for (int i = 0; i < 20; i++) {
			large[0] = (char)('a' + i);
			emit_string(large, sizeof(large));
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	file = read_back(pid);
	assert_int_equal(file.size, 2 * RECORD_SEGMENT);
	assert_true(((struct record_header *)file.base)->dropped == 16);
	munmap(file.base, file.size);
}

/* The descriptor table belongs to the program: growth must not depend on, or write to, any number
 * in it. */
static void test_growth_after_program_closed_everything(void **state)
{
	static char large[500000];
	struct mapped file;
	int status;
	pid_t pid = fork();

	if (!pid) {
		emit_forked();
		if (!emit_open())
			_exit(1);
		for (int fd = 0; fd < 256; fd++)
			close(fd);
		int victim = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

		for (int i = 0; i < 6; i++) {
			large[0] = (char)('a' + i);
			if (!emit_string(large, sizeof(large)))
				_exit(2);
		}
		_exit(victim >= 0 && lseek(victim, 0, SEEK_END) != 0 ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	file = read_back(pid);
	assert_true(file.size >= 3 * RECORD_SEGMENT);
	munmap(file.base, file.size);
}

static void test_growth_refuses_another_file(void **state)
{
	static char large[500000];
	struct stat status;
	char command[160];
	char path[PATH_MAX];

	assert_true(emit_open());
	/* Somebody puts another file, or a link to one, in our file's place. */
	snprintf(command, sizeof(command), "cd %s && for f in *.slip; do mv $f kept; : > $f; done",
		 folder);
	assert_int_equal(system(command), 0);
	for (int i = 0; i < 6; i++) {
		large[0] = (char)('a' + i);
		emit_string(large, sizeof(large));
	}
	snprintf(command, sizeof(command), "cd %s && mv *.slip other", folder);
	assert_int_equal(system(command), 0);
	snprintf(path, sizeof(path), "%s/other", folder);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 0);
}

static unsigned int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* The program's descriptors are as many after growing, and after growing failed, as before. */
static void test_growth_leaves_no_descriptor(void **state)
{
	static char large[500000];
	unsigned int before = open_descriptors();
	char command[160];
	struct mapped file;
	uint64_t size;

	file_set_bound(4 * RECORD_SEGMENT);
	assert_true(emit_open());
	assert_int_equal(open_descriptors(), before);
	for (int i = 0; i < 4; i++) {
		large[0] = (char)('a' + i);
		assert_int_not_equal(emit_string(large, sizeof(large)), 0);
	}
	assert_int_equal(open_descriptors(), before);
	file = read_back(0);
	size = file.size;
	munmap(file.base, file.size);
	assert_true(size >= 2 * RECORD_SEGMENT);
	/* Another file in its place. */
	snprintf(command, sizeof(command), "cd %s && for f in *.slip; do mv $f kept; : > $f; done",
		 folder);
	assert_int_equal(system(command), 0);
	for (int i = 4; i < 12; i++) {
		large[0] = (char)('a' + i);
		emit_string(large, sizeof(large));
	}
	assert_true(((struct record_header *)file_base())->dropped > 0);
	assert_int_equal(open_descriptors(), before);
}

static void test_unwritable_folder(void **state)
{
	char text[256] = "";
	int ends[2], saved = dup(STDERR_FILENO);
	ssize_t length;

	assert_int_equal(pipe(ends), 0);
	config.out = "/nonexistent/folder";
	dup2(ends[1], STDERR_FILENO);
	errno = 77;
	assert_true(emit_open());
	assert_int_equal(errno, 77);
	dup2(saved, STDERR_FILENO);
	close(ends[1]);
	length = read(ends[0], text, sizeof(text) - 1);
	close(ends[0]);
	close(saved);
	assert_string_equal(text, "slipstream: cannot write records into '/nonexistent/folder' "
				  "(SLIPSTREAM_OUT): No such file or directory\n");
	assert_true(length > 0);
	assert_int_not_equal(emit_string("x", 1), 0);
	assert_int_equal(records_count(file_base(), 65536, RECORD_RULE), RULE_COUNT);
}

static void test_relative_folder_survives_chdir(void **state)
{
	static char large[500000];
	char old[PATH_MAX];
	struct mapped file;

	assert_non_null(getcwd(old, sizeof(old)));
	assert_int_equal(chdir(folder), 0);
	config.out = ".";
	assert_true(emit_open());
	assert_int_equal(chdir("/"), 0);
	for (int i = 0; i < 6; i++) {
		large[0] = (char)('a' + i);
		assert_int_not_equal(emit_string(large, sizeof(large)), 0);
	}
	assert_int_equal(chdir(old), 0);
	file = read_back(0);
	assert_true(file.size >= 3 * RECORD_SEGMENT);
	munmap(file.base, file.size);
}

static void test_fork_leaves_parent_file_alone(void **state)
{
	struct emit_finding finding = {.function = FUNCTION_cuMemFree_v2, .rule = RULE_D2H};
	const struct record_wait *wait;
	uint64_t *counters;
	struct mapped file;
	int status;
	pid_t pid;

	assert_true(emit_open());
	counters = emit_counters_take(1);
	counters[3] = 5;
	emit_wait(&finding);
	/* The lock is held by a thread that the child will not have. */
	assert_true(emit_lock());
	pid = fork();
	if (!pid) {
		emit_forked();
		/* A pointer kept from before must not reach the parent's file. */
		counters[3] = 999;
		if (!emit_open())
			_exit(1);
		emit_wait(&finding);
		emit_wait(&finding);
		emit_finish();
		_exit(0);
	}
	emit_unlock();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	file = read_back(getpid());
	wait = records_wait(file.base, file.size, RULE_D2H, 0);
	assert_true(wait->count == 1);
	assert_true(counters[3] == 5);
	assert_int_equal(((struct record_header *)file.base)->state, RECORD_STATE_LIVE);
	munmap(file.base, file.size);
	file = read_back(pid);
	wait = records_wait(file.base, file.size, RULE_D2H, 0);
	assert_true(wait->count == 2);
	assert_int_equal(((struct record_header *)file.base)->forked, 1);
	assert_int_equal(((struct record_header *)file.base)->parent_pid, getpid());
	munmap(file.base, file.size);
}

static void test_vfork_child_opens_nothing(void **state)
{
	int status;
	pid_t pid = vfork();

	if (!pid)
		_exit(emit_open() ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(emit_is_open());
	assert_null(file_base());
}

static void test_killed_process_leaves_valid_file(void **state)
{
	struct emit_finding finding = {.function = FUNCTION_cuMemFree_v2, .rule = RULE_D2H};
	struct mapped file;
	int status;
	pid_t pid = fork();

	if (!pid) {
		emit_forked();
		emit_open();
		for (int i = 0; i < 1000; i++) {
			finding.site = (uint32_t)i;
			emit_wait(&finding);
		}
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	file = read_back(pid);
	assert_int_equal(records_count(file.base, file.size, RECORD_WAIT), 1000);
	assert_int_equal(((struct record_header *)file.base)->state, RECORD_STATE_LIVE);
	munmap(file.base, file.size);
}

static void test_counters_recycle(void **state)
{
	uint64_t *first, *second, *again;
	struct mapped file;

	assert_null(emit_counters_take(1));
	assert_true(emit_open());
	first = emit_counters_take(1);
	second = emit_counters_take(2);
	assert_ptr_not_equal(first, second);
	first[FUNCTION_COUNT - 1] = 9;
	emit_counters_give_back(first);
	again = emit_counters_take(3);
	assert_ptr_equal(again, first);
	assert_true(again[FUNCTION_COUNT - 1] == 9);
	assert_ptr_equal(emit_thunk_counters(), emit_thunk_counters());
	file = read_back(0);
	assert_int_equal(records_count(file.base, file.size, RECORD_COUNTERS), 2);
	assert_int_equal(records_count(file.base, file.size, RECORD_THUNKS), 1);
	munmap(file.base, file.size);
}

static const struct record_thread *thread_record(const struct mapped *mapped, uint32_t thread)
{
	struct records records = {.base = mapped->base, .size = mapped->size};
	const struct record *record;

	while ((record = records_next(&records)))
		if (record->type == RECORD_THREAD &&
		    ((const struct record_thread *)record)->thread == thread)
			return (const struct record_thread *)record;
	return NULL;
}

/* What stands there is read back from the file, as by who looks at a process that hangs. */
static void test_what_a_thread_is_inside_of(void **state)
{
	const uint64_t ticks = UINT64_C(0x123456789abc);
	const struct record_thread *seen;
	struct mapped mapped;
	struct busy outer, inner;

	assert_null(emit_busy_take(7, ticks, true));
	assert_true(emit_open());
	/* Without a record nothing happens. */
	outer = busy_begin(NULL, 3);
	assert_int_equal(busy_reaches(outer.record, 3, ticks), ticks);
	busy_end(outer);
	busy_thread = emit_busy_take(7, ticks, true);
	assert_non_null(busy_thread);
	mapped = read_back(getpid());
	assert_int_equal(records_count(mapped.base, mapped.size, RECORD_CLOCK), 1);
	seen = thread_record(&mapped, 7);
	assert_non_null(seen);
	assert_int_equal(seen->call, 0);

	outer = busy_begin(busy_thread, 3);
	assert_int_equal(seen->call, UINT64_C(4) << RECORD_AT_BITS);
	assert_int_equal(busy_driver(3, ticks), ticks);
	assert_int_equal(seen->call, UINT64_C(4) << RECORD_AT_BITS | ticks >> RECORD_AT_SHIFT | 1);
	/* A call that the driver makes, or a signal handler. */
	inner = busy_begin(busy_thread, 0);
	assert_int_equal(busy_driver(0, 0), 0);
	assert_int_equal(seen->call, UINT64_C(1) << RECORD_AT_BITS | 1);
	busy_end(inner);
	assert_int_equal(seen->call, UINT64_C(4) << RECORD_AT_BITS | ticks >> RECORD_AT_SHIFT | 1);
	busy_lock_holds(RECORD_LOCK_CONTEXT + 3);
	assert_int_equal(seen->lock >> RECORD_AT_BITS, RECORD_LOCK_HOLDS | 2);
	busy_lock_given();
	busy_in_flight(1, 9);
	assert_int_equal(seen->in_flight[1], 9);
	assert_int_equal(seen->lock, 0);
	busy_end(outer);
	assert_int_equal(seen->call, 0);
	munmap(mapped.base, mapped.size);
}

/* Nothing of a thread stays that ended, wherever that was. */
static void test_records_of_threads_recycle(void **state)
{
	struct record_thread *first, *second, *again;

	assert_true(emit_open());
	first = emit_busy_take(1, 1, false);
	second = emit_busy_take(2, 1, false);
	assert_non_null(first);
	assert_non_null(second);
	assert_ptr_not_equal(first, second);
	/* No line of the caches is written by both. */
	assert_true((uintptr_t)&second->call / 64 != (uintptr_t)&first->in_flight[1] / 64);
	busy_thread = first;
	(void)busy_begin(first, 3);
	busy_lock_holds(1);
	busy_in_flight(0, 1);
	busy_thread = NULL;
	emit_busy_give_back(first);
	emit_busy_give_back(NULL);
	assert_int_equal(first->thread, 0);
	again = emit_busy_take(3, 1, false);
	assert_ptr_equal(again, first);
	assert_int_equal(again->thread, 3);
	assert_int_equal(again->call | again->lock | again->drain | again->in_flight[0], 0);
	assert_int_equal(second->thread, 2);
}

/* A driver call in a signal handler that interrupted emit must come back, and be counted. */
static void test_reentry_is_dropped(void **state)
{
	struct record_header *header;

	assert_true(emit_open());
	header = file_base();
	assert_true(emit_lock());
	assert_int_equal(emit_string("from a handler", 14), 0);
	assert_null(emit_reserve(64));
	emit_unlock();
	assert_true(header->dropped == 2);
	assert_int_not_equal(emit_string("from a handler", 14), 0);
}

#define THREADS 4
#define ROUNDS  20000

static void *hammer(void *argument)
{
	struct emit_candidate candidate = {.context = 1, .stream_kind = STREAM_BLOCKING};
	struct emit_finding finding = {.function = FUNCTION_cuMemFree_v2,
				       .rule = RULE_D2H,
				       .blocked_ns = 1,
				       .candidates = &candidate,
				       .candidate_count = 1};
	char text[32];
	int i;

	emit_open();
	for (i = 0; i < ROUNDS; i++) {
		snprintf(text, sizeof(text), "name %d", i % 500);
		candidate.name = emit_string(text, strlen(text));
		finding.site = (uint32_t)i % 100;
		emit_wait(&finding);
		if (i % 100 == 0)
			emit_note(NOTE_PYTHON, text);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct records records;
	const struct record *record;
	uint64_t waits = 0, waited_for = 0;
	pthread_t thread[THREADS];
	struct mapped file;
	int i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, NULL), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	file = read_back(0);
	records = (struct records){.base = file.base, .size = file.size};
	while ((record = records_next(&records))) {
		if (record->type == RECORD_WAIT)
			waits += ((const struct record_wait *)record)->count;
		if (record->type == RECORD_WAITED_FOR)
			waited_for += ((const struct record_waited_for *)record)->count;
	}
	assert_true(waits == THREADS * ROUNDS);
	assert_true(waited_for == THREADS * ROUNDS);
	assert_int_equal(records_count(file.base, file.size, RECORD_WAIT), 100);
	assert_int_equal(records_count(file.base, file.size, RECORD_CANDIDATE), 500);
	assert_int_equal(records_count(file.base, file.size, RECORD_HEADER), 1);
	munmap(file.base, file.size);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static void test_repeated_findings_take_no_memory(void **state)
{
	struct emit_candidate candidate = {.context = 1, .stream_kind = STREAM_BLOCKING};
	struct emit_finding finding = {.function = FUNCTION_cuMemFree_v2,
				       .rule = RULE_D2H,
				       .candidates = &candidate,
				       .candidate_count = 1};
	struct rusage before, after;
	struct mapped file;
	uint64_t start;
	int i, rounds = 1000000;

	start = now();
	assert_true(emit_open());
	print_message("open: %llu us\n", (unsigned long long)(now() - start) / 1000);
	emit_wait(&finding);
	getrusage(RUSAGE_SELF, &before);
	start = now();
	for (i = 0; i < rounds; i++)
		emit_wait(&finding);
	print_message("finding: %llu ns\n", (unsigned long long)(now() - start) / (unsigned)rounds);
	getrusage(RUSAGE_SELF, &after);
	assert_int_equal(before.ru_maxrss, after.ru_maxrss);
	file = read_back(0);
	assert_true(file.size < RECORD_SEGMENT);
	munmap(file.base, file.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_header_functions_rules, begin),
		cmocka_unit_test_setup(test_waits_add_up, begin),
		cmocka_unit_test_setup(test_remarks_add_up, begin),
		cmocka_unit_test_setup(test_findings_that_differ_in_one_field, begin),
		cmocka_unit_test_setup(test_strings_and_segments, begin),
		cmocka_unit_test_setup(test_cap_counts_losses, begin),
		cmocka_unit_test_setup(test_file_size_limit, begin),
		cmocka_unit_test_setup(test_growth_after_program_closed_everything, begin),
		cmocka_unit_test_setup(test_growth_refuses_another_file, begin),
		cmocka_unit_test_setup(test_growth_leaves_no_descriptor, begin),
		cmocka_unit_test_setup(test_unwritable_folder, begin),
		cmocka_unit_test_setup(test_relative_folder_survives_chdir, begin),
		cmocka_unit_test_setup(test_fork_leaves_parent_file_alone, begin),
		cmocka_unit_test_setup(test_vfork_child_opens_nothing, begin),
		cmocka_unit_test_setup(test_killed_process_leaves_valid_file, begin),
		cmocka_unit_test_setup(test_counters_recycle, begin),
		cmocka_unit_test_setup(test_what_a_thread_is_inside_of, begin),
		cmocka_unit_test_setup(test_records_of_threads_recycle, begin),
		cmocka_unit_test_setup(test_reentry_is_dropped, begin),
		cmocka_unit_test_setup(test_threads, begin),
		cmocka_unit_test_setup(test_repeated_findings_take_no_memory, begin),
	};
	char command[64];
	int failed;

	if (!mkdtemp(folder))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) ? 1 : failed;
}
