"""Forms about the pool: nodes, devices, sweeps, its settings, reservations, quotas."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from django import forms
from django.forms.fields import InvalidJSONInput

from harness.accounts.models import User
from harness.pages.forms import Tabler
from harness.pool.gangs import SPAN_NODES
from harness.pool.models import DeviceKind, NetworkEncryption, Policy, PoolSetting


class NodeForm(Tabler):
    """A node to expect."""

    name = forms.CharField(max_length=60, label="Name of the node", help_text="Lower-case letters, digits and hyphens.")


class SlowForm(Tabler):
    """A device to slow down."""

    device = forms.ChoiceField(label="Device")
    factor = forms.FloatField(
        label="Times slower", initial=2.0, min_value=1.0, max_value=100.0, help_text="1: full speed."
    )

    def set_devices(self, names: Iterable[str]) -> None:
        """Offer the devices of the pool, each as `node kind:index`."""
        self.offer_choices("device", [(name, name) for name in names])


EVERY_MODEL = "*"
"""Stands for all models of a kind where one of them can be chosen."""


class CalibrationForm(Tabler):
    """A sweep to start."""

    node = forms.ChoiceField(label="Node")
    kind = forms.ChoiceField(label="Kind of device", choices=DeviceKind.choices, initial=DeviceKind.CPU)
    model = forms.ChoiceField(
        label="Model", required=False, help_text="One that the node has. Every model: each on the node that has most."
    )
    minutes = forms.FloatField(
        label="Budget in minutes", initial=10, min_value=0.2, max_value=1440, help_text="Of measuring. More is better."
    )

    def set_nodes(self, names: Iterable[str]) -> None:
        """Offer the nodes that are up."""
        self.offer_choices("node", [(name, name) for name in names])

    def set_models(self, names: Iterable[str]) -> None:
        """Offer the models of the pool."""
        ways = [("", "The only one of its kind there"), (EVERY_MODEL, "Every model of the kind in the pool")]
        self.offer_choices("model", [*ways, *((name, name) for name in names)])


_TOLD_MOST = 120
"""Letters of a table that are told beside the field that shows all of it."""
_LEVELS = [(level, f"L{level}") for level in range(4)]


class JsonText(forms.JSONField):
    """Django's, which takes only a misplaced letter for what is no JSON: a hundred thousand brackets, or a number of as
    many digits, ended the request."""

    def to_python(self, value: Any) -> Any:
        """The value. Raises `ValidationError`."""
        try:
            return super().to_python(value)
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What was typed, as it was typed."""
        return InvalidJSONInput(data) if isinstance(data, str) else super().bound_data(data, initial)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """An empty field is an empty object."""
        return super().has_changed(initial or {}, data or "{}")


