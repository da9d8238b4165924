// SPDX-License-Identifier: MIT
/*
 * Lint, configuration (config.h): a YAML document by libyaml, walked with the places of its nodes. Called by command.c before a program is
 * started. The first fault ends the reading; its line names the file, the line and the column, counted from 1.
 */
#include "lint/config.h"

#include <errno.h>
#include <stdio.h>

#include "lint/config_nodes.h"
#include "memory.h"

#define LARGEST (1 << 20) /* bytes of a configuration */

static bool read_per(struct reader *reader, const yaml_node_t *value, enum lint_per *ret_per)
{
	static const char *const words[] = {
		[LINT_PER_RUN] = "run", [LINT_PER_ENTRY] = "entry", [LINT_PER_STEP] = "step"};
	const char *text = config_word(reader, "per", value);

	for (size_t i = 0; text && i < ARRAY_SIZE(words); i++)
		if (!strcmp(words[i], text)) {
			*ret_per = (enum lint_per)i;
			return true;
		}
	return text && config_fail(reader, value, "per needs run, entry or step, not '%s'", text);
}

/* ---- thresholds ---- */

static bool read_threshold_key(struct reader *reader, void *target, const char *key,
			       const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_threshold *threshold = target;

	if (!strcmp(key, "blocked")) {
		threshold->has_blocked = true;
		return config_time(reader, key, value, &threshold->blocked_ns);
	}
	if (!strcmp(key, "count")) {
		threshold->has_count = true;
		return config_count(reader, key, value, &threshold->count);
	}
	if (!strcmp(key, "per")) {
		threshold->has_per = true;
		return read_per(reader, value, &threshold->per);
	}
	return config_unknown_key(reader, key_node, key, "blocked, count, per");
}

/* ---- rules ---- */

static bool read_level(struct reader *reader, const yaml_node_t *value,
		       struct lint_setting *setting)
{
	const char *text = config_word(reader, "level", value);

	if (!text)
		return false;
	setting->has_level = true;
	return lint_level_parse(text, &setting->level) ||
	       config_fail(reader, value, "unknown level '%s' (known: error, warning, note, off)",
			   text);
}

static bool read_setting_key(struct reader *reader, void *target, const char *key,
			     const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_setting *setting = target;

	if (!strcmp(key, "level"))
		return read_level(reader, value, setting);
	if (!strcmp(key, "blocked") || !strcmp(key, "count") || !strcmp(key, "per"))
		return read_threshold_key(reader, &setting->threshold, key, key_node, value);
	return config_unknown_key(reader, key_node, key, "level, blocked, count, per");
}

static bool check_rule(struct reader *reader, const yaml_node_t *node, const char *name)
{
	bool found = false;

	for (size_t i = 0; i < lint_rule_count; i++) {
		if (!lint_rule_is_named(&lint_rules[i], name))
			continue;
		found = true;
		if (lint_rules[i].needs)
			return config_fail(reader, node,
					   "rule %s is not checked in this version: it %s", name,
					   lint_rules[i].needs);
	}
	return found || config_fail(reader, node,
				    "unknown rule %s (slipstream lint --rules lists them)", name);
}

/* By its id and by its name: which of them is meant? */
static bool check_once(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const struct lint_rule *rule = lint_rule_find(name);
	struct lint_setting *setting = rule ? &reader->config->settings[rule - lint_rules] : NULL;

	if (setting && setting->is_given)
		return config_fail(reader, node,
				   "rule %s is given twice, by its id %s and its name %s", name,
				   rule->id, rule->slug);
	if (setting)
		setting->is_given = true;
	return true;
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
		if (setting->threshold.has_per && (is_own || !mine->threshold.has_per)) {
			mine->threshold.has_per = true;
			mine->threshold.per = setting->threshold.per;
		}
	}
}

