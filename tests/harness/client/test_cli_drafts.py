"""`dlh jobs clone`, `check` and `edit` against a running portal; datasets that are called the same."""

from __future__ import annotations

import stat
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client.cli import drafts
from harness.jobs.drafts import program_file_write
from harness.jobs.models import Job
from tests.harness.client.conftest import Dlh


@pytest.mark.usefixtures("portal")
def test_a_clone_takes_new_values_and_names_its_parent(dlh: Dlh, job: Any) -> None:
    wishes = ("--set", "training.epochs=3", "--set", "data.exclude=[colour]", "--name", "shorter")
    made = dlh("jobs", "clone", job.pk, *wishes, "--json")
    assert made.code == 0
    assert (made.json["state"], made.json["parent"], made.json["name"]) == ("draft", job.pk, "shorter")
    assert made.json["spec"]["training"]["epochs"] == made.json["resolved"]["spec"]["training"]["epochs"] == 3
    assert made.json["spec"]["data"]["exclude"] == ["colour"]
    assert dlh("jobs", "clone", job.pk, "--submit", "--json").json["state"] == "queued"
    assert dlh("jobs", "clone", job.pk).out.split()[0] != job.pk


@pytest.mark.usefixtures("portal")
def test_a_clone_is_called_as_the_field_that_is_set_says(dlh: Dlh, job: Any) -> None:
    made = dlh("jobs", "clone", job.pk, "--set", "name=wider", "--json").json
    assert (made["name"], made["spec"]["name"]) == ("wider", "wider")
    assert dlh("jobs", "clone", made["id"], "--json").json["name"] == "wider (copy)"
    assert dlh("jobs", "clone", job.pk, "--set", "name=wider", "--name", "other", "--json").json["name"] == "other"


@pytest.mark.usefixtures("portal")
def test_a_refused_value_names_its_field_and_leaves_no_draft(dlh: Dlh, job: Any) -> None:
    before = Job.objects.count()
    for wish, field in (("training.epochs=abc", "training.epochs"), ("foo=1", "foo"), ("mode.more=1", "mode.more")):
        ended = dlh("jobs", "clone", job.pk, "--set", wish, "--json")
        assert (ended.code, field in ended.json["error"]["field"]) == (2, True)
    assert dlh("jobs", "clone", job.pk, "--set", "nonsense", "--json").code == 2
    assert dlh("jobs", "clone", "nope", "--json").code == 3
    assert Job.objects.count() == before, "not in the trash, either"


@pytest.mark.usefixtures("portal")
def test_a_file_of_the_person_takes_the_place_of_the_programs(dlh: Dlh, job: Any, tmp_path: Path) -> None:
    own = tmp_path / "elsewhere" / "model.py"
    own.parent.mkdir()
    own.write_text("def build(spec):\n    return None\n")
    written = dlh("jobs", "edit", job.pk, own, "--json").json
    assert (written["name"], written["text"], written["edited"]) == ("model.py", own.read_text(), True)
    assert dlh("show", job.pk, "--json").json["program_edited"]
    assert dlh("jobs", "edit", job.pk, own.with_name("train.py"), "--json").code == 2
    assert dlh("jobs", "edit", job.pk, "nothere.py", "--json").code == 3


@pytest.mark.usefixtures("portal")
def test_a_file_that_does_not_parse_is_saved_and_its_line_is_told(dlh: Dlh, job: Any, tmp_path: Path) -> None:
    own = tmp_path / "model.py"
    own.write_text("def build(spec):\n    return (\n")
    ended = dlh("jobs", "edit", job.pk, own)
    assert ended.code == 0 and "model.py differs" in ended.out
    assert "Saved. model.py, line 2: '(' was never closed." in ended.err
    assert dlh("jobs", "edit", job.pk, own, "--json").json["fault"]["line"] == 2
    own.write_text("def build(spec):\n    return None\n")
    assert "Saved" not in dlh("jobs", "edit", job.pk, own).err
    assert dlh("jobs", "edit", job.pk, own, "--json").json["fault"] is None


@pytest.mark.usefixtures("portal")
def test_a_file_that_the_program_does_not_have_is_said_to_be_new(dlh: Dlh, job: Any, tmp_path: Path) -> None:
    own = tmp_path / "layers.py"
    own.write_text("WIDTH = 3\n")
    assert "layers.py is a new file" in dlh("jobs", "edit", job.pk, own).out
    assert "layers.py differs" in dlh("jobs", "edit", job.pk, own).out


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize(
    ("body", "told"), [(b"\x80\x02\x00w", "Weights go beside it: dlh submit --weights"), (b"x = '\xfc'", "Save it as")]
)
def test_weights_are_not_said_to_be_a_text_in_the_wrong_encoding(
    dlh: Dlh, job: Any, tmp_path: Path, body: bytes, told: str
) -> None:
    own = tmp_path / "weights.py"
    own.write_bytes(body)
    ended = dlh("jobs", "edit", job.pk, own)
    assert ended.code == 2 and told in ended.err


