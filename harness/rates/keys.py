"""What decides a range test's answer: the program and its data, but not the rate that the spec names."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from harness.estimates.inspection import content_key

_NOT_ASKED = ("learning_rate", "rate_rule", "epochs", "schedule", "warmup", "patience", "ema")
"""Fields of `training` that no step of a range test depends on."""


def rate_key(files: Mapping[str, str], dataset_sha256: str) -> str:
    """Hash of the rest."""
    return content_key({**files, "spec.yaml": _told(files.get("spec.yaml", ""))}, dataset_sha256)


def _told(text: str) -> str:
    try:
        body = yaml.safe_load(text)
        training = {name: value for name, value in body["training"].items() if name not in _NOT_ASKED}
        return yaml.safe_dump({**body, "training": training})
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return text
