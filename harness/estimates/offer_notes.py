"""What an offer rests on and leaves out, in sentences. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils import timezone

from codegen import modes
from codegen.catalog import FAMILIES
from codegen.spec import TaskSpec
from harness.accounts.models import Project
from harness.calibration.known import ModelsRead
from harness.estimates.groups import groups_read
from harness.estimates.openings import Key, Openings, device_key, reservations_now
from harness.moments import moment_words
from harness.pool.models import Device, DeviceKind, NodeState, Reservation
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.doubt import twice_words
from scheduler.estimation.in_precision import in_precision, of_gang
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis
from scheduler.kinds import real_name
from scheduler.offers.candidates import DeviceGroup
from scheduler.offers.recommend import partly_reserved_offer, reserved_offer
from scheduler.offers.values import Offer
from scheduler.offers.words import devices_words, had_together
from scheduler.placing.obstacles import device_words
from scheduler.workload import Workload
from worker.words import counted, size_words

Models = Mapping[Key, DeviceModel]

MODEL = "The model is {}{}."
OPEN = ": chosen for you ({} {} auto), and fixed once you take an option"
LEFT = "Times and energy are of what is left of the run, {} of it, from its newest checkpoint."
CUT = "No device holds the whole model with its rows, so pipelines are priced, which cut it over several."
NORMS = "Its batch normalisation would learn from the rows of a micro-batch there, and not from those of a whole step."
DROPPED = "Stages know nothing of {}: who takes one of them leaves that open."
LEAST = (
    "resources.least is {}, but what you asked for does not go on when a rank is lost: then all start again from the "
    "newest checkpoint."
)
UNCUT = (
    "This program cannot be cut into stages: its model is no chain of parts that each hear the one before them alone, "
    "or its train.py makes steps that do not go through the run."
)
ONLY = (
    "This program cannot be read without running it: its figures come from a few real steps on one device, "
    "and nothing is known of other devices, nor of ranks with another number of rows."
)
_ALONE = (
    "Steps of one device measured ({}), messages modelled: what each rank computes on several such devices follows "
    "from these steps, and what ranks send each other is added."
)
_FOR_WHAT = "the pool's page of reservations shows for what"
GUESSED = "Start times are a guess: a job without an estimated end is using devices."
_UNCALIBRATED = (
    "Not calibrated here: {}. The figures {}, with wide ranges. An admin can calibrate such devices on the pool page."
)
_SHEETS = "are assumed from data sheets"
_SHIPPED = "come from the calibration of {} that ships with the harness"
_MOVED = (
    "On {} steps in {} are modelled from another precision, {}: products by the difference of the data sheets, with a "
    "wider range. A few real steps, or finished jobs of such programs, measure them."
)
_SCRATCH = (
    "Memory of a rank on {}: {} of it are assumed to be scratch space of the GPU's libraries, whatever the program "
    "holds itself; what they really take is known from a calibration alone."
)
_BY_HOST = (
    "Several GPUs ({}) add up gradients through the memory of the hosts, over an assumed link: {}. "
    "More of them may take longer than one."
)
_OWN, _WAIT = "The project's own jobs hold", "can start only when some of them have ended."
_ELSEWHERE = (
    "What this program takes is known only for {}, where a few real steps were tried, and not of what you asked for."
)


def model_note(spec: Mapping[str, Any], resolved: Mapping[str, Any], *, is_own: bool) -> str:
    """Which model is priced, and whether the person left it open; empty where nobody knows."""
    if is_own:
        return MODEL.format("a model.py of your own", "")
    priced, named = resolved.get("model") or {}, spec.get("model") or {}
    family, size = priced.get("family"), priced.get("size")
    if family not in FAMILIES:
        return ""
    left = [f"model.{name}" for name in ("family", "size") if named.get(name, "auto") == "auto"]
    words = f"{FAMILIES[family].word}{f', size {size}' if size else ''}"
    is_open = OPEN.format(" and ".join(left), "is" if len(left) == 1 else "are") if left else ""
    return MODEL.format(words, is_open)


def staged_notes(workload: Workload, spec: Mapping[str, Any]) -> list[str]:
    """What is otherwise in pipelines that are priced because nothing else fits; `spec` is empty where there is none."""
    read = TaskSpec.model_validate(spec) if spec else TaskSpec()
    fields = sorted({field for mode in modes.STAGED for field, _ in modes.without_effect(read, mode)})
    dropped = [DROPPED.format(" and ".join(fields))] if fields else []
    return ([NORMS] if workload.batch_norms else []) + dropped


def _in_gang(workload: Workload, way: Allocation) -> Workload:
    """The program as ranks on such devices compute it."""
    return of_gang(workload, [(way.kind, name) for name, _ in way.parts]) if way.parts else workload


def alone_notes(ways: Iterable[Allocation], workload: Workload, probes: Mapping[Key, Probe]) -> list[str]:
    """That steps of one device alone tell of several, where any way has several of it and computes in the same."""
    gangs = [way for way in ways if len(way.batch_split) > 1 and _in_gang(workload, way) is workload]
    keys = {(way.kind, real_name(name)[0]) for way in gangs for name, _ in way.by_model}
    tried = [
        f"{name or kind}, {counted(max(probe.allocation.batch_split), 'row')} of a step"
        for (kind, name), probe in sorted(probes.items())
        if (kind, name) in keys and probe.is_alone and not probe.own_run
    ]
    return [_ALONE.format("; ".join(tried))] if tried else []


def basis_notes(
    ways: Collection[Allocation], workload: Workload, probes: Mapping[Key, Probe], read: ModelsRead
) -> list[str]:
    """What the figures of devices rest on."""
    named = {(way.kind, name) for way in ways for name, _ in way.by_model}
    models = read.of(named | {(kind, real_name(name)[0]) for kind, name in named})
    return [
        *source_notes(ways, probes, models),
        *precision_notes(ways, workload, probes, models),
        *host_notes(ways, models),
    ]


def source_notes(ways: Iterable[Allocation], probes: Mapping[Key, Probe], models: Models) -> list[str]:
    """Whose figures are those of no calibration made here."""
    keys = {(way.kind, real_name(way.model_name)[0]) for way in ways if not way.parts}
    unknown = {key: models[key] for key in sorted(keys - probes.keys()) if not models[key].n_points}
    by_source: dict[str, list[str]] = defaultdict(list)
    for (kind, name), model in unknown.items():
        source = _SHIPPED.format(model.transferred.model_name) if model.transferred else _SHEETS
        by_source[source].append(name or kind)
    notes = [_UNCALIBRATED.format(", ".join(names), source) for source, names in by_source.items()]
    return notes + _scratch_notes(unknown)


def precision_notes(
    ways: Iterable[Allocation], workload: Workload, probes: Mapping[Key, Probe], models: Models
) -> list[str]:
    """Where steps are foretold from those in another precision."""
    asked: dict[tuple[Key, str], Workload] = {}
    for way in ways:
        its = _in_gang(workload, way)
        keys = {(way.kind, real_name(name)[0]) for name, _ in way.by_model}
        told = probes.keys() if its is workload else set[Key]()  # a probe ran in what its device takes alone
        asked |= {(key, its.precision): its for key in keys - told}
    by_what: dict[tuple[str, str], list[str]] = defaultdict(list)
    for ((kind, name), _), its in sorted(asked.items(), key=lambda pair: pair[0]):
        model = in_precision(models[kind, name], its)
        if model.moved is not None:
            by_what[model.precision, model.moved.precision].append(name or kind)
    return [_MOVED.format(", ".join(names), asked, known) for (asked, known), names in by_what.items()]


def _scratch_notes(models: Mapping[Key, DeviceModel]) -> list[str]:
    """Why a small program's memory is so much more than it holds on a GPU of which nobody has measured it."""
    assumed = {
        name or kind: model.memory.coefficients["base"]
        for (kind, name), model in models.items()
        if kind == DeviceKind.CUDA and model.memory.basis is Basis.ASSUMED
    }
    return [_SCRATCH.format(", ".join(assumed), size_words(max(assumed.values())))] if assumed else []


