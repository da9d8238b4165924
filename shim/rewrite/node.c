// SPDX-License-Identifier: MIT
/*
 * Node: on which node of memory a thread's new pinned memory lies (pinned.h). A block that was pinned near one processor is slow from the
 * other, so blocks of different nodes do not serve each other. Called by pinned.c and short.c.
 *
 * The driver pins pages that the kernel gives by the thread's memory policy: a fixed node, or the node of the processor the thread runs on.
 * The answer is kept for ASK_AGAIN calls. A thread that moved in between gets a slower block, nothing worse.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rewrite/pinned.h"
#include "uncancelled.h"

#define ASK_AGAIN 64
/* Pages of one block lie on several nodes. */
#define NODE_SPREAD POOL_NODE_MAX
#define NODE_WORDS  16 /* of a mask; kernels ask for as many bits as they may have */

bool node_many;

static __thread struct {
	uint32_t left, node;
} kept __attribute__((tls_model("initial-exec")));

void node_start(void)
{
	char text[64] = "";
	int saved = errno;
	int file = uncancelled_open("/sys/devices/system/node/online", O_RDONLY | O_CLOEXEC, 0);
	ssize_t length = file < 0 ? 0 : uncancelled_read(file, text, sizeof(text) - 1);

	if (file >= 0)
		uncancelled_close(file);
	errno = saved;
	/* "0" where there is one node, "0-1" or "0,2" where there are more. */
	node_many = length > 0 && strpbrk(text, "-,");
}

/* The only bit of the mask; NODE_SPREAD: there are more. */
static uint32_t only_node(const unsigned long *mask)
{
	uint32_t node = NODE_SPREAD, found = 0, i;

	for (i = 0; i < NODE_WORDS * 64; i++) {
		if (!(mask[i / 64] >> i % 64 & 1))
			continue;
		node = i;
		found++;
	}
	return found == 1 && node < NODE_SPREAD ? node : NODE_SPREAD;
}

static uint32_t node_now(void)
{
	unsigned long mask[NODE_WORDS] = {0};
	unsigned int cpu, node = 0;
	int mode = MPOL_DEFAULT, saved = errno;

	if (syscall(SYS_get_mempolicy, &mode, mask, NODE_WORDS * 64UL, NULL, 0UL) != 0)
		mode = MPOL_DEFAULT;
	if (getcpu(&cpu, &node) != 0)
		node = 0;
	errno = saved;
	switch (mode & ~MPOL_MODE_FLAGS) {
	case MPOL_BIND:
		return only_node(mask);
	case MPOL_PREFERRED:
		/* An empty mask means the processor's own. */
		return mask[0] ? only_node(mask) : node % NODE_SPREAD;
	case MPOL_INTERLEAVE:
		return NODE_SPREAD;
	default:
		return node % NODE_SPREAD;
	}
}

uint32_t node_ask(void)
{
	if (!kept.left--) {
		kept.node = node_now();
		kept.left = ASK_AGAIN - 1;
	}
	return kept.node;
}
