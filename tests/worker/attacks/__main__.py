"""Run inside a sandbox: tries what hostile training code would try, prints {attack: what happened} as JSON.

`python FOLDER TARGET`; see `known`. Each attack returns None if it was stopped (by an error or by finding nothing), or
a text that says what it got.
"""

from __future__ import annotations

import json
from importlib import import_module

from known import ATTACKS


def main() -> None:
    """Try them all."""
    for name in ("calls", "files", "network", "processes", "rights"):
        import_module(name)  # each adds its own
    result = {}
    for name, function in ATTACKS.items():
        try:
            got = function()
        except OSError:
            got = None
        if got is not None:
            result[name] = str(got)
    print(json.dumps({"tried": len(ATTACKS), "got": result}))


if __name__ == "__main__":
    main()
