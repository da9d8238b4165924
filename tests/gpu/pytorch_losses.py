# SPDX-License-Identifier: MIT
"""A training loop and an inference loop with CUDA graphs, deterministic: prints every loss bit by bit, and what the weights and the outputs are at the end.

The data comes as people bring it: from ordinary memory, from a DataLoader that pins, and on a stream of its own that the default stream waits for. Runs with and
without a rewrite must print the same (fix.py).
"""
import hashlib
import os
import struct

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def bits(value):
    return struct.pack("<d", value).hex()


def digest(*tensors):
    state = hashlib.sha256()
    for tensor in tensors:
        state.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return state.hexdigest()[:32]


def make():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Dropout(0.1),
        torch.nn.Linear(16 * 32 * 32, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def train():
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.randn(1024, 3, 64, 64), torch.randint(0, 10, (1024,))
    copies = torch.cuda.Stream()
    for epoch, pin in enumerate((False, True, True)):
        loader = DataLoader(TensorDataset(images, labels), batch_size=64, pin_memory=pin)
        for step, (x, y) in enumerate(loader):
            if epoch == 2:
                with torch.cuda.stream(copies):
                    x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
                torch.cuda.current_stream().wait_stream(copies)
                x.record_stream(torch.cuda.current_stream())
                y.record_stream(torch.cuda.current_stream())
            else:
                x, y = x.cuda(non_blocking=pin), y.cuda(non_blocking=pin)
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            print("train", epoch, step, bits(loss.item()))
    print("weights", digest(*model.parameters(), *model.buffers()))
    return model.eval()


@torch.no_grad()
def infer(model):
    static = torch.zeros(64, 3, 64, 64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(static)
    results = []
    for number in range(40):
        static.copy_(torch.full((64, 3, 64, 64), number / 40) + torch.arange(64).reshape(64, 1, 1, 1) / 64)
        graph.replay()
        results.append(out.cpu())
        print("infer", number, digest(results[-1]), bits(out.float().logsumexp(1).mean().item()))
    print("outputs", digest(*results))


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True)
    infer(train())


if __name__ == "__main__":
    main()
