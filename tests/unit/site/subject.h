// SPDX-License-Identifier: MIT
#ifndef SLIPSTREAM_TESTS_SUBJECT_H
#define SLIPSTREAM_TESTS_SUBJECT_H

void subject_run(void);
void subject_plain(void);
void subject_outer(void);
/* A C++ name without a C++ compiler. */
void subject_mangled(int number) __asm__("_ZN4demo5Thing6methodEi");

#endif
