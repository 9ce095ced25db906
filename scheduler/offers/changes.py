"""What would have to change where an offer recommends nothing, in sentences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scheduler.estimation.values import Allocation
from scheduler.offers.values import Hindrance, OfferLine, Wish, finish_told_s, likeliest_of
from scheduler.offers.words import LARGER_QUOTA, alike, chance_words, devices_words, lacks_quota_alone, later_words
from scheduler.placing.obstacles import HOW_TO_JOIN
from worker.words import size_words

NOTABLY_SOONER = 0.9
"""Other devices that take more of the time until then than this are not worth a change."""


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
        within, devices = _told_within(best, now_s), devices_words(best.allocation)
        found.append(f"Set the deadline {within} from now or later: {devices} would meet it.")
        found += _fewer_epochs(later, now_s, deadline_s, epochs, epoch_steps)
    elif late:
        lent = all(line.borrows for line in late)
        found.append(LARGER_QUOTA if lent else "Ask again later, or submit it without a deadline.")
    found += _unpromised(late, deadline_s)
    found += _other_devices(lines, now_s, deadline_s, wish)
    if any(lacks_quota_alone(line, now_s, deadline_s, wish) for line in lines):
        found.append("Ask an admin for a larger quota of the project.")
    found += _more_memory([line for line in lines if wish.allows(line.allocation)])
    if not lines:
        found.append(f"Start a node's agent, or have a drained node take work again. {HOW_TO_JOIN}")
    if not found and deadline_s is not None and deadline_s <= now_s:
        return ("Set a later deadline, and ask again: no device that was asked for could keep any.",)
    return tuple(found) or ("Ask for fewer devices, leave the devices open, or set a later deadline.",)


def _told_within(line: OfferLine, now_s: float) -> str:
    """From now to the finish as it is told: there must be time to set it as the deadline."""
    return later_words(finish_told_s(line.latest_s, now_s) - now_s)


def _more_memory(lines: Sequence[OfferLine]) -> list[str]:
    """What the job must fit into, where memory is all that is wrong with the devices asked for."""
    if not lines or any(line.hindrance is not Hindrance.MEMORY for line in lines):
        return []
    if any(line.estimate.fits for line in lines):
        return ["Fix less memory for the run (resources.memory_gib), or leave it open."]
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


def _other_devices(lines: Sequence[OfferLine], now_s: float, deadline_s: float | None, wish: Wish) -> list[str]:
    """Ways that the person's own choices keep out and that would be on time: of the same devices the one with most of
    those that there are too few of, the cheapest on just these in another mode, and the cheapest of all."""
    out = [line for line in lines if line.hindrance is Hindrance.NOT_WISHED and line.finish_s is not None]
    kept = [line for line in out if deadline_s is None or (line.promisable and line.latest_s <= deadline_s)]
    if not kept:
        return _sooner([line for line in out if line.promisable], lines, now_s, wish)
    fewer = [line for line in kept if line.allocation.count < (wish.count or 0)]
    like = [line for line in fewer if alike(wish).allows(line.allocation)]
    said: list[tuple[OfferLine, str]] = []
    if like:
        most = max(like, key=lambda line: (line.allocation.count, -line.energy_j.mid))
        said.append((most, _ask_words(most.allocation, wish)))
    if same := [line for line in kept if wish.devices.allows(line.allocation)]:
        cheapest = min(same, key=lambda line: line.energy_j.mid)
        said.append((cheapest, _open_words(cheapest.allocation, wish)))
    best = min(_by_devices(kept, wish), key=lambda line: line.energy_j.mid)
    if all(line is not best for line, _ in said):
        said.append((best, _open_words(best.allocation, wish)))
    return [words for _, words in said]


def _by_devices(out: Sequence[OfferLine], wish: Wish) -> Sequence[OfferLine]:
    """Those that the choice of devices alone keeps out; all where there are none."""
    free = replace(wish, kind=None, model_name=None, count=None)
    return [line for line in out if free.allows(line.allocation)] or out


def _sooner(out: Sequence[OfferLine], lines: Sequence[OfferLine], now_s: float, wish: Wish) -> list[str]:
    """The first of the ways that are kept out, where it is done well before all that the person asked for."""
    asked = [line.latest_s for line in lines if line.hindrance is Hindrance.DEADLINE and line.promisable]
    if not out or not asked:
        return []
    first = min(out, key=lambda line: line.latest_s)
    after_s = first.latest_s - now_s
    if after_s > NOTABLY_SOONER * (min(asked) - now_s):
        return []
    within, devices = _told_within(first, now_s), devices_words(first.allocation)
    choices = _choice_words(first.allocation, wish)
    return [f"Leave {choices} open and set the deadline {within} from now or later: {devices} would meet it."]


def _open_words(way: Allocation, wish: Wish) -> str:
    return f"Leave {_choice_words(way, wish)} open: {devices_words(way)} would do."


def _choice_words(way: Allocation, wish: Wish) -> str:
    """All of the person's choices that keep this way out."""
    barred = {
        "the devices": not wish.devices.allows(way),
        "the mode": wish.mode not in (None, way.mode),
        "resources.least": not wish.bears_loss(way),
    }
    return " and ".join(name for name, is_barred in barred.items() if is_barred)


def _ask_words(way: Allocation, wish: Wish) -> str:
    mode = f" in mode {way.mode}" if wish.mode not in (None, way.mode) else ""
    least = "" if wish.bears_loss(way) else ", with resources.least open"
    return f"Ask for {way.count}{mode}{least}: {devices_words(way)} would do."
