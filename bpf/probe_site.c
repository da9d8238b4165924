// SPDX-License-Identifier: MIT
/* Classes of first instructions, as arch/x86/kernel/uprobes.c of the kernel emulates them. */
#include "probe_site.h"

#include <string.h>

static enum watch_site classify(const unsigned char *code, size_t size)
{
	static const unsigned char long_nop[] = {0x0f, 0x1f};

	if (size < 2)
		return WATCH_SITE_STEPPED;
	if (code[0] == 0x90 || (code[0] == 0x66 && code[1] == 0x90))
		return WATCH_SITE_NOP;
	/* The 5-byte form becomes a call on Linux 6.18; other lengths are emulated since about then. */
	if (!memcmp(code, long_nop, sizeof(long_nop)) ||
	    (size > 2 && code[0] == 0x66 && !memcmp(code + 1, long_nop, sizeof(long_nop))))
		return WATCH_SITE_NOP;
	/* push, of the upper eight registers with exactly this prefix. */
	if ((code[0] & 0xf8) == 0x50 || (code[0] == 0x41 && (code[1] & 0xf8) == 0x50))
		return WATCH_SITE_PUSH;
	/* jmp and call with a distance, jcc; not those through a register or memory. */
	if (code[0] == 0xe8 || code[0] == 0xe9 || code[0] == 0xeb || (code[0] & 0xf0) == 0x70 ||
	    (code[0] == 0x0f && (code[1] & 0xf0) == 0x80))
		return WATCH_SITE_JUMP;
	return WATCH_SITE_STEPPED;
}

enum watch_site probe_site(const unsigned char *code, size_t size, unsigned int *ret_skip)
{
	static const unsigned char landing_pad[] = {0xf3, 0x0f, 0x1e, 0xfa};
	enum watch_site site;

	*ret_skip = 0;
	if (size < sizeof(landing_pad) || memcmp(code, landing_pad, sizeof(landing_pad)))
		return classify(code, size);
	site = classify(code + sizeof(landing_pad), size - sizeof(landing_pad));
	/* What is stepped through anyhow is probed where it begins. */
	if (site != WATCH_SITE_STEPPED)
		*ret_skip = sizeof(landing_pad);
	return site;
}
