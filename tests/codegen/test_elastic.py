"""What a spec says of lost ranks: written only where it is meant, refused in words where it cannot be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen import spec_yaml
from codegen.resolve import resolve
from codegen.types import SpecError
from tests.codegen.model_profiles import ONE_GPU, TWO_CORES, table


def resolved(text: str) -> dict:
    return resolve(spec_yaml.load(text), table(), TWO_CORES).spec


def problems(text: str, hardware=TWO_CORES) -> dict[str, str]:
    with pytest.raises(SpecError) as caught:
        resolve(spec_yaml.load(text), table(), hardware)
    return dict(caught.value.problems)


def test_without_the_wish_nothing_is_written():
    spec = resolved("mode: sync\nresources: {count: 2, device: cpu}")
    assert "least" not in spec["resources"]
    assert "commit_steps" not in spec["checkpoints"]


@pytest.mark.parametrize("mode", ["sync", "auto"])
def test_the_wish_is_kept_and_the_steps_between_copies_are_chosen(mode):
    spec = resolved(f"mode: {mode}\nresources: {{count: 2, device: cpu, least: 1}}")
    assert spec["resources"]["least"] == 1
    assert spec["checkpoints"]["commit_steps"] == 10


def test_the_steps_between_copies_can_be_chosen():
    spec = resolved("mode: sync\nresources: {count: 2, device: cpu, least: 1}\ncheckpoints: {commit_steps: 3}")
    assert spec["checkpoints"]["commit_steps"] == 3


def test_steps_between_copies_mean_nothing_alone():
    assert "resources.least" in problems("checkpoints: {commit_steps: 3}")["checkpoints.commit_steps"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mode: async\nresources: {count: 2, device: cpu, least: 1}", "choose mode sync"),
        ("resources: {count: 1, device: cpu, least: 1}", "raise resources.count"),
        ("mode: sync\nresources: {count: 1, device: cpu, least: 1}", "raise resources.count"),
        ("mode: sync\nresources: {count: 2, device: cpu, least: 2}", "use at most 1"),
    ],
)
def test_what_cannot_be_is_told_with_a_way_out(text, words):
    assert words in problems(text)["resources.least"]


def test_ranks_on_gpus_do_not_come_back():
    two = replace(ONE_GPU, gpus=2, most_gpus=2)
    assert "CPU cores" in problems("mode: sync\nresources: {count: 2, device: cuda, least: 1}", two)["resources.least"]
