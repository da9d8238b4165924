// SPDX-License-Identifier: MIT
/* S08: a thread is blocked in the driver for each result, and wakes whoever waits for it. Fixed: an event is asked for by who wants it. */
#include "common.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static CUstream stream;
static int wanted, done;

#define TURNS (4 * ROUNDS)

static void *wait_for_stream(void *unused)
{
	(void)unused;
	OK(cuCtxSetCurrent(context));
	for (int i = 1; i <= TURNS; i++) {
		(void)pthread_mutex_lock(&lock);
		while (wanted < i)
			(void)pthread_cond_wait(&changed, &lock);
		(void)pthread_mutex_unlock(&lock);
		OK(cuStreamSynchronize(stream)); /* FOUND: S08 */
		(void)pthread_mutex_lock(&lock);
		done = i;
		(void)pthread_cond_broadcast(&changed);
		(void)pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void wait_for_thread(int round)
{
	(void)pthread_mutex_lock(&lock);
	wanted = round;
	(void)pthread_cond_broadcast(&changed);
	while (done < round)
		(void)pthread_cond_wait(&changed, &lock);
	(void)pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
	unsigned long time = BUSY / 2;
	pthread_t thread = 0;
	CUfunction spin;
	CUevent event;

	begin(argc, argv);
	spin = kernel("spin");
	stream = new_stream(CU_STREAM_NON_BLOCKING);
	event = new_event(CU_EVENT_DISABLE_TIMING);
	if (!fixed)
		thread = new_thread(wait_for_stream, NULL);
	for (int i = 1; i <= TURNS; i++) {
		OK(LAUNCH(spin, stream, &time));
		OK(cuEventRecord(event, stream));
		if (!fixed)
			wait_for_thread(i);
		while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
			sleep_ms(1);
	}
	if (!fixed)
		(void)pthread_join(thread, NULL);
	OK(cuEventDestroy(event));
	return 0;
}
