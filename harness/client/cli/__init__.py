"""The `dlh` command. Exit codes: 0 ok, 1 job failed, 2 bad input, 3 not found or forbidden, 4 portal unreachable."""

import sys


def main() -> None:
    """Entry point of the `dlh` command. Ctrl-C while it is still being loaded is told like any other."""
    try:
        from harness.client.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None
    run()
