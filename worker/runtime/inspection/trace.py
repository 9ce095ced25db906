"""The workload of a program, read off it: `python -m worker.runtime.inspection.trace --program DIR --data DIR`.

train.py runs with a stand-in for `Run`: its model becomes fake tensors (meta tensors that say they lie on a CPU),
its batches too, so that no arithmetic is done whatever the size. The first step makes the optimizer's state, the
second is recorded, the third (on twice the rows) tells how each figure grows with the batch. Nothing here knows a
model family, a knob, a loss or an optimizer.

The last line printed is JSON, exit code 0 if `ok`, else EXIT_REPORTED:

    {"ok": true, "problem": null, "parameters": 12345, "trace_s": 0.4,
     "workload": {...}}        as `scheduler.workload.Workload.from_dict` reads it
    {"ok": false, "workload": null, "parameters": null, "trace_s": 0.1,
     "problem": {"code", "message", "hint", "file", "line", "traceback"}}

`code` is `cannot_trace` where the program cannot run on fake tensors (control flow that depends on values, NumPy in
the middle): measure it on a device instead (`worker.runtime.inspection.measure`). Otherwise it is the code of the
fault. With `--batch N` the spec's batch size is replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch._decomp  # fake tensors load these when they are first used: here, before the clock starts
import torch._functorch.config
import torch.fx.experimental.symbolic_shapes
import torch.nested._internal.nested_tensor
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from worker.events import FailureCode
from worker.plan import EXIT_REPORTED
from worker.runtime import memory, modes
from worker.runtime.call_check import check_call
from worker.runtime.data import Dataset, Part
from worker.runtime.device import set_up_torch
from worker.runtime.failures import ProgramFailure, describe
from worker.runtime.inspection.few_rows import LIMIT_BYTES, FewRows, GivenShapeSpec, few_rows
from worker.runtime.inspection.sharded import sharded_apart
from worker.runtime.inspection.standin import Enough, StandIn, drive
from worker.runtime.inspection.tracer import Step, Tracer
from worker.runtime.inspection.workloads import Seen, loading_of, text_bytes, workload
from worker.runtime.loss_scale import LossScale
from worker.runtime.pipeline.blocks import TRIED_ROWS, Chain
from worker.runtime.precision import Rounding
from worker.runtime.rng import seed_all
from worker.runtime.spec import Spec, load_spec
from worker.stages import MOST_PIECES

CANNOT_TRACE = "cannot_trace"
Batch = tuple[tuple[Tensor, ...], Tensor]
REGISTERED = ("_parameters", "_buffers", "_modules")
LEARN_ROWS = 1000
"""That the words of texts are learned from: what a step does needs the number of topics and scores, not good ones."""
MOST_BYTES = 200_000
"""Of a workload as JSON: a node keeps so much of what a program prints."""
HINT = "Measure a few real steps on a device instead; checking the program tells whether it is at fault."


class TraceRun(StandIn):
    """Gives train.py fake rows and watches what it does with them."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if self.spec.shape.get("texts"):
            self.spec["shape"]["learn_rows"] = LEARN_ROWS
        self.autocast = Rounding(self.device, "float32")  # whatever it computes in, so that figures can be compared
        self.loss_scale = LossScale(self.device, needed=False)  # what is fake shows no overflow
        self.tracer = Tracer()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.steps: list[Step] = []
        self.net: nn.Module | None = None
        self.dataset: Dataset | None = None
        self.evaluation_bytes = self.state_bytes = 0
        self.calls: set[str] = set()
        """Of those by which a mode takes part in a step, what the program made."""
        self._modes = ExitStack()
        self._stepping: Generator[Batch, None, None] | None = None

    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """Turn the model into fake tensors; from here on nothing is computed."""
        self.load_s = time.monotonic() - self._began_s
        if not isinstance(net, nn.Module):
            message = f"build(spec) in model.py returned {type(net).__name__}, not a torch.nn.Module."
            raise ProgramFailure(FailureCode.MODEL_NO_BUILD, message, "Return the model itself from build(spec).")
        sharded_apart(self.fake)
        self._make_fake(net)
        self.net, self.dataset = net, dataset
        self._modes.enter_context(self.fake)
        self._modes.enter_context(self.tracer)
        self._evaluate(net, dataset)
        return net

    def restore(self, **parts: Any) -> None:
        """There is nothing to go on from."""

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """A first step that makes the state, then two that are looked at."""
        self._stepping = self._batches(part)
        return self._stepping

    def _batches(self, part: Part) -> Generator[Batch, None, None]:
        for rows in (self.batch_size, self.batch_size, 2 * self.batch_size):
            with self.tracer.step(rows) as step:
                yield self._batch(part, rows)
            self.steps.append(step)
            if len(self.steps) == 1:
                self.state_bytes = self.tracer.state_bytes()
        raise Enough

    def backward(
        self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: modes.Criterion
    ) -> Tensor:
        """As in a run."""
        self.calls.add("backward")
        return super().backward(net, inputs, targets, criterion)

    def average_gradients(self, loss: Tensor) -> None:
        """One rank: nothing to average."""
        self.calls.add("average_gradients")

    def log_step(self, loss: Tensor, learning_rate: float | None = None) -> None:
        """A fake loss has no value to log."""

    def close(self) -> None:
        """Compute for real again, here and now: torch's hooks belong to a thread, garbage is collected in any."""
        if self._stepping is not None:
            self._stepping.close()
        self._modes.close()

    def pieces(self) -> list[dict[str, float]] | None:
        """Of the model as stages hold them; none where it cannot be cut, or where steps are made past the mode; None
        where it cannot be told."""
        if self.net is None or self.dataset is None or not self.calls >= {"backward", "average_gradients"}:
            return []
        try:
            with self.fake:
                chain = Chain(self.net, self._batch(self.dataset.train, max(TRIED_ROWS))[0])
                return [
                    {"parameter_bytes": chain.piece_bytes(number), "output_bytes": piece.boundary.row_bytes}
                    for number, piece in enumerate(chain.pieces)
                ]
        except ProgramFailure:
            return []
        except Exception:  # whatever a model does while it is outlined, it has been traced
            return None

    def _make_fake(self, net: nn.Module) -> None:
        """Every tensor by its fake one; what was shared stays shared."""
        made: dict[int, Tensor] = {}
        kept: list[Tensor] = []

        def fake(tensor: Tensor) -> Tensor:
            if id(tensor) not in made:
                kept.append(tensor)
                copy: Tensor = self.fake.from_tensor(tensor.detach())
                weight = isinstance(tensor, nn.Parameter)
                made[id(tensor)] = nn.Parameter(copy, tensor.requires_grad) if weight else copy
            return made[id(tensor)]

        for module in net.modules():
            tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for tensors in tables:
                for name, tensor in tensors.items():
                    if tensor is not None:
                        tensors[name] = fake(tensor)
            for name, value in vars(module).items():
                if name not in REGISTERED and _holds_tensor(value):
                    module.__dict__[name] = tree_map_only(Tensor, fake, value)
        self.tracer.model_holds(made.values())

    def _batch(self, part: Part, rows: int) -> tuple[tuple[Tensor, ...], Tensor]:
        inputs = tuple(torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype) for tensor in part.inputs)
        return inputs, torch.empty((rows, *part.targets.shape[1:]), dtype=part.targets.dtype)

    @torch.no_grad()
    def _evaluate(self, net: nn.Module, dataset: Dataset) -> None:
        """The forward pass alone, as between epochs: what it needs, and whether the output fits."""
        was_training = net.training
        net.eval()
        inputs, _ = self._batch(dataset.train, self.batch_size)
        check_call(net, inputs)
        with self.tracer.peak() as grown:
            output = net(*inputs)
        self.evaluation_bytes = grown[0]
        net.train(was_training)
        memory.check_shape(output, self.batch_size, int(self.spec.with_shape(dataset.shape).shape.outputs))


