// SPDX-License-Identifier: MIT
/*
 * Whether a process lives, and which of its threads speaks for it: the first may have ended while others go on, and then /proc/PID has
 * neither memory nor files. Reads /proc only.
 */
#ifndef SLIPSTREAM_ALIVE_H
#define SLIPSTREAM_ALIVE_H

#include <sys/types.h>

/*
 * A thread of the process that has not begun to end: the process itself if it can be, 0 if there is none (ended, not yet waited for, or no
 * process at all but a thread's id). One that is told here ends later than this question began, so that whoever has made himself known to
 * the kernel before hears of it.
 */
pid_t alive_thread(pid_t process);

#endif
