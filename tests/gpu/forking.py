# SPDX-License-Identifier: MIT
"""Forked children that call the driver, before and after their parent uses CUDA: what a DataLoader's workers do, without PyTorch."""
import ctypes
import multiprocessing

fork = multiprocessing.get_context("fork")


def ask(answers):
    context = ctypes.c_void_p()
    answers.put(ctypes.CDLL("libcuda.so.1").cuCtxGetCurrent(ctypes.byref(context)))


def two_children():
    answers = fork.Queue()
    children = [fork.Process(target=ask, args=(answers,)) for _ in range(2)]
    for child in children:
        child.start()
    print([answers.get() for _ in children], flush=True)
    for child in children:
        child.join()


def main():
    two_children()
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    print(driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
          driver.cuCtxSetCurrent(context), driver.cuCtxSynchronize(), flush=True)
    two_children()


if __name__ == "__main__":
    main()
