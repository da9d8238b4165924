// SPDX-License-Identifier: MIT
/*
 * User objects: counted references with a destructor, held by the program or by graphs. The
 * destructor runs on the thread that gives up the last reference, with the lock released. Called
 * by: exports.c, graph.c (a graph goes).
 */
#include "sim.h"
#include <stdlib.h>

struct sim_user_object {
	struct sim_object object;
	CUhostFn destroy;
	void *data;
	unsigned held;
};

struct hold {
	struct sim_user_object *object;
	unsigned count;
	struct hold *next;
};

static void drop(struct sim_user_object *object, unsigned count)
{
	CUhostFn destroy = object->destroy;
	void *data = object->data;
	struct sim_call *call = sim_current_call;

	object->held -= count < object->held ? count : object->held;
	if (object->held)
		return;
	sim_object_free(object);
	pthread_mutex_unlock(&sim.lock);
	sim_in_callback = true;
	destroy(data);
	sim_in_callback = false;
	pthread_mutex_lock(&sim.lock);
	sim_current_call = call;
}

static struct sim_user_object *check(CUuserObject handle)
{
	return sim_object_check(handle, SIM_USER_OBJECT);
}

CUresult impl_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
				 unsigned int initialRefcount, unsigned int flags)
{
	struct sim_user_object *object;

	if (!object_out || !destroy || !initialRefcount ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return CUDA_ERROR_INVALID_VALUE;
	object = sim_object_new(SIM_USER_OBJECT);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->destroy = destroy;
	object->data = ptr;
	object->held = initialRefcount;
	*object_out = (CUuserObject)object;
	return CUDA_SUCCESS;
}

CUresult impl_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
	if (!check(object) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	check(object)->held += count;
	return CUDA_SUCCESS;
}

CUresult impl_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
	if (!check(object) || !count || count > check(object)->held)
		return CUDA_ERROR_INVALID_VALUE;
	drop(check(object), count);
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
				      unsigned int flags)
{
	struct sim_graph *holder = sim_object_check(graph, SIM_GRAPH);
	struct hold *hold;

	if (!holder || !check(object) || !count || flags & ~CU_GRAPH_USER_OBJECT_MOVE)
		return CUDA_ERROR_INVALID_VALUE;
	hold = malloc(sizeof(*hold));
	if (!hold)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*hold = (struct hold){.object = check(object), .count = count, .next = holder->holds};
	holder->holds = hold;
	if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
		check(object)->held += count;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
	struct sim_graph *holder = sim_object_check(graph, SIM_GRAPH);

	if (!holder || !check(object) || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct hold **link = &holder->holds; *link; link = &(*link)->next) {
		struct hold *hold = *link;

		if (hold->object != check(object) || hold->count < count)
			continue;
		hold->count -= count;
		if (!hold->count) {
			*link = hold->next;
			free(hold);
		}
		drop(check(object), count);
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/* The graph goes or is cloned: a clone holds what the original holds. */
void sim_user_objects_drop(struct hold *holds)
{
	while (holds) {
		struct hold *hold = holds;

		holds = hold->next;
		drop(hold->object, hold->count);
		free(hold);
	}
}

struct hold *sim_user_objects_clone(const struct hold *holds)
{
	struct hold *copies = NULL;

	for (; holds; holds = holds->next) {
		struct hold *hold = malloc(sizeof(*hold));

		if (!hold)
			abort();
		*hold = (struct hold){
			.object = holds->object, .count = holds->count, .next = copies};
		hold->object->held += hold->count;
		copies = hold;
	}
	return copies;
}
