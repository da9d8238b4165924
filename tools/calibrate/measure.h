// SPDX-License-Identifier: MIT
/*
 * One unit of measuring: a process of its own, which prints table lines to stdout as it goes.
 *
 * A unit is a list of steps. Before a step the process prints `step NUMBER LINE`, LINE being the
 * table line to write should the step never end; the parent then starts the unit again behind that
 * step.
 */
#ifndef SLIPSTREAM_CALIBRATE_MEASURE_H
#define SLIPSTREAM_CALIBRATE_MEASURE_H

#include <stdbool.h>

/* Names of all units of a set, in table order; ended by NULL. Room for UNITS_MAX. */
#define UNITS_MAX 512
#define UNIT_NAME 64
int measure_units(char unit[UNITS_MAX][UNIT_NAME], bool full);

#define MEASURE_TOLD 2 /* exit status of a process that said on stderr what is wrong */

/* In that process: announces a step, with its line. False: an earlier process did it. */
bool measure_step(const char *line);

/* Runs the steps of a unit from number `from` on. Returns the exit status of the process: 0, 1, or
 * MEASURE_TOLD after a line on stderr. */
int measure_unit(const char *unit, const char *driver, int from);

#endif
