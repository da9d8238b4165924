// SPDX-License-Identifier: MIT
/* Watching: being built; every function says -ENOSYS. */
#include "watch.h"

#include <errno.h>

int watch_open(struct watch **ret_watch, const struct watch_options *options,
	       struct watch_error *error)
{
	return -ENOSYS;
}
const char *watch_missing_capability(bool single, const char **ret_what)
{
	return "CAP_BPF";
}
int watch_add(struct watch *watch, pid_t process, struct watch_error *error)
{
	return -ENOSYS;
}
int watch_add_offset(struct watch *watch, const char *library, uint64_t offset, uint32_t function,
		     struct watch_error *error)
{
	return -ENOSYS;
}
int watch_poll(struct watch *watch, int timeout_ms,
	       void (*each)(const struct watch_call *call, void *data), void *data)
{
	return -ENOSYS;
}
bool watch_ended(const struct watch *watch)
{
	return true;
}
int watch_stats(struct watch *watch, struct watch_stats *stats)
{
	return -ENOSYS;
}
int watch_callers(struct watch *watch, int (*each)(const struct watch_caller *caller, void *data),
		  void *data)
{
	return -ENOSYS;
}
size_t watch_libraries(const struct watch *watch, const struct watch_library **ret_libraries)
{
	return 0;
}
enum watch_site watch_site_of(const struct watch *watch, uint32_t function)
{
	return WATCH_SITE_NONE;
}
const struct watch_process *watch_process_of(struct watch *watch, pid_t process)
{
	return 0;
}
const struct watch_process *watch_process_at(struct watch *watch, size_t index)
{
	return 0;
}
int watch_place_of(struct watch *watch, pid_t process, uint64_t address, uint64_t when_ns,
		   struct watch_place *ret_place)
{
	return -ENOENT;
}
unsigned int watch_detach_estimate_ms(const struct watch *watch)
{
	return 0;
}
int watch_detach(struct watch *watch)
{
	return -ENOSYS;
}
void watch_done(struct watch *watch)
{
}
