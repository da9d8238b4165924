// SPDX-License-Identifier: MIT
/*
 * Graphs: nodes and edges, instantiation, launch, update.
 *
 * Owns: struct sim_graph, sim_node, sim_exec. A launch puts a begin and an end operation on the
 * stream and one operation per node between them, ordered by the edges alone. Launches of one exec
 * follow each other. Called by: exports.c, capture.c, node.c (parameters of nodes). Relies on
 * stream.c and engine.c.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct sim_graph *sim_graph_new(void)
{
	return sim_object_new(SIM_GRAPH);
}

static void node_free(struct sim_node *node)
{
	if (node->work.kind == SIM_CHILD_GRAPH && node->work.child)
		sim_graph_free(node->work.child);
	sim_work_clear(&node->work);
	free(node->dependencies);
	sim_object_free(node);
}

void sim_graph_free(struct sim_graph *graph)
{
	struct hold *holds = graph->holds;

	for (unsigned i = 0; i < graph->node_count; i++)
		node_free(graph->nodes[i]);
	free(graph->nodes);
	sim_object_free(graph);
	sim_user_objects_drop(holds);
}

int sim_node_depend(struct sim_node *node, struct sim_node *on)
{
	struct sim_node **grown;

	for (unsigned i = 0; i < node->dependency_count; i++)
		if (node->dependencies[i] == on)
			return 0;
	grown = realloc(node->dependencies, (node->dependency_count + 1) * sizeof(*grown));
	if (!grown)
		return -1;
	node->dependencies = grown;
	grown[node->dependency_count++] = on;
	return 0;
}

struct sim_node *sim_node_new(struct sim_graph *graph, struct sim_node *const *dependencies,
			      unsigned count, struct sim_work *work)
{
	struct sim_node *node = sim_object_new(SIM_NODE);
	struct sim_node **grown =
		sim_grow(graph->nodes, graph->node_count, &graph->node_space, sizeof(*grown));

	if (grown)
		graph->nodes = grown;
	if (!node || !grown) {
		sim_work_clear(work);
		return NULL;
	}
	node->graph = graph;
	node->index = graph->node_count;
	node->work = *work;
	memset(work, 0, sizeof(*work));
	grown[graph->node_count++] = node;
	for (unsigned i = 0; i < count; i++)
		sim_node_depend(node, dependencies[i]);
	return node;
}

struct sim_graph *sim_graph_clone(const struct sim_graph *graph)
{
	struct sim_graph *clone = sim_graph_new();

	if (!clone)
		return NULL;
	for (unsigned i = 0; i < graph->node_count; i++) {
		struct sim_work work;
		struct sim_node *node;

		if (sim_work_copy(&work, &graph->nodes[i]->work))
			abort();
		if (work.kind == SIM_CHILD_GRAPH) {
			work.child = sim_graph_clone(graph->nodes[i]->work.child);
			work.child->owned = true;
		}
		node = sim_node_new(clone, NULL, 0, &work);
		if (!node)
			abort();
		node->original_id = graph->nodes[i]->object.id;
		node->disabled = graph->nodes[i]->disabled;
	}
	for (unsigned i = 0; i < graph->node_count; i++)
		for (unsigned d = 0; d < graph->nodes[i]->dependency_count; d++)
			sim_node_depend(clone->nodes[i],
					clone->nodes[graph->nodes[i]->dependencies[d]->index]);
	clone->holds = sim_user_objects_clone(graph->holds);
	return clone;
}

static struct sim_graph *check(CUgraph handle)
{
	return sim_object_check(handle, SIM_GRAPH);
}

CUresult impl_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct sim_graph *graph;

	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph = sim_graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = (CUgraph)graph;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphDestroy(CUgraph hGraph)
{
	struct sim_graph *graph = check(hGraph);

	if (!graph || graph->owned)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_free(graph);
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	struct sim_graph *graph = check(originalGraph);

	if (!graph || !phGraphClone)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraphClone = (CUgraph)sim_graph_clone(graph);
	return *phGraphClone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct sim_node *counterpart(struct sim_graph *clone, const struct sim_node *original)
{
	for (unsigned i = 0; original && i < clone->node_count; i++)
		if (clone->nodes[i]->original_id == original->object.id)
			return clone->nodes[i];
	return NULL;
}

CUresult impl_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
				     CUgraph hClonedGraph)
{
	struct sim_graph *graph = check(hClonedGraph);
	struct sim_node *node = sim_object_check(hOriginalNode, SIM_NODE);

	if (!graph || !node || !phNode)
		return CUDA_ERROR_INVALID_VALUE;
	node = counterpart(graph, node);
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

/* ---- edges ---- */

