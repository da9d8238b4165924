// SPDX-License-Identifier: MIT
/*
 * Report, lines (report_lines.h). Called by the text writers only.
 */
#include "report_lines.h"

#include <inttypes.h>
#include <stdarg.h>

#include "memory.h"
#include "text.h"

/*
 * Of a function's name: with all arguments of its templates it may have 100,000 characters. The
 * JSON has them.
 */
#define NAME_WIDTH 160

/* Cuts `text` to `width` columns, the last three being dots. */
static void cut(char *text, size_t width)
{
	size_t columns = 0, dots = width < 3 ? width : 3;
	char *end = text;

	if (!width || text_columns(text) <= width)
		return;
	for (; *end; end++)
		if (((unsigned char)*end & 0xc0) != 0x80 && columns++ == width - dots)
			break;
	memset(end, '.', dots); /* there is room: more than that was cut off */
	end[dots] = '\0';
}

void lines_add(const struct lines *lines, enum line_look look, const char *format, ...)
{
	static const char *const codes[] = {
		[LINE_PLAIN] = "",
		[LINE_HEADING] = "\033[1;4m",
		[LINE_STRONG] = "\033[1m",
		[LINE_WARNING] = "\033[33m",
	};
	_cleanup_free_ char *text = NULL;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		text = memory_check(NULL);
	cut(text, lines->style->width);
	if (lines->style->colour && look != LINE_PLAIN)
		(void)fprintf(lines->out, "%s%s\033[0m\n", codes[look], text);
	else
		(void)fprintf(lines->out, "%s\n", text);
}

void lines_add_more(const struct lines *lines, const char *indent, size_t shown, size_t all,
		    const char *what)
{
	if (all > shown)
		lines_add(lines, LINE_PLAIN, "%s(%zu more %s%s)", indent, all - shown, what,
			  plural(all - shown));
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void add_native(const struct lines *lines, const struct report_frame *frame,
		       const char *indent, size_t width)
{
	_cleanup_free_ char *function =
		text_printable(frame->function ? frame->function : "", false);
	_cleanup_free_ char *file = text_printable(frame->file ? frame->file : "", false);
	_cleanup_free_ char *module =
		text_printable(frame->module ? base_name(frame->module) : "", false);
	const char *inlined = frame->inlined ? " (inlined)" : "";

	cut(function, width);
	if (*file)
		lines_add(lines, LINE_PLAIN, "%s%s:%" PRIu32 "  %s%s", indent, file, frame->line,
			  *function ? function : "?", inlined);
	else if (*function)
		lines_add(lines, LINE_PLAIN, "%s%s+0x%" PRIx64 "  %s%s", indent, module,
			  frame->offset, function, inlined);
	else if (*module)
		lines_add(lines, LINE_PLAIN, "%s%s+0x%" PRIx64, indent, module, frame->offset);
	else
		lines_add(lines, LINE_PLAIN, "%s0x%" PRIx64 "  (in no known module)", indent,
			  frame->offset);
}

static bool begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/*
 * What every stack ends with below main() or a thread's first function says nothing about the
 * program. The C library's part of it often has no symbols: a frame of it without a name is taken
 * for start code, too, at that end of the stack.
 */
static bool is_start_code(const struct report_frame *frame)
{
	static const char *const names[] = {
		"_start",
		"__libc_start_main",
		"__libc_start_main_impl",
		"__libc_start_call_main",
		"start_thread",
	};
	const char *module = frame->module ? base_name(frame->module) : "";

	for (size_t i = 0; frame->function && i < ARRAY_SIZE(names); i++)
		if (!strcmp(frame->function, names[i]))
			return true;
	if (!begins_with(module, "libc.so.") && !begins_with(module, "libc-2.") &&
	    !begins_with(module, "libpthread"))
		return false;
	return !frame->function || begins_with(frame->function, "__libc_start_") ||
	       begins_with(frame->function, "clone") || begins_with(frame->function, "__clone") ||
	       begins_with(frame->function, "__GI___clone");
}

/* The frames without start code; one is always left. */
static size_t program_frames(const struct report_frame *frames, size_t all)
{
	size_t count = all;

	while (count && is_start_code(&frames[count - 1]))
		count--;
	return count || !all ? count : 1;
}

static void add_frames_left_out(const struct lines *lines, const char *indent, size_t more,
				size_t start)
{
	if (more && start)
		lines_add(lines, LINE_PLAIN, "%s(%zu more frame%s, and %zu of start code)", indent,
			  more, plural(more), start);
	else if (start)
		lines_add(lines, LINE_PLAIN, "%s(%zu frame%s of start code left out)", indent,
			  start, plural(start));
	else
		lines_add_more(lines, indent, 0, more, "frame");
}

void lines_add_frames(const struct lines *lines, const struct report_frame *frames, size_t all,
		      const char *indent, size_t depth)
{
	size_t count = depth ? program_frames(frames, all) : all;
	size_t shown = depth && count > depth ? depth : count;

	for (size_t i = 0; i < shown; i++)
		add_native(lines, &frames[i], indent, depth ? NAME_WIDTH : 0);
	add_frames_left_out(lines, indent, count - shown, all - count);
}

void lines_add_site(const struct lines *lines, struct report *report, struct report_site *site,
		    const char *indent, size_t depth)
{
	size_t shown = depth && site->python_count > depth ? depth : site->python_count;
	report_site_symbolize(report, site);
	for (size_t i = 0; i < shown; i++) {
		const struct report_python_frame *frame = &site->python[i];
		_cleanup_free_ char *file = text_printable(frame->file ? frame->file : "?", false);
		_cleanup_free_ char *function =
			text_printable(frame->function ? frame->function : "?", false);

		if (frame->line)
			lines_add(lines, LINE_PLAIN, "%s%s:%" PRId32 "  %s (Python)", indent, file,
				  frame->line, function);
		else
			lines_add(lines, LINE_PLAIN, "%s%s  %s (Python)", indent, file, function);
	}
	lines_add_more(lines, indent, shown, site->python_count, "Python frame");

	lines_add_frames(lines, site->frames, site->frame_count, indent, depth);
}
