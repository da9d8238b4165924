// SPDX-License-Identifier: MIT
/* What the tools and the library share of SLIPSTREAM_STEP (options.def): how the name of an NVTX mark is told from a driver function's. */
#ifndef SLIPSTREAM_STEP_MARK_H
#define SLIPSTREAM_STEP_MARK_H

#define STEP_OF_NVTX "nvtx:"

#endif
