"""Python client and command line over the HTTP API; imports nothing else of the harness."""

from harness.client.client import Client
from harness.client.errors import ApiError, ClientError, Unreachable

__all__ = ["ApiError", "Client", "ClientError", "Unreachable"]
