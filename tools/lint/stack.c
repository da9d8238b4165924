// SPDX-License-Identifier: MIT
/*
 * Lint, call sites: which frames are the program's own, and what names the place they stand for. Python frames are taken before native
 * ones: a Python program's native frames are its interpreter's. Called by collect.c; relies on the report's symbolizer.
 */
#include <inttypes.h>

#include "lint/lint.h"
#include "memory.h"
#include "report_order.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct lint_frame *frame_add(struct lint_stack *stack)
{
	stack->frames =
		memory_check(reallocarray(stack->frames, stack->count + 1, sizeof(*stack->frames)));
	stack->frames[stack->count] = (struct lint_frame){0};
	return &stack->frames[stack->count++];
}

static void add_python(struct lint_stack *stack, const struct report_python_frame *from,
		       const char *root)
{
	struct lint_frame *frame = frame_add(stack);

	frame->function = from->function ? memory_copy(from->function) : NULL;
	frame->file = from->file ? lint_file_name(from->file, root) : NULL;
	frame->line = from->line > 0 ? (uint32_t)from->line : 0;
}

static void add_native(struct lint_stack *stack, const struct report_frame *from, const char *root)
{
	struct lint_frame *frame = frame_add(stack);

	frame->function = from->function ? lint_function_name(from->function) : NULL;
	frame->file = from->file ? lint_file_name(from->file, root) : NULL;
	frame->line = from->line;
	frame->module = from->module;
	frame->offset = from->offset;
}

/* What starts main() is in the program's file, but not its own. */
static bool is_native_own(const struct report_frame *frame)
{
	if (!frame->module || lint_is_foreign_module(frame->module))
		return false;
	if (frame->file && lint_is_foreign_file(frame->file))
		return false;
	return !frame->function || strcmp(frame->function, "_start");
}

static void add_frames(struct lint *lint, struct lint_stack *stack)
{
	struct report_site *site = stack->site;

	for (size_t i = 0; i < site->python_count; i++)
		if (site->python[i].file && !lint_is_foreign_file(site->python[i].file))
			add_python(stack, &site->python[i], lint->root);
	if (!stack->count && !site->python_count) {
		report_site_symbolize(lint->report, site);
		for (size_t i = 0; i < site->frame_count; i++)
			if (is_native_own(&site->frames[i]))
				add_native(stack, &site->frames[i], lint->root);
	}
	stack->is_own = stack->count;
	if (stack->is_own)
		return;
	for (size_t i = 0; i < site->python_count; i++)
		add_python(stack, &site->python[i], lint->root);
	for (size_t i = 0; i < site->frame_count; i++)
		add_native(stack, &site->frames[i], lint->root);
}

/* A frame without a line is told apart by its place in the module. */
static char *key_of(const struct lint_stack *stack)
{
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	for (size_t i = 0; i < stack->count; i++) {
		const struct lint_frame *frame = &stack->frames[i];

		(void)fprintf(out, "%s\x1f%s\x1f%" PRIu32 "\x1f%" PRIx64 "\x1e",
			      frame->function ? frame->function : "",
			      frame->file     ? frame->file
			      : frame->module ? base_name(frame->module)
					      : "",
			      frame->line, frame->line ? 0 : frame->offset);
	}
	if (fclose(out))
		memory_check(NULL);
	return text;
}

/* Nothing that a moved line, another folder or another machine changes. */
static char *identity_of(const struct lint_stack *stack)
{
	char *text = NULL;
	size_t size;
	FILE *out = memory_check(open_memstream(&text, &size));

	for (size_t i = 0; i < stack->count && i < LINT_IDENTITY_FRAMES; i++) {
		const struct lint_frame *frame = &stack->frames[i];
		const char *file = frame->file ? frame->file : frame->module;

		(void)fprintf(out, "%s\x1f%s\x1e", frame->function ? frame->function : "",
			      file ? base_name(file) : "");
	}
	if (fclose(out))
		memory_check(NULL);
	return text;
}

static void stack_clear(struct lint_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		free(stack->frames[i].function);
		free(stack->frames[i].file);
	}
	free(stack->frames);
	free(stack->key);
	free(stack->identity);
}

static int stack_identity(const void *left, const void *right)
{
	const struct lint_stack *l = left, *r = right;

	return strcmp(l->key, r->key);
}

const struct lint_stack *lint_stack_of(struct lint *lint, struct report_site *site)
{
	struct lint_stack made = {.site = site};
	const struct lint_stack *found;

	if (!site)
		return NULL;
	add_frames(lint, &made);
	made.key = key_of(&made);
	made.identity = identity_of(&made);
	found = report_list_find_or_add(&lint->stacks, &made, sizeof(made), stack_identity);
	if (found->frames != made.frames)
		stack_clear(&made);
	return found;
}

const struct lint_frame *lint_stack_place(const struct lint_stack *stack)
{
	for (size_t i = 0; stack && i < stack->count; i++)
		if (stack->frames[i].file && stack->frames[i].line)
			return &stack->frames[i];
	for (size_t i = 0; stack && i < stack->count; i++)
		if (stack->frames[i].function)
			return &stack->frames[i];
	return stack && stack->count ? &stack->frames[0] : NULL;
}

static int order_numbers(uint64_t left, uint64_t right)
{
	return (left > right) - (left < right);
}

int lint_stack_order(const struct lint_stack *left, const struct lint_stack *right)
{
	if (!left || !right)
		return (left != NULL) - (right != NULL);
	for (size_t i = 0; i < left->count && i < right->count; i++) {
		const struct lint_frame *l = &left->frames[i], *r = &right->frames[i];
		int order = strcmp(l->file ? l->file : "", r->file ? r->file : "");

		if (!order)
			order = order_numbers(l->line, r->line);
		if (!order && !l->line)
			order = order_numbers(l->offset, r->offset);
		if (order)
			return order;
	}
	return strcmp(left->key, right->key);
}

void lint_stacks_done(struct lint *lint)
{
	for (size_t i = 0; i < lint->stacks.count; i++)
		stack_clear(lint->stacks.items[i]);
	report_list_done(&lint->stacks);
}
