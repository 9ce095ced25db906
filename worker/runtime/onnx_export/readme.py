"""README.md of the download: what the model takes and gives, and how it was checked."""

from __future__ import annotations

from typing import Any

_TABLE = """\
Rows are encoded before the model sees them: numbers scaled, categories numbered, as preprocess.json says.
`predict_onnx.py`, with the modules beside it, does it with numpy alone; it gave the inputs of the training program for
the rows of the check.

    pip install numpy onnxruntime
    python predict_onnx.py --input rows.csv --output predictions.csv
"""
_PICTURES = """\
Pictures go in as bytes (0 to 255), cut to a square in their middle and scaled; their mean and deviation are taken off
inside the model. `predict_onnx.py`, with answers.py and pictures.py beside it, reads and prepares them; it gave the
inputs of the training program in the check.

    pip install numpy onnxruntime pillow
    python predict_onnx.py --output predictions.csv picture.png
"""
_OWN = """\
The inputs are what `transform` in data.py of the training program makes of rows: use that function, with
preprocess.json. There is no predict_onnx.py here, for this program prepares its rows in a way of its own.
"""
_FORECAST = """\
The inputs are numbers of the last rows of a series, encoded: `predict_onnx.py`, with the modules beside it, makes them
with numpy alone, and adds to the answer what it is the difference to. It gave the inputs of the training program in the
check.

    pip install numpy onnxruntime
    python predict_onnx.py --output forecast.csv                      from the end of the data
    python predict_onnx.py --input rows.csv --output forecast.csv     from the end of newer rows, which follow on it
"""
_OWN_FORECAST = """\
There is no predict_onnx.py here, for this program prepares its rows in a way of its own, or is of an earlier release.
The inputs are what `inputs_of` in history.py and
then `transform` in data.py of the training program make of the last rows of a series, with preprocess.json; the program
itself forecasts with `python predict.py --output forecast.csv`.
"""


def readme(report: dict[str, Any]) -> str:
    """The text. `report` is what onnx.json holds."""
    check, versions = report["check"], report["versions"]
    prepare = _OWN if not report["script"] else _PICTURES if report["task"].startswith("image") else _TABLE
    if report["task"] == "forecast":
        prepare = _FORECAST if report["script"] else _OWN_FORECAST
    sha256, checkpoint = report.get("weights_sha256"), report.get("checkpoint")
    weights = f"the weights of the checkpoint {checkpoint}" if checkpoint else "the best weights of the run"
    if sha256:
        weights += f" ({'state.pt' if checkpoint else 'model.safetensors'} with SHA-256 `{sha256}`)"
    made = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"""# The trained model as ONNX

`model.onnx` holds {weights}, opset {report["opset"]}. `batch` is any number of rows.

| | name | type | shape |
|---|---|---|---|
{_lines("input", report["inputs"])}
{_lines("output", report["outputs"])}

{_meaning(report)}

## Use it

{prepare}
## How it was checked

onnxruntime and PyTorch answered for {check["rows"]} rows of the dataset, all at once, three and one at a time. The
largest difference {_of_what(report["classes"])} was {check["largest_difference"]:.2g}; allowed are
{check["absolute_tolerance"]:g} + {check["relative_tolerance"]:g} times the value. Made with {made}.
"""


def _lines(kind: str, entries: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"| {kind} | `{entry['name']}` | {entry['dtype']} | {', '.join(map(str, entry['shape']))} |"
        for entry in entries
    )


def _of_what(classes: list[str]) -> str:
    return "of a logit" if classes else "of a value, in standard deviations of the target,"


def _meaning(report: dict[str, Any]) -> str:
    if not report["classes"]:
        said = f"\n\n{report['ranges']}\n`prediction_ranges` in preprocess.json has it." if report["ranges"] else ""
        base = ", as the difference to `forecast.base` of preprocess.json" if report["task"] == "forecast" else ""
        return f"`prediction` is in the unit of the target{base}.{said}"
    calls = "\nWith `--threshold CLASS=P` the script calls by that class what is of it with a probability of P or more."
    said = "`probabilities` is the softmax of `logits`; the classes stand in their order in onnx.json, `classes`."
    return said + (calls if report["script"] else "")
