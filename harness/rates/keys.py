"""What decides a range test's answer: the program and its data, but not the rate that the spec names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from codegen import safe_yaml
from harness.estimates.inspection import content_key

_NOT_ASKED = ("learning_rate", "rate_rule", "epochs", "schedule", "warmup", "patience", "ema")
"""Fields of `training` that no step of a range test depends on."""


_LENGTH = ("epochs", "schedule", "warmup", "ema")
"""Fields of `training` that trials stand for besides: they are short runs."""
_LONG = 50_000
"""Characters above which a spec is told as JSON: as YAML each of its values takes 20 times as long."""


def run_setting(files: Mapping[str, str]) -> dict[str, Any]:
    """How long and by which schedule the program trains; empty where its spec cannot be read."""
    return dict(_setting(files.get("spec.yaml", "")))


@lru_cache(maxsize=16)
def _setting(text: str) -> dict[str, Any]:
    try:
        training = safe_yaml.load(text)["training"]
        return {name: training.get(name) for name in _LENGTH}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def rate_key(files: Mapping[str, str], dataset_sha256: str) -> str:
    """Hash of the rest."""
    return content_key({**files, "spec.yaml": _told(files.get("spec.yaml", ""))}, dataset_sha256)


@lru_cache(maxsize=16)  # as in `content_key`: reading it takes longer than the rest
def _told(text: str) -> str:
    try:
        body = safe_yaml.load(text)
        training = {name: value for name, value in body["training"].items() if name not in _NOT_ASKED}
        told = {**body, "training": training}
        return yaml.safe_dump(told) if len(text) <= _LONG else json.dumps(told, default=str)
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError):
        return text