def host_notes(ways: Iterable[Allocation], models: Models) -> list[str]:
    """Of which GPUs the ranks add up through their hosts, where ways with several of them are priced so, and why."""
    summed = [way for way in ways if way.kind == DeviceKind.CUDA and len(way.batch_split) > 1]
    summed = [way for way in summed if way.mode not in modes.STAGED]
    keys = {(way.kind, name) for way in summed for name in ([part for part, _ in way.parts] or [way.model_name])}
    by_why: dict[str, list[str]] = defaultdict(list)
    for kind, name in sorted(keys):
        model = models[kind, name]
        if model.host_link is not None:
            by_why[model.host_why].append(name or kind)
    return [_BY_HOST.format(", ".join(names), why) for why, names in by_why.items()]


def looks_notes(probes: Mapping[Key, Probe]) -> list[str]:
    """What came of probes that were made twice."""
    return [said for (kind, name), probe in probes.items() if (said := twice_words(probe, name or kind))]


def declared_notes(groups: Sequence[DeviceGroup]) -> list[str]:
    """Whose speed is no property of the device."""
    slow = [group.model_name or group.kind for group in groups if real_name(group.model_name)[1] > 1.0]
    if not slow:
        return []
    return [
        f"Emulated: {'; '.join(slow)}. Steps on these devices are stretched to that many times their length and "
        "estimated accordingly; their power is taken to be that of the busy device."
    ]


