# SPDX-License-Identifier: MIT
"""Python frames read by the shim against what the interpreter says of itself.

    python3 frames.py PROBE [refused|cost]

PROBE is the shared object made of probe.c. Each case calls the probe from some kind of Python code, and
compares every frame (file, function, line) with sys._getframe(). Ends with `ok N`, N = checks made.
"""
import asyncio
import ctypes
import functools
import os
import sys
import threading

released = ctypes.CDLL(sys.argv[1])    # lets go of the GIL during the call
holding = ctypes.PyDLL(sys.argv[1])    # keeps it
checks = 0
lock = threading.Lock()


def read(library, most=64):
    text = ctypes.create_string_buffer(256 * 1024)
    count = library.probe_frames(text, len(text), most)
    lines = text.value.decode().split('\n')[:-1]
    assert count == len(lines), (count, lines)
    return lines


def expected(frame):
    lines = []
    while frame is not None and len(lines) < 63:
        code = frame.f_code
        name = getattr(code, 'co_qualname', code.co_name)
        file = code.co_filename[-512:].encode('utf-8', 'replace').decode()
        lines.append('%s|%s|%d' % (file, name, frame.f_lineno or 0))
        frame = frame.f_back
    return lines


def check(most=64):
    global checks
    for library in released, holding:
        # The reader's own frame and this one are left out: their lines differ by what stands where.
        got = read(library, most)
        want = expected(sys._getframe(1))
        assert got[0].split('|')[1] == 'read', got
        assert got[1].split('|')[1] == 'check', got
        got = got[2:]
        if most < 64:
            want = want[:most - 2]
        else:
            want = want[:62]
        assert got == want, 'got\n  %s\nwant\n  %s' % ('\n  '.join(got), '\n  '.join(want))
        with lock:
            checks += 1
    return True


def plain():
    check()


def nested(depth):
    if depth:
        return nested(depth - 1) + 1
    check()
    return 0


class Thing:
    def method(self):
        return (1 +
                check() +
                1)

    @classmethod
    def of_class(cls):
        check()

    @staticmethod
    def of_none():
        check()

    @property
    def value(self):
        check()
        return 1

    def __del__(self):
        check()

    def __eq__(self, other):
        return check()

    __hash__ = None


def decorator(function):
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(
            *arguments,
            **named)
    return wrapper


@decorator
@decorator
def decorated(number, other=2):
    check()
    return number


def generator():
    check()
    yield 1
    check()
    yield from inner_generator()


def inner_generator():
    yield check()
    yield check()


async def inner_coroutine():
    await asyncio.sleep(0)
    check()
    return 3


async def coroutine():
    check()
    async for item in async_generator():
        check()
    await asyncio.gather(inner_coroutine(), inner_coroutine())
    return await inner_coroutine()


async def async_generator():
    for i in range(2):
        check()
        yield i


def closures():
    local = 5

    def inner():
        nonlocal local
        local += 1
        check()
        return lambda: (check(), local)
    inner()()


def comprehensions():
    assert [check() for i in range(2)] == [True, True]
    assert {check() for i in range(2)} == {True}
    assert {i: check()
            for i in range(2)} == {0: True, 1: True}
    assert list(check() for i in range(2)) == [True, True]
    assert all([[check() for i in range(2)] for j in range(2)])


def exceptions():
    try:
        raise ValueError
    except ValueError:
        check()
    finally:
        check()
    with Context():
        check()


class Context:
    def __enter__(self):
        check()

    def __exit__(self, *arguments):
        check()


def through_c():
    assert sorted([3, 1], key=lambda number: (check(), number)[1]) == [1, 3]
    assert list(map(lambda number: check(), [1])) == [True]
    functools.reduce(lambda a, b: check(), [1, 2])
    Thing() == 3


def executed():
    space = {'check': check}
    exec(compile('\n' * 700 + 'def far():\n    check()\n\n\nfar()\n' + '\n' * 300 +
                 'check()\n', 'executed code', 'exec'), space)
    eval('check()', space)
    # More code than one piece of the line table holds, and lines going back.
    body = ''.join('    x = (1 +\n       2)\n' for i in range(3000))
    exec(compile('def long(x):\n' + body + '    check()\n' + body + '    check()\nlong(1)\n',
                 'long code', 'exec'), space)


def unicode_names():
    for name in 'fünf', 'λ', '数', '𝒳':
        space = {'check': check}
        exec(compile('def %s():\n    check()\n%s()\n' % (name, name), '/tmp/%s.py' % name, 'exec'),
             space)
    exec(compile('check()', 'x' * 2000, 'exec'), {'check': check})
    exec(compile('check()', 'ä' * 300, 'exec'), {'check': lambda: None})


def multi_line(a=None,
               b=None):
    return [
        1,
        check(),
        dict(
            a=check(),
            b=3,
        ),
        check()
    ]


