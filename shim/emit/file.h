// SPDX-License-Identifier: MIT
/*
 * File: the mapped record file of this process, or anonymous memory laid out alike. Internal to
 * emit; every function is called under emit's lock unless it says otherwise.
 */
#ifndef SLIPSTREAM_EMIT_FILE_H
#define SLIPSTREAM_EMIT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_BOUND (UINT64_C(256) << 20) /* bytes a record file may grow to */

/*
 * Makes `folder`/`pid`-`start`.slip with its first segment and maps it; folder NULL: anonymous
 * memory. 0, or -errno with nothing kept.
 */
int file_open(const char *folder, uint32_t pid, uint64_t start_ns);

/* `size` zeroed bytes (a multiple of 8), head.size set, type 0. NULL: full. */
void *file_take(size_t size);

/* The file's first byte; NULL: none open. Any thread. */
void *file_base(void);

/* Bytes taken so far: the records in them have sizes, and types once published. Any thread. */
uint64_t file_used(void);

/* Lower the bound (tests). */
void file_set_bound(uint64_t bytes);

/*
 * In a forked child: puts private memory in the place of the parent's shared mapping, so that no
 * pointer kept anywhere can write to the parent's file, and forgets it.
 */
void file_abandon(void);

#endif
