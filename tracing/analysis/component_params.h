// SPDX-License-Identifier: MIT
/*
 * Parameters of a sink component, as babeltrace2 got them (`-p by="site",limit=5`), into settings.
 */
#ifndef SLIPSTREAM_TRACING_COMPONENT_PARAMS_H
#define SLIPSTREAM_TRACING_COMPONENT_PARAMS_H

#include <babeltrace2/babeltrace.h>

#include "report.h"
#include "report_select.h"

/*
 * Both return 0, or -EINVAL with one line in *reterr_text (the caller frees): an unknown name, a
 * value of another type. Texts are the parameters' own and live as long.
 */
int params_report(const bt_value *params, struct report_output *output,
		  struct report_select *select, char **reterr_text);
/* `path` only. */
int params_path(const bt_value *params, const char **ret_path, char **reterr_text);

#endif
