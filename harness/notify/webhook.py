"""Posts to a webhook: to an address that was checked, without redirects, within a few seconds, reading no answer."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from harness.env import IPNetwork
from harness.notify.trouble import DeliveryRefused, DeliveryTrouble
from harness.outward.address import (
    AddressRefused,
    IPAddress,
    Resolve,
    Rules,
    Target,
    addresses_for,
    resolve,
    url_read,
)
from harness.outward.connection import connected, cut_after, secured

URL_LETTERS_MAX = 500
ANSWER_S = 8.0
"""From the connection to the answer's first lines, however slowly they come."""
_AGAIN = frozenset({408, 425, 429})
"""Answers below 500 after which another try may do."""


def webhook_rules(networks: Sequence[IPNetwork], *, http_too: bool) -> Rules:
    """Where webhooks may go."""
    return Rules(
        what="a webhook",
        setting="DLH_WEBHOOK_NETWORKS",
        networks=networks,
        letters_max=URL_LETTERS_MAX,
        http_too=http_too,
    )


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
        rules = webhook_rules(networks, http_too=http_too)
        target = url_read(url, rules)
        addresses = addresses_for(target, rules, by)
    except AddressRefused as error:
        raise DeliveryRefused(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise DeliveryTrouble(f"There is no address for {target.host}.") from error
    try:
        status = _exchange(target, addresses, body, headers, context)
    except ssl.SSLCertVerificationError as error:
        raise DeliveryRefused(f"Its certificate is not valid: {error.verify_message}.") from error
    except ssl.SSLError as error:
        raise DeliveryTrouble("No TLS connection could be made: it may not speak HTTPS on that port.") from error
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
    with connected(addresses, target.port, silent_s=ANSWER_S) as raw, cut_after(raw, ANSWER_S) as cut:
        try:
            connection.sock = secured(raw, target, context)
            connection.request("POST", target.path, body, {"Host": urlsplit(target.origin).netloc, **headers})
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException):
            if not cut.was_cut:
                raise
        finally:
            connection.close()
        if cut.was_cut:
            raise TimeoutError
        return status
