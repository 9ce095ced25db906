"""The words of a message, its JSON for webhooks, and the signature. Nothing here asks the database."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import asdict, dataclass, field
from datetime import tzinfo
from typing import Any
from urllib.parse import urlsplit

from harness.moments import moments_told

SIGNATURE_HEADER = "X-DLH-Signature"
_ZERO_WIDTH_SPACE = "\u200b"
_MATTERMOST_PATH = re.compile(r"/hooks/[a-z0-9]{26}/?$")
"""How the paths of its incoming webhooks end. In Slack a backslash would escape nothing, but stand there."""
_ADDRESS = re.compile(r"://|www\.", re.IGNORECASE)
"""By which chats know an address that nobody marked as a link."""
_MARKDOWN = re.compile(r"[\\`*_\[\]()#!|~]")


@dataclass(frozen=True, kw_only=True)
class Message:
    """What happened. It names things and links to them, and carries neither data nor output of programs."""

    title: str
    """One line, such as `flowers finished`."""
    detail: str = ""
    """One or two sentences more; moments as `harness.moments.moment_words` writes them."""
    url: str
    """Page of the portal that tells the rest."""
    project: dict[str, str] = field(default_factory=dict)
    """`{slug, name}`; empty: a test."""
    job: dict[str, str] = field(default_factory=dict)
    """`{id, name, state, owner}`; empty: it is about no job."""

    def to_dict(self) -> dict[str, Any]:
        """As it is stored."""
        return asdict(self)


def one_line(text: str) -> str:
    """Without line breaks and control characters: names come from people, and titles become headers of e-mails."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def mail_subject(message: Message) -> str:
    """`[Vision] flowers finished`."""
    name = message.project.get("name", "")
    return one_line(f"[{name}] {message.title}" if name else message.title)[:200]


def mail_text(message: Message, settings_url: str, zone: tzinfo) -> str:
    """Body of the e-mail to one person, with its moments in their zone."""
    detail = moments_told(message.detail, zone)
    ending = f"-- \nYou get this by what you chose under Notifications: {settings_url}"
    parts = [message.title, detail, _whose(message), message.url, ending]
    return "\n\n".join(part for part in parts if part) + "\n"


def _whose(message: Message) -> str:
    """`Project Birds, job of ada`: who watches a project gets messages about the jobs of others."""
    name, owner = message.project.get("name"), message.job.get("owner")
    return one_line(", ".join(filter(None, (name and f"Project {name}", owner and f"job of {owner}"))))


def webhook_body(message: Message, *, delivery_id: str, kind: str, at: str, url: str = "") -> bytes:
    """JSON for the webhook at `url`. `text` is what receivers in the manner of Slack show: to many, so its moments are
    in UTC."""
    is_mattermost = _MATTERMOST_PATH.search(urlsplit(url).path) is not None
    told = {
        "id": delivery_id,
        "event": kind,
        "at": at,
        "text": _chat_text(message, is_markdown=is_mattermost),
        **message.to_dict(),
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def _chat_text(message: Message, *, is_markdown: bool) -> str:
    """Escaped as Slack asks for it, and for Mattermost its Markdown as well; a name like `@all` or `<!channel>` calls
    nobody, and none becomes a link, a picture or a heading, nor does an address in one."""
    name = message.project.get("name", "")
    said = f"{name}: {message.title}" if name else message.title
    said = one_line(f"{said}. {message.detail}" if message.detail else said)
    if is_markdown:
        said = _MARKDOWN.sub(r"\\\g<0>", said)
    said = said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    said = _ADDRESS.sub(rf"\g<0>{_ZERO_WIDTH_SPACE}", said)
    return f"{said.replace('@', '@' + _ZERO_WIDTH_SPACE)} {message.url}"


def signature(body: bytes, *, secret: str, time_s: int) -> str:
    """Value of `X-DLH-Signature`: `t=<unix time>,v1=<HMAC-SHA256 of "<t>.<body>", hex>`."""
    digest = hmac.new(secret.encode(), f"{time_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={time_s},v1={digest}"
