"""Plain words for states, tasks, levels: one place, used by templates and tests."""

from __future__ import annotations

from codegen.catalog import FAMILIES

STATE_WORDS: dict[str, tuple[str, str]] = {
    "draft": ("Draft", "secondary"),
    "queued": ("Queued", "yellow"),
    "placed": ("Starting", "azure"),
    "running": ("Running", "blue"),
    "pausing": ("Pausing", "orange"),
    "returning": ("Returning results", "azure"),
    "paused": ("Paused", "orange"),
    "cancelling": ("Cancelling", "orange"),
    "succeeded": ("Succeeded", "green"),
    "failed": ("Failed", "red"),
    "cancelled": ("Cancelled", "secondary"),
    "profiling": ("Being read", "blue"),
    "ready": ("Ready", "green"),
    "waiting": ("Working", "blue"),
    "done": ("Done", "green"),
    "up": ("Up", "green"),
    "drain": ("Draining", "orange"),
    "down": ("Down", "red"),
    "lost": ("Lost", "orange"),
}
"""State -> (word, colour name)."""

SWEEP_WORDS: dict[str, tuple[str, str]] = {
    "waiting": ("Waiting", "yellow"),
    "running": ("Measuring", "blue"),
    "finished": ("Finished", "green"),
    "stopped": ("Stopped", "secondary"),
    "failed": ("Failed", "red"),
}
"""The same for states of a calibration."""

TASK_WORDS: dict[str, str] = {
    "tabular_classification": "Table: predict a class",
    "tabular_regression": "Table: predict a number",
    "forecast": "Table: forecast a number",
    "image_classification": "Pictures: predict a class",
}

SANDBOX_WORDS: dict[int, str] = {
    3: "L3: namespaces, system-call filter, own user, limits, own network",
    2: "L2: namespaces, system-call filter, limits",
    1: "L1: file-access rules, system-call filter, limits, own user",
    0: "L0: limits and own user only",
}

SCOPE_WORDS: dict[str, str] = {"read": "Read", "write": "Read and change", "admin": "Everything"}
"""What a token may do."""

JOB_ACTIONS: dict[str, tuple[str, ...]] = {
    "draft": ("submit", "clone", "delete"),
    "queued": ("pause", "cancel", "clone"),
    "placed": ("pause", "cancel", "clone"),
    "running": ("pause", "cancel", "clone"),
    "pausing": ("cancel", "clone"),
    "returning": ("cancel", "clone"),
    "paused": ("resume", "cancel", "clone"),
    "cancelling": ("clone",),
    "succeeded": ("clone", "delete"),
    "failed": ("resume", "clone", "delete"),
    "cancelled": ("resume", "clone", "delete"),
}
"""State -> what a member may ask for, in the order of the buttons."""

COLUMN_TYPE_WORDS: dict[str, str] = {
    "numeric": "Number",
    "category": "Category",
    "text": "Text",
    "date": "Date",
    "identifier": "Identifier (left out)",
    "constant": "Constant (left out)",
}

NAME_WORDS: dict[str, str] = {
    "r2": "R²",
    "f1": "F1",
    "macro_f1": "macro F1",
    "rmse": "RMSE",
    "mae": "MAE",
    "roc_auc": "ROC AUC",
    **{family.name: family.word for family in FAMILIES.values()},
    "cpu": "CPU",
    "cuda": "GPU",
}
"""Metrics, families and devices as people write them; other names only lose their underscores."""

DELIVERY_WORDS: dict[str, tuple[str, str]] = {
    "waiting": ("Waiting", "blue"),
    "sending": ("Being sent", "blue"),
    "delivered": ("Delivered", "green"),
    "failed": ("Failed", "red"),
}
"""How far a message is."""

COPY_WORDS: dict[str, tuple[str, str]] = {
    "whole": ("Copy is whole", "green"),
    "first": ("No whole copy yet", "blue"),
    "behind": ("Copy is behind", "yellow"),
    "stopped": ("Not copied", "red"),
    "trouble": ("Not copied", "red"),
}
"""How the copy in the object store stands."""

CHECK_WORDS = {
    "bad": ("wrong", "red"),
    "warn": ("to look at", "yellow"),
    "ok": ("good", "green"),
    "skip": ("not looked at", "secondary"),
}
"""States of a doctor's findings, the worst first."""

FORM_INPUT = "form.json"
"""What a row that was typed into the form of a prediction is called as a file."""
