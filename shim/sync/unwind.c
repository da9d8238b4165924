// SPDX-License-Identifier: MIT
/*
 * The unwinder (unwind.h). Called by site.c.
 *
 * Why not libgcc's, behind backtrace(): it reads through whatever address wrong information gives
 * it (hand-written assembly often has some), and crashes the program; it must be loaded, which
 * allocates; and it takes nearly three times as long (measured: 3.9 against 1.4 us at 10 frames).
 * This one reads stack and tables by the fault-proof reader, remembers what it found for each place
 * in the code, and knows the modules already. It does not know tables registered at run time by
 * code generators: their frames end the stack.
 *
 * x86-64 only. Read: the search table .eh_frame_hdr, .eh_frame, DWARF's call frame instructions.
 * Registers that a called function may change are not tracked; what depends on them ends the stack.
 */
#include "sync/unwind.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "sync/module.h"
#include "sync/reader.h"

#define REMEMBERED_MAX 4

/* Numbers of DWARF's x86-64 registers, and ours + 1. */
static const uint8_t tracked[17] = {
	[3] = UNWIND_RBX + 1,  [6] = UNWIND_RBP + 1,  [7] = UNWIND_RSP + 1,  [12] = UNWIND_R12 + 1,
	[13] = UNWIND_R13 + 1, [14] = UNWIND_R14 + 1, [15] = UNWIND_R15 + 1, [16] = UNWIND_PC + 1,
};

enum kind { KEPT = 0, UNDEFINED, AT_OFFSET, IS_OFFSET, AT_EXPRESSION, IS_EXPRESSION, UNKNOWN };

struct value {
	uint8_t kind;    /* enum kind */
	uint16_t length; /* of the expression */
	int64_t offset;  /* or where the expression is */
};

/* One row of the table that call frame instructions describe. */
struct row {
	uint8_t base; /* DWARF number; 255: by expression */
	int64_t offset;
	const uint8_t *expression;
	uint16_t length;
	struct value values[UNWIND_REGISTERS];
};

struct frame {
	uint64_t registers[UNWIND_REGISTERS];
	uint64_t origins[UNWIND_REGISTERS]; /* where they were read from; 0 nowhere in memory */
	uint8_t known;                      /* bit n: register n */
	bool interrupted;                   /* pc is the next instruction, not a return address */
};

/* Bytes with an end; past it everything reads as 0 and `bad` is set. */
struct bytes {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t take(struct bytes *bytes, size_t size)
{
	uint64_t value = 0;