static bool read_rule(struct reader *reader, void *target, const char *key,
		      const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_setting setting = {0};
	bool good;

	(void)target;
	if (!check_rule(reader, key_node, key) || !check_once(reader, key_node, key))
		return false;
	good = value->type == YAML_SCALAR_NODE
		       ? read_level(reader, value, &setting)
		       : config_mapping(reader, key, value, read_setting_key, &setting);
	if (good)
		apply(reader->config, key, &setting);
	return good;
}

/* ---- allow ---- */

static bool read_until(struct reader *reader, const yaml_node_t *value)
{
	const char *text = config_word(reader, "until", value);
	int64_t day;

	if (!text)
		return false;
	if (!lint_parse_date(text, &day))
		return config_fail(reader, value, "until needs a day as 2026-12-31, not '%s'",
				   text);
	return day >= reader->today || config_fail(reader, value,
						   "this allowance expired on %s: remove the wait, "
						   "or say why it may stay longer",
						   text);
}

static bool read_allow_key(struct reader *reader, void *target, const char *key,
			   const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_allow *allow = target;

	if (!strcmp(key, "rule"))
		return config_text(reader, key, value, &allow->rule) &&
		       check_rule(reader, value, allow->rule);
	if (!strcmp(key, "function"))
		return config_text(reader, key, value, &allow->function);
	if (!strcmp(key, "file"))
		return config_text(reader, key, value, &allow->file);
	if (!strcmp(key, "region"))
		return config_text(reader, key, value, &allow->region);
	if (!strcmp(key, "reason"))
		return config_text(reader, key, value, &allow->reason);
	if (!strcmp(key, "until"))
		return read_until(reader, value);
	return config_unknown_key(reader, key_node, key,
				  "rule, function, file, region, reason, until");
}

static bool read_allow(struct reader *reader, const yaml_node_t *node)
{
	struct lint_config *config = reader->config;
	struct lint_allow *allow;

	config->allow = memory_check(
		reallocarray(config->allow, config->allow_count + 1, sizeof(*config->allow)));
	allow = &config->allow[config->allow_count++];
	*allow = (struct lint_allow){.line = (unsigned int)node->start_mark.line + 1};
	if (!config_mapping(reader, "an allowance", node, read_allow_key, allow))
		return false;
	if (!allow->reason)
		return config_fail(reader, node, "an allowance needs a reason");
	return allow->function || allow->file || allow->region ||
	       config_fail(
		       reader, node,
		       "an allowance needs a function, file or region (a level turns a rule off)");
}

/* ---- budgets ---- */

static bool read_budget_key(struct reader *reader, void *target, const char *key,
			    const yaml_node_t *key_node, const yaml_node_t *value)
{
	struct lint_budget *budget = target;

	if (!strcmp(key, "region"))
		return config_text(reader, key, value, &budget->region);
	if (!strcmp(key, "implicit")) {
		budget->has_implicit = true;
		return config_count(reader, key, value, &budget->implicit);
	}
	if (!strcmp(key, "explicit")) {
		budget->has_explicit = true;
		return config_count(reader, key, value, &budget->explicit);
	}
	if (!strcmp(key, "blocked")) {
		budget->has_blocked = true;
		return config_time(reader, key, value, &budget->blocked_ns);
	}
	if (!strcmp(key, "required"))
		return config_flag(reader, key, value, &budget->is_required);
	if (!strcmp(key, "per"))
		return read_per(reader, value, &budget->per);
	return config_unknown_key(reader, key_node, key,
				  "region, implicit, explicit, blocked, per, required");
}

static bool read_budget(struct reader *reader, const yaml_node_t *node)
{
	struct lint_config *config = reader->config;
	struct lint_budget *budget;

	config->budgets = memory_check(
		reallocarray(config->budgets, config->budget_count + 1, sizeof(*config->budgets)));
	budget = &config->budgets[config->budget_count++];
	*budget = (struct lint_budget){.line = (unsigned int)node->start_mark.line + 1};
	if (!config_mapping(reader, "a budget", node, read_budget_key, budget))
		return false;
	if (budget->per == LINT_PER_STEP && budget->region)
		return config_fail(
			reader, node,
			"per: step is of the region step: leave region out, or say per: entry");
	if (budget->per == LINT_PER_STEP)
		budget->region = memory_copy(LINT_STEP);
	if (!budget->region)
		return config_fail(reader, node, "a budget needs a region, or per: step");
	return budget->has_implicit || budget->has_explicit || budget->has_blocked ||
	       config_fail(reader, node, "a budget needs implicit, explicit or blocked");
}

