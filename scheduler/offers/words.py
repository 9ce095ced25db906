"""The sentences of an offer: what is offered, why nothing is, what would have to change. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from codegen.modes import STAGED
from scheduler.estimation.pipelines import PIPELINES
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.bringing import Bringing
from scheduler.offers.values import NEAR_S, Hindrance, OfferLine, Wish, finish_told_s
from worker.words import counted, duration_words, energy_unit, number_words, size_words

NO_PROMISE = (
    "No finish can be promised now: a job that has waited for more than a day goes first, "
    "or nobody can tell when the devices come free."
)
NO_LATER = (
    "This deadline cannot be kept, and no later one was found that can be: jobs are served by their deadlines, and "
    "with a later one it would stand behind more of them."
)
NOT_OF_BORROWED = (
    "No finish can be promised: it takes more devices than the project's quota. More are lent while no other project "
    "wants them, and are taken back when one does."
)
BORROWED_WAY = "More than the project's quota: these are lent, and no finish is promised on them."
LARGER_QUOTA = "Ask an admin for a larger quota of the project, or submit it without a deadline."
_KINDS = {"cpu": ("CPU core", "CPU cores"), "cuda": ("GPU", "GPUs")}


def energy_words(energy_j: float, *, beside_j: float = 0.0) -> str:
    """`830 J`, `12.4 Wh`, `3.1 kWh`; in the unit of the larger one it stands beside, where there is one."""
    size_j, unit = energy_unit(energy_j, beside_j)
    return f"{number_words(energy_j / size_j, 3)} {unit}"


def energy_range_words(low_j: float, high_j: float, *, beside_j: float = 0.0) -> str:
    """`0.128 to 2.4 Wh`: both ends in the unit of the upper one, or of a larger one beside it; `100 J to 1.1 kWh` where
    little would be left of the lower one."""
    low, high = (energy_words(end_j, beside_j=max(high_j, beside_j)) for end_j in (low_j, high_j))
    (figure, unit), high_unit = low.split(" "), high.split(" ")[1]
    return f"{figure} to {high}" if unit == high_unit else f"{low} to {high}"


_MODES = {
    "single": ", one process",
    "replicated": ", one process with a replica on each",
    "sync": ", one rank each",
    "async": ", one rank each, with parameter servers",
    "pipeline": ", a stage of the model on each",
    "pipeline+sync": ", several pipelines",
}


def devices_words(allocation: Allocation) -> str:
    """`2 CPU cores (Xeon), one rank each`."""
    one, many = _KINDS.get(allocation.kind, (allocation.kind, allocation.kind))
    words = counted(allocation.count, one, many)
    if allocation.model_name:
        words += f" ({allocation.model_name})"
    if allocation.count > 1:
        words += _MODES.get(allocation.mode, f", mode {allocation.mode}")
    if allocation.mode == PIPELINES and allocation.stages:
        words += f" of {allocation.stages} stages"
    if split := split_words(allocation):
        words += f", {split}"
    return words


def split_words(allocation: Allocation) -> str:
    """`rows of a step: 2 x 43 + 1 x 10`: what each rank of each model of a mixture begins with; empty for others, and
    for stages, which all see the same rows."""
    if not allocation.parts or allocation.mode in STAGED:
        return ""
    said, first = [], 0
    for _, count in allocation.parts:
        rows = allocation.batch_split[first : first + count]
        first += count
        said.append(f"{count} x {min(rows)}" + (f" to {max(rows)}" if min(rows) < max(rows) else ""))
    return f"rows of a step: {' + '.join(said)}"


def way_words(line: OfferLine, *, beside_j: float = 0.0) -> str:
    """What the line offers, in one sentence; its energy in the unit of the largest that it stands beside."""
    estimate = line.estimate
    within = duration_words(line.bringing.high_s + estimate.run_s.high, up=True)
    data = f", of that {words}" if (words := _data_words(line.bringing)) else ""
    return (
        f"{devices_words(line.allocation)}: done within {within} of its start "
        f"({estimate.time_basis}){data}, {energy_told(line, beside_j=beside_j)}."
    )


def _data_words(bringing: Bringing) -> str:
    """`up to 3 min for its data (measured)`: how much comes to where is told with the line."""
    return f"{_most_words(bringing)} for its data ({bringing.basis})" if bringing.seconds else ""


def _most_words(bringing: Bringing) -> str:
    """`up to 3 min`; `2 min` where it is no less."""
    most, took = (duration_words(seconds, up=True) for seconds in (bringing.high_s, bringing.seconds))
    return f"up to {most}" if took != most or bringing.least_s < bringing.seconds else most


def bringing_words(bringing: Bringing) -> str:
    """`up to 3 min, likely 2 min, to bring 3.1 GiB to node b (measured)`; empty where nothing is brought."""
    if not bringing.seconds:
        return ""
    took, several = duration_words(bringing.seconds, up=True), bringing.least_s < bringing.seconds
    likely = "" if several or took == duration_words(bringing.high_s, up=True) else f", likely {took},"
    what = f"{size_words(bringing.size_bytes)} to node {bringing.node} ({bringing.basis})"
    return f"{_most_words(bringing)}{likely} to bring {what}"


def energy_told(line: OfferLine, *, beside_j: float = 0.0) -> str:
    """`about 44.7 J (assumed)`: never without what it rests on."""
    energy_j = line.energy_j
    words = energy_words(energy_j.mid, beside_j=max(beside_j, energy_j.high))
    return f"about {words} ({line.energy_basis})"


def chance_words(chance: float) -> str:
    """`35 %`; nothing is sure, and nothing that is told is impossible."""
    return f"{min(99.0, max(1.0, 100.0 * chance)):.0f} %"


def later_words(seconds: float) -> str:
    """How much later a told moment is: to the second where it is near, and never less than it is."""
    return duration_words(math.ceil(seconds), up=seconds >= NEAR_S)


NO_HOST_MEMORY = "The nodes have less memory than is fixed for the run."


def memory_words(estimate: Estimate, limit_bytes: int) -> str:
    """Why it does not fit."""
    return f"Needs up to {size_words(estimate.peak_bytes.high)} per rank; there are {size_words(limit_bytes)}."


def refusal_text(
    lines: Sequence[OfferLine],
    now_s: float,
    deadline_s: float | None,
    earliest_finish_s: float | None,
    wish: Wish,
) -> str:
    """Why nothing is offered, in one sentence."""
    if deadline_s is not None and deadline_s <= now_s:
        return "The deadline has already passed."
    if not lines:
        return "No node that takes work has a device for this job."
    if missing := _missing_words(lines, wish):
        return missing
    if not wish.open and not any(wish.allows(line.allocation) for line in lines):
        if wish.least is not None:
            return f"On these devices the job could not go on with {wish.least} of its ranks."
        if wish.mode is not None:
            return f"Mode {wish.mode} is no way to run this job on the devices you asked for."
    if earliest_finish_s is not None and deadline_s is not None:
        later = later_words(finish_told_s(earliest_finish_s, now_s) - deadline_s)
        return f"No option meets this deadline: the earliest finish that can be promised is {later} later."
    if late := [line for line in lines if line.hindrance is Hindrance.DEADLINE]:
        return NOT_OF_BORROWED if all(line.borrows for line in late) else NO_PROMISE
    kinds = {line.hindrance for line in lines}
    if kinds == {Hindrance.MEMORY}:
        is_fixed = all(line.estimate.fits for line in lines)
        return NO_HOST_MEMORY if is_fixed else "The job does not fit into the memory of any device."
    if any(lacks_quota_alone(line, now_s, deadline_s, wish) for line in lines):
        return "The project's quota is too small for this job."
    if Hindrance.NOT_WISHED in kinds and kinds <= {Hindrance.NOT_WISHED, Hindrance.MEMORY, Hindrance.QUOTA}:
        return "The devices you asked for cannot run this job."
    return "That many devices are not expected to be free."


def kept_out_words(way: Allocation, wish: Wish) -> str:
    """Why the person's own choices keep a way out."""
    if wish.bears_loss(way):
        return f"You asked for {', '.join(words for one, words in _choices(wish) if not one.allows(way))}."
    return f"It could not go on with {wish.least} of its ranks, as resources.least asks for."


