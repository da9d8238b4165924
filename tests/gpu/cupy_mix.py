# SPDX-License-Identifier: MIT
"""CuPy: copies, elementwise and raw kernels, streams, a pinned copy. Prints checksums only."""
import hashlib

import cupy
import numpy


def digest(name, array):
    print(name, array.shape, hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()[:16], flush=True)


def main():
    host = numpy.arange(1 << 20, dtype=numpy.int64)
    for _ in range(20):
        device = cupy.asarray(host)
        back = cupy.asnumpy(device * 3 + 1)
    digest("elementwise", back)

    kernel = cupy.RawKernel(
        r"""extern "C" __global__ void mix(long long *data, int count) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) data[i] = data[i] * 6364136223846793005LL + 1442695040888963407LL;
        }""", "mix")
    for _ in range(100):
        kernel((4096,), (256,), (device, numpy.int32(device.size)))
    digest("raw kernel", device.get())

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        other = cupy.zeros(1 << 18, dtype=cupy.int64)
        for i in range(50):
            other += i
        memory = cupy.cuda.alloc_pinned_memory(other.nbytes)
        pinned = numpy.frombuffer(memory, dtype=numpy.int64, count=other.size)
        other.get(stream=stream, out=pinned)
    stream.synchronize()
    digest("stream", pinned.copy())

    total = 0
    for i in range(200):
        total += int((device[: 1000 + i] & 0xFFFF).sum())
    print("sums", total, flush=True)
    matrix = cupy.arange(512 * 512, dtype=cupy.float64).reshape(512, 512) % 7
    digest("matmul", cupy.asnumpy(matrix @ matrix))


if __name__ == "__main__":
    main()
