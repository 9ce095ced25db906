"""Which family, size, knobs and training values: wishes checked against the catalog, gaps filled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from codegen.catalog import FAMILIES, OWN, families_for, own
from codegen.catalog.base import SIZES, Cost, Facts, Family
from codegen.catalog.rates import rate_defaults, rows_that_count, sgd_defaults
from codegen.catalog.training import (
    LEAST_MICRO_ROWS,
    MEMORY_SHARE,
    Defaults,
    affordable_epochs,
    memory_bytes,
    micro_batches,
    training_defaults,
    usual_batch,
    weights_average,
)
from codegen.notes import Notes
from codegen.spec import Model, TaskSpec
from codegen.types import SpecError

LEAST_EPOCHS = 15
"""A size is taken only if it can be trained this long."""
DEFAULT_SEED = 0
SEED_REASONS = {
    "cpu": "any fixed number makes a run repeatable",
    "cuda": "any fixed number makes a run repeatable, on a GPU but for the order in which it adds up",
}
"""By kind of device. Two runs of a small CNN on one GPU ended 5 % apart in their weights."""
SEED_OF_THREADS = (
    "any fixed number makes a run repeatable, in mode replicated without dropout alone: its replicas draw that in no "
    "fixed order"
)
SEED_OF_ASYNC = "rows and first weights are the same again; the order of the updates, in mode async, is not"
_LATER = ("accumulate", "staleness", "backup")
"""They follow from the batch and from the number of devices."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A model ready to be trained."""

    family: Family
    """Whose knobs it has."""
    trained_as: Family
    """By whose cost and training values it is trained: `own` for a person's model.py, whatever its knobs."""
    size: str
    params: dict[str, Any]
    cost: Cost
    training: dict[str, Any]
    """All fields of `spec.training`."""

    def memory_bytes(self, facts: Facts) -> int:
        """That its training takes, by our model of it, where a batch comes in parts of one of them."""
        return memory_bytes(facts, self.cost, math.ceil(self.training["batch_size"] / self.training["accumulate"]))

    def fits(self, facts: Facts) -> bool:
        """Whether that much is there, as far as it is known."""
        return not facts.memory_bytes or self.memory_bytes(facts) <= MEMORY_SHARE * facts.memory_bytes


def choose_model(spec: TaskSpec, facts: Facts, notes: Notes, *, is_own: bool = False) -> Choice:
    """Family, size, knobs and training values; mistakes go to `notes` and raise `SpecError`.

    `is_own`: a person's model.py takes the model's place. It gets the knobs of a family that the spec names, and is
    trained as nothing but its data suggest.
    """
    family = _family(spec, facts, notes, is_own=is_own)
    notes.stop_if_wrong()
    wishes, batch_wish = _split_wishes(spec, notes)
    size: str = spec.model.size
    if size == "auto":
        size, reason = auto_size(family, facts), f"{facts.train_words} and the time they may take"
        if family.name == OWN:
            size, reason = SIZES[0], "not used for a person's own model"
        notes.note("model.size", size, reason)
    defaults = family.defaults(facts, size)
    params = {**defaults, **wishes}
    for name, message in family.problems(facts, params):
        notes.problem(f"model.params.{name}", message)
    notes.stop_if_wrong()
    for name, value in defaults.items():
        if name not in wishes:
            preset = f"the {size} preset of {family.title}, fitted to the data"
            notes.note(f"model.params.{name}", value, own.PARAM_REASON if family.name == OWN else preset)
    trained_as = FAMILIES[OWN] if is_own else family
    cost = trained_as.cost(facts, params)
    training = _training(spec, trained_as, facts, cost, batch_wish, notes)
    return Choice(family=family, trained_as=trained_as, size=size, params=params, cost=cost, training=training)


