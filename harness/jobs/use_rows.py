"""Hours, kWh and CO2 by device, job, person or project, as the person who asks may know them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.accounts.access import is_admin, visible_projects
from harness.accounts.models import User
from harness.errors import Invalid
from harness.jobs.control.usage import is_pools
from harness.jobs.models import DeviceUse
from harness.jobs.timelines import KWH_J, Window, basis_of, use_share, uses_of

GROUPS = ("device", "job", "person", "project")
HIDDEN = "of other projects"
USE_COLUMNS = ("name", "job", "device hours", "kWh", "CO2 g", "basis")


@dataclass(kw_only=True)
class UseRow:
    """What one device, job, person or project used."""

    name: str
    job_id: str = ""
    """Where the row is a job that still exists."""
    device_s: float = 0.0
    energy_j: float = 0.0
    bases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Joules by basis."""

    @property
    def device_hours(self) -> float:
        """Hours times devices."""
        return self.device_s / 3600

    @property
    def kwh(self) -> float:
        """Energy in kWh."""
        return self.energy_j / KWH_J

    @property
    def basis(self) -> str:
        """Where most of the energy's figure comes from."""
        return basis_of(self.bases)


def use_rows(*, user: User, window: Window, by: str, uses: Sequence[DeviceUse] | None = None) -> list[UseRow]:
    """Use by device, job, person or project, most energy first. `uses`: of the window, where they were read before.

    What belongs to projects the person does not see is one nameless row. Raises `Invalid`.
    """
    rows: dict[str, UseRow] = {}
    for use, key, name, job_id in use_grouped(user=user, window=window, by=by, uses=uses):
        seconds, joules = use_share(use, window.since, window.until)
        row = rows.setdefault(key, UseRow(name=name, job_id=job_id))
        row.device_s += seconds
        row.energy_j += joules
        row.bases[use.energy_basis] += joules
    return sorted(rows.values(), key=lambda row: (-row.energy_j, row.name, row.job_id))


def use_grouped(
    *, user: User, window: Window, by: str, uses: Sequence[DeviceUse] | None = None
) -> Iterator[tuple[DeviceUse, str, str, str]]:
    """Each use in the window with key, name and job's id of what it belongs to, as the person may know it.

    Raises `Invalid`.
    """
    if by not in GROUPS:
        raise Invalid(f"Use cannot be grouped by {by!r}.", field="by", hint=f"Use one of: {', '.join(GROUPS)}.")
    sees_all, seen = is_admin(user), set(visible_projects(user).values_list("pk", flat=True))
    for use in uses_of(window) if uses is None else uses:
        yield (use, *_group(use, by, sees_all or use.project_id in seen or is_pools(use)))


def _group(use: DeviceUse, by: str, visible: bool) -> tuple[str, str, str]:
    """(key, name, job's id) of the row a use belongs to."""
    if by == "device":
        name = f"{use.node_name} {'GPU' if use.device_kind == 'cuda' else 'CPU'} {use.device_index}"
        return name, name, ""
    if not visible:
        return "", HIDDEN, ""
    if by == "job":
        return use.job_id or f"gone:{use.job_name}", use.job_name, use.job_id or ""
    if by == "person":
        return use.owner_name, use.owner_name, ""
    return use.project_id or f"gone:{use.project_name}", use.project_name, ""


def use_cells(row: UseRow, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `USE_COLUMNS`."""
    return (row.name, row.job_id, row.device_hours, row.kwh, row.kwh * co2_g_per_kwh, row.basis)
