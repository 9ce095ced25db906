"""What of a run the store does not get, since it is too large or closed, and what a person should know of that."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from worker.cause import failure
from worker.events import FailureCode
from worker.transfer.breaks import PROXY_STEP
from worker.transfer.portal import PortalRefused
from worker.words import counted, size_words

NAMED_MAX = 3
_LIMIT_HINT = (
    "Keep fewer checkpoints (checkpoints.keep) or write less, or have an admin raise DLH_JOB_DISK_GIB. Then resume: "
    "what was returned is kept."
)
_PROXY_HINT = f"{PROXY_STEP} Then resume: what was returned is kept."


def is_too_large(refused: PortalRefused) -> bool:
    """Whether it was refused for its size: to send it again is of no use."""
    return refused.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


FOLDER_CLOSED = (
    "The folder of the results cannot be opened, and what lies there stays on the node, until it needs the room. The "
    "program may have closed it to everybody (chmod): have it leave its results readable, and run it again."
)


def closed_words(names: list[str]) -> str:
    """What became of these files of the results, which could not be opened when the run had ended."""
    one = len(names) == 1
    return (
        f"{'A file' if one else 'Files'} of the results cannot be opened and {'stays' if one else 'stay'} on "
        f"the node, until it needs the room: {_named(names)}. The program may have closed {'it' if one else 'them'} to "
        "everybody (chmod): have it leave its results readable, and run it again."
    )


def _named(told: list[str]) -> str:
    more = f" and {counted(len(told) - NAMED_MAX, 'file')} more" if len(told) > NAMED_MAX else ""
    return f"{', '.join(told[:NAMED_MAX])}{more}"


class Refusals:
    """Checkpoints and files of results that were refused so, and have not been taken since."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._why = self._hint = ""

    def add(self, name: str, size_bytes: int, refused: PortalRefused) -> None:
        """This one was. A refusal without a code is not the portal's."""
        self._sizes[name] = size_bytes
        self._why = str(refused) if refused.code else "what answers for the portal takes no request that large (413)"
        self._hint = _LIMIT_HINT if refused.code else _PROXY_HINT

    def drop(self, name: str) -> None:
        """It has been taken, or is not there any more."""
        self._sizes.pop(name, None)

    @property
    def names(self) -> list[str]:
        """Of all of them."""
        return list(self._sizes)

    def words(self) -> str:
        """What was refused and why; empty where nothing was."""
        if not self._sizes:
            return ""
        told = [f"{name} ({size_words(size)})" for name, size in self._sizes.items()]
        return f"The store does not take {_named(told)}: {self._why.rstrip('.')}."

    def failure(self) -> dict[str, Any]:
        """Why a run whose output was refused has not succeeded."""
        return failure(FailureCode.DISK_FULL, self.words(), self._hint)
