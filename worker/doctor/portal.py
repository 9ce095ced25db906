"""The portal as this machine sees it: reach, clock, bandwidth."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import IO, Any
from urllib.parse import urlsplit

from worker.doctor.findings import Finding, bad, ok, skip, warn
from worker.transfer.breaks import PROXY_STEP, SMALL_BYTES
from worker.transfer.sending import PIECE_BYTES
from worker.words import size_words

TIMEOUT_S = 10.0
CLOCK_WARN_S, CLOCK_BAD_S = 1.0, 5.0
MEASURED_BYTES, MEASURED_S = 32 << 20, 20.0
"""Until either is reached: over a slow line the rest of the report is not kept waiting."""
_BLOCK_BYTES = 64 << 10
MEASURED_BACK_BYTES = PIECE_BYTES
"""As much as a node sends at once of what a run makes."""
BACK_TIMEOUT_S = 30.0
BANDWIDTH_WARN_BYTES_PER_S = 10 << 20
_HEALTH = "/api/v1/health"
_MOVED = range(300, 400)
_PLACE_CHARS = 200
UNHEARD = (OSError, http.client.HTTPException)
"""No answer, or one that is none of HTTP or ends too early."""


class _Here(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the node's secret is for the portal alone."""

    def redirect_request(self, *_: object) -> None:
        """What sends elsewhere is told as an error."""


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Here())
"""As the agent asks the portal: by no proxy that the environment names, and at no address but its own."""


@dataclass(frozen=True)
class PortalAnswer:
    """What the portal said of itself, and how far its clock is off."""

    findings: list[Finding]
    peers: list[dict[str, Any]] = field(default_factory=list)


def portal(url: str, secret: str) -> PortalAnswer:
    """Reach, release, clock; with a node's secret also bandwidth and the other nodes."""
    if not url:
        return PortalAnswer([skip("portal", "no address known: give --url, or join first")])
    began_s = time.time()
    try:
        body = health(url)
    except (*UNHEARD, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError) and error.code in _MOVED:
            return PortalAnswer([_moved(url, error)])
        step = "Check the address, the portal, and firewalls between."
        return PortalAnswer([bad("portal", f"{url} does not answer: {error}", "This machine cannot join.", step)])
    took_s = time.time() - began_s
    text = f"{url} answers in {took_s * 1000:.0f} ms, release {body.get('version')}"
    findings = [ok("portal", text)]
    if away := [part for part in ("database", "broker") if body.get(part) is False]:
        step = "Check its log on the portal's machine."
        findings = [warn("portal", f"{text}, but not its {' and '.join(away)}", "No job starts meanwhile.", step)]
    elif body.get("control") is False:
        step = "Start control on the portal's machine, or look at its log (DLH_HOME/logs/control.log)."
        found, meaning = "no control process has read what nodes report for a minute", "runs go on"
        if full := body.get("full"):
            step = "Free space where it keeps its data (the installation: DLH_HOME and the store)."
            found = f"control writes nothing down, since the disk of the {full} is full"
            if full == "installation":  # runs write there, too
                meaning = "runs may fail"
        findings.append(warn("control", found, f"No job starts or is watched meanwhile; {meaning}.", step))
    findings.append(clock(float(body.get("time_s", 0.0)) - (began_s + took_s / 2), took_s))
    if urlsplit(url).scheme == "http" and urlsplit(url).hostname not in {"127.0.0.1", "localhost", "::1"}:
        step = "Put a proxy with TLS in front of the portal, and join by https://."
        findings.append(warn("encryption", "none towards the portal", "Credentials are sent in plain text.", step))
    if not secret:
        return PortalAnswer([*findings, skip("bandwidth", "measured on joined nodes")])
    try:
        me = fetch(f"{url}/api/v1/node", secret)
    except (*UNHEARD, ValueError) as error:
        return PortalAnswer([*findings, _unknown(error)])
    findings += [bandwidth(url, secret), bandwidth_back(url, secret)]
    return PortalAnswer(findings, [dict(peer) for peer in me.get("peers", [])])


def _moved(url: str, error: urllib.error.HTTPError) -> Finding:
    step, place = "Give the address at which the portal itself answers", _place(error)
    if place.endswith(_HEALTH):
        step += f", as it seems {place.removesuffix(_HEALTH)}"
    return bad("portal", f"{url}: {_moved_words(error)}", "A node does not follow that: it cannot work.", f"{step}.")


def _place(error: urllib.error.HTTPError) -> str:
    return str(error.headers.get("Location") or "another address")[:_PLACE_CHARS]


def _moved_words(error: urllib.error.HTTPError) -> str:
    """As the agent says it (`worker.transfer.portal`)."""
    return f"what answers for the portal says {error.code} and names {_place(error)}"


def _unknown(error: Exception) -> Finding:
    """Of a node whose own question got no answer: that the portal does not know it is for the portal alone to say."""
    text = str(error)
    if isinstance(error, urllib.error.HTTPError):
        with error:
            if error.code == HTTPStatus.UNAUTHORIZED and _is_of_portal(error):
                step = "Join again: an admin creates a token with dlh pool add NODE."
                return bad("credentials", text, "The portal does not know this node.", step)
            text = _moved_words(error) if error.code in _MOVED else text
    step = "Check the portal, and what lies between, then run dlh doctor again."
    return bad("credentials", f"cannot be tried: {text}", "The portal did not answer this node's own request.", step)


def fetch(url: str, secret: str = "") -> dict[str, Any]:
    """JSON of a GET. Raises one of `UNHEARD`, `ValueError`."""
    with _open(url, secret) as answer:
        return _told(answer)


