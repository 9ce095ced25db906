"""The trained model as ONNX: every family answers as PyTorch does, without torch; a model that cannot is told why."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from codegen.catalog import FAMILIES
from codegen.catalog.own import FAMILY as OWN_FAMILY
from tests.worker.runtime import samples
from tests.worker.runtime.onnx_programs import (
    WITHOUT_TORCH,
    answers,
    exported,
    own_program,
    program,
    rows_written,
    words_program,
)

CASES = [
    ("mlp", "wine"), ("mlp", "diabetes"), ("resmlp", "diabetes"), ("ft_transformer", "wine"),
    ("ft_transformer", "diabetes"), ("cnn", "digits"), ("resnet", "digits"), ("convnext", "digits"),
]  # fmt: skip


def test_every_family_of_the_catalog_has_a_case() -> None:
    assert {family for family, _ in CASES} == set(FAMILIES) - {OWN_FAMILY.name}


@pytest.mark.parametrize(("family", "rows"), CASES)
def test_a_model_answers_for_plain_rows_without_torch_as_predict_does(family: str, rows: str, tmp_path: Path) -> None:
    import onnxruntime

    folder = program(tmp_path, family, rows)
    answer = exported(folder)
    assert answer["ok"], answer["problem"]
    report = answer["report"]
    assert report["script"] and report["opset"] == 20 and report["check"]["rows"] == 64
    session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"))
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == report["classes"]
    assert [(given.name, given.shape) for given in session.get_inputs()] == [
        (given["name"], given["shape"]) for given in report["inputs"]
    ]
    assert [(given.name, given.shape) for given in session.get_outputs()] == [
        (given["name"], given["shape"]) for given in report["outputs"]
    ]
    assert all(given["shape"][0] == "batch" and 0 not in given["shape"] for given in report["inputs"])
    given = rows_written(folder)
    done = samples.python(folder, "-c", WITHOUT_TORCH, *given, "--output", "onnx.csv", PYTHONPATH="")
    assert done.returncode == 0, done.stderr
    whole = given
    if rows == "digits":
        missed = samples.python(folder, "-c", WITHOUT_TORCH, "gone.png", "--output", "onnx-gone.csv", PYTHONPATH="")
        assert missed.returncode and missed.stderr.splitlines() == ["gone.png: No such file or directory"]
        (folder / "torn.png").write_bytes((folder / given[0]).read_bytes()[:90])
        torn = samples.python(folder, "-c", WITHOUT_TORCH, "torn.png", "--output", "onnx-torn.csv", PYTHONPATH="")
        plain = samples.run(folder, "predict.py", "--input", "torn.png", "--output", "torn.csv")
        assert (
            torn.returncode and torn.stderr == plain.stderr and "torn.png is not a picture that can be" in torn.stderr
        )
        _among_others(folder, given[0])
        with zipfile.ZipFile(folder / "all.zip", "w") as archive:
            for name in given:
                archive.write(folder / name, name)
        whole = ["--input", "all.zip"]
    assert samples.run(folder, "predict.py", *whole, "--output", "torch.csv").returncode == 0
    _same(folder)
    is_number = rows == "diabetes"
    assert ({"prediction_low", "prediction_high"} <= set(answers(folder / "onnx.csv")[0])) is is_number
    assert ("Nine in ten." in (folder / "onnx" / "README.md").read_text()) is is_number


def _among_others(folder: Path, whole: str) -> None:
    """What cannot be read takes no answer of the others."""
    names = ["torn.png", whole, "gone.png", whole]
    done = samples.python(folder, "-c", WITHOUT_TORCH, *names, "--output", "onnx-some.csv", PYTHONPATH="")
    assert done.returncode == 0 and "2 predicted" in done.stdout
    torn, gone = done.stderr.splitlines()
    assert torn.startswith("torn.png is not a picture that can be read") and torn.endswith("It has no prediction.")
    assert gone == "gone.png: No such file or directory. It has no prediction."
    made = answers(folder / "onnx-some.csv")
    assert [row["name"] for row in made] == names
    assert [bool(row["prediction"]) for row in made] == [False, True, False, True] and made[1] == made[3]


def _same(folder: Path) -> None:
    found, expected = answers(folder / "onnx.csv"), answers(folder / "torch.csv")
    assert len(found) == len(expected) == 7
    for one, other in zip(found, expected, strict=True):
        names = [name for name in one if name.startswith(("prediction", "probability"))]
        assert len(names) >= (1 if "confidence" not in one else 3)
        for name in names:
            if name == "prediction" and "confidence" in one:
                assert one[name] == other[name]
            else:
                assert float(one[name]) == pytest.approx(float(other[name]), rel=1e-4, abs=1e-5)


def test_the_model_tells_nothing_of_the_machine_that_made_it(tmp_path: Path) -> None:
    folder = program(tmp_path, "mlp", "wine")
    assert exported(folder)["ok"]
    body = (folder / "onnx" / "model.onnx").read_bytes()
    assert str(tmp_path).encode() not in body and b".py" not in body
    readme = (folder / "onnx" / "README.md").read_text()
    assert "| input | `numeric` | float32 | batch, 13 |" in readme and "64 rows" in readme and "opset 20" in readme


def test_an_own_model_is_exported_and_one_that_counts_its_rows_too(tmp_path: Path) -> None:
    forward = "ones = numeric.new_ones(len(numeric), 1)\nreturn self.layer(nn.functional.gelu(numeric)) * ones"
    answer = exported(own_program(tmp_path, forward))
    assert answer["ok"], answer["problem"]
    assert answer["report"]["inputs"][0]["shape"][0] == "batch"


def test_a_table_without_numbers_has_no_input_for_them(tmp_path: Path) -> None:
    folder = words_program(tmp_path)
    answer = exported(folder)
    assert answer["ok"], answer["problem"]
    (given,) = answer["report"]["inputs"]
    assert (given["name"], given["place"], given["shape"]) == ("categorical", 1, ["batch", 2])
    shown = rows_written(folder)
    assert samples.python(folder, "-c", WITHOUT_TORCH, *shown, "--output", "onnx.csv", PYTHONPATH="").returncode == 0
    assert samples.run(folder, "predict.py", *shown, "--output", "torch.csv").returncode == 0
    _same(folder)


def test_a_program_that_cannot_even_predict_is_told_where_it_fails(tmp_path: Path) -> None:
    folder = own_program(tmp_path, "return self.layer(numeric)")
    (folder / "data.py").write_text("def load(spec, folder): ...\n")
    problem = exported(folder)["problem"]
    assert "no attribute 'transform'" in problem["message"] and "ONNX" not in problem["message"]


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (
            "x = self.layer(numeric)\nreturn x if x.sum() > 0 else -x",
            "model.py, line 9: the model decides by the values",
        ),
        ("return self.layer(numeric + torch.randn_like(numeric))", "The model answers differently each time"),
        ("return self.layer(numeric).view(64, -1)", "model.py, line 8: the model works for one number of rows only"),
    ],
)
def test_a_model_that_has_no_such_form_is_told_why(forward: str, message: str, tmp_path: Path) -> None:
    answer = exported(own_program(tmp_path, forward))
    assert not answer["ok"] and answer["problem"]["message"].startswith(message)
    assert answer["problem"]["hint"].endswith("The weights and the program can be downloaded as before.")
    assert not (tmp_path / "onnx" / "model.onnx").exists()


def test_a_program_that_prepares_rows_its_own_way_goes_without_the_script(tmp_path: Path) -> None:
    folder = program(tmp_path, "mlp", "wine")
    text = (folder / "data.py").read_text()
    changed = text.replace("return scaled / np.hypot", "return 2 * scaled / np.hypot")
    assert changed != text
    (folder / "data.py").write_text(changed)
    answer = exported(folder)
    assert answer["ok"] and not answer["report"]["script"]
    assert not (folder / "onnx" / "predict_onnx.py").exists()
    assert "use that function" in (folder / "onnx" / "README.md").read_text()


def test_a_model_that_answers_otherwise_in_onnx_is_not_offered(tmp_path: Path) -> None:
    from worker.runtime.onnx_export.comparison import _difference
    from worker.runtime.onnx_export.reasons import CannotExport

    values = np.ones((4, 2), np.float32)
    assert _difference(values, values + 5e-4, rows=4) == pytest.approx(5e-4, rel=1e-2)
    for wrong in (values + 0.01, values * np.nan):
        with pytest.raises(CannotExport, match=re.escape("does not match the trained one")):
            _difference(values, wrong, rows=4)


def test_training_and_predicting_load_nothing_of_onnx(tmp_path: Path) -> None:
    folder = samples.program(tmp_path, samples.wine(tmp_path / "data"), model={"family": "mlp"}, training={"epochs": 1})
    code = "import runpy, sys, json\nsys.argv = ['train.py']\nrunpy.run_path('train.py', run_name='__main__')\n"
    done = samples.python(folder, "-c", f"{code}print(json.dumps(sorted(sys.modules)))")
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
    assert "torch" in loaded and not {"onnx", "onnxscript", "onnxruntime"} & loaded
