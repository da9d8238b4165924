// SPDX-License-Identifier: MIT
/*
 * Lint, configuration (config.h): a YAML document by libyaml, walked with the places of its nodes. Called by command.c before a program is
 * started. The first fault ends the reading; its line names the file, the line and the column, counted from 1.
 */
#include "lint/config.h"

#include <errno.h>
#include <stdio.h>
#include <yaml.h>

#include "memory.h"

#define LARGEST (1 << 20) /* bytes of a configuration */

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
static bool fail(struct reader *reader, const yaml_node_t *node, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static bool fail(struct reader *reader, const yaml_node_t *node, const char *format, ...)
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

/* NULL: it is no scalar, which is told, or holds a NUL. */
static const char *word(struct reader *reader, const char *key, const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	if (node->type != YAML_SCALAR_NODE || strlen(text) != node->data.scalar.length) {
		(void)fail(reader, node, "%s needs one word or text", key);
		return NULL;
	}
	return text;
}

static bool read_mapping(struct reader *reader, const char *what, const yaml_node_t *node,
			 read_key *read, void *target)
{
	if (node->type != YAML_MAPPING_NODE)
		return fail(reader, node, "%s needs keys and values", what);
	for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key_node = yaml_document_get_node(&reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(&reader->document, pair->value);
		const char *key = word(reader, "a key", key_node);

		if (!key)
			return false;
		for (yaml_node_pair_t *other = node->data.mapping.pairs.start; other < pair;
		     other++) {
			const yaml_node_t *before =
				yaml_document_get_node(&reader->document, other->key);

			if (!strcmp((const char *)before->data.scalar.value, key))
				return fail(reader, key_node, "%s is given twice", key);
		}
		if (!read(reader, target, key, key_node, value))
			return false;
	}
	return true;
}

static bool unknown_key(struct reader *reader, const yaml_node_t *node, const char *key,
			const char *known)
{
	return fail(reader, node, "unknown key %s (known: %s)", key, known);
}

static bool read_count(struct reader *reader, const char *key, const yaml_node_t *value,
		       uint64_t *ret_count)
{
	const char *text = word(reader, key, value);

	if (!text)
		return false;
	return lint_parse_count(text, ret_count) ||
	       fail(reader, value, "%s needs a number from 0 to 4294967295, not '%s'", key, text);
}

static bool read_time(struct reader *reader, const char *key, const yaml_node_t *value,
		      uint64_t *ret_ns)
{
	const char *text = word(reader, key, value);

	if (!text)
		return false;
	return lint_parse_time(text, ret_ns) ||
	       fail(reader, value,
		    "%s needs a time with ns, us, ms or s, up to an hour, as 1.5ms, not '%s'", key,
		    text);
}

static bool read_text(struct reader *reader, const char *key, const yaml_node_t *value,
		      char **ret_text)
{
	const char *text = word(reader, key, value);

	if (!text)
		return false;
	if (!*text)
		return fail(reader, value, "%s is empty", key);
	*ret_text = memory_copy(text);
	return true;
}

/* ---- thresholds ---- */

static bool read_threshold_key(struct reader *reader, void *target, const char *key,
			       const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_threshold *threshold = target;

	if (!strcmp(key, "blocked")) {
		threshold->has_blocked = true;
		return read_time(reader, key, value, &threshold->blocked_ns);
	}
	if (!strcmp(key, "count")) {
		threshold->has_count = true;
		return read_count(reader, key, value, &threshold->count);
	}
	return unknown_key(reader, key_node, key, "blocked, count");
}

/* ---- rules ---- */

static bool read_level(struct reader *reader, const yaml_node_t *value,
		       struct lint_setting *setting)
{
	const char *text = word(reader, "level", value);

	if (!text)
		return false;
	setting->has_level = true;
	return lint_level_parse(text, &setting->level) ||
	       fail(reader, value, "unknown level '%s' (known: error, warning, note, off)", text);
}

static bool read_setting_key(struct reader *reader, void *target, const char *key,
			     const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_setting *setting = target;

	if (!strcmp(key, "level"))
		return read_level(reader, value, setting);
	if (!strcmp(key, "blocked") || !strcmp(key, "count"))
		return read_threshold_key(reader, &setting->threshold, key, key_node, value);
	return unknown_key(reader, key_node, key, "level, blocked, count");
}

static bool check_rule(struct reader *reader, const yaml_node_t *node, const char *name)
{
	bool found = false;

	for (size_t i = 0; i < lint_rule_count; i++) {
		if (!lint_rule_is_named(&lint_rules[i], name))
			continue;
		found = true;
		if (lint_rules[i].needs)
			return fail(reader, node, "rule %s is not checked in this version: it %s",
				    name, lint_rules[i].needs);
	}
	return found ||
	       fail(reader, node, "unknown rule %s (slipstream lint --rules lists them)", name);
}

/* A name of several rules sets those that are not set by their own. */
static void apply(struct lint_config *config, const char *name, const struct lint_setting *setting)
{
	for (size_t i = 0; i < lint_rule_count; i++) {
		struct lint_setting *mine = &config->settings[i];
		bool is_own = !strcmp(lint_rules[i].id, name) || !strcmp(lint_rules[i].slug, name);

		if (!lint_rule_is_named(&lint_rules[i], name))
			continue;
		if (setting->has_level && (is_own || !mine->has_level)) {
			mine->has_level = true;
			mine->level = setting->level;
		}
		if (setting->threshold.has_blocked && (is_own || !mine->threshold.has_blocked)) {
			mine->threshold.has_blocked = true;
			mine->threshold.blocked_ns = setting->threshold.blocked_ns;
		}
		if (setting->threshold.has_count && (is_own || !mine->threshold.has_count)) {
			mine->threshold.has_count = true;
			mine->threshold.count = setting->threshold.count;
		}
	}
}

static bool read_rule(struct reader *reader, void *target, const char *key,
		      const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_setting setting = {0};
	bool good;

	(void)target;
	if (!check_rule(reader, key_node, key))
		return false;
	good = value->type == YAML_SCALAR_NODE
		       ? read_level(reader, value, &setting)
		       : read_mapping(reader, key, value, read_setting_key, &setting);
	if (good)
		apply(reader->config, key, &setting);
	return good;
}

/* ---- allow ---- */

static bool read_until(struct reader *reader, const yaml_node_t *value)
{
	const char *text = word(reader, "until", value);
	int64_t day;

	if (!text)
		return false;
	if (!lint_parse_date(text, &day))
		return fail(reader, value, "until needs a day as 2026-12-31, not '%s'", text);
	return day >= reader->today ||
	       fail(reader, value,
		    "this allowance expired on %s: remove the wait, or say why it may stay longer",
		    text);
}

static bool read_allow_key(struct reader *reader, void *target, const char *key,
			   const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_allow *allow = target;

	if (!strcmp(key, "rule"))
		return read_text(reader, key, value, &allow->rule) &&
		       check_rule(reader, value, allow->rule);
	if (!strcmp(key, "function"))
		return read_text(reader, key, value, &allow->function);
	if (!strcmp(key, "file"))
		return read_text(reader, key, value, &allow->file);
	if (!strcmp(key, "region"))
		return read_text(reader, key, value, &allow->region);
	if (!strcmp(key, "reason"))
		return read_text(reader, key, value, &allow->reason);
	if (!strcmp(key, "until"))
		return read_until(reader, value);
	return unknown_key(reader, key_node, key, "rule, function, file, region, reason, until");
}

static bool read_allow(struct reader *reader, const yaml_node_t *node)
{
	struct lint_config *config = reader->config;
	struct lint_allow *allow;

	config->allow = memory_check(
		reallocarray(config->allow, config->allow_count + 1, sizeof(*config->allow)));
	allow = &config->allow[config->allow_count++];
	*allow = (struct lint_allow){.line = (unsigned int)node->start_mark.line + 1};
	if (!read_mapping(reader, "an allowance", node, read_allow_key, allow))
		return false;
	if (!allow->reason)
		return fail(reader, node, "an allowance needs a reason");
	return allow->function || allow->file || allow->region ||
	       fail(reader, node,
		    "an allowance needs a function, file or region (a level turns a rule off)");
}

/* ---- budgets ---- */

static bool read_per(struct reader *reader, const yaml_node_t *value)
{
	const char *text = word(reader, "per", value);

	if (!text)
		return false;
	if (!strcmp(text, "entry"))
		return fail(reader, value,
			    "per: entry is not checked in this version (nothing counts how often a "
			    "region is entered); per: run is");
	return !strcmp(text, "run") || fail(reader, value, "per needs run, not '%s'", text);
}

static bool read_budget_key(struct reader *reader, void *target, const char *key,
			    const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_budget *budget = target;

	if (!strcmp(key, "region"))
		return read_text(reader, key, value, &budget->region);
	if (!strcmp(key, "implicit")) {
		budget->has_implicit = true;
		return read_count(reader, key, value, &budget->implicit);
	}
	if (!strcmp(key, "explicit")) {
		budget->has_explicit = true;
		return read_count(reader, key, value, &budget->explicit);
	}
	if (!strcmp(key, "blocked")) {
		budget->has_blocked = true;
		return read_time(reader, key, value, &budget->blocked_ns);
	}
	if (!strcmp(key, "per"))
		return read_per(reader, value);
	return unknown_key(reader, key_node, key, "region, implicit, explicit, blocked, per");
}

static bool read_budget(struct reader *reader, const yaml_node_t *node)
{
	struct lint_config *config = reader->config;
	struct lint_budget *budget;

	config->budgets = memory_check(
		reallocarray(config->budgets, config->budget_count + 1, sizeof(*config->budgets)));
	budget = &config->budgets[config->budget_count++];
	*budget = (struct lint_budget){.line = (unsigned int)node->start_mark.line + 1};
	if (!read_mapping(reader, "a budget", node, read_budget_key, budget))
		return false;
	if (!budget->region)
		return fail(reader, node, "a budget needs a region");
	return budget->has_implicit || budget->has_explicit || budget->has_blocked ||
	       fail(reader, node, "a budget needs implicit, explicit or blocked");
}

/* ---- the document ---- */

static bool read_list(struct reader *reader, const char *key, const yaml_node_t *node,
		      bool (*read)(struct reader *reader, const yaml_node_t *node))
{
	if (node->type != YAML_SEQUENCE_NODE)
		return fail(reader, node, "%s needs a list", key);
	for (yaml_node_item_t *item = node->data.sequence.items.start;
	     item < node->data.sequence.items.top; item++)
		if (!read(reader, yaml_document_get_node(&reader->document, *item)))
			return false;
	return true;
}

static bool read_top_key(struct reader *reader, void *target, const char *key,
			 const yaml_node_t *key_node, const yaml_node_t *value)
{
	bool *has_version = target;
	const char *text;

	if (!strcmp(key, "version")) {
		*has_version = true;
		text = word(reader, key, value);
		return text && (!strcmp(text, "1") ||
				fail(reader, value, "version needs 1, not '%s'", text));
	}
	if (!strcmp(key, "rules"))
		return read_mapping(reader, key, value, read_rule, NULL);
	if (!strcmp(key, "thresholds"))
		return read_mapping(reader, key, value, read_threshold_key,
				    &reader->config->threshold);
	if (!strcmp(key, "allow"))
		return read_list(reader, key, value, read_allow);
	if (!strcmp(key, "budgets"))
		return read_list(reader, key, value, read_budget);
	return unknown_key(reader, key_node, key, "version, rules, thresholds, allow, budgets");
}

static bool read_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	bool has_version = false;

	if (!root) {
		reader->error_text = memory_format("%s:1:1: it is empty", reader->path);
		return false;
	}
	return read_mapping(reader, "a configuration", root, read_top_key, &has_version) &&
	       (has_version || fail(reader, root, "version: 1 is missing"));
}

