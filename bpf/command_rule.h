// SPDX-License-Identifier: MIT
/*
 * What a witnessed call waited for, by the catalogue, without knowing what was pending: for processes
 * without the preload library, which knows better.
 */
#ifndef SLIPSTREAM_BPF_COMMAND_RULE_H
#define SLIPSTREAM_BPF_COMMAND_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "watch.h"

struct verdict {
	bool waited;         /* it is a finding: the fields below it are set */
	uint64_t blocked_ns; /* always: less the catalogue's idle cost, 0 at least */
	uint32_t rule;       /* enum rule_number */
	uint8_t source_kind, destination_kind; /* enum memory_kind */
	uint8_t idle_basis;                    /* enum idle_basis */
};

struct verdict rule_judge(const struct watch_call *call);

#endif
