// SPDX-License-Identifier: MIT
/*
 * The calibration table as JSON (table.h). Called by calibrate.c; relies on jansson.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "table.h"

void table_print_json(const struct table *table)
{
	json_t *root = json_object(), *cells_, *gates, *idle, *facts, *stage;

	json_object_set_new(root, "format", json_integer(1));
	json_object_set_new(root, "idle", idle = json_array());
	json_object_set_new(root, "cells", cells_ = json_array());
	json_object_set_new(root, "gates", gates = json_array());
	json_object_set_new(root, "facts", facts = json_object());
	json_object_set_new(root, "stage", stage = json_array());
	for (size_t i = 0; i < table->count; i++) {
		const char *line = table->line[i];
		char a[128], b[128], c[64], d[64], e[64];
		long long figure;

		if (sscanf(line, "driver %lld", &figure) == 1)
			json_object_set_new(root, "driver", json_integer(figure));
		else if (!strncmp(line, "gpu ", 4))
			json_object_set_new(root, "gpu", json_string(line + 4));
		else if (!strncmp(line, "set ", 4))
			json_object_set_new(root, "set", json_string(line + 4));
		else if (sscanf(line, "idle %127s %127s %63s %63s %lld", a, b, c, d, &figure) == 5)
			json_array_append_new(idle,
					      json_pack("{sssssssisI}", "function", a, "source", b,
							"destination", c, "size_class", atoi(d),
							"ns", (json_int_t)figure));
		else if (sscanf(line, "cell %127s %127s %63s %lld", a, b, c, &figure) == 4)
			json_array_append_new(cells_,
					      json_pack("{sssssssI}", "cell", a, "stream", b,
							"result", c, "us", (json_int_t)figure));
		else if (sscanf(line, "gate %127s %127s %63s %63s %63s", a, b, c, d, e) == 5)
			json_array_append_new(gates, json_pack("{ssssssssss}", "cell", a, "stream",
							       b, "result", c, "joins_blocking", d,
							       "joins_non_blocking", e));
		else if (sscanf(line, "fact %127s %127s", a, b) == 2)
			json_object_set_new(facts, a, json_string(b));
		else if (sscanf(line, "stage %127s %127s %63s %63s", a, b, c, d) == 4)
			json_array_append_new(stage,
					      json_pack("{ssssssso}", "direction", a, "form", b,
							"state", c, "from",
							strcmp(d, "never") ? json_integer(atoll(d))
									   : json_null()));
	}
	(void)json_dumpf(root, stdout, JSON_INDENT(2)); /* the caller asks whether it went out */
	putchar('\n');
	json_decref(root);
}
