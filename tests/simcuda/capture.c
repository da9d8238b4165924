// SPDX-License-Identifier: MIT
#include "sim.h"
CUresult sim_capture_add(struct sim_stream *stream, struct sim_work *work){ return CUDA_ERROR_NOT_SUPPORTED; }
CUresult sim_capture_prohibits(void){ return CUDA_SUCCESS; }
bool sim_capture_blocking(struct sim_context *context){ return false; }
void sim_capture_invalidate_blocking(struct sim_context *context){}
void sim_capture_invalidate(struct sim_capture *capture){}
void sim_capture_drop_stream(struct sim_stream *stream){}
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event, bool external){ return 801; }
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool external){ return 801; }
bool sim_event_captured(struct sim_event *event){ return false; }
void sim_event_uncapture(struct sim_event *event){}
void sim_capture_mark_unsafe(void){}
