// SPDX-License-Identifier: MIT
/*
 * The built-in kernels (kernels.h has their PTX), and the bytes of copies and memsets.
 *
 * Owns: the table of kernels. Called by: engine.c (lock held; released here while bytes move),
 * module.c (look-up).
 */
#include "sim.h"
#include <math.h>
#include <string.h>

#define FNV_PRIME 1099511628211ULL

/* A parameter that points at `size` bytes; makes the kernel fail if they are not the device's to
 * touch. */
#define BYTES(variable, address, size)                                                             \
	variable = (void *)sim_memory_translate(address, size, false);                             \
	if (!variable && (size) != 0)                                                              \
	return CUDA_ERROR_ILLEGAL_ADDRESS

static CUresult run_nothing(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	return CUDA_SUCCESS;
}

static CUresult run_gate(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	return sim_memory_translate(parameters[0], 4, false) ? CUDA_SUCCESS
							     : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult run_add(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	uint32_t n = parameters[3];
	float *a, *b, *c;

	BYTES(a, parameters[0], (size_t)n * 4);
	BYTES(b, parameters[1], (size_t)n * 4);
	BYTES(c, parameters[2], (size_t)n * 4);
	for (uint32_t i = 0; i < n; i++)
		c[i] = a[i] + b[i];
	return CUDA_SUCCESS;
}

static CUresult run_saxpy(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	uint32_t n = parameters[3], bits = parameters[0];
	float *x, *y, a;

	memcpy(&a, &bits, sizeof(a));
	BYTES(x, parameters[1], (size_t)n * 4);
	BYTES(y, parameters[2], (size_t)n * 4);
	for (uint32_t i = 0; i < n; i++)
		y[i] = fmaf(a, x[i], y[i]);
	return CUDA_SUCCESS;
}

static CUresult run_copy(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	uint8_t *to, *from;

	BYTES(to, parameters[0], parameters[2]);
	BYTES(from, parameters[1], parameters[2]);
	if (to)
		memmove(to, from, parameters[2]);
	return CUDA_SUCCESS;
}

static CUresult run_fill(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	uint32_t n = parameters[2];
	uint32_t *to;

	BYTES(to, parameters[0], (size_t)n * 4);
	for (uint32_t i = 0; i < n; i++)
		to[i] = parameters[1];
	return CUDA_SUCCESS;
}

static CUresult run_hash(const struct sim_kernel *kernel, const uint64_t *parameters)
{
	uint32_t n = parameters[2], salt = parameters[3];
	uint64_t *state;
	uint8_t *data;

	BYTES(state, parameters[0], 8);
	BYTES(data, parameters[1], n);
	*state = (*state ^ salt) * FNV_PRIME;
	for (uint32_t i = 0; i < n; i++)
		*state = (*state ^ data[i]) * FNV_PRIME;
	return CUDA_SUCCESS;
}

static const struct sim_builtin builtins[] = {
	{"spin", 1, {8}, run_nothing},       {"gate", 1, {8}, run_gate},
	{"add", 4, {8, 8, 8, 4}, run_add},   {"saxpy", 4, {4, 8, 8, 4}, run_saxpy},
	{"copy", 3, {8, 8, 8}, run_copy},    {"fill", 3, {8, 4, 4}, run_fill},
	{"hash", 4, {8, 8, 4, 4}, run_hash},
};

const struct sim_builtin *sim_builtin_find(const char *name)
{
	for (unsigned i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
		if (!strcmp(builtins[i].name, name))
			return &builtins[i];
	return NULL;
}

void sim_kernel_parameters(const struct sim_work *work, uint64_t parameters[6])
{
	const struct sim_builtin *builtin = work->kernel.builtin;
	size_t offset = 0;

	memset(parameters, 0, 6 * sizeof(*parameters));
	if (!builtin)
		return;
	for (unsigned i = 0; i < builtin->parameter_count; i++) {
		size_t size = builtin->parameter_sizes[i];

		offset = (offset + size - 1) & ~(size - 1);
		memcpy(&parameters[i], work->bytes + offset, size);
		offset += size;
	}
}

uint64_t sim_kernel_duration(const struct sim_work *work, bool *ret_polls)
{
	const struct sim_builtin *builtin = work->kernel.builtin;
	uint64_t parameters[6];

	if (!builtin)
		return 0;
	sim_kernel_parameters(work, parameters);
	if (builtin->run == run_gate)
		*ret_polls = true;
	return builtin->run == run_nothing ? parameters[0] : 0;
}

bool sim_kernel_ready(const struct sim_work *work)
{
	uint64_t parameters[6];
	uint32_t *flag;

	sim_kernel_parameters(work, parameters);
	flag = (void *)sim_memory_translate(parameters[0], 4, false);
	return !flag || __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

/* ---- bytes ---- */

/* Bytes that an operand spans, from its first to its last. */
static size_t span(const struct sim_operand *operand, const struct sim_copy *copy)
{
	return operand->slice * (copy->depth - 1) + operand->pitch * (copy->height - 1) +
	       copy->width;
}

static CUresult run_copy_work(const struct sim_work *work)
{
	const struct sim_copy *copy = &work->copy;
	uint8_t *from, *to;

	if (!copy->width || !copy->height || !copy->depth)
		return CUDA_SUCCESS;
	from = work->bytes ? work->bytes
			   : sim_memory_translate(copy->source.address, span(&copy->source, copy),
						  true);
	to = sim_memory_translate(copy->destination.address, span(&copy->destination, copy), true);
	if (!from || !to)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&sim.lock);
	for (size_t z = 0; z < copy->depth; z++)
		for (size_t y = 0; y < copy->height; y++)
			memmove(to + z * copy->destination.slice + y * copy->destination.pitch,
				from + z * copy->source.slice + y * copy->source.pitch,
				copy->width);
	pthread_mutex_lock(&sim.lock);
	return CUDA_SUCCESS;
}

static CUresult run_memset_work(const struct sim_memset *set)
{
	uint8_t *to;

	if (!set->width || !set->height)
		return CUDA_SUCCESS;
	to = sim_memory_translate(
		set->address, set->pitch * (set->height - 1) + set->width * set->element, false);
	if (!to)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	pthread_mutex_unlock(&sim.lock);
	for (size_t y = 0; y < set->height; y++) {
		uint8_t *row = to + y * set->pitch;

		if (set->element == 1)
			memset(row, set->value, set->width);
		else
			for (size_t x = 0; x < set->width; x++)
				memcpy(row + x * set->element, &set->value, set->element);
	}
	pthread_mutex_lock(&sim.lock);
	return CUDA_SUCCESS;
}

static CUresult run_value_write(const struct sim_value *value)
{
	uint8_t *to = sim_memory_translate(value->address, value->wide ? 8 : 4, false);

	if (!to)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	if (value->wide)
		__atomic_store_n((uint64_t *)to, value->value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)to, (uint32_t)value->value, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

CUresult sim_run_bytes(const struct sim_work *work)
{
	uint64_t parameters[6];

	switch (work->kind) {
	case SIM_COPY:
		return run_copy_work(work);
	case SIM_MEMSET:
		return run_memset_work(&work->memset);
	case SIM_VALUE_WRITE:
		return run_value_write(&work->value);
	case SIM_KERNEL:
		if (!work->kernel.builtin)
			return CUDA_SUCCESS;
		sim_kernel_parameters(work, parameters);
		return work->kernel.builtin->run(&work->kernel, parameters);
	default:
		return CUDA_SUCCESS;
	}
}
