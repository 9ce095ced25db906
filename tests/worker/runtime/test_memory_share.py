"""What a rank counts on of a GPU: its share of what is free there. The GPU is a faked one."""

from __future__ import annotations

import pytest
import torch

from worker.runtime.memory import free_bytes
from worker.runtime.settings import Settings

GIB = 1 << 30
GPU = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Of 16 GiB 12 are free; this process has reserved one, and uses half of that."""
    told: dict[str, float] = {"unused": 12.0 * GIB, "reserved": 1.0 * GIB, "allocated": 0.5 * GIB, "fraction": 1.0}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (told["unused"], 16.0 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: told["reserved"])
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: told["allocated"])
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: told["fraction"])
    return told


@pytest.mark.parametrize(("ranks", "gib"), [(1, 12.5), (2, 6.5), (3, 4.5)])
def test_ranks_that_share_a_gpu_count_on_their_part_of_what_is_free(
    gpu: dict[str, float], ranks: int, gib: float
) -> None:
    assert free_bytes(GPU, None, ranks) == gib * GIB


def test_together_they_count_on_no_more_than_there_is(gpu: dict[str, float]) -> None:
    gpu |= {"reserved": 0.0, "allocated": 0.0}
    for ranks in range(1, 9):
        assert ranks * free_bytes(GPU, None, ranks) <= gpu["unused"]


def test_a_lower_limit_of_the_process_itself_holds_for_its_share(gpu: dict[str, float]) -> None:
    gpu["fraction"] = 0.25
    assert free_bytes(GPU, None, 2) == 3.5 * GIB
    gpu["fraction"] = 0.75
    assert free_bytes(GPU, None, 2) == 6.5 * GIB


@pytest.mark.parametrize(
    ("arguments", "environment", "ranks"),
    [
        ([], {}, 1),
        ([], {"DLH_DEVICE": "cuda:0", "DLH_DEVICE_RANKS": "3"}, 3),
        ([], {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}, 1),
        (["--device", "cuda:0"], {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "4"}, 2),
        (["--device", "cuda"], {"HOROVOD_LOCAL_SIZE": "4", "HOROVOD_RANK": "0", "HOROVOD_SIZE": "4"}, 4),
        (["--device", "cuda:1"], {}, 1),
        (["--device", "cpu"], {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "RANK": "1", "WORLD_SIZE": "2"}, 1),
    ],
)
def test_how_many_ranks_drive_a_gpu_is_known_from_whoever_started_them(
    arguments: list[str], environment: dict[str, str], ranks: int
) -> None:
    assert Settings.read(arguments, environment).device_ranks == ranks
