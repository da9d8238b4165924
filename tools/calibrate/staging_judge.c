// SPDX-License-Identifier: MIT
/*
 * Staged copies: what the figures mean (staging.h). Called by staging.c; no driver, no clock.
 */
#include "staging.h"

#include "calibration_copies.h"

#define MARGIN_PART 20  /* the twentieth part: 5 % */
#define MARGIN_NS   300 /* less than that is lost in what a call costs by itself */

static bool is_within(uint64_t staged, uint64_t driver, uint64_t own)
{
	uint64_t margin = own / MARGIN_PART;

	return staged <= driver + (margin > MARGIN_NS ? margin : MARGIN_NS);
}

bool staging_is_call_as_fast(uint64_t staged, uint64_t driver, uint64_t kernel)
{
	/* One that did not wait for the kernel is all its own. */
	return is_within(staged, driver, driver > kernel ? driver - kernel : driver);
}

bool staging_is_as_fast(struct staging_figures staged, struct staging_figures driver,
			uint64_t kernel)
{
	return staging_is_call_as_fast(staged.call, driver.call, kernel) &&
	       is_within(staged.whole, driver.whole,
			 driver.whole > kernel ? driver.whole - kernel : 0);
}

uint64_t staging_from(const size_t *sizes, const bool *is_fast, unsigned int count)
{
	uint64_t from = CALIBRATION_NEVER;

	while (count-- && is_fast[count])
		from = sizes[count];
	return from;
}