	if ((size_t)(bytes->end - bytes->at) < size) {
		bytes->bad = true;
		bytes->at = bytes->end;
		return 0;
	}
	memcpy(&value, bytes->at, size);
	bytes->at += size;
	return value;
}

/* LEB128: seven bits a byte, least first; signed, if so, by the last byte's second bit. */
static uint64_t take_leb128(struct bytes *bytes, bool is_signed)
{
	uint64_t value = 0, byte;
	unsigned int shift = 0;

	do {
		byte = take(bytes, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		value |= ~UINT64_C(0) << shift;
	return value;
}

static uint64_t take_unsigned(struct bytes *bytes)
{
	return take_leb128(bytes, false);
}

static int64_t take_signed(struct bytes *bytes)
{
	return (int64_t)take_leb128(bytes, true);
}

static const uint8_t *skip(struct bytes *bytes, uint64_t size)
{
	const uint8_t *at = bytes->at;

	if (size > (uint64_t)(bytes->end - bytes->at)) {
		bytes->bad = true;
		size = (uint64_t)(bytes->end - bytes->at);
	}
	bytes->at += size;
	return at;
}

static void set(struct row *row, uint64_t number, uint8_t kind, int64_t offset, uint16_t length)
{
	if (number < sizeof(tracked) && tracked[number])
		row->values[tracked[number] - 1] = (struct value){kind, length, offset};
}

/* What both entries of a function say: the common one, and its own. */
struct description {
	uint64_t code_factor;
	int64_t data_factor;
	uint8_t encoding;
	bool is_signal;
	uint64_t start; /* of the function */
};

static int64_t scaled(uint64_t number, const struct description *description)
{
	return (int64_t)(number * (uint64_t)description->data_factor);
}

/* Runs instructions until the row for `pc` is reached. False: not understood. */
static bool execute(struct bytes program, const struct description *description, uint64_t pc,
		    const struct row *initial, struct row *row)
{
	struct row remembered[REMEMBERED_MAX];
	unsigned int depth = 0;
	uint64_t place = description->start, number, size;
	const uint8_t *expression;

	while (program.at < program.end && !program.bad) {
		uint8_t code = (uint8_t)take(&program, 1);
		uint64_t advance = 0;

		switch (code & 0xc0 ? code & 0xc0 : code) {
		case DW_CFA_nop:
			break;
		case DW_CFA_advance_loc:
			advance = code & 0x3f;
			break;
		case DW_CFA_advance_loc1:
			advance = take(&program, 1);
			break;
		case DW_CFA_advance_loc2:
			advance = take(&program, 2);
			break;
		case DW_CFA_advance_loc4:
			advance = take(&program, 4);
			break;
		case DW_CFA_offset:
			set(row, code & 0x3f, AT_OFFSET,
			    scaled(take_unsigned(&program), description), 0);
			break;
		case DW_CFA_offset_extended:
			number = take_unsigned(&program);
			set(row, number, AT_OFFSET, scaled(take_unsigned(&program), description),
			    0);
			break;
		case DW_CFA_offset_extended_sf:
			number = take_unsigned(&program);
			set(row, number, AT_OFFSET,
			    scaled((uint64_t)take_signed(&program), description), 0);
			break;
		case DW_CFA_val_offset:
			number = take_unsigned(&program);
			set(row, number, IS_OFFSET, scaled(take_unsigned(&program), description),
			    0);
			break;
		case DW_CFA_restore:
		case DW_CFA_restore_extended:
			number = code & 0xc0 ? code & 0x3f : take_unsigned(&program);
			if (!initial)
				return false;
			if (number < sizeof(tracked) && tracked[number])
				row->values[tracked[number] - 1] =
					initial->values[tracked[number] - 1];
			break;
		case DW_CFA_undefined:
			set(row, take_unsigned(&program), UNDEFINED, 0, 0);
			break;
		case DW_CFA_same_value:
			set(row, take_unsigned(&program), KEPT, 0, 0);
			break;
		case DW_CFA_register:
			set(row, take_unsigned(&program), UNKNOWN, 0, 0);
			take_unsigned(&program);
			break;
		case DW_CFA_remember_state:
			if (depth == REMEMBERED_MAX)
				return false;
			remembered[depth++] = *row;
			break;
		case DW_CFA_restore_state:
			if (!depth)
				return false;
			*row = remembered[--depth];
			break;
		case DW_CFA_def_cfa:
			number = take_unsigned(&program);
			row->base = number < sizeof(tracked) ? (uint8_t)number : 0;
			row->offset = (int64_t)take_unsigned(&program);
			break;
		case DW_CFA_def_cfa_sf:
			number = take_unsigned(&program);
			row->base = number < sizeof(tracked) ? (uint8_t)number : 0;
			row->offset = scaled((uint64_t)take_signed(&program), description);
			break;
		case DW_CFA_def_cfa_register:
			number = take_unsigned(&program);
			row->base = number < sizeof(tracked) ? (uint8_t)number : 0;
			break;
		case DW_CFA_def_cfa_offset:
			row->offset = (int64_t)take_unsigned(&program);
			break;
		case DW_CFA_def_cfa_offset_sf:
			row->offset = scaled((uint64_t)take_signed(&program), description);
			break;
		case DW_CFA_def_cfa_expression:
			size = take_unsigned(&program);
			row->base = 255;
			row->expression = skip(&program, size);
			row->length = (uint16_t)size;
			break;
		case DW_CFA_expression:
		case DW_CFA_val_expression:
			number = take_unsigned(&program);
			size = take_unsigned(&program);
			expression = skip(&program, size);
			set(row, number, code == DW_CFA_expression ? AT_EXPRESSION : IS_EXPRESSION,
			    (int64_t)(uintptr_t)expression, (uint16_t)size);
			break;
		case DW_CFA_GNU_args_size:
			take_unsigned(&program);
			break;
		default:
			return false;
		}
		place += advance * description->code_factor;
		if (place > pc)
			break;
	}
	return !program.bad;
}

static void note_word(struct unwind_trace *trace, uint64_t address, uint64_t value)
{
	if (!trace->started)
		return;
	/* The wrapper keeps its caller's frame pointer right below its return address. */
	if (trace->count == UNWIND_WORDS_MAX || address % 8 || address < trace->from - 8 ||
	    address - (trace->from - 8) > UNWIND_TRACE_MAX) {
		trace->complete = false;
		return;
	}
	trace->words[trace->count++] = (struct unwind_word){address, value};
}

/* What follows depends on this register. The stack pointer needs no note: from frame to frame it
 * follows from what was noted, or the trace is given up. */
static void note_register(struct unwind_trace *trace, const struct frame *frame, uint8_t number)
{
	if (number != UNWIND_RSP)
		note_word(trace, frame->origins[number], frame->registers[number]);
}

/* A return address was found. */
static void note_caller(struct unwind_trace *trace, const struct frame *caller)
{
	const uint64_t *origins = caller->origins;

	if (trace->from && origins[UNWIND_PC] == trace->from) {
		trace->started = true;
		trace->complete = caller->registers[UNWIND_RSP] == trace->from + 8;
	}
	note_word(trace, origins[UNWIND_PC], caller->registers[UNWIND_PC]);
	/* Through a signal the stack pointer is read from memory, and any register counts. */
	if (caller->interrupted || origins[UNWIND_RSP])
		trace->complete = false;
}

/* A stack machine with the few operations that call frame information uses. */
static bool evaluate(struct reader *reader, struct unwind_trace *trace, const struct frame *frame,
		     const uint8_t *expression, uint16_t length, bool with_initial,
		     uint64_t initial, uint64_t *ret_value)
{
	struct bytes program = {expression, expression + length, false};
	uint64_t stack[8] = {initial}, number;
	unsigned int depth = with_initial;

	while (program.at < program.end && !program.bad) {
		uint8_t code = (uint8_t)take(&program, 1);

		if (code >= DW_OP_breg0 && code <= DW_OP_breg16) {
			number = tracked[code - DW_OP_breg0];
			if (!number || !(frame->known >> (number - 1) & 1) || depth == 8)
				return false;
			note_register(trace, frame, (uint8_t)(number - 1));
			stack[depth++] =
				frame->registers[number - 1] + (uint64_t)take_signed(&program);
		} else if (code >= DW_OP_lit0 && code <= DW_OP_lit31) {
			if (depth == 8)
				return false;
			stack[depth++] = code - DW_OP_lit0;
		} else if (code == DW_OP_deref) {
			number = depth ? stack[depth - 1] : 0;
			if (!depth || reader_copy(reader, &stack[depth - 1], number, 8)) {
				trace->complete = false;
				return false;
			}
			note_word(trace, number, stack[depth - 1]);
		} else if (code == DW_OP_plus_uconst) {
			if (!depth)
				return false;
			stack[depth - 1] += take_unsigned(&program);
		} else {
			if (depth < 2)
				return false;
			depth--;
			number = stack[depth];
			if (code == DW_OP_plus)
				stack[depth - 1] += number;
			else if (code == DW_OP_minus)
				stack[depth - 1] -= number;
			else if (code == DW_OP_and)
				stack[depth - 1] &= number;
			else if (code == DW_OP_shl)
				stack[depth - 1] <<= number & 63;
			else if (code == DW_OP_ge)
				stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)number;
			else
				return false;
		}
	}
	if (program.bad || !depth)
		return false;
	*ret_value = stack[depth - 1];
	return true;
}

/* Reads one entry of .eh_frame, without its length; the count of bytes, 0 if it is none that we
 * read. */
static size_t read_entry(struct reader *reader, uint64_t address, uint8_t entry[UNWIND_ENTRY_MAX])
{
	uint32_t length;

	if (reader_copy(reader, &length, address, sizeof(length)) || length < 8 ||
	    length > UNWIND_ENTRY_MAX ||
	    reader_copy(reader, entry, address + sizeof(length), length))
		return 0;
	return length;
}

/* The common entry. False: of a kind that we do not read. */
static bool read_common(struct bytes *entry, struct description *description)
{
	const uint8_t *text, *data;
	uint64_t version, size;

	take(entry, 4);
	version = take(entry, 1);
	text = entry->at;
	while (take(entry, 1) && !entry->bad)
		;
	description->code_factor = take_unsigned(entry);
	description->data_factor = take_signed(entry);
	/* The return address's column: 16 on this machine. */
	if ((version == 1 ? take(entry, 1) : take_unsigned(entry)) != 16 || *text != 'z' ||
	    (version != 1 && version != 3))
		return false;
	size = take_unsigned(entry);
	data = skip(entry, size);
	for (text++; *text && !entry->bad; text++) {
		struct bytes rest = {data, entry->at, false};

		switch (*text) {
		case 'R':
			description->encoding = (uint8_t)take(&rest, 1);
			break;
		case 'L':
			take(&rest, 1);
			break;
		case 'P': {
			uint8_t encoding = (uint8_t)take(&rest, 1);

			skip(&rest, (encoding & 7) == 3 ? 4 : (encoding & 7) == 2 ? 2 : 8);
			break;
		}
		case 'S':
			description->is_signal = true;
			break;
		default:
			return false;
		}
		if (rest.bad)
			return false;
		data = rest.at;
	}
	return !entry->bad;
}

/*
 * The row of `pc` from a function's entry and the common one it refers to, both without their
 * lengths, both of 4 bytes at least. `description` comes with the function's start. False: nothing
 * about this place, or not understood.
 */
static bool describe(const uint8_t *common, size_t common_size, const uint8_t *own, size_t own_size,
		     uint64_t pc, struct description *description, struct row *ret_row)
{
	struct bytes first = {common, common + common_size, false};
	struct bytes entry = {own, own + own_size, false};
	struct row initial = {.base = 0};
	size_t size;

	if (!read_common(&first, description) ||
	    !execute(first, description, UINT64_MAX, NULL, &initial))
		return false;
	take(&entry, 4);
	size = (description->encoding & 7) == 3 ? 4 : (description->encoding & 7) == 2 ? 2 : 8;
	skip(&entry, size);
	/* Past its end: a place between functions, without information. */
	if (pc - description->start >= take(&entry, size))
		return false;
	skip(&entry, take_unsigned(&entry));
	*ret_row = initial;
	return !entry.bad && execute(entry, description, pc, &initial, ret_row);
}

/* The function's entry by the search table; its address, 0 if there is none. */
static uint64_t find_entry(struct reader *reader, const struct module_range *module, uint64_t pc,
			   uint64_t *ret_start)
{
	uint8_t head[12];
	uint32_t count, low = 0, high;
	int32_t pair[2];

	/* Version 1; pointers of 4 bytes; sorted pairs of 4 bytes from the table's start: all that
	 * linkers write. */
	if (!module->frames || reader_copy(reader, head, module->frames, sizeof(head)) ||
	    head[0] != 1 || (head[1] & 7) != 3 || head[2] != 3 || head[3] != 0x3b)
		return 0;
	memcpy(&count, head + 8, sizeof(count));
	for (high = count; low < high;) {
		uint32_t middle = low + (high - low) / 2;

		if (reader_copy(reader, pair, module->frames + 12 + 8 * (uint64_t)middle,
				sizeof(pair)))
			return 0;
		if (module->frames + (uint64_t)(int64_t)pair[0] <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low ||
	    reader_copy(reader, pair, module->frames + 12 + 8 * (uint64_t)(low - 1), sizeof(pair)))
		return 0;
	*ret_start = module->frames + (uint64_t)(int64_t)pair[0];
	return module->frames + (uint64_t)(int64_t)pair[1];
}

/* Where a register was, by a full row. */
static bool restore(struct reader *reader, struct unwind_trace *trace, const struct frame *frame,
		    const struct value *value, uint64_t base, uint64_t *ret_value,
		    uint64_t *ret_origin)
{
	uint64_t address = base + (uint64_t)value->offset;
	const uint8_t *expression = (const uint8_t *)(uintptr_t)value->offset;

	*ret_origin = 0;
	switch (value->kind) {
	case AT_OFFSET:
		break;
	case IS_OFFSET:
		*ret_value = address;
		return true;
	case AT_EXPRESSION:
	case IS_EXPRESSION:
		if (!evaluate(reader, trace, frame, expression, value->length, true, base,
			      &address))
			return false;
		if (value->kind == AT_EXPRESSION)
			break;
		*ret_value = address;
		return true;
	default:
		return false;
	}
	*ret_origin = address;
	if (!reader_copy(reader, ret_value, address, sizeof(*ret_value)))
		return true;
	trace->complete = false;
	return false;
}

/* Is the row simple? Then it is kept. */
static void keep_rule(struct unwind_rule *rule, const struct row *row, uint64_t pc, uint32_t stamp,
		      bool is_signal)
{
	struct unwind_rule new = {.pc = pc, .stamp = stamp, .is_signal = is_signal};
	int i;

	if (row->base >= sizeof(tracked) || !tracked[row->base] ||
	    row->offset != (int32_t)row->offset)
		return;
	new.base = tracked[row->base] - 1;
	new.offset = (int32_t)row->offset;
	for (i = 0; i < UNWIND_REGISTERS; i++) {
		const struct value *value = &row->values[i];

		if (value->kind == KEPT)
			continue;
		if (value->kind != AT_OFFSET || value->offset % 8 ||
		    value->offset / 8 != (int16_t)(value->offset / 8))
			return;
		new.saved |= (uint8_t)(1 << i);
		new.at[i] = (int16_t)(value->offset / 8);
	}
	*rule = new;
}

/* The frame's address makes sense: above the stack pointer, not by far. A signal's is on another
 * stack, maybe. */
static bool is_plausible(const struct frame *frame, uint64_t base, bool is_signal)
{
	return is_signal || (base > frame->registers[UNWIND_RSP] &&
			     base - frame->registers[UNWIND_RSP] <= 1 << 30);
}

/* The caller's frame from the callee's; false: the stack ends. */
static bool step_slowly(struct unwind_cache *cache, struct reader *reader,
			struct unwind_trace *trace, const struct module_range *module, uint64_t pc,
			struct frame *frame, struct unwind_rule *rule, uint32_t stamp)
{
	uint8_t *own = cache->entry, *common = cache->common;
	struct description description = {.encoding = 0};
	struct frame caller = {.known = 0};
	size_t size, common_size;
	uint64_t at, base;
	struct row row;
	uint32_t back;
	int i;

	at = find_entry(reader, module, pc, &description.start);
	size = at ? read_entry(reader, at, own) : 0;
	if (!size)
		return false;
	memcpy(&back, own, sizeof(back));
	common_size = back ? read_entry(reader, at + 4 - back, common) : 0;
	if (!common_size || !describe(common, common_size, own, size, pc, &description, &row))
		return false;
	if (row.base == 255) {
		if (!evaluate(reader, trace, frame, row.expression, row.length, false, 0, &base))
			return false;
	} else {
		i = row.base < sizeof(tracked) ? tracked[row.base] - 1 : -1;
		if (i < 0 || !(frame->known >> i & 1))
			return false;
		base = frame->registers[i] + (uint64_t)row.offset;
		note_register(trace, frame, (uint8_t)i);
	}
	if (!is_plausible(frame, base, description.is_signal))
		return false;
	for (i = 0; i < UNWIND_REGISTERS; i++) {
		if (row.values[i].kind == KEPT) {
			caller.registers[i] = frame->registers[i];
			caller.origins[i] = frame->origins[i];
			caller.known |= frame->known & (1 << i);
		} else if (restore(reader, trace, frame, &row.values[i], base, &caller.registers[i],
				   &caller.origins[i])) {
			caller.known |= (uint8_t)(1 << i);
		}
	}
	/* Kept means: as it was, which for the stack pointer is the frame's address, and for the
	 * program counter nothing. */
	if (row.values[UNWIND_RSP].kind == KEPT) {
		caller.registers[UNWIND_RSP] = base;
		caller.origins[UNWIND_RSP] = 0;
		caller.known |= 1 << UNWIND_RSP;
	}
	if (row.values[UNWIND_PC].kind == KEPT || !(caller.known >> UNWIND_PC & 1))
		return false;
	caller.interrupted = description.is_signal;
	keep_rule(rule, &row, pc, stamp, description.is_signal);
	note_caller(trace, &caller);
	*frame = caller;
	return true;
}

static bool step_by_rule(struct reader *reader, struct unwind_trace *trace,
			 const struct unwind_rule *rule, struct frame *frame)
{
	struct frame caller = *frame;
	uint64_t base, address;
	int i;

	if (!(frame->known >> rule->base & 1) || !(rule->saved >> UNWIND_PC & 1))
		return false;
	base = frame->registers[rule->base] + (uint64_t)(int64_t)rule->offset;
	if (!is_plausible(frame, base, rule->is_signal))
		return false;
	note_register(trace, frame, rule->base);
	caller.registers[UNWIND_RSP] = base;
	caller.origins[UNWIND_RSP] = 0;
	caller.known |= 1 << UNWIND_RSP;
	for (i = 0; i < UNWIND_REGISTERS; i++) {
		if (!(rule->saved >> i & 1))
			continue;
		address = base + (uint64_t)(8 * (int64_t)rule->at[i]);
		caller.origins[i] = address;
		if (reader_copy(reader, &caller.registers[i], address, 8)) {
			trace->complete = false;
			if (i == UNWIND_PC)
				return false;
			caller.known &= (uint8_t) ~(1 << i);
		} else {
			caller.known |= (uint8_t)(1 << i);
		}
	}
	caller.interrupted = rule->is_signal;
	note_caller(trace, &caller);
	*frame = caller;
	return true;
}

uint32_t unwind(struct unwind_cache *cache, const struct module_table *modules,
		uint64_t *ret_addresses, uint32_t max, struct unwind_trace *trace)
{
	struct frame frame = {.known = (1 << UNWIND_REGISTERS) - 1, .interrupted = true};
	uint32_t count = 0, stamp = (uint32_t)(modules->generation ^ modules->generation >> 32) | 1;
	struct reader reader;

	trace->started = trace->complete = false;
	trace->count = 0;
	reader_start(&reader, false);
	__asm__ volatile("lea 0(%%rip), %%rax\n"
			 "	mov %%rbx, (%0)\n"
			 "	mov %%rbp, 8(%0)\n"
			 "	mov %%r12, 16(%0)\n"
			 "	mov %%r13, 24(%0)\n"
			 "	mov %%r14, 32(%0)\n"
			 "	mov %%r15, 40(%0)\n"
			 "	mov %%rsp, 48(%0)\n"
			 "	mov %%rax, 56(%0)"
			 :
			 : "r"(frame.registers)
			 : "rax", "memory");
	while (count < max) {
		uint64_t stack = frame.registers[UNWIND_RSP];
		/* A return address lies behind its call, perhaps in the next function. */
		uint64_t pc = frame.registers[UNWIND_PC] - !frame.interrupted;
		struct unwind_rule *rule = &cache->rules[(pc ^ pc >> 12) & (UNWIND_RULES - 1)];
		const struct module_range *module;

		if (rule->stamp == stamp && rule->pc == pc) {
			if (!step_by_rule(&reader, trace, rule, &frame))
				break;
		} else {
			module = module_range_find(modules, pc);
			if (!module ||
			    !step_slowly(cache, &reader, trace, module, pc, &frame, rule, stamp))
				break;
		}
		/* 0 marks the outermost frame. Callers lie above, except across a signal stack. */
		if (!frame.registers[UNWIND_PC] ||
		    (!frame.interrupted && frame.registers[UNWIND_RSP] <= stack))
			break;
		ret_addresses[count++] = frame.registers[UNWIND_PC];
	}
	return count;
}
