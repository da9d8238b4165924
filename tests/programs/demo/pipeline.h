// SPDX-License-Identifier: MIT
/*
 * The demo's pipeline: a few small grey frames are uploaded, filtered, and read back. One struct
 * holds all of it and belongs to the main thread. The steps are in upload.c, filter.c, download.c
 * and settings.c; demo.c walks through them.
 */
#ifndef DEMO_PIPELINE_H
#define DEMO_PIPELINE_H

#include <stdint.h>

#include <cuda.h>

#define FRAME_FLOATS     4096
#define FRAME_BYTES      (FRAME_FLOATS * sizeof(float))
#define FRAME_COUNT      4
#define FILTER_NS        2000000 /* how long a filter keeps the device busy */
#define STATISTICS_BYTES 4096

struct pipeline {
	CUcontext context;
	CUdevice device;
	CUmodule module, late_module;
	CUfunction spin, add, saxpy; /* of `module` */
	CUfunction late_spin;        /* of `late_module`: loaded when first launched */
	CUstream compute;            /* blocking: takes part in the legacy stream's joins */
	CUstream preview;            /* non-blocking */
	CUevent filtered;
	CUdeviceptr frame, result;       /* FRAME_BYTES each */
	float *host_frame, *host_result; /* pageable */
};

/* settings.c: what is set up once, or changed on the way. */
void pipeline_open(struct pipeline *p);
void pipeline_close(struct pipeline *p);
void pipeline_change_quality(struct pipeline *p);

/* upload.c */
void upload_frame(struct pipeline *p, int number);
void upload_registered(struct pipeline *p, int number);
void upload_staged(struct pipeline *p, int number);

/* filter.c */
void filter_start(struct pipeline *p, CUstream stream);
void filter_frame(struct pipeline *p);
void filter_with_scratch(struct pipeline *p);
void filter_late(struct pipeline *p);
void filter_overlay(struct pipeline *p);

/* download.c */
void download_preview(struct pipeline *p);
void download_statistics(struct pipeline *p);
void download_result(struct pipeline *p);

#endif
