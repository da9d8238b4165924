// SPDX-License-Identifier: MIT
/*
 * Regions, entered several times, and steps: what waits where is given by the argument. Of test_regions.py.
 *
 *	entries	region step five times: the third has two implicit waits, one of them in region inner, the fourth two that are allowed, the fifth
 *		an explicit one
 *	step	five steps by slipstream_step(), the same waits, one of them in another thread; before the first step one more
 *	graph	the same waits behind cuGraphLaunch, which begins the steps
 *	late	a region that begins before the first step, and goes on in it
 *	names	2000 names of regions, each entered twice, of which each hundredth waits once
 *	killed	a region that waits twice, and the process ends in it
 *	fork	a child that enters regions and never calls the driver
 *	deep	a wait 40 regions deep
 *	threads	eight threads enter region step a hundred times each, and wait twice in each second entry; each entry begins a step of its own
 *	signals	regions that begin and end while each instruction is interrupted by a handler that has regions of its own
 *	before	five steps before any driver call, and a child forked there, which begins one more and waits twice in it
 *	cut	a name whose 63rd byte is in the middle of a character
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slipstream/slipstream.h>

#include "common.h"

static CUdeviceptr device;
static CUcontext context;
static void *host;

static void implicit_wait(void)
{
	spin(NULL, BUSY);
	OK(cuMemcpyDtoH(host, device, 4096));
}

static void explicit_wait(void)
{
	spin(NULL, BUSY);
	OK(cuStreamSynchronize(NULL));
}

static void *other_thread(void *data)
{
	(void)data;
	OK(cuCtxSetCurrent(context));
	implicit_wait();
	return NULL;
}

static void work(int step, int in_thread)
{
	pthread_t thread;

	if (step == 3) {
		implicit_wait();
		SLIPSTREAM_REGION("inner");
		if (in_thread) {
			if (pthread_create(&thread, NULL, other_thread, NULL))
				abort();
			pthread_join(thread, NULL);
		} else {
			implicit_wait();
		}
	}
	if (step == 4) {
		SLIPSTREAM_ALLOW_SYNC("meant");
		explicit_wait();
		explicit_wait();
	}
	if (step == 5)
		explicit_wait();
}

static void entries(void)
{
	for (int i = 1; i <= 5; i++) {
		SLIPSTREAM_REGION("step");
		work(i, 0);
	}
}

static void steps(void)
{
	implicit_wait();
	for (int i = 1; i <= 5; i++) {
		slipstream_step();
		work(i, 1);
	}
}

static void graphs(void)
{
	CUgraphExec runnable;
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiate(&runnable, graph, 0));
	for (int i = 1; i <= 5; i++) {
		OK(cuGraphLaunch(runnable, NULL));
		work(i, 0);
	}
}

static void late(void)
{
	SLIPSTREAM_REGION("epoch");
	implicit_wait();
	slipstream_step();
	implicit_wait();
}

static void names(void)
{
	char name[32];

	for (int i = 0; i < 4000; i++) {
		(void)snprintf(name, sizeof(name), "name %d", i % 2000);
		slipstream_region_begin(name);
		if (i < 2000 && i % 100 == 99) {
			spin(NULL, BUSY / 10);
			OK(cuMemcpyDtoH(host, device, 4096));
		}
		slipstream_region_end();
	}
}

static void killed(void)
{
	SLIPSTREAM_REGION("step");
	implicit_wait();
	implicit_wait();
	raise(SIGKILL);
}

static void forked(void)
{
	pid_t child;

	{
		SLIPSTREAM_REGION("step");
		implicit_wait();
	}
	child = fork();
	if (!child) {
		for (int i = 0; i < 10; i++) {
			SLIPSTREAM_REGION("step");
		}
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void deep(void)
{
	for (int i = 0; i < 40; i++)
		slipstream_region_begin("deep");
	implicit_wait();
	for (int i = 0; i < 40; i++)
		slipstream_region_end();
	implicit_wait();
}

static void *enter_often(void *data)
{
	(void)data;
	OK(cuCtxSetCurrent(context));
	for (int i = 0; i < 100; i++) {
		SLIPSTREAM_REGION("frame");
		slipstream_step();
		if (i % 2) {
			OK(cuStreamSynchronize(NULL));
			OK(cuStreamSynchronize(NULL));
		}
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];

	for (int i = 0; i < 8; i++)
		if (pthread_create(&thread[i], NULL, enter_often, NULL))
			abort();
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

/* Single steps of the processor: between any two instructions comes a signal. */
static void on_step(int number)
{
	(void)number;
	slipstream_region_begin("handler");
	slipstream_region_end();
}

#ifdef __x86_64__
static void interrupt_each(int on)
{
	unsigned long flags;

	__asm__ volatile("sub $128, %%rsp; pushfq; pop %0; add $128, %%rsp"
			 : "=r"(flags)::"memory");
	flags = on ? flags | 0x100 : flags & ~0x100UL;
	__asm__ volatile("sub $128, %%rsp; push %0; popfq; lea 128(%%rsp), %%rsp" ::"r"(flags)
			 : "memory", "cc");
}
#endif

static void signals(void)
{
	(void)signal(SIGTRAP, on_step);
#ifdef __x86_64__
	for (int i = 0; i < 3; i++) {
		interrupt_each(1);
		slipstream_region_begin("outer");
		slipstream_region_begin("inner");
		interrupt_each(0);
		implicit_wait();
		interrupt_each(1);
		slipstream_region_end();
		slipstream_region_end();
		interrupt_each(0);
	}
#endif
	implicit_wait();
}

static pid_t child = -1;

static void before_the_driver(void)
{
	for (int i = 0; i < 5; i++)
		slipstream_step();
	child = fork();
	if (!child)
		slipstream_step();
}

static void before(void)
{
	implicit_wait();
	if (!child)
		implicit_wait();
	else
		waitpid(child, NULL, 0);
}

static void cut(void)
{
	SLIPSTREAM_REGION("12345678901234567890123456789012345678901234567890123456789012\u00e4");
	implicit_wait();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*go)(void);
	} ways[] = {{"entries", entries}, {"step", steps},      {"graph", graphs},  {"late", late},
		    {"names", names},     {"killed", killed},   {"fork", forked},   {"deep", deep},
		    {"threads", threads}, {"signals", signals}, {"before", before}, {"cut", cut}};

	if (argc == 2 && !strcmp(argv[1], "before"))
		before_the_driver();
	begin();
	OK(cuCtxGetCurrent(&context));
	device = on_device(4096);
	host = pinned(4096);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (argc == 2 && !strcmp(argv[1], ways[i].name))
			ways[i].go();
	return 0;
}
