"""Try a program before it is run: `python -m worker.runtime.inspection.check --program FOLDER --data FOLDER`.

Compiles every file, loads the data, builds the model, makes one forward and one backward pass on a few real rows, and
runs train.py for its first steps, all on the CPU. The last line printed is JSON: {ok, problem: {code, message, hint,
file, line, traceback} or null, parameters, output_shape, notes}. `ok` is null, with the problem NOT_TRIED, where the
program cannot be tried on a CPU and never runs on one. Exit code 0 if all is well, else EXIT_REPORTED.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from worker.events import FailureCode
from worker.plan import EXIT_REPORTED
from worker.runtime.data import DataError, Dataset
from worker.runtime.failures import ProgramFailure, describe
from worker.runtime.inspection.first_steps import first_steps_make
from worker.runtime.inspection.learning import Learning, learning_of
from worker.runtime.known_causes import asks_for_gpu
from worker.runtime.memory import RowsTried, rows_try
from worker.runtime.spec import load_spec
from worker.runtime.spec_check import spec_check
from worker.runtime.start_weights import Fit, weights_take

ROWS = 16
NOT_TRIED = "not_tried_here"
_NOT_TRIED_HINT = (
    "The job runs on GPUs alone (resources.device: cuda), where this may do. {} Then it can be tried here, and runs on "
    "any device."
)
SOURCES = ("model.py", "data.py", "train.py", "predict.py")


def check(program: Path, data: Path) -> dict[str, Any]:
    """Try the program in the folder `program` on the packed data in `data`. Never raises for a fault of the program."""
    answer: dict[str, Any] = {"ok": False, "problem": None, "parameters": None, "output_shape": None, "notes": []}
    try:
        parameters, found, fit, learning = _try(program, data)
        seen = first_steps_make(program, data, ROWS)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        if isinstance(error, SystemExit):
            error = ProgramFailure(FailureCode.PROGRAM_ERROR, "The program ended itself while it was loaded.")
        problem = describe(error, program, lambda: None, has_log=False)
        problem.pop("step")
        if asks_for_gpu(error) and _is_for_gpus(program):
            return {**answer, "ok": None, "problem": _not_tried(problem)}
        return {**answer, "problem": problem}
    shape, notes = list(found.output_shape), list(found.notes)
    notes += [*([fit.words] if fit else []), *learning.notes(seen)]
    return {**answer, "ok": True, "parameters": parameters, "output_shape": shape, "notes": notes}


def _is_for_gpus(program: Path) -> bool:
    """Whether a job of this program gets no other devices."""
    return str(load_spec(program / "spec.yaml").get("resources", {}).get("device", "auto")) == "cuda"


def _not_tried(problem: dict[str, Any]) -> dict[str, Any]:
    """What is no fault on the devices that the job will have, with its place."""
    place = f"{problem['file']}, line {problem['line']} asks" if problem["file"] and problem["line"] else "It asks"
    message = f"The program could not be tried here: {place} for a GPU (CUDA), and programs are tried on a CPU."
    return {**problem, "code": NOT_TRIED, "message": message, "hint": _NOT_TRIED_HINT.format(problem["hint"])}


def _try(program: Path, data: Path) -> tuple[int, RowsTried, Fit | None, Learning]:
    """(parameters of the model, what was told of it); the model itself is let go, as train.py makes its own."""
    for name in SOURCES:
        source = (program / name).read_text(encoding="utf-8")
        compile(source, str(program / name), "exec")
    spec = load_spec(program / "spec.yaml")
    spec_check(spec, program / "spec.yaml")
    sys.path.insert(0, str(program))
    os.chdir(program)
    torch.manual_seed(int(spec.training.seed))
    model = importlib.import_module("model")
    if not callable(getattr(model, "build", None)):
        message = "model.py has no function build(spec)."
        raise ProgramFailure(
            FailureCode.MODEL_NO_BUILD, message, "Add `def build(spec)` that returns a torch.nn.Module."
        )
    dataset: Dataset = importlib.import_module("data").load(spec, data)
    if len(dataset.train) < 2:
        raise DataError(f"Too few rows to train on: {len(dataset.train)}.", "Use more rows or smaller other parts.")
    net = model.build(spec.with_shape(dataset.shape))
    outputs = int(spec.with_shape(dataset.shape).shape.outputs)
    found = rows_try(net, dataset.train, outputs, torch.device("cpu"), ROWS)
    weights = os.environ.get("DLH_WEIGHTS")
    fit = weights_take(net, spec, Path(weights) if weights else None)
    rows = dataset.train.take(slice(0, ROWS))
    net.train()
    torch.autograd.backward(_loss(net(*rows.inputs), rows.targets))
    if not any(weight.grad is not None for weight in net.parameters()):
        message = "No parameter of the model gets a gradient."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Let the output depend on the model's parameters.")
    parameters = sum(weight.numel() for weight in net.parameters())
    return parameters, found, fit, learning_of(net, rows.inputs, rows.targets, _loss)


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss that train.py uses, without its refinements."""
    if targets.is_floating_point():
        return F.mse_loss(outputs.squeeze(1), targets)
    return F.cross_entropy(outputs, targets)


def main() -> None:
    """Check and print the answer."""
    parser = argparse.ArgumentParser(description="Try a program on a few rows.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, default=Path("data"))
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("DLH_THREADS", "1")))
    answer = check(options.program.absolute(), options.data.absolute())
    print("\n" + json.dumps(answer), flush=True)  # the program may have left a line of its own open
    sys.exit(0 if answer["ok"] else EXIT_REPORTED)


if __name__ == "__main__":
    main()
