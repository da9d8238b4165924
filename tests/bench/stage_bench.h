/* SPDX-License-Identifier: MIT
 *
 * What the two files of the staging benchmark share: stage.c and stage_cpu.c.
 */
#ifndef SLIPSTREAM_BENCH_STAGE_BENCH_H
#define SLIPSTREAM_BENCH_STAGE_BENCH_H

#include <stdbool.h>
#include <stddef.h>

/* New memory, aligned to chunks, on huge pages or surely not. Given back with munmap(). Ends the program if there is none. */
char *stage_bench_map(size_t bytes, bool huge);

/* Prints what the processor's part takes. Returns the status to end with. */
int stage_bench_cpu(void);

#endif
