"""What a person is told when a program fails: code, sentence, next step, place."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events
from tests.worker.runtime.spoiled import check_of, edit, error_of
from worker.plan import EXIT_REPORTED
from worker.runtime.failures import describe


@pytest.fixture
def program(wine_program: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(wine_program, tmp_path / "program"))


@pytest.mark.parametrize("definition", ["def build():", "def build(spec, width):"], ids=["none", "two"])
def test_a_build_that_does_not_take_the_spec_is_named_with_file_and_line(program: Path, definition: str) -> None:
    edit(program, "model.py", lambda text: re.sub(r"def build\(spec.*:", definition, text))
    line = (program / "model.py").read_text().splitlines().index(definition) + 1
    checked, failed = check_of(program)["problem"], error_of(program)
    for told in (checked, failed):
        assert (told["file"], told["line"]) == ("model.py", line)
        assert told["message"].startswith(f"model.py, line {line}: build(")
        assert "def build(spec)" in told["hint"]


def test_a_class_in_the_place_of_build_is_named_with_file_and_line(program: Path) -> None:
    source = "from torch import nn\n\n\nclass build(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    (program / "model.py").write_text(source)
    for told in (error_of(program), check_of(program)["problem"]):
        assert told["message"].startswith("model.py, line 5: build() cannot be called as build(spec)")


def test_a_type_error_inside_build_keeps_its_own_line(program: Path) -> None:
    edit(program, "model.py", lambda text: re.sub(r"(def build\(spec.*:\n)", r"\1    len()\n", text))
    told = check_of(program)["problem"]
    line = (program / "model.py").read_text().splitlines().index("    len()") + 1
    assert (told["file"], told["line"]) == ("model.py", line)
    assert "len()" in told["message"]


def test_a_check_points_to_no_log_and_a_run_to_its_own(program: Path) -> None:
    edit(program, "model.py", lambda text: re.sub(r"(def build\(spec.*:\n)", r"\1    raise KeyError('boom')\n", text))
    checked, failed = check_of(program)["problem"], error_of(program)
    assert checked["traceback"] and checked["hint"] == "Correct that line; see the traceback for details."
    assert failed["hint"] == "Correct that line; see the traceback and the log for details."


def test_an_exception_shows_the_programs_own_lines_only(program: Path) -> None:
    helper = "def helper():\n    raise ValueError('boom')\n\n\ndef build(spec)"
    edit(program, "model.py", lambda text: text.replace("def build(spec)", helper))
    call = "helper()\n    params = spec.model.params"
    edit(program, "model.py", lambda text: text.replace("params = spec.model.params", call))
    error = error_of(program)
    assert error["code"] == "program_error"
    assert error["message"] == f"model.py, line {error['line']}: ValueError: boom"
    assert error["file"] == "model.py"
    assert 'File "model.py"' in error["traceback"]
    assert "/" not in error["traceback"].replace("</", "")


def test_what_the_platform_finds_itself_shows_no_frames_of_the_platform(program: Path) -> None:
    edit(program, "spec.yaml", lambda text: re.sub(r"epochs: \d+", "epochs: -3", text))
    told = error_of(program)
    assert "training.epochs" in told["message"] and told["hint"]
    assert 'File "train.py"' in told["traceback"] and "training.epochs" in told["traceback"].splitlines()[-1]
    assert not any(word in told["traceback"] for word in ("runpy", "worker", "ProgramFailure"))


def test_what_is_explained_without_a_line_of_the_program_has_no_traceback(program: Path) -> None:
    (program / "model.py").write_text("def build(spec):\n    return 3\n")
    told = check_of(program)["problem"]
    assert told["message"] and told["hint"] and told["traceback"] is None
    told = describe(MemoryError("of the device"), program, lambda: None)
    assert (told["code"], told["traceback"]) == ("out_of_memory", "MemoryError: of the device")


def test_an_exception_that_nobody_explains_shows_all_frames_where_none_are_the_programs(tmp_path: Path) -> None:
    try:
        json.loads("{")
    except ValueError as error:
        told = describe(error, tmp_path, lambda: None)
    assert 'File "decoder.py"' in told["traceback"]


def test_a_syntax_error_names_file_and_line(program: Path) -> None:
    edit(program, "model.py", lambda text: text + "\ndef broken(:\n")
    error = error_of(program)
    assert error["code"] == "program_syntax"
    assert error["file"] == "model.py"
    line = (program / "model.py").read_text().splitlines().index("def broken(:") + 1
    assert error["line"] == line
    assert check_of(program)["problem"]["line"] == line


@pytest.mark.parametrize("name", ["model.py", "train.py"])
def test_a_program_that_leaves_early_has_not_succeeded(program: Path, name: str) -> None:
    place = "for _epoch in run.epochs" if name == "train.py" else "class "
    edit(program, name, lambda text: text.replace(place, f"import sys\n\nsys.exit(0)\n{place}", 1))
    error = error_of(program)
    assert error["code"] == "program_error"
    assert "before run.finish" in error["message"]


def test_a_missing_module_is_named_with_those_there_are(program: Path) -> None:
    edit(program, "model.py", lambda text: "import nonesuch\n" + text)
    error = error_of(program)
    assert "model.py, line 1" in error["message"] and "'nonesuch'" in error["message"]
    assert "torch" in error["hint"]


def test_a_model_without_build_is_told_so(program: Path) -> None:
    edit(program, "model.py", lambda text: text.replace("def build(", "def make("))
    assert error_of(program)["code"] == "model_no_build"
    assert check_of(program)["problem"]["code"] == "model_no_build"


def test_a_build_that_returns_no_module_is_told_so(program: Path) -> None:
    (program / "model.py").write_text("def build(spec):\n    return 3\n")
    assert error_of(program)["code"] == "model_no_build"
    assert "int" in check_of(program)["problem"]["message"]


OWN = """
import torch
from torch import nn
class Own(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer = nn.Linear(features, outputs)
    def forward(self, numeric, categorical):
        return self.layer(numeric)
def build(spec):
    return Own(len(spec.shape.features), {outputs})
"""


def test_a_wrong_output_shape_is_told_with_the_right_one(program: Path) -> None:
    (program / "model.py").write_text(OWN.replace("{outputs}", "7"))
    error = error_of(program)
    assert error["code"] == "model_wrong_shape"
    assert "3]" in error["message"]
    assert "7]" in error["message"]
    assert check_of(program)["problem"]["code"] == "model_wrong_shape"


def test_a_good_program_passes_the_check_with_its_size(program: Path) -> None:
    (program / "model.py").write_text(OWN.replace("{outputs}", "3"))
    answer = check_of(program)
    assert answer["ok"]
    assert answer["problem"] is None
    assert answer["parameters"] == 13 * 3 + 3
    assert answer["output_shape"] == [16, 3]
    assert answer["notes"] == []


@pytest.mark.parametrize(
    ("before", "added"),
    [
        ("import math", "import nowhere_to_be_found"),
        ("net = run.place(net, dataset)", "net.no_such_layer.train()"),
        ("        run.log_step(loss, learning_rate=rate)", "        loss.no_such_figure()"),
    ],
    ids=["import", "beside the model", "in a step"],
)
def test_the_check_runs_what_was_changed_in_train_py(program: Path, before: str, added: str) -> None:
    edit(program, "train.py", lambda text: text.replace(before, f"{added}\n{before}", 1))
    line = (program / "train.py").read_text().splitlines().index(added) + 1
    answer = check_of(program)
    assert not answer["ok"]
    assert (answer["problem"]["file"], answer["problem"]["line"]) == ("train.py", line)


def test_a_program_that_leaves_a_line_of_its_own_open_passes_the_check(program: Path) -> None:
    step = "        run.log_step(loss, learning_rate=rate)"
    edit(program, "train.py", lambda text: text.replace(step, f"        print('.', end='')\n{step}", 1))
    assert check_of(program)["ok"]


def test_an_answer_that_is_no_tensor_is_told_with_what_to_return(program: Path) -> None:
    (program / "model.py").write_text(
        OWN.replace("{outputs}", "3").replace("self.layer(numeric)", "self.layer(numeric), numeric")
    )
    problem = check_of(program)["problem"]
    assert "returned tuple" in problem["message"] and "Return one tensor" in problem["hint"]


def test_a_bare_sequential_is_told_to_be_put_into_a_module(program: Path) -> None:
    source = "from torch import nn\n\n\ndef build(spec):\n    return nn.Sequential(nn.Linear(13, 3))\n"
    (program / "model.py").write_text(source)
    hint = check_of(program)["problem"]["hint"]
    assert "Put the Sequential into a module of your own with `def forward(self, numeric, categorical)`" in hint


def test_a_model_that_insists_on_a_gpu_is_told_who_moves_it(program: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("it would run")
    (program / "model.py").write_text(OWN.replace("{outputs}", "3").replace("(numeric)", "(numeric.cuda())"))
    problem = check_of(program)["problem"]
    assert "model.py, line 9: The program asks for a GPU" in problem["message"]
    assert "train.py moves the model" in problem["hint"]


def test_layers_in_a_plain_list_are_told(program: Path) -> None:
    text = OWN.replace("{outputs}", "3").replace("nn.Linear(features, outputs)", "[nn.Linear(features, outputs)]")
    (program / "model.py").write_text(text.replace("self.layer(numeric)", "self.layer[0](numeric)"))
    for problem in (check_of(program)["problem"], error_of(program)):
        assert "no parameter" in problem["message"] and "nn.ModuleList" in problem["hint"]


def test_an_output_that_is_cut_from_the_parameters_is_told(program: Path) -> None:
    cut = OWN.replace("{outputs}", "3").replace("self.layer(numeric)", "self.layer(numeric).detach()")
    (program / "model.py").write_text(cut)
    problem = check_of(program)["problem"]
    assert "does not depend on its parameters" in problem["message"] and ".detach()" in problem["hint"]


def test_layers_without_sizes_are_told(program: Path) -> None:
    (program / "model.py").write_text(OWN.replace("{outputs}", "3").replace("nn.Linear(features, ", "nn.LazyLinear("))
    for problem in (check_of(program)["problem"], error_of(program)):
        assert "take their size from the first batch" in problem["message"] and "build(spec)" in problem["hint"]


def test_a_softmax_at_the_end_of_a_model_is_told_by_check_and_run(program: Path) -> None:
    (program / "model.py").write_text(
        OWN.replace("{outputs}", "3").replace("self.layer(numeric)", "self.layer(numeric).softmax(1)")
    )
    (note,) = check_of(program)["notes"]
    assert "probabilities already" in note and "before the softmax" in note
    assert note in samples.run(program, "train.py").stdout
    (results,) = program.rglob("results.json")
    assert json.loads(results.read_text())["notes"] == [note]


def test_missing_data_is_the_datas_fault(program: Path) -> None:
    (program / "data" / "table.parquet").unlink()
    error = error_of(program)
    assert error["code"] == "data_error"
    assert "table.parquet" in error["message"]


HUNGRY = """
import torch
from torch import nn
class Hungry(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(features, 60000), nn.Linear(60000, outputs)])
    def forward(self, numeric, categorical):
        x = self.layers[0](numeric)
        for _ in range(40):
            x = torch.tanh(x) * 1.5
        return self.layers[1](x)
