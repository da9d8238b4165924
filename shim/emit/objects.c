// SPDX-License-Identifier: MIT
/*
 * Objects: records of contexts and streams, which change while they live (emit.h). Called by state
 * under its lock; the record is the caller's to keep.
 */
#include "emit/emit.h"
#include "emit/internal.h"
#include "emit/trace.h"

struct record_context *emit_context(struct record_context *record, uint64_t id, int device)
{
	static uint32_t contexts; /* under emit's lock */
	static uint32_t made_for; /* the record file they are counted in; as contexts */

	if (record && record->id == id) {
		__atomic_store_n(&record->device, device, __ATOMIC_RELAXED);
		trace_again(record);
		return record;
	}
	record = NULL;
	if (emit_is_open() && emit_lock()) {
		record = emit_take_locked(sizeof(*record));
		if (record) {
			if (made_for != emit_generation())
				contexts = 0;
			made_for = emit_generation();
			record->number = ++contexts;
			record->device = device;
			record->id = id;
			emit_publish(record, RECORD_CONTEXT);
		}
		emit_unlock();
	}
	if (!record)
		emit_count_dropped();
	return record;
}

struct record_stream *emit_stream(struct record_stream *record, uint32_t number,
				  enum stream_kind kind, uint64_t context, uint64_t handle)
{
	bool is_new = !record;

	if (is_new)
		record = emit_reserve(sizeof(*record));
	if (!record)
		return NULL;
	if (is_new)
		record->number = number;
	__atomic_store_n(&record->kind, kind, __ATOMIC_RELAXED);
	__atomic_store_n(&record->context, context, __ATOMIC_RELAXED);
	__atomic_store_n(&record->handle, handle, __ATOMIC_RELAXED);
	if (is_new)
		emit_publish(record, RECORD_STREAM);
	else
		trace_again(record);
	return record;
}
