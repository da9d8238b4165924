# SPDX-License-Identifier: MIT
"""Where `slipstream run` puts record files that are not kept; used by overhead.py and the GPU suite, which preload by hand."""
import os

# As in tools/run.c.
SHARED_FREE = 512 << 20


def record_place():
    """Folder to make the record folder in; None: the usual place of temporary files."""
    try:
        shared = os.statvfs("/dev/shm")
    except OSError:
        return None
    enough = shared.f_bavail * shared.f_frsize >= SHARED_FREE
    return "/dev/shm" if enough and os.access("/dev/shm", os.W_OK | os.X_OK) else None
