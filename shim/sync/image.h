// SPDX-License-Identifier: MIT
/*
 * Reads one loaded ELF image in memory: its extent, its build id, a symbol it defines. No dlsym():
 * that takes the loader's big lock, which a thread inside a dlopen() constructor holds for as long
 * as it likes.
 */
#ifndef SLIPSTREAM_SYNC_IMAGE_H
#define SLIPSTREAM_SYNC_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define IMAGE_BUILD_ID_MAX 64

struct dl_phdr_info;

/* First byte and first byte behind it; 0 and 0 where nothing is loaded. */
void image_extent(const struct dl_phdr_info *info, uint64_t *ret_start, uint64_t *ret_end);

/* Address of .eh_frame_hdr, the table by which unwinders search; 0 none. */
uint64_t image_frames(const struct dl_phdr_info *info);

/* Length of the build id, 0 if there is none. */
uint32_t image_build_id(const struct dl_phdr_info *info, uint8_t ret_id[IMAGE_BUILD_ID_MAX]);

/* The same from the bytes of one note segment, which may be anything. `align` is the segment's
 * alignment: 4 or 8. */
uint32_t image_build_id_note(const uint8_t *bytes, size_t size, size_t align,
			     uint8_t ret_id[IMAGE_BUILD_ID_MAX]);

/* Address of a function or object that the image itself defines, 0 if it does not. */
uint64_t image_symbol(const struct dl_phdr_info *info, const char *name);
/* And its size in bytes, as its symbol says. */
uint64_t image_symbol_size(const struct dl_phdr_info *info, const char *name, uint64_t *ret_size);

#endif
