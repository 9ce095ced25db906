"""A reading that has begun before its program is known: `... waiting NUMBER`, the number of an open socket.

What any reading loads is loaded with this module. Then a byte says so, and a line is waited for: the arguments of
`worker.runtime.inspection.trace` as JSON, which from there on does as if it had been started with them. No line: the
agent has gone, or wants no reading.

No program of ours is read for practice: what torch looks up once, such as its class of sharded tensors, would be found
as that program left it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from worker.runtime import compiler
from worker.runtime.inspection import trace

LATER = (
    *("numpy.fft", "numpy.random", "pyarrow.dataset", "torch._dynamo.source", "torch._numpy", "torch.utils._triton"),
    *(f"PIL.{name}" for name in ("ImageOps", *(f"{kind}ImagePlugin" for kind in ("Bmp", "Gif", "Jpeg", "Png", "Ppm")))),
    *(f"worker.runtime.{name}" for name in ("serving", "split", "split_by")),
)
"""What `trace` itself does not load, but programs, or torch for their first fake tensors."""
compiler.set_up(needed=False)  # as a run does before its first optimizer: `source` is then loaded alone
for name in LATER:
    importlib.import_module(name)


def main() -> None:
    """Wait, then read."""
    with os.fdopen(int(sys.argv.pop(1)), "r+b", buffering=0) as line:
        line.write(b"!")
        asked = line.readline()
    if not asked:
        return
    sys.argv[1:] = json.loads(asked)
    importlib.invalidate_caches()  # the folder of the program was empty when it was last looked at
    trace.main()
