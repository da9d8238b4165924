// SPDX-License-Identifier: MIT
/*
 * Kernel: names of function and kernel handles, and whether one was launched before. Called by
 * state_before() for launches and by the hooks of the module functions. Relies on table.h.
 *
 * handle	constant once in the table
 * name		string id of emit; stored by whoever names it, read by launches
 * launched	stored by the first successful launch and by naming anew; read by launches
 *
 * Handles come back after a module was unloaded. A handle that is named anew under another name, or
 * after any unload since it was last named, is a new function.
 */
#include <string.h>

#include "catalogue/catalogue.h"
#include "emit/emit.h"
#include "emit/table.h"
#include "state/internal.h"
#include "state/state.h"

#define KERNEL_MAX (1 << 18)
#define NAME_MAX_  4096 /* mangled names can be long; more says nothing */

static struct table kernels = {.bound = KERNEL_MAX};
static uint32_t unloads; /* counted by kernel_unloaded() */

static struct state_kernel *find(uint64_t handle)
{
	struct thread_kernel *slot = thread_kernel_slot(&state_thread, handle);
	struct state_kernel *kernel;
	uint64_t hash, index;

	if (slot->kernel && slot->handle == handle)
		return slot->kernel;
	hash = table_mix(handle);
	index = hash;
	while ((kernel = table_next(&kernels, hash, &index))) {
		if (kernel->handle == handle) {
			slot->kernel = kernel;
			slot->handle = handle;
			return kernel;
		}
	}
	return NULL;
}

static struct state_kernel *find_or_add(uint64_t handle)
{
	struct state_kernel *kernel = find(handle);

	if (kernel || !handle || !lock_take(&state_lock))
		return kernel;
	kernel = find(handle);
	if (!kernel) {
		kernel = arena_take(&state_arena, sizeof(*kernel));
		if (kernel) {
			kernel->handle = handle;
			if (!table_insert(&kernels, &state_arena, table_mix(handle), kernel))
				kernel = NULL;
		}
		if (!kernel)
			state_lost("kernels");
	}
	lock_give(&state_lock);
	if (kernel)
		*thread_kernel_slot(&state_thread, handle) = (struct thread_kernel){handle, kernel};
	return kernel;
}

static void set_name(uint64_t handle, uint32_t name)
{
	uint32_t seen = STATE_LOAD(&unloads);
	struct state_kernel *kernel;

	kernel = find_or_add(handle);
	if (!kernel)
		return;
	if (STATE_LOAD(&kernel->name) != name || STATE_LOAD(&kernel->unloads) != seen) {
		/* Launched before it was ever named: still the same function. */
		if (STATE_LOAD(&kernel->name))
			STATE_STORE(&kernel->launched, 0);
		STATE_STORE(&kernel->name, name);
		STATE_STORE(&kernel->unloads, seen);
		launch_forget_all();
	}
}

uint32_t kernel_name(uint64_t handle, bool *ret_launched, uint64_t *ret_context)
{
	struct state_kernel *kernel = find(handle);

	*ret_launched = kernel && STATE_LOAD(&kernel->launched);
	*ret_context = kernel ? STATE_LOAD(&kernel->context) : 0;
	return kernel ? STATE_LOAD(&kernel->name) : 0;
}

void kernel_launched(uint64_t handle, uint64_t context)
{
	struct state_kernel *kernel = find_or_add(handle);

	if (!kernel)
		return;
	STATE_STORE(&kernel->context, context);
	STATE_STORE(&kernel->launched, 1);
}

void state_function_named(struct call *call, CUfunction function, const char *name)
{
	if (function && name)
		set_name((uintptr_t)function, emit_string(name, strnlen(name, NAME_MAX_)));
}

void state_kernel_named(struct call *call, CUkernel kernel, const char *name)
{
	if (kernel && name)
		set_name((uintptr_t)kernel, emit_string(name, strnlen(name, NAME_MAX_)));
}

void state_kernel_function(struct call *call, CUfunction function, CUkernel kernel)
{
	bool launched;
	uint64_t context;
	uint32_t name = kernel_name((uintptr_t)kernel, &launched, &context);

	if (function && name)
		set_name((uintptr_t)function, name);
}

void kernel_unloaded(void)
{
	__atomic_fetch_add(&unloads, 1, __ATOMIC_RELAXED);
}

void state_module_unloading(struct call *call)
{
	kernel_unloaded();
}

void kernel_clear(void)
{
	table_clear(&kernels);
	unloads = 0;
}
