/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
 *
 * What the witness's BPF program and its loader share.
 */
#ifndef SLIPSTREAM_WITNESS_H
#define SLIPSTREAM_WITNESS_H

#define WITNESS_ENTRIES 262144 /* (process, function, return address) triples kept */

/* Key of the count. No padding: it is hashed byte by byte. */
struct witness_key {
	unsigned int process;  /* thread group id, in the loader's pid namespace */
	unsigned int function; /* cookie: index into the loader's table */
	unsigned long long return_address;
};

#endif
