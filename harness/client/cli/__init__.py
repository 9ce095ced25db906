"""The `dlh` command. How it ends: `harness.client.cli.output.ExitCode`."""

import sys


def main() -> None:
    """Entry point of the `dlh` command. Ctrl-C while it is still being loaded is told like any other."""
    try:
        from harness.client.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        raise SystemExit(130) from None
    run()
