"""The results folder: what the best weights say about every row, charts, weights, environment."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from worker.events import finite
from worker.merit import larger_is_better
from worker.runtime import memory
from worker.runtime.data import Dataset, Part
from worker.runtime.durable import file_place
from worker.runtime.evaluation import outputs as outputs_of
from worker.runtime.metrics import metrics_of, says_class
from worker.runtime.opening import split_notes
from worker.runtime.outcome import charts as analysis
from worker.runtime.outcome.backtest import backtest_charts
from worker.runtime.outcome.by_part import outputs_by_part
from worker.runtime.outcome.chart import Chart
from worker.runtime.outcome.importance import importance_chart, input_places
from worker.runtime.outcome.intervals import part_intervals, stretches_of
from worker.runtime.outcome.probabilities import Probabilities
from worker.runtime.outcome.ranges import part_ranges
from worker.runtime.outcome.records import features
from worker.runtime.ranges import NOTED, STEPS
from worker.runtime.split import PART_WORDS
from worker.words import counted

if TYPE_CHECKING:
    from worker.runtime.run import Run

PROBABILITY_COLUMNS = 1000
"""With more classes than this, predictions.parquet holds only the probability of the predicted class."""
IMPORTANCE_SHARE, IMPORTANCE_LEAST_S, IMPORTANCE_MOST_S = 0.02, 1.0, 10.0
"""Time for the importance of inputs: a share of the training, within limits; so small that no estimate misses it."""
PACKAGES = ("torch", "numpy", "pyarrow", "pillow", "scikit-learn", "safetensors", "PyYAML", "horovod")


def write_results(run: Run, net: nn.Module, dataset: Dataset) -> None:
    """Predict all parts with the best weights and write the folder `results` (first rank only)."""
    timing = _timing(run, net)
    run.checkpointer.take_best(net)
    run.autocast.be_exact()  # as predict.py will compute
    parts = {"train": dataset.train, "val": dataset.val, "test": dataset.test}
    outputs, metrics, tables, unsaid = _predicted(run, net, dataset, parts)
    if run.rank != 0:
        return
    run.checkpointer.store.check()  # the results are those of the newest attempt
    folder = _results_folder(run)
    _write_predictions(folder / "predictions.parquet", tables)
    save_weights(net, folder / "model.safetensors")
    ranges = part_ranges(dataset, outputs)
    stretches = stretches_of(dataset.moments["test"]) if dataset.moments else None
    write_preprocess(run, dataset, ranges)
    surroundings, exact = environment(run), dataset.exact_targets(dataset.test)
    for note in unsaid:
        run.reporter.note(note)
    _write_json(folder / "environment.json", surroundings)
    body = {
        "task": run.spec.task,
        "metric": {
            "name": run.metric_name,
            "value_val": metrics["val"].get(run.metric_name),
            "value_test": metrics["test"].get(run.metric_name),
        },
        "metrics": metrics,
        "rows": {name: len(part) for name, part in parts.items()},
        "intervals": {"test": part_intervals(outputs["test"], exact, dataset.target_std, stretches)},
        "ranges": ranges,
        "split": " ".join(filter(None, (*split_notes(run), dataset.split))),
        "test_rows": dataset.test.rows_digest,
        "notes": [*run.trial.notes, *unsaid],
        "classes": list(dataset.classes),
        "charts": _charts(run, net, dataset, parts, outputs, ranges),
        "environment": surroundings,
        "timing": timing,
    }
    _write_json(folder / "results.json", body)
    shown = {part: values[run.metric_name] for part, values in metrics.items() if run.metric_name in values}
    run.reporter.say("  ".join(f"{part}/{run.metric_name} {value:.4f}" for part, value in shown.items()))


def _predicted(
    run: Run, net: nn.Module, dataset: Dataset, parts: dict[str, Part]
) -> tuple[dict[str, Tensor], dict[str, dict[str, float]], list[pa.Table], list[str]]:
    """(outputs, of classes no more than charts need; metrics by part; lines of predictions; what is unsaid)."""
    outputs, metrics, tables, unsaid = {}, {}, list[pa.Table](), list[str]()
    for name, found in outputs_by_part(run, net, parts):
        part = parts[name]
        metrics[name] = metrics_of(dataset, part, found)
        tables += [_part_predictions(name, part, found, dataset)] if len(part) else []
        unsaid += unsaid_notes({name: part}, {name: found})
        if part.targets.is_floating_point() or name in ("test", _judged(parts)):
            outputs[name] = found
        del found  # before there is another one
    return outputs, metrics, tables, unsaid


def _judged(parts: dict[str, Part]) -> str:
    """The part that charts are of: one that training has not seen, where there is such."""
    return next((name for name in ("test", "val") if len(parts[name])), "train")


def _timing(run: Run, net: nn.Module) -> dict[str, Any]:
    """What the training took; asked before anything is predicted."""
    return {
        "load_s": run.load_s,
        "train_s": run.control.elapsed_s(),
        "samples_per_s": run.teller.meter.samples_per_s,
        "epochs": run.position.epoch,
        "steps": run.position.step,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "peak_bytes": memory.peak_bytes(run.device, run.idle_bytes),
    } | ({"skipped_steps": run.loss_scale.skipped} if run.loss_scale.is_on else {})


def _charts(
    run: Run,
    net: nn.Module,
    dataset: Dataset,
    parts: dict[str, Part],
    outputs: dict[str, Tensor],
    ranges: dict[str, Any],
) -> list[Chart]:
    """Charts of the rows that training has not seen, where there are any."""
    judged = _judged(parts)
    known = dataset.known.get(judged)
    table = features(run.data_folder, run.spec, parts[judged].rows) if known is None else known
    part, said, table, dataset = _said_rows(judged, parts[judged], outputs[judged], table, dataset)
    if not len(part):
        return []
    made = analysis.charts(part, said, dataset, table, judged)
    if judged in dataset.moments:
        noted = {NOTED: ranges} if "half_widths" in ranges else {}
        predicted = analysis.predicted_values(part, said, dataset)
        tried = backtest_charts(dataset.moments[judged], analysis.true_values(part, dataset), predicted, noted)
        made = [*({**chart, "split": judged} for chart in tried), *made]
    importance = _importance(run, net, dataset, part)
    return [*made, {**importance, "split": judged}] if importance else made


def is_said(part: Part, outputs: Tensor) -> Tensor:
    """[N]: of which rows the model says finite numbers, of classes as probabilities."""
    return outputs.isfinite().all(1) if part.targets.is_floating_point() else says_class(outputs)


def unsaid_notes(parts: dict[str, Part], outputs: dict[str, Tensor]) -> list[str]:
    """Of parts with other rows, in sentences: one such row must not take the results of all others."""
    told = []
    for name, part in parts.items():
        unsaid = part.rows[~is_said(part, outputs[name])] if len(part) else part.rows
        if len(unsaid):
            told.append(
                f"For {counted(len(unsaid), 'row')} of {len(part):,} {PART_WORDS[name]} the model says no finite "
                f"number, the first of them row {int(unsaid.min()) + 1:,} of the data: figures that depend on them are "
                "left out, and so are they in charts. Look there for extreme values, and in the model for a logarithm, "
                "a root or a division."
            )
    return told


def _said_rows(
    name: str, part: Part, outputs: Tensor, table: pa.Table, dataset: Dataset
) -> tuple[Part, Tensor, pa.Table, Dataset]:
    """The rows of the part `name` that charts have a place for, with what the model says and what is known of each."""
    said = is_said(part, outputs)
    if bool(said.all()):
        return part, outputs, table, dataset
    places = said.nonzero().flatten()
    index = pa.array(places.numpy())
    if name in dataset.moments:
        dataset = replace(dataset, moments={**dataset.moments, name: dataset.moments[name].take(index)})
    return part.take(places), outputs[places], table.take(index) if table.num_columns else table, dataset


def _importance(run: Run, net: nn.Module, dataset: Dataset, part: Part) -> Chart | None:
    """By this rank alone, for the others have ended; within a small share of the time that the training took."""
    device = next((weight.device for weight in net.parameters()), run.device)
    rows_at_once = memory.rows_at_once(max(1, run.batch_size // run.world_size), run.trial.found)

    def metrics(rows: Part) -> dict[str, float]:
        outputs = outputs_of(net, rows, device, rows_at_once, run.autocast)
        return metrics_of(dataset, rows, outputs)

    name = run.metric_name if run.metric_name in metrics(part.take(slice(0, 2))) else "loss"
    sign = -1.0 if larger_is_better(name) else 1.0
    budget_s = min(IMPORTANCE_MOST_S, max(IMPORTANCE_LEAST_S, IMPORTANCE_SHARE * run.control.elapsed_s()))
    return importance_chart(
        part,
        input_places(part, dataset.preprocess),
        lambda rows: sign * metrics(rows)[name],
        name.replace("_", " "),
        budget_s=budget_s,
        seed=run.seed,
    )


def write_preprocess(run: Run, dataset: Dataset, ranges: dict[str, Any] | None = None) -> None:
    """preprocess.json: what predict.py needs beside the weights; written first, so that any checkpoint can predict,
    and at the end with the `ranges` of the best weights."""
    body = {"task": run.spec.task, "classes": list(dataset.classes), **dataset.preprocess}
    if ranges and "half_widths" in ranges:
        body[NOTED] = ranges
    _write_json(_results_folder(run) / "preprocess.json", body)


def _results_folder(run: Run) -> Path:
    folder = run.settings.work / "results"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save_weights(net: nn.Module, path: Path) -> None:
    """Weights and buffers as safetensors; tensors that share memory are written apart."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in net.state_dict().items()}
    making = path.with_name(f".{path.name}")
    save_file(tensors, making)
    file_place(making, path)


