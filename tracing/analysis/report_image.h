// SPDX-License-Identifier: MIT
/*
 * Image: the record file (shim/emit/record.h) that a process would have left, made from its
 * definitions and the sums of its waits, so that the report of a trace is the report of record
 * files.
 */
#ifndef SLIPSTREAM_TRACING_REPORT_IMAGE_H
#define SLIPSTREAM_TRACING_REPORT_IMAGE_H

#include <stddef.h>

#include "tracing/analysis/model.h"

struct table;

/*
 * Bytes from malloc(), the caller's. `waits`: struct sum by wait id. `waited_for`: struct sum by
 * (wait id, candidate id). What a trace may lack, the image lacks as well; the reader of record
 * files copes.
 */
uint8_t *report_image(const struct model *model, uint32_t process, const struct table *waits,
		      const struct table *waited_for, size_t *ret_size);

#endif