@pytest.mark.usefixtures("portal")
def test_a_file_is_edited_in_the_persons_editor(dlh: Dlh, job: Any, tmp_path: Path, monkeypatch: Any) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\necho "EDITED = True" >> "$1"\n')
    editor.chmod(stat.S_IRWXU)
    monkeypatch.setenv("VISUAL", f"'{editor}'")
    assert "model.py differs" in dlh("jobs", "edit", job.pk, "model.py").out
    assert dlh("jobs", "edit", job.pk, "model.py", "--json").json["text"].count("EDITED = True") == 2
    monkeypatch.setenv("VISUAL", "false")
    assert dlh("jobs", "edit", job.pk, "model.py", "--json").code == 2
    monkeypatch.setenv("VISUAL", "/no/editor")
    assert "cannot be started" in dlh("jobs", "edit", job.pk, "model.py").err


@pytest.mark.usefixtures("portal")
def test_what_somebody_else_wrote_while_the_editor_was_open_stays_and_so_does_what_was_typed(
    dlh: Dlh, job: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    def edited(text: str, name: str) -> str:
        program_file_write(user=job.owner, job=job, name=name, text=f"{text}# theirs\n")
        return f"{text}# mine\n"

    monkeypatch.setattr(drafts, "_edited", edited)
    monkeypatch.setattr(drafts.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    ended = dlh("jobs", "edit", job.pk, "model.py")
    assert ended.code == 2 and "changed in another tab" in ended.err
    assert f"`dlh jobs edit {job.pk} {tmp_path / 'model.py'}` puts it there" in ended.err.replace("\n", " ")
    assert (tmp_path / "model.py").read_text().endswith("# mine\n")
    again = dlh("jobs", "edit", job.pk, tmp_path / "model.py", "--json").json
    assert again["text"].endswith("# mine\n")


@pytest.mark.usefixtures("portal")
def test_what_was_typed_is_kept_where_the_draft_was_queued_meanwhile(
    dlh: Dlh, job: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    def edited(text: str, name: str) -> str:
        Job.objects.filter(pk=job.pk).update(state="queued")
        return f"{text}# mine\n"

    monkeypatch.setattr(drafts, "_edited", edited)
    monkeypatch.setattr(drafts.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    ended = dlh("jobs", "edit", job.pk, "model.py", "--json")
    assert ended.code == 2 and str(tmp_path) in ended.json["error"]["hint"]
    assert (tmp_path / "model.py").read_text().endswith("# mine\n")


PROBLEM = {"message": "no build", "hint": "Add it.", "file": "model.py", "line": 3, "traceback": "Traceback: [3]"}


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ({"ok": True, "parameters": 42, "output_shape": [16, 2]}, 0, "The program runs: 42 parameters"),
        ({"ok": True, "parameters": 42, "output_shape": [16, 2], "notes": ["Sums to 1."]}, 0, "Sums to 1."),
        ({"ok": False, "problem": PROBLEM}, 1, "model.py, line 3: no build\nAdd it.\nTraceback: [3]\n"),
    ],
)
def test_a_program_is_tried_on_a_node(
    dlh: Dlh, job: Any, node_make: Any, monkeypatch: Any, answer: dict[str, Any], code: int, said: str
) -> None:
    from harness.jobs.predictions import check_done

    node_make()
    monkeypatch.setattr(drafts, "POLL_S", 0.01)
    get = drafts.Client.get
    waited: list[str] = []

    def answered(self: Any, path: str, **params: Any) -> Any:
        # The node's part: it answers after the first look.
        if "/check/" in path and waited:
            check_done({"check_id": path.rsplit("/", 1)[1], **answer})
        waited.append(path)
        return get(self, path, **params)

    monkeypatch.setattr(drafts.Client, "get", answered)
    ended = dlh("jobs", "check", job.pk)
    assert (ended.code, said in ended.out) == (code, True)
    assert len(waited) >= 2
    assert dlh("jobs", "check", job.pk, "--json").json["ok"] == answer["ok"]


@pytest.mark.usefixtures("portal")
def test_two_datasets_of_one_name_are_told_apart_by_their_ids(
    dlh: Dlh, dataset: Any, dataset_make: Any, people: SimpleNamespace
) -> None:
    other = dataset_make(people.owner, people.project)
    assert other.name == dataset.name and other.pk != dataset.pk
    for arguments in (("data", "show", dataset.name), ("submit", "--data", dataset.name)):
        ended = dlh(*arguments, "--json")
        assert ended.code == 2
        assert dataset.pk in ended.json["error"]["message"] and other.pk in ended.json["error"]["message"]
    assert dlh("data", "show", other.pk, "--json").json["id"] == other.pk


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize("written", ["2026-11-27T02:29:28Z", "2030-01-31", "2030-01-31 18:00:00"])
def test_a_value_that_reads_as_a_time_stays_the_text_that_was_written(dlh: Dlh, job: Any, written: str) -> None:
    assert dlh("jobs", "clone", job.pk, "--set", f"name={written}", "--json").json["spec"]["name"] == written


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize(("value", "words"), [("&a [*a]", "*a stands for"), ("[" * 40 + "]" * 40, "levels deep")])
def test_a_value_that_costs_more_than_its_letters_is_refused(dlh: Dlh, job: Any, value: str, words: str) -> None:
    ended = dlh("jobs", "clone", job.pk, "--set", f"name={value}", "--json")
    assert ended.code == 2 and words in ended.json["error"]["message"]


@pytest.mark.usefixtures("portal")
@pytest.mark.parametrize("value", ["!!binary aGk=", ".nan", "!!set {a}", "!!timestamp 2030-01-31"])
def test_a_value_without_a_form_in_json_is_refused_before_a_draft_is_made(dlh: Dlh, job: Any, value: str) -> None:
    before = dlh("jobs", "--json").json["total"]
    ended = dlh("jobs", "clone", job.pk, "--set", f"name={value}", "--submit", "--json")
    assert ended.code == 2 and "form in JSON" in ended.json["error"]["message"]
    assert dlh("jobs", "--json").json["total"] == before


@pytest.mark.usefixtures("portal")
def test_a_deadline_is_set_as_an_offer_takes_it(dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        at, soon, none = (
            dlh("jobs", "clone", job.pk, "--set", f"budget.deadline={wish}", "--json").json
            for wish in ("2030-01-31T18:00", "1h30m", "none")
        )
        bad = dlh("jobs", "clone", job.pk, "--set", "budget.deadline=soon", "--json").json["error"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert at["deadline_at"] == "2030-01-31T09:00:00Z"
    left = datetime.fromisoformat(soon["deadline_at"]) - datetime.now(UTC)
    assert timedelta(hours=1) < left <= timedelta(hours=1, minutes=30)
    assert (none["deadline_at"], none["spec"]["budget"]["deadline"]) == (None, "auto")
    assert bad["field"] == "budget.deadline" and "not a valid time" in bad["message"]


@pytest.mark.usefixtures("portal")
def test_whoever_is_refused_at_the_queue_is_told_of_the_draft_that_stays(dlh: Dlh, job: Any) -> None:
    ended = dlh("jobs", "clone", job.pk, "--set", "budget.deadline=2020-01-31", "--submit", "--json")
    error = ended.json["error"]
    draft = error["details"]["job"]
    assert ended.code == 2 and error["hint"].endswith(f"The draft is kept as {draft}.")
    assert dlh("show", draft, "--json").json["state"] == "draft"


@pytest.mark.usefixtures("portal")
def test_a_clone_names_a_deadline_that_has_passed_unless_another_one_is_set(dlh: Dlh, job: Any) -> None:
    past = dlh("jobs", "clone", job.pk, "--set", "budget.deadline=2020-01-31", "--json").json["id"]
    ahead = dlh("jobs", "clone", job.pk, "--set", "budget.deadline=2d", "--json").json
    name = dlh("show", past, "--json").json["name"]
    copied = dlh("jobs", "clone", past, "--json")
    assert copied.err.startswith(f"The deadline of {name}, 2020-0") and copied.json["deadline_at"] is None
    assert copied.err.strip().endswith("has passed: choose another or none.") and "UTC" not in copied.err
    assert [words.partition(",")[0] for words in copied.json["left_out"]] == [f"The deadline of {name}"]
    kept = dlh("jobs", "clone", ahead["id"], "--json")
    assert (kept.err, kept.json["deadline_at"], kept.json["left_out"]) == ("", ahead["deadline_at"], [])
    other = dlh("jobs", "clone", past, "--set", "budget.deadline=2d", "--json")
    assert (other.err, other.json["left_out"]) == ("", [])
