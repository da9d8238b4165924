// SPDX-License-Identifier: MIT
/*
 * Parameters of graph nodes: adding nodes by hand, reading and changing them in a graph or in an
 * exec.
 *
 * Owns: the conversion between the driver's parameter structures and work items. Called by:
 * exports.c. Relies on graph.c.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

CUresult sim_node_add(CUgraphNode *ret_node, CUgraph handle, const CUgraphNode *dependencies,
		      size_t count, struct sim_work *work)
{
	struct sim_graph *graph = sim_object_check(handle, SIM_GRAPH);
	struct sim_node *node;
	bool good = graph && ret_node && (!count || dependencies);

	for (size_t i = 0; good && i < count; i++) {
		struct sim_node *on = sim_object_check(dependencies[i], SIM_NODE);

		good = on && on->graph == graph;
	}
	if (!good) {
		sim_work_clear(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	node = sim_node_new(graph, (struct sim_node *const *)dependencies, count, work);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_node = (CUgraphNode)node;
	return CUDA_SUCCESS;
}

static CUresult replace(struct sim_node *node, struct sim_work *work)
{
	if (node->work.kind != work->kind) {
		sim_work_clear(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_work_clear(&node->work);
	node->work = *work;
	return CUDA_SUCCESS;
}

static CUresult node_of(CUgraphNode handle, enum sim_kind kind, struct sim_node **ret_node)
{
	*ret_node = sim_object_check(handle, SIM_NODE);
	return *ret_node && (*ret_node)->work.kind == kind ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	static const CUgraphNodeType types[] = {
		[SIM_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
		[SIM_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[SIM_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[SIM_MEMSET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[SIM_HOST_FUNCTION] = CU_GRAPH_NODE_TYPE_HOST,
		[SIM_EVENT_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[SIM_EVENT_WAIT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[SIM_VALUE_WAIT] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[SIM_VALUE_WRITE] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
		[SIM_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[SIM_FREE_ASYNC] = CU_GRAPH_NODE_TYPE_MEM_FREE,
		[SIM_CHILD_GRAPH] = CU_GRAPH_NODE_TYPE_GRAPH,
		[SIM_BATCH] = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
	};
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);

	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = types[node->work.kind];
	return CUDA_SUCCESS;
}

/* ---- kernels ---- */

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS *from, struct sim_work *ret_work)
{
	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	const unsigned grid[3] = {from->gridDimX, from->gridDimY, from->gridDimZ};
	const unsigned block[3] = {from->blockDimX, from->blockDimY, from->blockDimZ};
	struct sim_function *function = sim_object_check(
		from->func ? (void *)from->func : (void *)from->kern, SIM_FUNCTION);

	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_kernel_work(function, grid, block, from->sharedMemBytes, from->kernelParams,
			       from->extra, ret_work);
}

static CUresult kernel_work_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *from, struct sim_work *ret_work)
{
	CUDA_KERNEL_NODE_PARAMS wide = {0};

	if (!from)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&wide, from, sizeof(*from));
	return kernel_work(&wide, ret_work);
}

