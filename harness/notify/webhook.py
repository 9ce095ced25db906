"""Posts to a webhook: to an address that was checked, without redirects, within a few seconds, reading no answer."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from harness.notify.address import (
    AddressRefused,
    IPAddress,
    IPNetwork,
    Resolve,
    Target,
    addresses_for,
    resolve,
    url_read,
)
from harness.notify.trouble import DeliveryRefused, DeliveryTrouble

CONNECT_S = 4.0
"""For one address; at most `ADDRESSES_MAX` are tried."""
ANSWER_S = 8.0
"""From the connection to the answer's first lines, however slowly they come."""
ADDRESSES_MAX = 2
_AGAIN = frozenset({408, 425, 429})
"""Answers below 500 after which another try may do."""


def webhook_post(
    url: str,
    body: bytes,
    headers: dict[str, str],
    *,
    networks: Sequence[IPNetwork] = (),
    http_too: bool = False,
    by: Resolve = resolve,
    context: ssl.SSLContext | None = None,
) -> None:
    """Post once. Raises `DeliveryRefused` where it is of no use to try again, `DeliveryTrouble` where it may be."""
    try:
        target = url_read(url, http_too=http_too)
        addresses = addresses_for(target, networks, by)
    except AddressRefused as error:
        raise DeliveryRefused(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise DeliveryTrouble(f"There is no address for {target.host}.") from error
    try:
        status = _exchange(target, addresses, body, headers, context)
    except ssl.SSLCertVerificationError as error:
        raise DeliveryRefused(f"Its certificate is not good: {error.verify_message}.") from error
    except TimeoutError as error:
        raise DeliveryTrouble("It did not answer in time.") from error
    except ConnectionRefusedError as error:
        raise DeliveryTrouble("It refused the connection.") from error
    except (OSError, http.client.HTTPException) as error:
        raise DeliveryTrouble("The connection broke before it answered.") from error
    _judge(status)


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status in _AGAIN:
        raise DeliveryTrouble(f"It answered {status}.")
    if 300 <= status < 400:
        raise DeliveryRefused(f"It answered {status}, a redirect, which is not followed: give the address it leads to.")
    raise DeliveryRefused(f"It answered {status}.")


def _exchange(
    target: Target,
    addresses: Sequence[IPAddress],
    body: bytes,
    headers: dict[str, str],
    context: ssl.SSLContext | None,
) -> int:
    """The status of the answer; its body is not read. Raises `OSError`, `http.client.HTTPException`."""
    connection = http.client.HTTPConnection(target.host, target.port)
    with _connected(addresses, target.port) as raw, _cut_after(raw, ANSWER_S) as was_cut:
        try:
            connection.sock = _secured(raw, target, context)
            connection.request("POST", target.path, body, {"Host": urlsplit(target.origin).netloc, **headers})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            if not was_cut.is_set():
                raise
        finally:
            connection.close()
        if was_cut.is_set():
            raise TimeoutError
        return status


def _secured(raw: socket.socket, target: Target, context: ssl.SSLContext | None) -> socket.socket:
    """The name is what the certificate must prove; the address is the one that was checked."""
    if target.scheme == "http":
        return raw
    return (context or ssl.create_default_context()).wrap_socket(raw, server_hostname=target.host)


@contextmanager
def _connected(addresses: Sequence[IPAddress], port: int) -> Iterator[socket.socket]:
    """A socket to the first address that takes one. Raises `OSError`."""
    trouble: OSError = OSError("no address")
    for address in addresses[:ADDRESSES_MAX]:
        try:
            raw = socket.create_connection((str(address), port), timeout=CONNECT_S)
        except OSError as error:
            trouble = error
            continue
        raw.settimeout(ANSWER_S)
        with raw:
            yield raw
        return
    raise trouble


@contextmanager
def _cut_after(raw: socket.socket, wait_s: float) -> Iterator[threading.Event]:
    """End the connection after so long, whatever still drips in: a socket's own timeout begins anew with every byte.

    Yields whether it was ended so.
    """
    was_cut = threading.Event()
    descriptor = raw.dup()  # stays good when TLS takes the socket over

    def cut() -> None:
        was_cut.set()
        with suppress(OSError):
            descriptor.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(wait_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield was_cut
    finally:
        timer.cancel()
        descriptor.close()
