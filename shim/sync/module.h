// SPDX-License-Identifier: MIT
/*
 * Modules: which loaded file an address lies in, as RECORD_MODULE ids.
 */
#ifndef SLIPSTREAM_SYNC_MODULE_H
#define SLIPSTREAM_SYNC_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#define MODULE_LIVE_MAX  4096 /* loaded at one time */
#define MODULE_KNOWN_MAX 8192 /* ever loaded */

/* A file that has (had) a record. Two with equal base, path and build id are the same. */
struct module_known {
	uint64_t base, path_hash;
	uint8_t build_id[64];
	uint32_t build_id_length;
	uint32_t id;
	uint32_t path; /* string id */
};

/* What is loaded now, by address. */
struct module_range {
	uint64_t start, end, base;
	uint64_t frames; /* its .eh_frame_hdr, 0 none */
	uint32_t id;
};

/* Zero is empty. Owned by site.c, under its lock. */
struct module_table {
	uint64_t generation; /* module_generation() of the last scan, 0 none */
	uint32_t live_count, known_count;
	struct module_range live[MODULE_LIVE_MAX];
	struct module_known known[MODULE_KNOWN_MAX];
};

/* A number that changes with every load and unload; never 0. Cheap: looks at one image only. */
uint64_t module_generation(void);

/* Makes the table agree with what is loaded, if `generation` is not that of its last scan. */
void module_scan(struct module_table *table, uint64_t generation);

/* What is loaded at an address; NULL nothing. */
const struct module_range *module_range_find(const struct module_table *table, uint64_t address);

/* The module of an address, 0 if none; *ret_offset: address in the file's own numbering, or the
 * address itself. */
uint32_t module_find(const struct module_table *table, uint64_t address, uint64_t *ret_offset);

#endif
