"""How a machine joins the pool: an admin's token, used once, becomes the node's own credentials.

The node's secret is shown to the node alone. Its SHA-256 is what the portal stores, and what the broker is given as
the password of the node's own user: `ACL SETUSER ... #<sha256>`.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from harness.accounts.access import is_admin, require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.broker import publish_pool
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.moments import moment_words
from harness.pool.broker_users import broker_trouble, broker_user_renew
from harness.pool.models import JoinToken, NetworkEncryption, Node
from harness.pool.networks import encryption_problem, is_loopback
from harness.pool.services import is_heard, pool_setting_get
from harness.pool.terms import CLOCK_LIMIT_S, SECRET_PREFIX, broker_user, digest_of
from harness.release import release
from worker.plan import PLAN_VERSION

TOKEN_PREFIX = "dlhj_"  # noqa: S105 - not a secret: how one begins
TOKEN_BYTES = 32
VALID_DEFAULT_S = 24 * 3600.0
VALID_LIMITS_S = (60.0, 30 * 24 * 3600.0)
STORE_MARK = ".dlh-store"
"""File in the store whose content tells one store from another."""
FINDINGS_MAX = 60
_TEXT_MAX = 600
_STATES = frozenset({"ok", "warn", "bad", "skip"})
_NAME = re.compile(r"[\w .,:/()-]{1,80}")


@dataclass(frozen=True, kw_only=True)
class JoinRequest:
    """What a machine says of itself."""

    token: str
    version: str
    plan_version: int
    time_s: float
    """Its clock (Unix time)."""


@dataclass(frozen=True, kw_only=True)
class JoinAnswer:
    """What the machine gets, once."""

    node: str
    secret: str
    redis_url: str
    store: str
    """Folder of the store, which the node must see under the same path."""
    store_id: str


def join_token_make(*, user: User, name: str, valid_s: float = VALID_DEFAULT_S) -> tuple[JoinToken, str]:
    """A token for the node `name`; the second value is its text, shown once. Earlier unused ones end.

    Raises `Forbidden`, `NotFound`, `Invalid`, `Conflict` where a machine of that name is in the pool and alive.
    """
    require_admin(user)
    low_s, high_s = VALID_LIMITS_S
    if not low_s <= valid_s <= high_s:
        told = f"A join token is valid for {low_s:.0f} s to {high_s / 86400:.0f} days."
        raise Invalid(told, field="valid_s", hint="For a day, say: 86,400 s, or dlh pool add NODE --hours 24.")
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node {name}.", hint=f"Add it first: dlh pool add {name}.")
    _not_alive(node)
    text = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    with transaction.atomic():
        JoinToken.objects.filter(node=node, used_at=None).delete()
        expires_at = timezone.now() + timedelta(seconds=valid_s)
        token = JoinToken.objects.create(node=node, digest=digest_of(text), by=user, expires_at=expires_at)
        audit_write(user, "join_token_make", name, expires_at=expires_at.isoformat())
    return token, text


def join_command(text: str) -> str:
    """What to type on the machine that is to join."""
    return f"dlh node join {settings.PORTAL_URL} {text}"


def _not_alive(node: Node) -> None:
    if is_heard(node):
        raise Conflict(
            f"A machine called {node.name} is in the pool and alive.",
            code="name_taken",
            hint="Take another name, or stop the agent there first.",
        )


def node_join(request: JoinRequest, *, caller: str) -> JoinAnswer:
    """Let a machine in. `caller` is the address it called from. A refusal leaves the token as good as before.

    Raises `Forbidden` (unknown token, or of somebody who is no admin any more) and `Conflict` with the codes
    `join_token_used`, `join_token_expired`, `version_mismatch`, `clock_off`, `name_taken`, `broker_not_reachable`.
    """
    now = timezone.now()
    token = _token_find(request.token, now)
    _same_release(request)
    _clocks_agree(request.time_s, now)
    _not_alive(token.node)
    url = node_redis_url(caller)
    secret = SECRET_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    digest = digest_of(secret)
    with transaction.atomic():
        if not JoinToken.objects.filter(pk=token.pk, used_at=None).update(used_at=now):
            raise _used()
        Node.objects.filter(pk=token.node_id).update(secret_digest=digest, joined_at=now, check_result={})
        audit_write(token.by, "node_join", token.node.name, caller=caller)
        try:
            own = broker_user_renew(token.node.name, digest)
        except redis.RedisError as error:
            raise broker_trouble(error) from error
    publish_pool("node", {"node": token.node.name, "state": token.node.state})
    return JoinAnswer(
        node=token.node.name,
        secret=secret,
        redis_url=_with_user(url, broker_user(token.node.name), secret) if own else url,
        store=str(settings.STORE.root),
        store_id=store_id(),
    )


def _token_find(text: str, now: datetime) -> JoinToken:
    """By its digest, so the comparison leaks nothing about other tokens."""
    token = JoinToken.objects.select_related("node", "by").filter(digest=digest_of(text.strip())).first()
    if token is None:
        raise Forbidden(
            "This join token is unknown.",
            code="join_token_unknown",
            hint="Copy it whole, or have an admin make a new one: dlh pool add NODE.",
        )
    if token.used_at:
        raise _used()
    if token.expires_at <= now:
        raise Conflict(
            f"This join token expired at {moment_words(token.expires_at)}.",
            code="join_token_expired",
            hint=f"Have an admin make a new one: dlh pool add {token.node.name}.",
        )
    if token.by is not None and not is_admin(token.by):
        raise Forbidden(
            "This join token was made by somebody who is no admin any more.",
            code="join_token_ended",
            hint=f"Have an admin make a new one: dlh pool add {token.node.name}.",
        )
    return token


def _used() -> Conflict:
    return Conflict(
        "This join token has been used: each lets one machine in, once.",
        code="join_token_used",
        hint="Have an admin make a new one: dlh pool add NODE.",
    )


def _same_release(request: JoinRequest) -> None:
    if (request.version, request.plan_version) != (release(), PLAN_VERSION):
        raise Conflict(
            f"This machine has release {request.version} (plans {request.plan_version}), the portal {release()} "
            f"(plans {PLAN_VERSION}).",
            code="version_mismatch",
            hint="Install the portal's release on this machine, then join with the same token.",
        )


def _clocks_agree(time_s: float, now: datetime) -> None:
    ahead_s = time_s - now.timestamp()
    if abs(ahead_s) > CLOCK_LIMIT_S:
        raise Conflict(
            f"The clock of this machine is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} "
            "the portal's.",
            code="clock_off",
            hint="Set both by NTP (timedatectl set-ntp true), then join with the same token.",
        )


def node_redis_url(caller: str) -> str:
    """The broker as nodes reach it. Raises `Conflict` where that is this machine only and the caller is another."""
    url = settings.NODE_REDIS_URL or settings.REDIS_URL
    if is_loopback(urlsplit(url).hostname or "") and not is_loopback(caller):
        raise Conflict(
            "The portal's broker listens on its own machine only.",
            code="broker_not_reachable",
            hint="Start the stack with DLH_BROKER_HOST=<an address of the portal's machine>, or name a broker that "
            "nodes reach in DLH_NODE_REDIS_URL.",
        )
    return url


def _with_user(url: str, user: str, secret: str) -> str:
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{secret}@{place}"))


def store_id() -> str:
    """What tells this store from any other, made at first use: a joining machine must read it in its own folder."""
    file: Path = settings.STORE.root / STORE_MARK
    settings.STORE.root.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        _mark_make(file)
    return file.read_text().strip()


def _mark_make(file: Path) -> None:
    """Of two who do so at once one wins, and both read its mark: who joined by the other would be turned away."""
    draft = file.with_name(f"{STORE_MARK}.{secrets.token_hex(4)}")
    try:
        with draft.open("w") as stream:
            stream.write(secrets.token_hex(16))
            stream.flush()
            os.fsync(stream.fileno())  # before it has its name: a power cut would leave an empty mark, for good
        try:
            os.link(draft, file)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def node_find(secret: str) -> Node | None:
    """The node whose secret this is."""
    if not secret.startswith(SECRET_PREFIX):
        return None
    return Node.objects.filter(secret_digest=digest_of(secret)).first()


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another node, and how ranks of this one reach ranks there."""

    name: str
    address: str
    state: str
    own_network: bool
    """By a network that they share with nobody else: through one port, instead of those that ranks listen on."""
    encrypted: bool
    """By one that WireGuard encrypts: other ports."""
    encryption_required: bool
    """By such a one or by none; else a gang with a node that cannot encrypt talks in clear."""


