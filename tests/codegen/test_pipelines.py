"""Specs of pipelines: devices and stages that fit, and what is said where they do not."""

from __future__ import annotations

import pytest
import yaml

from codegen.render import render
from codegen.resolve import resolve
from codegen.spec_yaml import load
from codegen.types import Hardware, SpecError
from tests.codegen.model_profiles import GIB, TWO_CORES, table

CORES = Hardware(cpu_cores=8, cpu_memory_bytes=32 * GIB)


def resolved(text: str) -> dict:
    """The spec of a table on eight cores."""
    return resolve(load(text), table(), CORES).spec


def problems(text: str, hardware: Hardware = CORES) -> dict[str, str]:
    """What is said against it."""
    with pytest.raises(SpecError) as caught:
        resolve(load(text), table(), hardware)
    return dict(caught.value.problems)


def test_only_a_pipeline_has_a_part_of_its_own() -> None:
    assert "pipeline" not in resolved("")
    assert "pipeline" not in resolved("mode: sync\nresources: {count: 2}\npipeline: {micro_batches: 4}")


@pytest.mark.parametrize(
    ("text", "count", "stages"),
    [
        ("mode: pipeline", 2, 2),
        ("mode: pipeline\npipeline: {stages: 3}", 3, 3),
        ("mode: pipeline\nresources: {count: 5}", 5, 5),
        ("mode: pipeline+sync", 4, 2),
        ("mode: pipeline+sync\nresources: {count: 6}", 6, 2),
        ("mode: pipeline+sync\nresources: {count: 6}\npipeline: {stages: 3}", 6, 3),
    ],
)
def test_devices_and_stages_fit_each_other(text: str, count: int, stages: int) -> None:
    spec = resolved(text)
    assert (spec["resources"]["count"], spec["pipeline"]["stages"]) == (count, stages)
    assert spec["pipeline"]["micro_batches"] == "auto"  # timed at the start of the run


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("mode: pipeline\nresources: {count: 1}", "mode", "2 devices or more"),
        ("mode: pipeline\nresources: {count: 4}\npipeline: {stages: 2}", "pipeline.stages", "use auto or 4"),
        ("mode: pipeline+sync\nresources: {count: 1}", "mode", "4 devices or more"),
        ("mode: pipeline+sync\nresources: {count: 2}", "resources.count", "takes 4 devices or more, a multiple of 2"),
        ("mode: pipeline+sync\nresources: {count: 3}", "resources.count", "do not make several"),
        (
            "mode: pipeline+sync\nresources: {count: 4}\npipeline: {stages: 3}",
            "pipeline.stages",
            "takes 6 devices or more, a multiple of 3",
        ),
        ("mode: pipeline\nresources: {count: 2}\npipeline: {stages: 1}", "pipeline.stages", "not a pipeline"),
        ("mode: pipeline\ntraining: {batch_size: 8}\npipeline: {micro_batches: 9}", "pipeline.micro_batches", "most 8"),
    ],
)
def test_numbers_that_do_not_fit_are_named(text: str, field: str, words: str) -> None:
    assert words in problems(text)[field]


def test_more_stages_than_devices_are_refused() -> None:
    told = problems("mode: pipeline+sync", TWO_CORES)
    assert "4 devices" in told["resources.count"]


def test_the_program_reads_its_pipeline_from_its_spec() -> None:
    answer = resolve(load("mode: pipeline\npipeline: {micro_batches: 4, recompute: true}"), table(), TWO_CORES)
    body = yaml.safe_load(render(answer, table()).files["spec.yaml"])
    assert body["mode"] == "pipeline"
    assert body["pipeline"] == {"stages": 2, "micro_batches": 4, "schedule": "auto", "recompute": True}
    assert all(guess.reason for guess in answer.guesses)
