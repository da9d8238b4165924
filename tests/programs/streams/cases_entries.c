// SPDX-License-Identifier: MIT
/*
 * Cases: what is kept of a context ends with it, though its place is another one's next, and what is done for all contexts is done in each.
 */
#include "cases.h"

#include <string.h>

static void set_policy(void)
{
	CUstreamAttrValue value;

	memset(&value, 0, sizeof(value));
	value.syncPolicy = CU_SYNC_POLICY_YIELD;
	OK(cuStreamSetAttribute(NULL, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
}

static void leave(const struct one_context *one)
{
	OK(cuCtxDestroy(one->context));
	OK(cuCtxSetCurrent(context));
}

static CUfunction primary_hash, primary_gate;
static CUdeviceptr primary_word;

static void keep_primary(void)
{
	primary_hash = hash_kernel;
	primary_gate = gate_kernel;
	primary_word = word;
}

static void enter_primary(void)
{
	OK(cuCtxSetCurrent(context));
	hash_kernel = primary_hash;
	gate_kernel = primary_gate;
	word = primary_word;
}

/* Events that were recorded, attributes that were set: both as often in each. */
static void next_is_new(void)
{
	CUcontext made;
	CUstream a;

	for (int i = 0; i < 2; i++) {
		OK(cuCtxCreate(&made, NULL, 0, 0));
		prepare_context();
		set_policy();
		a = new_stream(i ? 'a' : 'o', CU_STREAM_DEFAULT);
		if (i)
			begin();
		step(a, 1);
		step(NULL, 0);
		step(a, 1);
		if (i)
			end();
		say_words();
		OK(cuCtxDestroy(made));
	}
}

/* A stream that nobody saw made keeps the context native. */
static void next_is_rewritten(void)
{
	CUresult (*create)(CUstream *, unsigned int) =
		(CUresult(*)(CUstream *, unsigned int))driver_function("cuStreamCreate");
	struct one_context one = make_context(0, 'o');
	CUstream unseen;

	OK(create(&unseen, CU_STREAM_NON_BLOCKING));
	step(unseen, LOOSE);
	step(NULL, 0);
	leave(&one);
	one = make_context(0, 'a');
	begin();
	step(one.stream, 1);
	step(NULL, 0);
	end();
	say_words();
	leave(&one);
}

/* It may use the legacy stream only. */
static void next_is_unmixed(void)
{
	struct one_context one = make_context(0, 'o');
	CUcontext next;

	leave(&one);
	OK(cuCtxCreate(&next, NULL, 0, 0));
	prepare_context();
	begin();
	OK(cuMemsetD8Async(word + 512, 1, 8, NULL));
	OK(cuMemsetD8Async(word + 512, 2, 8, NULL));
	end();
	say_words();
}

/* Two end, two come, and each has what is its own. */
static void two_change_places(void)
{
	struct one_context one, two;
	CUcontext made;

	for (int i = 0; i < 4; i++) {
		/* Known in one order, used in the other. */
		OK(cuCtxCreate(&made, NULL, 0, 0));
		(void)new_stream('c', CU_STREAM_DEFAULT);
		if (i % 2) {
			two = make_context(1, 'b');
			OK(cuCtxSetCurrent(made));
			one = fill_context(made, 'a');
		} else {
			one = fill_context(made, 'a');
			two = make_context(1, 'b');
		}
		for (int k = 0; k < 3; k++) {
			enter_context(&one);
			close_gate(one.stream, 1);
			step(one.stream, 1);
			step(NULL, 0);
			step(one.stream, 1);
			enter_context(&two);
			close_gate(NULL, 2);
			step(NULL, 0);
			step(two.stream, 1);
			step(NULL, 0);
			SAY(cuStreamQuery(two.stream));
			enter_context(&one);
			SAY(cuStreamQuery(one.stream));
			open_gate(1);
			open_gate(2);
			OK(cuCtxSynchronize());
			enter_context(&two);
			OK(cuCtxSynchronize());
		}
		/* What each is given, once in each order. */
		if (i >= 2) {
			begin();
			step(two.stream, 1);
			step(NULL, 0);
			enter_context(&one);
			step(one.stream, 1);
			step(NULL, 0);
			end();
			enter_context(&two);
		}
		say_words();
		OK(cuCtxDestroy(two.context));
		enter_context(&one);
		say_words();
		leave(&one);
	}
}

/* Doubt in one context; in the other one something goes past us, and comes behind what stands on the substitute there. */
static void doubt_in_another(void)
{
	const CUuuid id = {"simcuda\0test\0\0\0\1"};
	CUresult (*memset_async)(CUdeviceptr, unsigned char, size_t, CUstream) = (CUresult(*)(
		CUdeviceptr, unsigned char, size_t, CUstream))driver_function("cuMemsetD8Async");
	CUstream a = new_stream('a', CU_STREAM_DEFAULT);
	struct one_context other;
	const void *table;

	mix(a);
	step(a, 1);
	close_gate(NULL, 1);
	step(NULL, 0);
	keep_primary();
	other = make_context(1, 'b');
	OK(cuGetExportTable(&table, &id));
	enter_primary();
	OK(memset_async(word, 0, 8, NULL));
	step(a, 1);
	SAY(cuStreamQuery(a));
	open_gate(1);
	step(a, 1);
	step(NULL, 0);
	say_words();
	enter_context(&other);
	step(other.stream, 1);
	step(NULL, 0);
	say_words();
}

const struct named_case entry_cases[] = {
	{"place-of-an-ended-context-is-new", next_is_new},
	{"place-of-a-native-context-is-new", next_is_rewritten},
	{"place-of-a-mixed-context-is-new", next_is_unmixed},
	{"two-contexts-change-places", two_change_places},
	{"unknown-table-goes-native-in-every-context", doubt_in_another},
	{NULL, NULL},
};