def _write_json(path: Path, body: dict[str, Any]) -> None:
    """Write strict JSON so that a reader, also after a power cut, sees the old file or the new one."""
    making = path.with_name(f".{path.name}")
    making.write_text(json.dumps(finite(body), indent=1), encoding="utf-8")
    file_place(making, path)


def _write_predictions(path: Path, tables: list[pa.Table]) -> None:
    """One line per row of the dataset, in its order: row, split, true, predicted, and probabilities or the error.

    Of a forecast one for each number of steps ahead that a row is foretold from.
    """
    table = pa.concat_tables(tables).sort_by("row")
    making = path.with_name(f".{path.name}")
    pq.write_table(table, making, compression="zstd")
    file_place(making, path)


def _part_predictions(name: str, part: Part, outputs: Tensor, dataset: Dataset) -> pa.Table:
    columns: dict[str, Any] = {"row": part.rows.numpy(), "split": pa.array([name] * len(part))}
    if part.targets.is_floating_point():
        true, predicted = analysis.true_values(part, dataset), analysis.predicted_values(part, outputs, dataset)
        if name in dataset.moments:  # a row of the data is foretold from several steps before
            columns[STEPS] = dataset.moments[name][STEPS]
        return pa.table(columns | {"true": true, "predicted": predicted, "error": predicted - true})
    probabilities, best = Probabilities(outputs), outputs.argmax(1)
    classes, confidence = pa.array(dataset.classes, pa.string()), probabilities.of_rows(best)
    columns["true"] = classes.take(pa.array(part.targets.numpy()))
    columns["predicted"] = classes.take(pa.array(best.numpy(), mask=np.isnan(confidence)))
    columns["confidence"] = confidence
    if len(dataset.classes) <= PROBABILITY_COLUMNS:
        for number, label in enumerate(dataset.classes):
            columns[f"probability of {label}"] = probabilities.of_class(number).astype(np.float32)
    return pa.table(columns)


def environment(run: Run) -> dict[str, Any]:
    """Versions and machine, for the record."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    gpu = torch.cuda.get_device_name(run.device) if run.device.type == "cuda" else None
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu_name(),
        "cpu_cores": os.cpu_count(),
        "device": str(run.device),
        "precision": run.autocast.words,
        "gpu": gpu,
        "threads": torch.get_num_threads(),
        "world_size": run.world_size,
        "backend": run.settings.backend if run.world_size > 1 else None,
        "seed": run.seed,
        "versions": versions,
    }


def cpu_name() -> str:
    """Model name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
