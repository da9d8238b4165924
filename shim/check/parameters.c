// SPDX-License-Identifier: MIT
/*
 * Check, what a kernel is given (access.h): words among its parameters that are addresses of memory. The driver is asked once for the sizes of a
 * function's parameters (cuFuncGetParamInfo, 12.4); without that nothing is known of a kernel, and it is held against nothing.
 *
 * layouts	under check_lock()
 */
#include "check/access.h"

#include "check/map.h"
#include "driver/driver.h"
#include "state/state.h"

#define FUNCTIONS_MAX  2048
#define PARAMETERS_MAX 32
#define EXTRA_MAX      4096 /* bytes of a launch's parameters; what lies behind is not looked at */

/* Of functions and of kernels of a library alike, whose handle comes first. */
typedef CUresult get_parameter(void *, size_t, size_t *, size_t *);

static struct layout {
	bool is_kernel; /* of a library, whose handle is given as that of a function */
	bool is_known;
	uint32_t count;
	uint16_t bytes[PARAMETERS_MAX];
} layouts[FUNCTIONS_MAX];
CHECK_MAP(map, FUNCTIONS_MAX);

/* Functions of modules that are gone stay here until their row is needed. */
static uint32_t make_room(uint64_t handle)
{
	static uint32_t victim;
	uint32_t at = check_map_add(&map, handle);

	if (at != CHECK_NONE)
		return at;
	check_map_remove(&map, map.keys[victim++ % FUNCTIONS_MAX]);
	return check_map_add(&map, handle);
}

static void name(uint64_t handle, bool is_kernel)
{
	uint32_t at;

	if (!handle || !check_lock())
		return;
	/* A handle may come again for another function. */
	check_map_remove(&map, handle);
	at = make_room(handle);
	if (at != CHECK_NONE)
		layouts[at] = (struct layout){.is_kernel = is_kernel};
	check_unlock();
}

void parameters_named(const struct call *call, const uint64_t *arguments)
{
	switch (call->function) {
	case FUNCTION_cuModuleGetFunction:
	case FUNCTION_cuKernelGetFunction:
		name(*(const uint64_t *)(uintptr_t)arguments[0], false);
		return;
	case FUNCTION_cuLibraryGetKernel:
		name(*(const uint64_t *)(uintptr_t)arguments[0], true);
		return;
	default:
		return;
	}
}

static bool find(uint64_t handle, struct layout *ret_layout)
{
	uint32_t at;

	if (!check_lock())
		return false;
	at = check_map_find(&map, handle);
	if (at != CHECK_NONE)
		*ret_layout = layouts[at];
	check_unlock();
	return at != CHECK_NONE;
}

static void ask(uint64_t handle, struct layout *layout)
{
	get_parameter *get =
		(get_parameter *)(layout->is_kernel
					  ? (void *)__atomic_load_n(&driver.cuKernelGetParamInfo,
								    __ATOMIC_RELAXED)
					  : (void *)__atomic_load_n(&driver.cuFuncGetParamInfo,
								    __ATOMIC_RELAXED));
	size_t offset, size;

	if (!get)
		return;
	layout->count = 0;
	while (layout->count < PARAMETERS_MAX &&
	       get((void *)(uintptr_t)handle, layout->count, &offset, &size) == CUDA_SUCCESS)
		layout->bytes[layout->count++] = (uint16_t)(size < EXTRA_MAX ? size : EXTRA_MAX);
	layout->is_known = true;
}

static bool layout_of(uint64_t handle, struct layout *ret_layout)
{
	uint32_t at;

	if (!find(handle, ret_layout))
		return false;
	if (ret_layout->is_known)
		return true;
	ask(handle, ret_layout);
	if (!check_lock())
		return ret_layout->is_known;
	at = check_map_find(&map, handle);
	if (at != CHECK_NONE)
		layouts[at] = *ret_layout;
	check_unlock();
	return ret_layout->is_known;
}

