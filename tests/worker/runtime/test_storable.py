"""What a program has saved beside model and optimizer must be read again: else no restart would find a checkpoint."""

from __future__ import annotations

import cProfile
import io
import shutil
from collections import Counter, OrderedDict, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.worker.runtime.spoiled import edit, error_of
from worker.runtime.failures import ProgramFailure
from worker.runtime.storable import parts_check

WEIGHT = torch.ones(2)
WEIGHT_AND_RATE = {"weight": WEIGHT, "rates": [0.1, 0.2]}
HELD = [
    {"lr": 0.1, "betas": (0.9, 0.999), "foreach": None, "state": {0: {"step": torch.tensor(1.0)}}},
    OrderedDict(weight=WEIGHT), {"seen": {1, 2}, "counts": Counter("ab"), "z": 1j, "kind": torch.bfloat16}, [], "text",
    {"raw": b"ab", "room": bytearray(b"c"), "where": torch.device("cpu"), "size": WEIGHT.shape, "more": ({3}, [None])},
    {"kind": torch.strided, "scheme": torch.per_tensor_affine, "same": [WEIGHT_AND_RATE, WEIGHT_AND_RATE]},
]  # fmt: skip
NOT_HELD = [
    ({"best": np.float64(0.5)}, r"mine\.state_dict\(\)\['best'\] is a numpy\.float64"),
    ({"a": [1, {"b": np.ones(2)}]}, r"\['a'\]\[1\]\['b'\] is a numpy\.ndarray"),
    ({np.int64(3): 1.0}, r"key np\.int64\(3\) is a numpy\.int64"),
    ({"since": datetime(2026, 1, 1)}, r"\['since'\] is a datetime\.datetime"),
    ({"seen": defaultdict(int, a=1)}, r"\['seen'\] is a collections\.defaultdict"),
    ({"order": {("a", range(2)): 1}}, r"\['order'\] key \('a', range\(0, 2\)\)\[1\] is a builtins\.range"),
]  # fmt: skip


def read_again(state: Any) -> bool:
    body = io.BytesIO()
    torch.save(state, body)
    body.seek(0)
    try:
        torch.load(body, weights_only=True)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("state", HELD, ids=range(len(HELD)))
def test_what_is_read_again_passes(state: Any) -> None:
    parts_check({"mine": state})
    assert read_again(state)


@pytest.mark.parametrize(("state", "words"), NOT_HELD, ids=range(len(NOT_HELD)))
def test_what_is_not_read_again_is_refused_by_part_and_place(state: Any, words: str) -> None:
    assert not read_again(state)
    with pytest.raises(ProgramFailure, match=words):
        parts_check({"net": HELD[1], "mine": state})


def test_what_lies_in_itself_is_refused_by_its_place() -> None:
    within: dict[str, Any] = {"parents": []}
    within["parents"].append(within)
    place = r"mine\.state_dict\(\)\['a'\]\['parents'\]\[0\] is a dict that lies in itself"
    with pytest.raises(ProgramFailure, match=place):
        parts_check({"mine": {"a": within}})


def test_a_long_list_of_numbers_costs_a_save_next_to_nothing() -> None:
    numbers = [0.5] * 1_000_000
    profile = cProfile.Profile()
    profile.runcall(parts_check, {"mine": {"history": numbers}})
    assert sum(entry.callcount for entry in profile.getstats()) < 1000


OWN_PART = """class Mine:
    def state_dict(self):
        return {"best": 0.0 if run.position.step == 0 else torch.ones(1).numpy()}

    def load_state_dict(self, state):
        pass

run.restore(net=net, optimizer=optimizer, ema=ema, mine=Mine())"""


def test_a_part_that_becomes_one_that_is_not_read_again_ends_the_run_before_it_counts_on_it(
    wine_program: Path, tmp_path: Path
) -> None:
    program = Path(shutil.copytree(wine_program, tmp_path / "program"))
    edit(program, "train.py", lambda text: text.replace("run.restore(net=net, optimizer=optimizer, ema=ema)", OWN_PART))
    error = error_of(program)
    assert error["code"] == "program_error" and "run.restore(mine=...)" in error["message"]
    assert not list((program / "work" / "checkpoints").glob("step-*"))
