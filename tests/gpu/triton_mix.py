# SPDX-License-Identifier: MIT
"""Triton: two kernels compiled at run time, launched on two streams. Prints checksums only."""
import hashlib

import torch
import triton
import triton.language as tl


@triton.jit
def mix(data, count, salt, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offset < count
    value = tl.load(data + offset, mask=mask)
    tl.store(data + offset, value * 1664525 + salt, mask=mask)


@triton.jit
def row_sum(data, out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offset = tl.arange(0, BLOCK)
    value = tl.load(data + row * width + offset, mask=offset < width, other=0)
    tl.store(out + row, tl.sum(value, axis=0))


def digest(name, tensor):
    print(name, hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest()[:16], flush=True)


def main():
    data = torch.arange(1 << 20, dtype=torch.int32, device="cuda")
    for i in range(200):
        mix[(1024,)](data, data.numel(), i, BLOCK=1024)
    digest("mix", data)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    out = torch.empty(1024, dtype=torch.int32, device="cuda")
    with torch.cuda.stream(side):
        for _ in range(100):
            row_sum[(1024,)](data, out, 1024, BLOCK=1024)
    side.synchronize()
    digest("row sum", out)


if __name__ == "__main__":
    main()
