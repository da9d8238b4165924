# SPDX-License-Identifier: MIT
"""A client of cuda.bindings.driver: streams, events, memory of several kinds. Prints its bytes and how often it called what."""
import collections
import ctypes
import json

from cuda.bindings import driver

made = collections.Counter()


def call(name, *arguments):
    """One driver call, counted under the name that the driver exports."""
    made[EXPORTED.get(name, name)] += 1
    error, *results = getattr(driver, name)(*arguments)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit("%s: %s" % (name, error))
    return results[0] if results else None


EXPORTED = {
    "cuMemAlloc": "cuMemAlloc_v2", "cuMemFree": "cuMemFree_v2", "cuMemcpyHtoD": "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH": "cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2", "cuMemsetD8": "cuMemsetD8_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2", "cuEventDestroy": "cuEventDestroy_v2",
    "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
}
BYTES = 1 << 16
# The simulated driver runs its own spin(ns) for an entry of that name.
PTX = b""".version 6.4
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 p0)
{
	ret;
}
"""

call("cuInit", 0)
device = call("cuDeviceGet", 0)
context = call("cuDevicePrimaryCtxRetain", device)
call("cuCtxSetCurrent", context)

blocking = call("cuStreamCreate", int(driver.CUstream_flags.CU_STREAM_DEFAULT))
apart = call("cuStreamCreate", int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
event = call("cuEventCreate", int(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))

memory = call("cuMemAlloc", BYTES)
pinned = call("cuMemHostAlloc", BYTES, 0)
source = bytes(i * 7 % 256 for i in range(BYTES))
target = bytearray(BYTES)

module = call("cuModuleLoadData", PTX)
spin = call("cuModuleGetFunction", module, b"spin")


def upload_behind_a_kernel():
    """Waits for the kernel; the report must name this function."""
    call("cuLaunchKernel", spin, 1, 1, 1, 1, 1, 1, 0, blocking, ((5000000,), (ctypes.c_uint64,)), 0)
    call("cuMemcpyHtoD", memory, source, BYTES)


upload_behind_a_kernel()
call("cuMemsetD8", memory, 0, BYTES)
call("cuMemcpyHtoD", memory, source, BYTES)
call("cuMemcpyDtoHAsync", pinned, memory, BYTES, blocking)
call("cuEventRecord", event, blocking)
call("cuStreamWaitEvent", apart, event, 0)
call("cuMemcpyHtoDAsync", memory, pinned, BYTES // 2, apart)
call("cuEventSynchronize", event)
call("cuStreamSynchronize", apart)
for _ in range(3):
    call("cuMemcpyDtoH", target, memory, BYTES)
assert bytes(target) == source, "the bytes came back changed"
assert ctypes.string_at(int(pinned), BYTES) == source, "the pinned bytes differ"

call("cuModuleUnload", module)
call("cuMemFreeHost", pinned)
call("cuMemFree", memory)
call("cuEventDestroy", event)
call("cuStreamDestroy", blocking)
call("cuStreamDestroy", apart)
call("cuDevicePrimaryCtxRelease", device)
print(json.dumps(made))
