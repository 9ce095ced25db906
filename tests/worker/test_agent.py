"""The node as it is run: a real Celery worker, a real broker, and what is left when the worker is killed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from celery import Celery

from tests.worker.conftest import JOB_ID, NODE, JobFixture, wait_for
from worker import agent, registry

FOREVER = """
step = 1
while not paused():
    tell("progress", step=step, phase="train")
    time.sleep(0.05); step += 1
sys.exit(75)
"""


class Node:
    """The node's process, and what it sends to control."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self.sender = Celery("sender", broker=url)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            argv = [sys.executable, "-m", "worker.agent"]
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        assert self.process
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def send(self, task: str, *arguments: Any) -> None:
        self.sender.send_task(task, list(arguments), queue=f"node.{NODE}")

    def sent_to_control(self, task: str) -> list[dict[str, Any]]:
        """First arguments of the messages of one task that wait in control's queue."""
        found = []
        for text in reversed(redis.Redis.from_url(self.url).lrange("control", 0, -1)):
            message = json.loads(text)
            if message["headers"]["task"] == task:
                import base64

                body = json.loads(base64.b64decode(message["body"]))
                found.append(body[0][0] if body[0] else {})
        return found


@pytest.fixture
def node(home: Path, broker_url: str, tmp_path: Path) -> Iterator[Node]:
    node = Node(broker_url, tmp_path / "node.log")
    node.start()
    yield node
    node.kill()


def test_the_node_reports_its_devices_its_sandbox_and_what_runs(node: Node, job: JobFixture) -> None:
    job.program(FOREVER)
    first = wait_for(lambda: node.sent_to_control("control.node_report"))[0]
    assert first["name"] == NODE
    assert {device["kind"] for device in first["devices"]} >= {"cpu"}
    assert first["sandbox_level"] in range(4)
    assert first["description"]["start_weights"], "control sends tries of jobs with weights to such nodes alone"
    assert first["running"] == []
    node.send("node.start", job.plan().to_dict())
    wait_for(
        lambda: node.sent_to_control("control.node_report")[-1]["running"] == [{"job_id": JOB_ID, "token": 1}],
    )
    wait_for(lambda: "running" in job.kinds())
    wait_for(lambda: node.sent_to_control("control.ingest"))
    node.send("node.stop", JOB_ID, 1, "cancel")
    assert job.exited().data["outcome"] == "cancelled"


def test_a_killed_agent_leaves_the_run_alive_and_finds_it_again(node: Node, job: JobFixture) -> None:
    job.program(FOREVER)
    node.send("node.start", job.plan().to_dict())
    wait_for(lambda: "running" in job.kinds())
    node.kill()
    steps = len(job.kinds())
    wait_for(lambda: len(job.kinds()) > steps + 20)
    redis.Redis.from_url(job.url).delete("control")
    node.start()
    report = wait_for(lambda: node.sent_to_control("control.node_report"))[0]
    assert report["running"] == [{"job_id": JOB_ID, "token": 1}]
    node.send("node.start", job.plan().to_dict())
    node.send("node.stop", JOB_ID, 1, "pause")
    assert job.exited().data["outcome"] == "paused"
    assert job.kinds().count("started") == 1


