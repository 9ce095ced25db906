"""Quotas: how many devices of one kind the jobs of a project may hold together."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import Project, User
from harness.broker import publish_pool, task_send_on_commit
from harness.errors import Invalid, NotFound
from harness.pool.models import DeviceKind, Quota
from harness.pool.turn import facts_change

DEVICES_MAX = 1_000_000


def quota_set(*, user: User, project: Project, device_kind: str, devices: int, may_borrow: bool | None = None) -> Quota:
    """Give a project a quota, or change it. Running jobs are not stopped. `may_borrow`: None leaves it as it is, and
    has a new one borrow. Raises `Forbidden`, `Invalid`."""
    require_admin(user)
    quota_check(device_kind, devices)
    told = {"devices": devices} | ({} if may_borrow is None else {"may_borrow": may_borrow})
    with transaction.atomic():
        facts_change()  # nothing that is being decided on the quota before this is carried out
        quota, _ = Quota.objects.update_or_create(project=project, device_kind=device_kind, defaults=told)
        audit_write(
            user, "quota_set", project.slug, project=project,
            device_kind=device_kind, devices=devices, may_borrow=quota.may_borrow,
        )  # fmt: skip
        publish_pool("quota", {})  # without its project: everybody hears it
        task_send_on_commit("control.tick")
    return quota


def quota_remove(*, user: User, project: Project, device_kind: str) -> None:
    """Take the limit away. Raises `Forbidden`, `Invalid`, `NotFound`."""
    require_admin(user)
    with transaction.atomic():
        facts_change()
        quota_get(project, device_kind).delete()
        audit_write(user, "quota_remove", project.slug, project=project, device_kind=device_kind)
        publish_pool("quota", {})  # without its project: everybody hears it
        task_send_on_commit("control.tick")


def quota_get(project: Project, device_kind: str) -> Quota:
    """The quota of a project. Raises `Invalid`, `NotFound`."""
    _kind_check(device_kind)
    found = Quota.objects.filter(project=project, device_kind=device_kind).first()
    if found is None:
        one = DeviceKind(device_kind).label
        raise NotFound(
            f"{project.name} has no quota for devices of kind {one}.",
            hint="`dlh pool quotas` lists those there are.",
        )
    return found


def quota_list() -> QuerySet[Quota]:
    """All quotas, by project and kind."""
    return (
        Quota.objects.filter(project__deleted_at=None)
        .select_related("project")
        .order_by("project__name", "project_id", "device_kind")
    )


def quota_check(device_kind: str, devices: int) -> None:
    """Raises `Invalid` for what cannot be a quota."""
    _kind_check(device_kind)
    if isinstance(devices, bool) or not 0 <= devices <= DEVICES_MAX:
        raise Invalid(f"A quota is a number of devices from 0 to {DEVICES_MAX:,}.", field="devices")


def _kind_check(device_kind: str) -> None:
    if device_kind not in DeviceKind.values:
        raise Invalid(
            f"There is no kind of device {device_kind!r}.",
            field="device_kind",
            hint=f"Use one of: {', '.join(DeviceKind.values)}.",
        )
