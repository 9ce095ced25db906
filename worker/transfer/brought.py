"""What was brought to a node's cache for one run, and how it is told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worker.transfer.cache import Hold
from worker.transfer.check import Checked, tree_check
from worker.transfer.tree import Tree
from worker.transfer.unreturned import Unreturned
from worker.words import duration_words, size_words


@dataclass(frozen=True)
class Content:
    """A folder of the cache that a run uses."""

    path: Path
    tree: Tree
    inode: int
    """Of the folder: one that was put aside and fetched again has another."""

    @property
    def aside(self) -> bool:
        """It was found damaged, or taken away, since the run began to use it."""
        try:
            return self.path.stat().st_ino != self.inode
        except OSError:
            return True

    def check(self, limit_s: float) -> Checked:
        """Hash it for at most so long."""
        return tree_check(self.path, self.tree, limit_s)


@dataclass
class Brought:
    """What was brought for one run, and kept from being removed until `release`."""

    fetched_bytes: int = 0
    """Over the network."""
    signed_bytes: int = 0
    """So many of them from the object store, past the portal."""
    cached_bytes: int = 0
    """It was here already."""
    damaged: list[str] = field(default_factory=list)
    """Files that were here and not as they had arrived: fetched again."""
    began_s: float = field(default_factory=time.monotonic)
    holds: list[Hold] = field(default_factory=list)
    dataset: Content | None = None
    weights: Content | None = None
    """Those that the run starts from, where it does."""
    unreturned: list[Unreturned] = field(default_factory=list)
    """Checkpoints that lay here and the store never got, the oldest first."""

    def release(self) -> None:
        """Nothing of it is in use any more."""
        for hold in self.holds:
            hold.release()

    def told(self, node: str) -> dict[str, Any]:
        """Data of the note for the job's history."""
        took_s = time.monotonic() - self.began_s
        fetched = f"{size_words(self.fetched_bytes)} fetched in {duration_words(took_s)}"
        what = fetched if self.fetched_bytes else "nothing to fetch"
        what += f" ({size_words(self.signed_bytes)} of it from the object store)" if self.signed_bytes else ""
        message = f"Data and program on {node}: {what}, {size_words(self.cached_bytes)} were in its cache."
        if self.damaged:
            message += f" Its copy of {', '.join(self.damaged[:3])} had become damaged and was fetched again."
        if self.unreturned:
            message += f" It goes on from {self.unreturned[-1].name}, which lay there and had not been returned."
        return {
            "message": message, "node": node, "fetched_bytes": self.fetched_bytes, "cached_bytes": self.cached_bytes,
            "signed_bytes": self.signed_bytes, "damaged": self.damaged, "preload_s": round(took_s, 3),
        }  # fmt: skip
