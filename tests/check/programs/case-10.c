// SPDX-License-Identifier: MIT
/*
 * Case 10, libuipc#472: a launch on the legacy stream while a non-blocking stream captures is made at once, and is not in the graph. Fixed: it is on the
 * capturing stream.
 */
#include "common.h"

int main(int argc, char **argv)
{
	unsigned int value = 7, count = BYTES / 4;
	CUgraphExec instance;
	CUfunction fill;
	CUdeviceptr data;
	CUstream stream;
	CUgraph graph;

	begin(argc, argv);
	fill = kernel("fill");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	data = on_device(BYTES);
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(data, 0, BYTES, stream));
	OK(LAUNCH(fill, fixed ? stream : NULL, &data, &value, &count)); /* FOUND: L07 */
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuStreamSynchronize(NULL));
	OK(cuGraphInstantiate(&instance, graph, 0));
	OK(cuGraphLaunch(instance, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuGraphExecDestroy(instance));
	OK(cuGraphDestroy(graph));
	return 0;
}
