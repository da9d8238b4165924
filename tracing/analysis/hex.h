// SPDX-License-Identifier: MIT
/* Hexadecimal digits, as build ids and escapes have them. */
#ifndef SLIPSTREAM_TRACING_HEX_H
#define SLIPSTREAM_TRACING_HEX_H

/* 0 to 15; -1: it is none. */
static inline int hex_digit(char character)
{
	if (character >= '0' && character <= '9')
		return character - '0';
	if (character >= 'a' && character <= 'f')
		return character - 'a' + 10;
	if (character >= 'A' && character <= 'F')
		return character - 'A' + 10;
	return -1;
}

#endif
