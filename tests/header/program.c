// SPDX-License-Identifier: MIT
/*
 * Walks the header's scopes in the program itself and in a shared object linked to it, and checks
 * what the provider saw:
 *
 *	program absent		nothing preloaded: every call does nothing
 *	program present		the provider is preloaded: the exact journal
 *	program old		the same, of a library that has no steps: the rest works
 *
 * Compiled as C99, C11, C++11, C++17; PIE, non-PIE and static (static: absent only). The seam to
 * C++ is this one file compiled twice.
 */
#include "scopes.h"

#include <stdio.h>
#include <string.h>

#ifdef TEST_SHARED_OBJECT
#ifdef __cplusplus
extern "C"
#endif
	int
	shared_object_walk(void);
#endif

#ifndef TEST_STATIC
#include <dlfcn.h>
#endif

static int failed;

static void expect_text(const char *what, const char *got, const char *wanted)
{
	if (strcmp(got, wanted) == 0)
		return;
	fprintf(stderr, "%s: got '%s', expected '%s'\n", what, got, wanted);
	failed = 1;
}

static void expect_number(const char *what, int got, int wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "%s: got %d, expected %d\n", what, got, wanted);
	failed = 1;
}

#ifdef __cplusplus
/* An exception must close the scope. */
static void throw_inside(void)
{
	SLIPSTREAM_REGION("throwing");
	throw 1;
}
#endif

int main(int argc, char **argv)
{
	const char *(*journal)(void) = NULL;
	const char *wanted;
	int present;

	if (argc != 2) {
		fprintf(stderr, "usage: %s absent|present|old\n", argv[0]);
		return 2;
	}
	present = strcmp(argv[1], "absent") != 0;
	wanted = strcmp(argv[1], "old") ? SCOPES_JOURNAL("| ") : SCOPES_JOURNAL("");

#ifndef TEST_STATIC
	*(void **)&journal = dlsym(RTLD_DEFAULT, "provider_journal");
#endif
	expect_number("provider loaded", journal != NULL, present);
	expect_number("slipstream_is_present()", slipstream_is_present(), present);

	expect_number("walk in the program", scopes_walk(), SCOPES_RESULT);
	if (journal)
		expect_text("journal of the program", journal(), wanted);

#ifdef TEST_SHARED_OBJECT
	expect_number("walk in the shared object", shared_object_walk(), SCOPES_RESULT);
	if (journal)
		expect_text("journal of the shared object", journal(), wanted);
#endif

#ifdef __cplusplus
	try {
		throw_inside();
	} catch (int) {
	}
	if (journal)
		expect_text("journal after an exception", journal(), "(throwing ) ");
#endif
	return failed;
}
