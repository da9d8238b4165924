// SPDX-License-Identifier: MIT
/*
 * Shift: intervals of how much sooner a point of the run comes (whatif_graph.h), and the one step of
 * arithmetic that the replay consists of.
 *
 * The step. Inputs came at x1 ... xn, each only known to lie in an interval; they come sooner by d1 ... dn,
 * intervals again. Wanted: bounds of max(x) - max(x - d), over all that may be.
 *
 *	lowest:  min over j of dj.low + max(0, L - xj.high), L = the least that max(x) can be
 *		 (max(x - d) is some xj - dj; then max(x) is at least L and at least xj)
 *	highest: max over i of min(di.high, xi.high + P), P = min over j of dj.high - xj.low, for all i
 *		 that can be the latest (then max(x) is xi, and max(x - d) is at least every xj - dj)
 *
 * Both are reached when inputs are independent of each other; where they are not, the interval is wider than
 * need be, never too narrow.
 */
#include "memory.h"
#include "tracing/analysis/whatif_graph.h"

struct shift *shift_new(struct graph *graph)
{
	struct shift *shift = memory_new(sizeof(*shift) + graph->lanes * sizeof(shift->lane[0]));

	shift->references = 1;
	shift->next = graph->shifts;
	shift->link = &graph->shifts;
	if (shift->next)
		shift->next->link = &shift->next;
	graph->shifts = shift;
	return shift;
}

struct shift *shift_ref(struct shift *shift)
{
	shift->references++;
	return shift;
}

struct shift *shift_unref(struct shift *shift)
{
	if (shift && --shift->references == 0) {
		*shift->link = shift->next;
		if (shift->next)
			shift->next->link = shift->link;
		free(shift);
	}
	return NULL;
}

struct input *inputs_add(struct inputs *inputs, struct span when, const struct shift *even,
			 const struct shift *odd)
{
	struct input *input;

	inputs->item =
		memory_grow(inputs->item, inputs->count, &inputs->capacity, sizeof(*inputs->item));
	input = &inputs->item[inputs->count++];
	*input = (struct input){
		.when = when, .even = even, .odd = odd, .gone = {-1, -1}, .reach_ns = WHATIF_FAR};
	return input;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Nobody moves, or all do alike: then so does the latest. */
static const struct shift *common(const struct inputs *inputs)
{
	const struct shift *shift = inputs->item[0].even;

	for (size_t i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->item[i];

		if (input->even != shift || input->odd != shift || input->loose ||
		    input->gone[0] >= 0 || input->gone[1] >= 0)
			return NULL;
	}
	return shift;
}

/* Draws the intervals in by what is known of the latest; the least that it can be. */
static int64_t narrow(const struct inputs *inputs, struct span at)
{
	struct input *only = NULL;
	int64_t least_latest = 0;
	size_t possible = 0;

	for (size_t i = 0; i < inputs->count; i++) {
		struct input *input = &inputs->item[i];

		input->when.high = least(input->when.high, at.high);
		input->when.low = least(input->when.low, input->when.high);
		least_latest = most(least_latest, input->when.low);
		if (input->when.high >= at.low) {
			possible++;
			only = input;
		}
	}
	if (possible)
		least_latest = most(least_latest, at.low);
	if (possible == 1)
		only->when.low = most(only->when.low, at.low);
	return least_latest;
}

static struct span moved(const struct input *input, unsigned int lane)
{
	int slot = (int)(lane / 2);
	struct span by;

	if (input->gone[0] == slot || input->gone[1] == slot)
		return (struct span){WHATIF_FAR, WHATIF_FAR};
	by = (lane & 1 ? input->odd : input->even)->lane[lane];
	if (input->loose)
		by.high = WHATIF_FAR;
	return by;
}

static struct span latest(const struct inputs *inputs, unsigned int lane, int64_t least_latest)
{
	struct span first = moved(&inputs->item[0], lane);
	struct span result = {WHATIF_FAR, -WHATIF_FAR};
	int64_t bound = WHATIF_FAR;
	size_t i;

	for (i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->item[i];
		struct span by = moved(input, lane);
		int64_t low;

		low = by.low + most(0, least_latest - input->when.high);
		if (by.low < first.high)
			low -= input->late_ns;
		result.low = least(result.low, low);
		bound = least(bound, by.high - (by.high - first.low >= input->reach_ns
							? least(input->plain_ns, input->when.low)
							: input->when.low));
	}
	for (i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->item[i];

		if (input->when.high >= least_latest)
			result.high = most(result.high, least(moved(input, lane).high,
							      input->when.high + bound));
	}
	result.high = most(result.high, result.low);
	return result;
}

/* One of the inputs' own vectors where it says the same: most differences are those of many points. */
static struct shift *share(const struct graph *graph, const struct inputs *inputs,
			   struct shift *shift)
{
	size_t size = graph->lanes * sizeof(shift->lane[0]);

	for (size_t i = 0; i < inputs->count; i++) {
		const struct shift *even = inputs->item[i].even;

		if (even == inputs->item[i].odd && memcmp(even->lane, shift->lane, size) == 0) {
			shift_unref(shift);
			return shift_ref((struct shift *)even);
		}
	}
	return shift;
}

struct shift *inputs_latest(struct graph *graph, const struct inputs *inputs, struct span at)
{
	const struct shift *same = common(inputs);
	int64_t least_latest = narrow(inputs, at);
	struct shift *shift;

	if (same)
		return shift_ref((struct shift *)same);
	shift = shift_new(graph);
	for (unsigned int lane = 0; lane < graph->lanes; lane++)
		if (graph->slot[lane / 2].sum)
			shift->lane[lane] = latest(inputs, lane, least_latest);
	return share(graph, inputs, shift);
}
