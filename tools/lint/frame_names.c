// SPDX-License-Identifier: MIT
/*
 * Lint, names of frames: what of a function's or a file's name is the same in every build, and which files are not the program's. Called by
 * stack.c.
 */
#include <ctype.h>
#include <limits.h>

#include "lint/lint.h"
#include "memory.h"

static bool starts_with(const char *text, const char *start)
{
	return !strncmp(text, start, strlen(start));
}

/* Behind the bracket that closes the one at `text`, or the end. */
static const char *skip_brackets(const char *text, char open, char close)
{
	unsigned int depth = 0;

	for (; *text; text++) {
		if (*text == open)
			depth++;
		else if (*text == close && !--depth)
			return text + 1;
	}
	return text;
}

/* operator<, operator(), operator new: its own sign is no bracket. Returns behind it. */
static const char *copy_operator(const char *text, char **end)
{
	size_t length = strlen("operator");

	if (isalnum((unsigned char)text[length]) || text[length] == '_')
		length = 1; /* a longer name */
	else if (starts_with(text + length, "()"))
		length += 2;
	else
		length += strspn(text + length, "<>=!+-*/%&|^~[],");
	memcpy(*end, text, length);
	*end += length;
	return text + length;
}

/* ".constprop.0", ".isra.0", ".part.1", ".cold", "[clone ...]", "[abi:cxx11]" differ between builds. */
static bool is_suffix(const char *text)
{
	return *text == '.' || *text == '[';
}

char *lint_function_name(const char *name)
{
	static const char hidden[] = "(anonymous namespace)::";
	char *result = memory_new(strlen(name) + 1), *end = result;

	while (*name && !is_suffix(name)) {
		if (starts_with(name, hidden))
			name += strlen(hidden);
		else if (starts_with(name, "operator"))
			name = copy_operator(name, &end);
		else if (*name == '<')
			name = skip_brackets(name, '<', '>');
		else if (*name == '(')
			name = skip_brackets(name, '(', ')');
		else if (*name == '#')
			name += 1 + strspn(name + 1, "0123456789");
		else
			*end++ = *name++;
	}
	*end = '\0';
	if (end > result + 6 && !strcmp(end - 6, " const")) /* of a method */
		end[-6] = '\0';
	return result;
}

/* Without "." and "..", by name only: the file may be of another machine. `path` is absolute. */
static char *plain_path(const char *path)
{
	char *result = memory_new(strlen(path) + 2), *end = result;

	while (*path) {
		size_t length;

		path += strspn(path, "/");
		length = strcspn(path, "/");
		if (length == 2 && !strncmp(path, "..", 2)) {
			while (end > result && *--end != '/')
				;
		} else if (length && !(length == 1 && *path == '.')) {
			*end++ = '/';
			memcpy(end, path, length);
			end += length;
		}
		path += length;
	}
	*end = '\0';
	return result;
}

char *lint_file_name(const char *file, const char *root)
{
	_cleanup_free_ char *plain = NULL;
	size_t length = root ? strlen(root) : 0;

	if (file[0] != '/') {
		while (starts_with(file, "./"))
			file += 2;
		return memory_copy(file);
	}
	plain = plain_path(file);
	if (length && !strncmp(plain, root, length) && plain[length] == '/')
		return memory_copy(plain + length + 1);
	return memory_copy(plain);
}

bool lint_is_foreign_file(const char *path)
{
	static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python"};
	static const char *const starts[] = {"/usr/include/", "/usr/lib", "/usr/local/cuda",
					     "/opt/cuda", "<"};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(path, parts[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (starts_with(path, starts[i]))
			return true;
	return false;
}

bool lint_is_foreign_module(const char *path)
{
	static const char *const starts[] = {"/lib", "/usr/lib", "/usr/local/cuda", "/opt/cuda",
					     "["};
	static const char *const names[] = {
		"libcuda.so", "libcudart",    "libcublas",   "libcudnn",
		"libcufft",   "libcurand",    "libcusolver", "libcusparse",
		"libnvrtc",   "libnvJitLink", "libnccl",     "libslipstream",
		"libpython",  "libstdc++.so", "libgcc_s.so", "libc.so"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
		if (starts_with(path, starts[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (starts_with(name, names[i]))
			return true;
	return strstr(path, "/site-packages/") || strstr(path, "/dist-packages/");
}
