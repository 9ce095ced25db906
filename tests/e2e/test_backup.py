"""An installation moves: people, data, a finished job, and one under way, to another home, while the first runs on."""

import shutil

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.held import LONG, NAPPING
from tests.e2e.people import dlh, signed_in
from tests.e2e.stack import START_TIMEOUT_S, clean_environment, items, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.both_databases]


def predicted(stack, job, file):
    path = f"/jobs/{job}/predictions"
    asked = stack.request("POST", path, files={"input": (file.name, file.read_bytes())}).json()["id"]
    found = wait_for(
        lambda: (body := stack.get(f"{path}/{asked}"))["state"] != "waiting" and body,
        timeout_s=START_TIMEOUT_S,
        what="the prediction is answered",
    )
    assert found["state"] == "done", found
    return found["rows"]


def test_a_running_installation_moves_to_another_home_with_all_that_it_has(make_stack, tmp_path):
    first = make_stack().wait_running()
    wine = sample_file("wine", tmp_path)
    data = first.upload(wine, "wine")
    done = first.job_submit(data, {"name": "done before", "training": {"epochs": 2, "seed": 1}})
    first.job_wait(done, "succeeded")
    running = first.job_submit(data, {"name": "under way", **LONG}, NAPPING)
    first.job_wait_checkpoint(running)

    made = dlh(first.environment, "backup", tmp_path / "all.dlh")
    assert made.returncode == 0, made.stderr
    assert first.stop() == 0
    back = dlh(clean_environment(tmp_path / "new"), "restore", tmp_path / "all.dlh")
    assert back.returncode == 0, back.stderr
    assert "1 run was under way; it resumes from its newest checkpoint." in back.stdout
    shutil.rmtree(first.home)

    new = make_stack(tmp_path / "new").wait_running()
    assert new.text().count("as set before") == 1
    with signed_in(new, first.user, first.password) as browser:
        page = browser.get(f"/jobs/{done}/")
        assert page.status_code == 200 and "done before" in page.text
    assert new.get(f"/jobs/{done}/results")["metric"]["value_test"] > 0
    assert len(new.request("GET", f"/jobs/{done}/weights").content) > 1000
    assert predicted(new, done, wine) == 178
    new.job_wait(running, "running", "succeeded")
    attempts = {row["number"]: row["outcome"] for row in items(new.get(f"/jobs/{running}/attempts"))}
    assert attempts[1] == "lost" and len(attempts) >= 2
    assert not set(attempts) & set(range(2, 1000))  # numbers that the first installation may have given since
