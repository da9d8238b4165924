# SPDX-License-Identifier: MIT
"""A planted dependence in Python: make_counters() takes new pinned memory for zeroed. All allocations are one native call site."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
BYTES = 8192


def check(status):
    if status:
        raise SystemExit("status %d" % status)


def allocate():
    memory = ctypes.c_void_p()
    check(cuda.cuMemHostAlloc(ctypes.byref(memory), ctypes.c_size_t(BYTES), 0))
    return memory


def innocent(number):
    memory = allocate()
    ctypes.memset(memory, number + 1, BYTES)
    check(cuda.cuMemFreeHost(memory))


def make_counters():
    return allocate()


check(cuda.cuInit(0))
context = ctypes.c_void_p()
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
for number in range(10):
    innocent(number)
counters = make_counters()
print(ctypes.string_at(counters, 1))
