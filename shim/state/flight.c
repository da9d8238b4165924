// SPDX-License-Identifier: MIT
/*
 * Flight (flight.h). Called by state_before(), state_after() and the short way of launches, which count; by the proofs (proof.h), and by the legacy room's
 * wait for short launches (launch.h), which look.
 */
#include "state/flight.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call.h"
#include "clock.h"
#include "state/internal.h"
#include "state/launch.h"
#include "state/proof.h"
#include "state/state.h"

/* How often one that launches is let go on. */
#define SETTLE_YIELDS 200
/* A look takes a microsecond; who does not come back from one is dead, or stopped for good. */
#define LOOKERS_NS UINT64_C(10000000000)

enum flight_kind { FLIGHT_NONE, FLIGHT_ROW, FLIGHT_CROWD };

static struct launch_row *rows[FLIGHT_ROWS];
static uint32_t used; /* rows below it may be on the list; never less */
/* Of who is listed there: another one for each thread. */
static uint32_t serials[FLIGHT_ROWS];
/* How many looks the thread of this row is inside, by row; written by it only. Lines of their own: a free counts. */
static struct {
	uint32_t inside;
} __attribute__((aligned(64))) lookers[FLIGHT_ROWS];
static struct {
	uint32_t begun, over;
} crowd __attribute__((aligned(64)));

static uint32_t is_counting; /* state_flights_start() */
static uint32_t is_fencing;  /* state_launch_watch(): membarrier(2) is there */

/* Keeps errno: a sandbox may refuse it. */
static bool fence_all(int command)
{
	int saved = errno;
	bool done = syscall(SYS_membarrier, command, 0, 0) == 0;

	errno = saved;
	return done;
}

