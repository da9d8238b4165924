// SPDX-License-Identifier: MIT
/*
 * Modules and libraries from PTX text.
 *
 * Owns: the reader of `.entry NAME` and of `.global` variables, functions and kernels. A library
 * belongs to no context; its kernels serve as functions everywhere. Called by: exports.c. Relies on
 * kernels.c for what an entry does: an entry whose name is not built in does nothing.
 */
#include "sim.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static struct sim_module **modules;
static unsigned module_count, module_space;

static void function_free(struct sim_function *function)
{
	free(function->name);
	sim_object_free(function);
}

static void module_free(struct sim_module *module)
{
	for (unsigned i = 0; i < module_count; i++) {
		if (modules[i] != module)
			continue;
		modules[i] = modules[--module_count];
		break;
	}
	for (unsigned i = 0; i < module->function_count; i++)
		function_free(module->functions[i]);
	for (unsigned i = 0; i < module->global_count; i++) {
		sim_memory_device_free(module->globals[i]);
		free(module->global_names[i]);
	}
	free(module->functions);
	free(module->globals);
	free(module->global_names);
	sim_object_free(module);
}

void sim_modules_release(struct sim_context *context)
{
	for (unsigned i = module_count; i; i--)
		if (modules[i - 1]->context == context)
			module_free(modules[i - 1]);
}

static char *word_after(const char *text, const char **ret_end)
{
	const char *start = text, *end;

	while (isspace((unsigned char)*start))
		start++;
	for (end = start; isalnum((unsigned char)*end) || *end == '_' || *end == '$' ||
			  *end == '%' || *end == '.';)
		end++;
	*ret_end = end;
	return strndup(start, end - start);
}

static CUresult add_function(struct sim_module *module, char *name)
{
	struct sim_function **grown = realloc(
		module->functions, (module->function_count + 1) * sizeof(*module->functions));
	struct sim_function *function;

	if (!grown)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->functions = grown;
	function = sim_object_new(SIM_FUNCTION);
	if (!function)
		return CUDA_ERROR_OUT_OF_MEMORY;
	function->module = module;
	function->name = name;
	function->builtin = sim_builtin_find(name);
	function->loaded = !sim.lazy;
	function->maximum_shared = 49152;
	grown[module->function_count++] = function;
	return CUDA_SUCCESS;
}

/* `.global .align 4 .u32 name[4];` -> 16 bytes of device memory */
static CUresult add_global(struct sim_module *module, struct sim_context *context, const char *text)
{
	struct sim_allocation *allocation, **globals;
	size_t bits = 32, count = 1;
	char **names, *name = NULL;
	const char *end = text;
	CUresult result;

	for (;;) {
		free(name);
		name = word_after(end, &end);
		if (!*name)
			break;
		if (!strcmp(name, ".align")) {
			free(word_after(end, &end));
			end += strspn(end, " 0123456789");
			continue;
		}
		if (name[0] == '.') {
			if (strpbrk(name + 1, "0123456789"))
				bits = strtoul(strpbrk(name + 1, "0123456789"), NULL, 10);
			continue;
		}
		break;
	}
	if (*end == '[')
		count = strtoul(end + 1, NULL, 10);
	if (!*name || !count) {
		free(name);
		return CUDA_SUCCESS;
	}
	globals = realloc(module->globals, (module->global_count + 1) * sizeof(*globals));
	if (globals)
		module->globals = globals;
	names = realloc(module->global_names, (module->global_count + 1) * sizeof(*names));
	if (names)
		module->global_names = names;
	if (!globals || !names) {
		free(name);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = sim_memory_device_new(context, count * ((bits + 7) / 8), 0, &allocation);
	if (result) {
		free(name);
		return result;
	}
	memset(allocation->backing, 0, allocation->size);
	allocation->array = true; /* not for cuMemFree */
	if (module->library)
		allocation->context = NULL; /* outlives the context */
	module->globals[module->global_count] = allocation;
	module->global_names[module->global_count++] = name;
	return CUDA_SUCCESS;
}

/* Comments out of the way; NULL if the image is no PTX text. */
static char *ptx_text(const char *image)
{
	const char *version = image;
	char *text;

	while (isspace((unsigned char)*version))
		version++;
	if (strncmp(version, ".version", 8) && strncmp(version, "//", 2) &&
	    strncmp(version, "/*", 2))
		return NULL;
	text = strdup(image);
	for (char *at = text; at && *at; at++) {
		if (at[0] == '/' && at[1] == '/') {
			while (*at && *at != '\n')
				*at++ = ' ';
			at--;
		} else if (at[0] == '/' && at[1] == '*') {
			char *close = strstr(at + 2, "*/");
			char *stop = close ? close + 2 : at + strlen(at);

			while (at < stop)
				*at++ = ' ';
			at--;
		}
	}
	return text;
}

static CUresult load(struct sim_context *context, const void *image, bool library,
		     struct sim_module **ret_module)
{
	struct sim_module *module, **grown;
	CUresult result = CUDA_SUCCESS;
	char *text, *at;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	text = ptx_text(image);
	if (!text)
		return CUDA_ERROR_INVALID_IMAGE;
	if (!strstr(text, ".version")) {
		free(text);
		return CUDA_ERROR_INVALID_PTX;
	}
	module = sim_object_new(SIM_MODULE);
	grown = sim_grow(modules, module_count, &module_space, sizeof(*modules));
	if (!module || !grown) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	modules = grown;
	modules[module_count++] = module;
	module->context = library ? NULL : context;
	module->library = library;
	at = text;
	while (!result && (at = strstr(at, ".entry"))) {
		const char *end;

		at += strlen(".entry");
		result = add_function(module, word_after(at, &end));
	}
	at = text;
	while (!result && (at = strstr(at, ".global")) != NULL) {
		bool declaration = at == text || isspace((unsigned char)at[-1]);

		at += strlen(".global");
		if (declaration && context && isspace((unsigned char)*at))
			result = add_global(module, context, at);
	}
	free(text);
	if (result) {
		module_free(module);
		return result;
	}
	sim_cost(300000);
	*ret_module = module;
	return CUDA_SUCCESS;
}

CUresult impl_cuModuleLoadData(CUmodule *module, const void *image)
{
	struct sim_context *context;
	struct sim_module *loaded;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	result = load(context, image, false, &loaded);
	if (!result)
		*module = (CUmodule)loaded;
	return result;
}

CUresult impl_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
				 CUjit_option *options, void **optionValues)
{
	return impl_cuModuleLoadData(module, image);
}

