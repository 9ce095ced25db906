"""A person's own `model.py` with `build(spec) -> nn.Module`: nothing is known of it but the data it gets."""

from __future__ import annotations

from typing import Any

from codegen.catalog.base import Cost, Facts, Family, Params, Problems
from codegen.catalog.pictures import auto_image_size
from codegen.catalog.tally import Tally
from codegen.catalog.training import Defaults
from codegen.spec import Task

TEMPLATE = ""
PARAM_REASON = "as most pictures are, or the next smaller usual size; at most 64 pixels a side without a GPU"
WHOLE_BATCH_REASON = "a batch at once; what your own model takes of memory is known from an offer"
"""Of `training.accumulate`, where the rows alone ask for no parts."""
_REASONS = {
    "optimizer": "works for most models without tuning",
    "learning_rate": "usual peak of a model that nothing is known of, with AdamW",
}
_EPOCH_UNKNOWN = "how long your own model takes for one is not known"


def defaults(facts: Facts, size: str) -> dict[str, Any]:
    """Only the size that pictures are scaled to."""
    return {"image_size": auto_image_size(facts, at_most=224)} if facts.images else {}


def cost(facts: Facts, params: Params) -> Cost:
    """Unknown until the model is built, but for the rows it is given."""
    tally = Tally()
    if facts.images:
        tally.picture(facts.channels, params["image_size"])
    else:
        tally.columns(facts.features, len(facts.cardinalities))
    return tally.cost()


def reworded(defaults: Defaults) -> Defaults:
    """The training values that rows and task suggest, with reasons that claim nothing of the model."""
    told = {name: (defaults[name][0], reason) for name, reason in _REASONS.items()}
    epochs, reason = defaults["epochs"]
    return {**defaults, **told, "epochs": (epochs, f"{reason}; {_EPOCH_UNKNOWN}")}


class OwnFamily(Family):
    """Takes any knobs: the person's `build` reads them from `spec.model.params`."""

    def problems(self, facts: Facts, params: Params) -> Problems:
        """Only `image_size` is ours to check."""
        size = params.get("image_size")
        if facts.images and (isinstance(size, bool) or not isinstance(size, int) or not 4 <= size <= 1024):
            return [("image_size", f"must be a whole number between 4 and 1024, not {size!r}")]
        return []


FAMILY = OwnFamily(
    name="own",
    title="Own model",
    word="own model",
    source="model.py",
    tasks=frozenset(Task),
    template=TEMPLATE,
    knobs=(),
    defaults=defaults,
    cost=cost,
    reason=lambda facts: "Your own model.py.",
    against=lambda facts: "Parameters, FLOPs and memory are not known before it is built.",
    quality=lambda facts: 0.0,
    learning_rate=1e-3,
)
