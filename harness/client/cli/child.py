"""A command that works on the installation itself, in a process of its own: the client knows only the HTTP API."""

from __future__ import annotations

import subprocess
import sys


def child_run(module: str, *arguments: str) -> int:
    """Run a module with our terminal, and return how it ends as a shell would (128 and more: by a signal).

    Ctrl-C reaches it too: it is let come to its end, since it has drafts to take away.
    """
    with subprocess.Popen([sys.executable, "-m", module, *arguments]) as child:
        while child.returncode is None:
            try:
                child.wait()
            except KeyboardInterrupt:
                continue
    return child.returncode if child.returncode >= 0 else 128 - child.returncode