/* The bytes, with *ret_size; NULL with the error. */
static unsigned char *read_file(const char *path, size_t *ret_size, char **reterr_text)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	unsigned char *bytes;

	if (!file) {
		*reterr_text = memory_format("%s: %s", path, strerror(errno));
		return NULL;
	}
	bytes = memory_new(LARGEST + 1);
	*ret_size = fread(bytes, 1, LARGEST + 1, file);
	if (!ferror(file) && *ret_size <= LARGEST)
		return bytes;
	*reterr_text =
		memory_format("%s: %s", path, ferror(file) ? strerror(errno) : "larger than 1 MiB");
	free(bytes);
	return NULL;
}

static bool read_yaml(struct reader *reader, const unsigned char *bytes, size_t size)
{
	yaml_parser_t parser;
	bool good;

	if (!yaml_parser_initialize(&parser))
		memory_check(NULL);
	yaml_parser_set_input_string(&parser, bytes, size);
	if (!yaml_parser_load(&parser, &reader->document)) {
		reader->error_text =
			memory_format("%s:%zu:%zu: no YAML: %s", reader->path,
				      parser.problem_mark.line + 1, parser.problem_mark.column + 1,
				      parser.problem ? parser.problem : "cannot be parsed");
		yaml_parser_delete(&parser);
		return false;
	}
	good = read_document(reader);
	yaml_document_delete(&reader->document);
	yaml_parser_delete(&parser);
	return good;
}