def traced():
    seen = []

    def trace(frame, event, argument):
        seen.append(event)
        return trace
    sys.settrace(trace)
    try:
        check()
    finally:
        sys.settrace(None)
    assert seen


def bounded():
    def deep(depth):
        if depth:
            deep(depth - 1)
        else:
            check()
            check(5)
    deep(200)


def switched_off():
    global checks
    released.probe_python(0)
    assert read(released) == []
    released.probe_python(1)
    assert read(released) != []
    checks += 1


def sites():
    """Same native stack, other Python line: another site; and the cached form follows."""
    global checks
    for take in released.probe_site, released.probe_site_cached:
        found = []
        # From the first: whatever instructions the interpreter settles on, it is one site.
        for i in range(50):
            found.append((
                take(),
                take()))
        assert len(set(found)) == 1, found
        assert found[0][0] != found[0][1] and all(found[0]), found
        checks += 1


def same_place(take):
    return take()


def between(take, depth):
    return between(take, depth - 1) if depth else same_place(take)


def callers():
    """Same native stack, same place of the innermost Python function, other callers: other sites."""
    global checks
    for depth in 0, 3:
        found = []
        for i in range(50):
            # Known again from the second round on.
            found.append((
                between(released.probe_site_cached, depth),
                between(released.probe_site_cached, depth),
                between(released.probe_site_cached, depth + 1)))
        assert len(set(found)) == 1, found
        assert len(set(found[0])) == 3 and all(found[0]), found
        both = [[], []]
        for i in range(20):
            for kind, take in enumerate((released.probe_site, released.probe_site_cached)):
                both[kind].append(between(take, depth))
        assert len(set(both[0])) == 1 and both[0] == both[1], both
        checks += 1


def replaced_code():
    """Code compiled anew each time, in memory just freed, from another file: other sites."""
    global checks
    for i in range(100):
        found = {}
        name = 'file %d' % (i % 7)
        exec(compile('\n' * (i % 3) + 'cached = take()', name, 'exec'),
             {'take': released.probe_site_cached}, found)
        text = innermost(found['cached'])
        assert text == '%s|<module>|%d' % (name, i % 3 + 1), (i, text)
        checks += 1


def innermost(site):
    text = ctypes.create_string_buffer(4096)
    assert released.probe_site_frame(site, text, len(text)) == 0
    return text.value.decode()


def forked():
    """A child reads its own frames, not its parent's, in every way of reading."""
    global checks
    for way in 0, 1, 2:
        released.probe_reader(way)
        child = os.fork()
        if not child:
            code = 1
            try:
                nested(3)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        checks += 1
    released.probe_reader(0)


def native():
    """The native stack, through libffi and the interpreter, against the C library's unwinder."""
    global checks
    for library in released, holding:
        for i in range(2):
            found = library.probe_compare()
            assert found >= 3, found
            inner = list(map(lambda number: library.probe_compare(), [1]))
            assert inner[0] >= 3, inner
            checks += 1


def all_cases():
    plain()
    nested(20)
    thing = Thing()
    thing.method()
    Thing.of_class()
    Thing.of_none()
    assert thing.value == 1
    del thing
    assert decorated(3, other=4) == 3
    assert list(generator()) == [1, True, True]
    assert asyncio.run(coroutine()) == 3
    closures()
    comprehensions()
    exceptions()
    through_c()
    executed()
    unicode_names()
    multi_line()
    bounded()
    sites()
    callers()
    replaced_code()
    exec('all_of_string = check()', {'check': check})


def main():
    for way in 0, 1, 2:     # as it chooses; exact; as where process_vm_readv is forbidden
        released.probe_reader(way)
        all_cases()
    released.probe_reader(0)
    traced()
    switched_off()
    forked()
    native()
    failures = []

    def body():
        try:
            for i in range(3):
                all_cases()
        except BaseException as error:
            failures.append(error)
            raise
    threads = [threading.Thread(target=body) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert released.probe_notes(None) == 0
    print('ok', checks)


def refused():
    """An interpreter that the shim does not know: no frames, one note, however often it is asked."""
    for i in range(3):
        assert read(released) == []
    assert released.probe_notes(None) == 1
    assert released.probe_site() != 0
    print('ok refused')


if sys.argv[2:] == ['refused']:
    refused()
elif sys.argv[2:] == ['cost']:
    def deep(depth):
        return deep(depth - 1) if depth else print(
            'ns per python_frames:', ' '.join('%d frames %.0f' % (n, released.probe_cost(n, 20000)) for n in (1, 10, 30)))
    released.probe_cost.restype = ctypes.c_double
    deep(40)

    def at(depth):
        return at(depth - 1) if depth else print(
            'ns per site: unwound %.0f, known again %.0f' % (
                released.probe_site_cost(0, 20000), released.probe_site_cost(1, 20000)))
    released.probe_site_cost.restype = ctypes.c_double
    at(8)
    at(40)
else:
    main()
