"""Requests to processes of our own, past any proxy that the environment names for the way to the outside."""

from __future__ import annotations

import urllib.request

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""A container gets HTTP_PROXY from its engine where a host is behind one; to 127.0.0.1 it has no way."""
