// SPDX-License-Identifier: MIT
/* Bears the name of LTTng-UST's library before 2.13, for a program that is traced with it. */
extern int old_lttng;
int old_lttng;
