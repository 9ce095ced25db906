"""Which tables of offers `dlh` has shown here, of which pricing each: a number of a line is of one of these."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.client.config import config_folder, private_write

_LENGTH_MAX = 100


@dataclass(frozen=True, kw_only=True)
class ShownOffer:
    """One table."""

    url: str
    """Of the portal."""
    job: str
    id: str
    made_at: str
    """When the offer was priced, as the API tells it."""


@dataclass
class ShownOffers:
    """Kept between runs, of each offer the table that was shown last."""

    path: Path = field(default_factory=lambda: config_folder() / "offers.json")

    def read(self) -> list[ShownOffer]:
        """Those that were shown last at the end."""
        try:
            return [
                ShownOffer(**{name: str(row[name]) for name in _NAMES}) for row in json.loads(self.path.read_text())
            ]
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def write(self, shown: ShownOffer) -> None:
        """Remember a table. Raises `OSError`."""
        others = [row for row in self.read() if (row.url, row.id) != (shown.url, shown.id)]
        kept = [*others, shown][-_LENGTH_MAX:]
        private_write(self.path, json.dumps([asdict(row) for row in kept], indent=1))

    def last(self, *, url: str, job: str, offer: str = "") -> ShownOffer | None:
        """The one of a job that was shown last, or that of the named offer."""
        rows = (row for row in reversed(self.read()) if (row.url, row.job) == (url, job))
        return next((row for row in rows if offer in ("", row.id)), None)


_NAMES = tuple(ShownOffer.__dataclass_fields__)
