"""The calls to copy from the page of predictions: they run, and ask for the row as it is."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from harness.pages.predict_calls import calls

ROWS: dict[str, dict[str, Any]] = {
    "plain": {"age": 41.5, "city": "Bern", "note": None},
    "hostile": {
        "$(touch x) `id`": "'; rm -rf / #",
        'say "hi"\\': "ROWS\nROWS\n",
        "größe 😀": "é\u2028",
        "a" * 90: "b" * 200,
    },
    "wide": {f"column {at}": at / 3 for at in range(60)},
}
PORTAL = "https://portal.example"


def texts(row: dict[str, Any]) -> dict[str, str]:
    return {call.id: call.text for call in calls("job1", PORTAL, row)}


def shell(text: str, name: str, tmp_path: Any) -> str:
    """What the command `name` is given when a shell runs `text`: its arguments and its input."""
    stub = tmp_path / name
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > arguments\ncat > input\n')
    stub.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", text], cwd=tmp_path, env={"PATH": path, "DLH_TOKEN": "t"}, check=True, input=b"")
    return (tmp_path / "arguments").read_text()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_shell_sends_the_row_as_it_is(row: dict[str, Any], tmp_path: Any) -> None:
    assert shell(texts(row)["by-dlh"], "dlh", tmp_path) == "predict\njob1\nrows.json\n"
    assert json.loads((tmp_path / "rows.json").read_text()) == [row]
    asked, _ = texts(row)["by-curl"].split("\n\n#")
    arguments = shell(asked, "curl", tmp_path)
    assert f"{PORTAL}/api/v1/jobs/job1/predictions\n-H\nAuthorization: Bearer t\n" in arguments
    assert json.loads((tmp_path / "input").read_text()) == {"records": [row]}


def test_letters_are_shown_as_they_are() -> None:
    assert all('"größe": "é"' in texts({"größe": "é"})[name] for name in ("by-dlh", "by-curl"))


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_python_asks_for_the_row_as_it_is(row: dict[str, Any]) -> None:
    text = texts(row)["by-python"]
    lines = text[: text.index("with Client")]
    assert "from harness.client import Client" in lines
    space: dict[str, Any] = {}
    exec(lines, space)
    assert space["rows"] == [row]
    compile(text, "call", "exec")


def test_pictures_are_asked_for_by_file() -> None:
    found = texts({})
    assert found["by-dlh"] == "dlh predict job1 pictures.zip" and "-F input=@picture.png" in found["by-curl"]
    compile(found["by-python"], "call", "exec")
    assert 'client.predict("job1", picture)' in found["by-python"]
