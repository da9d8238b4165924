// SPDX-License-Identifier: MIT
/*
 * Copy bytes (copy_bytes.h).
 *
 * Order: non-temporal stores go to write-combining buffers and become visible in any order, so an sfence stands behind them. What
 * comes after it is the release store that tells the submitting thread of a filled chunk; that thread's acquire load pairs with it, and
 * its driver rings the device's doorbell by a store that is later still. So the device never fetches a chunk before its bytes are there.
 */
#include "stage/copy_bytes.h"

#include <stdint.h>
#include <string.h>

/* Rows below this are copied through the caches: head and tail would be most of them. */
#define STREAMED_MIN 512
#define AHEAD        1024 /* bytes between what is fetched and what is copied */

void copy_bytes_cached(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#ifdef __x86_64__
#include <immintrin.h>

/* `to` is a multiple of 64, `bytes` of 128. */
__attribute__((target("avx"))) static void stream_avx(char *to, const char *from, size_t bytes)
{
	const char *end = from + bytes;

	for (; from < end; from += 128, to += 128) {
		__m256i a, b, c, d;

		/* Behind the end: a prefetch never faults. */
		_mm_prefetch(from + AHEAD, _MM_HINT_NTA);
		_mm_prefetch(from + AHEAD + 64, _MM_HINT_NTA);
		a = _mm256_loadu_si256((const __m256i *)(const void *)from);
		b = _mm256_loadu_si256((const __m256i *)(const void *)(from + 32));
		c = _mm256_loadu_si256((const __m256i *)(const void *)(from + 64));
		d = _mm256_loadu_si256((const __m256i *)(const void *)(from + 96));
		_mm256_stream_si256((__m256i *)(void *)to, a);
		_mm256_stream_si256((__m256i *)(void *)(to + 32), b);
		_mm256_stream_si256((__m256i *)(void *)(to + 64), c);
		_mm256_stream_si256((__m256i *)(void *)(to + 96), d);
	}
}

static void stream_sse2(char *to, const char *from, size_t bytes)
{
	const char *end = from + bytes;

	for (; from < end; from += 64, to += 64) {
		__m128i a, b, c, d;

		_mm_prefetch(from + AHEAD, _MM_HINT_NTA);
		a = _mm_loadu_si128((const __m128i *)(const void *)from);
		b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
		c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
		d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
		_mm_stream_si128((__m128i *)(void *)to, a);
		_mm_stream_si128((__m128i *)(void *)(to + 16), b);
		_mm_stream_si128((__m128i *)(void *)(to + 32), c);
		_mm_stream_si128((__m128i *)(void *)(to + 48), d);
	}
}

static void stream(char *to, const char *from, size_t bytes)
{
	/* Asks for the system's support of the wide registers, too. A load and a test: nothing is cached here. */
	if (__builtin_cpu_supports("avx"))
		stream_avx(to, from, bytes);
	else
		stream_sse2(to, from, bytes);
}

/* Without the fence. */
static void copy_streamed(char *to, const char *from, size_t bytes)
{
	size_t head = -(uintptr_t)to & 63, body;

	if (bytes < STREAMED_MIN) {
		memcpy(to, from, bytes);
		return;
	}
	body = (bytes - head) & ~(size_t)127;
	memcpy(to, from, head);
	stream(to + head, from + head, body);
	memcpy(to + head + body, from + head + body, bytes - head - body);
}

static void fence(void)
{
	_mm_sfence();
}
#else
static void copy_streamed(char *to, const char *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static void fence(void)
{
}
#endif

void copy_bytes_streamed(void *to, const void *from, size_t bytes)
{
	copy_streamed(to, from, bytes);
	fence();
}

void copy_rows(const struct copy_rows *rows, bool streamed)
{
	const char *from = rows->from;
	char *to = rows->to;
	size_t row;

	for (row = 0; row < rows->rows; row++) {
		if (streamed)
			copy_streamed(to, from, rows->width);
		else
			memcpy(to, from, rows->width);
		to += rows->to_pitch;
		from += rows->from_pitch;
	}
	if (streamed)
		fence();
}