def test_a_second_agent_of_one_home_is_refused(node: Node, home: Path) -> None:
    wait_for(lambda: node.sent_to_control("control.node_report"))
    second = subprocess.run([sys.executable, "-m", "worker.agent"], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert f"An agent of {NODE} runs already in {home}" in second.stderr
    assert node.process is not None and node.process.poll() is None


def test_a_node_in_a_container_ends_its_runs_and_says_so_before_it_goes(
    node: Node, job: JobFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.kill()
    monkeypatch.setenv("DLH_RUNS_END_WITH_NODE", "1")
    node.start()
    job.program(FOREVER)
    node.send("node.start", job.plan().to_dict())
    wait_for(lambda: "running" in job.kinds())
    assert node.process
    node.process.terminate()
    assert node.process.wait(60) == 0
    ended = job.exited(limit_s=1.0).data
    assert (ended["outcome"], ended["failure"]["code"]) == ("lost", "node_stopped")
    assert "shut down" in ended["failure"]["message"]
    assert job.kinds()[-1] == "exited" and not job.processes() and not registry.entries()
    assert node.sent_to_control("control.node_leave") == [NODE]


def test_a_reader_that_waits_ends_with_its_agent_even_a_killed_one(
    node: Node, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = home / "run" / "readers" / NODE
    node.kill()
    monkeypatch.setenv("DLH_READERS", "1")
    node.start()
    (killed,) = wait_for(lambda: slots.is_dir() and list(slots.iterdir()))
    wait_for(lambda: inside(killed))
    node.kill()
    wait_for(lambda: not inside(killed))
    node.start()
    (stopped,) = wait_for(lambda: set(slots.iterdir()) - {killed})
    assert not killed.exists()
    wait_for(lambda: inside(stopped))
    assert node.process
    node.process.terminate()
    assert node.process.wait(60) == 0
    wait_for(lambda: not inside(stopped))
    assert not list(slots.iterdir())


def inside(slot: Path) -> list[psutil.Process]:
    """Processes of the sandbox that has this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(slot) in word for word in process.cmdline()):
                found.append(process)
    return found


def test_purge_ends_and_forgets(node: Node, job: JobFixture) -> None:
    job.program(FOREVER)
    node.send("node.start", job.plan().to_dict())
    wait_for(lambda: "running" in job.kinds())
    node.send("node.purge", JOB_ID)
    wait_for(lambda: not registry.entries())
    wait_for(lambda: not job.processes())


def test_check_and_predict_answer_control(node: Node, job: JobFixture) -> None:
    job.program("")
    (job.paths.program / "predict.py").write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
        "rows = Path(arguments['--input']).read_text().splitlines() + sys.argv[7:]\n"
        "Path(arguments['--output']).write_text(json.dumps({'columns': ['x'], 'rows': [[row] for row in rows]}))\n"
    )
    job.paths.results.mkdir(parents=True)
    (job.paths.results / "model.safetensors").write_bytes(b"w")
    folder = job.paths.prediction("p1")
    folder.mkdir(parents=True)
    (folder / "input.csv").write_text("a\nb\n")
    request = {
        "job_id": JOB_ID, "job_dir": str(job.paths.root), "dataset_dir": str(job.dataset), "own_code": True,
        "minimum_sandbox_level": 1,
    }  # fmt: skip
    node.send("node.predict", {"prediction_id": "p1", "checkpoint": "", "threshold": "-1=0.3", **request})
    answer = wait_for(lambda: node.sent_to_control("control.prediction_done"))[0]
    assert answer == {"prediction_id": "p1"}
    assert json.loads((folder / "output.json").read_text())["rows"] == [["a"], ["b"], ["--threshold=-1=0.3"]]
    folder = job.paths.prediction("p2")
    folder.mkdir(parents=True)
    (job.paths.program / "predict.py").write_text(
        "import json, sys\nfrom pathlib import Path\n"
        "Path(sys.argv[2]).write_text(json.dumps({'columns': ['x'], 'rows': [['--input' in sys.argv]]}))\n"
    )
    node.send("node.predict", {"prediction_id": "p2", "checkpoint": "", "from_end": True, **request})
    assert wait_for(lambda: node.sent_to_control("control.prediction_done")[1:])[0] == {"prediction_id": "p2"}
    assert json.loads((folder / "output.json").read_text())["rows"] == [[False]]
    (job.paths.program / "predict.py").write_text("raise ValueError('column age is missing')")
    node.send("node.predict", {"prediction_id": "p1", "checkpoint": "", **request})
    answer = wait_for(lambda: node.sent_to_control("control.prediction_done")[2:])[0]
    assert answer["problem"]["message"] == "ValueError: column age is missing"
    node.send("node.check", {"check_id": "c1", **request})
    answer = wait_for(lambda: node.sent_to_control("control.check_done"))[0]
    assert answer["check_id"] == "c1"
    assert node.sent_to_control("control.check_begun") == [{"check_id": "c1"}]
    assert answer["ok"] is False
    assert answer["problem"]["message"]


def test_an_entry_of_a_reused_process_id_is_not_taken_for_a_supervisor(home: Path, tmp_path: Path) -> None:
    entry = registry.Entry(job_id="j", token=1, job_dir=str(tmp_path), pid=os.getpid(), created_s=1.0)
    assert entry.process() is None
    entry.paths.attempt(1).mkdir(parents=True)
    registry.add(entry)
    assert agent.sweep() == []
    assert registry.entries() == []


def test_a_folder_that_a_disk_does_not_give_keeps_no_other_run_from_being_seen_to(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the node reports nothing any more, is called down, and all its runs are lost."""
    own_s = registry.process_created_s(os.getpid())
    for name, created_s in (("bad", 1.0), ("dead", 1.0), ("lives", own_s)):
        entry = registry.Entry(
            job_id=name, token=1, job_dir=str(tmp_path / name), pid=os.getpid(), created_s=created_s
        )  # fmt: skip
        entry.paths.attempt(1).mkdir(parents=True)
        registry.add(entry)
    exists = Path.exists

    def failing(path: Path) -> bool:
        if path.is_relative_to(tmp_path / "bad"):
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return exists(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", failing)
        assert [entry.job_id for entry in agent.sweep()] == ["lives"]
        assert [entry.job_id for entry in registry.entries()] == ["bad", "lives"]
    assert [entry.job_id for entry in agent.sweep()] == ["lives"]
    assert [entry.job_id for entry in registry.entries()] == ["lives"]
    registry.remove("lives", 1)


def test_a_run_whose_disk_is_not_mounted_yet_is_not_forgotten(home: Path, tmp_path: Path) -> None:
    """After a restart of its machine: what it made and has not returned is on that disk alone."""
    jobs, unmounted = tmp_path / "jobs", tmp_path / "unmounted"
    entry = registry.Entry(job_id="j", token=1, job_dir=str(jobs / "j"), pid=os.getpid(), created_s=1.0)
    entry.paths.attempt(1).mkdir(parents=True)
    registry.add(entry)
    jobs.rename(unmounted)
    assert agent.sweep() == [] and registry.entries() == [entry]
    unmounted.rename(jobs)
    assert agent.sweep() == [] and registry.entries() == []
    assert json.loads(entry.paths.exit_file(1).read_text())["data"]["outcome"] == "lost"


def test_a_run_whose_folder_is_gone_for_good_is_forgotten(home: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    entry = registry.Entry(job_id="j", token=1, job_dir=str(tmp_path / "jobs" / "j"), pid=os.getpid(), created_s=1.0)
    entry.paths.attempt(1).mkdir(parents=True)
    registry.add(entry)
    shutil.rmtree(entry.paths.root)
    assert agent.sweep() == [] and registry.entries() == []
