// SPDX-License-Identifier: MIT
/*
 * Lint, regions of a configuration (config_nodes.h): which NVTX ranges are regions, and what begins a step. They become settings of the preloaded
 * library, so a word that these could not hold is refused here. Called by config.c.
 */
#include <ctype.h>
#include <string.h>

#include "lint/config_nodes.h"
#include "memory.h"
#include "step_mark.h"

#define ALL "*@*"

static bool check_pattern(struct reader *reader, const char *key, const yaml_node_t *node,
			  const char *text)
{
	if (!*text || config_is_null(node))
		return config_fail(reader, node, "%s is empty", key);
	return !strchr(text, ',') ||
	       config_fail(reader, node, "%s cannot have a comma: '%s'", key, text);
}

/* Without quotes YAML has more words for true and false: it is not clear that a name is meant. */
static bool is_flag(const yaml_node_t *node)
{
	static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "y", "n"};
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		found |= !strcasecmp(words[i], (const char *)node->data.scalar.value);
	return found && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* NAME@DOMAIN, or several of it. */
static bool add_range(struct reader *reader, const yaml_node_t *node)
{
	struct lint_config *config = reader->config;
	const char *text = config_word(reader, "nvtx", node);
	char *before = config->nvtx;

	if (!text || !check_pattern(reader, "nvtx", node, text))
		return false;
	if (is_flag(node))
		return config_fail(
			reader, node,
			"nvtx needs true, false, NAME@DOMAIN, or a list of names, not %s "
			"(a name that reads so goes in quotes)",
			text);
	config->nvtx = memory_format("%s%s%s", before ? before : "", before ? "," : "", text);
	free(before);
	return true;
}

static bool read_nvtx(struct reader *reader, const yaml_node_t *value)
{
	const char *text;

	if (value->type == YAML_SEQUENCE_NODE)
		return config_list(reader, "nvtx", value, add_range);
	if (value->type != YAML_SCALAR_NODE)
		return config_fail(reader, value,
				   "nvtx needs true, false, NAME@DOMAIN, or a list of these");
	text = config_word(reader, "nvtx", value);
	if (!text)
		return false;
	if (is_flag(value) && !strcmp(text, "false"))
		return true;
	if (!is_flag(value) || strcmp(text, "true") != 0)
		return add_range(reader, value);
	reader->config->nvtx = memory_copy(ALL);
	return true;
}

/* Of the driver only: nothing can follow a function of the program from outside without changing its code. */
static bool read_function(struct reader *reader, const yaml_node_t *value)
{
	const char *text = config_word(reader, "function", value);

	if (!text)
		return false;
	if (!strncmp(text, "cuda", 4))
		return config_fail(reader, value,
				   "%s is of the CUDA runtime: name the driver's function that it "
				   "calls (cu%s)",
				   text, text + 4);
	if (strncmp(text, "cu", 2) != 0 || !isupper((unsigned char)text[2]) ||
	    strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") !=
		    strlen(text))
		return config_fail(
			reader, value,
			"function needs a driver function (cu...), not '%s': in a function of the "
			"program call slipstream_step(), or set an NVTX mark",
			text);
	reader->config->step = memory_copy(text);
	return true;
}

static bool read_step_key(struct reader *reader, void *target, const char *key,
			  const yaml_node_t *key_node, const yaml_node_t *value)
{
	const char *text;

	(void)target;
	if (reader->config->step)
		return config_fail(reader, key_node, "a step has one marker: function or mark");
	if (!strcmp(key, "function"))
		return read_function(reader, value);
	if (strcmp(key, "mark") != 0)
		return config_unknown_key(reader, key_node, key, "function, mark");
	text = config_word(reader, key, value);
	if (!text || !check_pattern(reader, key, value, text))
		return false;
	reader->config->step = memory_format(STEP_OF_NVTX "%s", text);
	return true;
}

static bool read_regions_key(struct reader *reader, void *target, const char *key,
			     const yaml_node_t *key_node, const yaml_node_t *value)
{
	(void)target;
	if (!strcmp(key, "nvtx"))
		return read_nvtx(reader, value);
	if (!strcmp(key, LINT_STEP))
		return config_mapping(reader, key, value, read_step_key, NULL) &&
		       (reader->config->step ||
			config_fail(reader, value, "step needs function or mark"));
	return config_unknown_key(reader, key_node, key, "nvtx, step");
}

bool config_regions(struct reader *reader, const yaml_node_t *value)
{
	return config_mapping(reader, "regions", value, read_regions_key, NULL);
}
