// SPDX-License-Identifier: MIT
/* Where the loader's own search finds the driver library. Of watch.c and witness.c; any thread. */
#ifndef SLIPSTREAM_LIBRARY_FIND_H
#define SLIPSTREAM_LIBRARY_FIND_H

/* Without links; to be freed. NULL: nowhere. Nothing of the library stays in this process. */
char *library_find(void);

#endif