def quota_notes(ways: Iterable[Allocation], openings: Openings, now_s: float) -> list[str]:
    """Of which kinds of device the project may now hold no more, or too few for some of the ways."""
    counts: dict[str, list[int]] = defaultdict(list)
    for way in ways:
        counts[way.kind].append(way.count)
    said = []
    for kind, limit in sorted(openings.quotas.items()):
        used = openings.quota_used(kind, now_s)
        if not used or used + max(counts[kind], default=-limit) <= limit:
            continue
        what, left = device_words(limit, kind), limit - used
        if left > 0:
            said.append(f"{_OWN} {used} of the {what} that its quota allows: more than {left} at once {_WAIT}")
        else:
            said.append(f"{_OWN} all that its quota allows ({what}): on such devices it {_WAIT}")
    return said


def reserved_notes(project: Project | None, *, all_of_them: bool = False) -> list[str]:
    """What is left out because it is reserved, or comes after that, in a sentence: else a pool in calibration looks
    like an empty one. `all_of_them`: no device is left, so that they are offered for the time after."""
    rows = reservations_now(project, timezone.now())
    if not rows:
        return []
    until = f"{counted(len(rows), 'reservation')}, the first ends {moment_words(rows[0].told_end)}"
    if all_of_them:
        return [f"All devices are reserved ({until}); starts are told for the time after, and {_FOR_WHAT}."]
    return [f"Reserved devices are not offered ({until}); {_FOR_WHAT}. Ask again then."]


def explained(offer: Offer, kept: Sequence[Reservation], *, project: Project | None, only: Allocation | None) -> Offer:
    """The offer in other words where what it lacks has another reason than the pool itself.

    `kept`: what keeps the job off every device now.
    """
    if kept:
        until_s = kept[0].back_at(timezone.now()).timestamp()
        offer = reserved_offer(offer, until_s, open_ended=any(row.open_ended for row in kept))
    elif (until := _wished_until(offer, project)) is not None:
        offer = partly_reserved_offer(offer, until.timestamp(), moment_words(until))
    told_of = [line.allocation for line in offer.lines]
    if only is not None and not any(offer.wish.allows(way) for way in (only, *told_of)):
        offer = replace(offer, text=_ELSEWHERE.format(devices_words(only)))
    return offer


def _wished_until(offer: Offer, project: Project | None) -> datetime | None:
    """First end of what keeps this project's jobs off the devices that were asked for; None: nothing does, or the pool
    lacks them all the same."""
    wish, is_past = offer.wish, offer.deadline_s is not None and offer.deadline_s <= offer.now_s
    if is_past or had_together(offer.lines, wish) is None:
        return None
    all_of_them = groups_read(project, with_reserved=True)
    keys = {(group.kind, group.model_name) for group in all_of_them if group.most >= (wish.count or 1)}
    keys = {key for key in keys if wish.kind in (None, key[0]) and wish.model_name in (None, key[1])}
    there = Device.objects.filter(node__state=NodeState.UP, away_since=None)
    ours = [row for row in there if device_key(row.kind, row.model_name, row.slowdown) in keys]
    ids = {row.pk for row in ours} | {row.node_id for row in ours}
    ends = (row.told_end for row in reservations_now(project, timezone.now()) if (row.node_id or row.device_id) in ids)
    return next(ends, None)


def kept_of_all(project: Project | None) -> list[Reservation]:
    """What keeps this project's jobs off, the first to end first, of a pool in which some device takes work."""
    there = Device.objects.filter(node__state=NodeState.UP, away_since=None).exists()
    return reservations_now(project, timezone.now()) if there else []
