"""What a person reads where memory ran out: in which part of the run, and what to do about it there. Pure."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """What a run is at, as its events of progress tell (`phase`)."""

    LOADING = "loading"
    TRAINING = "training"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    ANALYSIS = "analysis"
    DONE = "done"


_WHILE = {
    Phase.TRAINING: "in a step of the training",
    Phase.VALIDATION: "while it predicted the validation rows",
    Phase.CHECKPOINT: "while it saved a checkpoint",
    Phase.ANALYSIS: "after the training, while it predicted all rows and made the charts",
}
_HELPS = {
    Phase.VALIDATION: "Validate on fewer rows (data.split.validation), choose a smaller batch, or {more}.",
    Phase.CHECKPOINT: "A checkpoint is a copy of weights and optimizer: choose a smaller model, or {more}.",
    Phase.ANALYSIS: "The last checkpoint is kept: {more}, then resume from it.",
}


_GROWS = (
    "Memory grows from step to step: something is kept of each, such as a list of tensors or a sum of losses. Keep "
    "numbers (`.item()`) or nothing; `.detach()` drops what a tensor was computed from. A smaller batch only puts the "
    "end off."
)
_OWN = (
    "What the program keeps of its own, in lists for instance, is not in that: where it runs out again, look for what "
    "grows."
)
"""Only a step of the model was tried, and `grows` takes a while to be seen."""


def memory_words(
    begin: str, more: str, phase: object, fitting_batch: int | None, *, grows: bool = False
) -> tuple[str, str]:
    """(message, hint). `begin` of the message, without its full stop; `more`: how this run gets more memory.

    `phase` is what the run told last; `fitting_batch` 0 if not even a row fits, None before the model was tried;
    `grows`: memory was seen to grow from step to step, whatever the batch.
    """
    at = next((each for each in Phase if each == phase), None)
    if at is Phase.LOADING and fitting_batch is None:
        hint = f"Use fewer columns or rows, smaller pictures or a smaller model, or {more}; a smaller batch is no help."
        return f"{begin} while it read the data or built the model.", hint
    message = f"{begin} {_WHILE[at]}." if at in _WHILE else f"{begin}."
    if grows:
        return f"{message} Its memory had grown from step to step.", _GROWS
    if at in _HELPS:
        return message, _HELPS[at].format(more=more)
    if fitting_batch is None:
        return message, f"Choose a smaller model, smaller pictures or a smaller batch, or {more}."
    if fitting_batch == 0:
        return f"{message} Not even a batch of one or two rows fits.", f"Choose a smaller model or pictures, or {more}."
    parts = ", have training.accumulate work off a batch in parts" if at is Phase.TRAINING else ""
    hint = f"Set training.batch_size to {fitting_batch}{parts}, or {more}. {_OWN}"
    return f"{message} A batch size of about {fitting_batch} would fit, as far as the model goes.", hint
