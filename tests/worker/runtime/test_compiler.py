"""Torch's compiler is loaded when something needs it, in processes of their own: what is loaded stays loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.worker.runtime.samples import program, python, wine
from worker.runtime.compiler import ALONE, PACKAGE

LOADED = """
import sys
print(sorted(name for name in sys.modules if name.startswith("torch._dynamo.")))
"""
SHARDED = """
import sys
loaded = "torch.distributed.tensor" in sys.modules
import torch.distributed.tensor
print(loaded, hasattr(torch.distributed.tensor.DTensor, "from_local"))
"""
READS = """
from pathlib import Path
import torch
from worker.runtime.device import set_up_torch
from worker.runtime.inspection.trace import trace

set_up_torch(torch.device("cpu"), 1)
assert trace(Path(), Path(DATA))["ok"]
"""
TRAINS = """
import runpy, sys
sys.argv = ["train.py", "--data", DATA, "--work", WORK, "--epochs", "2"]
runpy.run_path("train.py", run_name="__main__")
"""
WAYS = {
    "by compiling": "",
    "by a submodule": "import torch._dynamo.source",
    "by a name": "from torch._dynamo import OptimizedModule",
    "by threads at once": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as threads:
    assert len(set(threads.map(lambda _: torch._dynamo.optimize, range(4)))) == 1
""",
}
COMPILES = """
import json, sys
import torch
from worker.runtime import compiler

compiler.postpone()

@torch._disable_dynamo
def kept_out(x):
    return x.sin()

net = torch.nn.Linear(2, 2)
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
kept_out(net(torch.ones(1, 2))).sum().backward()
optimizer.step()
optimizer.zero_grad()
looked_over = [hasattr(module, "__warningregistry__") for module in list(sys.modules.values())]
before = [name for name in sys.modules if name.startswith("torch._dynamo")]
WAY
graphs = []

def backend(graph, _inputs):
    graphs.extend(str(node.target) for node in graph.graph.nodes)
    return graph.forward

out = torch.compile(lambda x: kept_out(x.cos()) + 1, backend=backend)(torch.ones(2))
ours = [module for name, module in sys.modules.items() if name.startswith("torch._dynamo")]
classes = {}
for module in ours:
    for value in vars(module).values():
        if isinstance(value, type) and value.__module__.startswith("torch._dynamo") and "<" not in value.__qualname__:
            classes.setdefault(f"{value.__module__}.{value.__qualname__}", set()).add(value)
twice = [name for name, found in classes.items() if len(found) > 1]
specs = [module.__name__ for module in ours if not module.__spec__.origin]
print(json.dumps({
    "before": before, "right": torch.equal(out, torch.ones(2).cos().sin() + 1), "graphs": graphs, "twice": twice,
    "specs": specs, "type": type(torch._dynamo).__name__,
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A program, its data beside it."""
    return program(tmp_path / "program", wine(tmp_path / "data"), model={"family": "mlp"})


def last_line(folder: Path, source: str) -> str:
    named = source.replace("DATA", repr(str(folder.parent / "data"))).replace("WORK", repr(str(folder.parent / "work")))
    done = python(folder, "-c", named)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_reading_a_program_loads_nothing_of_torchs_compiler_but_what_can_be_loaded_alone(folder: Path) -> None:
    assert last_line(folder, READS + LOADED) == str(sorted(f"{PACKAGE}.{name}" for name in ALONE))


def test_reading_a_program_loads_no_sharded_tensors_but_those_that_the_program_asks_for(folder: Path) -> None:
    assert last_line(folder, READS + SHARDED) == "False True"
    source = folder / "model.py"
    source.write_text(source.read_text().replace("import torch", "import torch.distributed.tensor\nimport torch", 1))
    assert last_line(folder, READS + SHARDED) == "True True"


def test_training_loads_nothing_of_torchs_compiler_and_gives_the_same_bits_as_with_it(folder: Path) -> None:
    assert last_line(folder, TRAINS + LOADED) == "[]"
    without = {path.name: path.read_bytes() for path in (folder.parent / "work" / "results").glob("*.safetensors")}
    (folder.parent / "work").rename(folder.parent / "before")
    assert "torch._dynamo.convert_frame" in last_line(folder, "import torch._dynamo\n" + TRAINS + LOADED)
    assert without
    for name, weights in without.items():
        assert (folder.parent / "work" / "results" / name).read_bytes() == weights


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_what_needs_the_compiler_loads_it_whole_and_once(way: str, tmp_path: Path) -> None:
    told: dict[str, Any] = json.loads(last_line(tmp_path, COMPILES.replace("WAY", way)))
    assert told["before"] == ["torch._dynamo"]
    assert told["right"]
    assert "cos" in told["graphs"] and "sin" not in told["graphs"]
    assert (told["twice"], told["specs"], told["type"]) == ([], [], "module")
