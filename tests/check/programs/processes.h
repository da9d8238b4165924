// SPDX-License-Identifier: MIT
/*
 * Of the programs with a second process: it is started, before cuInit, as the same program with the pipe's two ends as arguments. What is shared goes
 * through the first pipe, once memory may be read; the second process answers when it has read it.
 */
#ifndef CHECK_PROCESSES_H
#define CHECK_PROCESSES_H

#include "common.h"

struct parcel {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static int to_child[2], to_parent[2];
static pid_t child;

static inline void start_child(char **argv)
{
	char in[16], out[16];

	if (pipe(to_child) || pipe(to_parent))
		exit(1);
	(void)snprintf(in, sizeof(in), "%d", to_child[0]);
	(void)snprintf(out, sizeof(out), "%d", to_parent[1]);
	child = fork();
	if (!child) {
		(void)execl("/proc/self/exe", argv[0], argv[1], in, out, NULL);
		_exit(127);
	}
}

static inline void tell(int to, const void *what, size_t bytes)
{
	if (write(to, what, bytes) != (ssize_t)bytes)
		exit(1);
}

static inline void hear(int from, void *what, size_t bytes)
{
	if (read(from, what, bytes) != (ssize_t)bytes)
		exit(1);
}

/* In the first process: the second one may read now. Its answer is waited for. */
static inline void tell_child(const struct parcel *parcel)
{
	char done;
	int status;

	tell(to_child[1], parcel, sizeof(*parcel));
	hear(to_parent[0], &done, 1);
	if (waitpid(child, &status, 0) != child || status)
		exit(1);
}

/* The second process: reads the memory, behind the event where there is one. */
static inline int read_shared(char **argv, bool has_event)
{
	struct parcel parcel;
	CUdeviceptr shared;
	CUstream stream;
	CUevent event;
	void *host;

	start();
	hear(atoi(argv[2]), &parcel, sizeof(parcel));
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	host = pinned(BYTES);
	OK(cuIpcOpenMemHandle(&shared, parcel.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	if (has_event) {
		OK(cuIpcOpenEventHandle(&event, parcel.event));
		OK(cuStreamWaitEvent(stream, event, 0));
	}
	OK(cuMemcpyDtoHAsync(host, shared, BYTES, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuIpcCloseMemHandle(shared));
	tell(atoi(argv[3]), "", 1);
	return 0;
}

#endif
