/* SPDX-License-Identifier: MIT */
/*
 * slipstream.h: the public header. A program may use it to tell the preloaded library what it is
 * doing; nothing else in slipstream needs a program's help.
 *
 * A region names a stretch of the calling thread's work: waits inside it are reported under that
 * name. An allowed-sync scope says that waits inside it are meant, and why: they are reported
 * apart. A step is a region of the whole process, named step, that ends where the next one begins.
 *
 * The first two nest, belong to the calling thread, and copy their text, so that it need not outlive the
 * call.
 *
 *	void frame(void)
 *	{
 *		SLIPSTREAM_REGION("frame");
 *		...
 *		{
 *			SLIPSTREAM_ALLOW_SYNC("the result is printed next");
 *			cuStreamSynchronize(stream);
 *		}
 *	}
 *
 * Header only: no library to link, no option to pass; works as C99 and later and as C++11 and
 * later, in PIE, non-PIE, shared and static code. Where slipstream is not preloaded, a call costs
 * one load and one branch.
 *
 * How it finds the library: the first call in each translation unit asks dlsym(RTLD_DEFAULT) for
 * five names and keeps the answer. A direct weak reference to those names would be shorter, but
 * the linker settles an undefined weak name to 0 for good in a non-PIE program, and a preload
 * would then go unseen. dlsym itself is referenced weakly and under another name (a weakref), so
 * that <dlfcn.h> may be included or not, that a static program neither pulls in the dynamic
 * loader nor gets its linker warning (it has no dlsym, so the calls do nothing), and that nothing
 * has to be linked (before glibc 2.34 dlsym is in libdl: without it, the calls do nothing
 * either).
 *
 * #define SLIPSTREAM_DISABLE before including it to compile every call away.
 */
#ifndef SLIPSTREAM_SLIPSTREAM_H
#define SLIPSTREAM_SLIPSTREAM_H

#if !defined(SLIPSTREAM_DISABLE) && defined(__ELF__) && defined(__GNUC__)
#define SLIPSTREAM_ENABLED 1
#else
#define SLIPSTREAM_ENABLED 0
#endif

#if SLIPSTREAM_ENABLED

/* Number of each function in struct slipstream_link. */
#define SLIPSTREAM_LINK_REGION_BEGIN 0
#define SLIPSTREAM_LINK_REGION_END   1
#define SLIPSTREAM_LINK_ALLOW_BEGIN  2
#define SLIPSTREAM_LINK_ALLOW_END    3
#define SLIPSTREAM_LINK_COUNT        4

/*
 * What the first call found. Threads that race through the first call store the same values.
 * `state` is stored last with release order, and pairs with the acquire load in
 * slipstream_present_(): who sees SLIPSTREAM_PRESENT sees the addresses.
 */
struct slipstream_link {
	int state; /* 0: not asked yet; else one of the two below */
	void *function[SLIPSTREAM_LINK_COUNT];
	void *step; /* NULL: an older library, which has no steps */
};

#define SLIPSTREAM_ABSENT  1
#define SLIPSTREAM_PRESENT 2

static struct slipstream_link slipstream_link_ __attribute__((__unused__));

static void *slipstream_dlsym_(void *handle, const char *name)
	__attribute__((__weakref__("dlsym"), __unused__));

static __inline__ __attribute__((__unused__)) void *slipstream_find_(const char *name)
{
	/*
	 * The null handle is RTLD_DEFAULT, spelt out since <dlfcn.h> shows it only under
	 * _GNU_SOURCE.
	 */
	return slipstream_dlsym_((void *)0, name);
}

