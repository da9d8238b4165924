# SPDX-License-Identifier: MIT
"""PyTorch: tensors in ordinary memory moved to the device and back. Prints one line a size: bytes, microseconds of `.cuda()` with the wait for it, and of
`.cpu()`, medians; and a checksum, so that two runs can be compared."""
import hashlib
import statistics
import sys
import time

import torch


def timed(function):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e6, result


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.manual_seed(1)
    for mebibytes in (1, 16, 256):
        source = torch.randint(-1000, 1000, (mebibytes << 18,), dtype=torch.int32)
        up, down = [], []
        for _ in range(rounds):
            microseconds, there = timed(source.cuda)
            up.append(microseconds)
            microseconds, back = timed(there.cpu)
            down.append(microseconds)
            if not torch.equal(source, back):
                sys.exit("the bytes differ")
        digest = hashlib.sha256(back.numpy().tobytes()).hexdigest()[:16]
        print(f"{mebibytes << 20} up {statistics.median(up[2:]):.1f} down {statistics.median(down[2:]):.1f} {digest}", flush=True)


if __name__ == "__main__":
    main()
