#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Debian's ffmpeg sends frames through the simulated GPU and back: the same MD5 without GPU, without slipstream and with it."""
import re
import shutil
import sys

from client import SKIP, Build, expect, expect_calls

FRAMES = 12
PLANES = 2  # NV12


def ffmpeg(on_gpu):
    command = ["ffmpeg", "-hide_banner", "-nostdin", "-loglevel", "error"]
    if on_gpu:
        command += ["-init_hw_device", "cuda=gpu:0", "-filter_hw_device", "gpu"]
    through = "format=nv12,hwupload_cuda,hwdownload,format=nv12" if on_gpu else "format=nv12"
    return command + ["-f", "lavfi", "-i", "testsrc2=size=320x240:rate=25", "-frames:v", str(FRAMES), "-vf", through,
                      "-f", "md5", "-"]


def md5(result):
    found = re.search(r"MD5=([0-9a-f]{32})", result.stdout)
    if not found:
        sys.exit("ffmpeg printed no MD5: %r %r" % (result.stdout, result.stderr))
    return found.group(1)


def main():
    build = Build(*sys.argv[1:3])
    if not shutil.which("ffmpeg"):
        print("ffmpeg is not installed")
        return SKIP
    plain = md5(build.run_bare(ffmpeg(False)))
    bare = md5(build.run_bare(ffmpeg(True)))
    result, report = build.run_observed(ffmpeg(True))
    expect("MD5 on the simulated driver", bare, plain)
    expect("MD5 under slipstream", md5(result), plain)
    # Every plane of every frame goes up once and down once.
    expect_calls(report, {"cuMemcpy2DAsync_v2": 2 * FRAMES * PLANES, "cuStreamSynchronize": FRAMES})
    print("MD5 %s; %d calls counted" % (plain, report["calls"]["total"]))
    return 0


sys.exit(main())
