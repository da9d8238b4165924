// SPDX-License-Identifier: MIT
/*
 * Which descriptions of copies can be staged, and as what; and from which sizes on. What is odd in any way is the driver's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "call.h"
#include "config.h"
#include "driver/driver.h"
#include "emit/emit.h"
#include "rewrite/staging.h"
#include "sync/calibration.h"

#define DEVICE 0x7f0000000000
#define HOST   0x500000

size_t stage_chunk_bytes(void)
{
	return (size_t)2 << 20;
}

struct config config;
struct driver_ops driver;

static struct calibration_stage table;
static bool is_chosen;
static const char *told;
static const char *device_names[] = {"Some GPU", "Some GPU"};

const struct calibration_stage *calibration_stage(void)
{
	return table.copies ? &table : NULL;
}

bool config_is_chosen(const void *field)
{
	assert_ptr_equal(field, &config.stage_from);
	return is_chosen;
}

void emit_note(enum note_code code, const char *text)
{
	assert_int_equal(code, NOTE_SIZES);
	told = text;
}

static CUresult fake_version(int *ret_version)
{
	*ret_version = 13000;
	return CUDA_SUCCESS;
}

static CUresult fake_count(int *ret_count)
{
	*ret_count = 2;
	return CUDA_SUCCESS;
}

static CUresult fake_name(char *name, int size, CUdevice device)
{
	snprintf(name, (size_t)size, "%s", device_names[device]);
	return CUDA_SUCCESS;
}

static struct call to_device(uint64_t bytes)
{
	return (struct call){
		.source = HOST,
		.destination = DEVICE,
		.bytes = bytes,
		.source_kind = MEMORY_PAGEABLE,
		.destination_kind = MEMORY_DEVICE,
		.flags = CALL_SOURCE_HOST,
	};
}

static CUDA_MEMCPY3D box(void)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = 128,
		.srcHeight = 20,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 256,
		.dstHeight = 30,
		.WidthInBytes = 100,
		.Height = 10,
		.Depth = 3,
	};
}

static bool box_is_staged(const CUDA_MEMCPY3D *described)
{
	struct call call =
		to_device(described->WidthInBytes * described->Height * described->Depth);
	struct staging staging;

	return staging_describe_3d(&call, described, &staging);
}

static void test_linear(void **state)
{
	struct call call = to_device(1000);
	struct staging staging;

	assert_true(staging_describe(&call, &staging));
	assert_true(staging.copy.to_device);
	assert_int_equal(staging.copy.device, DEVICE);
	assert_ptr_equal(staging.copy.host, (void *)HOST);
	assert_int_equal(staging.copy.width, 1000);
	assert_int_equal(staging.copy.height, 1);
	assert_int_equal(staging.host_span, 1000);
	assert_int_equal(staging.device_span, 1000);
}

static void test_direction_by_kinds(void **state)
{
	struct call call = to_device(1000);
	struct staging staging;

	/* cuMemcpy: either side may be either. */
	call.flags = CALL_SOURCE_HOST | CALL_DESTINATION_HOST;
	assert_true(staging_describe(&call, &staging));
	assert_true(staging.copy.to_device);
	call.source = DEVICE;
	call.source_kind = MEMORY_DEVICE;
	call.destination = HOST;
	call.destination_kind = MEMORY_PAGEABLE;
	assert_true(staging_describe(&call, &staging));
	assert_false(staging.copy.to_device);
	assert_ptr_equal(staging.copy.host, (void *)HOST);
	/* Host to host, device to device, pinned. */
	call.source_kind = MEMORY_PAGEABLE;
	assert_false(staging_describe(&call, &staging));
	call.source_kind = call.destination_kind = MEMORY_DEVICE;
	assert_false(staging_describe(&call, &staging));
	call.destination_kind = MEMORY_PINNED;
	assert_false(staging_describe(&call, &staging));
}

static void test_nothing_and_nowhere(void **state)
{
	struct call call = to_device(0);
	struct staging staging;

	assert_false(staging_describe(&call, &staging));
	call = to_device(1000);
	call.source = 0;
	assert_false(staging_describe(&call, &staging));
	call = to_device(1000);
	call.destination = 0;
	assert_false(staging_describe(&call, &staging));
	call = to_device(UINT64_MAX - 10);
	assert_false(staging_describe(&call, &staging));
}

static void test_box_with_gaps(void **state)
{
	CUDA_MEMCPY3D described = box();
	struct call call = to_device(3000);
	struct staging staging;

	assert_true(staging_describe_3d(&call, &described, &staging));
	assert_int_equal(staging.copy.host_pitch, 128);
	assert_int_equal(staging.copy.host_slice, 128 * 20);
	assert_int_equal(staging.copy.device_pitch, 256);
	assert_int_equal(staging.copy.device_slice, 256 * 30);
	assert_int_equal(staging.copy.depth, 3);
	assert_int_equal(staging.host_span, 2 * 128 * 20 + 9 * 128 + 100);
	assert_int_equal(staging.device_span, 2 * 256 * 30 + 9 * 256 + 100);
}

