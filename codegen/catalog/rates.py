"""How a learning rate follows the batch size: rules of thumb, by name.

`linear`: Goyal et al. 2017, arXiv:1706.02677 (SGD). `sqrt`: Krizhevsky 2014, arXiv:1404.5997, and for Adam Malladi et
al. 2022, arXiv:2205.10287. Both start from a batch for which a good rate is known: the family's rate was found at the
batch that the data suggest.
"""

from __future__ import annotations

from typing import Any, Literal

from codegen.catalog.training import Defaults
from worker.words import counted

RateRule = Literal["none", "linear", "sqrt", "range", "trials"]
MOST_FACTOR = 8.0
"""Rules of thumb hold near the batch they start from; further away only a range test tells."""
SGD_RATE = 10.0
"""Of SGD with momentum 0.9, over that of AdamW."""
SGD_DECAY = 0.01
"""At ten times the rate, and as momentum repeats each step ten times, weights shrink as fast as with AdamW's decay."""


def rate_factor(rule: str, batch: int, reference_batch: int) -> float:
    """What the rate of `reference_batch` is multiplied by for `batch`; 1 for `none` and where it is tested."""
    power = {"linear": 1.0, "sqrt": 0.5}.get(rule, 0.0)
    factor = (batch / reference_batch) ** power
    return float(min(MOST_FACTOR, max(1.0 / MOST_FACTOR, factor)))


def rows_that_count(batch: int, ranks: int, backup: int) -> int:
    """Rows of a step of `ranks` like ranks whose last `backup` gradients are dropped; at least one rank counts."""
    return max(1, round(batch * max(1, ranks - backup) / max(1, ranks)))


def usual_rule(optimizer: str) -> RateRule:
    """What is usual for an optimizer: SGD's step grows with the gradient, AdamW's does not."""
    return "linear" if optimizer == "sgd" else "sqrt"


def sgd_defaults(defaults: Defaults) -> Defaults:
    """Rate and decay of the family, found with AdamW, for SGD: its steps are as small as the gradient."""
    rate, decay = defaults["learning_rate"][0] * SGD_RATE, defaults["weight_decay"][0] * SGD_DECAY
    return {
        "learning_rate": (float(f"{rate:.3g}"), f"{SGD_RATE:.0f} times the usual peak with AdamW"),
        "weight_decay": (float(f"{decay:.3g}"), "shrinks the weights as fast as the usual decay does with AdamW"),
    }


def rate_defaults(
    training: dict[str, Any], rate: tuple[float, str], batch: int, reference_batch: int, optimizer: str
) -> dict[str, tuple[Any, str]]:
    """`rate_rule` and `learning_rate` with their reasons. `training`: the person's wishes; `rate`: the family's."""
    given, wish = training["learning_rate"] != "auto", training["rate_rule"]
    if given:
        return {"rate_rule": ("none", "the learning rate is given"), "learning_rate": rate}
    if wish == "trials":
        why = f"{rate[1]}, until short trainings have found one"
        return {
            "rate_rule": ("trials", "what suits one dataset does not suit another"),
            "learning_rate": (rate[0], why),
        }
    if batch == reference_batch:
        return {"rate_rule": ("none", "the batch is the one that the usual rate is for"), "learning_rate": rate}
    rule = usual_rule(optimizer) if wish == "auto" else wish
    told = f"a step has {counted(batch, 'row')}, not the usual {reference_batch}"
    if wish == "auto":
        told += f": usual for {optimizer}, until a range test before the run finds a better rate in little time"
    if rule == "range":
        why = f"{rate[1]}, until a range test has found one for this batch"
        return {"rate_rule": ("range", told), "learning_rate": (rate[0], why)}
    scaled = float(f"{rate[0] * rate_factor(rule, batch, reference_batch):.3g}")
    why = f"{rate[1]} at batch {reference_batch}, by the rule {rule} for batch {batch}"
    return {"rate_rule": (rule, told), "learning_rate": (scaled, rate[1] if rule == "none" else why)}
