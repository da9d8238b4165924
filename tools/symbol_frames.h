// SPDX-License-Identifier: MIT
/* Symbol frames: what a reader is told about one place of one file. */
#ifndef SLIPSTREAM_TOOLS_SYMBOL_FRAMES_H
#define SLIPSTREAM_TOOLS_SYMBOL_FRAMES_H

#include <stddef.h>

#include <elfutils/libdwfl.h>

#include "symbol_table.h"
#include "symbol_units.h"
#include "symbolize.h"

/* __cxa_demangle() */
typedef char *demangle_function(const char *name, char *buffer, size_t *length, int *status);

/*
 * The frames at a place whose symbol has been looked up, for symbol_frames_done(). Without
 * `demangle` names stay as they are. `units` is the module's. -ENODATA: nothing is known.
 */
int symbol_frames_find(Dwfl_Module *module, struct symbol_units *units,
		       const struct symbol_place *symbol, demangle_function *demangle,
		       struct symbol_frames *ret_frames);
void symbol_frames_done(struct symbol_frames *frames);

#endif
