"""`--model`: a person's own model.py, refused without a trace where it cannot run, or chosen for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def build(spec):\n    return (\n", "program_syntax"),
        ("a = 1\n", "model_no_build"),
        ("def build(): ...\n", "model_build_call"),
    ],
)
def test_a_refused_own_model_leaves_no_draft(dlh: Dlh, dataset: Any, tmp_path: Path, text: str, code: str) -> None:
    model, spec = tmp_path / "model.py", tmp_path / "spec.yaml"
    model.write_text(text)
    spec.write_text("training: {epochs: 3}\n")
    before = dlh("jobs", "--json").json["total"]
    given = ("--data", dataset.pk, "--model", model, "--json")
    for command in (("submit",), ("submit", "--draft"), ("code", spec), ("offer",)):
        ended = dlh(*command, *given)
        assert (ended.code, ended.json["error"]["code"]) == (2, code)
    assert dlh("jobs", "--json").json["total"] == before


def test_a_spec_is_checked_for_an_own_model(dlh: Dlh, dataset: Any, tmp_path: Path) -> None:
    model, spec = tmp_path / "model.py", tmp_path / "spec.yaml"
    model.write_text("def build(spec): ...\n")
    spec.write_text("model: {params: {depth: 3}}\n")
    check = ("spec", "check", spec, "--data", dataset.pk)
    assert dlh(*check, "--json").code == 2
    resolved = dlh(*check, "--model", model, "--json").json["resolved"]["spec"]
    assert resolved["model"] == {"family": "own", "size": "small", "params": {"depth": 3}}
    assert dlh(*check, "--model", tmp_path / "none.py", "--json").code == 2
