"""A node with a cache behind a slow line: offers count the way of the data, as assumed and then as it was measured."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.e2e.cache_node import node_of, second_node
from tests.e2e.slow_line import slow_line
from tests.e2e.stack import JOB_TIMEOUT_S, wait_for

pytestmark = pytest.mark.stack
MIB = 1 << 20
ASSUMED_MIB_PER_S, LINE_BYTES_PER_S = 0.05, MIB
SPEC = {
    "resources": {"device": "cpu", "count": 1},
    "training": {"epochs": 1, "batch_size": 512, "seed": 7, "patience": 0},
}


def table(folder):
    """A file that takes some MB however it is packed."""
    rows = np.random.default_rng(7).normal(size=(20_000, 16))
    file = folder / "noise.csv"
    names = ",".join(f"x{number}" for number in range(16))
    np.savetxt(
        file, np.column_stack([rows, rows[:, 0] > 0]), delimiter=",", header=f"{names},y", comments="", fmt="%.9g"
    )
    return file


def line_of(stack, job, **wish):
    """The one way of the job's offer, once it is priced."""
    offer = stack.post(f"/jobs/{job}/offers", wish)["id"]

    def priced():
        found = stack.get(f"/offers/{offer}")
        return found if found["state"] != "waiting" else None

    found = wait_for(priced, timeout_s=180, what="the program is read")
    assert found["state"] == "ready", found["problem"]
    return found, next(line for line in found["lines"] if line["count"] == 1)


def test_the_way_of_the_data_is_assumed_then_measured_and_counts_in_offers_and_promises(make_stack, tmp_path):
    first = make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2").wait_running()
    data = first.upload(table(tmp_path), "noise")
    job = first.post("/jobs", {"dataset": data, "spec": SPEC})["id"]
    _, here = line_of(first, job)
    assert (here["data_s"], here["data_words"]) == (0.0, "")
    first.request("PATCH", "/pool/settings", json={"data_mib_per_s": ASSUMED_MIB_PER_S})

    portal = urlsplit(first.url)
    with (
        slow_line(portal.hostname, portal.port, LINE_BYTES_PER_S) as url,
        second_node(first, tmp_path, url=url) as home,
    ):
        found, far = line_of(first, job)
        assert (far["data_node"], far["data_basis"]) == ("second", "assumed") and far["data_bytes"] > MIB
        assert far["data_s"] == pytest.approx(far["data_bytes"] / (ASSUMED_MIB_PER_S * MIB))
        assert far["data_words"].endswith("to node second (assumed)")
        assert "for its data (assumed)" in found["text"] and any("that is assumed" in note for note in found["notes"])
        latest_s = (datetime.fromisoformat(far["finish_high"]) - datetime.fromisoformat(far["start"])).total_seconds()
        assert latest_s >= far["data_s"] + far["run_s"]["high"] - 1.0
        soon = datetime.now(UTC) + timedelta(seconds=latest_s - far["data_s"] / 2)
        refused, late = line_of(first, job, deadline=soon.isoformat())
        assert refused["recommended"] is None and late["hindrance"] == "deadline"

        first.post(f"/jobs/{job}/submit")
        first.job_wait(job, "succeeded", timeout_s=JOB_TIMEOUT_S)
        told = {key: row["data"][key] for row in first.get(f"/jobs/{job}/events")["items"] for key in row["data"]}
        ran, placed = (datetime.fromisoformat(first.job(job)[name]) for name in ("running_at", "placed_at"))
        assert told["fetched_bytes"] > MIB
        assert told["preload_s"] + told["start_s"] <= (ran - placed).total_seconds() + 0.5, "the start comes after it"
        cache = wait_for(
            lambda: (told := node_of(first, "second")["description"]["cache"]).get("bytes_per_s") and told,
            what="the node tells how fast they came",
        )
        assert "fetches" not in cache and 0 < cache["bytes_per_s"] <= 1.5 * LINE_BYTES_PER_S

        again = first.post("/jobs", {"dataset": data, "spec": SPEC})["id"]
        _, there = line_of(first, again)
        assert there["data_s"] == 0.0, "it has them"
        shutil.rmtree(home / "cache" / "contents")
        gone = wait_for(
            lambda: (line := line_of(first, again)[1])["data_s"] and line, timeout_s=60,
            what="the node has told that they are gone",
        )  # fmt: skip
        assert gone["data_basis"] == "measured"
        assert gone["data_s"] == pytest.approx(gone["data_bytes"] / cache["bytes_per_s"], rel=0.01)
