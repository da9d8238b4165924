// SPDX-License-Identifier: MIT
/*
 * Fault injection: SIMCUDA_FAIL="function:n:status[,...]" makes the n-th call of an exported
 * function return that status without doing anything; n may be `*` (every call) or `n+` (from the
 * n-th on).
 *
 * Owns: the rules. Called by: sim_configure() once, sim_enter() at every call.
 */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static struct rule {
	struct sim_export *export;
	unsigned long call; /* 0: every call */
	bool onwards;
	CUresult status;
} rules[32];
static unsigned rule_count;

static bool parse_one(char *text)
{
	struct rule *rule = &rules[rule_count];
	char *number = strchr(text, ':'), *status, *rest;

	if (!number || rule_count == sizeof(rules) / sizeof(rules[0]))
		return false;
	*number++ = 0;
	status = strchr(number, ':');
	if (!status)
		return false;
	*status++ = 0;
	rule->export = NULL;
	for (unsigned i = 0; i < sim_export_count; i++)
		if (!strcmp(sim_exports[i].name, text))
			rule->export = &sim_exports[i];
	if (!rule->export)
		return false;
	if (!strcmp(number, "*")) {
		rule->call = 0;
	} else {
		rule->call = strtoul(number, &rest, 10);
		rule->onwards = *rest == '+';
		if (rest[rule->onwards] || !rule->call)
			return false;
	}
	rule->status = strtoul(status, &rest, 10);
	if (*rest || rest == status)
		return false;
	rule_count++;
	return true;
}

void sim_fault_parse(const char *text)
{
	char *copy = strdup(text), *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		char *kept = strdup(one);

		if (!parse_one(one))
			sim_complain("SIMCUDA_FAIL wants FUNCTION:CALL:STATUS, got", kept);
		free(kept);
	}
	free(copy);
}

CUresult sim_fault_hit(struct sim_export *export)
{
	if (!rule_count)
		return CUDA_SUCCESS;
	export->calls++;
	for (unsigned i = 0; i < rule_count; i++) {
		struct rule *rule = &rules[i];

		if (rule->export != export)
			continue;
		if (!rule->call || rule->call == export->calls ||
		    (rule->onwards && export->calls > rule->call))
			return rule->status;
	}
	return CUDA_SUCCESS;
}
