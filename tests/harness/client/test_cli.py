"""Every command of `dlh` against a running portal."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from harness.client import Client
from harness.client.cli.app import app
from harness.jobs.models import Job
from tests.harness.client.conftest import Dlh, state_set

pytestmark = pytest.mark.usefixtures("portal")


def test_login_stores_url_and_token_for_the_owner_of_the_file_only(
    dlh: Dlh, portal: SimpleNamespace, home: Path, monkeypatch: Any
) -> None:
    monkeypatch.delenv("DLH_TOKEN")
    monkeypatch.delenv("DLH_URL")
    assert dlh("whoami", "--json").code == 3
    ended = dlh("login", portal.url, "--token", portal.token, "--json")
    assert (ended.code, ended.json["username"]) == (0, "owner")
    file = home / "dlh" / "config.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["token"] == portal.token
    assert dlh("whoami", "--json").json["username"] == "owner"
    monkeypatch.setenv("DLH_URL", "http://127.0.0.1:1")
    assert dlh("whoami", "--json").json["error"]["code"] == "not_signed_in"


def test_address_token_and_project_are_read_from_files(
    dlh: Dlh, portal: SimpleNamespace, home: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    for name, value in (("URL", portal.url), ("TOKEN", portal.token), ("PROJECT", portal.project)):
        (tmp_path / name).write_text(value + "\n")
        monkeypatch.delenv(f"DLH_{name}", raising=False)
        monkeypatch.setenv(f"DLH_{name}_FILE", str(tmp_path / name))
    assert dlh("whoami", "--json").json["username"] == "owner"
    assert dlh("login", portal.url, "--json").code == 0
    assert json.loads((home / "dlh" / "config.json").read_text())["token"] == portal.token
    (tmp_path / "TOKEN").write_text("dlh_wrong")
    assert "DLH_TOKEN_FILE is set and comes before what is stored" in dlh("whoami").err
    (tmp_path / "TOKEN").unlink()
    ended = dlh("whoami")
    assert ended.code == 2 and "DLH_TOKEN_FILE" in ended.err and "Traceback" not in ended.err


def test_a_wrong_token_is_not_stored(dlh: Dlh, portal: SimpleNamespace, home: Path) -> None:
    ended = dlh("login", portal.url, "--token", "dlh_wrong", "--json")
    assert (ended.code, ended.json["error"]["code"]) == (3, "unauthenticated")
    assert not (home / "dlh" / "config.json").exists()


def test_data_is_added_once_listed_shown_profiled_and_removed(dlh: Dlh, flowers_csv: Path, read_at_once: None) -> None:
    added = dlh("data", "add", flowers_csv, "--json")
    assert (added.code, added.json["state"], added.json["uploaded"]) == (0, "ready", True)
    again = dlh("data", "add", flowers_csv, "--json").json
    assert (again["id"], again["uploaded"]) == (added.json["id"], False)
    assert [item["name"] for item in dlh("data", "list", "--json").json] == ["flowers"]
    assert "flowers" in dlh("data", "list").out
    assert dlh("data", "show", "flowers", "--json").json["id"] == added.json["id"]
    assert "flowers.csv" in dlh("data", "show", added.json["id"]).out
    assert dlh("data", "profile", "flowers", "--json").json["rows"] == 120
    assert "colour" in dlh("data", "profile", "flowers").out
    assert dlh("data", "rm", "flowers", "--json").json["ok"]
    assert dlh("data", "list", "--json").json == []


def test_notes_on_added_data_are_counted_with_the_command_that_shows_them(dlh: Dlh, tmp_path: Path) -> None:
    from django.conf import settings

    from codegen.profile import profile_dataset
    from codegen.profile.types import ProfileOptions
    from harness.datasets.content import content_key, file_sha256

    days = [f"2026-{month:02}-{day:02},{day * month % 17}.5" for month in (1, 2, 3, 5) for day in range(1, 29)]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(["day,sold", *days]) + "\n")
    packed = settings.STORE.dataset(content_key(file_sha256(path), path.name, {})).packed
    profile_dataset(path, packed, ProfileOptions(), lambda done, note: None)
    added = dlh("data", "add", path)
    profile = dlh("data", "profile", "sales", "--json").json
    found = [one for one in profile["warnings"] if one["severity"] == "info"]
    assert found and f"{len(found)} note" in added.out
    assert f"dlh data profile {dlh('data', 'list', '--json').json[0]['id']}" in added.out
    assert found[0]["message"] not in added.out


def test_a_name_gives_a_second_dataset_of_the_same_file(dlh: Dlh, flowers_csv: Path, read_at_once: None) -> None:
    dlh("data", "add", flowers_csv)
    assert dlh("data", "add", flowers_csv, "--name", "Blooms", "--json").json["name"] == "Blooms"
    assert len(dlh("data", "list", "--json").json) == 2


def test_a_dataset_that_cannot_be_used_ends_with_1_and_its_problem(dlh: Dlh, dataset: Any) -> None:
    from harness.datasets.models import Dataset

    problem = {"code": "one_class", "message": "There is one class only.", "hint": "Add rows of another."}
    Dataset.objects.update(state="failed", problem=problem)
    ended = dlh("submit", "--data", dataset.pk, "--json")
    assert (ended.code, ended.json["error"]["code"]) == (1, "one_class")


def test_what_is_written_to_a_file_is_named_as_json(dlh: Dlh, portal: SimpleNamespace) -> None:
    assert dlh("pool", "use", "--csv", "use.csv", "--json").json == {"out": "use.csv"}
    assert dlh("pool", "calibration", "export", "points.csv", "--json").json == {"out": "points.csv"}
    assert Path("use.csv").is_file() and Path("points.csv").is_file()


def test_models_are_suggested(dlh: Dlh, dataset: Any) -> None:
    items = dlh("suggest", "--data", dataset.pk, "--json").json
    assert len(items) >= 3 and items[0]["rank"] == 1
    assert items[0]["title"].split()[0] in dlh("suggest", "--data", "flowers").out
    assert dlh("suggest", dataset.pk, "--json").json == items


def test_models_are_suggested_within_a_spec(dlh: Dlh, dataset: Any, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(f"data: {{dataset: {dataset.pk}}}\nmodel: {{size: small}}\n")
    assert {item["size"] for item in dlh("suggest", tmp_path / "spec.yaml", "--json").json} == {"small"}
    (tmp_path / "wish").write_text("model: {size: medium}\n")
    told = dlh("suggest", tmp_path / "wish", "--data", dataset.pk, "--json").json
    assert {item["size"] for item in told} == {"medium"}


def test_a_spec_is_begun_checked_and_submitted(dlh: Dlh, dataset: Any, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    assert dlh("spec", "init", "--data", dataset.pk, "--out", spec).code == 0
    assert dataset.pk in spec.read_text()
    assert dlh("spec", "init", "--out", spec, "--json").code == 2
    checked = dlh("spec", "check", spec, "--data", dataset.pk, "--json")
    assert checked.code == 0 and checked.json["ok"] and checked.json["resolved"]["guesses"]
    ended = dlh("submit", spec, "--name", "first", "--json")
    assert (ended.code, ended.json["state"], ended.json["name"]) == (0, "queued", "first")
    spec.write_text("training: {epochs: 0}\n")
    bad = dlh("spec", "check", spec, "--json")
    assert bad.code == 2 and bad.json["problems"][0]["field"].startswith("training.epochs")
    refused = dlh("submit", spec, "--data", dataset.pk, "--json")
    assert refused.code == 2 and "epochs" in refused.json["error"]["field"]


def test_submit_uploads_the_data_and_takes_an_own_model(
    dlh: Dlh, flowers_csv: Path, read_at_once: None, tmp_path: Path
) -> None:
    model = tmp_path / "model.py"
    model.write_text("def build(spec):\n    return None\n")
    made = dlh("submit", "--data", flowers_csv, "--model", model, "--draft", "--json").json
    assert (made["state"], made["program_own"], made["family"]) == ("draft", True, "own")
    assert made["url"].endswith(f"/jobs/{made['id']}")


def test_code_writes_a_program_that_stands_alone(dlh: Dlh, dataset: Any, job: Any, tmp_path: Path) -> None:
    assert dlh("code", job.pk, "--out", tmp_path / "a", "--json").code == 0
    assert {"train.py", "model.py", "worker"} <= {path.name for path in (tmp_path / "a").iterdir()}
    spec = tmp_path / "wish.yaml"
    spec.write_text("training: {epochs: 3}\n")
    before = dlh("jobs", "--json").json["total"]
    told = dlh("code", spec, "--data", dataset.pk, "--out", tmp_path / "b")
    assert told.code == 0 and str(tmp_path / "b" / "train.py") in told.out
    assert "files that the program imports" in told.out and "run.py" not in told.out
    assert (tmp_path / "b" / "train.py").is_file()
    assert dlh("jobs", "--json").json["total"] == before
    assert dlh("code", job.pk, "--out", tmp_path / "b", "--json").json["error"]["code"] == "bad_input"


def test_jobs_are_listed_filtered_and_shown(dlh: Dlh, ended_job: Any) -> None:
    page = dlh("jobs", "--state", "succeeded", "--sort", "-metric", "--json").json
    assert [item["id"] for item in page["items"]] == [ended_job.pk]
    assert dlh("jobs", "--state", "failed", "--json").json["total"] == 0
    assert ended_job.pk in dlh("jobs").out
    assert dlh("show", ended_job.pk, "--json").json["metric_best"] == 0.9
    assert "succeeded" in dlh("show", ended_job.pk).out
    assert "Mode single (one device needs one process)" in " ".join(dlh("show", ended_job.pk).out.split())


def test_more_jobs_are_listed_than_the_portal_gives_at_once(
    dlh: Dlh, job_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {job_make(name=f"job {number}").pk for number in range(5)}
    monkeypatch.setattr("harness.client.calls._PAGE_SIZE_MAX", 2)
    page = dlh("jobs", "--limit", 3, "--json").json
    assert (len({item["id"] for item in page["items"]}), page["total"], page["pages"]) == (3, 5, 2)
    assert "3 of 5; --limit shows more." in dlh("jobs", "--limit", 3).err
    every = dlh("jobs", "--limit", 1000, "--json").json
    assert {item["id"] for item in every["items"]} == made and not dlh("jobs", "--limit", 1000).err


def test_a_job_that_moves_on_to_the_next_page_is_listed_once(
    dlh: Dlh, job_make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [job_make(name=f"job {number}").pk for number in range(4)]
    monkeypatch.setattr("harness.client.calls._PAGE_SIZE_MAX", 2)
    get = Client.get

    def get_then_make(self: Any, path: str, **params: Any) -> Any:
        page = get(self, path, **params)
        if path == "/jobs" and "page" not in params:
            job_make(name="made meanwhile")
        return page

    monkeypatch.setattr(Client, "get", get_then_make)
    listed = [item["id"] for item in dlh("jobs", "--limit", 4, "--json").json["items"]]
    assert listed == made[:0:-1]


def test_a_job_is_cancelled_paused_and_resumed(dlh: Dlh, job: Any) -> None:
    from harness.jobs.models import Checkpoint

    state_set(job, "running")
    assert dlh("pause", job.pk, "--json").json["state"] == "pausing"
    state_set(job, "paused")
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1.0, best=True)
    assert "step-00000010 (best)" in dlh("show", job.pk).out
    assert dlh("resume", job.pk, "--checkpoint", "step-00000099", "--json").code == 3
    assert dlh("resume", job.pk, "--checkpoint", "step-00000010", "--json").json["resume_from"] == "step-00000010"
    assert dlh("cancel", job.pk).out.strip().endswith("cancelled")
    assert dlh("pause", job.pk, "--json").json["error"]["code"] == "wrong_state"


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watch_ends_as_the_job_ended(dlh: Dlh, ended_job: Any, state: str, code: int) -> None:
    failure = {"code": "nan_loss", "message": "The loss was not finite.", "hint": "Lower it."} if code else None
    state_set(ended_job, state, failure=failure)
    ended = dlh("watch", ended_job.pk, "--json")
    assert (ended.code, json.loads(ended.out.splitlines()[-1])["state"]) == (code, state)
    plain = dlh("watch", ended_job.pk)
    assert plain.code == code and f": {state}" in plain.out


def test_submit_and_wait_follows_the_job_to_its_end(dlh: Dlh, dataset: Any, monkeypatch: Any) -> None:
    from harness.client import watch

    monkeypatch.setattr(watch, "POLL_S", 0.01)
    monkeypatch.setattr(watch, "REFRESH_S", 0.01)
    asked = 0
    updates = watch.Client.job

    def job(self: Any, job_id: str) -> Any:
        nonlocal asked
        asked += 1
        if asked == 3:
            Job.objects.filter(pk=job_id).update(state="succeeded")
        return updates(self, job_id)

    monkeypatch.setattr(watch.Client, "job", job)
    ended = dlh("submit", "--data", dataset.pk, "--wait", "--json")
    assert (ended.code, ended.json["state"]) == (0, "succeeded")


def test_tokens_are_listed_made_and_revoked(dlh: Dlh) -> None:
    made = dlh("tokens", "add", "laptop", "--scope", "read", "--json").json
    assert made["id"] in {item["id"] for item in dlh("tokens", "--json").json}
    assert "laptop" in dlh("tokens").out
    assert dlh("tokens", "rm", made["id"], "--json").json["ok"]
    assert dlh("tokens", "rm", made["id"], "--json").code == 3
    assert dlh("tokens", "add", "plain").out.startswith("dlh_")


def test_every_command_takes_json() -> None:
    def without(command: Any, words: tuple[str, ...]) -> Iterator[str]:
        for name, below in getattr(command, "commands", {}).items():
            yield from without(below, (*words, name))
        if not hasattr(command, "commands") and not any("--json" in option.opts for option in command.params):
            yield " ".join(words)

    assert list(without(typer.main.get_command(app), ("dlh",))) == []


def test_jobs_are_listed_as_a_saved_view_shows_them(dlh: Dlh, portal: SimpleNamespace, job_make: Any) -> None:
    from harness.saved_views.services import view_create

    kept, other = job_make(name="kept", training={"epochs": 7}), job_make(name="other")
    Job.objects.filter(pk=kept.pk).update(tags=["good"], last_values={"val/loss": 0.25})
    query = "tag=good&column=metric:val/loss&column=spec:training.epochs&column=created_at"
    view_create(user=portal.people.owner, name="Good ones", query=query)
    told = dlh("jobs", "--view", "Good ones")
    head, line = told.out.splitlines()
    assert head.split() == ["Id", "Name", "val/loss", "training.epochs", "Created"]
    assert line.split()[:4] == [kept.pk, "kept", "0.25", "7"]
    assert [job["id"] for job in dlh("jobs", "--view", "Good ones", "--tag", "none", "--json").json["items"]] == []
    shown = dlh("jobs", "--column", "energy_j", "--sort", "name", "--json").json["items"]
    assert [(job["id"], job["columns"]) for job in shown] == [
        (kept.pk, {"energy_j": None}),
        (other.pk, {"energy_j": None}),
    ]
    assert dlh("jobs", "--view", "None such").code == 3 and dlh("jobs", "-c", "password").code == 2


def test_jobs_are_listed_by_groups(dlh: Dlh, portal: SimpleNamespace, job_make: Any) -> None:

    best = [job_make(name=f"seed {seed}", training={"seed": seed}).pk for seed in (1, 2)]
    for at, pk in enumerate(best):
        Job.objects.filter(pk=pk).update(state="succeeded", metric_name="accuracy", metric_best=0.8 + at / 10, run_s=60)
    head, line = dlh("jobs", "--group", "model").out.splitlines()
    words = ["Model", "Metric", "Jobs", "n", "Best", "(validation):", "mean", "sd", "Best", "Best", "job"]
    assert head.split() == words
    assert line.split()[1:4] == ["accuracy", "2", "2"] and line.split()[-1] == best[1]
    told = dlh("jobs", "--group", "seed", "--of", "time", "--json").json
    assert told["by"] == "spec:training.seed" and [group["mean"] for group in told["items"]] == [60, 60]
    for wrong in (("--of", "time"), ("--group", "model", "--sort", "name"), ("--group", "password")):
        assert dlh("jobs", *wrong).code == 2, wrong
