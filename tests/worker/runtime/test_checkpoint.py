"""Checkpoints: atomic, hashed, purged, and the newest good one is found."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from tests.worker.runtime.apart import apart
from tests.worker.runtime.lone import Lone
from worker.memory_words import Phase
from worker.runtime import hashed
from worker.runtime import pulse as pulses
from worker.runtime.checkpoint import CheckpointStore, CorruptCheckpoint
from worker.runtime.checkpointer import Checkpointer
from worker.runtime.exhausted import is_out_of_memory
from worker.runtime.manifest import manifest_read
from worker.runtime.memory import status_fields


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """Keeps two, larger is better."""
    return CheckpointStore(tmp_path / "checkpoints", keep=2, larger_is_better=True)


def save(store: CheckpointStore, step: int, metric: float | None = None) -> str:
    """A checkpoint whose state tells its step."""
    return store.save({"weight": torch.full((100,), float(step))}, step=step, epoch=step / 10, metric=metric).name


def test_a_loss_below_zero_is_compared_with_none_that_earlier_runtimes_told_as_it_is(store: CheckpointStore) -> None:
    save(store, 1, 0.9)
    manifest = store.folder / "step-00000001" / "MANIFEST.json"
    told = json.loads(manifest.read_text())
    assert told.pop("by_loss") is False
    manifest.write_text(json.dumps(told))
    for step, loss in ((2, 0.5), (3, 0.2), (4, 0.3)):
        store.save({}, step=step, epoch=step / 10, metric=-loss, by_loss=True)
        best = store.best()
        assert best is not None and best.step == min(step, 3)
    assert store.purge() == ["step-00000001", "step-00000002"]


def no_notes(message: str) -> None:
    raise AssertionError(message)


def test_what_was_saved_comes_back(store: CheckpointStore) -> None:
    save(store, 7)
    found = store.newest_good(no_notes)
    assert found is not None
    assert found[0] == "step-00000007"
    assert torch.equal(found[1]["weight"], torch.full((100,), 7.0))


def test_a_large_one_gives_signs_of_life_while_it_is_written_and_while_it_is_checked(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(pulses, "BEAT_S", 0.0)
    monkeypatch.setattr(hashed, "FLUSH_BYTES", 1 << 12)
    monkeypatch.setattr(hashed, "BLOCK_BYTES", 1 << 12)
    flushed: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(fd), real(fd)))
    pulses.pulse.listen(lambda: told.append("alive"))
    try:
        name = store.save({"weights": [torch.ones(2000) for _ in range(4)]}, step=1, epoch=1.0, metric=None).name
        written = len(told)
        store.load(name)
    finally:
        pulses.pulse.listen(lambda: None)
    assert written >= 4
    assert len(told) - written >= 4
    assert len(flushed) >= 4


def test_the_manifest_names_every_file_with_size_and_hash(store: CheckpointStore) -> None:
    name = save(store, 7, 0.5)
    manifest = json.loads((store.folder / name / "MANIFEST.json").read_text())
    assert manifest["step"] == 7
    assert manifest["metric"] == 0.5
    entry = manifest["files"]["state.pt"]
    assert entry["bytes"] == (store.folder / name / "state.pt").stat().st_size
    assert len(entry["sha256"]) == 64


def test_the_manifest_tells_which_attempt_made_it(tmp_path: Path) -> None:
    name = save(CheckpointStore(tmp_path, keep=2, larger_is_better=True, token=3), 7)
    assert json.loads((tmp_path / name / "MANIFEST.json").read_text())["attempt"] == 3


def test_a_flipped_byte_is_noticed_and_an_older_one_is_taken(store: CheckpointStore) -> None:
    save(store, 1)
    path = store.folder / save(store, 2) / "state.pt"
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.write_bytes(body)
    notes: list[str] = []
    found = store.newest_good(notes.append)
    assert found is not None
    assert found[0] == "step-00000001"
    assert "step-00000002" in notes[0]
    with pytest.raises(CorruptCheckpoint, match="step-00000002"):
        store.load("step-00000002")


def test_a_cut_file_and_a_missing_manifest_are_passed_over(store: CheckpointStore) -> None:
    save(store, 1)
    cut = store.folder / save(store, 2) / "state.pt"
    cut.write_bytes(cut.read_bytes()[:50])
    (store.folder / save(store, 3) / "MANIFEST.json").unlink()
    found = store.newest_good(lambda message: None)
    assert found is not None
    assert found[0] == "step-00000001"


def test_pickled_code_is_not_run(store: CheckpointStore) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (store.folder / "ran",))

    store.save({"weight": Evil()}, step=1, epoch=0, metric=None)
    with pytest.raises(CorruptCheckpoint):
        store.load("step-00000001")
    assert not (store.folder / "ran").exists()


def test_the_best_and_the_newest_are_kept(store: CheckpointStore) -> None:
    removed = []
    for step, metric in ((1, 0.9), (2, 0.1), (3, 0.2), (4, None), (5, 0.3)):
        save(store, step, metric)
        removed += store.purge()
    assert [saved.step for saved in store.saved()] == [1, 4, 5]
    assert removed == ["step-00000002", "step-00000003"]


def test_of_equal_metrics_the_later_is_best(store: CheckpointStore) -> None:
    save(store, 1, 0.5)
    save(store, 2, 0.5)
    best = store.best()
    assert best is not None
    assert best.step == 2


def test_a_smaller_metric_can_be_better(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1, larger_is_better=False)
    for step, metric in ((1, 0.5), (2, 0.1), (3, 0.3)):
        save(store, step, metric)
    best = store.best()
    assert best is not None
    assert best.step == 2


def test_purging_never_raises(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(4):
        save(store, step)

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "rename", refuse)
    assert store.purge() == []


def test_a_full_disk_is_told_as_such_and_older_ones_stay(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1)
    original = hashed.HashingFile.write

    def write(file: hashed.HashingFile, body: bytes) -> int:
        if file.count > 200:
            file.error = OSError(errno.ENOSPC, "No space left on device")
            raise file.error
        return original(file, body)

    monkeypatch.setattr(hashed.HashingFile, "write", write)
    with pytest.raises(OSError, match="No space left") as caught:
        store.save({"weight": torch.zeros(10_000)}, step=2, epoch=0, metric=None)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert [path.parent.name for path in store.folder.rglob("state.pt")] == ["step-00000001"]
    assert store.newest_good(no_notes) is not None


def test_a_metric_is_compared_with_none_of_another_name(store: CheckpointStore) -> None:
    for step, metric, judged_by in ((1, 0.3, ""), (2, 0.9, "accuracy"), (3, 0.8, "accuracy")):
        store.save({}, step=step, epoch=1.0, metric=metric, judged_by=judged_by)
    later = CheckpointStore(store.folder, keep=2, larger_is_better=False)  # the spec was changed to log_loss
    assert (best := later.best()) is not None and best.step == 2, "judged as it was, until an epoch is judged anew"
    for step, metric in ((4, 1.2), (5, 1.4)):
        later.save({}, step=step, epoch=1.0, metric=metric, judged_by="log_loss")
    (store.folder / "step-00000001").rename(store.folder.parent / "of-an-earlier-runtime")
    assert (best := later.best()) is not None and best.step == 4


def test_a_checkpoint_of_the_same_step_is_replaced(store: CheckpointStore) -> None:
    save(store, 1)
    save(store, 1, 0.5)
    assert [saved.metric for saved in store.saved()] == [0.5]
    assert [path.parent.name for path in store.folder.rglob("state.pt")] == ["step-00000001"]


def test_what_a_crash_left_is_cleared_away(store: CheckpointStore) -> None:
    save(store, 1)
    (store.folder / "step-00000001").rename(store.folder / ".old-step-00000001")
    for name in ("step-00000002", "gone-step-00000000", "replaced/step-00000001"):
        (store.desk / name).mkdir(parents=True)
        (store.desk / name / "state.pt").touch()
    found = store.newest_good(no_notes)
    assert found is not None
    assert [path.parent.name for path in store.folder.rglob("state.pt")] == ["step-00000001"]


def test_a_mapped_one_takes_memory_only_where_it_is_looked_at_and_lets_go_of_its_file(store: CheckpointStore) -> None:
    state = {"net": {"weight": torch.arange(1000.0)}, "optimizer": [{"step": torch.tensor(3.0)}]}
    name = store.save(state, step=1, epoch=1.0, metric=None).name

    def is_mapped() -> bool:
        return f"{name}/state.pt" in Path("/proc/self/maps").read_text()

    found = store.load(name, mapped=True)
    assert is_mapped()
    step = found["optimizer"][0]["step"]
    assert torch.equal(found["net"]["weight"], state["net"]["weight"])
    found.clear()
    assert step == 3.0
    assert not is_mapped()


def checkpointer_of(folder: Path, device: str = "cpu", note: Callable[[str], None] = print) -> Checkpointer:
    """That of a run alone, which cannot take a state."""
    settings = SimpleNamespace(work=folder.parent, token=0, fresh=False, resume_from=None)

    def load(*_: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    run = SimpleNamespace(
        spec={}, rank=0, group=None, metric_name="accuracy", settings=settings, device=torch.device(device),
        reporter=SimpleNamespace(note=note), mode=SimpleNamespace(load=load),
    )  # fmt: skip
    return Checkpointer(cast(Any, run))


def test_a_state_for_which_there_is_no_memory_is_not_taken_for_that_of_another_model(tmp_path: Path) -> None:
    checkpointer = checkpointer_of(tmp_path / "checkpoints")
    checkpointer.store.save({"parts": {}}, step=1, epoch=1.0, metric=None)
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        checkpointer.restore()


def test_a_run_that_has_saved_tells_that_it_goes_on_with_what_it_was_at(tmp_path: Path) -> None:
    checkpointer, told = checkpointer_of(tmp_path / "checkpoints"), list[str]()
    teller = SimpleNamespace(phase=Phase.TRAINING, progress=told.append)
    checkpointer.run = cast(Any, SimpleNamespace(rank=1, teller=teller, position=SimpleNamespace(step=3)))
    checkpointer.save(metric=None, state={"parts": {}})
    assert told == ["checkpoint", "training"]


def test_what_is_put_aside_is_told_with_the_next_checkpoint_as_gone_from_its_place(tmp_path: Path) -> None:
    checkpointer = checkpointer_of(tmp_path / "checkpoints")
    for step in (1, 2, 3):
        checkpointer.store.save({"position": {"step": step}}, step=step, epoch=1.0, metric=None)
    checkpointer.run.settings.resume_from = "step-00000001"
    checkpointer._find()
    told: list[dict[str, Any]] = []
    checkpointer.run.reporter.emit = lambda kind, **data: told.append(data)
    for step in (2, 4):
        checkpointer._write({}, step=step, epoch=1.0, metric=None)
    assert [data["removed"] for data in told] == [["step-00000003"], ["step-00000001"]]


def test_a_run_goes_on_saving_though_an_older_checkpoint_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(folder: Path) -> dict[str, Any] | None:
        if folder.name == "step-00000001":
            raise OSError(errno.EIO, "Input/output error")
        return manifest_read(folder)

    checkpointer, told = checkpointer_of(tmp_path / "checkpoints"), list[dict[str, Any]]()
    checkpointer.run.reporter.emit = lambda kind, **data: told.append(data)
    checkpointer._write({}, step=1, epoch=1.0, metric=0.5)
    monkeypatch.setattr("worker.runtime.checkpoint.manifest_read", failing)
    checkpointer._write({}, step=2, epoch=2.0, metric=0.4)
    assert [(data["name"], data["best"]) for data in told] == [("step-00000001", True), ("step-00000002", None)]


def test_without_memory_for_the_best_weights_the_last_ones_are_used_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    checkpointer, net = checkpointer_of(tmp_path / "checkpoints", note=notes.append), torch.nn.Linear(2, 2)
    checkpointer.store.save({"parts": {"net": torch.nn.Linear(2, 2).state_dict()}}, step=1, epoch=1.0, metric=0.5)
    monkeypatch.setattr(torch, "load", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    before = net.weight.clone()
    checkpointer.take_best(net)
    assert torch.equal(net.weight, before)
    assert "Not enough memory" in notes[0] and "step-00000001" in notes[0]


class Saved(Lone):
    """Stands for a first rank that has saved the step."""

    def broadcast_(self, tensor: torch.Tensor) -> None:
        tensor.fill_(0)


def test_at_the_end_all_ranks_save_or_none_also_where_they_hold_states_of_unlike_size(tmp_path: Path) -> None:
    checkpointer = checkpointer_of(tmp_path / "checkpoints")
    checkpointer.run.rank, checkpointer.run.group = 1, cast(Any, Saved())
    checkpointer.run.position = cast(Any, SimpleNamespace(step=3, metric=None))
    checkpointer.flush()  # to save it would ask the others for their states
    assert checkpointer._saved_step == -1


MEBIBYTES = 64


def _most_bytes(folder: Path, device: str, what: str) -> int:
    """So much more memory than before it takes to do this with a checkpoint of a small model and a large optimizer."""
    net = torch.nn.Linear(4, 4)
    store = CheckpointStore(folder, keep=2, larger_is_better=True)
    moments = {"state": {0: {"exp_avg": torch.ones(MEBIBYTES << 18)}}}
    store.save({"parts": {"net": net.state_dict(), "optimizer": moments}}, step=1, epoch=1.0, metric=0.5)
    del moments
    Path("/proc/self/clear_refs").write_text("5")  # the most that was held counts from here on
    before_bytes = status_fields(Path("/proc/self/status"))["VmHWM"]
    checkpointer = checkpointer_of(folder, device)
    held = checkpointer.take_best(net) if what == "take the best" else checkpointer._find()
    after_bytes = status_fields(Path("/proc/self/status"))["VmHWM"]
    del held
    return int(after_bytes - before_bytes)


def _found_without_memory(folder: Path) -> str:
    """What becomes of the newest checkpoint where there is no room for it."""
    store = CheckpointStore(folder, keep=2, larger_is_better=True)
    store.save({"weight": torch.ones(MEBIBYTES << 18)}, step=1, epoch=1.0, metric=None)
    used_bytes = int(status_fields(Path("/proc/self/status"))["VmData"])
    resource.setrlimit(resource.RLIMIT_DATA, (used_bytes + (MEBIBYTES << 19), resource.RLIM_INFINITY))
    try:
        return str(store.newest_good(no_notes))
    except Exception as error:
        return "out of memory" if is_out_of_memory(error) else repr(error)


def test_a_checkpoint_for_which_there_is_no_memory_is_not_taken_for_damaged(tmp_path: Path) -> None:
    assert apart(_found_without_memory, tmp_path / "checkpoints") == "out of memory"


@pytest.mark.parametrize(("device", "what"), [("cpu", "take the best"), ("cuda", "go on")])
def test_what_is_not_kept_in_host_memory_takes_none(tmp_path: Path, device: str, what: str) -> None:
    assert apart(_most_bytes, tmp_path / "checkpoints", device, what) < MEBIBYTES << 19
