// SPDX-License-Identifier: MIT
/*
 * Settings of the preloaded library, read once from the environment (SLIPSTREAM_*). One table,
 * shim/options.def, gives names, defaults, units and help; the tools' --help, the man page and the
 * README table come from the same file.
 */
#ifndef SLIPSTREAM_CONFIG_H
#define SLIPSTREAM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum config_mode { CONFIG_OFF, CONFIG_OBSERVE, CONFIG_FIX };

/* Bits of `fix` and `relax`, in the order of their words in options.def. */
enum config_fix {
	CONFIG_FIX_PINNED = 1 << 0,
	CONFIG_FIX_FREES = 1 << 1,
	CONFIG_FIX_STAGING = 1 << 2,
	CONFIG_FIX_STREAMS = 1 << 3
};
enum config_relax {
	CONFIG_RELAX_FREE = 1 << 0,
	CONFIG_STRICT_FREE = 1 << 1, /* wins */
	CONFIG_RELAX_ORDER = 1 << 2
};

enum config_zero { CONFIG_ZERO_OFF = 1 << 0, CONFIG_ZERO_FULL = 1 << 1 };

enum config_check {
	CONFIG_CHECK_OFF = 1 << 0,
	CONFIG_CHECK_ORDER = 1 << 1,
	CONFIG_CHECK_GUARD = 1 << 2
};

#define CONFIG_PERCENT (UINT64_C(1) << 63)

enum config_level { CONFIG_TRACE_WAITS, CONFIG_TRACE_FULL };

struct config {
	enum config_mode mode;
	uint32_t fix;          /* enum config_fix; of mode fix only */
	uint32_t relax;        /* enum config_relax */
	uint32_t zero;         /* enum config_zero: what a recycled block of pinned memory holds */
	uint64_t pool_limit;   /* bytes; or CONFIG_PERCENT and a number up to 100 */
	uint64_t stage_from;   /* bytes */
	uint32_t legacy_after; /* operations */
	uint64_t pool_age_ns;  /* 0: blocks do not grow old */
	const char *out;       /* folder for record files; NULL: none */
	bool attribute;        /* query candidates before calls that can block */
	bool python;           /* take Python frames */
	uint32_t stack_depth;  /* frames of a site, at most */
	uint64_t threshold_ns; /* blocked time below this is not reported for implicit waits */
	const char *calibration; /* file of idle costs; NULL: none */
	const char
		*deny; /* file of call sites that are not rewritten (rewrite/deny.h); NULL: none */
	const char *lttng;       /* file of the LTTng provider; NULL: no trace */
	enum config_level level; /* what is traced */
	uint32_t check;          /* enum config_check; of mode observe only */
	const char *nvtx;        /* ranges that are regions: NAME@DOMAIN, ...; NULL: none */
	const char *step; /* driver function, or nvtx:MARK, that begins a step; NULL: none does */
	uint64_t dump_over_ns;  /* see options.def; 0: never */
	uint64_t dump_every_ns; /* see options.def; 0: when asked for only */
	/* No setting: of the variables that launchers of many processes set; -1: none has one. */
	int32_t rank;
};

/* Written by config_load() before any wrapper reads it; constant afterwards. */
extern struct config config;

/* The words of SLIPSTREAM_FIX, joined by |: the n-th is of bit n. */
const char *config_fix_words(void);

/*
 * A bad value or unknown SLIPSTREAM_ variable: one line on stderr, the setting ignored, a
 * NOTE_CONFIG later.
 */
void config_load(void);

/*
 * Did the environment set this field of `config`, even to what is the default? A bad value is none. For a
 * default that another source may better.
 */
bool config_is_chosen(const void *field);

/* The index-th thing config_load() complained of, NULL behind the last. */
const char *config_problem(unsigned int index);

/* Writes those texts to stderr, once. Called by emit, under its lock, when the record opens. */
void config_tell(void);

/*
 * The same for SLIPSTREAM_LTTNG, whose file is looked at when it is needed only. Called by emit, once in a
 * process; any thread.
 */
void config_tell_lttng(const char *why);
/* The same of the deny list. */
void config_tell_deny(const char *why);

#endif
