"""Export a trained program: `python -m worker.runtime.onnx_export.export --program . --data data --out onnx`.

Writes model.onnx, onnx.json (inputs, outputs, opset, what the check showed), preprocess.json, README.md and, where it
gives the same inputs as data.py on real rows, predict_onnx.py, which needs no torch. The last line printed is JSON:
{ok, report, problem: {message, hint} or null}. Exit code 0 if all is well, else EXIT_REPORTED.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from worker.plan import EXIT_REPORTED
from worker.runtime import serving
from worker.runtime.failures import describe
from worker.runtime.onnx_export.comparison import ABSOLUTE, RELATIVE, answer, compare
from worker.runtime.onnx_export.loaded import Loaded, load
from worker.runtime.onnx_export.portable import AXIS, Portable
from worker.runtime.onnx_export.readme import readme
from worker.runtime.onnx_export.reasons import CannotExport, why_not
from worker.runtime.onnx_export.scripts import SCRIPT_FILES, scripts_for, series_scripts_for
from worker.runtime.ranges import range_said

OPSET = 20
"""Of the standard operators; onnxruntime 1.17 and newer know it."""
EXAMPLE_ROWS = 4
MODEL_FILE, ABOUT_FILE = "model.onnx", "onnx.json"
MAKING_FILE = f".{MODEL_FILE}"


def export(program: Path, data: Path, weights: Path, out: Path, weights_sha256: str = "") -> dict[str, Any]:
    """`{ok, report, problem}`; the files lie in `out`, model.onnx last. Never raises for a fault of the program.

    `weights`: model.safetensors, or the folder of a checkpoint. Its name and `weights_sha256`, where it is known, are
    written into the model, so that it can be told which weights it has.
    """
    try:
        loaded = load(program, data, weights)
    except (serving.InputError, CannotExport) as error:
        return _failed(error.message, error.hint)
    except Exception as error:
        told = describe(error, program, lambda: None)
        return _failed(told["message"], told["hint"])
    try:
        origin = {"weights_sha256": weights_sha256} if weights_sha256 else {}
        origin |= {"checkpoint": weights.name} if weights.is_dir() else {}
        return {"ok": True, "report": _export(loaded, out, origin, program), "problem": None}
    except Exception as error:
        (out / MAKING_FILE).unlink(missing_ok=True)
        reason = why_not(error, program)
        return _failed(reason.message, reason.hint)


def _failed(message: str, hint: str) -> dict[str, Any]:
    return {"ok": False, "report": None, "problem": {"message": message, "hint": hint}}


def _export(loaded: Loaded, out: Path, origin: dict[str, str], program: Path) -> dict[str, Any]:
    portable = loaded.portable
    _check_chance(loaded)
    about: dict[str, Any] = {"task": loaded.task, "classes": loaded.classes, **origin}
    versions = _convert(loaded, out / MAKING_FILE, about)
    report = {
        **about,
        "inputs": [each.to_dict() for each in loaded.inputs],
        "outputs": _outputs(loaded),
        "ranges": range_said(loaded.preprocess),
        "opset": OPSET,
        "check": compare(out / MAKING_FILE, portable, loaded.tensors, loaded.inputs).to_dict(),
        "versions": versions,
    }
    return _write(out, report, loaded, program)


def _check_chance(loaded: Loaded) -> None:
    first, second = (torch.from_numpy(answer(loaded.portable, loaded.given)) for _ in range(2))
    if not torch.allclose(first, second, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True):
        raise CannotExport.by_chance()


def _convert(loaded: Loaded, path: Path, about: dict[str, Any]) -> dict[str, str]:
    """Write the model, with `about` as JSON in its metadata; returns the versions that made it."""
    import onnx
    import onnxruntime
    import onnxscript

    shapes = (tuple({0: torch.export.Dim(AXIS)} for _ in loaded.inputs),)
    example = tuple(_several(tensor) for tensor in loaded.given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that the exporter gives to axes, and of what torch will change
        made = torch.onnx.export(
            _captured(loaded.portable, example, shapes), dynamo=True, opset_version=OPSET, verbose=False,
            input_names=[each.name for each in loaded.inputs], output_names=list(loaded.portable.output_names),
            dynamic_shapes=shapes,
        )  # fmt: skip
    if made is None:
        raise CannotExport("PyTorch could not convert it to an ONNX model.")
    _forget_origins(made.model)
    made.model.metadata_props.update({name: json.dumps(value) for name, value in about.items()})
    made.save(path, external_data=False)
    _check_axes(onnx.load(str(path)))
    return {each.__name__: str(each.__version__) for each in (torch, onnx, onnxscript, onnxruntime)}


def _captured(portable: Portable, example: tuple[Tensor, ...], shapes: Any) -> torch.export.ExportedProgram:
    """The model as a graph. torch.onnx would capture it by itself, but give up the free number of rows for a fixed one
    where the first way knows no other; the second way, slower, understands `len(x)`. Raises as the first one does."""
    try:
        return torch.export.export(portable, example, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        try:
            return torch.export.export(portable, example, dynamic_shapes=shapes, strict=True)
        except Exception:
            raise error from None


def _several(tensor: Tensor) -> Tensor:
    """A few rows, more than one: the exporter takes 1 for a size of its own."""
    return torch.cat([tensor] * EXAMPLE_ROWS)[:EXAMPLE_ROWS]


def _forget_origins(model: Any) -> None:
    """The exporter notes for every step in which file of this machine it stands, with its text."""
    for part in (model.graph, *model.functions.values()):
        for node in part.all_nodes():
            node.metadata_props.clear()
            node.doc_string = None


def _check_axes(model: Any) -> None:
    """Raise `CannotExport` where the exporter has fixed the number of rows."""
    for given in (*model.graph.input, *model.graph.output):
        if not given.type.tensor_type.shape.dim[0].dim_param:
            raise CannotExport.fixed_rows()


def _outputs(loaded: Loaded) -> list[dict[str, Any]]:
    with torch.no_grad():
        found = loaded.portable(*loaded.given)
    return [
        {"name": name, "dtype": str(each.dtype).removeprefix("torch."), "shape": [AXIS, *each.shape[1:]]}
        for name, each in zip(loaded.portable.output_names, found, strict=True)
    ]


def _write(out: Path, report: dict[str, Any], loaded: Loaded, program: Path) -> dict[str, Any]:
    """All beside the model, then the model under its name."""
    names_known = bool(loaded.classes) or not loaded.portable.is_classification
    arrays = [tensor.numpy() for tensor in loaded.tensors]
    scripts: dict[str, str] = {}
    if "forecast" in loaded.preprocess:
        scripts = series_scripts_for(loaded.sampled, arrays, program)
    elif names_known:
        scripts = scripts_for(loaded.preprocess, loaded.rows, arrays)
    for name in SCRIPT_FILES:
        (out / name).unlink(missing_ok=True)
    for name, text in scripts.items():
        (out / name).write_text(text, encoding="utf-8")
    report = {**report, "script": bool(scripts), "model_bytes": (out / MAKING_FILE).stat().st_size}
    (out / "preprocess.json").write_text(json.dumps(loaded.preprocess, indent=1), encoding="utf-8")
    (out / ABOUT_FILE).write_text(json.dumps(report, indent=1), encoding="utf-8")
    (out / "README.md").write_text(readme(report), encoding="utf-8")
    (out / MAKING_FILE).replace(out / MODEL_FILE)
    return report


def main() -> None:
    """Export and print the answer."""
    parser = argparse.ArgumentParser(description="Export the trained model as ONNX.")
    parser.add_argument("--program", type=Path, default=Path())
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--weights", type=Path, default=Path("work/results/model.safetensors"))
    parser.add_argument("--out", type=Path, default=Path("onnx"))
    parser.add_argument("--weights-sha256", default="", help="To be named in the model.")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("DLH_THREADS", "1")))
    given = (options.program, options.data, options.weights, options.out)
    program, data, weights, out = (path.absolute() for path in given)
    out.mkdir(parents=True, exist_ok=True)
    body = export(program, data, weights, out, options.weights_sha256)
    print(json.dumps(body), flush=True)
    sys.exit(0 if body["ok"] else EXIT_REPORTED)


if __name__ == "__main__":
    main()
