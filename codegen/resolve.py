"""`resolve`: every `auto` of a spec replaced by a value, each with its reason; every mistake named by field."""

from __future__ import annotations

from typing import Any

from codegen.catalog import OWN
from codegen.catalog.base import Facts
from codegen.catalog.training import CPU_FLOPS_PER_S, train_flops
from codegen.choice import Choice, choose_model
from codegen.devices import pick_device
from codegen.elastic import resolve_elastic
from codegen.forecast import FIELDS
from codegen.modes import FEWEST_DEVICES, SEVERAL, STAGED, pick_mode, staleness, without_effect
from codegen.notes import Notes
from codegen.pipelines import fewest_devices, resolve_pipeline, staged_devices
from codegen.profile.types import DatasetProfile
from codegen.reading import Reading, read
from codegen.spec import NUMBER_TASKS, Metric, Split, TaskSpec
from codegen.types import Hardware, Resolved
from worker.words import counted, share_words

CLASS_METRICS = (Metric.ACCURACY, Metric.BALANCED_ACCURACY, Metric.MACRO_F1, Metric.ROC_AUC, Metric.LOG_LOSS)
NUMBER_METRICS = (Metric.R2, Metric.RMSE, Metric.MAE)
LEAST_ROWS_PER_RANK = 2
SHORT_RUN_S = 60.0
MEMORY_LEFT_OPEN = "no limit of its own: the share of its node's memory that goes with its devices"
MEMORY_OF_OWN = f"{MEMORY_LEFT_OPEN}; what your own model takes is known from an offer"


def resolve(spec: TaskSpec, profile: DatasetProfile, hardware: Hardware, *, is_own: bool = False) -> Resolved:
    """Replace each `auto`; `is_own`: a person's model.py takes the place of the model that is chosen.

    Raises `SpecError` with dotted fields.
    """
    notes = Notes()
    is_own = is_own or spec.model.family == OWN
    reading = read(spec, profile, notes)
    split = resolve_split(spec, profile, reading, notes)
    facts = facts_of(spec, profile, reading, split, hardware, notes, is_own=is_own)
    notes.stop_if_wrong()
    _check_train_rows(spec, facts, split, notes)
    notes.stop_if_wrong()
    choice = choose_model(spec, facts, notes, is_own=is_own)
    notes.stop_if_wrong()

    body = spec.model_dump(mode="json")
    body["task"] = reading.task.value
    body["name"] = spec.name or f"{choice.trained_as.title} on {reading.target}"
    for name in FIELDS:
        body["data"].pop(name)
    body["data"] |= {"target": reading.target, "features": list(reading.features), "split": split, **reading.data}
    body["objective"] = {"metric": facts.metric.value}
    body["model"] = {"family": choice.family.name, "size": choice.size, "params": choice.params}
    body["model"] |= _weights(spec, notes)
    body["training"] = choice.training
    body["resources"] = _resources(spec, facts, choice, notes)
    _resolve_mode(spec, body, facts, choice, notes)
    notes.stop_if_wrong()
    body["checkpoints"] = _checkpoints(spec, choice.training["epochs"], notes)
    resolve_elastic(spec, body, notes)
    notes.stop_if_wrong()
    body["shape"] = dict(reading.shape)
    if facts.images:
        size = choice.params["image_size"]
        body["shape"] |= {"height": size, "width": size}
    return Resolved(spec=body, guesses=tuple(notes.guesses))


def _weights(spec: TaskSpec, notes: Notes) -> dict[str, Any]:
    """Where the model starts from; empty: fresh weights, of which nothing is to be said."""
    if spec.model.weights == "auto":
        return {}
    why = "a head for other classes, or of another size, stays fresh"
    match = notes.choose("model.weights_match", spec.model.weights_match, "fitting", why)
    return {"weights": spec.model.weights, "weights_match": match}


