// SPDX-License-Identifier: MIT
/*
 * Deny list: the text of a file of call sites that mode fix leaves alone (SLIPSTREAM_DENY). Read by the rewrites (rewrite/deny.c), and by the
 * tools, which check a list before they start a program. Pure functions.
 *
 * One line an entry, blanks between its words, "#" begins a comment:
 *
 *	site KEY [REWRITES]	 the call site of this key, as `report` and `bisect` print it: 16 digits (sync/site_key.h)
 *	file NAME [REWRITES]	 every call site with a native frame in a file of this name (libnccl.so.2)
 *	python FUNCTION [REWRITES] every call site with a Python frame of this function
 *	function NAME [REWRITES] every call of this function of the driver (cuMemcpyHtoD_v2; without _v2 each version of it)
 *
 * REWRITES: words of SLIPSTREAM_FIX joined by commas; none: all. A key stands for the whole stack; it holds for the same builds of the
 * files and the same SLIPSTREAM_STACK.
 */
#ifndef SLIPSTREAM_DENY_LIST_H
#define SLIPSTREAM_DENY_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum deny_kind { DENY_SITE, DENY_FILE, DENY_PYTHON, DENY_FUNCTION };

struct deny_entry {
	enum deny_kind kind;
	uint32_t rewrites; /* bit n for the n-th word of SLIPSTREAM_FIX; all bits: every rewrite */
	uint64_t key;      /* of DENY_SITE */
	const char *name;  /* of the others; inside the text */
	size_t length;
};

/* Does an entry's name of a driver function mean the exported function of this name? */
bool deny_means(const struct deny_entry *entry, const char *function);

/*
 * Reads the entry of one line, `length` bytes without its end. 1: *ret_entry; 0: the line has none; -1: bad, and *reterr_text says why
 * (a constant text). `words`: of SLIPSTREAM_FIX, joined by |.
 */
int deny_line(const char *line, size_t length, const char *words, struct deny_entry *ret_entry,
	      const char **reterr_text);

#endif