/* The usual way out for lists: with no array only the number; else up to *count entries, NULL
 * beyond the end. */
static CUresult give(void *const *from, unsigned have, void **to, size_t *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; to && i < *count; i++)
		to[i] = i < have ? from[i] : NULL;
	*count = have;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	struct sim_graph *graph = check(hGraph);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	return give((void **)graph->nodes, graph->node_count, (void **)nodes, numNodes);
}

CUresult impl_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	struct sim_graph *graph = check(hGraph);
	void **roots;
	unsigned count = 0;
	CUresult result;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	roots = calloc(graph->node_count + 1, sizeof(*roots));
	if (!roots)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < graph->node_count; i++)
		if (!graph->nodes[i]->dependency_count)
			roots[count++] = graph->nodes[i];
	result = give(roots, count, (void **)rootNodes, numRootNodes);
	free(roots);
	return result;
}

CUresult impl_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				 CUgraphEdgeData *edgeData, size_t *numEdges)
{
	struct sim_graph *graph = check(hGraph);
	size_t count = 0;

	if (!graph || !numEdges)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < graph->node_count; i++) {
		for (unsigned d = 0; d < graph->nodes[i]->dependency_count; d++, count++) {
			if (!from || !to || count >= *numEdges)
				continue;
			from[count] = (CUgraphNode)graph->nodes[i]->dependencies[d];
			to[count] = (CUgraphNode)graph->nodes[i];
			if (edgeData)
				memset(&edgeData[count], 0, sizeof(*edgeData));
		}
	}
	*numEdges = count;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	return impl_cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult impl_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
					    CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	return give((void **)node->dependencies, node->dependency_count, (void **)dependencies,
		    numDependencies);
}

CUresult impl_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					 size_t *numDependencies)
{
	return impl_cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

CUresult impl_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
					      CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);
	unsigned count = 0;
	CUresult result;
	void **found;

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	found = calloc(node->graph->node_count + 1, sizeof(*found));
	if (!found)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < node->graph->node_count; i++)
		for (unsigned d = 0; d < node->graph->nodes[i]->dependency_count; d++)
			if (node->graph->nodes[i]->dependencies[d] == node)
				found[count++] = node->graph->nodes[i];
	result = give(found, count, (void **)dependentNodes, numDependentNodes);
	free(found);
	return result;
}