static void test_box_without_gaps_is_one_row(void **state)
{
	CUDA_MEMCPY3D described = box();
	struct call call = to_device(3000);
	struct staging staging;

	described.srcPitch = described.dstPitch = 100;
	described.srcHeight = described.dstHeight = 10;
	assert_true(staging_describe_3d(&call, &described, &staging));
	assert_int_equal(staging.copy.width, 3000);
	assert_int_equal(staging.copy.height, 1);
	assert_int_equal(staging.copy.depth, 1);
	described.dstHeight = 11;
	assert_true(staging_describe_3d(&call, &described, &staging));
	assert_int_equal(staging.copy.width, 100);
	assert_int_equal(staging.copy.depth, 3);
}

static void test_odd_boxes(void **state)
{
	CUDA_MEMCPY3D described;

#define ODD(field, value)                                                                          \
	described = box();                                                                         \
	assert_true(box_is_staged(&described));                                                    \
	described.field = value;                                                                   \
	assert_false(box_is_staged(&described))
	ODD(srcPitch, 99);
	ODD(dstPitch, 99);
	ODD(srcPitch, 0);
	ODD(srcXInBytes, 29);
	ODD(dstXInBytes, 157);
	ODD(srcXInBytes, SIZE_MAX);
	ODD(srcPitch, 0x80000000);
	ODD(srcHeight, 9);
	ODD(dstHeight, 0);
	ODD(srcY, 11);
	ODD(dstY, SIZE_MAX);
	ODD(WidthInBytes, 0);
	ODD(Height, 0);
	ODD(Depth, 0);
	ODD(Depth, SIZE_MAX);
	ODD(srcHeight, SIZE_MAX / 2);
	ODD(srcLOD, 1);
	ODD(dstLOD, 1);
	ODD(srcMemoryType, CU_MEMORYTYPE_ARRAY);
	ODD(dstMemoryType, CU_MEMORYTYPE_ARRAY);
	ODD(dstMemoryType, CU_MEMORYTYPE_HOST);
	ODD(srcMemoryType, CU_MEMORYTYPE_DEVICE);
	ODD(srcMemoryType, 0);
#undef ODD
}

static void test_odd_planes(void **state)
{
	CUDA_MEMCPY2D described = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcPitch = 128,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 256,
		.WidthInBytes = 100,
		.Height = 10,
	};
	struct call call = to_device(1000);
	struct staging staging;

	assert_true(staging_describe_2d(&call, &described, &staging));
	assert_int_equal(staging.host_span, 9 * 128 + 100);
	assert_int_equal(staging.device_span, 9 * 256 + 100);
	described.srcPitch = 99;
	assert_false(staging_describe_2d(&call, &described, &staging));
	described.srcPitch = 128;
	described.dstXInBytes = 157;
	assert_false(staging_describe_2d(&call, &described, &staging));
	described.dstXInBytes = 0;
	described.Height = SIZE_MAX / 64;
	assert_false(staging_describe_2d(&call, &described, &staging));
}

static void test_sizes(void **state)
{
	const uint64_t kib = 1024, mib = 1024 * kib;

	config.stage_from = 4 * mib;
	assert_false(staging_wins(true, false, false, true, 4 * mib - 1));
	assert_true(staging_wins(true, false, false, true, 4 * mib));
	assert_false(staging_wins(false, true, true, true, mib));
	config.stage_from = 0;
	assert_false(staging_wins(false, true, true, true, 0));
	config.stage_from = 128 * kib;
	/* to_device, async, busy, waits */
	assert_false(staging_wins(true, false, false, true, 0));
	assert_false(staging_wins(true, false, false, true, 64 * kib));
	assert_true(staging_wins(true, false, false, true, mib));
	assert_false(staging_wins(false, false, true, true, 64 * kib));
	assert_true(staging_wins(false, true, true, true, mib));
	/* A wait that is left out. */
	assert_true(staging_wins(true, false, true, false, 1));
	config.stage_from = 4 * mib;
	assert_true(staging_wins(true, false, true, false, 2 * mib));
	assert_false(staging_wins(true, false, true, false, 2 * mib + 1));
	config.stage_from = 128 * kib;
	assert_false(staging_wins(true, false, true, false, 0));
	assert_false(staging_wins(true, false, false, false, 1));
	/* Where the driver does not wait for the stream, and more than one chunk would. */
	assert_true(staging_wins(true, true, true, true, 2 * mib));
	assert_false(staging_wins(true, true, true, true, 2 * mib + 1));
	assert_false(staging_wins(true, true, true, true, 16 * mib - 1));
	assert_true(staging_wins(true, true, true, true, 16 * mib));
	assert_true(staging_wins(true, true, false, true, 4 * mib));
	assert_true(staging_wins(false, true, true, true, 4 * mib));
}

