// SPDX-License-Identifier: MIT
/* Whether the process that wrote a record file still runs. */
#ifndef SLIPSTREAM_TOOLS_PROCESS_STATE_H
#define SLIPSTREAM_TOOLS_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>

uint64_t process_now_ns(void); /* CLOCK_MONOTONIC, the clock of the records */

/* `start_ns`: when it made its file, CLOCK_MONOTONIC. A process of the same number that began later
 * is another one. */
bool process_runs(uint32_t pid, uint64_t start_ns, uint64_t now_ns);

#endif
