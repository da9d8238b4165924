// SPDX-License-Identifier: MIT
/*
 * Symbolizer: a place in a file on disk -> function, file and line. One thread at a time.
 */
#ifndef SLIPSTREAM_TOOLS_SYMBOLIZE_H
#define SLIPSTREAM_TOOLS_SYMBOLIZE_H

#include <stddef.h>
#include <stdint.h>

struct symbolizer;

struct symbol_frame {
	char *function;           /* demangled; NULL unknown */
	char *file;               /* NULL unknown */
	uint32_t line;            /* 0 unknown */
	uint64_t function_offset; /* from the symbol's start; UINT64_MAX: not known (an inlined
				     function, or none) */
};

struct symbol_frames {
	struct symbol_frame *frames; /* innermost first; all but the last were inlined */
	size_t count;
};

/*
 * NULL: out of memory. Debug information is looked for beside the file and in the usual folders,
 * never on the network: DEBUGINFOD_URLS is taken out of this process's environment.
 */
struct symbolizer *symbolizer_new(void);
struct symbolizer *symbolizer_free(struct symbolizer *symbolizer);

/*
 * Announces that the address will be asked. The first question about a file looks up all announced
 * ones in one walk through its symbols, of which there may be a million; without it each address
 * costs a walk of its own. 0, -ENOMEM or -EINVAL (an id that long cannot be).
 */
int symbolizer_expect(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		      size_t build_id_length, uint64_t address);

/*
 * What is at `address` (in the file's own numbering; for a return address take 1 off first) of the
 * file at `path`, which must have this build id. 0 with at least one frame in *ret_frames, which
 * are the symbolizer's, until it is freed; or
 *
 *	-ENOENT	 no such file (any error of open(2) likewise)
 *	-ENOEXEC no ELF file
 *	-ESTALE	 another file than the one recorded: its build id differs
 *	-ENODATA the file has nothing about this place
 *	-EINVAL	 an id that long cannot be
 */
int symbolizer_frame(struct symbolizer *symbolizer, const char *path, const uint8_t *build_id,
		     size_t build_id_length, uint64_t address,
		     const struct symbol_frames **ret_frames);

/* The same errors in words, for the report. */
const char *symbolizer_error(int error);

#endif
