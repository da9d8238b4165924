// SPDX-License-Identifier: MIT
/* Lint: ending a program that does not end (timeout.c). */
#ifndef SLIPSTREAM_LINT_TIMEOUT_H
#define SLIPSTREAM_LINT_TIMEOUT_H

#include <stdint.h>
#include <sys/types.h>

#include "run.h"

/* Times are ns of CLOCK_MONOTONIC, the clock of the records. */
struct lint_timeout {
	uint64_t after_ns; /* set by the caller */
	uint64_t deadline_ns;
	uint64_t ended_ns; /* 0: it was not ended */
	pid_t pid;
};

/* For run_wait(); `timeout` must live as long. */
void lint_timeout_watch(struct lint_timeout *timeout, struct run_watch *ret_watch);

#endif