/* A table of this machine, with a size of its own for each copy that is told apart. */
static void load_table(void)
{
	table = (struct calibration_stage){
		.copies = (1U << CALIBRATION_COPIES) - 1, .driver = 13000, .gpu = "Some GPU"};
	for (unsigned int i = 0; i < CALIBRATION_COPIES; i++)
		table.from[i] = (uint64_t)1000 << i;
	driver.cuDriverGetVersion = fake_version;
	driver.cuDeviceGetCount = fake_count;
	driver.cuDeviceGetName = fake_name;
	config.stage_from = (uint64_t)4 << 20;
	config.fix = CONFIG_FIX_STAGING;
	is_chosen = false;
	told = NULL;
}

static bool goes_by_table(void)
{
	staging_sizes_start();
	return staging_wins(true, false, false, true, 1000);
}

static void test_measured_sizes(void **state)
{
	const uint64_t mib = 1024 * 1024;

	load_table();
	assert_true(goes_by_table());
	assert_string_equal(told, "the calibration's");
	for (unsigned int i = 0; i < 8; i++) {
		/* to_device, async, busy, waits */
		assert_false(staging_wins(!(i & 4), i & 2, i & 1, true, table.from[i] - 1));
		assert_true(staging_wins(!(i & 4), i & 2, i & 1, true, table.from[i]));
	}
	assert_false(staging_wins(true, false, true, false, 256000 - 1));
	assert_true(staging_wins(true, false, true, false, 256000));
	/* More than a chunk waits all the same, and goes by the size of those that do. */
	table.from[CALIBRATION_UNWAITED] = CALIBRATION_NEVER;
	assert_false(staging_wins(true, false, true, false, 2 * mib));
	assert_true(staging_wins(true, false, true, false, 2 * mib + 1));
	table.from[0] = CALIBRATION_NEVER;
	assert_false(staging_wins(true, false, false, true, UINT64_C(1) << 40));
	/* What no table may change: nothing is no copy, and no waits where the driver makes none. */
	assert_false(staging_wins(false, true, false, true, 0));
	table.from[3] = 1;
	assert_true(staging_wins(true, true, true, true, 2 * mib));
	assert_false(staging_wins(true, true, true, true, 2 * mib + 1));
	/* A copy that the table is silent about goes by the setting's default. */
	table.copies &= ~1U;
	assert_false(staging_wins(true, false, false, true, 4 * mib - 1));
	assert_true(staging_wins(true, false, false, true, 4 * mib));
}

static void test_other_sizes(void **state)
{
	load_table();
	is_chosen = true;
	assert_false(goes_by_table());
	assert_string_equal(told, "not the calibration's: SLIPSTREAM_STAGE_FROM is set");

	load_table();
	table.driver = 12080;
	assert_false(goes_by_table());
	assert_string_equal(told,
			    "not the calibration's: it was measured on another GPU or driver");
	load_table();
	table.gpu[0] = '\0';
	assert_false(goes_by_table());
	assert_non_null(told);
	load_table();
	device_names[1] = "Some GPU 2"; /* not all are what it was measured on */
	assert_false(goes_by_table());
	device_names[1] = "Some GPU";
	load_table();
	driver.cuDeviceGetName = NULL;
	assert_false(goes_by_table());
	assert_non_null(told);

	/* Nothing to choose between, nothing to tell. */
	load_table();
	table.copies = 0;
	assert_false(goes_by_table());
	assert_null(told);
	load_table();
	config.fix = CONFIG_FIX_PINNED;
	assert_false(goes_by_table());
	assert_null(told);
}

/* Below the least nothing wins but a copy whose wait is left out; at it something does. */
static void assert_least(uint64_t least)
{
	bool any = false;

	staging_sizes_start();
	assert_true(staging_least == least);
	for (unsigned int i = 0; i < 16; i++) {
		bool to_device = i & 1, async = i & 2, busy = i & 4, waits = i & 8;

		any |= staging_wins(to_device, async, busy, waits, least);
		if (!busy || waits)
			assert_false(staging_wins(to_device, async, busy, waits, least - 1));
	}
	assert_true(any);
}

static void test_least_size(void **state)
{
	load_table();
	assert_least(1000);
	table.from[0] = CALIBRATION_NEVER;
	assert_least(2000);
	table.copies = 1U << 5 | 1U << CALIBRATION_UNWAITED;
	assert_least(32000);
	table.from[CALIBRATION_UNWAITED] = 100;
	assert_least(32000);
	is_chosen = true;
	assert_least((uint64_t)4 << 20);
	is_chosen = false;
	table.copies = 0;
	assert_least((uint64_t)4 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linear),
		cmocka_unit_test(test_direction_by_kinds),
		cmocka_unit_test(test_nothing_and_nowhere),
		cmocka_unit_test(test_box_with_gaps),
		cmocka_unit_test(test_box_without_gaps_is_one_row),
		cmocka_unit_test(test_odd_boxes),
		cmocka_unit_test(test_odd_planes),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_measured_sizes),
		cmocka_unit_test(test_other_sizes),
		cmocka_unit_test(test_least_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
