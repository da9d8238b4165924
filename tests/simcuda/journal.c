// SPDX-License-Identifier: MIT
/*
 * The journal: one line per call and per executed operation, without addresses, so that two runs
 * can be compared.
 *
 * Owns: the notes of a call and both line formats (README.md). Called by: exports.c (notes),
 * core.c, engine.c.
 */
#include "sim.h"
#include <stdarg.h>

static void note(struct sim_call *call, const char *format, ...)
{
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(call->notes + call->note_length, sizeof(call->notes) - call->note_length,
			   format, list);
	va_end(list);
	if (length > 0 && call->note_length + length < sizeof(call->notes))
		call->note_length += length;
	else
		call->notes[call->note_length] = 0; /* does not fit: left out */
}

void sim_note_number(struct sim_call *call, const char *name, long long value)
{
	note(call, " %s=%lld", name, value);
}

void sim_note_pointer(struct sim_call *call, const char *name, uint64_t address)
{
	struct sim_allocation *allocation = sim_memory_find(address);

	if (allocation)
		note(call, " %s=p%llu+%llu", name, (unsigned long long)allocation->id,
		     (unsigned long long)(address - allocation->address));
	else
		note(call, " %s=%s", name, address ? "host" : "0");
}

void sim_note_handle(struct sim_call *call, const char *name, char letter, const void *handle)
{
	static const enum sim_magic kinds[] = {
		SIM_CONTEXT, SIM_STREAM, SIM_EVENT, SIM_MODULE,      SIM_FUNCTION,
		SIM_GRAPH,   SIM_EXEC,   SIM_NODE,  SIM_MEMORY_POOL, SIM_ARRAY,
	};

	if ((uintptr_t)handle <= 2) {
		note(call, " %s=%u", name, (unsigned)(uintptr_t)handle);
		return;
	}
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct sim_object *object = sim_object_check(handle, kinds[i]);

		if (object) {
			note(call, " %s=%c%llu", name, letter, (unsigned long long)object->id);
			return;
		}
	}
	note(call, " %s=invalid", name);
}

void sim_journal_call(struct sim_call *call, CUresult result)
{
	fprintf(sim.journal, "call %llu %s%s -> %d wait=%c\n",
		(unsigned long long)sim_thread_number(), call->export->name, call->notes,
		(int)result, call->waited ? 'y' : 'n');
}

void sim_journal_operation(const struct sim_operation *operation)
{
	if (!sim.journal)
		return;
	fprintf(sim.journal, "run device=%d context=%llu stream=%llu order=%llu %s\n",
		operation->context->device, (unsigned long long)operation->context->object.id,
		(unsigned long long)(operation->stream ? operation->stream->object.id : 0),
		(unsigned long long)operation->order, sim_work_name(&operation->work));
}
