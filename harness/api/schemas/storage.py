"""Storage: what projects take of the store's disk, and what they may take."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict
from harness.plain import INTEGER_MAX


class StorageQuotaIn(Strict):
    """How much a project may take."""

    limit_bytes: int | None = Field(ge=0, le=INTEGER_MAX, description="Null: no limit.", examples=[10737418240])


class PurgeIn(Strict):
    """What is deleted for good."""

    at_once: bool = Field(False, description="true: one that is not in the trash, too.")


class StorageOut(Schema):
    """One project's use of the disk beside its quota."""

    project: str = Field(description="Slug.")
    used_bytes: int = Field(description="All of what follows.")
    limit_bytes: int | None = Field(description="Null: no limit.")
    is_default: bool = Field(description="The limit is the installation's, `DLH_STORAGE_QUOTA_GIB`.")
    is_over: bool = Field(description="Nothing more can be added; running jobs continue.")
    dataset_bytes: int = Field(description="Contents that the project names, each once, whoever else names it.")
    checkpoint_bytes: int
    result_bytes: int = Field(description="Results and predictions.")
    other_bytes: int = Field(description="Programs, logs and events of jobs.")
    upload_bytes: int = Field(description="Announced by uploads that are not finished.")


class StorageItemOut(Schema):
    """One thing that takes disk."""

    kind: Literal["dataset", "weights", "job", "upload", "earlier"] = Field(
        description="`earlier`: a dataset as it was read before, which jobs were made for."
    )
    id: str
    name: str
    owner: str
    used_bytes: int
    checkpoint_bytes: int
    result_bytes: int
    created_at: datetime
    deleted_at: datetime | None = Field(description="In the trash since; it counts until it is deleted for good.")
    keeps: str = Field(description="Why it cannot be deleted now; empty: it can be.")
    may_delete: bool = Field(description="Whether the caller may.")
    note: str


class StorageDetail(StorageOut):
    """The same with what it is made of."""

    items: list[StorageItemOut] = Field(description="The largest first, at most 100.")
