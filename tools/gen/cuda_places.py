#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print the first folder that holds cuda.h: the argument, CUDA_HOME, CUDA_PATH, the usual places, a fetched copy in build/."""
import glob
import os
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if len(sys.argv) > 1 and sys.argv[1]:
    places = [sys.argv[1]]
else:
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    homes += ["/usr/local/cuda"] + sorted(glob.glob("/usr/local/cuda-*"), reverse=True) + ["/opt/cuda"]
    places = [os.path.join(home, "include") for home in homes if home]
    places += ["/usr/include", os.path.join(root, "build", "cuda-headers")]
for place in places:
    if os.path.isfile(os.path.join(place, "cuda.h")):
        print(place)
        break
