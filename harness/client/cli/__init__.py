"""The `dlh` command. Exit codes: 0 ok, 1 job failed, 2 bad input, 3 not found or forbidden, 4 portal unreachable."""

from harness.client.cli.app import main

__all__ = ["main"]
