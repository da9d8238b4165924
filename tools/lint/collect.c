// SPDX-License-Identifier: MIT
/*
 * Lint, uses: the wait records of all processes, merged by place. Called by lint.c once the report is finished. Waits inside an
 * allowed-sync scope of the public header are counted and left out: the program has said that it wants them.
 */
#include <inttypes.h>

#include "lint/lint.h"
#include "memory.h"
#include "report_order.h"
#include "report_sites.h"
#include "sum.h"

static int stack_identity(const struct lint_stack *left, const struct lint_stack *right)
{
	if (left == right)
		return 0;
	return !left ? -1 : !right ? 1 : strcmp(left->key, right->key);
}

static int use_identity(const void *left, const void *right)
{
	const struct lint_use *l = left, *r = right;
	int order = strcmp(l->slug, r->slug);

	if (!order)
		order = strcmp(l->function, r->function);
	if (!order)
		order = (l->class > r->class) - (l->class < r->class);
	if (!order)
		order = stack_identity(l->stack, r->stack);
	if (!order)
		order = strcmp(l->other_function ? l->other_function : "",
			       r->other_function ? r->other_function : "");
	return order ? order : stack_identity(l->other_stack, r->other_stack);
}

static int part_identity(const void *left, const void *right)
{
	return strcmp(((const struct lint_part *)left)->region,
		      ((const struct lint_part *)right)->region);
}

static int part_sort(const void *left, const void *right)
{
	return part_identity(*(void *const *)left, *(void *const *)right);
}

static int use_sort(const void *left, const void *right)
{
	return use_identity(*(void *const *)left, *(void *const *)right);
}

/* What a wait without a rule is, nobody knows: class 0. */
static struct lint_use key_of(struct lint *lint, const struct record_file *file,
			      const struct record_wait *wait)
{
	const struct record_function *function =
		(const void *)record_find(&file->functions, wait->function);
	const struct record_rule *rule = (const void *)record_find(&file->rules, wait->rule);
	const char *name = function ? record_string_text(file, function->name) : NULL;
	const char *slug = rule ? record_string_text(file, rule->slug) : NULL;
	const char *cause = rule ? record_string_text(file, rule->cause) : NULL;

	return (struct lint_use){
		.slug = slug ? slug : "unknown",
		.function = name ? name : "unknown",
		.cause = cause ? cause : "for an unknown reason",
		.class = !rule ? REPORT_CLASS_UNKNOWN : rule->class,
		.stack = rule && rule->class == WAIT_EXPLICIT
				 ? NULL /* judged by budgets only, which name no place */
				 : lint_stack_of(lint,
						 report_site_of(lint->report, file, wait->site)),
	};
}

struct lint_use *lint_use_of(struct lint *lint, const struct lint_use *key)
{
	return report_list_find_or_add(&lint->uses, key, sizeof(*key), use_identity);
}

struct lint_part *lint_use_part(struct lint_use *use, const char *region)
{
	struct lint_part key = {.region = region};

	return report_list_find_or_add(&use->parts, &key, sizeof(key), part_identity);
}

static struct lint_use *find_or_add(struct lint *lint, const struct record_file *file,
				    const struct record_wait *wait)
{
	struct lint_use key = key_of(lint, file, wait);

	return lint_use_of(lint, &key);
}

static bool is_own_cost(const struct record_file *file, const struct record_wait *wait)
{
	const struct record_rule *rule = (const void *)record_find(&file->rules, wait->rule);

	return rule && rule->head.size >= sizeof(*rule) && rule->flags & RECORD_RULE_OWN_COST;
}

static bool is_spread(const struct report_process *process, const struct record_wait *wait)
{
	uint64_t begin_ns = process->file->header->start_ns;
	uint64_t life_ns = process->end_ns > begin_ns ? process->end_ns - begin_ns : 0;

	return wait->last_ns > wait->first_ns &&
	       wait->last_ns - wait->first_ns >= life_ns / LINT_SPREAD;
}

static void add_wait(struct lint *lint, const struct report_process *process,
		     const struct record_wait *wait)
{
	const struct record_file *file = process->file;
	struct lint_use *use = find_or_add(lint, file, wait);
	struct lint_part *part = lint_use_part(use, lint_region_path(lint, file, wait->region));

	use->own_cost |= is_own_cost(file, wait);
	use->is_spread |= is_spread(process, wait);
	sum_add(&use->count, wait->count);
	sum_add(&use->blocked_ns, wait->blocked_ns);
	sum_add(&use->bytes, wait->bytes);
	sum_add(&part->count, wait->count);
	sum_add(&part->blocked_ns, wait->blocked_ns);
	sum_add(&part->bytes, wait->bytes);
}

static const char *keep_text(struct lint *lint, char *text)
{
	report_text_list_add(&lint->texts, text);
	return text;
}

static void add_waited_for(struct lint *lint, const struct record_file *file,
			   const struct record_waited_for *record)
{
	const struct record_wait *wait = (const void *)record_find(&file->waits, record->wait);
	const struct record_candidate *candidate =
		(const void *)record_find(&file->candidates, record->candidate);
	const char *name = candidate ? record_string_text(file, candidate->name) : NULL;
	struct report_named key = {0}, *named;
	struct lint_use *use;

	if (!wait || !wait->count || wait->allowed || !record->count || !candidate)
		return;
	use = find_or_add(lint, file, wait);
	key.name = keep_text(lint, memory_format("%s%s%s on %s stream %" PRIu64,
						 report_operation(candidate->operation),
						 name ? " " : "", name ? name : "",
						 report_stream_kind(candidate->stream_kind),
						 candidate->stream));
	named = report_list_find_or_add(&use->waited, &key, sizeof(key), report_named_identity);
	sum_add(&named->count, record->count);
	sum_add(&named->blocked_ns, record->blocked_ns);
}

void lint_collect(struct lint *lint)
{
	for (size_t i = 0; i < lint->report->process_count; i++) {
		const struct report_process *process = &lint->report->processes[i];
		const struct record_file *file = process->file;

		for (size_t k = 0; k < file->waits.count; k++) {
			const struct record_wait *wait = (const void *)file->waits.records[k];

			if (wait->count && wait->allowed)
				sum_add(&lint->allowed_by_program, wait->count);
			else if (wait->count)
				add_wait(lint, process, wait);
		}
		for (size_t k = 0; k < file->waited_for.count; k++)
			add_waited_for(lint, file, (const void *)file->waited_for.records[k]);
	}
	lint_collect_remarks(lint);
	report_list_sort(&lint->uses, use_sort);
	for (size_t i = 0; i < lint->uses.count; i++) {
		struct lint_use *use = lint->uses.items[i];

		report_list_sort(&use->parts, part_sort);
		report_list_sort(&use->waited, report_named_rank_sort);
	}
}
