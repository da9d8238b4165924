// SPDX-License-Identifier: MIT
/*
 * Dump, tasks: the threads of a process as the kernel sees them, from /proc/PID/task. Called by the dump. Which call a thread waits in may be hidden from
 * who is not its user or root (ptrace_scope); where it waits in the kernel, too (kptr_restrict). What cannot be read is left out.
 */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <sys/syscall.h>

#include "dump.h"
#include "memory.h"
#include "text.h"

/* Of threads that wait for a device, a lock, time or a file. */
static const struct {
	long number;
	const char *name;
} syscalls[] = {
	{SYS_clock_nanosleep, "clock_nanosleep"},
#ifdef SYS_epoll_wait
	{SYS_epoll_wait, "epoll_wait"},
#endif
	{SYS_epoll_pwait, "epoll_pwait"},
	{SYS_futex, "futex"},
	{SYS_ioctl, "ioctl"},
	{SYS_madvise, "madvise"},
	{SYS_mmap, "mmap"},
	{SYS_munmap, "munmap"},
	{SYS_nanosleep, "nanosleep"},
#ifdef SYS_pause
	{SYS_pause, "pause"},
#endif
#ifdef SYS_poll
	{SYS_poll, "poll"},
#endif
	{SYS_ppoll, "ppoll"},
	{SYS_read, "read"},
	{SYS_recvfrom, "recvfrom"},
	{SYS_recvmsg, "recvmsg"},
	{SYS_restart_syscall, "restart_syscall"},
	{SYS_rt_sigsuspend, "rt_sigsuspend"},
	{SYS_rt_sigtimedwait, "rt_sigtimedwait"},
	{SYS_sched_yield, "sched_yield"},
	{SYS_wait4, "wait4"},
	{SYS_write, "write"},
};

/* First bytes of a small file; false: it cannot be read, or is empty. */
static bool read_small(uint32_t pid, uint32_t thread, const char *name, char *text, size_t size)
{
	_cleanup_free_ char *path =
		memory_format("/proc/%" PRIu32 "/task/%" PRIu32 "/%s", pid, thread, name);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	size_t length = file ? fread(text, 1, size - 1, file) : 0;

	text[length] = '\0';
	return length != 0;
}

/* State and name of a thread; the name may hold anything. */
static void read_stat(struct dump_task *task, uint32_t pid)
{
	char text[1024], *begin, *end;

	if (!read_small(pid, task->thread, "stat", text, sizeof(text)))
		return;
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (!begin || !end || end < begin)
		return;
	if (end[1] == ' ' && isalpha((unsigned char)end[2]))
		task->state = end[2];
	*end = '\0';
	task->name = memory_copy(begin + 1);
}

static void read_inner(struct dump_task *task, uint32_t pid)
{
	char text[4096], *line, *last;

	task->inner = task->thread;
	if (!read_small(pid, task->thread, "status", text, sizeof(text)))
		return;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return;
	line++;
	line[strcspn(line, "\n")] = '\0';
	last = strrchr(line, '\t');
	if (last)
		task->inner = (uint32_t)strtoul(last, NULL, 10);
}

static void read_wchan(struct dump_task *task, uint32_t pid)
{
	char text[128];

	/* "0": it does not wait, or it is not told. */
	if (read_small(pid, task->thread, "wchan", text, sizeof(text)) && strcmp(text, "0"))
		task->wchan = memory_copy(text);
}

static void read_syscall(struct dump_task *task, uint32_t pid)
{
	char text[256], *end;
	long number;

	if (!read_small(pid, task->thread, "syscall", text, sizeof(text)))
		return;
	number = strtol(text, &end, 10);
	if (end == text || number < 0)
		return; /* it runs, or is in none */
	for (size_t i = 0; i < ARRAY_SIZE(syscalls); i++)
		if (syscalls[i].number == number) {
			task->syscall = memory_copy(syscalls[i].name);
			return;
		}
	task->syscall = memory_format("%ld", number);
}

static int by_number(const void *left, const void *right)
{
	const struct dump_task *a = left, *b = right;

	return a->thread < b->thread ? -1 : a->thread > b->thread;
}

void dump_tasks_read(struct dump_tasks *tasks, uint32_t pid)
{
	_cleanup_free_ char *path = memory_format("/proc/%" PRIu32 "/task", pid);
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder))) {
		struct dump_task task = {.state = '?'};

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		task.thread = (uint32_t)strtoul(entry->d_name, NULL, 10);
		read_stat(&task, pid);
		read_inner(&task, pid);
		read_wchan(&task, pid);
		read_syscall(&task, pid);
		tasks->items = memory_grow(tasks->items, tasks->count, &tasks->capacity,
					   sizeof(tasks->items[0]));
		tasks->items[tasks->count++] = task;
	}
	if (folder)
		(void)closedir(folder);
	if (tasks->count)
		qsort(tasks->items, tasks->count, sizeof(tasks->items[0]), by_number);
}

void dump_tasks_done(struct dump_tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++) {
		free(tasks->items[i].name);
		free(tasks->items[i].wchan);
		free(tasks->items[i].syscall);
	}
	free(tasks->items);
	*tasks = (struct dump_tasks){0};
}
