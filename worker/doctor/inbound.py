"""Whether others get to the ports on which ranks listen here.

The portal is asked to try: a connection to our own address stays within this machine, where no firewall sees it.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import socketserver
import threading
import urllib.error
from collections.abc import Iterator, Sequence
from http import HTTPStatus

from worker import address as addresses
from worker.doctor.findings import Finding, ok, skip, warn
from worker.doctor.network import port_range
from worker.doctor.portal import UNHEARD, post
from worker.reach import RANK_PORTS

NAME = "inbound ports"
PORTS_TRIED = 3
_CHOICES = 30
"""So many ports are looked at for some that are free."""
_ELSEWHERE = "run dlh doctor on one of the others, which tries the ports of this one."


def inbound(own: str, url: str, secret: str, *, able: bool) -> Finding:
    """Have the portal connect to us. `able`: ranks here can have a network of their own, which needs no such ports."""
    if not (url and secret):
        return skip(NAME, "tried on joined nodes")
    if not own or addresses.is_loopback(own):
        return skip(NAME, "not tried: no other machine reaches this one's address")
    word = secrets.token_hex(16)
    with listening(own, word) as ports:
        if not ports:
            return skip(NAME, f"not tried: {own} cannot be listened on")
        try:
            told = post(f"{url}/api/v1/node/reach", secret, {"address": own, "ports": ports, "word": word})
        except urllib.error.HTTPError as error:
            return _not_tried(_refused(error))
        except (*UNHEARD, ValueError) as error:
            return _not_tried(str(error))
    if told.get("not_tried"):
        return _not_tried(str(told["not_tried"]))
    heard = {int(port) for port in told.get("open", [])}
    return judged(own, [port for port in ports if port not in heard], able=able)


def judged(own: str, silent: Sequence[int], *, able: bool) -> Finding:
    """`silent`: ports to which the portal did not get."""
    low, high = port_range()
    if not silent:
        return ok(NAME, f"{own}: the portal gets to ports {low}-{high} ({PORTS_TRIED} tried)")
    text = f"{own}: the portal does not get to ports {', '.join(map(str, silent))}"
    meaning = "Jobs over several nodes hang, unless the others get to them where the portal does not."
    if able:
        meaning = "Jobs over several nodes hang where ranks share the hosts' networks, as beside a node that needs it."
    step = f"Let inbound TCP {low}-{high} from the other nodes and the portal through this machine's firewall."
    return warn(NAME, text, meaning, f"{step} If only other nodes shall connect: {_ELSEWHERE}")


@contextlib.contextmanager
def listening(own: str, word: str) -> Iterator[list[int]]:
    """Ports of ranks on which whoever connects is told the word."""

    class Teller(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(word.encode())

    low, high = port_range()
    both = range(max(low, RANK_PORTS.start), min(high + 1, RANK_PORTS.stop))
    choices = random.sample(both, min(_CHOICES, len(both)))
    with contextlib.ExitStack() as open_servers:
        ports: list[int] = []
        for port in choices:
            if len(ports) == PORTS_TRIED:
                break
            with contextlib.suppress(OSError):
                server = open_servers.enter_context(socketserver.TCPServer((own, port), Teller))
                threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                open_servers.callback(server.shutdown)
                ports.append(port)
        yield ports


def _not_tried(reason: str) -> Finding:
    return skip(NAME, f"not tried: {reason} To have it tried, {_ELSEWHERE}")


def _refused(error: urllib.error.HTTPError) -> str:
    with error:
        if error.code in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            return "the portal is of an older release, which tries none."
        if error.code == HTTPStatus.TOO_MANY_REQUESTS:
            return "the portal has tried often in this minute."
        return f"the portal answers {error.code}."
