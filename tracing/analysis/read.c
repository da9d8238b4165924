// SPDX-License-Identifier: MIT
/*
 * Reader (read.h). Traces of one identity share a place, whatever decoder they come through; a place
 * has the processes by pid, and tries the last one first.
 */
#include "tracing/analysis/read.h"

#include "memory.h"
#include "sum.h"
#include "tracing/analysis/table.h"

/* What the origins of one identity have in common. */
struct place {
	char *identity;
	const char *host;       /* of the model */
	const char *trace;      /* identity, of the model */
	struct table processes; /* uint32_t, by pid */
	bool has_last;
	uint32_t last_pid, last_process;
};

struct reader {
	struct model *model;
	struct decoder *decoder;
	struct place **places;
	size_t place_count, place_capacity;
	const struct decoder_account **accounts; /* the own one first */
	size_t account_count, account_capacity;
	const char **notes;
	uint64_t events;
	int64_t begin_ns, end_ns;
};

struct reader *reader_new(struct model *model)
{
	struct reader *reader = memory_new(sizeof(*reader));

	reader->model = model;
	reader->decoder = decoder_new();
	reader_add_account(reader, decoder_account(reader->decoder));
	return reader;
}

struct reader *reader_free(struct reader *reader)
{
	if (!reader)
		return NULL;
	for (size_t i = 0; i < reader->place_count; i++) {
		table_done(&reader->places[i]->processes);
		free(reader->places[i]->identity);
		free(reader->places[i]);
	}
	decoder_free(reader->decoder);
	free(reader->places);
	free(reader->accounts);
	free(reader->notes);
	free(reader);
	return NULL;
}

void reader_add_account(struct reader *reader, const struct decoder_account *account)
{
	reader->accounts = memory_grow(reader->accounts, reader->account_count,
				       &reader->account_capacity, sizeof(reader->accounts[0]));
	reader->accounts[reader->account_count++] = account;
}

/* ---- processes ---- */

/*
 * A dump has begun. A first one that is not number 1: the process found no session meanwhile, and began anew. The first
 * that is seen has another number than 1: earlier ones are missing.
 */
static void look_at_dump(struct model_process *process)
{
	const struct model_dump *dump = &process->dump;

	if (dump->reason == TRACE_DUMP_ASKED)
		process->asked_ns = dump->begin_ns;
	if (dump->number < 2)
		return;
	if (!process->dump_before.number)
		process->no_first_dump = true;
	else if (dump->reason == TRACE_DUMP_FIRST && dump->begin_ns > dump->before_ns)
		process->gap_ns += (uint64_t)(dump->begin_ns - dump->before_ns);
}

static struct place *place_of(struct reader *reader, struct origin *origin)
{
	struct place *place = origin->place;

	for (size_t i = 0; i < reader->place_count && !place; i++)
		if (!strcmp(reader->places[i]->identity, origin->identity))
			place = reader->places[i];
	if (!place) {
		place = memory_new(sizeof(*place));
		place->identity = memory_copy(origin->identity);
		place->host = model_intern(reader->model, origin->host);
		place->trace = model_intern(reader->model, origin->identity);
		place->processes.data_size = sizeof(uint32_t);
		reader->places = memory_grow(reader->places, reader->place_count,
					     &reader->place_capacity, sizeof(reader->places[0]));
		reader->places[reader->place_count++] = place;
	}
	origin->place = place;
	return place;
}

/*
 * A pid used again, by a new process or another program (exec): it takes the pid over from here on. Where the
 * first one's definitions are lost, its events are older than the new one.
 */
static bool is_successor(const struct reader *reader, uint32_t process,
			 const struct decoded *decoded)
{
	const struct trace_def_process *old = model_process_definition(reader->model, process);
	const struct model_process *known = model_process(reader->model, process);

	if (decoded->id == TRACE_DEF_PROCESS) {
		const struct trace_def_process *new = decoded->payload;

		if (old)
			return old->start_ns && new->start_ns && old->start_ns != new->start_ns;
		return new->start_ns &&
		       known->first_ns - known->clock_offset_ns < (int64_t) new->start_ns;
	}
	/* The definitions that come before def_process belong to the new one too. */
	return ((const struct trace_dump_begin *)decoded->payload)->reason == TRACE_DUMP_FIRST &&
	       model_process(reader->model, process)->ended;
}

