// SPDX-License-Identifier: MIT
/*
 * Guard, finds: accesses that came too early, and how they are told (internal.h). Called by calls.c, fault.c and kernel.c. What is found is taken out
 * of the table under the lock, and told without it.
 */
#include "guard/internal.h"

#include <string.h>

#include "driver/find.h"
#include "sync/site.h"

bool guard_accessed(uint64_t begin, uint64_t end, bool is_write, bool is_free,
		    struct guard_finds *finds)
{
	bool is_any = false;
	uint32_t i;

	/* What is known complete by now is no find. */
	guard_sweep();
	for (i = guard_count; i-- > 0;) {
		const struct guard *guard = guard_at(i);

		if (guard->begin >= end || begin >= guard->end ||
		    !(guard->is_destination || is_write || is_free))
			continue;
		is_any = true;
		if (finds->count < GUARD_FINDS)
			finds->find[finds->count++] = (struct guard_find){
				.is_destination = guard->is_destination,
				.is_write = is_write,
				.is_free = is_free,
				.bytes = guard->end - guard->begin,
				.side = guard->side,
			};
		guard_end(i);
	}
	return is_any;
}

static uint32_t host_function(const struct guard_find *find)
{
	if (find->is_free)
		return RECORD_HOST_FREE;
	return find->is_write ? RECORD_HOST_WRITE : RECORD_HOST_READ;
}

static bool is_in_driver(uint32_t site)
{
	const char *slash = strrchr(driver_image.path, '/');
	const char *name = slash ? slash + 1 : driver_image.path;

	return *name && site_in_file(site, name, strlen(name));
}

static void tell(const struct guard_find *find, const struct check_side *here)
{
	check_remark_at(here, find->bytes,
			find->is_destination && !find->is_free ? RULE_EARLY_HOST_READ
							       : RULE_EARLY_HOST_WRITE,
			&find->side);
}

void guard_tell(const struct guard_finds *finds, const struct check_side *here)
{
	uint32_t i;

	for (i = 0; i < finds->count; i++)
		tell(&finds->find[i], here);
}

void guard_tell_access(const struct guard_finds *finds, uint32_t site)
{
	struct check_side here = {.site = site};
	uint32_t i;

	/* A thread of the driver's own, or what runs on one. */
	if (is_in_driver(site))
		return;
	for (i = 0; i < finds->count; i++) {
		here.function = host_function(&finds->find[i]);
		tell(&finds->find[i], &here);
	}
}
