"""Routes: a machine joins the pool; a joined node looks around and tells how it is."""

from __future__ import annotations

import time
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Router, Status

from harness.accounts.signin import client_address
from harness.api.auth import NodeSecret, person
from harness.api.schemas.base import Done
from harness.api.schemas.nodes import (
    ArrivedOut,
    CheckIn,
    JoinIn,
    JoinOut,
    JoinTokenIn,
    JoinTokenOut,
    NodeSelfOut,
    PeerOut,
    ReachIn,
    ReachOut,
)
from harness.errors import Invalid
from harness.pool import joining, reaching
from harness.pool.models import Node
from harness.release import release
from harness.responses import chunks_response

join_router = Router()
router = Router(auth=NodeSecret())
BANDWIDTH_MAX_BYTES = 256 << 20
_BLOCK = bytes(1 << 20)


@join_router.post("/nodes/{name}/token", response={201: JoinTokenOut}, summary="Make a join token")
def token_make(request: HttpRequest, name: str, body: JoinTokenIn) -> Status[Any]:
    """A token that lets one machine in under this name, once. Earlier unused ones of the node end. For admins."""
    token, text = joining.join_token_make(user=person(request), name=name, valid_s=body.valid_s)
    return Status(
        201,
        JoinTokenOut(
            node=name, token=text, expires_at=token.expires_at.isoformat(), command=joining.join_command(text)
        ),
    )


@join_router.post("/join", auth=None, response={201: JoinOut}, summary="Join the pool")
def join(request: HttpRequest, body: JoinIn) -> Status[Any]:
    """Trade a join token for the credentials of a node. `dlh node join` calls it; the token is the sign-in."""
    wish = joining.JoinRequest(**body.model_dump())
    answer = joining.node_join(wish, caller=client_address(request))
    return Status(201, JoinOut(**vars(answer)))


def node_of(request: HttpRequest) -> Node:
    """The node that asks."""
    node = request.auth  # type: ignore[attr-defined]
    assert isinstance(node, Node)  # noqa: S101 - what NodeSecret gives
    return node


@router.get("", response=NodeSelfOut, summary="What a node may know")
def look(request: HttpRequest) -> NodeSelfOut:
    """The portal's release and clock, and where the other nodes are. For joined nodes."""
    node = node_of(request)
    peers = [PeerOut(**vars(peer)) for peer in joining.node_peers(node)]
    return NodeSelfOut(name=node.name, version=release(), time_s=time.time(), peers=peers)


@router.get("/probe", summary="Bytes to time")
def bandwidth(request: HttpRequest, size_bytes: int) -> HttpResponseBase:
    """So many bytes, for a measurement of the line. For joined nodes."""
    node_of(request)
    if not 1 <= size_bytes <= BANDWIDTH_MAX_BYTES:
        raise Invalid(f"A measurement has 1 to {BANDWIDTH_MAX_BYTES} bytes.", field="size_bytes")
    whole, rest = divmod(size_bytes, len(_BLOCK))
    blocks = [_BLOCK] * whole + [_BLOCK[:rest]] * bool(rest)
    answer = chunks_response(request, iter(blocks), content_type="application/octet-stream")
    answer["Content-Length"] = str(size_bytes)
    answer["Content-Encoding"] = "identity"
    return answer


@router.post("/reach", response=ReachOut, summary="Try the ports of this node")
def reach(request: HttpRequest, body: ReachIn) -> ReachOut:
    """Whether the portal gets to ports on which the node listens, at the address that it calls from.

    At most six times a minute (429). For joined nodes.
    """
    node, caller = node_of(request), client_address(request)
    found = reaching.ports_try(node, caller=caller, address=body.address, ports=body.ports, word=body.word)
    return ReachOut(open=[*found.open], not_tried=found.not_tried)


@router.post("/probe", response=ArrivedOut, summary="Take bytes to time")
def bandwidth_back(request: HttpRequest) -> ArrivedOut:
    """Bytes of a measurement of the line, up to 8 MiB, which are thrown away. For joined nodes."""
    node_of(request)
    return ArrivedOut(bytes=sum(map(len, iter(lambda: request.read(len(_BLOCK)), b""))))


@router.post("/check", response=Done, summary="Tell what the doctor found")
def check(request: HttpRequest, body: CheckIn) -> Done:
    """Shown on the pool page. For joined nodes."""
    joining.node_check_save(node_of(request), [item.model_dump() for item in body.findings])
    return Done()
