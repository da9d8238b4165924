// SPDX-License-Identifier: MIT
/* Relay daemon (relayd.h). Called by trace.c. */
#include "relayd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <sys/socket.h>

#include "command.h"
#include "memory.h"
#include "process_state.h"

#define READER_NS      UINT64_C(5000000000) /* that a live reader has for the rest */
#define READER_STEP_US 50000

void relayd_choose_ports(int ports[3])
{
	int descriptors[3];

	for (int i = 0; i < 3; i++) {
		struct sockaddr_in address = {.sin_family = AF_INET};
		socklen_t length = sizeof(address);

		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		descriptors[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (bind(descriptors[i], (struct sockaddr *)&address, sizeof(address)) < 0 ||
		    getsockname(descriptors[i], (struct sockaddr *)&address, &length) < 0)
			command_fail(EXIT_RUN, "no free port on 127.0.0.1: %s", strerror(errno));
		ports[i] = ntohs(address.sin_port);
	}
	for (int i = 0; i < 3; i++)
		(void)close(descriptors[i]);
}

/* Connections that a reader holds to our relay daemon. */
static size_t count_readers(int port)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/net/tcp", "re");
	unsigned int local, state;
	size_t count = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		count += sscanf(line, " %*d: %*8x:%x %*8x:%*x %x", &local, &state) == 2 &&
			 (int)local == port && state == TCP_ESTABLISHED;
	return count;
}

void relayd_wait_for_readers(int live_port)
{
	uint64_t limit = process_now_ns() + READER_NS;

	while (count_readers(live_port) && process_now_ns() < limit)
		(void)usleep(READER_STEP_US);
}