def auto_size(family: Family, facts: Facts) -> str:
    """The largest preset that the rows deserve, the memory holds and the time pays for."""
    deserved = 0 if facts.train_rows < 1000 else 1 if facts.train_rows < 50_000 else 2
    for index in range(deserved, 0, -1):
        cost = family.cost(facts, family.defaults(facts, SIZES[index]))
        fits = not facts.memory_bytes or memory_bytes(facts, cost, 32) < MEMORY_SHARE * facts.memory_bytes
        if fits and affordable_epochs(facts, cost) >= LEAST_EPOCHS:
            return SIZES[index]
    return SIZES[0]


def ranked_families(facts: Facts) -> list[Family]:
    """Families of the task, the best expected first."""
    return sorted(families_for(facts.task), key=lambda family: -family.quality(facts))


def sized(spec: TaskSpec, facts: Facts, family: Family) -> Choice:
    """This family with its own knobs, by what else the spec says. Raises `SpecError`."""
    return choose_model(
        spec.model_copy(update={"model": Model(family=family.name, size=spec.model.size)}), facts, Notes()
    )


def _best_family(spec: TaskSpec, facts: Facts) -> tuple[Family, str]:
    """(of those that fit into memory the best expected, why); the best of all where none does, and where there are
    knobs, which belong to one family."""
    best, *others = ranked_families(facts)
    if facts.memory_bytes and not spec.model.params and not _fits(spec, facts, best):
        too_large = f"{best.title} takes more than {MEMORY_SHARE * 100:.0f} % of the memory there is."
        for family in others:
            if _fits(spec, facts, family):
                return family, f"{family.reason(facts)} {too_large}"
    return best, best.reason(facts)


def _fits(spec: TaskSpec, facts: Facts, family: Family) -> bool:
    """Whether this family does; where the rest of the spec is wrong, too, which is told later."""
    try:
        return sized(spec, facts, family).fits(facts)
    except SpecError:
        return True


def _family(spec: TaskSpec, facts: Facts, notes: Notes, *, is_own: bool) -> Family:
    if is_own:
        best, reason = FAMILIES[OWN], FAMILIES[OWN].reason(facts)
    else:
        best, reason = _best_family(spec, facts) if spec.model.family == "auto" else (ranked_families(facts)[0], "")
    name = notes.choose("model.family", spec.model.family, best.name, reason)
    family = FAMILIES.get(name)
    fitting = [family.name for family in families_for(facts.task)] + [OWN]
    if family is None or facts.task not in family.tasks:
        said = "is unknown" if family is None else f"does not support {facts.task}"
        notes.problem("model.family", f"{name!r} {said}; choose one of {', '.join(fitting)}")
        return best
    return family


def _split_wishes(spec: TaskSpec, notes: Notes) -> tuple[dict[str, Any], Any]:
    """(knobs, batch size): `batch_size` may stand among the knobs, but belongs to the training."""
    wishes = {name: value for name, value in spec.model.params.items() if value != "auto"}
    batch: Any = spec.training.batch_size
    if "batch_size" in wishes:
        knob = wishes.pop("batch_size")
        if isinstance(knob, bool) or not isinstance(knob, int) or knob < 1:
            notes.problem("model.params.batch_size", f"must be a whole number of at least 1, not {knob!r}")
        elif batch not in ("auto", knob):
            notes.problem("model.params.batch_size", f"is {knob}, but training.batch_size is {batch}; give it once")
        else:
            batch = knob
    return wishes, batch


