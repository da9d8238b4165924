// SPDX-License-Identifier: MIT
/* Findings (findings.h): the list, and edges in words. */
#include "verify/findings.h"

#include <inttypes.h>
#include <stdarg.h>

#include "memory.h"

void findings_add(struct verify_result *result, const struct verify_finding *finding)
{
	result->counts[finding->kind]++;
	if (result->finding_count == VERIFY_FINDINGS_MAX) {
		free(finding->text);
		return;
	}
	result->findings = memory_grow(result->findings, result->finding_count,
				       &result->finding_capacity, sizeof(result->findings[0]));
	result->findings[result->finding_count++] = *finding;
}

void findings_say(struct verify_result *result, enum verify_finding_kind kind, uint32_t process,
		  uint32_t context, const char *format, ...)
{
	struct verify_finding finding = {.kind = kind, .process = process, .context = context};
	va_list arguments;

	va_start(arguments, format);
	finding.text = memory_vformat(format, arguments);
	va_end(arguments);
	findings_add(result, &finding);
}

static char *lane_words(const struct verify_operation *operation)
{
	return memory_format("stream %" PRIu32 "%s", operation->stream,
			     operation->place     ? " (substitute)"
			     : operation->is_gone ? " (gone)"
						  : "");
}

const char *findings_needed(const struct verify_finding *finding)
{
	bool within = finding->before.stream == finding->after.stream;

	if (finding->before.place) /* on the substitute */
		return within ? "back" : "post";
	return within || finding->before.is_gone ? "join" : "explicit";
}

/* The barrier that is missing, in words. */
static char *barrier_words(const struct verify_finding *finding, const char *from, const char *to)
{
	const char *needed = findings_needed(finding);

	if (!strcmp(needed, "join"))
		return memory_copy("a join barrier is missing");
	return memory_format("%s %s barrier from %s to %s%s is missing",
			     *needed == 'e' ? "an" : "a", needed, from, to,
			     *needed == 'e' ? ", or a join barrier," : "");
}

char *findings_words(const struct verify_finding *finding, const char *before, const char *after)
{
	_cleanup_free_ char *from = lane_words(&finding->before);
	_cleanup_free_ char *to = lane_words(&finding->after);
	_cleanup_free_ char *barrier = barrier_words(finding, from, to);
	_cleanup_free_ char *stale = NULL;

	if (finding->kind == VERIFY_FLIGHT)
		return memory_format("context %" PRIu32 ": %s on %s, record %" PRIu64
				     ", began while the call of %s on %s, record %" PRIu64
				     ", had not returned: no barrier orders them",
				     finding->context, after, to, finding->after.sequence, before,
				     from, finding->before.sequence);
	stale = finding->stale ? memory_format("; that of record %" PRIu64
					       " stands for records up to %" PRIu64 " only",
					       finding->stale, finding->stale_recorded)
			       : memory_copy("");
	return memory_format("context %" PRIu32 ": %s on %s, record %" PRIu64
			     ", is not behind %s on %s, record %" PRIu64 ": %s%s",
			     finding->context, after, to, finding->after.sequence, before, from,
			     finding->before.sequence, barrier, stale);
}
