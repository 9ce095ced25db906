"""Read datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from codegen.profile.target_guess import UNFIT
from codegen.profile.types import IMAGES_FILE, TABLE_FILE, THUMBNAILS_FOLDER, DataKind, DatasetProfile
from harness.accounts.access import require, visible_projects
from harness.accounts.models import Project, Role, User
from harness.bucket.wanted import wanted_check
from harness.datasets.content import content_keys
from harness.datasets.models import Dataset, DatasetState
from harness.errors import Conflict, Invalid, NotFound
from harness.paging import search_check

ROWS_MAX = 500


def dataset_list(
    *, user: User, project: Project | None = None, query: str = "", deleted: bool = False
) -> QuerySet[Dataset]:
    """Datasets the person sees, newest first; with `deleted` those in the trash."""
    rows = Dataset.objects.filter(project__in=visible_projects(user), deleted_at__isnull=not deleted)
    if project is not None:
        rows = rows.filter(project=project)
    if search_check(query):
        rows = rows.filter(Q(name__icontains=query) | Q(source_name__icontains=query))
    return rows.select_related("project", "owner").order_by("-created_at", "pk")


def dataset_get(*, user: User, dataset_id: str, role: Role = Role.VIEWER) -> Dataset:
    """One dataset by id, in the trash or not. Raises `NotFound`, `Forbidden`."""
    dataset = Dataset.objects.select_related("project", "owner").filter(pk=dataset_id).first()
    if dataset is None:
        raise NotFound("There is no such dataset.", hint="See the list of datasets.")
    try:
        require(user, dataset.project, role)
    except NotFound as error:
        raise NotFound("There is no such dataset.", hint="See the list of datasets.") from error
    return dataset


def datasets_of_bytes(rows: QuerySet[Dataset], bytes_sha256: str, source_name: str) -> QuerySet[Dataset]:
    """Those among `rows` that were made of exactly this file, with whatever options and whenever it was read."""
    read_by = rows.order_by().values_list("options", flat=True)
    keys = {key for options in read_by for key in content_keys(bytes_sha256, source_name, options)}
    return rows.filter(sha256__in=keys)


def datasets_same(dataset: Dataset) -> QuerySet[Dataset]:
    """Earlier datasets of its project, so seen by whoever sees it, of the same bytes that are read alike."""
    rows = Dataset.objects.filter(project_id=dataset.project_id, sha256=dataset.sha256, deleted_at=None)
    return rows.filter(created_at__lt=dataset.created_at).order_by("created_at", "pk")


def target_notes(dataset: Dataset) -> list[str]:
    """What the types that a person set mean for the target that was guessed: told before the data is read anew."""
    guess = dataset.options.get("target_guess")
    kind = dataset.options.get("column_types", {}).get(guess)
    guessed = (dataset.profile or {}).get("target", guess)  # where it was read since, the reason tells
    if kind not in UNFIT or guessed != guess:
        return []
    return [f"{guess} was guessed as the target and cannot be it as {kind}: set `target`, or another is guessed."]


def dataset_kept_check(dataset: Dataset) -> None:
    """Pass for a dataset that jobs may be made of. Raises `Conflict` for one in the trash."""
    if dataset.deleted_at:
        raise Conflict("This dataset is in the trash.", hint="Restore it first.", field="data.dataset")


def dataset_profile(dataset: Dataset) -> DatasetProfile:
    """The profile of a dataset that is ready. Raises `Conflict` before, or where the data cannot be used."""
    if dataset.state == DatasetState.FAILED:
        problem = dataset.problem or {}
        raise Conflict(problem.get("message", "This dataset cannot be used."), hint=problem.get("hint", ""))
    if dataset.profile is None:
        raise Conflict("This dataset is still being read.", hint="Wait for its profile.")
    return DatasetProfile.from_dict(dataset.profile)


def dataset_folder(dataset: Dataset) -> Path:
    """Folder of the packed form."""
    folder: Path = settings.STORE.dataset(dataset.sha256).packed
    return folder


def dataset_rows(dataset: Dataset, offset: int = 0, limit: int = 50) -> dict[str, Any]:
    """`{columns, rows, total}` of the packed form; pictures come without their bytes. Raises `Invalid`, `Conflict`."""
    import polars as pl

    if offset < 0 or not 1 <= limit <= ROWS_MAX:
        raise Invalid(f"offset is 0 or more and limit 1 to {ROWS_MAX}.", field="limit")
    profile = dataset_profile(dataset)
    is_table = profile.kind == DataKind.TABLE
    file = dataset_folder(dataset) / (TABLE_FILE if is_table else IMAGES_FILE)
    if not file.exists():
        wanted_check(f"datasets/{dataset.sha256}", f"{file.parent.name}/{file.name}")
    frame = pl.scan_parquet(file)
    if not is_table:
        frame = frame.select(pl.exclude("image"))
    part = frame.slice(offset, limit).collect()
    return {
        "columns": part.columns,
        "rows": [[_plain(value) for value in row] for row in part.iter_rows()],
        "total": profile.rows,
        "offset": offset,
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return str(value)


def dataset_thumbnail(dataset: Dataset, name: str) -> Path:
    """File of one thumbnail that the profile names. Raises `NotFound`, `Conflict`."""
    images = dataset_profile(dataset).images
    if images is None or name not in {file for _, file in images.thumbnails}:
        raise NotFound("There is no such thumbnail.")
    folder = dataset_folder(dataset) / THUMBNAILS_FOLDER
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise NotFound("There is no such thumbnail.")
    return path
