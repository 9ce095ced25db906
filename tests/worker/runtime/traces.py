"""Programs as the trace reads them, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scheduler.workload import Workload
from tests.worker.runtime.apart import apart
from tests.worker.runtime.samples import program
from worker.runtime.inspection.trace import trace


def traced(folder: Path, data: Path, batch: int | None = None) -> Workload:
    answer = apart(trace, folder, data, batch)
    assert answer["ok"], answer["problem"]
    return Workload.from_dict(json.loads(json.dumps(answer["workload"])))


def own(tmp_path: Path, packed: dict[str, Any], source: str, dataset: str = "wine") -> dict[str, Any]:
    data, profile = packed[dataset]
    header = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n\n"
    folder = program(tmp_path / "own", profile, own_model=header + source, training={"batch_size": 16})
    return apart(trace, folder, data)