class PoolForm(Tabler):
    """Settings of the pool, with what they were when the page was made: two admins may change different ones."""

    minimum_sandbox_level_own_code = forms.TypedChoiceField(
        coerce=int, choices=_LEVELS, label="Least sandbox level for edited or own programs"
    )
    minimum_sandbox_level_generated = forms.TypedChoiceField(
        coerce=int, choices=_LEVELS, label="Least sandbox level for generated programs"
    )
    backend = forms.ChoiceField(choices=[("horovod", "Horovod"), ("torch", "torch.distributed")], label="Ranks talk by")
    span_nodes = forms.BooleanField(
        required=False,
        label=SPAN_NODES,
        help_text="Where one has not devices enough.",
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )
    own_network = forms.BooleanField(
        required=False,
        label="Its ranks have a network of their own",
        help_text="By UDP port 4789 between the nodes. Else they share the hosts' networks (sandbox L2 at most).",
        widget=forms.CheckboxInput(attrs={"class": "form-check-input"}),
    )
    network_encryption = forms.ChoiceField(
        choices=NetworkEncryption.choices,
        label="That network is encrypted",
        help_text="By WireGuard, UDP ports 21820-21919 between the nodes.",
    )
    max_restarts = forms.IntegerField(
        min_value=0,
        max_value=100,
        label="Restarts of a job after faults of the platform",
        help_text="Without a new checkpoint in between: a long run that gets on may be lost more often.",
    )
    policy = forms.ChoiceField(choices=Policy.choices, label="Jobs get devices by")
    co2_g_per_kwh = forms.FloatField(
        min_value=0, max_value=5000, label="CO₂ in grams per kWh", help_text="Of the electricity used here."
    )
    data_mib_per_s = forms.FloatField(
        min_value=0.01,
        max_value=1e6,
        label="Speed at which data come to nodes, MiB/s",
        help_text="Of a node with its own cache until it has fetched a dataset; then what was measured counts.",
    )
    power_table = JsonText(
        required=False,
        error_messages={"invalid": "This is not JSON: an object of objects, in double quotes."},
        label="Watts of devices that no meter reads",
        help_text="Over the shipped table, by model or kind; idle watts also over what meters read: "
        '{"cpu": {"idle_w": 1.5, "busy_w": 8}}',
        widget=forms.Textarea(attrs={"rows": 3, "class": "form-control mono", "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.show_hidden_initial = True

    def clean_power_table(self) -> Any:
        """An empty field is an empty table."""
        return self.cleaned_data["power_table"] or {}

    def changes(self) -> dict[str, Any]:
        """What the person changed on the page; all that was sent where that does not tell what stood there."""
        is_told = any(map(self._is_told, self.fields))
        return {name: self.cleaned_data[name] for name in (self.changed_data if is_told else self.fields)}

    def overtaken(self, setting: PoolSetting) -> list[str]:
        """What is not as the page showed it, though the person left it so: somebody changed it meanwhile."""
        told = []
        for name, field in self.fields.items():
            if name in self.changed_data or not self._is_told(name):
                continue
            present = getattr(setting, name)
            if field.has_changed(field.to_python(self.data[self.add_initial_prefix(name)]), present):
                told.append(f"{field.label}: changed meanwhile to {_words(field, present)}; it stays.")
        return told

    def _is_told(self, name: str) -> bool:
        return self.add_initial_prefix(name) in self.data


def _words(field: forms.Field, value: Any) -> str:
    """A setting as the page shows it."""
    if isinstance(field, forms.ChoiceField):
        choices: Any = field.choices
        return str(dict(choices).get(value, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (int, float)):
        return f"{value:,}".removesuffix(".0")
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)  # databases keep keys in orders of their own
    return text if len(text) <= _TOLD_MOST else f"{text[:_TOLD_MOST]}…"


class LocalTime(forms.DateTimeField):
    """A moment typed in the reader's own zone: the page sends it in UTC as `<name>_utc`, else it is taken for UTC."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class ReservationForm(Tabler):
    """Devices to keep."""

    target = forms.ChoiceField(label="Node or device")
    starts_at = LocalTime(label="From", required=False, help_text="Empty: from now on.")
    ends_at = LocalTime(
        label="Until", error_messages={"required": "Give an end: without one it would be over before it begins."}
    )
    purpose = forms.CharField(max_length=200, help_text="Why they are reserved, such as maintenance or a course.")
    project = forms.ChoiceField(required=False, help_text="Whose jobs may use them meanwhile.")

    def set_choices(self, user: User, targets: Iterable[tuple[str, str]]) -> None:
        """Offer what there is."""
        self.offer_choices("target", targets)
        self.offer_projects(user, ("", "No job at all"))


class QuotaForm(Tabler):
    """A quota."""

    project = forms.ChoiceField()
    device_kind = forms.ChoiceField(label="Kind of device", choices=DeviceKind.choices)
    devices = forms.IntegerField(
        min_value=0,
        max_value=1_000_000,
        label="Devices held together at most",
    )
    may_borrow = forms.TypedChoiceField(
        required=False,
        coerce="yes".__eq__,
        empty_value=None,
        label="May use more while no other project wants them",
        choices=[("", "As it is; yes for a new quota"), ("yes", "Yes"), ("no", "No")],
    )

    def set_projects(self, user: User) -> None:
        """Offer the projects."""
        self.offer_projects(user)


class StorageQuotaForm(Tabler):
    """How much of the disk a project may take."""

    project = forms.ChoiceField()
    gib = forms.CharField(
        required=False,
        label="GiB on the disk at most",
        help_text="Empty: as much as there is.",
        widget=forms.NumberInput(attrs={"min": 0, "step": "any"}),
    )

    def set_projects(self, user: User) -> None:
        """Offer the projects."""
        self.offer_projects(user)
