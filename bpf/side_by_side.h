// SPDX-License-Identifier: MIT
/*
 * Work that is waiting for the kernel, side by side: its grace periods are one after the other for who asks one after the other. Of watch_attach.c.
 */
#ifndef SLIPSTREAM_SIDE_BY_SIDE_H
#define SLIPSTREAM_SIDE_BY_SIDE_H

#include <stddef.h>

/*
 * Calls `each` once for every number below `count`, in this thread and in others, which have ended when it returns; in no order. Without room for
 * other threads this one does all.
 */
void side_by_side(size_t count, void (*each)(size_t number, void *data), void *data);

#endif
