# SPDX-License-Identifier: MIT
"""What the catalogue's tests share: where things are, and a small valid catalogue to break."""
import os
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "gen"))

DATA = os.path.join(ROOT, "shim", "catalogue")
STATE_HEADER = os.path.join(ROOT, "shim", "state", "state.h")
INCLUDE = os.environ.get("CUDA_INCLUDE", "/usr/local/cuda/include")

RULES = """\
- slug: waits
  class: implicit
  cause: "waits"
  scope: stream
  when: "SOURCE == PAGEABLE"
  condition: "source pageable"
  text: "It waits."
  fix: "Do not."
  sources: "none"
  confidence: measured
"""
FUNCTIONS = """\
- {name: cuMemcpyHtoD, kind: copy, stream: implicit, source: srcHost, destination: dstDevice, bytes: ByteCount,
   submits: copy, rules: [waits], barrier: join, idle: {fixed_ns: 10, ns_per_kib: 1.5}}
- {name: cuStreamCreate, kind: stream, after: "stream_created(*phStream, Flags)"}
- {name: cuStreamSynchronize, kind: wait, stream: {argument: hStream}, result: stream_observed}
- {name: cuCtxGetCurrent, kind: query}
"""


def write_catalogue(folder, functions=FUNCTIONS, rules=RULES, exports="cuMemcpyHtoD\ncuStreamCreate\n"):
    """The small catalogue as files; bytes are written as they are."""
    for name, text in (("functions.yaml", functions), ("rules.yaml", rules), ("exports.txt", exports)):
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(text if isinstance(text, bytes) else text.encode())
    return folder


def run(tool, *arguments):
    """A generator as a command."""
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "gen", tool), *arguments], capture_output=True, text=True,
                          check=False)
