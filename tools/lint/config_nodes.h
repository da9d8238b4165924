// SPDX-License-Identifier: MIT
/*
 * Lint, configuration, internal: the document while it is read, with the places of its nodes. Shared by config.c, which reads it, config_nodes.c,
 * which reads single nodes, and config_regions.c. The first fault ends the reading; its line names the file, the line and the column, from 1.
 */
#ifndef SLIPSTREAM_LINT_CONFIG_NODES_H
#define SLIPSTREAM_LINT_CONFIG_NODES_H

#include <yaml.h>

#include "lint/config.h"

struct reader {
	const char *path;
	yaml_document_t document;
	int64_t today;
	struct lint_config *config;
	char *error_text; /* of the first fault */
};

typedef bool read_key(struct reader *reader, void *target, const char *key,
		      const yaml_node_t *key_node, const yaml_node_t *value);

/* Always false, for the caller to return. */
bool config_fail(struct reader *reader, const yaml_node_t *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool config_unknown_key(struct reader *reader, const yaml_node_t *node, const char *key,
			const char *known);

/* NULL: it is no scalar, which is told, or holds a NUL. */
const char *config_word(struct reader *reader, const char *key, const yaml_node_t *node);
/* Each key once. */
bool config_mapping(struct reader *reader, const char *what, const yaml_node_t *node,
		    read_key *read, void *target);
bool config_list(struct reader *reader, const char *key, const yaml_node_t *node,
		 bool (*read)(struct reader *reader, const yaml_node_t *node));
bool config_count(struct reader *reader, const char *key, const yaml_node_t *value,
		  uint64_t *ret_count);
bool config_time(struct reader *reader, const char *key, const yaml_node_t *value,
		 uint64_t *ret_ns);
bool config_flag(struct reader *reader, const char *key, const yaml_node_t *value, bool *ret_flag);
/* Nothing, ~ or null, not in quotes. */
bool config_is_null(const yaml_node_t *node);
/* Not empty; the caller frees. */
bool config_text(struct reader *reader, const char *key, const yaml_node_t *value, char **ret_text);

/* ---- config_regions.c ---- */

/* The value of the key `regions`. */
bool config_regions(struct reader *reader, const yaml_node_t *value);

#endif
