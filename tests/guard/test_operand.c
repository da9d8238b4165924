// SPDX-License-Identifier: MIT
/* How far an instruction reads: encodings by the processor's manual. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "guard/internal.h"

static unsigned int width(const char *bytes)
{
	uint8_t padded[15] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
			      0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
	unsigned int i;

	for (i = 0; bytes[2 * i]; i++) {
		const char text[] = {bytes[2 * i], bytes[2 * i + 1], '\0'};

		padded[i] = (uint8_t)strtoul(text, NULL, 16);
	}
	return guard_wide_read(padded, sizeof(padded));
}

static void test_plain_reads_are_what_they_are(void **state)
{
	(void)state;
	assert_int_equal(width("8b07"), 0);       /* mov (%rdi),%eax */
	assert_int_equal(width("0fb607"), 0);     /* movzbl (%rdi),%eax */
	assert_int_equal(width("480fbe07"), 0);   /* movsbq (%rdi),%rax */
	assert_int_equal(width("f00fc107"), 0);   /* lock xadd %eax,(%rdi) */
	assert_int_equal(width("f3a4"), 0);       /* rep movsb */
	assert_int_equal(width("d907"), 0);       /* flds (%rdi) */
	assert_int_equal(width("f30f1007"), 0);   /* movss (%rdi),%xmm0 */
	assert_int_equal(width("f20f5807"), 0);   /* addsd (%rdi),%xmm0 */
	assert_int_equal(width("f3480f2a07"), 0); /* cvtsi2ss (%rdi),%xmm0 */
	assert_int_equal(width("0f94c0"), 0);     /* sete %al */
}

static void test_words_and_vectors_have_their_width(void **state)
{
	(void)state;
	assert_int_equal(width("488b07"), 8);        /* mov (%rdi),%rax */
	assert_int_equal(width("492307"), 8);        /* and (%r15),%rax */
	assert_int_equal(width("660f6f07"), 16);     /* movdqa (%rdi),%xmm0 */
	assert_int_equal(width("f30f6f07"), 16);     /* movdqu (%rdi),%xmm0 */
	assert_int_equal(width("0f1007"), 16);       /* movups (%rdi),%xmm0 */
	assert_int_equal(width("660f7407"), 16);     /* pcmpeqb (%rdi),%xmm0 */
	assert_int_equal(width("660f3a630700"), 16); /* pcmpistri $0,(%rdi),%xmm0 */
	assert_int_equal(width("c5f96f07"), 16);     /* vmovdqa (%rdi),%xmm0 */
	assert_int_equal(width("c5fd7407"), 32);     /* vpcmpeqb (%rdi),%ymm0,%ymm0 */
	assert_int_equal(width("c4c17d7407"), 32);   /* vpcmpeqb (%r15),%ymm0,%ymm0 */
	assert_int_equal(width("62f17c281007"), 32); /* vmovups (%rdi),%ymm0 */
	assert_int_equal(width("62f17c481007"), 64); /* vmovups (%rdi),%zmm0 */
}

static void test_what_cannot_be_read_counts_as_the_widest(void **state)
{
	const uint8_t end[] = {0x66, 0x0f};

	(void)state;
	assert_int_equal(guard_wide_read(end, sizeof(end)), 64);
	assert_int_equal(guard_wide_read(end, 0), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_reads_are_what_they_are),
		cmocka_unit_test(test_words_and_vectors_have_their_width),
		cmocka_unit_test(test_what_cannot_be_read_counts_as_the_widest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
