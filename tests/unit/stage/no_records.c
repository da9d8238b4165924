// SPDX-License-Identifier: MIT
/*
 * No record file, for tests and benchmarks of the engine of staged copies alone.
 */
#include "emit/busy.h"
#include "emit/emit.h"

__thread struct record_thread *busy_thread;
bool clock_uses_counter;

void *emit_reserve(size_t size)
{
	return NULL;
}

void emit_publish(void *record, enum record_type type)
{
}
