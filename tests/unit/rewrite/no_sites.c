// SPDX-License-Identifier: MIT
/*
 * Call sites, for tests of the rewrites without the room that knows them: there is no deny list, so none is ever asked for. Nor is there a
 * calibration.
 */
#include "config.h"
#include "sync/calibration.h"
#include "sync/site.h"

const char *config_fix_words(void)
{
	return "pinned|frees|staging";
}

bool config_is_chosen(const void *field)
{
	return false;
}

const struct calibration_stage *calibration_stage(void)
{
	return NULL;
}

uint32_t site_take(const void *return_address, const void *frame)
{
	return 0;
}

uint64_t site_key(uint32_t site)
{
	return 0;
}

bool site_in_file(uint32_t site, const char *name, size_t length)
{
	return false;
}

bool site_in_python(uint32_t site, const char *name, size_t length)
{
	return false;
}
