// SPDX-License-Identifier: MIT
/*
 * User: preloaded by session.py into LTTng's daemons and its client where root runs the tests. For root
 * they know one place on the machine, /var/run/lttng; another user has LTTNG_HOME. All rights stay
 * root's, since the kernel is not asked.
 */
#include <sys/types.h>
#include <unistd.h>

#define SOMEBODY 2147400002U /* no account has it */

uid_t getuid(void)
{
	return SOMEBODY;
}

uid_t geteuid(void)
{
	return SOMEBODY;
}