bool state_launch_watch(void)
{
	if (!fence_all(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		return false;
	STATE_STORE(&is_fencing, 1);
	state_flights_start();
	return true;
}

void state_flights_start(void)
{
	/* Where it is there already, or not: both ways are sound. */
	if (!STATE_LOAD(&is_fencing) && fence_all(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		STATE_STORE(&is_fencing, 1);
	STATE_STORE(&is_counting, 1);
}

static __attribute__((noinline)) bool list(struct launch_row *row)
{
	uint32_t i;

	if (!lock_take(&state_lock))
		return false;
	/* Acquire: pairs with the end of the thread that had the row. */
	for (i = 0; i < FLIGHT_ROWS && __atomic_load_n(&rows[i], __ATOMIC_ACQUIRE); i++)
		;
	if (i < FLIGHT_ROWS) {
		STATE_STORE(&serials[i], serials[i] + 1);
		/* Release: pairs with row_at() and with who reads `used`. */
		__atomic_store_n(&rows[i], row, __ATOMIC_RELEASE);
		if (i >= used)
			__atomic_store_n(&used, i + 1, __ATOMIC_RELEASE);
		row->place = i + 1;
	}
	lock_give(&state_lock);
	return row->place;
}

static inline bool is_listed(struct launch_row *row)
{
	return __builtin_expect(row->place != 0, 1) || list(row);
}

bool flight_has_row(struct launch_row *row)
{
	return !STATE_LOAD(&is_counting) || is_listed(row);
}

void flight_begins(struct call *call)
{
	struct launch_row *row = &launch_thread.row;

	/* The short way has counted it. */
	if (call->flags & CALL_LATE) {
		call->flight = FLIGHT_ROW;
	} else if (!STATE_LOAD(&is_counting)) {
		call->flight = FLIGHT_NONE;
	} else if (is_listed(row)) {
		launch_count(&row->entered);
		call->flight = FLIGHT_ROW;
	} else {
		__atomic_add_fetch(&crowd.begun, 1, __ATOMIC_SEQ_CST);
		call->flight = FLIGHT_CROWD;
	}
}

void flight_is_over(const struct call *call)
{
	/* What comes before, the number above all, comes before (on x86 for the compiler only). */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	if (call->flight == FLIGHT_ROW)
		launch_count(&launch_thread.row.numbered);
	else if (call->flight == FLIGHT_CROWD)
		__atomic_add_fetch(&crowd.over, 1, __ATOMIC_RELEASE);
}

/* False: not now. */
static bool look_begin(void)
{
	struct launch_row *own = &launch_thread.row;

	if (!is_listed(own))
		return false;
	launch_count(&lookers[own->place - 1].inside);
	/* Before a row is read: pairs with state_thread_ends(), whose membarrier(2) stands for the fence here. */
	if (STATE_LOAD(&is_fencing))
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	else
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

static void look_end(void)
{
	uint32_t *inside = &lookers[launch_thread.row.place - 1].inside;

	/* Release: the rows have been read. A signal handler's look is over before it returns, so no other count is lost. */
	__atomic_store_n(inside, STATE_LOAD(inside) - 1, __ATOMIC_RELEASE);
}

void state_thread_ends(void)
{
	struct launch_row *row = &launch_thread.row;
	uint64_t begun = clock_ticks();
	uint32_t i, count = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

	if (!row->place)
		return;
	/* Cancelled in the driver, say: what it submitted has no number, and never will. */
	if (row->entered != row->numbered || row->begun != row->over)
		state_doubt("off: a thread ended inside a call that submits");
	/* It may have ended inside a look of its own. */
	__atomic_store_n(&lookers[row->place - 1].inside, 0, __ATOMIC_RELEASE);
	/* Without the lock, which this thread may be inside: nobody else stores here while it is not NULL. */
	__atomic_store_n(&rows[row->place - 1], NULL, __ATOMIC_RELEASE);
	row->place = 0;
	/* Who looks now and does not see that is seen here. */
	if (!STATE_LOAD(&is_fencing) || !fence_all(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < count; i++)
		while (__atomic_load_n(&lookers[i].inside, __ATOMIC_ACQUIRE) &&
		       clock_duration_ns(begun, clock_ticks()) < LOOKERS_NS)
			sched_yield();
}

/* Between look_begin() and look_end(). NULL: nobody's, or the own one. */
static const struct launch_row *row_at(uint32_t place)
{
	const struct launch_row *row = __atomic_load_n(&rows[place], __ATOMIC_ACQUIRE);

	return row == &launch_thread.row ? NULL : row;
}

static bool has_come_to(const struct launch_row *row, uint32_t begun, uint32_t entered)
{
	return (int32_t)(__atomic_load_n(&row->over, __ATOMIC_ACQUIRE) - begun) >= 0 &&
	       (int32_t)(__atomic_load_n(&row->numbered, __ATOMIC_ACQUIRE) - entered) >= 0;
}

/* Acquire: a count that comes later is not read before what was begun earlier. */
static uint32_t begun_of(const uint32_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static bool crowd_is_flying(void)
{
	/*
	 * Of several one may be over that began later: only none at all is none of those. `over` first: one that begins and ends between the
	 * two looks must not make up for one that is under way.
	 */
	uint32_t over = __atomic_load_n(&crowd.over, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&crowd.begun, __ATOMIC_ACQUIRE) != over;
}

bool state_flights(struct state_flight *ret_flights, uint32_t most, uint32_t *ret_count)
{
	uint32_t place, count = 0, end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
	const struct launch_row *row;
	struct state_flight flight;
	bool fits = true;

	if (crowd_is_flying())
		return false;
	/* A thread by itself. */
	*ret_count = 0;
	if (!end || (end == 1 && launch_thread.row.place == 1))
		return true;
	if (!look_begin())
		return false;
	for (place = 0; place < end && fits; place++) {
		row = row_at(place);
		if (!row)
			continue;
		flight = (struct state_flight){place, STATE_LOAD(&serials[place]),
					       begun_of(&row->begun), begun_of(&row->entered)};
		if (has_come_to(row, flight.begun, flight.entered))
			continue;
		fits = count < most;
		if (fits)
			ret_flights[count++] = flight;
	}
	look_end();
	*ret_count = count;
	return fits;
}

bool state_flight_is_over(const struct state_flight *flight)
{
	const struct launch_row *row;
	bool over;

	/* Whoever has the place now is another. */
	if (STATE_LOAD(&serials[flight->place]) != flight->serial)
		return true;
	if (!look_begin())
		return false;
	row = row_at(flight->place);
	over = !row || STATE_LOAD(&serials[flight->place]) != flight->serial ||
	       has_come_to(row, flight->begun, flight->entered);
	look_end();
	return over;
}

bool state_is_flying(void)
{
	struct state_flight flight;
	uint32_t count;

	return !state_flights(&flight, 1, &count) || count;
}

/* Short launches of another thread that began before: are they over? Between look_begin() and look_end(). */
static bool is_settled(const struct launch_row *row)
{
	uint32_t begun = STATE_LOAD(&row->begun);
	int patience = SETTLE_YIELDS;

	while ((int32_t)(__atomic_load_n(&row->over, __ATOMIC_ACQUIRE) - begun) < 0)
		if (!patience-- || sched_yield())
			return false;
	return true;
}

bool state_launch_settled(void)
{
	uint32_t place, end;
	const struct launch_row *row;
	bool settled = true;

	/* Between a thread's count and its looks at what has changed (state_launch_begins()); it cannot come before both. */
	if (!fence_all(MEMBARRIER_CMD_PRIVATE_EXPEDITED) || !look_begin())
		return false;
	end = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
	for (place = 0; place < end && settled; place++) {
		row = row_at(place);
		settled = !row || is_settled(row);
	}
	look_end();
	return settled;
}

void flight_clear(void)
{
	uint32_t i;

	for (i = 0; i < used; i++) {
		rows[i] = NULL;
		lookers[i].inside = 0;
	}
	used = 0;
	crowd.begun = crowd.over = 0;
}
