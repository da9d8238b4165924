# SPDX-License-Identifier: MIT
"""Steps like those of pytorch_train.py, by the driver's functions alone, where there is no PyTorch: copies up, fill, wait, copy down.

    witness_steps.py STEPS TIMES [MARKS]
"""
import ctypes
import hashlib
import sys
import time

from steps import Marks

BYTES = 1 << 18


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            status = function(*arguments)
            if status:
                raise OSError(f"{name}: status {status}")

        return call


def main():
    driver, steps, times = Driver(), int(sys.argv[1]), []
    context, stream, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    driver.cuInit(0)
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.cuCtxSetCurrent(context)
    driver.cuStreamCreate(ctypes.byref(stream), 1)
    driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(BYTES))
    host, size, state = ctypes.create_string_buffer(BYTES), ctypes.c_size_t(BYTES), hashlib.sha256()
    marks = Marks(sys.argv)
    for step in range(steps):
        begin = time.monotonic_ns()
        driver.cuMemcpyHtoD_v2(memory, host, size)
        driver.cuMemsetD8Async(memory, ctypes.c_ubyte(step & 255), ctypes.c_size_t(BYTES // 2), stream)
        driver.cuStreamSynchronize(stream)
        driver.cuMemcpyDtoH_v2(host, memory, size)
        state.update(host.raw[:64])
        times.append(time.monotonic_ns() - begin)
        if marks.step_ends():
            break
        time.sleep(0.001)
    marks.write(times)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write("\n".join(map(str, times)))
    print(state.hexdigest(), flush=True)


if __name__ == "__main__":
    main()
