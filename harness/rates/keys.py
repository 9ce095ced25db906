"""What decides a range test's answer: the program and its data, but not the rate that the spec names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from harness.estimates.inspection import content_key

_NOT_ASKED = ("learning_rate", "rate_rule", "epochs", "schedule", "warmup", "patience", "ema")
"""Fields of `training` that no step of a range test depends on."""


_LENGTH = ("epochs", "schedule", "warmup", "ema")
"""Fields of `training` that trials stand for besides: they are short runs."""


def run_setting(files: Mapping[str, str]) -> dict[str, Any]:
    """How long and by which schedule the program trains; empty where its spec cannot be read."""
    try:
        training = yaml.safe_load(files.get("spec.yaml", ""))["training"]
        return {name: training.get(name) for name in _LENGTH}
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def rate_key(files: Mapping[str, str], dataset_sha256: str) -> str:
    """Hash of the rest."""
    return content_key({**files, "spec.yaml": _told(files.get("spec.yaml", ""))}, dataset_sha256)


@lru_cache(maxsize=16)  # as in `content_key`: reading it takes longer than the rest
def _told(text: str) -> str:
    try:
        body = yaml.safe_load(text)
        training = {name: value for name, value in body["training"].items() if name not in _NOT_ASKED}
        return yaml.safe_dump({**body, "training": training})
    except (yaml.YAMLError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return text
