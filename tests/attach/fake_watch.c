// SPDX-License-Identifier: MIT
/* A watch that is told what it saw (fake_watch.h): what the writer asks of a watch. */
#include "fake_watch.h"

#include <errno.h>

const struct watch_process *watch_process_of(struct watch *watch, pid_t process)
{
	for (size_t i = 0; i < watch->process_count; i++)
		if (watch->processes[i].id == process)
			return &watch->processes[i];
	return NULL;
}

const struct watch_process *watch_process_at(struct watch *watch, size_t index)
{
	return index < watch->process_count ? &watch->processes[index] : NULL;
}

int watch_place_of(struct watch *watch, pid_t process, uint64_t address, uint64_t when_ns,
		   struct watch_place *ret_place)
{
	for (size_t i = 0; i < watch->mapping_count; i++) {
		const struct fake_mapping *mapping = &watch->mappings[i];

		if (mapping->process != process || address < mapping->start ||
		    address >= mapping->end)
			continue;
		*ret_place = (struct watch_place){
			.path = mapping->path,
			.inode = mapping->inode,
			.start = mapping->start,
			.end = mapping->end,
			.offset = address - mapping->start + mapping->offset,
		};
		return 0;
	}
	return -ENOENT;
}

size_t watch_libraries(const struct watch *watch, const struct watch_library **ret_libraries)
{
	*ret_libraries = &watch->library;
	return watch->library.path ? 1 : 0;
}

int watch_callers(struct watch *watch, int (*each)(const struct watch_caller *caller, void *data),
		  void *data)
{
	for (size_t i = 0; i < watch->caller_count; i++) {
		int r = each(&watch->callers[i], data);

		if (r)
			return r;
	}
	return 0;
}