def _holds_tensor(value: Any) -> bool:
    """Whether it is a tensor, or a list of some, that is no parameter or buffer."""
    return isinstance(value, Tensor | list | tuple | dict) and any(
        isinstance(leaf, Tensor) for leaf in tree_leaves(value)
    )


def trace(program: Path, data: Path, batch_size: int | None = None, limit_bytes: int = LIMIT_BYTES) -> dict[str, Any]:
    """The answer for the program in `program` on the packed data in `data`. Never raises for a fault of the program.

    `limit_bytes`: of packed data that are read.
    """
    began_s = time.monotonic()
    answer: dict[str, Any] = {"ok": False, "workload": None, "problem": None, "parameters": None}
    run: TraceRun | None = None
    try:
        spec = _read_program(program)
        with few_rows(data, spec, limit_bytes) as rows, tempfile.TemporaryDirectory(prefix="trace-") as work:
            wanted = spec if rows.whole else GivenShapeSpec(spec)
            run = TraceRun(wanted, rows.folder, Path(work), batch_size, DLH_DEVICE="cpu")
            seed_all(run.seed)
            answer |= _trace(program, run, rows)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        answer["problem"] = problem_of(error, program, tracing=run is not None and run.net is not None)
    return {**answer, "trace_s": round(time.monotonic() - began_s, 3)}