def bound_words(wish: Wish) -> str:
    """Which choices of the person's the offer keeps to, and the way out; empty where there are none."""
    choices = [words for _, words in _choices(wish)]
    if not choices:
        return ""
    return (
        f"Bound to what you fixed: {', '.join(choices)}. To have other ways recommended, set these to auto in the "
        "spec, or leave them open when you ask."
    )


def _choices(wish: Wish) -> list[tuple[Wish, str]]:
    """Each choice of devices and of how they work together by itself, in words with its field of the spec."""
    many = _KINDS.get(wish.kind or "", ("", str(wish.kind)))[1]
    choices = [
        (Wish(kind=wish.kind), f"{many} (resources.device)"),
        (Wish(model_name=wish.model_name), f"{wish.model_name} (resources.device_model)"),
        (Wish(count=wish.count), f"{counted(wish.count or 0, 'device')} (resources.count)"),
        (Wish(mode=wish.mode), f"mode {wish.mode} (mode)"),
    ]
    return [choice for choice in choices if choice[0] != Wish()]


def _missing_words(lines: Sequence[OfferLine], wish: Wish) -> str:
    """Which devices that the person fixed the pool does not have; empty where it has them."""
    most, (one, many), of = had_together(lines, wish), *_wished_words(wish)
    if most is None:
        return ""
    if not most:
        models = sorted({line.allocation.model_name for line in lines if _may_be(line.allocation, wish)})
        known = f" It has {', '.join(models)}." if wish.model_name and models else ""
        return f"The pool has no {one}{of} that takes work.{known}"
    # Mixtures in which one device would only delay the others are no lines.
    if _has_unlike(lines, wish):
        like = f"The pool has no {wish.count} {many} of one model together that take work: {most} at most"
        return f"{like}; nor unlike ones that would be quicker together."
    return f"The pool has no {wish.count} {many}{of} together that take work: {most} at most."


