// SPDX-License-Identifier: MIT
/* Check, pairs of places at which something was seen (pairs.h). Called by the rules with no lock held. */
#include "check/pairs.h"

static bool is_same(const struct check_side *left, const struct check_side *right)
{
	return left->function == right->function && left->site == right->site;
}

/* Under the lock. NULL: there is no room. */
static struct check_pair *find_or_add(struct check_pairs *pairs, const struct check_side *first,
				      const struct check_side *second)
{
	struct check_pair *pair;
	uint32_t i;

	for (i = 0; i < pairs->count; i++) {
		pair = &pairs->pairs[i];
		if (is_same(&pair->first, first) && is_same(&pair->second, second))
			return pair;
	}
	if (pairs->count == CHECK_PAIRS_MAX)
		return NULL;
	pair = &pairs->pairs[pairs->count++];
	*pair = (struct check_pair){.first = *first, .second = *second};
	return pair;
}

uint32_t check_pairs_seen(struct check_pairs *pairs, const struct check_side *first,
			  const struct check_side *second, uint32_t least, const char *lost)
{
	struct check_pair *pair;
	uint32_t due = 0;

	if (!check_lock())
		return 0;
	pair = find_or_add(pairs, first, second);
	if (pair)
		due = check_remarks_due(++pair->count, least);
	check_unlock();
	if (!pair)
		check_lost(lost);
	return due;
}