int lint_config_read(const char *path, int64_t today, struct lint_config **ret_config,
		     char **reterr_text)
{
	struct reader reader = {.path = path, .today = today};
	_cleanup_free_ unsigned char *bytes = NULL;
	size_t size;

	reader.config = memory_new(sizeof(*reader.config));
	reader.config->settings = memory_new(lint_rule_count * sizeof(*reader.config->settings));
	if (path) {
		bytes = read_file(path, &size, reterr_text);
		if (!bytes || !read_yaml(&reader, bytes, size)) {
			if (bytes)
				*reterr_text = reader.error_text;
			lint_config_free(reader.config);
			return -EINVAL;
		}
	}
	*ret_config = reader.config;
	return 0;
}

void lint_config_free(struct lint_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->allow_count; i++) {
		free(config->allow[i].rule);
		free(config->allow[i].function);
		free(config->allow[i].file);
		free(config->allow[i].region);
		free(config->allow[i].reason);
	}
	for (size_t i = 0; i < config->budget_count; i++)
		free(config->budgets[i].region);
	free(config->allow);
	free(config->budgets);
	free(config->settings);
	free(config);
}

enum lint_level lint_config_level(const struct lint_config *config, const struct lint_rule *rule,
				  enum lint_level standard)
{
	const struct lint_setting *setting = &config->settings[rule - lint_rules];

	return setting->has_level ? setting->level : standard;
}

struct lint_threshold lint_config_threshold(const struct lint_config *config,
					    const struct lint_rule *rule)
{
	struct lint_threshold threshold = config->settings[rule - lint_rules].threshold;

	if (!threshold.has_blocked)
		threshold.blocked_ns = config->threshold.blocked_ns;
	if (!threshold.has_count)
		threshold.count = config->threshold.count;
	return threshold;
}
