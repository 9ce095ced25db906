"""What the folder of a checkpoint says of itself: MANIFEST.json, written last. A damaged one says nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from worker.fence import step_name
from worker.machine_faults import is_disk_fault

FORMAT = 1
STATE_FILE = "state.pt"
MANIFEST_FILE = "MANIFEST.json"


def manifest_read(folder: Path) -> dict[str, Any] | None:
    """The manifest of a complete checkpoint; None where there is none, or where it cannot be what was written.

    Raises `OSError` where its disk fails: that says nothing of the checkpoint.
    """
    try:
        body = dict(json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8")))
        files, metric = body["files"], body["metric"]
        good = body["format"] == FORMAT and folder.name == step_name(body["step"]) and STATE_FILE in files
        good = good and math.isfinite(body["epoch"]) and (metric is None or math.isfinite(metric))
        good = good and all(entry["bytes"] >= 0 and len(entry["sha256"]) > 0 for entry in files.values())
    except OSError as error:
        if is_disk_fault(error):
            raise
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return body if good else None
