"""The trained model as ONNX, made by a job's own program in the sandbox, beside training."""

from __future__ import annotations

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from worker.plan import RunPaths
from worker.programs import (
    ProgramCall,
    ProgramProblem,
    ProgramQueue,
    last_words,
    module_argv,
    program_run,
)
from worker.telemetry.tail import open_below

EXPORT_S = 240.0
_AS_BEFORE = "The weights and the program can be downloaded as before."


@lru_cache(maxsize=1)
def queue() -> ProgramQueue:
    """One at a time, and predictions do not wait for them."""
    return ProgramQueue(threads=1)


def export(request: dict[str, Any]) -> dict[str, Any]:
    """Run the export. `{export_id, report, weights_sha256}` or `{export_id, problem}`; the files lie in its folder."""
    answer: dict[str, Any] = {"export_id": request["export_id"]}
    try:
        return answer | _export(request)
    except ProgramProblem as problem:
        return answer | {"problem": problem.to_dict() | {"hint": _hint(problem)}}


def _hint(problem: ProgramProblem) -> str:
    """Nothing that a person could do differently, and nothing is lost."""
    return _AS_BEFORE if problem.code in ("time_limit", "out_of_memory") else problem.hint


def _export(request: dict[str, Any]) -> dict[str, Any]:
    paths = RunPaths(Path(request["job_dir"]).resolve())
    folder, data = paths.export(str(request["export_id"])), Path(request["dataset_dir"]).resolve()
    weights, file = _weights(paths, str(request.get("checkpoint") or ""))
    sha256 = _sha256(paths, file)
    if not folder.is_dir() or not sha256:
        raise ProgramProblem("These weights are gone.", "Ask for it again, or for another checkpoint.")
    arguments = ("--program", str(paths.program), "--data", str(data), "--weights", str(weights), "--out", str(folder),
                 "--weights-sha256", sha256)  # fmt: skip
    call = ProgramCall(
        name=f"export-{folder.name}", argv=module_argv("worker.runtime.onnx_export.export", *arguments),
        workdir=paths.program, timeout_s=EXPORT_S, writable=(folder,),
        # the whole work folder: what lies in it may be links that the ranks made, which must lead nowhere
        readonly=(paths.program, paths.work, data), minimum_level=int(request.get("minimum_sandbox_level", 0)),
    )  # fmt: skip
    done = program_run(call)
    for line in reversed(done.stdout.splitlines()):
        try:
            body = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(body, dict) and "ok" in body:
            return _answer(body, paths, file, sha256)
    raise ProgramProblem(last_words(done), _AS_BEFORE)


def _weights(paths: RunPaths, checkpoint: str) -> tuple[Path, Path]:
    """(what the program is told to load, the file that holds it): of a checkpoint, else the final ones."""
    if checkpoint:
        return paths.checkpoints / checkpoint, paths.checkpoint_state(checkpoint)
    return paths.results / "model.safetensors", paths.results / "model.safetensors"


def _answer(body: dict[str, Any], paths: RunPaths, file: Path, sha256: str) -> dict[str, Any]:
    if not body["ok"]:
        return {"problem": body.get("problem")}
    if _sha256(paths, file) != sha256:  # another attempt wrote its own meanwhile: which ones were read?
        raise ProgramProblem("The weights of this job changed while they were exported.", "Ask for it again.")
    return {"report": body.get("report"), "weights_sha256": sha256}


def _sha256(paths: RunPaths, file: Path) -> str:
    """Of the weights, where they are a file and no link leads to it; else nothing."""
    fd = open_below(paths.work, file.relative_to(paths.work))
    if fd is None:
        return ""
    with os.fdopen(fd, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