def _resolve_mode(spec: TaskSpec, body: dict[str, Any], facts: Facts, choice: Choice, notes: Notes) -> None:
    """Write the mode into `body`, and the fields that only some modes have."""
    count = body["resources"]["count"]
    body["mode"] = notes.choose("mode", spec.mode, *pick_mode(count, facts, choice.cost))
    if spec.mode in SEVERAL - {"sync"} and count < FEWEST_DEVICES:
        fewest = fewest_devices(spec) if spec.mode in STAGED else FEWEST_DEVICES
        notes.problem("mode", f"{spec.mode} needs {fewest} devices or more; raise resources.count or use auto")
        notes.stop_if_wrong()
    if spec.mode == "single" and facts.device == "cuda" and count > 1:
        words = (
            f"single runs on one GPU, and resources.count asks for {count}; set resources.count to 1, or mode to auto"
        )
        notes.problem("mode", f"{words}, sync or replicated to use them all")
        notes.stop_if_wrong()
    for field, words in without_effect(spec, body["mode"]):
        notes.problem(field, words)
    notes.stop_if_wrong()
    batch = choice.training["batch_size"]
    if body["mode"] in SEVERAL - STAGED and batch < count:
        rows, ranks = counted(batch, "row"), counted(count, "rank")
        notes.problem(
            "training.batch_size", f"a step of {rows} has none for some of {ranks}; use a larger batch or fewer devices"
        )
        notes.stop_if_wrong()
    if body["mode"] == "async" and spec.training.backup == "auto":
        body["training"]["staleness"] = notes.choose("training.staleness", spec.training.staleness, *staleness(count))
    if spec.training.backup != "auto":
        body["training"]["backup"] = spec.training.backup
        if spec.training.backup >= count:
            notes.problem(
                "training.backup", f"of {counted(count, 'rank')} at least one must count; use at most {count - 1}"
            )
            notes.stop_if_wrong()
    if body["mode"] in STAGED:
        body["pipeline"] = resolve_pipeline(spec, body["mode"], count, batch, notes)
    else:
        body.pop("pipeline")


def resolve_split(spec: TaskSpec, profile: DatasetProfile, reading: Reading, notes: Notes) -> dict[str, Any]:
    """Shares of validation and test, and whether classes are shared out evenly."""
    given = dict(profile.given_split)
    if given and not given.get("train"):
        notes.problem("data.split", "the upload's own split has no training rows; upload it without part folders")
    split = spec.data.split if spec.data.split != "auto" else _split_by_rows(reading.rows, notes)
    if given:
        names = ", ".join(f"{name} {rows:,}" for name, rows in profile.given_split)
        notes.note("data.split", "given", f"the upload comes with its own split ({names}), which is kept")
    for name, share in (("validation", split.validation), ("test", split.test)):
        part = "val" if name == "validation" else name
        if part not in given and share * reading.rows < 1:
            notes.problem(
                f"data.split.{name}",
                f"{share:g} of {reading.rows:,} rows is less than one row; use at least {1.5 / reading.rows:.2g}",
            )
    stratify = _stratify(split, reading, notes)
    return {"validation": split.validation, "test": split.test, "stratify": stratify, **reading.split_by.to_dict()}


def _split_by_rows(rows: int, notes: Notes) -> Split:
    if rows < 1000:
        split, reason = Split(validation=0.1, test=0.2), f"{rows:,} rows: few can be spared, but the test needs enough"
    else:
        share = round(min(0.15, 20_000 / rows), 4)
        split, reason = Split(validation=share, test=share), "enough rows for steady figures"
    notes.note("data.split.validation", split.validation, reason)
    notes.note("data.split.test", split.test, reason)
    return split


def _stratify(split: Split, reading: Reading, notes: Notes) -> bool:
    classes, by = reading.task not in NUMBER_TASKS, reading.split_by.by
    reason = "keeps the class balance in every part" + (", as far as whole groups can" if by == "group" else "")
    if not classes:
        reason = "only classes can be balanced"
        if split.stratify is True:
            notes.problem("data.split.stratify", "only classification can be stratified; set false or auto")
    elif by == "time":
        reason = "the order in time says which rows lie in which part"
        if split.stratify is True:
            notes.problem("data.split.stratify", "rows in the order of time cannot be stratified; set false or auto")
    stratify: bool = notes.choose("data.split.stratify", split.stratify, classes and by != "time", reason)
    return stratify


def _check_train_rows(spec: TaskSpec, facts: Facts, split: dict[str, Any], notes: Notes) -> None:
    """Note a split that leaves the ranks too little for one step."""
    count = 1 if spec.resources.count == "auto" else spec.resources.count
    least = LEAST_ROWS_PER_RANK * count
    if facts.train_rows < least:
        shares = f"validation {split['validation']:g} + test {split['test']:g} of {facts.rows:,} rows"
        need = f"at least {least} are needed for {counted(count, 'rank')}"
        notes.problem("data.split", f"impossible split: {shares} leaves {facts.train_rows:,} to train on; {need}")


def train_rows(profile: DatasetProfile, reading: Reading, split: dict[str, Any]) -> int:
    """Rows left to train on; of a forecast the examples that are made of them."""
    given = dict(profile.given_split)
    if not given:
        left: float = 1 - split["validation"] - split["test"]
        return max(1, round(reading.rows * left) * reading.examples_each)
    pool = given.get("train", reading.rows)
    lacking: float = sum(split[name] for name, part in (("validation", "val"), ("test", "test")) if not given.get(part))
    return max(1, round(float(pool) * (1 - lacking)))


