// SPDX-License-Identifier: MIT
/*
 * Notes and a driver, for tests of parts of the engine that need neither.
 */
#include "driver/driver.h"
#include "emit/emit.h"

struct driver_ops driver;

void emit_note(enum note_code code, const char *text)
{
}