/*
 * Registered memory is left out: it is the program's own, its heap say, so that a word may be the address of any object of the host. That the host may hear
 * of a kernel by it counts all the same (parameters_may_hold()).
 */
static void look_at_words(const void *from, size_t bytes, uint64_t *ret_addresses,
			  uint32_t *ret_count)
{
	struct state_range range;
	uint64_t word;
	size_t at;

	for (at = 0; at + sizeof(word) <= bytes && *ret_count < POINTERS_MAX; at += sizeof(word)) {
		memcpy(&word, (const char *)from + at, sizeof(word));
		if (word && state_range_of(word, &range) && range.kind != MEMORY_REGISTERED)
			ret_addresses[(*ret_count)++] = word;
	}
}

static void look_at_parameters(void *const *parameters, const struct layout *layout,
			       uint64_t *ret_addresses, uint32_t *ret_count)
{
	uint32_t i;

	for (i = 0; i < layout->count; i++)
		if (parameters[i])
			look_at_words(parameters[i], layout->bytes[i], ret_addresses, ret_count);
}

/* All parameters in one piece, each at its offset. */
static bool look_at_extra(void *const *extra, uint64_t *ret_addresses, uint32_t *ret_count)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2)
		if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			size = *(const size_t *)extra[1];
		else
			return false;
	if (buffer)
		look_at_words(buffer, size < EXTRA_MAX ? size : EXTRA_MAX, ret_addresses,
			      ret_count);
	return buffer;
}

/* Where the launch has its parameters, among its arguments; 0: it is of another kind. */
static uint32_t place_of(const struct call *call, uint32_t *ret_extra)
{
	*ret_extra = 0;
	switch (call->function) {
	case FUNCTION_cuLaunchKernel:
	case FUNCTION_cuLaunchKernel_ptsz:
		*ret_extra = 10;
		return 9;
	case FUNCTION_cuLaunchKernelEx:
	case FUNCTION_cuLaunchKernelEx_ptsz:
		*ret_extra = 3;
		return 2;
	case FUNCTION_cuLaunchCooperativeKernel:
	case FUNCTION_cuLaunchCooperativeKernel_ptsz:
		return 9;
	default:
		return 0;
	}
}

bool parameters_of(const struct call *call, const uint64_t *arguments, uint64_t *ret_addresses,
		   uint32_t *ret_count)
{
	uint32_t extra, place = place_of(call, &extra);
	struct layout layout;

	*ret_count = 0;
	if (!place)
		return false;
	if (extra && arguments[extra])
		return look_at_extra((void *const *)(uintptr_t)arguments[extra], ret_addresses,
				     ret_count);
	if (!layout_of(call->subject, &layout))
		return false;
	if (arguments[place])
		look_at_parameters((void *const *)(uintptr_t)arguments[place], &layout,
				   ret_addresses, ret_count);
	return true;
}

static bool any_word(const void *from, size_t bytes, bool (*holds)(uint64_t word))
{
	uint64_t word;
	size_t at;

	for (at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, (const char *)from + at, sizeof(word));
		if (holds(word))
			return true;
	}
	return false;
}

bool parameters_may_hold(const struct call *call, const uint64_t *arguments,
			 bool (*holds)(uint64_t word))
{
	uint32_t i, extra, place = place_of(call, &extra);
	void *const *parameters;
	struct layout layout;

	if (!place || (extra && arguments[extra]) || !layout_of(call->subject, &layout) ||
	    layout.count == PARAMETERS_MAX)
		return true;
	parameters = (void *const *)(uintptr_t)arguments[place];
	for (i = 0; i < layout.count; i++)
		if (!parameters || layout.bytes[i] == EXTRA_MAX ||
		    (parameters[i] && any_word(parameters[i], layout.bytes[i], holds)))
			return true;
	return false;
}

void parameters_forget(void)
{
	check_map_clear(&map);
}
