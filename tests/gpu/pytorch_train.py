# SPDX-License-Identifier: MIT
"""PyTorch training steps as people write them: data comes from pageable memory, the loss is read with .item() at each step.

    pytorch_train.py STEPS TIMES [MARKS]

Writes the duration of each step in ns, one a line, to the file TIMES, and prints the last loss, which equal runs print alike. For MARKS see steps.py.
"""
import sys
import time

import torch

from steps import Marks


def main():
    steps, times = int(sys.argv[1]), []
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(
        torch.nn.Linear(2048, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = [(torch.randn(2048, 2048), torch.randn(2048, 1024)) for _ in range(4)]
    loss_value = 0.0
    marks = Marks(sys.argv)
    for step in range(steps):
        begin = time.monotonic_ns()
        inputs, targets = (part.cuda(non_blocking=True) for part in batches[step % len(batches)])  # marker: pageable upload
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loss_value = loss.item()  # marker: item
        times.append(time.monotonic_ns() - begin)
        if marks.step_ends():
            break
    marks.write(times)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write("\n".join(map(str, times)))
    print(f"{loss_value:.9e}")


if __name__ == "__main__":
    main()
