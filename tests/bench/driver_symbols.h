/* SPDX-License-Identifier: MIT
 *
 * Addresses of a loaded library's exported functions, read from its own dynamic symbol table: what
 * dlsym would say if nobody had put himself before it. Used by the paired benchmark to call the
 * driver past the shim.
 */
#ifndef SLIPSTREAM_BENCH_DRIVER_SYMBOLS_H
#define SLIPSTREAM_BENCH_DRIVER_SYMBOLS_H

/*
 * The library whose file name begins with `library` ("libcuda.so"); NULL if it is not loaded or
 * exports no such name.
 */
void *library_symbol(const char *library, const char *name);

#endif
