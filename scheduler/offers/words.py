"""The sentences of an offer: what is offered, why nothing is, what would have to change. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.bringing import Bringing
from scheduler.offers.values import Hindrance, OfferLine, Wish, likeliest_of
from scheduler.placing.obstacles import HOW_TO_JOIN
from worker.words import counted, duration_words, number_words, size_words

NO_PROMISE = (
    "No finish can be promised now: a job that has waited for more than a day goes first, "
    "or nobody can tell when the devices come free."
)
_KINDS = {"cpu": ("CPU core", "CPU cores"), "cuda": ("GPU", "GPUs")}
_KWH_J = 3.6e6


def energy_words(energy_j: float, *, beside_j: float = 0.0) -> str:
    """`830 J`, `12.4 Wh`, `3.1 kWh`; in the unit of the larger one it stands beside, where there is one."""
    size_j, unit = _energy_unit(max(energy_j, beside_j))
    return f"{number_words(energy_j / size_j, 3)} {unit}"


def energy_range_words(low_j: float, high_j: float, *, beside_j: float = 0.0) -> str:
    """`0.128 to 2.4 Wh`: both ends in the unit of the upper one, or of a larger one beside it."""
    size_j, unit = _energy_unit(max(high_j, beside_j))
    return f"{number_words(low_j / size_j, 3)} to {number_words(high_j / size_j, 3)} {unit}"


def _energy_unit(energy_j: float) -> tuple[float, str]:
    if energy_j < 1000:
        return 1.0, "J"
    return (3600.0, "Wh") if energy_j < _KWH_J else (_KWH_J, "kWh")


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
    if allocation.parts:
        words += f", {split_words(allocation)}"
    return words


def split_words(allocation: Allocation) -> str:
    """`rows of a step: 2 x 43 + 1 x 10`: what each rank of each model begins with."""
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
    data = f", of that {words}" if (words := bringing_words(line.bringing)) else ""
    return (
        f"{devices_words(line.allocation)}: done within {within} of its start "
        f"({estimate.time_basis}){data}, {energy_told(line, beside_j=beside_j)}."
    )


def bringing_words(bringing: Bringing) -> str:
    """`up to 3 min, likely 2 min, to bring 3.1 GiB to node b (measured)`; empty where nothing is brought."""
    if not bringing.seconds:
        return ""
    several = bringing.least_s < bringing.seconds
    most, took = (duration_words(seconds, up=True) for seconds in (bringing.high_s, bringing.seconds))
    likely = f", likely {took}," if took != most and not several else ""
    said = f"up to {most}{likely}" if several or likely else most
    return f"{said} to bring {size_words(bringing.size_bytes)} to node {bringing.node} ({bringing.basis})"


def energy_told(line: OfferLine, *, beside_j: float = 0.0) -> str:
    """`about 44.7 J (assumed)`: never without what it rests on."""
    energy_j = line.energy_j
    words = energy_words(energy_j.mid, beside_j=max(beside_j, energy_j.high))
    return f"about {words} ({line.energy_basis})"


def chance_words(chance: float) -> str:
    """`35 %`; nothing is sure, and nothing that is told is impossible."""
    return f"{min(99.0, max(1.0, 100.0 * chance)):.0f} %"


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
    if earliest_finish_s is not None and deadline_s is not None:
        later = duration_words(earliest_finish_s - deadline_s, up=True)
        return f"No option meets this deadline: the earliest finish that can be promised is {later} later."
    if any(line.hindrance is Hindrance.DEADLINE for line in lines):
        return NO_PROMISE
    kinds = {line.hindrance for line in lines}
    if kinds == {Hindrance.MEMORY}:
        return "The job does not fit into the memory of any device."
    if any(_lacks_quota_alone(line, now_s, deadline_s, wish) for line in lines):
        return "The project's quota is too small for this job."
    if Hindrance.NOT_WISHED in kinds and kinds <= {Hindrance.NOT_WISHED, Hindrance.MEMORY, Hindrance.QUOTA}:
        return "The devices you asked for cannot run this job."
    return "That many devices are not expected to be free."


def _missing_words(lines: Sequence[OfferLine], wish: Wish) -> str:
    """Which devices that the person fixed the pool does not have; empty where it has them."""
    most, (one, many), of = had_together(lines, wish), *_wished_words(wish)
    if most is None:
        return ""
    if not most:
        models = sorted({line.allocation.model_name for line in lines if _may_be(line.allocation, wish)})
        known = f" It has {', '.join(models)}." if wish.model_name and models else ""
        return f"The pool has no {one}{of} that takes work.{known}"
    return f"The pool has no {wish.count} {many}{of} together that take work: {most} at most."


def had_together(lines: Sequence[OfferLine], wish: Wish) -> int | None:
    """How many of the devices that the person fixed can be had at once, at most; None: as many as were asked for."""
    if any(replace(wish, mode=None, stages=None).allows(line.allocation) for line in lines):
        return None
    return max((line.allocation.count for line in lines if _alike(wish).allows(line.allocation)), default=0)


def reserved_text(lines: Sequence[OfferLine], wish: Wish, until: str) -> str:
    """The same as of devices that the pool does not have, where it has them, but reserved, the first `until` then."""
    most, (one, many), of = had_together(lines, wish), *_wished_words(wish)
    if not most:
        return f"Every {one}{of} that this job could take is reserved for something else, the first until {until}."
    return f"Of {wish.count} {many}{of} only {most} can be had now: others are reserved, the first until {until}."


def _wished_words(wish: Wish) -> tuple[tuple[str, str], str]:
    """((one device, many) of the kind, its model in brackets)."""
    return _KINDS.get(wish.kind or "", ("device", "devices")), f" ({wish.model_name})" if wish.model_name else ""


def _alike(wish: Wish) -> Wish:
    """For any number of the same devices."""
    return replace(wish, count=None, mode=None, stages=None)


def _may_be(allocation: Allocation, wish: Wish) -> bool:
    """Whether it is of one named model, of the kind that is wished."""
    return bool(allocation.model_name) and not allocation.parts and wish.kind in {None, allocation.kind}


def changes_of(
    lines: Sequence[OfferLine],
    now_s: float,
    deadline_s: float | None,
    wish: Wish,
    epochs: int,
    *,
    epoch_steps: int = 0,
) -> tuple[str, ...]:
    """What would let it be offered, the smallest change first. Each holds by itself."""
    found: list[str] = []
    late = [line for line in lines if line.hindrance is Hindrance.DEADLINE]
    if later := [line for line in late if line.promisable]:
        best = min(later, key=lambda line: line.latest_s)
        within = duration_words(best.latest_s - now_s, up=True)
        found.append(f"Set the deadline {within} from now or later: {devices_words(best.allocation)} would meet it.")
        found += _fewer_epochs(later, now_s, deadline_s, epochs, epoch_steps)
    elif late:
        found.append("Ask again later, or submit it without a deadline.")
    found += _unpromised(late, deadline_s)
    found += _other_devices(lines, deadline_s, wish)
    if any(_lacks_quota_alone(line, now_s, deadline_s, wish) for line in lines):
        found.append("Ask an admin for a larger quota of the project.")
    found += _more_memory([line for line in lines if wish.allows(line.allocation)])
    if not lines:
        found.append(f"Start a node's agent, or have a drained node take work again. {HOW_TO_JOIN}")
    return tuple(found) or ("Ask for fewer devices, leave the devices open, or set a later deadline.",)


def _lacks_quota_alone(line: OfferLine, now_s: float, deadline_s: float | None, wish: Wish) -> bool:
    """Whether a larger quota would let it be offered: it is what the person asked for, and fits, on time if at once."""
    soonest_s = now_s + line.before_s + line.bringing.high_s + line.estimate.run_s.high
    in_time = deadline_s is None or soonest_s <= deadline_s
    return line.hindrance is Hindrance.QUOTA and wish.allows(line.allocation) and in_time


def _more_memory(lines: Sequence[OfferLine]) -> list[str]:
    """What the job must fit into, where memory is all that is wrong with the devices asked for."""
    if not lines or any(line.hindrance is not Hindrance.MEMORY for line in lines):
        return []
    least = min(lines, key=lambda line: line.estimate.peak_bytes.high / max(1, line.memory_limit_bytes))
    room = size_words(least.memory_limit_bytes)
    return [f"Take a smaller batch or a smaller model: it must fit into {room} per rank."]


def _fewer_epochs(
    late: list[OfferLine], now_s: float, deadline_s: float | None, epochs: int, epoch_steps: int
) -> list[str]:
    """How many epochs would be done in time on the best of the late ways, by its upper run time.

    What is no step (start, evaluation, end) is taken to last as long with fewer of them.
    """
    if deadline_s is None or deadline_s <= now_s or epochs < 2:
        return []

    def in_time(line: OfferLine) -> float:
        run_s = line.estimate.run_s.high
        epoch_s = min(line.estimate.step_s.high * epoch_steps or math.inf, run_s / epochs)
        left_s = deadline_s - (line.start_s or now_s) - line.bringing.high_s - (run_s - epochs * epoch_s)
        return left_s / epoch_s if epoch_s else 0.0

    done = math.floor(max(map(in_time, late)))
    return [f"Train {done} epochs instead of {epochs}: those finish in time."] if 1 <= done < epochs else []


def _unpromised(late: Sequence[OfferLine], deadline_s: float | None) -> list[str]:
    """The way that is most probably on time although nobody can promise it."""
    best = likeliest_of(late, deadline_s)
    if best is None or deadline_s is None:
        return []
    devices, chance = devices_words(best.allocation), chance_words(best.chance(deadline_s))
    return [f"Submit it without a promise: {devices} would be on time with a chance of {chance}."]


def _other_devices(lines: Sequence[OfferLine], deadline_s: float | None, wish: Wish) -> list[str]:
    """Ways that the person's own choice of devices keeps out and that would be on time: of the same devices the one
    with most of those that there are too few of, and the cheapest of all."""
    if wish.open:
        return []
    kept = [
        line
        for line in lines
        if line.hindrance is Hindrance.NOT_WISHED
        and line.finish_s is not None
        and (deadline_s is None or (line.promisable and line.latest_s <= deadline_s))
    ]
    if not kept:
        return []
    best = min(kept, key=lambda line: line.energy_j.mid)
    fewer = [line for line in kept if line.allocation.count < (wish.count or 0)]
    alike = [line for line in fewer if _alike(wish).allows(line.allocation)]
    most = max(alike, key=lambda line: (line.allocation.count, -line.energy_j.mid), default=None)
    said = [_ask_words(most.allocation, wish)] if most else []
    return said if most is best else [*said, f"Leave the devices open: {devices_words(best.allocation)} would do."]


def _ask_words(way: Allocation, wish: Wish) -> str:
    mode = f" in mode {way.mode}" if wish.mode not in (None, way.mode) else ""
    return f"Ask for {way.count}{mode}: {devices_words(way)} would do."
