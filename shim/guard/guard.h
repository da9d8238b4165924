// SPDX-License-Identifier: MIT
/*
 * Guard: says where the host touches memory that an asynchronous copy still uses. The bytes of a copy between the device and pinned or registered
 * memory are guarded from the copy's submission until the host can know that it has finished: the pages of a destination cannot be touched, those
 * of a source not be written. An access faults; the fault handler makes a remark with both places (rules early-host-read, early-host-write), ends
 * the guard, and lets the access go on. Off by default: SLIPSTREAM_CHECK=guard, mode observe, and only where libslipstream-guard.so is preloaded, too (hooks.h).
 *
 *	calls.c		around each driver call; the beginning, and forks
 *	copies.c	which copies are guarded, and which pages of them
 *	heard.c		by which calls the host can know that they have finished
 *	finds.c		accesses that came too early, and how they are told
 *	edges.c		what ends behind what: streams that go on behind a copy
 *	table.c		guards, and the protection of their pages
 *	fault.c		the handler, and the program's own
 *	kernel.c	memory that the program hands to the kernel: the hooks of libslipstream-guard.so
 *	operand.c	what an instruction that faulted may have touched
 *	libc/		libslipstream-guard.so: functions of the C library that hand memory to the kernel
 *
 * Devices do not look at the processor's page tables, so copies go on. Pageable memory is never guarded: such copies are done with it when they
 * return. What cannot be followed ends guards, and is counted in a note: a remark is never made on a guess.
 *
 * Called by check's table of rules; relies on state. One lock (table.c, rank LOCK_GUARD), taken with all signals blocked, never held over a driver call;
 * beside it a spin lock for the program's action of SIGSEGV (fault.c), which is never held together with it.
 */
#ifndef SLIPSTREAM_GUARD_GUARD_H
#define SLIPSTREAM_GUARD_GUARD_H

/* Behind config_load(), before check_start(), to which it adds a rule; does nothing unless SLIPSTREAM_CHECK has guard. Keeps errno. */
void guard_start(void);

#endif
