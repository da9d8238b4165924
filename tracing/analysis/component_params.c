// SPDX-License-Identifier: MIT
/* Parameters (component_params.h). */
#include "tracing/analysis/component_params.h"

#include <errno.h>
#include <inttypes.h>

#include "memory.h"

struct settings {
	struct report_output *output;
	struct report_select *select;
	char **reterr_text;
	int error;
};

static int64_t number_of(struct settings *settings, const char *key, const bt_value *value)
{
	if (bt_value_is_signed_integer(value) && bt_value_integer_signed_get(value) >= 0)
		return bt_value_integer_signed_get(value);
	if (bt_value_is_unsigned_integer(value) &&
	    bt_value_integer_unsigned_get(value) <= INT64_MAX)
		return (int64_t)bt_value_integer_unsigned_get(value);
	*settings->reterr_text = memory_format("the parameter %s needs a number", key);
	settings->error = -EINVAL;
	return 0;
}

static const char *text_of(struct settings *settings, const char *key, const bt_value *value)
{
	if (bt_value_is_string(value))
		return bt_value_string_get(value);
	*settings->reterr_text = memory_format("the parameter %s needs a text in quotes", key);
	settings->error = -EINVAL;
	return NULL;
}

/* A share needs the length of the trace, which a component does not know before it has read it. */
static struct report_time time_of(struct settings *settings, const char *key, const bt_value *value)
{
	struct report_time time = {.is_set = true};

	if (!bt_value_is_string(value)) {
		time.ns = number_of(settings, key, value);
	} else if (!report_time_parse(bt_value_string_get(value), &time) || time.is_share) {
		*settings->reterr_text = memory_format("the parameter %s needs ns, or a time as "
						       "\"250ms\" (shares: slipstream report)",
						       key);
		settings->error = -EINVAL;
	}
	return time;
}

static void take_by(struct settings *settings, const char *word)
{
	int by = word ? report_by_name(word) : -1;

	if (by >= 0) {
		settings->output->style.by = (enum report_by)by;
	} else if (!settings->error) {
		*settings->reterr_text = memory_format("the parameter by needs " REPORT_BY_NAMES);
		settings->error = -EINVAL;
	}
}

static bt_value_map_foreach_entry_const_func_status take_entry(const char *key,
							       const bt_value *value, void *data)
{
	struct settings *settings = data;

	if (!strcmp(key, "by")) {
		take_by(settings, text_of(settings, key, value));
	} else if (!strcmp(key, "limit")) {
		settings->output->style.limit = (size_t)number_of(settings, key, value);
	} else if (!strcmp(key, "json")) {
		settings->output->json_path = text_of(settings, key, value);
	} else if (!strcmp(key, "output")) {
		settings->output->output_path = text_of(settings, key, value);
	} else if (!strcmp(key, "begin")) {
		settings->select->begin = time_of(settings, key, value);
	} else if (!strcmp(key, "end")) {
		settings->select->end = time_of(settings, key, value);
	} else if (!strcmp(key, "rank")) {
		settings->select->rank = number_of(settings, key, value);
	} else if (!strcmp(key, "gpu")) {
		settings->select->gpu = number_of(settings, key, value);
	} else if (!strcmp(key, "pid")) {
		settings->select->pid = number_of(settings, key, value);
	} else if (!strcmp(key, "host")) {
		settings->select->host = text_of(settings, key, value);
	} else {
		*settings->reterr_text =
			memory_format("unknown parameter %s (by, limit, json, output, begin, "
				      "end, rank, host, gpu, pid)",
				      key);
		settings->error = -EINVAL;
	}
	return settings->error ? BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_INTERRUPT
			       : BT_VALUE_MAP_FOREACH_ENTRY_CONST_FUNC_STATUS_OK;
}

int params_report(const bt_value *params, struct report_output *output,
		  struct report_select *select, char **reterr_text)
{
	struct settings settings = {.output = output, .select = select, .reterr_text = reterr_text};

	(void)bt_value_map_foreach_entry_const(params, take_entry, &settings);
	return settings.error;
}

int params_path(const bt_value *params, const char **ret_path, char **reterr_text)
{
	const bt_value *path = bt_value_map_borrow_entry_value_const(params, "path");

	if (!path || !bt_value_is_string(path) || bt_value_map_get_size(params) != 1) {
		*reterr_text = memory_format("the parameter path=\"FILE\" is needed, and no other");
		return -EINVAL;
	}
	*ret_path = bt_value_string_get(path);
	return 0;
}
