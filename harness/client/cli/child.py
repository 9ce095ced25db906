"""A command that works on the installation itself, in a process of its own: the client knows only the HTTP API."""

from __future__ import annotations

import subprocess
import sys

from harness.client.cli.output import ExitCode


def child_run(module: str, *arguments: str) -> int:
    """Run a module with our terminal, and return how it ends as a shell would (128 and more: by a signal).

    Ctrl-C reaches it too: it is let come to its end, since it has drafts to take away, and tells of it itself.
    -P: the folder that the person is in may hold files that are named as modules of Python or of ours.
    """
    with subprocess.Popen([sys.executable, "-P", "-m", module, *arguments]) as child:
        while child.returncode is None:
            try:
                child.wait()
            except KeyboardInterrupt:
                continue
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    return ExitCode.INTERRUPTED if code == ExitCode.INTERRUPTED else code
