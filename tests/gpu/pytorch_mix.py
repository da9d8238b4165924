# SPDX-License-Identifier: MIT
"""PyTorch: matmul, pageable and pinned copies, .item(), a CUDA graph, a DataLoader with forked workers and pinned memory.

Prints checksums only; TF32 is off and every seed is set, so two runs print the same bytes. program_checks.py looks for the lines that end in
a "# marker:" in the report.
"""
import ctypes
import hashlib

import torch
from torch.utils.data import DataLoader, Dataset


def digest(name, tensor):
    data = tensor.detach().cpu().contiguous().numpy().tobytes()
    print(name, tuple(tensor.shape), hashlib.sha256(data).hexdigest()[:16], flush=True)


worker_status = -1


def ask_driver(_):
    """In a worker: a call of the driver, as a library that looks whether CUDA is in use makes it; in a forked child it fails."""
    global worker_status
    context = ctypes.c_void_p()
    worker_status = ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context))


class Squares(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.arange(1024, dtype=torch.float32) * index, worker_status


def load(batch_size):
    """The sum of all batches on the device, and what the driver answered the workers."""
    total, answers = None, set()
    loader = DataLoader(
        Squares(), batch_size=batch_size, num_workers=2, pin_memory=True, multiprocessing_context="fork", worker_init_fn=ask_driver)
    for batch, status in loader:
        on_device = batch.to("cuda", non_blocking=True)
        total = on_device.sum(0) if total is None else total + on_device.sum(0)
        answers.update(status.tolist())
    return total, sorted(answers)


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True)

    # The workers fork before this process has used CUDA, as most training programs arrange it.
    total, answers = load(32)
    digest("loader before cuda", total)
    print("the driver told the workers", answers, flush=True)

    a = torch.randn(2048, 2048)
    b = torch.randn(2048, 2048)
    da, db = a.cuda(), b.cuda()
    for _ in range(20):
        product = da @ db
    digest("matmul", product)

    pinned = a.pin_memory()
    for _ in range(20):
        dc = pinned.to("cuda", non_blocking=True)
        back = (dc + 1).to("cpu", non_blocking=True)
        torch.cuda.synchronize()
    digest("pinned", back)
    for _ in range(20):
        pageable = (a.to("cuda") * 2).cpu()
    digest("pageable", pageable)

    items = 0.0
    for i in range(300):
        items += (da[i % 100, :64] * i).sum().item()  # marker: item
    print("item", repr(items), flush=True)

    static = torch.zeros(1024, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            out = (static @ static + 1).relu()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = (static @ static + 1).relu()
    for i in range(50):
        static.fill_(i / 64)
        graph.replay()  # marker: graph
    torch.cuda.synchronize()
    digest("graph", out)

    # The workers fork from a process that uses CUDA already.
    total, answers = load(64)
    digest("loader after cuda", total)
    print("the driver told the workers", answers, flush=True)

    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(100):
        x = torch.full((64, 256), step / 100.0, device="cuda")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", repr(loss.item()), flush=True)


if __name__ == "__main__":
    main()