/* Out of line, so that each use stays as short as a load and a branch. */
static __attribute__((__noinline__, __cold__, __unused__)) int slipstream_connect_(void)
{
	struct slipstream_link *link = &slipstream_link_;
	void *function[SLIPSTREAM_LINK_COUNT];
	int state = SLIPSTREAM_ABSENT;
	int i;

	if (slipstream_dlsym_) {
		function[SLIPSTREAM_LINK_REGION_BEGIN] =
			slipstream_find_("slipstream_region_begin");
		function[SLIPSTREAM_LINK_REGION_END] = slipstream_find_("slipstream_region_end");
		function[SLIPSTREAM_LINK_ALLOW_BEGIN] = slipstream_find_("slipstream_allow_begin");
		function[SLIPSTREAM_LINK_ALLOW_END] = slipstream_find_("slipstream_allow_end");

		/* All or nothing: a begin without its end would never close. */
		state = SLIPSTREAM_PRESENT;
		for (i = 0; i < SLIPSTREAM_LINK_COUNT; i++) {
			if (!function[i])
				state = SLIPSTREAM_ABSENT;
			__atomic_store_n(&link->function[i], function[i], __ATOMIC_RELAXED);
		}
		__atomic_store_n(&link->step, slipstream_find_("slipstream_step"),
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&link->state, state, __ATOMIC_RELEASE);
	return state;
}

static __inline__ __attribute__((__unused__)) int slipstream_present_(void)
{
	int state = __atomic_load_n(&slipstream_link_.state, __ATOMIC_ACQUIRE);

	if (__builtin_expect(!state, 0))
		state = slipstream_connect_();
	return __builtin_expect(state == SLIPSTREAM_PRESENT, 0);
}

static __inline__ __attribute__((__unused__)) void slipstream_call_text_(int which,
									 const char *text)
{
	void (*function)(const char *);
	void *address;

	if (!slipstream_present_())
		return;
	address = __atomic_load_n(&slipstream_link_.function[which], __ATOMIC_RELAXED);
	__builtin_memcpy(&function, &address, sizeof(function));
	function(text);
}

static __inline__ __attribute__((__unused__)) void slipstream_call_(int which)
{
	void (*function)(void);
	void *address;

	if (!slipstream_present_())
		return;
	address = __atomic_load_n(&slipstream_link_.function[which], __ATOMIC_RELAXED);
	__builtin_memcpy(&function, &address, sizeof(function));
	function();
}

static __inline__ __attribute__((__unused__)) void slipstream_call_step_(void)
{
	void (*function)(void);
	void *address;

	if (!slipstream_present_())
		return;
	address = __atomic_load_n(&slipstream_link_.step, __ATOMIC_RELAXED);
	if (!address)
		return;
	__builtin_memcpy(&function, &address, sizeof(function));
	function();
}

#define SLIPSTREAM_CALL_TEXT_(which, text) slipstream_call_text_(SLIPSTREAM_LINK_##which, text)
#define SLIPSTREAM_CALL_(which)            slipstream_call_(SLIPSTREAM_LINK_##which)
#define SLIPSTREAM_INLINE_                 static __inline__ __attribute__((__unused__))

#else /* !SLIPSTREAM_ENABLED */

#define SLIPSTREAM_CALL_TEXT_(which, text) ((void)(text))
#define SLIPSTREAM_CALL_(which)            ((void)0)
#define SLIPSTREAM_INLINE_                 static inline

SLIPSTREAM_INLINE_ int slipstream_present_(void)
{
	return 0;
}

SLIPSTREAM_INLINE_ void slipstream_call_step_(void)
{
}

#endif

/* 1 if slipstream is preloaded into this process. */
SLIPSTREAM_INLINE_ int slipstream_is_present(void)
{
	return slipstream_present_();
}

/*
 * The calls. They bear the names of the library's own functions, which they look up; being
 * static, they do not clash.
 */
SLIPSTREAM_INLINE_ void slipstream_region_begin(const char *name)
{
	SLIPSTREAM_CALL_TEXT_(REGION_BEGIN, name);
}

SLIPSTREAM_INLINE_ void slipstream_region_end(void)
{
	SLIPSTREAM_CALL_(REGION_END);
}

SLIPSTREAM_INLINE_ void slipstream_allow_begin(const char *reason)
{
	SLIPSTREAM_CALL_TEXT_(ALLOW_BEGIN, reason);
}

SLIPSTREAM_INLINE_ void slipstream_allow_end(void)
{
	SLIPSTREAM_CALL_(ALLOW_END);
}

/* A new step of the program begins: of all its threads, until the next call by any thread. */
SLIPSTREAM_INLINE_ void slipstream_step(void)
{
	slipstream_call_step_();
}

#define SLIPSTREAM_JOIN_(a, b) a##b
#define SLIPSTREAM_NAME_(a, b) SLIPSTREAM_JOIN_(a, b)

#ifdef __cplusplus

/*
 * Hidden: a C++ program's copies of these stay inside each library, so that it can be unloaded.
 */
#if SLIPSTREAM_ENABLED
#define SLIPSTREAM_HIDDEN_ __attribute__((__visibility__("hidden")))
#else
#define SLIPSTREAM_HIDDEN_
#endif

namespace slipstream
{

/* A region from construction to the end of the scope, exceptions included. */
class SLIPSTREAM_HIDDEN_ region
{
      public:
	explicit region(const char *name)
	{
		slipstream_region_begin(name);
	}
	~region()
	{
		slipstream_region_end();
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;
};

/* Waits are meant from construction to the end of the scope. */
class SLIPSTREAM_HIDDEN_ allow_sync
{
      public:
	explicit allow_sync(const char *reason)
	{
		slipstream_allow_begin(reason);
	}
	~allow_sync()
	{
		slipstream_allow_end();
	}
	allow_sync(const allow_sync &) = delete;
	allow_sync &operator=(const allow_sync &) = delete;
};

} // namespace slipstream

#define SLIPSTREAM_REGION(name)                                                                    \
	::slipstream::region SLIPSTREAM_NAME_(slipstream_region_, __LINE__)(name)
#define SLIPSTREAM_ALLOW_SYNC(reason)                                                              \
	::slipstream::allow_sync SLIPSTREAM_NAME_(slipstream_allow_, __LINE__)(reason)

#elif SLIPSTREAM_ENABLED

SLIPSTREAM_INLINE_ void slipstream_region_leave_(const char *unused)
{
	(void)unused;
	slipstream_region_end();
}

SLIPSTREAM_INLINE_ void slipstream_allow_leave_(const char *unused)
{
	(void)unused;
	slipstream_allow_end();
}

/*
 * From here to the end of the enclosing block, by return, break or goto too (not by longjmp). A
 * declaration, so not after a bare `case`.
 */
#define SLIPSTREAM_REGION(name)                                                                    \
	const char SLIPSTREAM_NAME_(slipstream_region_, __LINE__)                                  \
		__attribute__((__cleanup__(slipstream_region_leave_), __unused__)) =               \
			(slipstream_region_begin(name), 0)
#define SLIPSTREAM_ALLOW_SYNC(reason)                                                              \
	const char SLIPSTREAM_NAME_(slipstream_allow_, __LINE__)                                   \
		__attribute__((__cleanup__(slipstream_allow_leave_), __unused__)) =                \
			(slipstream_allow_begin(reason), 0)

#else

#define SLIPSTREAM_REGION(name)       ((void)(name))
#define SLIPSTREAM_ALLOW_SYNC(reason) ((void)(reason))

#endif

#endif
