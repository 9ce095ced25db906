"""`dlh data profile FILE`: a file is read here, without a portal; nothing of it is kept."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.client.conftest import Dlh


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def flowers(rows: int = 60) -> str:
    return "size,colour,label\n" + "".join(f"{i % 7}.5,{('red', 'blue')[i % 2]},{'ab'[i % 2]}\n" for i in range(rows))


def test_a_file_is_profiled_without_a_login_and_nothing_is_kept(dlh: Dlh, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "my flowers.csv").write_text(flowers())
    (tmp_path / "polars.py").write_text("raise SystemExit('not this one')\n")
    ended = dlh("data", "profile", "my flowers.csv")
    assert ended.code == 0 and "colour" in ended.out and "60" in ended.out, ended.err
    told = dlh("data", "profile", "my flowers.csv", "--target", "colour", "--type", "size=category", "--json")
    assert (told.code, told.json["target"], told.json["columns"][0]["type"]) == (0, "colour", "category")
    assert {path.name for path in tmp_path.iterdir()} == {"my flowers.csv", "polars.py", "temporary"}
    assert not list(temporary.iterdir())


def test_a_file_that_cannot_be_used_ends_as_an_upload_of_it_does(dlh: Dlh, tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n")
    ended = dlh("data", "profile", "a.csv", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "header_only")
    assert ended.json["error"]["hint"] and not list(temporary.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.csv",), "There is no file none.csv"),
        (("photos/",), "photos is a folder"),
        (("a.csv", "--type", "size=colour"), "The options could not be read"),
        (("flowers", "--target", "x"), "flowers is not a file on this machine"),
    ],
)
def test_what_is_no_file_is_bad_input(dlh: Dlh, tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "a.csv").write_text(flowers())
    ended = dlh("data", "profile", *words, "--json")
    assert ended.code == 2 and ended.json["error"]["message"].startswith(said)
    assert ended.json["error"]["hint"]


@pytest.fixture
def stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program in the place of the profiler."""

    def put(code: str) -> None:
        folder = tmp_path / "broken" / "codegen" / "profile"
        folder.mkdir(parents=True)
        (folder / "__main__.py").write_text(code)
        for package in (folder, folder.parent):
            (package / "__init__.py").touch()
        places = [str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
        (tmp_path / "a.csv").write_text(flowers())

    return put


def test_a_reading_that_breaks_is_told_with_its_last_words(dlh: Dlh, stands_in: Callable[[str], None]) -> None:
    stands_in("raise RuntimeError('no polars here')\n")
    ended = dlh("data", "profile", "a.csv", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "reading_failed")
    assert "no polars here" in ended.json["error"]["message"]


def test_a_full_disk_is_that_of_the_temporary_folder(
    dlh: Dlh, stands_in: Callable[[str], None], temporary: Path
) -> None:
    stands_in("""print('{"problem": {"code": "disk_full", "message": "Your upload is kept.", "hint": "x"}}')""")
    error = dlh("data", "profile", "a.csv", "--json").json["error"]
    assert str(temporary) in error["message"] and "TMPDIR" in error["hint"]


def test_a_line_that_a_warning_names_is_not_called_a_row_beside_it(dlh: Dlh, tmp_path: Path) -> None:
    lines = [*flowers(2000).splitlines()]
    lines[1500] += ",1"
    (tmp_path / "a.csv").write_text("\n".join(lines))
    told = dlh("data", "profile", "a.csv").out
    assert "line 1,501: 4 fields" in told and "1501" not in told


def test_a_name_that_is_no_file_is_asked_of_the_portal(dlh: Dlh) -> None:
    ended = dlh("data", "profile", "flowers", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (3, "not_signed_in")


def test_a_folder_is_told_as_such_where_no_dataset_has_its_name(dlh: Dlh, portal: object, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for words in (("data", "profile", "photos"), ("data", "show", "photos"), ("suggest", "photos")):
        ended = dlh(*words, "--json")
        assert (ended.code, ended.json["error"]["message"]) == (2, "photos is a folder."), words
        assert "zip -r" in ended.json["error"]["hint"]


def test_json_of_a_file_has_the_shape_of_the_portals(dlh: Dlh, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(flowers())
    body = json.loads(dlh("data", "profile", "a.csv", "--json").out)
    assert {"kind", "rows", "columns", "target", "classes", "warnings", "version"} <= body.keys()