def _read_program(program: Path) -> Spec:
    """Its spec, once its files are seen to be Python."""
    for name in ("model.py", "data.py", "train.py"):
        compile((program / name).read_text(encoding="utf-8"), str(program / name), "exec")
    return load_spec(program / "spec.yaml")


def _trace(program: Path, run: TraceRun, rows: FewRows) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own about fake tensors; a program's warnings are for its log
        try:
            drive(program, run)
        finally:
            run.close()
    if run.net is None or run.dataset is None or len(run.steps) < 3:
        message = "train.py trained no step: it has to take its batches from run.batches(...)."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Compare it with the generated train.py.")
    seen = Seen(
        net=run.net, dataset=run.dataset, share=rows.share, steps=run.steps[1:], state_bytes=run.state_bytes,
        evaluation_bytes=run.evaluation_bytes, epochs=run.epochs_total, batch_size=run.batch_size,
        micro_batches=modes.micro_batches(run.spec), synced=run.spec.training.get("batch_norm") == "synced",
        precision=str(run.spec.training.get("precision", "auto")),
        compression=str(run.spec.training.get("compression", "none")),
        pieces=run.pieces(), load_s=run.load_s,
        loading=loading_of(run.spec.task, (program / "data.py").read_text(encoding="utf-8")),
        text_bytes=text_bytes(run.spec, program, rows.folder) / rows.share,
        scores=len(run.spec.shape.get("texts", ())) * int(run.spec.shape.get("scores", 0)),
        targets=int(run.spec.shape.get("scores", 0)),
    )  # fmt: skip
    body = workload(seen)
    if len(body.get("pieces", ())) > MOST_PIECES or _is_too_large(body):
        body.pop("pieces", None)  # whoever asks for stages gets them all the same
    if _is_too_large(body):
        message = f"The program has {len(body['operators']):,} different operators, more than a workload holds."
        raise ValueError(message)
    return {"ok": True, "workload": body, "parameters": body["parameters"]}


def _is_too_large(body: Mapping[str, Any]) -> bool:
    return len(json.dumps(body, separators=(",", ":"))) > MOST_BYTES


def problem_of(error: BaseException, program: Path, *, tracing: bool) -> dict[str, Any]:
    """In words. What goes wrong on fake tensors may go well on real ones: that is not called the program's fault."""
    problem = describe(error, program, lambda: None, has_log=False)
    problem.pop("step")
    if tracing and not isinstance(error, ProgramFailure) and problem["code"] != FailureCode.OUT_OF_MEMORY:
        problem |= {"code": CANNOT_TRACE, "hint": HINT}
        problem["message"] = f"The program cannot be traced without running it: {problem['message']}"
    return problem


@contextmanager
def problem_told(answer: dict[str, Any], program: Path) -> Iterator[None]:
    """What goes wrong inside becomes `answer["problem"]`, whatever the program raised; only Ctrl-C goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        answer["problem"] = problem_of(error, program, tracing=False)


def main() -> None:
    """Trace and print the answer."""
    parser = argparse.ArgumentParser(description="Tell what one training step of a program does.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--batch", type=int, help="rows of a step instead of the spec's")
    options = parser.parse_args()
    set_up_torch(torch.device("cpu"), int(os.environ.get("DLH_THREADS", "1")))
    answer = trace(options.program.absolute(), options.data.absolute(), options.batch)
    print("\n" + json.dumps(answer, separators=(",", ":")), flush=True)
    sys.stdout.flush()
    os._exit(0 if answer["ok"] else EXIT_REPORTED)  # a program's threads or exit hooks must not hold up the answer


if __name__ == "__main__":
    main()