CUresult impl_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_work work;
	CUresult result = kernel_work(nodeParams, &work);

	return result ? result
		      : sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_work work;
	CUresult result = kernel_work_v1(nodeParams, &work);

	return result ? result
		      : sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	const struct sim_kernel *kernel;
	size_t offset = 0;

	if (node_of(hNode, SIM_KERNEL, &node) || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	kernel = &node->work.kernel;
	*nodeParams = (CUDA_KERNEL_NODE_PARAMS){
		.func = (CUfunction)kernel->function,
		.gridDimX = kernel->grid[0],
		.gridDimY = kernel->grid[1],
		.gridDimZ = kernel->grid[2],
		.blockDimX = kernel->block[0],
		.blockDimY = kernel->block[1],
		.blockDimZ = kernel->block[2],
		.sharedMemBytes = kernel->shared,
		.kernelParams = node->parameters,
	};
	for (unsigned i = 0; kernel->builtin && i < kernel->builtin->parameter_count; i++) {
		size_t size = kernel->builtin->parameter_sizes[i];

		offset = (offset + size - 1) & ~(size - 1);
		node->parameters[i] = node->work.bytes + offset;
		offset += size;
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS wide;
	CUresult result = impl_cuGraphKernelNodeGetParams_v2(hNode, &wide);

	if (!result && nodeParams)
		memcpy(nodeParams, &wide, sizeof(*nodeParams));
	return result;
}

CUresult impl_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
					    const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = node_of(hNode, SIM_KERNEL, &node);

	if (!result)
		result = kernel_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphKernelNodeSetParams(CUgraphNode hNode,
					 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = node_of(hNode, SIM_KERNEL, &node);

	if (!result)
		result = kernel_work_v1(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
						const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		result = kernel_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					     const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		result = kernel_work_v1(nodeParams, &work);
	return result ? result : replace(node, &work);
}

/* ---- copies ---- */

static CUresult copy_work(const CUDA_MEMCPY3D *from, struct sim_work *ret_work)
{
	memset(ret_work, 0, sizeof(*ret_work));
	ret_work->kind = SIM_COPY;
	return sim_copy_3d(from, &ret_work->copy);
}

CUresult impl_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct sim_work work;
	CUresult result = copy_work(copyParams, &work);

	return result ? result
		      : sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	struct sim_node *node;
	const struct sim_copy *copy;

	if (node_of(hNode, SIM_COPY, &node) || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	copy = &node->work.copy;
	memset(nodeParams, 0, sizeof(*nodeParams));
	nodeParams->srcMemoryType = nodeParams->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	nodeParams->srcDevice = copy->source.address;
	nodeParams->srcPitch = copy->source.pitch;
	nodeParams->srcHeight =
		copy->source.pitch ? copy->source.slice / copy->source.pitch : copy->height;
	nodeParams->dstDevice = copy->destination.address;
	nodeParams->dstPitch = copy->destination.pitch;
	nodeParams->dstHeight = copy->destination.pitch
					? copy->destination.slice / copy->destination.pitch
					: copy->height;
	nodeParams->WidthInBytes = copy->width;
	nodeParams->Height = copy->height;
	nodeParams->Depth = copy->depth;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = node_of(hNode, SIM_COPY, &node);

	if (!result)
		result = copy_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					     const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		result = copy_work(copyParams, &work);
	return result ? result : replace(node, &work);
}

/* ---- memsets ---- */

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS *from, struct sim_work *ret_work)
{
	memset(ret_work, 0, sizeof(*ret_work));
	if (!from || (from->elementSize != 1 && from->elementSize != 2 && from->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	ret_work->kind = SIM_MEMSET;
	ret_work->memset = (struct sim_memset){
		.address = from->dst,
		.pitch = from->height == 1 ? from->width * from->elementSize : from->pitch,
		.width = from->width,
		.height = from->height,
		.value = from->value,
		.element = from->elementSize,
	};
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct sim_work work;
	CUresult result = memset_work(memsetParams, &work);

	return result ? result
		      : sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;

	if (node_of(hNode, SIM_MEMSET, &node) || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = (CUDA_MEMSET_NODE_PARAMS){
		.dst = node->work.memset.address,
		.pitch = node->work.memset.pitch,
		.value = node->work.memset.value,
		.elementSize = node->work.memset.element,
		.width = node->work.memset.width,
		.height = node->work.memset.height,
	};
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphMemsetNodeSetParams(CUgraphNode hNode,
					 const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = node_of(hNode, SIM_MEMSET, &node);

	if (!result)
		result = memset_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					     const CUDA_MEMSET_NODE_PARAMS *memsetParams,
					     CUcontext ctx)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result)
		result = memset_work(memsetParams, &work);
	return result ? result : replace(node, &work);
}

/* ---- host functions ---- */

static CUresult host_work(CUhostFn function, void *data, struct sim_work *ret_work)
{
	*ret_work = (struct sim_work){.kind = SIM_HOST_FUNCTION,
				      .host = {.function = function, .data = data}};
	return function ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies,
				 const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_work work;

	if (!nodeParams || host_work(nodeParams->fn, nodeParams->userData, &work))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;

	if (node_of(hNode, SIM_HOST_FUNCTION, &node) || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	nodeParams->fn = node->work.host.function;
	nodeParams->userData = node->work.host.data;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;

	if (node_of(hNode, SIM_HOST_FUNCTION, &node) || !nodeParams ||
	    host_work(nodeParams->fn, nodeParams->userData, &work))
		return CUDA_ERROR_INVALID_VALUE;
	return replace(node, &work);
}

CUresult impl_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					   const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;

	if (sim_exec_node(hGraphExec, hNode, &node) || !nodeParams ||
	    host_work(nodeParams->fn, nodeParams->userData, &work))
		return CUDA_ERROR_INVALID_VALUE;
	return replace(node, &work);
}

/* ---- events, children, empty nodes ---- */

static CUresult add_event(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
			  size_t count, CUevent handle, enum sim_kind kind)
{
	struct sim_work work = {.kind = kind, .event = sim_object_check(handle, SIM_EVENT)};

	return work.event ? sim_node_add(ret_node, graph, dependencies, count, &work)
			  : CUDA_ERROR_INVALID_VALUE;
}

CUresult impl_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					const CUgraphNode *dependencies, size_t numDependencies,
					CUevent event)
{
	return add_event(phGraphNode, hGraph, dependencies, numDependencies, event,
			 SIM_EVENT_RECORD);
}

CUresult impl_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      CUevent event)
{
	return add_event(phGraphNode, hGraph, dependencies, numDependencies, event, SIM_EVENT_WAIT);
}

CUresult impl_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	struct sim_node *node;

	if (node_of(hNode, SIM_EVENT_RECORD, &node) || !event_out)
		return CUDA_ERROR_INVALID_VALUE;
	*event_out = (CUevent)node->work.event;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	struct sim_node *node;

	if (node_of(hNode, SIM_EVENT_WAIT, &node) || !event_out)
		return CUDA_ERROR_INVALID_VALUE;
	*event_out = (CUevent)node->work.event;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       CUgraph childGraph)
{
	struct sim_graph *graph = sim_object_check(childGraph, SIM_GRAPH);
	struct sim_work work = {.kind = SIM_CHILD_GRAPH};

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	work.child = sim_graph_clone(graph);
	if (!work.child)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work.child->owned = true;
	return sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	struct sim_node *node;

	if (node_of(hNode, SIM_CHILD_GRAPH, &node) || !phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = (CUgraph)node->work.child;
	return CUDA_SUCCESS;
}

CUresult impl_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies)
{
	struct sim_work work = {.kind = SIM_EMPTY};

	return sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

/* ---- the general form ---- */

static CUresult any_work(const CUgraphNodeParams *from, struct sim_work *ret_work)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;

	memset(ret_work, 0, sizeof(*ret_work));
	switch (from->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		memcpy(&kernel, &from->kernel, sizeof(kernel));
		return kernel_work(&kernel, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_work(&from->memcpy.copyParams, ret_work);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		memcpy(&set, &from->memset, sizeof(set));
		return memset_work(&set, ret_work);
	case CU_GRAPH_NODE_TYPE_HOST:
		return host_work(from->host.fn, from->host.userData, ret_work);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		ret_work->kind = from->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? SIM_EVENT_RECORD
									       : SIM_EVENT_WAIT;
		ret_work->event = sim_object_check(from->eventRecord.event, SIM_EVENT);
		return ret_work->event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult impl_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies,
				const CUgraphEdgeData *dependencyData, size_t numDependencies,
				CUgraphNodeParams *nodeParams)
{
	struct sim_work work;
	CUresult result;

	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return impl_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies,
						     numDependencies, nodeParams->graph.graph);
	result = any_work(nodeParams, &work);
	return result ? result
		      : sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			     const CUgraphNode *dependencies, size_t numDependencies,
			     CUgraphNodeParams *nodeParams)
{
	return impl_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies,
				      nodeParams);
}

CUresult impl_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);
	struct sim_work work;
	CUresult result;

	if (!node || !nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = any_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}

CUresult impl_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				       CUgraphNodeParams *nodeParams)
{
	struct sim_node *node;
	struct sim_work work;
	CUresult result = sim_exec_node(hGraphExec, hNode, &node);

	if (!result && !nodeParams)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = any_work(nodeParams, &work);
	return result ? result : replace(node, &work);
}