def post(url: str, secret: str, body: dict[str, Any]) -> dict[str, Any]:
    """JSON of a POST of JSON. Raises like `fetch`."""
    with _open(url, secret, json.dumps(body).encode(), "application/json") as answer:
        return _told(answer)


def _told(answer: IO[bytes]) -> dict[str, Any]:
    body = json.loads(answer.read(1 << 20))
    if not isinstance(body, dict):
        raise ValueError("the server there is not a portal of the harness")
    return body


def health(url: str) -> dict[str, Any]:
    """What the portal says of itself, also where it answers 503 because a part is away. Raises like `fetch`."""
    try:
        return fetch(f"{url}{_HEALTH}")
    except urllib.error.HTTPError as error:
        with error:
            body = json.loads(error.read(1 << 20)) if error.code == HTTPStatus.SERVICE_UNAVAILABLE else None
        if not isinstance(body, dict) or "time_s" not in body:
            raise
        return body


def _open(
    url: str,
    secret: str,
    body: bytes | None = None,
    content_type: str = "application/octet-stream",
    *,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """Get, or post."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    if body is not None:
        headers["Content-Type"] = content_type
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - the portal's address, given by the operator
    return _DIRECT.open(request, timeout=timeout_s)


def clock(ahead_s: float, uncertain_s: float) -> Finding:
    """`ahead_s`: the portal's clock minus ours, taken in the middle of a request that took `uncertain_s`."""
    off_s = max(0.0, abs(ahead_s) - uncertain_s / 2)
    text = f"{abs(ahead_s):.2f} s {'behind' if ahead_s > 0 else 'ahead of'} the portal's, to {uncertain_s / 2:.2f} s"
    step = "Set both by NTP: timedatectl set-ntp true."
    if off_s > CLOCK_BAD_S:
        return bad("clock", text, "Messages expire before they arrive; above 5 s a machine may not join.", step)
    if off_s > CLOCK_WARN_S:
        return warn("clock", text, "Times of events are off by as much; above 10 s messages are lost.", step)
    return ok("clock", text)


def bandwidth(url: str, secret: str) -> Finding:
    """From the portal to here; over a slow line of what comes in `MEASURED_S`."""
    name, began_s = "bandwidth", time.perf_counter()
    done, took_s = 0, 0.0
    try:
        with _open(f"{url}/api/v1/node/probe?size_bytes={MEASURED_BYTES}", secret) as answer:
            while took_s < MEASURED_S and (block := answer.read(_BLOCK_BYTES)):
                done, took_s = done + len(block), time.perf_counter() - began_s
    except urllib.error.HTTPError as error:
        with error:
            return skip(name, f"not measured: the portal answers {error.code}")
    except UNHEARD as error:
        return _broken(name, done, str(error))
    if done < MEASURED_BYTES and took_s < MEASURED_S:
        return _broken(name, done, "the connection was closed")
    rate = done / took_s if took_s else 0.0
    text = f"{size_words(rate)}/s from the portal"
    if done < MEASURED_BYTES or rate < BANDWIDTH_WARN_BYTES_PER_S:
        return warn(name, text, "A dataset of 10 GiB takes over a quarter of an hour.", "Use a faster link.")
    return ok(name, text)


def _broken(name: str, done_bytes: int, how: str) -> Finding:
    step = "Check what lies between, such as a proxy or a firewall, then run dlh doctor again."
    text = f"broke off after {size_words(done_bytes)} from the portal: {how}"
    return warn(name, text, "Data may not get here.", step)


def bandwidth_back(url: str, secret: str) -> Finding:
    """From here to the portal."""
    name, began_s = "bandwidth back", time.perf_counter()
    try:
        _probe_send(url, secret, MEASURED_BACK_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and not _is_of_portal(error):
                return _too_large(name, f"are refused on the way to the portal ({error.code})")
            return skip(name, f"not measured: the portal answers {error.code}, perhaps as one of an older release")
    except UNHEARD as error:
        if isinstance(getattr(error, "reason", error), ConnectionError | ssl.SSLEOFError) and _small_pass(url, secret):
            return _too_large(name, "are cut off on the way to the portal, while small ones are answered")
        return skip(name, f"not measured: {error}")
    rate = MEASURED_BACK_BYTES / (time.perf_counter() - began_s)
    text = f"{size_words(rate)}/s to the portal"
    if rate < BANDWIDTH_WARN_BYTES_PER_S:
        meaning = (
            "With a cache of its own, each GiB of checkpoints and results takes over a minute and a half to return."
        )
        return warn(name, text, meaning, "Use a faster link.")
    return ok(name, text)


def _probe_send(url: str, secret: str, size_bytes: int) -> None:
    with _open(f"{url}/api/v1/node/probe", secret, bytes(size_bytes), timeout_s=BACK_TIMEOUT_S) as answer:
        answer.read()


def _small_pass(url: str, secret: str) -> bool:
    try:
        _probe_send(url, secret, SMALL_BYTES)
    except UNHEARD:
        return False
    return True


def _is_of_portal(error: urllib.error.HTTPError) -> bool:
    """Whether the portal itself answers, and not a proxy before it in words of its own."""
    try:
        return "error" in json.loads(error.read(1 << 20))
    except (*UNHEARD, ValueError, TypeError):
        return False


def _too_large(name: str, how: str) -> Finding:
    text = f"requests of {size_words(MEASURED_BACK_BYTES)} {how}"
    return warn(name, text, "With a cache of its own, nothing large that a run makes here returns.", PROXY_STEP)