CUresult impl_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
					   size_t *numDependentNodes)
{
	return impl_cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

CUresult impl_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					size_t numDependencies)
{
	struct sim_graph *graph = check(hGraph);

	if (!graph || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		struct sim_node *first = sim_object_check(from[i], SIM_NODE);
		struct sim_node *second = sim_object_check(to[i], SIM_NODE);

		if (!first || !second || first->graph != graph || second->graph != graph ||
		    first == second)
			return CUDA_ERROR_INVALID_VALUE;
		if (sim_node_depend(second, first))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				     size_t numDependencies)
{
	return impl_cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

static void undepend(struct sim_node *node, const struct sim_node *on)
{
	for (unsigned d = 0; d < node->dependency_count; d++) {
		if (node->dependencies[d] != on)
			continue;
		node->dependencies[d] = node->dependencies[--node->dependency_count];
		return;
	}
}

CUresult impl_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
					   const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					   size_t numDependencies)
{
	struct sim_graph *graph = check(hGraph);

	if (!graph || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		struct sim_node *second = sim_object_check(to[i], SIM_NODE);

		if (!second || second->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
		undepend(second, (struct sim_node *)from[i]);
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
					const CUgraphNode *to, size_t numDependencies)
{
	return impl_cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult impl_cuGraphDestroyNode(CUgraphNode hNode)
{
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);
	struct sim_graph *graph;

	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	graph = node->graph;
	for (unsigned i = 0; i < graph->node_count; i++)
		undepend(graph->nodes[i], node);
	memmove(&graph->nodes[node->index], &graph->nodes[node->index + 1],
		(graph->node_count - node->index - 1) * sizeof(*graph->nodes));
	graph->node_count--;
	for (unsigned i = node->index; i < graph->node_count; i++)
		graph->nodes[i]->index = i;
	node_free(node);
	return CUDA_SUCCESS;
}

/* ---- execs ---- */

/* Depth-first: a cycle is found when a node is met again while still open. */
static bool cycle(struct sim_node *node, unsigned char *seen)
{
	if (seen[node->index])
		return seen[node->index] == 1;
	seen[node->index] = 1;
	for (unsigned d = 0; d < node->dependency_count; d++)
		if (cycle(node->dependencies[d], seen))
			return true;
	seen[node->index] = 2;
	return false;
}

static bool has_cycle(struct sim_graph *graph)
{
	unsigned char *seen = calloc(graph->node_count + 1, 1);
	bool found = false;

	if (!seen)
		abort();
	for (unsigned i = 0; i < graph->node_count && !found; i++)
		found = cycle(graph->nodes[i], seen);
	free(seen);
	return found;
}

CUresult impl_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					  unsigned long long flags)
{
	struct sim_graph *graph = check(hGraph);
	struct sim_exec *exec;

	if (!graph || !phGraphExec || has_cycle(graph))
		return CUDA_ERROR_INVALID_VALUE;
	exec = sim_object_new(SIM_EXEC);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->flags = flags;
	exec->graph = sim_graph_clone(graph);
	if (!exec->graph) {
		sim_object_free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->graph->owned = true;
	*phGraphExec = (CUgraphExec)exec;
	sim_cost(20000);
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
				    CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	return impl_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult impl_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
				 char *logBuffer, size_t bufferSize)
{
	return impl_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult impl_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult result;

	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = impl_cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
	instantiateParams->result_out =
		result ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
	instantiateParams->hErrNode_out = NULL;
	return result;
}

static struct sim_exec *exec_check(CUgraphExec handle)
{
	return sim_object_check(handle, SIM_EXEC);
}

CUresult impl_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct sim_exec *exec = exec_check(hGraphExec);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	/* What was launched goes on: operations have copies of the work. */
	sim_operation_put(exec->last);
	sim_graph_free(exec->graph);
	sim_object_free(exec);
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	struct sim_exec *exec = exec_check(hGraphExec);

	if (!exec || !flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = exec->flags;
	return CUDA_SUCCESS;
}

/* Dependencies first; an edge added by hand may point backwards in the list. */
static unsigned order_from(struct sim_node *node, struct sim_node **order, unsigned count,
			   bool *seen)
{
	if (seen[node->index])
		return count;
	seen[node->index] = true;
	for (unsigned d = 0; d < node->dependency_count; d++)
		count = order_from(node->dependencies[d], order, count, seen);
	order[count++] = node;
	return count;
}

/* Submits the nodes after `begin`; *ret_leaves gets references to all their operations, by node. */
static struct sim_operation **launch_nodes(struct sim_context *context, struct sim_graph *graph,
					   struct sim_operation *begin)
{
	struct sim_operation **operations = calloc(graph->node_count + 1, sizeof(*operations));
	struct sim_node **order = calloc(graph->node_count + 1, sizeof(*order));
	bool *seen = calloc(graph->node_count + 1, sizeof(*seen));
	unsigned count = 0;

	if (!operations || !order || !seen)
		abort();
	for (unsigned i = 0; i < graph->node_count; i++)
		count = order_from(graph->nodes[i], order, count, seen);
	for (unsigned i = 0; i < count; i++) {
		struct sim_node *node = order[i];
		struct sim_operation *operation, **inner = NULL;
		struct sim_graph *child =
			node->work.kind == SIM_CHILD_GRAPH ? node->work.child : NULL;

		if (child) {
			/* A child has a begin of its own, then its nodes, then the operation that
			 * stands for it. */
			struct sim_operation *first = sim_operation_new(context, NULL);

			if (!first)
				abort();
			sim_operation_after(first, begin);
			for (unsigned d = 0; d < node->dependency_count; d++)
				sim_operation_after(first,
						    operations[node->dependencies[d]->index]);
			sim_operation_commit(first);
			inner = launch_nodes(context, child, first);
			sim_operation_put(first);
		}
		operation = sim_operation_new(context, NULL);
		if (!operation)
			abort();
		if (!child && !node->disabled && sim_work_copy(&operation->work, &node->work))
			abort();
		sim_operation_after(operation, begin);
		for (unsigned d = 0; d < node->dependency_count; d++)
			sim_operation_after(operation, operations[node->dependencies[d]->index]);
		if (child) {
			for (unsigned c = 0; c < child->node_count; c++) {
				sim_operation_after(operation, inner[c]);
				sim_operation_put(inner[c]);
			}
			free(inner);
		}
		if (node->work.kind == SIM_EVENT_WAIT && node->work.event &&
		    node->work.event->record)
			sim_operation_after(operation, node->work.event->record);
		if (node->work.kind == SIM_EVENT_RECORD && node->work.event && !node->disabled) {
			sim_operation_put(node->work.event->record);
			node->work.event->record = sim_operation_get(operation);
			sim_event_uncapture(node->work.event);
		}
		sim_operation_commit(operation);
		operations[node->index] = operation;
	}
	free(order);
	free(seen);
	return operations;
}

static CUresult capture_child(struct sim_stream *stream, struct sim_graph *graph)
{
	struct sim_work work = {.kind = SIM_CHILD_GRAPH, .child = sim_graph_clone(graph)};

	if (!work.child)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work.child->owned = true;
	return sim_submit(stream, &work, NULL);
}

CUresult impl_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct sim_exec *exec = exec_check(hGraph);
	struct sim_operation **operations, *begin = NULL, *end = NULL;
	struct sim_work work = {.kind = SIM_EMPTY};
	struct sim_stream *stream;
	unsigned count;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return capture_child(stream, exec->graph);
	result = sim_submit_after(stream, &work, exec->last, &begin);
	if (result)
		return result;
	operations = launch_nodes(stream->context, exec->graph, begin);
	count = exec->graph->node_count;
	work = (struct sim_work){.kind = SIM_EMPTY};
	result = sim_submit_list(stream, &work, operations, count, &end);
	for (unsigned i = 0; i < count; i++)
		sim_operation_put(operations[i]);
	free(operations);
	sim_operation_put(begin);
	sim_operation_put(exec->last);
	exec->last = end;
	return result;
}

CUresult impl_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	struct sim_work work = {.kind = SIM_EMPTY};
	struct sim_stream *stream;
	CUresult result = sim_stream_resolve(hStream, &stream);

	if (result)
		return result;
	return exec_check(hGraph) ? sim_submit(stream, &work, NULL) : CUDA_ERROR_INVALID_VALUE;
}

static bool same_shape(const struct sim_graph *one, const struct sim_graph *two)
{
	if (one->node_count != two->node_count)
		return false;
	for (unsigned i = 0; i < one->node_count; i++) {
		const struct sim_node *a = one->nodes[i], *b = two->nodes[i];

		if (a->work.kind != b->work.kind || a->dependency_count != b->dependency_count)
			return false;
		for (unsigned d = 0; d < a->dependency_count; d++)
			if (a->dependencies[d]->index != b->dependencies[d]->index)
				return false;
	}
	return true;
}

CUresult impl_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
				   CUgraphExecUpdateResultInfo *resultInfo)
{
	struct sim_exec *exec = exec_check(hGraphExec);
	struct sim_graph *graph = check(hGraph), *clone;

	if (!exec || !graph || !resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	memset(resultInfo, 0, sizeof(*resultInfo));
	if (!same_shape(exec->graph, graph)) {
		resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	clone = sim_graph_clone(graph);
	if (!clone)
		return CUDA_ERROR_OUT_OF_MEMORY;
	clone->owned = true;
	sim_graph_free(exec->graph);
	exec->graph = clone;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
				CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;
	CUresult result = impl_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);

	if (hErrorNode_out)
		*hErrorNode_out = NULL;
	if (updateResult_out && (!result || result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE))
		*updateResult_out = info.result;
	return result;
}

/* The node of an exec that stands for a node of the graph it was made from. */
CUresult sim_exec_node(CUgraphExec exec_handle, CUgraphNode handle, struct sim_node **ret_node)
{
	struct sim_exec *exec = exec_check(exec_handle);
	struct sim_node *node = sim_object_check(handle, SIM_NODE);

	if (!exec || !node)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_node = counterpart(exec->graph, node);
	return *ret_node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				    unsigned int isEnabled)
{
	struct sim_node *node;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		node->disabled = !isEnabled;
	return result;
}

CUresult impl_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
				    unsigned int *isEnabled)
{
	struct sim_node *node;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		*isEnabled = !node->disabled;
	return result;
}
