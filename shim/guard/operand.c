// SPDX-License-Identifier: MIT
/*
 * Guard, operand: how many bytes an instruction of x86-64 may read at the address that faulted (internal.h). Called by the fault handler.
 *
 * Plain instructions read what the program means: an object, or a part of it. Vector instructions are used by string functions, too, which read
 * whole vectors from an aligned address on, past the end of what they are asked about: a string beside the end of a guarded range is then read
 * from an address inside the range. String functions of programs do the same by words of eight bytes. Only the prefixes and the first byte are looked at; what is not understood counts as the widest vector.
 */
#include "guard/internal.h"

#define WIDTH_WORD   8
#define WIDTH_SSE    16
#define WIDTH_AVX    32
#define WIDTH_AVX512 64

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: /* segments */
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66: /* operand size */
	case 0x67: /* address size */
	case 0xf0: /* lock */
	case 0xf2: /* repeat */
	case 0xf3:
		return true;
	default:
		return (byte & 0xf0) == 0x40; /* REX */
	}
}

/* The second byte of an opcode that begins with 0f: does it work on vectors? Scalars of them count too, at 16 bytes less than they could. */
static bool is_vector(uint8_t byte, bool is_repeated)
{
	/* movss, movsd and their like read 4 or 8 bytes. */
	if (is_repeated && (byte == 0x10 || byte == 0x11 || (byte >= 0x2a && byte <= 0x2d) ||
			    (byte >= 0x51 && byte <= 0x5f)))
		return false;
	return (byte >= 0x10 && byte <= 0x17) || (byte >= 0x28 && byte <= 0x2f) || byte == 0x38 ||
	       byte == 0x3a || (byte >= 0x50 && byte <= 0x7f) || (byte >= 0xc2 && byte <= 0xc6) ||
	       byte >= 0xd0;
}

unsigned int guard_wide_read(const uint8_t *instruction, unsigned int length)
{
	bool is_repeated = false, is_word = false;
	unsigned int i = 0;

	while (i < length && is_prefix(instruction[i])) {
		is_word = (instruction[i] & 0xf8) == 0x48; /* REX.W */
		is_repeated |= instruction[i] == 0xf2 || instruction[i] == 0xf3;
		i++;
	}
	if (i + 3 >= length)
		return WIDTH_AVX512;
	switch (instruction[i]) {
	case 0xc5: /* VEX of two bytes: L is bit 2 of the second */
		return instruction[i + 1] & 4 ? WIDTH_AVX : WIDTH_SSE;
	case 0xc4: /* of three: of the third */
		return instruction[i + 2] & 4 ? WIDTH_AVX : WIDTH_SSE;
	case 0x62: /* EVEX: L'L are bits 6 and 5 of the fourth */
		return (unsigned int)WIDTH_SSE << (instruction[i + 3] >> 5 & 3);
	case 0x0f:
		return is_vector(instruction[i + 1], is_repeated) ? WIDTH_SSE : 0;
	case 0x03: /* add, or, and, sub, xor, cmp, mov: a register with memory */
	case 0x0b:
	case 0x23:
	case 0x2b:
	case 0x33:
	case 0x3b:
	case 0x8b:
		return is_word ? WIDTH_WORD : 0;
	default:
		return 0;
	}
}
