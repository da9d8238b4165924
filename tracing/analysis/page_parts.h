// SPDX-License-Identifier: MIT
/* Page, fixed parts: the HTML before and after the data. Written by page/embed.py. */
#ifndef SLIPSTREAM_TRACING_PAGE_PARTS_H
#define SLIPSTREAM_TRACING_PAGE_PARTS_H

extern const char page_before_data[], page_after_data[]; /* end with NUL */

#endif
