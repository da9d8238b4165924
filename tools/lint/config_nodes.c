// SPDX-License-Identifier: MIT
/* Lint, nodes of a configuration (config_nodes.h). Called by config.c and config_regions.c. */
#include "lint/config_nodes.h"

#include <stdarg.h>
#include <string.h>

#include "memory.h"

bool config_fail(struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	if (reader->error_text)
		return false;
	va_start(arguments, format);
	text = memory_vformat(format, arguments);
	va_end(arguments);
	reader->error_text =
		memory_format("%s:%zu:%zu: %s", reader->path, node->start_mark.line + 1,
			      node->start_mark.column + 1, text);
	return false;
}

const char *config_word(struct reader *reader, const char *key, const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	if (node->type != YAML_SCALAR_NODE || strlen(text) != node->data.scalar.length) {
		(void)config_fail(reader, node, "%s needs one word or text", key);
		return NULL;
	}
	return text;
}

bool config_mapping(struct reader *reader, const char *what, const yaml_node_t *node,
		    read_key *read, void *target)
{
	if (node->type != YAML_MAPPING_NODE)
		return config_fail(reader, node, "%s needs keys and values", what);
	for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key_node = yaml_document_get_node(&reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
		const char *key = config_word(reader, "a key", key_node);

		if (!key)
			return false;
		for (yaml_node_pair_t *other = node->data.mapping.pairs.start; other < pair;
		     other++) {
			const yaml_node_t *before =
				yaml_document_get_node(&reader->document, other->key);

			if (!strcmp((const char *)before->data.scalar.value, key))
				return config_fail(reader, key_node, "%s is given twice", key);
		}
		if (!read(reader, target, key, key_node, value))
			return false;
	}
	return true;
}

bool config_unknown_key(struct reader *reader, const yaml_node_t *node, const char *key,
			const char *known)
{
	return config_fail(reader, node, "unknown key %s (known: %s)", key, known);
}

bool config_count(struct reader *reader, const char *key, const yaml_node_t *value,
		  uint64_t *ret_count)
{
	const char *text = config_word(reader, key, value);

	if (!text)
		return false;
	return lint_parse_count(text, ret_count) ||
	       config_fail(reader, value, "%s needs a number from 0 to 4294967295, not '%s'", key,
			   text);
}

bool config_time(struct reader *reader, const char *key, const yaml_node_t *value, uint64_t *ret_ns)
{
	const char *text = config_word(reader, key, value);

	if (!text)
		return false;
	return lint_parse_time(text, ret_ns) ||
	       config_fail(
		       reader, value,
		       "%s needs a time with ns, us, ms or s, up to an hour, as 1.5ms, not '%s'",
		       key, text);
}

bool config_is_null(const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	return node->type == YAML_SCALAR_NODE &&
	       node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*text || !strcmp(text, "~") || !strcasecmp(text, "null"));
}

bool config_text(struct reader *reader, const char *key, const yaml_node_t *value, char **ret_text)
{
	const char *text = config_word(reader, key, value);

	if (!text)
		return false;
	if (!*text || config_is_null(value))
		return config_fail(reader, value, "%s is empty", key);
	*ret_text = memory_copy(text);
	return true;
}

bool config_list(struct reader *reader, const char *key, const yaml_node_t *node,
		 bool (*read)(struct reader *reader, const yaml_node_t *node))
{
	if (node->type != YAML_SEQUENCE_NODE)
		return config_fail(reader, node, "%s needs a list", key);
	for (yaml_node_item_t *item = node->data.sequence.items.start;
	     item < node->data.sequence.items.top; item++)
		if (!read(reader, yaml_document_get_node(&reader->document, *item)))
			return false;
	return true;
}

bool config_flag(struct reader *reader, const char *key, const yaml_node_t *value, bool *ret_flag)
{
	const char *text = config_word(reader, key, value);

	if (!text)
		return false;
	*ret_flag = !strcmp(text, "true");
	return *ret_flag || !strcmp(text, "false") ||
	       config_fail(reader, value, "%s needs true or false, not '%s'", key, text);
}