def _has_unlike(lines: Sequence[OfferLine], wish: Wish) -> bool:
    """Whether there are as many of the devices that the person fixed as were asked for, of several models."""
    of_model: dict[str, int] = {}
    for way in (line.allocation for line in lines if alike(wish).allows(line.allocation)):
        for name, count in way.by_model:
            of_model[name] = max(count, of_model.get(name, 0))
    return len(of_model) > 1 and sum(of_model.values()) >= (wish.count or 0)


def had_together(lines: Sequence[OfferLine], wish: Wish) -> int | None:
    """How many of the devices that the person fixed can be had at once, at most; None: as many as were asked for."""
    if any(wish.devices.allows(line.allocation) for line in lines):
        return None
    return max((line.allocation.count for line in lines if alike(wish).allows(line.allocation)), default=0)


def reserved_text(lines: Sequence[OfferLine], wish: Wish, until: str) -> str:
    """The same as of devices that the pool does not have, where it has them, but reserved, the first `until` then."""
    most, (one, many), of = had_together(lines, wish), *_wished_words(wish)
    if not most:
        return f"Every {one}{of} that this job could take is reserved for something else, the first until {until}."
    return f"Of {wish.count} {many}{of} only {most} can be had now: others are reserved, the first until {until}."


def _wished_words(wish: Wish) -> tuple[tuple[str, str], str]:
    """((one device, many) of the kind, its model in brackets)."""
    return _KINDS.get(wish.kind or "", ("device", "devices")), f" ({wish.model_name})" if wish.model_name else ""


def alike(wish: Wish) -> Wish:
    """For any number of the same devices."""
    return replace(wish.devices, count=None)


def _may_be(allocation: Allocation, wish: Wish) -> bool:
    """Whether it is of one named model, of the kind that is wished."""
    return bool(allocation.model_name) and not allocation.parts and wish.kind in {None, allocation.kind}


def lacks_quota_alone(line: OfferLine, now_s: float, deadline_s: float | None, wish: Wish) -> bool:
    """Whether a larger quota would let it be offered: it is what the person asked for, and fits, on time if at once."""
    soonest_s = now_s + line.before_s + line.bringing.high_s + line.estimate.run_s.high
    in_time = deadline_s is None or soonest_s <= deadline_s
    return line.hindrance is Hindrance.QUOTA and wish.allows(line.allocation) and in_time
