// SPDX-License-Identifier: MIT
/* What-if in report and page (whatif_extra.h). Called by slipstream-analyze. */
#include "tracing/analysis/whatif_extra.h"

#include "memory.h"
#include "tracing/analysis/page.h"
#include "tracing/analysis/timeline_sites.h"
#include "tracing/analysis/whatif.h"

struct whatif_extra {
	struct whatif *whatif; /* the sink's */
	const struct sink *sink;
	struct sites *sites;
	struct page_saving *savings;
};

struct whatif_extra *whatif_extra_new(struct sink *sink)
{
	struct whatif_extra *extra = memory_new(sizeof(*extra));

	extra->whatif = memory_check(whatif_new(NULL));
	extra->sink = sink;
	extra->sites = sites_new();
	sink_add(sink, (struct consumer){.ops = &whatif_ops, .state = extra->whatif});
	return extra;
}

struct whatif_extra *whatif_extra_free(struct whatif_extra *extra)
{
	if (!extra)
		return NULL;
	sites_free(extra->sites);
	free(extra->savings);
	free(extra);
	return NULL;
}

static char *site_name(void *context, uint32_t process, uint32_t id)
{
	struct whatif_extra *extra = context;
	const struct model *model = sink_model(extra->sink);
	struct site *site = sites_find(extra->sites, model, process, id);

	if (!site)
		return memory_copy("unknown site");
	sites_symbolize(extra->sites, model, site, true);
	return memory_copy(site->label);
}

static void add_text(void *context, FILE *out, size_t limit)
{
	struct whatif_extra *extra = context;
	const struct whatif_result *result = whatif_result(extra->whatif);

	if (result)
		whatif_text(out, result, limit, site_name, extra);
}

static json_t *make_json(void *context)
{
	struct whatif_extra *extra = context;
	const struct whatif_result *result = whatif_result(extra->whatif);

	return result ? whatif_json(result, site_name, extra) : json_null();
}

struct report_extra whatif_extra_report(struct whatif_extra *extra)
{
	return (struct report_extra){
		.key = "what_if", .text = add_text, .json = make_json, .context = extra};
}

/* Those that were replayed, to the end of the array. */
static size_t add_savings(struct page_saving *savings, size_t count, const struct whatif_row *rows,
			  size_t row_count)
{
	for (size_t i = 0; i < row_count; i++)
		if (rows[i].replayed)
			savings[count++] = (struct page_saving){
				.process = rows[i].process,
				.rule = rows[i].rule,
				.site = rows[i].site,
				.low_ns = rows[i].low_ns,
				.high_ns = rows[i].high_ns,
				.middle_ns = rows[i].middle_ns,
			};
	return count;
}

static const struct page_saving *find_savings(void *context, size_t *ret_count)
{
	struct whatif_extra *extra = context;
	const struct whatif_result *result = whatif_result(extra->whatif);

	*ret_count = 0;
	if (!result)
		return NULL;
	free(extra->savings);
	extra->savings =
		memory_new((result->row_count + result->rule_count) * sizeof(extra->savings[0]));
	*ret_count = add_savings(extra->savings, 0, result->rows, result->row_count);
	*ret_count = add_savings(extra->savings, *ret_count, result->rules, result->rule_count);
	return extra->savings;
}

void whatif_extra_page(struct whatif_extra *extra, struct consumer *page)
{
	page_set_savings(page, find_savings, extra);
}
