// SPDX-License-Identifier: MIT
#include "sim.h"
void sim_ipc_event_recorded(struct sim_event *event) {}
CUresult sim_ipc_event_wait(struct sim_stream *stream, struct sim_event *event) { return CUDA_ERROR_NOT_SUPPORTED; }
bool sim_ipc_event_done(struct sim_event *event) { return true; }
void sim_ipc_event_synchronize(struct sim_event *event) {}
void sim_ipc_event_close(struct sim_event *event) {}
