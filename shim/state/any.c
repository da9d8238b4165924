// SPDX-License-Identifier: MIT
/*
 * Any: looks at what is pending anywhere, which only calls that took long need; never on the way of
 * a launch. Called by sync for a call that no rule explains. Relies on pending.c's bit list, which
 * never misses a stream for good: one that is being taken out of it at this moment was known
 * complete.
 *
 * It looks after the real call and leaves the call's own snapshot alone, since state_after() draws
 * conclusions from that.
 */
#include "state/internal.h"
#include "state/state.h"

uint32_t state_pending_anywhere(struct call_pending *ret_pending, uint32_t most)
{
	uint32_t words = (stream_count() + 63) / 64;
	struct state_stream *stream;
	uint64_t bits, youngest;
	uint32_t word, count = 0;

	for (word = 0; word < words; word++) {
		for (bits = STATE_LOAD(&pending_bits[word]); bits; bits &= bits - 1) {
			stream = stream_at(word * 64 + (uint32_t)__builtin_ctzll(bits));
			if (!stream_is_pending(stream))
				continue;
			if (count == most)
				return count;
			youngest = STATE_LOAD(&stream->youngest);
			ret_pending[count++] = (struct call_pending){
				.stream = stream,
				.submitted = stream_submitted(stream),
				.name = (uint32_t)youngest,
				.operation = (uint32_t)(youngest >> 32),
			};
		}
	}
	return count;
}