static char *read_file(const char *name)
{
	FILE *file = fopen(name, "re");
	char *text = NULL;
	size_t size = 0;

	if (!file)
		return NULL;
	if (getdelim(&text, &size, 0, file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

CUresult impl_cuModuleLoad(CUmodule *module, const char *fname)
{
	char *text = fname ? read_file(fname) : NULL;
	CUresult result;

	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	result = impl_cuModuleLoadData(module, text);
	free(text);
	return result;
}

CUresult impl_cuModuleUnload(CUmodule hmod)
{
	struct sim_module *module = sim_object_check(hmod, SIM_MODULE);

	if (!module || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	module_free(module);
	return CUDA_SUCCESS;
}

static struct sim_function *find(struct sim_module *module, const char *name)
{
	for (unsigned i = 0; i < module->function_count; i++)
		if (!strcmp(module->functions[i]->name, name))
			return module->functions[i];
	return NULL;
}

CUresult impl_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct sim_module *module = sim_object_check(hmod, SIM_MODULE);
	struct sim_function *function;

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!hfunc || !name)
		return CUDA_ERROR_INVALID_VALUE;
	function = find(module, name);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*hfunc = (CUfunction)function;
	return CUDA_SUCCESS;
}

CUresult impl_cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct sim_module *module = sim_object_check(mod, SIM_MODULE);

	if (!module || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = module->function_count;
	return CUDA_SUCCESS;
}

CUresult impl_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
					 CUmodule mod)
{
	struct sim_module *module = sim_object_check(mod, SIM_MODULE);

	if (!module || !functions)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numFunctions && i < module->function_count; i++)
		functions[i] = (CUfunction)module->functions[i];
	return CUDA_SUCCESS;
}

CUresult impl_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod,
				   const char *name)
{
	struct sim_module *module = sim_object_check(hmod, SIM_MODULE);

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned i = 0; name && i < module->global_count; i++) {
		if (strcmp(module->global_names[i], name))
			continue;
		if (dptr)
			*dptr = module->globals[i]->address;
		if (bytes)
			*bytes = module->globals[i]->size;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult impl_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = sim.lazy ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

/* ---- libraries: a CUkernel is the address of the same function object ---- */

CUresult impl_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
				void **jitOptionsValues, unsigned int numJitOptions,
				CUlibraryOption *libraryOptions, void **libraryOptionValues,
				unsigned int numLibraryOptions)
{
	struct sim_context *context = NULL;
	struct sim_module *loaded;
	CUresult result;

	if (!library)
		return CUDA_ERROR_INVALID_VALUE;
	sim_context_current(&context);
	result = load(context, code, true, &loaded);
	if (!result)
		*library = (CUlibrary)loaded;
	return result;
}

CUresult impl_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				    CUjit_option *jitOptions, void **jitOptionsValues,
				    unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				    void **libraryOptionValues, unsigned int numLibraryOptions)
{
	char *text = fileName ? read_file(fileName) : NULL;
	CUresult result;

	if (!text)
		return CUDA_ERROR_FILE_NOT_FOUND;
	result = impl_cuLibraryLoadData(library, text, NULL, NULL, 0, NULL, NULL, 0);
	free(text);
	return result;
}