def build(spec):
    return Hungry(len(spec.shape.features), spec.shape.outputs)
"""


def run_with_memory(program: Path, extra_bytes: int) -> Any:
    """train.py under a limit of address space: what the idle program takes, plus `extra_bytes`.

    Allocators that reserve address space they may never use (Arrow's, glibc's arenas for threads) are told not to.
    """
    wrapper = (
        "import resource, runpy, sys, torch\n"
        "used = int(next(line for line in open('/proc/self/status') if line.startswith('VmSize')).split()[1]) * 1024\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (used + {extra_bytes},) * 2)\n"
        "sys.argv = ['train.py', '--epochs', '1', '--fresh']\n"
        "sys.path.insert(0, '')\n"
        "runpy.run_path('train.py', run_name='__main__')\n"
    )
    frugal = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    return samples.python(program, "-c", wrapper, DLH_THREADS="1", **frugal)


HOG = "bytearray(1 << 62)"


@pytest.mark.parametrize(
    ("before", "line", "words"),
    [
        ("dataset = data.load(", HOG, "while it read the data or built the model"),
        ("        run.update(optimizer)", f"        {HOG}", "in a step of the training"),
        ("for _epoch in run.epochs()", f"run.outputs = lambda *_: {HOG}", "while it predicted the validation rows"),
        ("for _epoch in run.epochs()", f"run.checkpointer._state = lambda: {HOG}", "while it saved a checkpoint"),
        (
            "run.finish(dataset)",
            f"run.checkpointer.flush = lambda: {HOG}",
            "after the training, while it predicted all",
        ),
    ],
    ids=["loading", "training", "validation", "checkpoint", "analysis"],
)
def test_out_of_memory_tells_what_the_run_was_at(program: Path, before: str, line: str, words: str) -> None:
    edit(program, "train.py", lambda text: text.replace(before, f"{line}\n{before}"))
    done = samples.python(program, "train.py", "--epochs", "1", "--fresh", DLH_THREADS="1")
    assert done.returncode == EXIT_REPORTED, done.stderr
    error = next(event["data"] for event in events(program / "work") if event["kind"] == "error")
    assert error["code"] == "out_of_memory" and words in error["message"]


def test_out_of_memory_names_a_batch_size_that_fits(program: Path) -> None:
    (program / "model.py").write_text(HUNGRY)
    samples.change_spec(program, training={"batch_size": 120, "ema": 0})
    done = run_with_memory(program, 700 << 20)
    assert done.returncode == EXIT_REPORTED, done.stderr
    error = next(event["data"] for event in events(program / "work") if event["kind"] == "error")
    assert error["code"] == "out_of_memory"
    fitting = int(error["hint"].removeprefix("Set training.batch_size to ").split(",")[0])
    assert 1 <= fitting < 120 and "resources.memory_gib" in error["hint"]
    samples.change_spec(program, training={"batch_size": fitting})
    done = run_with_memory(program, 700 << 20)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "layer", [nn.Conv2d(3, 4, 3), nn.Linear(8, 2), nn.BatchNorm2d(3)], ids=lambda net: type(net).__name__
)
def test_a_layer_that_is_given_bytes_is_told_to_make_floats_of_them(layer: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        layer(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    assert "pictures.float() / 255" in describe(caught.value, tmp_path, lambda: None)["hint"]


def test_a_single_row_for_batch_normalisation_is_told_with_the_batch_that_would_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="more than 1 value") as caught:
        nn.BatchNorm1d(4)(torch.zeros(1, 4))
    told = describe(caught.value, tmp_path, lambda: None)
    assert "only one" in told["message"] and "training.batch_size" in told["hint"]


def test_other_types_that_do_not_fit_are_not_taken_for_pictures(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        nn.Linear(4, 2).double()(torch.zeros(2, 4))
    assert "pictures" not in describe(caught.value, tmp_path, lambda: None)["hint"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_a_disk_that_fails_is_no_fault_of_the_line_that_met_it(code: int) -> None:
    told = describe(OSError(code, os.strerror(code), "/store/state.pt"), Path(), lambda: None)
    assert told["code"] == "disk_fault"
    assert "/store/state.pt" in told["message"] and "line" not in told["message"]


END = "        return self.head"
FAILING_DISK = """        if not self.training:
            import errno, pathlib

            def unlink(path, missing_ok=False):
                raise OSError(errno.EROFS, "Read-only file system", str(path))

            pathlib.Path.unlink = unlink
            raise OSError(errno.EIO, "Input/output error", "/store/x")
"""


def test_a_disk_that_lets_nothing_go_keeps_no_rank_from_telling_how_it_ended(program: Path) -> None:
    edit(program, "model.py", lambda text: text.replace(END, f"{FAILING_DISK}{END}"))
    done = samples.python(program, "train.py")
    assert done.returncode == EXIT_REPORTED, done.stderr
    assert "\nThe disk failed at /store/x: Input/output error.\n" in done.stderr
    assert "sys.excepthook" not in done.stderr
    told = next(event["data"] for event in events(program / "work") if event["kind"] == "error")
    assert told["code"] == "disk_fault"
