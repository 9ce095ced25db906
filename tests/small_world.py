"""People, a project and a dataset that is ready, for fixtures of any scope."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def people_make() -> SimpleNamespace:
    """`owner` (admin of `project`), `mate` (member), `viewer`, `outsider` (of `elsewhere`), `admin` of all."""
    from harness.accounts.models import Membership, Project, Role, User

    made = {
        name: User.objects.create_user(name, f"{name}@example.org", "correct horse battery")
        for name in ("owner", "mate", "viewer", "outsider")
    }
    made["admin"] = User.objects.create_superuser("admin", "admin@example.org", "correct horse battery")
    project = Project.objects.create(name="Birds", slug="birds")
    elsewhere = Project.objects.create(name="Elsewhere", slug="elsewhere")
    roles = {"owner": Role.ADMIN, "mate": Role.MEMBER, "viewer": Role.VIEWER}
    for name, role in roles.items():
        Membership.objects.create(project=project, user=made[name], role=role)
    Membership.objects.create(project=elsewhere, user=made["outsider"], role=Role.ADMIN)
    return SimpleNamespace(**made, project=project, elsewhere=elsewhere)


def dataset_ready(source: Path, packed: Path, user: Any, project: Any, name: str) -> Any:
    """A dataset of a file whose packed form is there."""
    from django.conf import settings

    from harness.datasets.content import content_key, file_sha256
    from harness.datasets.services import dataset_create_from_file

    place = settings.STORE.dataset(content_key(file_sha256(source), source.name, {})).packed
    if not (place / "table.parquet").exists():  # another test may have left a profile alone
        shutil.copytree(packed, place, dirs_exist_ok=True)
    return dataset_create_from_file(user=user, project=project, name=name, path=source)