static struct sim_module *library_check(CUlibrary handle)
{
	struct sim_module *module = sim_object_check(handle, SIM_MODULE);

	return module && module->library ? module : NULL;
}

CUresult impl_cuLibraryUnload(CUlibrary library)
{
	struct sim_module *module = library_check(library);

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	module_free(module);
	return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct sim_module *module = library_check(library);
	struct sim_function *function;

	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	function = find(module, name);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*pKernel = (CUkernel)function;
	return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct sim_module *module = library_check(lib);

	if (!module || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = module->function_count;
	return CUDA_SUCCESS;
}

CUresult impl_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct sim_module *module = library_check(lib);

	if (!module || !kernels)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numKernels && i < module->function_count; i++)
		kernels[i] = (CUkernel)module->functions[i];
	return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct sim_module *module = library_check(library);

	if (!module || !pMod)
		return CUDA_ERROR_INVALID_VALUE;
	*pMod = (CUmodule)module;
	return CUDA_SUCCESS;
}

CUresult impl_cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				 const char *name)
{
	return impl_cuModuleGetGlobal_v2(dptr, bytes, (CUmodule)library, name);
}

static struct sim_function *function_check(const void *handle)
{
	return sim_object_check(handle, SIM_FUNCTION);
}

CUresult impl_cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct sim_function *function = function_check(kernel);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pFunc)
		return CUDA_ERROR_INVALID_VALUE;
	*pFunc = (CUfunction)function;
	return CUDA_SUCCESS;
}

CUresult impl_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct sim_function *function = function_check(kernel);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*pLib = (CUlibrary)function->module;
	return CUDA_SUCCESS;
}

CUresult impl_cuFuncGetName(const char **name, CUfunction hfunc)
{
	struct sim_function *function = function_check(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = function->name;
	return CUDA_SUCCESS;
}

CUresult impl_cuKernelGetName(const char **name, CUkernel hfunc)
{
	return impl_cuFuncGetName(name, (CUfunction)hfunc);
}

CUresult impl_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct sim_function *function = function_check(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	*hmod = (CUmodule)function->module;
	return CUDA_SUCCESS;
}

CUresult impl_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	struct sim_function *found = function_check(function);

	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	*state = found->loaded ? CU_FUNCTION_LOADING_STATE_LOADED
			       : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return CUDA_SUCCESS;
}

/* A load waits for what runs in the context. */
CUresult impl_cuFuncLoad(CUfunction function)
{
	struct sim_function *found = function_check(function);
	struct sim_context *context;
	CUresult result = sim_context_current(&context);

	if (result)
		return result;
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!found->loaded) {
		sim_wait_load(context);
		sim_cost(100000);
		found->loaded = true;
	}
	return CUDA_SUCCESS;
}

static CUresult attribute(int *value, CUfunction_attribute wanted, struct sim_function *function)
{
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	switch (wanted) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = 16;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = 70;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = 90;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = function->maximum_shared;
		return CUDA_SUCCESS;
	default:
		if (wanted < 0 || wanted >= CU_FUNC_ATTRIBUTE_MAX)
			return CUDA_ERROR_INVALID_VALUE;
		*value = 0;
		return CUDA_SUCCESS;
	}
}

CUresult impl_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	return attribute(pi, attrib, function_check(hfunc));
}

CUresult impl_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
				   CUdevice dev)
{
	return attribute(pi, attrib, function_check(kernel));
}

CUresult impl_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct sim_function *function = function_check(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value < 0 || value > 232448)
			return CUDA_ERROR_INVALID_VALUE;
		function->maximum_shared = value;
	}
	return CUDA_SUCCESS;
}

CUresult impl_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
				   CUdevice dev)
{
	return impl_cuFuncSetAttribute((CUfunction)kernel, attrib, val);
}

CUresult impl_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	return function_check(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	return function_check(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	return function_check(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult impl_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
				 size_t *paramSize)
{
	struct sim_function *function = function_check(func);
	size_t offset = 0;

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!paramOffset || !function->builtin || paramIndex >= function->builtin->parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0;; i++) {
		size_t size = function->builtin->parameter_sizes[i];

		offset = (offset + size - 1) & ~(size - 1);
		if (i == paramIndex) {
			*paramOffset = offset;
			if (paramSize)
				*paramSize = size;
			return CUDA_SUCCESS;
		}
		offset += size;
	}
}

CUresult impl_cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
				   size_t *paramSize)
{
	return impl_cuFuncGetParamInfo((CUfunction)kernel, paramIndex, paramOffset, paramSize);
}
