// SPDX-License-Identifier: MIT
/*
 * Memory and events shared between processes.
 *
 * Owns: the contents of IPC handles: the exporting process, its memory file and the place in it.
 * The importer opens the same file through /proc and maps it under an address of its own. An
 * interprocess event has a page with two counters, records submitted and records done; a wait in
 * another process polls the second. Called by: exports.c, event.c, engine.c.
 */
#include "sim.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  ((size_t)4096)
#define MAGIC 0x73696d637564616bULL

struct handle {
	uint64_t magic;
	int32_t process, file;
	uint64_t offset, size, id;
};

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "handle too small");

/* Shared by processes: written with atomic adds and stores by whoever records, read by whoever
 * waits. */
struct counters {
	uint64_t submitted, done;
};

struct sim_ipc_event {
	int file;
	struct counters *counters;
};

static int open_file(const struct handle *handle)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->process, handle->file);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- memory ---- */

CUresult impl_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct sim_allocation *allocation = sim_memory_find(dptr);
	struct handle handle = {.magic = MAGIC, .process = getpid()};

	if (!pHandle || !allocation || allocation->kind != SIM_DEVICE || allocation->imported ||
	    allocation->array || allocation->physical)
		return CUDA_ERROR_INVALID_VALUE;
	handle.file = sim_memory_file(allocation->device);
	handle.offset = sim_memory_offset(allocation);
	handle.size = allocation->size;
	handle.id = allocation->id;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

CUresult impl_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle given, unsigned int Flags)
{
	struct sim_context *context;
	struct sim_allocation *allocation;
	struct handle handle;
	size_t lead, length;
	uint64_t space;
	void *map;
	int file;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	memcpy(&handle, &given, sizeof(handle));
	if (!pdptr || Flags & ~CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.process == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	file = open_file(&handle);
	if (file < 0)
		return CUDA_ERROR_MAP_FAILED;
	lead = handle.offset % PAGE;
	length = (lead + handle.size + PAGE - 1) & ~(PAGE - 1);
	map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, handle.offset - lead);
	close(file);
	if (map == MAP_FAILED)
		return CUDA_ERROR_MAP_FAILED;
	space = sim_memory_space(context->device, length);
	allocation = space ? calloc(1, sizeof(*allocation)) : NULL;
	if (!allocation) {
		munmap(map, length);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	allocation->address = space + lead;
	allocation->size = handle.size;
	allocation->reserved = length;
	allocation->backing = (uint8_t *)map + lead;
	allocation->kind = SIM_DEVICE;
	allocation->device = context->device;
	allocation->context = context;
	allocation->context_id = context->object.id;
	allocation->imported = allocation->whole_map = true;
	if (sim_memory_insert(allocation))
		abort();
	*pdptr = allocation->address;
	return CUDA_SUCCESS;
}

CUresult impl_cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
	return impl_cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult impl_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
	struct sim_allocation *allocation = sim_memory_find(dptr);
	size_t lead = dptr % PAGE;

	if (!allocation || !allocation->imported || allocation->address != dptr)
		return CUDA_ERROR_INVALID_VALUE;
	sim_wait_device(allocation->device);
	allocation = sim_memory_find(dptr);
	if (!allocation)
		return CUDA_ERROR_INVALID_VALUE;
	sim_memory_remove(allocation);
	munmap(allocation->backing - lead, allocation->reserved);
	sim_memory_space_free(allocation->device, allocation->address - lead, allocation->reserved);
	free(allocation);
	return CUDA_SUCCESS;
}

/* ---- events ---- */

static CUresult attach(struct sim_event *event, int file)
{
	void *map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	event->shared = calloc(1, sizeof(*event->shared));
	if (map == MAP_FAILED || !event->shared)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->shared->file = file;
	event->shared->counters = map;
	return CUDA_SUCCESS;
}

CUresult sim_ipc_event_open(struct sim_event *event)
{
	int file = memfd_create("simcuda-event", MFD_CLOEXEC);

	if (file < 0 || ftruncate(file, PAGE))
		return CUDA_ERROR_OPERATING_SYSTEM;
	return attach(event, file);
}

void sim_ipc_event_record(struct sim_event *event, struct sim_work *work)
{
	if (!event->shared)
		return;
	work->mark = event->shared;
	work->mark_number =
		__atomic_add_fetch(&event->shared->counters->submitted, 1, __ATOMIC_ACQ_REL);
}

/* Pairs with the acquire load of sim_ipc_mark_done() in another process: its bytes are there when
 * it is seen. */
void sim_ipc_mark(const struct sim_work *work)
{
	uint64_t seen = __atomic_load_n(&work->mark->counters->done, __ATOMIC_RELAXED);

	while (seen < work->mark_number &&
	       !__atomic_compare_exchange_n(&work->mark->counters->done, &seen, work->mark_number,
					    false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

bool sim_ipc_mark_done(const struct sim_work *work)
{
	return __atomic_load_n(&work->mark->counters->done, __ATOMIC_ACQUIRE) >= work->mark_number;
}

CUresult sim_ipc_event_wait(struct sim_stream *stream, struct sim_event *event)
{
	struct sim_work work = {.kind = SIM_EVENT_WAIT, .mark = event->shared};

	work.mark_number = __atomic_load_n(&event->shared->counters->submitted, __ATOMIC_ACQUIRE);
	return sim_submit(stream, &work, NULL);
}

bool sim_ipc_event_done(struct sim_event *event)
{
	struct counters *counters = event->shared->counters;

	return __atomic_load_n(&counters->done, __ATOMIC_ACQUIRE) >=
	       __atomic_load_n(&counters->submitted, __ATOMIC_ACQUIRE);
}

/* Another process may have recorded it: look every 100 us with the lock released. */
void sim_ipc_event_synchronize(struct sim_event *event)
{
	struct sim_call *call = sim_current_call;

	while (!sim_ipc_event_done(event)) {
		if (event->record && event->record->state != SIM_DONE) {
			sim_wait_operation(event->record);
			continue;
		}
		call->waited = true;
		pthread_mutex_unlock(&sim.lock);
		usleep(100);
		pthread_mutex_lock(&sim.lock);
		sim_current_call = call;
	}
}

/* The page stays mapped: records under way still count in it, and another process may look. */
void sim_ipc_event_close(struct sim_event *event)
{
	event->shared = NULL;
}

CUresult impl_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
	struct sim_event *found = sim_object_check(event, SIM_EVENT);
	struct handle handle = {.magic = MAGIC, .process = getpid()};

	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pHandle || !found->shared)
		return CUDA_ERROR_INVALID_VALUE;
	handle.file = found->shared->file;
	handle.id = found->object.id;
	memset(pHandle, 0, sizeof(*pHandle));
	memcpy(pHandle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

CUresult impl_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle given)
{
	struct sim_event *event;
	struct handle handle;
	CUevent created;
	CUresult result;
	int file;

	memcpy(&handle, &given, sizeof(handle));
	if (!phEvent || handle.magic != MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (handle.process == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	file = open_file(&handle);
	if (file < 0)
		return CUDA_ERROR_MAP_FAILED;
	result = impl_cuEventCreate(&created, CU_EVENT_DISABLE_TIMING);
	if (result) {
		close(file);
		return result;
	}
	event = (struct sim_event *)created;
	event->flags |= CU_EVENT_INTERPROCESS;
	result = attach(event, file);
	if (!result)
		*phEvent = created;
	return result;
}
