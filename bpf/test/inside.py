# SPDX-License-Identifier: MIT
"""Makes a folder the root of everything, as containers do, and starts a program there. In a mount namespace of one's own.

    inside.py FOLDER PROGRAM [ARGUMENT...]
"""
import ctypes
import os
import sys

BIND, RECURSIVE, PRIVATE, DETACH, PIVOT_ROOT = 0x1000, 0x4000, 0x40000, 2, 155


def do(status):
    if status:
        sys.exit("refused: " + os.strerror(ctypes.get_errno()))


def main():
    call, folder = ctypes.CDLL(None, use_errno=True), sys.argv[1].encode()
    do(call.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None))
    do(call.mount(folder, folder, None, BIND | RECURSIVE, None))
    os.chdir(folder)
    do(call.syscall(PIVOT_ROOT, b".", b"."))
    do(call.umount2(b".", DETACH))
    os.chdir("/")
    os.execv(sys.argv[2], sys.argv[2:])


main()
