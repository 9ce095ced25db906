"""What of a run the store takes: from its newest attempt alone."""

from __future__ import annotations

import pytest
from django.utils import timezone

from harness.jobs.models import Checkpoint, Job, JobAttempt
from harness.transfer import lending, returns
from tests.harness.jobs.helpers import event
from tests.harness.transfer.asking import (
    MANIFEST,
    STATE,
    base,
    bytes_of,
    caller,
    code,
    commit,
    paths,
    put,
    rows,
    send,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent", "quiet_broker")]


@pytest.fixture
def node(node_make):
    return caller(node_make("node-1"))


def test_a_checkpoint_appears_whole_after_its_commit_and_takes_the_place_of_removed_ones(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    old = paths(attempt).checkpoints / "step-00000005"
    old.mkdir(parents=True)
    assert send(node, attempt, files).json() == {"offset": len(MANIFEST)}
    place = paths(attempt).checkpoints / "step-00000010"
    assert not place.exists()
    assert commit(node, attempt, files, removed=[old.name]).status_code == 200
    assert {path.name: path.read_bytes() for path in place.iterdir()} == files
    assert not old.exists()
    again = {"state.pt": b"newer", "MANIFEST.json": MANIFEST}
    send(node, attempt, again)
    assert commit(node, attempt, again).status_code == 200
    assert (place / "state.pt").read_bytes() == b"newer"
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_the_next_attempt_is_shown_whole_checkpoints_that_control_knows_of(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    for name in ("step-00000010", "step-00000020", "step-00000030"):
        send(node, attempt, files, name=name)
        commit(node, attempt, files, name=name)
    (paths(attempt).checkpoints / "step-00000030" / "MANIFEST.json").unlink()
    for step in (10, 30):
        Checkpoint.objects.create(job=attempt.job, name=f"step-{step:08d}", step=step, epoch=1.0, token=1)
    shown = node.get(f"{base(attempt)}/checkpoints").json()["checkpoints"]
    assert [(row["name"], row["files"]) for row in shown] == [
        ("step-00000010", sorted(rows(files), key=lambda row: row["name"]))
    ]
    got = node.get(f"{base(attempt)}/checkpoints/step-00000010?name=state.pt")
    assert bytes_of(got) == STATE
    assert node.get(f"{base(attempt)}/checkpoints/..?name=state.pt").status_code == 404


def test_an_old_attempt_and_one_that_has_ended_write_nothing(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    ended = event(attempt.job, "exited", 9, outcome="succeeded", failure=None).to_json().encode()

    def all_refused():
        log = put(node, f"{base(attempt)}/logs/0", b"late\n", offset=0)
        late = [
            send(node, attempt, files),
            commit(node, attempt, files),
            log,
            put(node, f"{base(attempt)}/exit", ended),
        ]
        late.append(node.get(f"{base(attempt)}/checkpoints"))
        return [(answer.status_code, code(answer)) for answer in late] == [(409, "stale_attempt")] * 5

    Job.objects.filter(pk=attempt.job_id).update(token=2)
    assert all_refused()
    Job.objects.filter(pk=attempt.job_id).update(token=1)
    JobAttempt.objects.filter(pk=attempt.pk).update(ended_at=timezone.now())
    assert all_refused()
    assert not paths(attempt).work.exists() and not paths(attempt).logs.exists()
    assert not paths(attempt).exit_file(1).exists()


def test_what_an_old_attempt_left_half_sent_goes_with_the_next_commit(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    JobAttempt.objects.filter(pk=attempt.pk).update(number=2)
    Job.objects.filter(pk=attempt.job_id).update(token=2)
    attempt.refresh_from_db()
    send(node, attempt, files)
    assert commit(node, attempt, files).status_code == 200
    assert {path.name.partition("-")[0] for path in (paths(attempt).root / "incoming").iterdir()} == {"2"}


def test_another_node_has_no_part_in_the_attempt(stranger, attempt):
    assert send(stranger, attempt, {"state.pt": STATE}).status_code == 404
    assert commit(stranger, attempt, {"state.pt": STATE}).status_code == 404
    assert stranger.get(f"{base(attempt)}/checkpoints").status_code == 404
    assert put(stranger, f"{base(attempt)}/logs/0", b"x", offset=0).status_code == 404


def test_a_commit_whose_answer_was_lost_may_be_asked_again(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    assert commit(node, attempt, files).status_code == 200
    assert commit(node, attempt, files).status_code == 200
    assert {path.name for path in (paths(attempt).checkpoints / "step-00000010").iterdir()} == set(files)
    assert code(commit(node, attempt, {**files, "state.pt": b"another"})) == "checksum_mismatch"


def test_a_commit_that_is_asked_again_while_the_first_goes_on_is_done_with_it(node, attempt, monkeypatch):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    take = lending.uploads_take

    def first_is_faster(sender, folder, tree):
        monkeypatch.setattr(lending, "uploads_take", take)
        assert commit(node, attempt, files).status_code == 200
        folder.mkdir()
        (folder / "state.pt").write_bytes(STATE)  # of two files the second was no longer there
        return {}

    monkeypatch.setattr(lending, "uploads_take", first_is_faster)
    assert commit(node, attempt, files).status_code == 200
    place = paths(attempt).checkpoints / "step-00000010"
    assert {path.name: path.read_bytes() for path in place.iterdir()} == files
    assert not list((paths(attempt).root / "incoming").glob("*/checkpoint-*"))


def test_the_same_checkpoint_made_again_still_removes_what_the_run_removed(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    for name in ("step-00000005", "step-00000010", "step-00000010"):
        send(node, attempt, files, name=name)
        assert commit(node, attempt, files, name=name).status_code == 200
    send(node, attempt, files)
    assert commit(node, attempt, files, removed=["step-00000005"]).status_code == 200
    assert [path.name for path in paths(attempt).checkpoints.iterdir()] == ["step-00000010"]


def test_a_commit_that_was_killed_before_the_removed_went_is_finished_when_it_is_asked_again(
    node, attempt, monkeypatch
):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    for name in ("step-00000005", "step-00000010"):
        send(node, attempt, files, name=name)
        if name == "step-00000010":
            with monkeypatch.context() as patch:
                patch.setattr(returns, "checkpoints_remove", lambda *_, **__: 1 / 0)
                assert commit(node, attempt, files, removed=["step-00000005"]).status_code == 500
            assert len(list(paths(attempt).checkpoints.iterdir())) == 2
        assert commit(node, attempt, files, name=name, removed=["step-00000005"]).status_code == 200
    assert [path.name for path in paths(attempt).checkpoints.iterdir()] == ["step-00000010"]


def test_the_next_attempt_is_shown_a_checkpoint_that_a_kill_left_half_replaced(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    commit(node, attempt, files)
    place = paths(attempt).checkpoints / "step-00000010"
    place.rename(place.with_name(f".old-{place.name}"))
    Checkpoint.objects.create(job=attempt.job, name=place.name, step=10, epoch=1.0, token=1)
    shown = node.get(f"{base(attempt)}/checkpoints").json()["checkpoints"]
    assert [row["name"] for row in shown] == [place.name] and place.is_dir()


def test_an_older_attempt_that_sees_the_store_writes_there_no_more_once_the_next_has_begun(node, attempt):
    from worker.runtime.checkpoint import CheckpointStore, Superseded

    old = CheckpointStore(paths(attempt).checkpoints, keep=1, larger_is_better=True, token=1)
    old.claim()
    old.save({}, step=1, epoch=1.0, metric=None)
    JobAttempt.objects.filter(pk=attempt.pk).update(number=2)
    Job.objects.filter(pk=attempt.job_id).update(token=2)
    attempt.refresh_from_db()
    assert node.get(f"{base(attempt)}/checkpoints").status_code == 200
    with pytest.raises(Superseded):
        old.save({}, step=2, epoch=2.0, metric=None)
    assert [saved.step for saved in old.saved()] == [1]


def test_what_a_run_keeps_in_the_store_is_limited_too(node, attempt):
    attempt.plan["limits"]["disk_bytes"] = 5000
    attempt.save()
    for step in range(2):
        send(node, attempt, {"state.pt": b"x" * 4000}, name=f"step-{step:08}")
        assert commit(node, attempt, {"state.pt": b"x" * 4000}, name=f"step-{step:08}").status_code == 200
    send(node, attempt, {"state.pt": b"x" * 4000}, name="step-00000002")
    assert commit(node, attempt, {"state.pt": b"x" * 4000}, name="step-00000002").status_code == 413


def test_files_that_arrived_otherwise_than_sent_are_refused_and_sent_again(node, attempt):
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, {**files, "state.pt": STATE[:-1] + b"x"})
    assert code(commit(node, attempt, files)) == "checksum_mismatch"
    assert not paths(attempt).checkpoints.exists()
    send(node, attempt, {"state.pt": STATE})
    assert code(commit(node, attempt, files)) == "checksum_mismatch"
    send(node, attempt, files)
    assert commit(node, attempt, files).status_code == 200


def test_a_piece_at_a_wrong_place_is_told_the_right_one(node, attempt):
    send(node, attempt, {"state.pt": STATE})
    answer = put(
        node, f"{base(attempt)}/pieces", b"x", kind="checkpoint", name="step-00000010", file="state.pt", offset=3
    )
    assert (code(answer), answer.json()["error"]["details"]) == ("wrong_offset", {"offset": len(STATE)})


def test_nothing_but_checkpoints_and_results_is_taken(node, attempt):
    for kind, name, file in (
        ("checkpoint", "..", "state.pt"),
        ("checkpoint", "step-1", "../x"),
        ("results", "other", "x"),
        ("program", "program", "train.py"),
        ("checkpoint", "a/b", "x"),
        ("checkpoint", "step-1", ".x"),
    ):
        answer = put(node, f"{base(attempt)}/pieces", b"x", kind=kind, name=name, file=file, offset=0)
        assert (answer.status_code, code(answer)) == (422, "invalid"), (kind, name, file)
    assert not (paths(attempt).root / "incoming").exists()


def test_a_link_that_a_program_left_leads_the_store_nowhere(node, attempt, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    paths(attempt).work.mkdir(parents=True)
    paths(attempt).checkpoints.symlink_to(victim)
    files = {"state.pt": STATE, "MANIFEST.json": MANIFEST}
    send(node, attempt, files)
    assert commit(node, attempt, files).status_code == 409
    assert not list(victim.iterdir())


def test_a_run_returns_no_more_than_it_may_have(node, attempt):
    plan = {**attempt.plan, "limits": {**attempt.plan["limits"], "disk_bytes": 5000}}
    JobAttempt.objects.filter(pk=attempt.pk).update(plan=plan)
    assert code(send(node, attempt, {"state.pt": STATE})) == "too_large"


def test_results_are_put_in_place_file_by_file(node, attempt):
    paths(attempt).results.mkdir(parents=True)
    (paths(attempt).results / "preprocess.json").write_text("{}")
    files = {"results.json": b'{"task": "x"}', "empty.txt": b""}
    send(node, attempt, files, kind="results", name="results")
    assert commit(node, attempt, files, kind="results", name="results").status_code == 200
    found = {path.name: path.read_bytes() for path in paths(attempt).results.iterdir()}
    assert found == {**files, "preprocess.json": b"{}"}


def test_a_log_grows_where_it_ended_and_only_for_ranks_of_the_node(node, attempt):
    address = f"{base(attempt)}/logs/0"
    assert put(node, address, b"one\n", offset=0).json() == {"offset": 4}
    assert put(node, address, b"two\n", offset=4).json() == {"offset": 8}
    again = put(node, address, b"two\n", offset=4)
    assert (code(again), again.json()["error"]["details"]) == ("wrong_offset", {"offset": 8})
    assert paths(attempt).rank_log(1, 0).read_text() == "one\ntwo\n"
    assert put(node, f"{base(attempt)}/logs/7", b"x", offset=0).status_code == 404


def test_a_rank_that_came_while_the_run_went_on_has_a_log_too(node, attempt):
    JobAttempt.objects.filter(pk=attempt.pk).update(plan={**attempt.plan, "most": 2})
    assert put(node, f"{base(attempt)}/logs/1", b"one\n", offset=0).json() == {"offset": 4}
    assert paths(attempt).rank_log(1, 1).read_text() == "one\n"
    assert put(node, f"{base(attempt)}/logs/2", b"x", offset=0).status_code == 404


def test_the_record_of_the_end_is_kept_and_nothing_else(node, attempt):
    address = f"{base(attempt)}/exit"
    for wrong in (b"{}", b"\xff", event(attempt.job, "note", 1).to_json().encode()):
        assert put(node, address, wrong).status_code == 422
    record = event(attempt.job, "exited", 9, outcome="succeeded", failure=None).to_json().encode()
    assert put(node, address, record).status_code == 200
    assert paths(attempt).exit_file(1).read_bytes() == record
