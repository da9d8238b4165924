// SPDX-License-Identifier: MIT
/* slipstream::future: owning, moving, time-outs, callables and their exceptions. */
#include "support.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include <sys/wait.h>

using slipstream::future;
using slipstream::future_mode;

static_assert(!std::is_copy_constructible<future>::value, "move only");
static_assert(!std::is_copy_assignable<future>::value, "move only");
static_assert(std::is_nothrow_move_constructible<future>::value, "for containers");
static_assert(std::is_nothrow_move_assignable<future>::value, "for containers");

static std::atomic<int> calls(0), alive(0);

template <class Condition> static void until(Condition condition)
{
	for (uint64_t start = slipstream_future_now_(); !condition(); pause_ns(MS / 10))
		CHECK(slipstream_future_now_() - start < LONG);
}

/* Move only, and counted, so that its end is seen. */
struct counted {
	std::unique_ptr<int> value;
	explicit counted(int number) : value(new int(number))
	{
		alive++;
	}
	counted(counted &&other) : value(std::move(other.value))
	{
		alive++;
	}
	~counted()
	{
		alive--;
	}
	void operator()(CUresult status)
	{
		CHECK(status == CUDA_SUCCESS);
		CHECK(*value == 42);
		calls++;
	}
};

struct throws_when_copied {
	throws_when_copied()
	{
	}
	throws_when_copied(const throws_when_copied &)
	{
		throw std::runtime_error("no copy");
	}
	void operator()(CUresult)
	{
		calls++;
	}
};

static void owning_and_moving(CUstream stream, gate held)
{
	future empty;

	CHECK(!empty.valid() && empty.wait() == CUDA_ERROR_INVALID_HANDLE);
	CHECK(empty.then([](CUresult) {}) == CUDA_ERROR_INVALID_HANDLE);
	gate_close(held, stream);
	for (future_mode mode : {future_mode::monitor, future_mode::poll}) {
		future first(stream, mode);

		CHECK(first.valid() && first.status() == CUDA_ERROR_NOT_READY);
		future second(std::move(first));
		CHECK(!first.valid() && second.valid());
		empty = std::move(second);
		CHECK(!second.valid() && empty.status() == CUDA_ERROR_NOT_READY);
	}
	CHECK(empty.wait_for(std::chrono::milliseconds(3)) == CUDA_ERROR_NOT_READY);
	CHECK(empty.wait_for(std::chrono::microseconds(-3)) == CUDA_ERROR_NOT_READY);
	CHECK(empty.wait_for(std::chrono::duration<float>(0.001f)) == CUDA_ERROR_NOT_READY);
	gate_open(held);
	CHECK(empty.wait_for(std::chrono::hours::max()) == CUDA_SUCCESS);
	CHECK(empty.wait() == CUDA_SUCCESS);
}

static void callables(CUstream stream, gate held)
{
	throws_when_copied thrower;
	int base = calls;

	gate_close(held, stream);
	{
		future given_up(stream);

		CHECK(given_up.then(counted(42)) == CUDA_SUCCESS);
		CHECK(given_up.then(counted(42)) == CUDA_SUCCESS);
		CHECK(alive == 2);
		try {
			(void)given_up.then(thrower);
			CHECK(!"must throw");
		} catch (const std::runtime_error &) {
		}
	}
	CHECK(alive == 2 && calls == base);
	gate_open(held);
	until([base] { return calls == base + 2 && alive == 0; });

	future other(stream, future_mode::poll);
	std::atomic<bool> seen(false);
	CHECK(other.then([&](CUresult status) { seen = status == CUDA_SUCCESS; }) == CUDA_SUCCESS);
	until([&] { return seen.load(); });
	pause_ns(5 * MS);
	CHECK(calls == base + 2);
}

static void failures()
{
	future bad(reinterpret_cast<CUstream>(&calls));

	CHECK(!bad.valid() && bad.wait() == CUDA_ERROR_INVALID_HANDLE);
	CHECK(bad.wait_for(std::chrono::seconds(1)) == CUDA_ERROR_INVALID_HANDLE);
}

/* An exception that leaves a callable ends the program, as that of a std::thread. */
static int throws_in_a_callable()
{
	std::set_terminate([] { _exit(77 + 1); });
	start_driver(0);
	future done(new_stream());
	CHECK(done.then([](CUresult) { throw std::runtime_error("out"); }) == CUDA_SUCCESS);
	for (;;)
		pause();
}

int main()
{
	int status = 0;
	pid_t child = fork();

	alarm(50);
	if (!child)
		return throws_in_a_callable();
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 78);

	start_driver(0);
	CUstream stream = new_stream();
	gate held = new_gate();
	owning_and_moving(stream, held);
	callables(stream, held);
	failures();
	return 0;
}
