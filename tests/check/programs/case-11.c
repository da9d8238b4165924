// SPDX-License-Identifier: MIT
/*
 * Case 11, aws-ofi-nccl#1342, pytorch#15623: what the legacy stream would order behind a capturing blocking stream is refused (906), and the capture is
 * lost. Fixed: a non-blocking stream captures, and everything is on it.
 */
#include "common.h"

static CUgraph captured(CUstream stream)
{
	CUgraph graph = NULL;

	(void)cuStreamEndCapture(stream, &graph);
	return graph;
}

int main(int argc, char **argv)
{
	unsigned int value = 7, count = BYTES / 4;
	CUfunction fill;
	CUdeviceptr data;
	CUstream stream;
	CUgraph graph;
	void *host;

	begin(argc, argv);
	fill = kernel("fill");
	stream = new_stream(fixed ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
	data = on_device(BYTES);
	host = fixed ? pinned(BYTES) : pageable(BYTES);
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (fixed)
		OK(cuMemcpyHtoDAsync(data, host, BYTES, stream));
	else
		(void)cuMemcpyHtoD(data, host, BYTES); /* FOUND: L08 */
	graph = captured(stream);
	if (graph)
		OK(cuGraphDestroy(graph));
	OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	(void)LAUNCH(fill, fixed ? stream : NULL, &data, &value, &count); /* FOUND: L08 */
	graph = captured(stream);
	if (graph)
		OK(cuGraphDestroy(graph));
	return 0;
}