def _training(
    spec: TaskSpec, family: Family, facts: Facts, cost: Cost, batch_wish: Any, notes: Notes
) -> dict[str, Any]:
    defaults = training_defaults(family, facts, cost)
    if family.name == OWN:
        defaults = own.reworded(defaults)
    wishes = spec.training.model_dump(mode="json") | {"batch_size": batch_wish}
    optimizer = defaults["optimizer"][0] if wishes["optimizer"] == "auto" else wishes["optimizer"]
    if optimizer == "sgd":
        defaults |= sgd_defaults(defaults)
    defaults |= _rate_defaults(spec, wishes, defaults, facts, optimizer)
    batch, epochs = (defaults[name][0] if wishes[name] == "auto" else wishes[name] for name in ("batch_size", "epochs"))
    defaults["ema"] = weights_average(facts, min(batch, facts.train_rows), epochs)
    if wishes["rate_rule"] != "auto" and wishes["rate_rule"] != defaults["rate_rule"][0]:
        notes.note("training.rate_rule", *defaults["rate_rule"])
        wishes["rate_rule"] = defaults["rate_rule"][0]
    values: dict[str, Any] = {}
    for name, wish in wishes.items():
        if name in _LATER:
            continue
        guess, reason = defaults.get(name, (DEFAULT_SEED, _seed_reason(spec, facts)))
        values[name] = notes.choose(f"training.{name}", wish, guess, reason)
    if values["batch_size"] > facts.train_rows:
        if batch_wish != "auto":
            notes.problem(
                "training.batch_size",
                f"{values['batch_size']:,} is more than the {facts.train_words}; use fewer",
            )
        values["batch_size"] = min(values["batch_size"], facts.train_rows)
    values["accumulate"] = _accumulate(spec, family, facts, cost, values["batch_size"], notes)
    _check_task(values, facts, notes)
    notes.stop_if_wrong()
    return values


def _seed_reason(spec: TaskSpec, facts: Facts) -> str:
    if spec.mode == "async":
        return SEED_OF_ASYNC
    # torch has one generator for all threads on the CPU, and one for each GPU
    return SEED_OF_THREADS if spec.mode == "replicated" and facts.device == "cpu" else SEED_REASONS[facts.device]


def _check_task(values: dict[str, Any], facts: Facts, notes: Notes) -> None:
    """Note training values that mean nothing for the task."""
    if values["augment"] != "none" and not facts.images:
        notes.problem("training.augment", "only pictures can be shifted or mirrored; set none or auto")
    if facts.regression and values["label_smoothing"]:
        notes.problem("training.label_smoothing", "only classes have labels to smooth; set 0 or auto")
    if facts.regression and values["class_weights"] != "none":
        notes.problem("training.class_weights", "only classes can be weighted; set none or auto")


def _rate_defaults(
    spec: TaskSpec, wishes: dict[str, Any], defaults: Defaults, facts: Facts, optimizer: str
) -> Defaults:
    """The rate of the rows that make a step: fewer than the batch where those of backup ranks are dropped."""
    wished = defaults["batch_size"][0] if wishes["batch_size"] == "auto" else wishes["batch_size"]
    batch = min(wished, facts.train_rows)
    if spec.mode == "async" and wishes["backup"] != "auto":
        batch = rows_that_count(batch, facts.devices, wishes["backup"])
    return rate_defaults(wishes, defaults["learning_rate"], batch, min(usual_batch(facts), facts.train_rows), optimizer)


def _accumulate(spec: TaskSpec, family: Family, facts: Facts, cost: Cost, batch: int, notes: Notes) -> int:
    ranks = spec.resources.count if spec.mode == "sync" and spec.resources.count != "auto" else 1
    guess, reason = micro_batches(facts, cost, batch, ranks)
    if family.name == OWN and guess == 1:
        reason = own.WHOLE_BATCH_REASON
    parts: int = notes.choose("training.accumulate", spec.training.accumulate, guess, reason)
    most = max(1, batch // (LEAST_MICRO_ROWS * ranks))
    if parts > most:
        each = f" on each of {ranks} ranks" if ranks > 1 else ""
        notes.problem(
            "training.accumulate",
            f"{parts} parts of {batch} rows{each} are less than {LEAST_MICRO_ROWS} rows each; use at most {most}",
        )
    if parts > 1 and spec.training.batch_norm == "synced":
        notes.problem(
            "training.batch_norm",
            f"synced needs all rows of a step at once, and they come in {parts} parts (training.accumulate); use auto, "
            "or a batch that fits at once",
        )
    return parts