def node_peers(node: Node) -> list[Peer]:
    """The other nodes and where they are."""
    setting = pool_setting_get()
    return [
        Peer(
            name=other.name,
            address=other.address,
            state=other.state,
            own_network=setting.ranks_apart and other.description.get("network_problem") == "",
            encrypted=not encryption_problem((node, other), setting.network_encryption),
            encryption_required=setting.network_encryption == NetworkEncryption.REQUIRED,
        )
        for other in Node.objects.exclude(pk=node.pk).order_by("name")
    ]


def node_check_save(node: Node, findings: list[dict[str, Any]]) -> None:
    """Keep what the node's doctor found, for the pool page. Raises `Invalid`."""
    if len(findings) > FINDINGS_MAX or any(item.get("state") not in _STATES for item in findings):
        raise Invalid("These are not the findings of dlh doctor.", field="findings")
    kept = [
        {key: str(item.get(key, ""))[:_TEXT_MAX] for key in ("name", "state", "text", "meaning", "step")}
        for item in findings
    ]
    if not all(_NAME.fullmatch(item["name"]) for item in kept):
        raise Invalid("These are not the findings of dlh doctor.", field="findings")
    Node.objects.filter(pk=node.pk).update(check_result={"at_s": timezone.now().timestamp(), "findings": kept})
    publish_pool("node", {"node": node.name, "state": node.state})
