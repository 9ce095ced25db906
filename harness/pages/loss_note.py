"""What is said beside the curves of a job's loss: why that of training and that of validation need not lie together."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings

from harness.jobs.models import Job
from harness.jobs.programs import files_read
from harness.plain import value_at

_SOFTENERS = (
    ("training.augment", "changed pictures", (None, "none"), ("train.py", "data.py")),
    ("training.label_smoothing", "softened targets", (None, 0), ("train.py",)),
    ("training.class_weights", "weighted classes", (None, "none"), ("train.py",)),
    ("model.params.dropout", "dropout", (None, 0), ("model.py",)),
)
"""Spec field, what it does to the training loss, values that do nothing, and the files that do it: nobody knows whether
a person's own ones do."""
_OWN_LOSS = "Training loss is by the criterion that was written into train.py; validation loss is by the generated one."


def loss_note(job: Job) -> str:
    """Sentences; empty where nothing is known that sets the two apart."""
    written, generated = _programs(job) if job.program_edited else ({}, {})
    changed = {name for name in written if written[name] != generated.get(name)}
    changed |= {"model.py"} if job.program_own else set()
    spec = job.resolved.get("spec") or job.spec
    softened = [
        words
        for path, words, off, made_by in _SOFTENERS
        if value_at(spec, path) not in off and not changed & set(made_by)
    ]
    told = [_OWN_LOSS] if "train.py" in changed and _has_own_criterion(written, generated) else []
    told += [f"Training loss is measured with {', '.join(softened)}; validation loss without."] if softened else []
    return " ".join(told)


def _programs(job: Job) -> tuple[dict[str, str], dict[str, str]]:
    """Files of the program as it is, and as it was generated."""
    paths = settings.STORE.job(job.pk)
    return files_read(paths.program), files_read(paths.generated)


def _has_own_criterion(written: Mapping[str, str], generated: Mapping[str, str]) -> bool:
    """Whether both have that function, and not the same."""
    own, ours = (_function(files.get("train.py", ""), "criterion") for files in (written, generated))
    return bool(own and ours) and own != ours


def _function(text: str, name: str) -> list[str]:
    """Lines of a function of a module, without blank ones and comments; a file that does not parse has some, too."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith(f"def {name}(") or (found and line[:1].isspace()):
            found.append(line.rstrip())
        elif found and line.strip() and not line.startswith(("#", ")")):
            break
    return [line for line in found if line.strip() and not line.lstrip().startswith("#")]