def facts_of(
    spec: TaskSpec,
    profile: DatasetProfile,
    reading: Reading,
    split: dict[str, Any],
    hardware: Hardware,
    notes: Notes,
    *,
    is_own: bool = False,
) -> Facts:
    """What the catalog wants to know."""
    images = profile.images
    metric = _metric(spec, reading, notes)
    device, devices, memory = pick_device(spec, reading, hardware, notes, is_own=is_own)
    names = [name for name, _ in reading.classes]
    return Facts(
        task=reading.task,
        rows=reading.rows,
        train_rows=train_rows(profile, reading, split),
        outputs=reading.outputs,
        metric=metric,
        rarest_share=min((rows for _, rows in reading.classes), default=0) / max(1, reading.rows),
        features=len(reading.shape.get("features", ())),
        texts_alone=bool(reading.shape.get("texts")) and set(reading.shape["texts"]) == set(reading.features),
        cardinalities=tuple(reading.shape.get("cardinalities", ())),
        channels=images.channels if images else 0,
        native_size=min(images.width_median, images.height_median) if images else 0,
        photos=bool(images and images.channels == 3) and any(len(name) > 1 and not name.isdigit() for name in names),
        device=device,
        devices=devices,
        memory_bytes=memory,
        time_s=None if spec.budget.time_s == "auto" else spec.budget.time_s,
    )


def _metric(spec: TaskSpec, reading: Reading, notes: Notes) -> Metric:
    allowed: tuple[Metric, ...]
    if reading.task in NUMBER_TASKS:
        guess, reason, allowed = Metric.R2, "share of the target's spread that is explained", NUMBER_METRICS
    else:
        largest = max((rows for _, rows in reading.classes), default=0) / max(1, reading.rows)
        allowed = CLASS_METRICS
        guess, reason = Metric.ACCURACY, "share of rows that are right"
        if spec.training.class_weights == "balanced":
            guess, reason = Metric.BALANCED_ACCURACY, "all classes count alike in the loss, and so in the choice"
        elif largest > 0.9:
            guess = Metric.MACRO_F1
            reason = f"one class holds {share_words(largest, 0)} of the rows, so accuracy would say little"
    metric: Metric = notes.choose("objective.metric", spec.objective.metric, guess, reason)
    if metric not in allowed:
        what, other = ("a number", "of classes") if reading.task in NUMBER_TASKS else ("a class", "of numbers")
        words = f"{metric} is a metric {other}, and the task predicts {what} ({reading.task})"
        notes.problem("objective.metric", f"{words}; use {', '.join(allowed)}")
    return metric


def _resources(spec: TaskSpec, facts: Facts, choice: Choice, notes: Notes) -> dict[str, Any]:
    count, is_own = spec.resources.count, choice.trained_as.name == OWN
    if count == "auto":
        count, reason = 1, "one device is enough"
        total_s = train_flops(facts, choice.cost) * choice.training["epochs"] / CPU_FLOPS_PER_S
        if facts.device == "cpu" and total_s > SHORT_RUN_S:
            count, reason = facts.devices, "the work is long enough to share out over cores"
        elif spec.mode in SEVERAL and facts.devices > 1:
            count, reason = facts.devices, f"mode {spec.mode} shares the work out over devices"
        elif is_own:
            reason = "nothing is known of your model's cost; ask for more if it is large"
        if spec.mode in STAGED:
            count, reason = staged_devices(spec, facts.devices, notes), "one per stage of the model"
        notes.note("resources.count", count, reason)
    memory_why = MEMORY_OF_OWN if is_own else MEMORY_LEFT_OPEN
    memory = notes.choose("resources.memory_gib", spec.resources.memory_gib, "auto", memory_why)
    split = notes.choose(
        "resources.split",
        spec.resources.split,
        "by_speed",
        "unlike devices finish a step together, like ones take as many rows each while none is lastingly slower",
    )
    named = spec.resources.device_model
    model = {} if named == "auto" else {"device_model": named}
    return {"device": facts.device, **model, "count": count, "memory_gib": memory, "split": split}


def _checkpoints(spec: TaskSpec, epochs: int, notes: Notes) -> dict[str, Any]:
    wish = spec.checkpoints
    every = max(1, epochs // 20)
    return {
        "every_epochs": notes.choose("checkpoints.every_epochs", wish.every_epochs, every, "about twenty over the run"),
        "every_minutes": notes.choose(
            "checkpoints.every_minutes", wish.every_minutes, 5.0, "the most that a fault can cost"
        ),
        "keep": notes.choose("checkpoints.keep", wish.keep, 3, "the newest few, besides the best"),
    }
