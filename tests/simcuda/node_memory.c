// SPDX-License-Identifier: MIT
/*
 * Allocation and free nodes of graphs, and batches of value operations as nodes.
 *
 * Owns: their parameters. The memory of an allocation node is there from the making of the node and
 * stays until the process ends; a free node only ends its use. Called by: exports.c. Relies on
 * node.c for the making of nodes.
 */
#include "sim.h"
#include <string.h>

CUresult impl_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct sim_work work = {.kind = SIM_ALLOC};
	struct sim_context *context;
	struct sim_allocation *block;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!nodeParams || !nodeParams->bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_memory_device_new(context, nodeParams->bytesize, 0, &block);
	if (result)
		return result;
	block->context = NULL;
	block->array = true; /* not for cuMemFree */
	work.allocation = block;
	result = sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
	if (result)
		sim_memory_device_free(block);
	else
		nodeParams->dptr = block->address;
	return result;
}

CUresult impl_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies,
				    CUdeviceptr dptr)
{
	struct sim_work work = {.kind = SIM_FREE_ASYNC};

	if (!sim_memory_find(dptr))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_node_add(phGraphNode, hGraph, dependencies, numDependencies, &work);
}

CUresult impl_cuGraphMemAllocNodeGetParams(CUgraphNode hNode,
					   CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	struct sim_node *node = sim_object_check(hNode, SIM_NODE);

	if (!node || node->work.kind != SIM_ALLOC || !params_out)
		return CUDA_ERROR_INVALID_VALUE;
	memset(params_out, 0, sizeof(*params_out));
	params_out->bytesize = node->work.allocation->size;
	params_out->dptr = node->work.allocation->address;
	return CUDA_SUCCESS;
}

CUresult impl_cuDeviceGraphMemTrim(CUdevice device)
{
	return device < 0 || device >= sim.device_count ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult impl_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					 CUflushGPUDirectRDMAWritesScope scope)
{
	struct sim_context *context;

	return sim_context_current(&context);
}
