// SPDX-License-Identifier: MIT
/*
 * The wrappers that are written by hand: those that hand out further ways into the driver, and
 * those that tell us of the driver itself. wrappers.py leaves them out (its list SPECIAL).
 */
#include <dlfcn.h>
#include <string.h>

#include "entry/entry.h"
#include "sync/site.h"

/* An address no driver returns: tells "not written" from NULL. */
static char not_written;

/*
 * The driver writes to our own variable first, so that what it did not write is not taken for its
 * answer: a program's variable may hold an old pointer. *pfn is written exactly when the driver
 * wrote.
 */
static void **pfn_for(void **pfn, void **found)
{
	*found = &not_written;
	return pfn ? found : NULL;
}

static void hand_out(CUresult result, const char *symbol, void **pfn, void *found)
{
	if (!pfn || found == &not_written)
		return;
	if (result == CUDA_SUCCESS && found && !entry_off)
		found = entry_substitute(found, symbol ? symbol : "");
	*pfn = found;
}

CUresult ENTRY_EXPORT cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
				       cuuint64_t flags)
{
	CUresult (*real)(const char *, void **, int, cuuint64_t);
	CUresult result;
	void *found;

	USDT_SCOPE(FUNCTION_cuGetProcAddress, !entry_count(FUNCTION_cuGetProcAddress));
	real = ENTRY_DRIVER(cuGetProcAddress);
	if (!real)
		return entry_missing(FUNCTION_cuGetProcAddress);
	result = real(symbol, pfn_for(pfn, &found), cudaVersion, flags);
	hand_out(result, symbol, pfn, found);
	return result;
}

CUresult ENTRY_EXPORT cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
					  cuuint64_t flags,
					  CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult (*real)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult result;
	void *found;

	USDT_SCOPE(FUNCTION_cuGetProcAddress_v2, !entry_count(FUNCTION_cuGetProcAddress_v2));
	real = ENTRY_DRIVER(cuGetProcAddress_v2);
	if (!real)
		return entry_missing(FUNCTION_cuGetProcAddress_v2);
	result = real(symbol, pfn_for(pfn, &found), cudaVersion, flags, symbolStatus);
	hand_out(result, symbol, pfn, found);
	return result;
}

/* File name of the library that an address lies in; "" if it has none. Valid as long as that library is loaded. */
static const char *file_name_at(const void *address)
{
	const char *name, *slash;
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return "";
	name = info.dli_fname;
	slash = strrchr(name, '/');
	return slash ? slash + 1 : name;
}

enum table { TABLE_UNKNOWN, TABLE_OF_ANYONE, TABLE_OF_ASKER };

/* Through tables that are not in tables.def work may be submitted unseen. */
static enum table know_table(const unsigned char id[16], const char *asker)
{
#define TABLE(name, asker, ...) {asker, {__VA_ARGS__}},
	static const struct {
		const char *asker;
		unsigned char id[16];
	} known[] = {
#include "tables.def"
	};
#undef TABLE

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (memcmp(known[i].id, id, sizeof(known[i].id)) != 0)
			continue;
		if (!known[i].asker)
			return TABLE_OF_ANYONE;
		if (!strncmp(known[i].asker, asker, strlen(known[i].asker)))
			return TABLE_OF_ASKER;
	}
	return TABLE_UNKNOWN;
}

/* Verbatim: cudart checks the addresses of the tables and of the functions in them. What goes on
 * inside them is not seen; their ids are noted, and who asked where that matters. */
CUresult ENTRY_EXPORT cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
	static const char digits[] = "0123456789abcdef";
	CUresult (*real)(const void **, const CUuuid *);
	char text[128], *to = text;
	unsigned char id[16];
	const char *asker;
	enum table table;
	CUresult result;

	USDT_SCOPE(FUNCTION_cuGetExportTable, !entry_count(FUNCTION_cuGetExportTable));
	real = ENTRY_DRIVER(cuGetExportTable);
	if (!real)
		return entry_missing(FUNCTION_cuGetExportTable);
	result = real(ppExportTable, pExportTableId);
	if (result != CUDA_SUCCESS || !pExportTableId || entry_off)
		return result;
	memcpy(id, pExportTableId, sizeof(id));
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		*to++ = digits[id[i] >> 4];
		*to++ = digits[id[i] & 15];
	}
	*to = '\0';
	asker = file_name_at(__builtin_return_address(0));
	table = know_table(id, asker);
	if (table != TABLE_OF_ANYONE && *asker) {
		*to++ = ' ';
		strncpy(to, asker, (size_t)(text + sizeof(text) - 1 - to));
		text[sizeof(text) - 1] = '\0';
	}
	emit_note(NOTE_EXPORT_TABLE, text);
	rewrite_export_table(table != TABLE_UNKNOWN);
	return result;
}

CUresult ENTRY_EXPORT cuDriverGetVersion(int *driverVersion)
{
	bool rooms = entry_count(FUNCTION_cuDriverGetVersion);
	USDT_SCOPE(FUNCTION_cuDriverGetVersion, !rooms);
	CUresult (*real)(int *) = ENTRY_DRIVER(cuDriverGetVersion);
	CUresult result;

	if (!real)
		return entry_missing(FUNCTION_cuDriverGetVersion);
	result = real(driverVersion);
	if (rooms && result == CUDA_SUCCESS && driverVersion)
		emit_driver(NULL, *driverVersion);
	return result;
}

/* The program's own cuInit; we never call it. What only a process that uses CUDA needs is prepared
 * after its success. */
CUresult ENTRY_EXPORT cuInit(unsigned int Flags)
{
	bool rooms = entry_count(FUNCTION_cuInit);
	USDT_SCOPE(FUNCTION_cuInit, !rooms);
	CUresult (*real)(unsigned int) = ENTRY_DRIVER(cuInit);
	CUresult (*version)(int *);
	CUresult result;
	int number = 0;

	if (!real)
		return entry_missing(FUNCTION_cuInit);
	result = real(Flags);
	if (result != CUDA_SUCCESS)
		return result;
	entry_initialised();
	if (rooms) {
		entry_rooms_enter();
		site_prepare();
		sync_prepare();
		rewrite_start();
		version = ENTRY_DRIVER(cuDriverGetVersion);
		if (version && version(&number) == CUDA_SUCCESS)
			emit_driver(NULL, number);
		entry_rooms_leave();
		emit_trace_start(rewrite_open_allocations);
	}
	return result;
}