/* `before`: the process that had the pid; NULL: none. */
static uint32_t add_process(struct reader *reader, struct place *place,
			    const struct decoded *decoded, const uint32_t *before)
{
	uint32_t number = model_add_process(reader->model, place->host, decoded->pid);
	struct model_process *process = model_change_process(reader->model, number);

	process->clock_offset_ns = decoded->clock_offset_ns;
	process->trace = place->trace;
	process->first_ns = process->last_ns = decoded->ns;
	/* Its dump began before anybody could know whose it is. */
	if (before && decoded->id == TRACE_DEF_PROCESS) {
		struct model_process *old = model_change_process(reader->model, *before);

		model_move_dump(reader->model, *before, number);
		if (process->dump.open) {
			process->first_ns = process->dump.begin_ns;
			look_at_dump(process);
			old->last_ns = process->dump.before_ns;
			if (old->asked_ns == process->asked_ns)
				old->asked_ns = 0;
		}
	}
	return number;
}

static uint32_t process_of(struct reader *reader, const struct decoded *decoded)
{
	bool may_be_new = decoded->id == TRACE_DEF_PROCESS || decoded->id == TRACE_DUMP_BEGIN;
	struct place *place = place_of(reader, decoded->origin);
	uint32_t *process;
	bool is_new;

	if (place->has_last && place->last_pid == decoded->pid && !may_be_new)
		return place->last_process;
	process = table_add(&place->processes, decoded->pid, 0, &is_new);
	if (is_new || (may_be_new && is_successor(reader, *process, decoded))) {
		*process = add_process(reader, place, decoded, is_new ? NULL : process);
	}
	place->has_last = true;
	place->last_pid = decoded->pid;
	return place->last_process = *process;
}

/* ---- events ---- */

/* What dumps say about where the trace has a hole. `last_ns`: of the event before. */
static void take_dump(struct reader *reader, const struct analysis_event *event, int64_t last_ns)
{
	struct model_process *process = model_change_process(reader->model, event->process);

	if (event->id == TRACE_DUMP_BEGIN) {
		process->dump.begin_ns = event->ns;
		process->dump.before_ns = last_ns;
		look_at_dump(process);
	} else if (process->dump.reason == TRACE_DUMP_FIRST && process->dump.number == 1 &&
		   ((const struct trace_dump_end *)event->payload)->dump == 1) {
		process->began_late |= model_missed_waits(reader->model, event->process);
	}
}

void reader_place(struct reader *reader, const struct decoded *decoded,
		  struct analysis_event *ret_event)
{
	struct model_process *process;
	int64_t last_ns;

	*ret_event = (struct analysis_event){
		.id = decoded->id,
		.process = process_of(reader, decoded),
		.thread = decoded->thread,
		.ns = decoded->ns,
		.payload = decoded->payload,
	};
	process = model_change_process(reader->model, ret_event->process);
	last_ns = process->last_ns;
	process->last_ns = decoded->ns;
	if (!reader->events++)
		reader->begin_ns = decoded->ns;
	reader->end_ns = decoded->ns;
	model_take(reader->model, ret_event->process, decoded->id, decoded->payload);
	if (decoded->id == TRACE_DUMP_BEGIN || decoded->id == TRACE_DUMP_END)
		take_dump(reader, ret_event, last_ns);
}

int reader_take(struct reader *reader, const bt_message *message, struct analysis_event *ret_event,
		char **reterr_text)
{
	struct decoded decoded;
	int status = decoder_take(reader->decoder, message, &decoded, reterr_text);

	if (status > 0)
		reader_place(reader, &decoded, ret_event);
	return status;
}

/* ---- the end ---- */

/* Of a trace of one process, the loss is that process's. */
static void tell_processes(struct reader *reader, const struct decoder_account *account)
{
	for (size_t i = 0; i < account->origin_count; i++) {
		struct origin *origin = account->origins[i];
		const uint32_t *process = NULL;

		if (origin->has_pid && origin->place)
			process = table_find(&((struct place *)origin->place)->processes,
					     origin->pid, 0);
		if (process)
			model_change_process(reader->model, *process)->lost = origin->lost;
	}
}

static bool has_note(const struct reader *reader, size_t count, const char *note)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(reader->notes[i], note))
			return true;
	return false;
}

void reader_describe(struct reader *reader, struct analysis_end *end)
{
	size_t count = 0;

	end->begin_ns = reader->begin_ns;
	end->end_ns = reader->end_ns;
	end->events = reader->events;
	end->discarded = end->discarded_packets = 0;
	free(reader->notes);
	reader->notes =
		memory_new(reader->account_count * DECODER_NOTES_MAX * sizeof(reader->notes[0]));
	for (size_t i = 0; i < reader->account_count; i++) {
		const struct decoder_account *account = reader->accounts[i];

		sum_add(&end->discarded, account->discarded);
		sum_add(&end->discarded_packets, account->discarded_packets);
		tell_processes(reader, account);
		for (size_t k = 0; k < account->note_count; k++)
			if (!has_note(reader, count, account->notes[k]))
				reader->notes[count++] = account->notes[k];
	}
	end->notes = reader->notes;
	end->note_count = count;
}
