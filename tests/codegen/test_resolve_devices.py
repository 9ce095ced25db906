"""Resolving: on which devices, in which mode and in what parts a batch is worked off, and what that promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen import spec_yaml
from codegen.catalog.base import Cost, Facts
from codegen.catalog.training import memory_bytes, micro_batches
from codegen.modes import pick_mode
from codegen.resolve import resolve
from codegen.spec import Task
from codegen.types import Hardware
from tests.codegen.model_profiles import ONE_GPU, TWO_CORES, pictures, table
from tests.codegen.resolving import problems, resolved


def test_several_devices_train_in_step_one_device_alone():
    assert resolved("resources: {count: 2}", table())["mode"] == "sync"
    assert resolved("resources: {count: 1}", table())["mode"] == "single"


@pytest.mark.parametrize("mode", ["replicated", "async", "sync"])
def test_a_named_mode_for_several_devices_takes_several(mode):
    spec = resolved(f"mode: {mode}", table())
    assert (spec["mode"], spec["resources"]["count"]) == (mode, 2)
    assert spec["training"].get("staleness") == (8 if mode == "async" else None)


def test_beside_backup_ranks_no_age_of_gradients_is_bounded():
    training = resolved("mode: async\ntraining: {backup: 1}", table())["training"]
    assert training["backup"] == 1 and "staleness" not in training


def test_of_two_fields_that_exclude_each_other_it_is_told_what_dropping_either_means():
    told = problems("mode: async\ntraining: {backup: 1, staleness: 3}", table())
    assert list(told) == ["training.staleness"]
    assert (
        "use auto here to drop them, or for training.backup to take them up to this age" in told["training.staleness"]
    )


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ("mode: sync\ntraining: {backup: 1}", "training.backup"),
        ("mode: auto\nresources: {count: 2}\ntraining: {staleness: 3}", "training.staleness"),
        ("mode: async\ntraining: {backup: 1, staleness: 3}", "training.staleness"),
        ("mode: async\ntraining: {backup: 0, staleness: 0}", "training.staleness"),
        ("mode: async\ntraining: {compression: fp16}", "training.compression"),
        *(
            (f"mode: {mode}\ntraining: {{batch_norm: synced}}", "training.batch_norm")
            for mode in ("replicated", "async", "pipeline")
        ),
        ("mode: pipeline\ntraining: {accumulate: 2, compression: bf16}", "training.accumulate"),
        *(
            (f"mode: {mode}\nresources: {{split: measured}}", "resources.split")
            for mode in ("replicated", "async", "pipeline")
        ),
    ],
)
def test_a_wish_that_the_mode_would_quietly_drop_is_refused_by_field(wish, field):
    assert "auto" in problems(wish, table())[field]


@pytest.mark.parametrize(
    "wish",
    [
        "mode: async\ntraining: {backup: 1, accumulate: 2}",
        "mode: async\ntraining: {staleness: 3, accumulate: 2}",
        "mode: sync\ntraining: {compression: fp16, accumulate: 2}",
        "mode: sync\ntraining: {batch_norm: synced, compression: bf16}",
        "mode: sync\nresources: {least: 1}\ntraining: {batch_norm: synced}",
        "resources: {count: 1}\ntraining: {batch_norm: synced}",
        "mode: async\ntraining: {batch_norm: own}",
        "mode: async\nresources: {split: by_speed}",
        "mode: sync\nresources: {split: measured}",
        "resources: {count: 1}\ntraining: {compression: fp16}",
        "mode: pipeline\ntraining: {accumulate: 1, compression: none}\npipeline: {micro_batches: 4}",
    ],
)
def test_wishes_that_the_mode_knows_pass(wish):
    assert resolved(wish, table())


def test_the_mode_that_is_picked_has_a_reason_and_never_changes_the_result_unasked():
    small = Facts(task=Task.IMAGE_CLASSIFICATION, rows=10, train_rows=8, outputs=2, device="cuda", memory_bytes=8 << 30)
    model = Cost(parameters=10**6, flops=1e6, activation_bytes=1e3)
    giant = replace(model, parameters=10**9)
    assert [pick_mode(count, small, model)[0] for count in (1, 2, 8)] == ["single", "sync", "sync"]
    mode, why = pick_mode(2, small, giant)
    assert mode == "pipeline"
    assert "18.6 GiB" in why and "8 GiB" in why
    assert pick_mode(2, replace(small, device="cpu"), giant)[0] == "sync"


def test_a_batch_that_does_not_fit_is_worked_off_in_parts():
    facts = Facts(task=Task.IMAGE_CLASSIFICATION, rows=5000, train_rows=4000, outputs=2, memory_bytes=1 << 30)
    cost = Cost(parameters=10**6, flops=1e6, activation_bytes=4 << 20)
    assert micro_batches(facts, cost, 64, 1)[0] == 1
    parts, why = micro_batches(facts, cost, 1024, 1)
    assert parts == 8
    assert "about 5 GiB at once" in why
    assert memory_bytes(facts, cost, 1024 // parts) <= 0.8 * facts.memory_bytes < memory_bytes(facts, cost, 1024)
    assert micro_batches(facts, cost, 1024, 200)[0] == 2  # a rank has five rows: parts of two at least


def test_a_gpu_is_taken_for_pictures_but_not_for_a_small_table():
    assert resolved("", pictures(), ONE_GPU)["resources"]["device"] == "cuda"
    assert resolved("", table(), ONE_GPU)["resources"]["device"] == "cpu"


@pytest.mark.parametrize(("data", "on_gpu"), [(pictures(), True), (table(), False)], ids=["a GPU", "a core"])
def test_a_seed_promises_no_more_of_a_gpu_than_it_keeps(data, on_gpu):
    guesses = resolve(spec_yaml.load(""), data, ONE_GPU).guesses
    (seed,) = [guess for guess in guesses if guess.field == "training.seed"]
    assert ("on a GPU" in seed.reason) == on_gpu


@pytest.mark.parametrize(
    ("mode", "said"),
    [("replicated", "without dropout"), ("async", "order of the updates"), ("sync", "a run repeatable")],
)
def test_a_seed_promises_no_more_of_a_mode_than_it_keeps(mode, said):
    guesses = resolve(spec_yaml.load(f"{{mode: {mode}, resources: {{device: cpu}}}}"), table(), TWO_CORES).guesses
    (seed,) = [guess for guess in guesses if guess.field == "training.seed"]
    assert said in seed.reason


@pytest.mark.parametrize(("gib", "word"), [(16, ""), (17, "2 nodes have 8 GiB each")])
def test_a_gang_that_needs_several_nodes_may_ask_for_the_memory_of_as_many(gib, word):
    text = f"mode: sync\nresources: {{count: 4, memory_gib: {gib}}}"
    four = replace(TWO_CORES, most_cpu_cores=4)
    if word:
        assert word in problems(text, table(), four)["resources.memory_gib"]
    else:
        assert resolved(text, table(), four)["resources"]["memory_gib"] == gib


def test_a_count_that_needs_several_nodes_is_refused_for_what_keeps_nodes_apart():
    apart = replace(TWO_CORES, apart="Jobs over several nodes need one release; there is a with 1.0, b with 0.9.")
    told = problems("mode: sync\nresources: {count: 4}", table(), apart)["resources.count"]
    assert told.startswith("the largest node has 2 CPU cores, and no job can use several now. Jobs over several nodes")
    assert told.endswith("b with 0.9. Ask for at most 2, or have an admin mend that")
    assert resolved("mode: sync\nresources: {count: 2}", table(), apart)["resources"]["count"] == 2
    # One process is on one node whatever the nodes run.
    replicated = problems("mode: replicated\nresources: {count: 4}", table(), apart)["resources.count"]
    assert replicated == "the largest node has 2 CPU cores; ask for at most 2"


@pytest.mark.parametrize(("device", "word"), [("cpu", "CPU cores"), ("cuda", "GPUs")])
def test_more_than_all_nodes_have_is_refused_for_what_there_is_and_not_for_what_keeps_nodes_apart(device, word):
    off = "The pool's setting is off."
    pool = replace(TWO_CORES, gpus=2, gpu_memory_bytes=8 << 30, all_cpu_cores=5, all_gpus=5, apart=off)
    asked = "mode: sync\nresources: {{device: {}, count: {}}}"
    told = problems(asked.format(device, 6), table(), pool)["resources.count"]
    assert told == f"all nodes that take work together have 5 {word}, the largest 2; ask for at most 2"
    assert off in problems(asked.format(device, 5), table(), pool)["resources.count"]


def test_one_process_on_several_gpus_names_both_fields_and_what_to_do():
    wish = "mode: single\nresources: {device: cuda, count: 2}"
    words = problems(wish, pictures(), replace(ONE_GPU, gpus=2))["mode"]
    assert "resources.count asks for 2" in words and "set resources.count to 1, or mode to auto" in words
    assert resolved("mode: single\nresources: {device: cuda, count: 1}", pictures(), ONE_GPU)["mode"] == "single"
    cores = resolved("mode: single\nresources: {device: cpu, count: 2}", table())
    assert cores["resources"]["count"] == 2, "one process drives several cores"


A100, T4 = (
    Hardware(cpu_cores=0, cpu_memory_bytes=64 << 30, gpus=n, gpu_memory_bytes=m << 30) for n, m in ((2, 80), (8, 16))
)
GPUS = replace(TWO_CORES, gpus=8, gpu_memory_bytes=16 << 30, models={"A100": A100, "T4": T4, "EPYC": TWO_CORES})


def test_a_model_of_device_brings_its_kind_and_says_so():
    assert resolved("resources: {device_model: A100}", table(), GPUS)["resources"]["device"] == "cuda"
    assert resolved("resources: {device_model: EPYC}", pictures(), GPUS)["resources"]["device"] == "cpu"
    guesses = resolve(spec_yaml.load("resources: {device_model: A100}"), table(), GPUS).guesses
    assert "model of device" in next(guess.reason for guess in guesses if guess.field == "resources.device")


def test_a_spec_that_names_no_model_of_device_has_none():
    assert "device_model" not in resolved("name: any", table(), GPUS)["resources"]


def test_so_many_as_the_pool_has_of_the_model_may_be_asked_for():
    assert resolved("resources: {device_model: T4, count: 8}", table(), GPUS)["resources"]["count"] == 8
    assert "2 GPUs (A100)" in problems("resources: {device_model: A100, count: 8}", table(), GPUS)["resources.count"]


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ("device_model: V100", "it has 'A100', 'EPYC', 'T4'"),
        ("device: cpu, device_model: A100", "set resources.device to auto"),
    ],
)
def test_a_model_that_is_not_there_or_of_another_kind_is_refused_by_field(wish, told):
    assert told in problems(f"resources: {{{wish}}}", table(), GPUS)["resources.device_model"]
