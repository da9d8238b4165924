/* SPDX-License-Identifier: MIT */
/*
 * future_class.h: completion futures for C++: class slipstream::future.
 *
 * Internal to future.h; include that. Relies on: its C functions, whose rules hold here as well.
 *
 *	slipstream::future done(stream);
 *	done.then([&](CUresult status) { queue.push(status); });
 *	if (done.wait_for(std::chrono::milliseconds(5)) == CUDA_ERROR_NOT_READY)
 *		...
 *
 * Move only, owns one reference. No member throws by itself, and none needs exceptions to be
 * enabled: a future that could not be made has ended, with the reason as its status.
 */
#ifndef SLIPSTREAM_FUTURE_CLASS_H
#define SLIPSTREAM_FUTURE_CLASS_H

#include <chrono>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

/* Where this is read by itself. */
#include "future.h"

namespace slipstream
{

enum class future_mode { monitor, poll };

/* Hidden, as in slipstream.h: each library has its own. */
class __attribute__((__visibility__("hidden"))) future
{
      public:
	/* Of no work: status CUDA_ERROR_INVALID_HANDLE. */
	future() noexcept : future_(nullptr), status_(CUDA_ERROR_INVALID_HANDLE)
	{
	}

	/* Of the work that the stream has now. */
	explicit future(CUstream stream, future_mode mode = future_mode::monitor) noexcept
	    : future_(nullptr), status_(CUDA_SUCCESS)
	{
		status_ = slipstream_future_create(&future_, stream,
						   mode == future_mode::poll
							   ? SLIPSTREAM_FUTURE_POLL
							   : SLIPSTREAM_FUTURE_MONITOR);
	}

	future(future &&other) noexcept : future_(other.future_), status_(other.status_)
	{
		other.future_ = nullptr;
		other.status_ = CUDA_ERROR_INVALID_HANDLE;
	}

	future &operator=(future &&other) noexcept
	{
		future moved(std::move(other));

		std::swap(future_, moved.future_);
		std::swap(status_, moved.status_);
		return *this;
	}

	future(const future &) = delete;
	future &operator=(const future &) = delete;

	/* Does not wait: an unfinished future's callables are still called. */
	~future()
	{
		slipstream_future_destroy(future_);
	}

	/* Whether it stands for work; false after a failure, a move, or the default constructor. */
	bool valid() const noexcept
	{
		return future_ != nullptr;
	}

	CUresult status() const noexcept
	{
		return future_ ? slipstream_future_status(future_) : status_;
	}

	CUresult wait() const noexcept
	{
		return future_ ? slipstream_future_wait(future_) : status_;
	}

	/* CUDA_ERROR_NOT_READY if it has not ended by then. */
	template <class Rep, class Period>
	CUresult wait_for(const std::chrono::duration<Rep, Period> &timeout) const
	{
		const std::chrono::duration<double, std::nano> wanted(timeout);
		uint64_t ns = SLIPSTREAM_FUTURE_FOREVER;

		if (!future_)
			return status_;
		if (!(wanted.count() > 0))
			ns = 0;
		else if (wanted.count() < 9e18)
			ns = static_cast<uint64_t>(wanted.count());
		return slipstream_future_wait_for(future_, ns);
	}

	/*
	 * Has callable(status) called once, as slipstream_future_then() says, and then destroyed,
	 * both in the monitor's thread; if it is never called (exit, fork), it is never destroyed.
	 * Of a future without work: CUDA_ERROR_INVALID_HANDLE, and it is not called.
	 *
	 * Exceptions: what copying or moving the callable throws comes out here, and nothing has
	 * changed. What a call throws has nowhere to go: std::terminate, as in a std::thread.
	 */
	template <class Callable> CUresult then(Callable &&callable) const
	{
		typedef typename std::decay<Callable>::type stored;
		CUresult result;

		if (!future_)
			return CUDA_ERROR_INVALID_HANDLE;
		std::unique_ptr<stored> copy(new (std::nothrow)
						     stored(std::forward<Callable>(callable)));
		if (!copy)
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = slipstream_future_then(future_, &call<stored>, copy.get());
		if (result == CUDA_SUCCESS)
			(void)copy.release();
		return result;
	}

      private:
	/* noexcept: an exception must not unwind through C code and the monitor. */
	template <class Callable> static void call(CUresult status, void *data) noexcept
	{
		std::unique_ptr<Callable> callable(static_cast<Callable *>(data));

		(*callable)(status);
	}

	struct slipstream_future *future_;
	CUresult status_;
};

} // namespace slipstream

#endif
