// SPDX-License-Identifier: MIT
/*
 * Programs without a dependence that can be found: `ways right` does the same in every mode, `ways random` prints another number each time,
 * `ways bad` crashes in mode fix only, at no call site (it looks for the mode itself), `ways hang` hangs there.
 */
#include "planted.h"

#include <time.h>
#include <unistd.h>

static int is_fixed(void)
{
	const char *mode = getenv("SLIPSTREAM_MODE");

	return mode && !strcmp(mode, "fix");
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "right";
	struct timespec now;

	start();
	run_innocent();
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!strcmp(way, "random"))
		printf("%ld %d\n", now.tv_nsec, (int)getpid());
	else
		printf("right\n");
	fflush(stdout);
	if (!strcmp(way, "bad") && is_fixed())
		abort();
	while (!strcmp(way, "hang") && is_fixed())
		pause();
	return 0;
}