/* ---- the document ---- */

static bool read_top_key(struct reader *reader, void *target, const char *key,
			 const yaml_node_t *key_node, const yaml_node_t *value)
{
	bool *has_version = target;
	const char *text;

	if (!strcmp(key, "version")) {
		*has_version = true;
		text = config_word(reader, key, value);
		return text && (!strcmp(text, "1") ||
				config_fail(reader, value, "version needs 1, not '%s'", text));
	}
	if (!strcmp(key, "rules"))
		return config_mapping(reader, key, value, read_rule, NULL);
	if (!strcmp(key, "thresholds"))
		return config_mapping(reader, key, value, read_threshold_key,
				      &reader->config->threshold);
	if (!strcmp(key, "allow"))
		return config_list(reader, key, value, read_allow);
	if (!strcmp(key, "budgets"))
		return config_list(reader, key, value, read_budget);
	if (!strcmp(key, "regions"))
		return config_regions(reader, value);
	return config_unknown_key(reader, key_node, key,
				  "version, rules, thresholds, allow, budgets, regions");
}

static bool read_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);
	bool has_version = false;

	if (!root) {
		reader->error_text = memory_format("%s:1:1: it is empty", reader->path);
		return false;
	}
	return config_mapping(reader, "a configuration", root, read_top_key, &has_version) &&
	       (has_version || config_fail(reader, root, "version: 1 is missing"));
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

/* What is no character has no mark, but an offset in bytes. */
static void fail_no_yaml(struct reader *reader, const yaml_parser_t *parser,
			 const unsigned char *bytes)
{
	yaml_mark_t place = parser->problem_mark;

	if (parser->error == YAML_READER_ERROR) {
		place = (yaml_mark_t){0};
		for (size_t i = 0; i < parser->problem_offset; i++) {
			place.column =
				bytes[i] == '\n' ? 0 : place.column + ((bytes[i] & 0xc0) != 0x80);
			place.line += bytes[i] == '\n';
		}
	}
	reader->error_text = memory_format("%s:%zu:%zu: no YAML: %s", reader->path, place.line + 1,
					   place.column + 1,
					   parser->problem ? parser->problem : "cannot be parsed");
}

/* A second document would say nothing to anybody. */
static bool read_end(struct reader *reader, yaml_parser_t *parser, const unsigned char *bytes)
{
	const yaml_node_t *root;

	if (!yaml_parser_load(parser, &reader->document)) {
		fail_no_yaml(reader, parser, bytes);
		return false;
	}
	root = yaml_document_get_root_node(&reader->document);
	if (root)
		(void)config_fail(reader, root, "a configuration is one document, this is another");
	yaml_document_delete(&reader->document);
	return !root;
}

static bool read_yaml(struct reader *reader, const unsigned char *bytes, size_t size)
{
	yaml_parser_t parser;
	bool good;

	if (!yaml_parser_initialize(&parser))
		memory_check(NULL);
	yaml_parser_set_input_string(&parser, bytes, size);
	if (!yaml_parser_load(&parser, &reader->document)) {
		fail_no_yaml(reader, &parser, bytes);
		yaml_parser_delete(&parser);
		return false;
	}
	good = read_document(reader);
	yaml_document_delete(&reader->document);
	good = good && read_end(reader, &parser, bytes);
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
	free(config->nvtx);
	free(config->step);
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
	if (!threshold.has_per)
		threshold.per = config->threshold.per;
	return threshold;
}
