"""Price a workload on the whole pool: the devices there are, when they fall free, what each way costs.

Reads only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from django.utils import timezone

from harness.accounts.models import Project
from harness.calibration.known import device_models
from harness.estimates.before import tests_told, with_tests
from harness.estimates.bringing import bringing_notes, with_bringing
from harness.estimates.models import OfferRow
from harness.estimates.openings import Key, device_key, openings_read, reservations_now
from harness.estimates.over_nodes import link_notes, links_read, over_nodes
from harness.estimates.promising import with_promises
from harness.jobs.control.plans import MEMORY_FLOOR_BYTES, MEMORY_SHARE
from harness.jobs.options import work_left
from harness.pool.models import Device, DeviceKind, Node, NodeState, Quota
from harness.pool.selectors import span_problem
from harness.pool.services import pool_setting_get
from harness.rates.wishes import untested_steps
from scheduler.estimation.doubt import twice_words
from scheduler.estimation.estimate import estimate_all
from scheduler.estimation.pipelines import PIPELINE
from scheduler.estimation.probe import Probe
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Estimate
from scheduler.kinds import real_name
from scheduler.offers.mixtures import mixed_estimates
from scheduler.offers.recommend import candidates, recommend, reserved_offer
from scheduler.offers.values import Candidate, DeviceGroup, Offer, Wish
from scheduler.offers.words import devices_words
from scheduler.placing.openings import earliest_together_s
from scheduler.types import Option
from scheduler.workload import Workload
from worker.words import counted

Nodes = tuple[str, ...]
IDLE_CPU_BYTES = 256 << 20
"""A process that has imported torch and Horovod and done nothing (CPU build: 224 MiB measured)."""
IDLE_CUDA_BYTES = 600 << 20
"""What a CUDA context takes of a GPU's memory before the first tensor (assumed: it depends on driver and kernels)."""


def groups_read(project: Project | None, *, memory_bytes: int = 0) -> tuple[DeviceGroup, ...]:
    """The kinds of device of nodes that take work, without devices reserved now for others, and the project's quota.

    `memory_bytes`: what the person fixed for the whole run; 0: the share that goes with the devices.
    """
    now = timezone.now()
    reserved = {row.node_id or row.device_id or "" for row in reservations_now(project, now)}
    nodes: dict[Key, dict[str, list[Device]]] = defaultdict(lambda: defaultdict(list))
    up = Node.objects.filter(state=NodeState.UP).prefetch_related("devices")
    rows = [device for node in up for device in node.devices.all()]
    for device in rows:
        if device.away_since is None and device.pk not in reserved and device.node_id not in reserved:
            nodes[device_key(device.kind, device.model_name, device.slowdown)][device.node_id].append(device)
    cores: dict[str, int] = defaultdict(int)
    gpus: dict[str, int] = defaultdict(int)
    for device in rows:
        (cores if device.kind == DeviceKind.CPU else gpus)[device.node_id] += 1
    quotas = {row.device_kind: row.devices for row in Quota.objects.filter(project=project, may_borrow=False)}
    setting, holding = pool_setting_get(), [node for node in up if node.devices.all()]
    spans = setting.span_nodes and not span_problem(holding, setting.network_encryption)
    groups = [
        _group(key, by_node, cores, gpus, quotas.get(key[0]), memory_bytes) for key, by_node in sorted(nodes.items())
    ]
    return tuple(replace(group, spans_nodes=spans) for group in groups)


def kinds_known() -> frozenset[Key]:
    """Kind and name of every device in the pool, whether its node takes work or not."""
    return frozenset(device_key(*row) for row in Device.objects.values_list("kind", "model_name", "slowdown"))


def option_known(option: Option, known: Collection[Key]) -> bool:
    """Whether the pool has such devices at all."""
    wanted = [(option.kind, name) for name, _ in option.parts] or [option.key]
    return not option.model_name or all(key in known for key in wanted)


def most_together() -> dict[Key, int]:
    """Devices of each kind and name that one job can hold at most; nodes that are down or drained count, too."""
    sizes: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for kind, name, slowdown, node in Device.objects.filter(away_since=None).values_list(
        "kind", "model_name", "slowdown", "node"
    ):
        sizes[device_key(kind, name, slowdown)][node] += 1
    spans = pool_setting_get().span_nodes
    return {key: (sum if spans else max)(by_node.values()) for key, by_node in sizes.items()}


def option_there(option: Option, most: Mapping[Key, int]) -> bool:
    """Whether the pool has as many of such devices as the option takes."""
    parts = option.parts or ((option.model_name, option.count),)
    return not option.model_name or all(most.get((option.kind, name), 0) >= count for name, count in parts)


def _reserved_until_s(project: Project | None) -> float | None:
    """Unix time of the first end of what keeps this project's jobs off devices that take work; None: nothing does."""
    there = Device.objects.filter(node__state=NodeState.UP, away_since=None).exists()
    rows = reservations_now(project, timezone.now()) if there else []
    return rows[0].ends_at.timestamp() if rows else None


def _reserved_note(project: Project | None) -> list[str]:
    """What is left out because it is reserved, in a sentence: else a pool in calibration looks like an empty one."""
    rows = reservations_now(project, timezone.now())
    if not rows:
        return []
    until = rows[0].ends_at.strftime("%Y-%m-%d %H:%M")
    return [
        f"Reserved devices are not offered ({counted(len(rows), 'reservation')}, the first ends {until} UTC); "
        "the pool's page of reservations shows for what. Ask again then."
    ]


def _declared_note(groups: Sequence[DeviceGroup]) -> list[str]:
    """Whose speed is no property of the device."""
    slow = [group.model_name or group.kind for group in groups if real_name(group.model_name)[1] > 1.0]
    if not slow:
        return []
    return [
        f"Emulated: {'; '.join(slow)}. Steps on these devices are stretched to that many times their length and "
        "estimated accordingly; their power is taken to be that of the busy device."
    ]


def _group(
    key: Key,
    by_node: Mapping[str, list[Device]],
    cores: Mapping[str, int],
    gpus: Mapping[str, int],
    quota: int | None,
    memory_bytes: int,
) -> DeviceGroup:
    kind, model_name = key
    sizes = tuple(len(devices) for devices in by_node.values())
    first = [devices[0] for devices in by_node.values()]
    if kind == DeviceKind.CUDA:
        return DeviceGroup(
            kind=kind, model_name=model_name, sizes=sizes, nodes=tuple(by_node),
            memory_bytes=min(device.memory_bytes for device in first),
            idle_bytes=IDLE_CUDA_BYTES, quota=quota,
            threads_per_rank=min(max(1, device.node.cpu_cores // gpus[device.node_id]) for device in first),
        )  # fmt: skip
    usable = [int(device.node.memory_bytes * MEMORY_SHARE) for device in first]
    share = min(most // cores[device.node_id] for most, device in zip(usable, first, strict=True))
    return DeviceGroup(
        kind=kind, model_name=model_name, sizes=sizes, nodes=tuple(by_node), idle_bytes=IDLE_CPU_BYTES, quota=quota,
        memory_bytes=0 if memory_bytes else share,
        memory_floor_bytes=memory_bytes or min(MEMORY_FLOOR_BYTES, min(usable)),
    )  # fmt: skip


LEFT_LEAST = 0.01
"""A run that has made all its steps still starts, evaluates and saves."""
_LEFT = "Times and energy are of what is left of the run, {} of it, from its newest checkpoint."
_STAGED = "No device holds the whole model with its rows, so pipelines are priced, which cut it over several."
_ONLY = (
    "This program cannot be read without running it: its figures come from a few real steps on one device, "
    "and nothing is known of other devices or of several at once."
)
_UNCALIBRATED = (
    "No calibration of {} yet: its figures {}, with wide ranges. An admin can calibrate it on the pool page."
)
_SHEETS = "are assumed from data sheets"
_SHIPPED = "come from a calibration of {} that ships with the harness"
_ELSEWHERE = (
    "What this program takes is known only for {}, where a few real steps were tried, and not of what you asked for."
)


def estimates_of(
    workload: Workload,
    ways: tuple[Candidate, ...],
    probes: Mapping[Key, Probe] | None = None,
    *,
    even: bool = False,
) -> dict[Allocation, Estimate]:
    """Every way priced, by the candidate's allocation; each kind of device read and each step foretold once.

    Mixtures of which a device would only delay the others are left out. `even`: rows are shared out so.
    """
    by_kind: dict[tuple[Key, Nodes], list[Candidate]] = defaultdict(list)
    mixed: dict[tuple[str, Nodes], list[Candidate]] = defaultdict(list)
    for way in ways:
        if way.allocation.parts:
            mixed[way.allocation.kind, way.over_nodes].append(way)
        else:
            by_kind[(way.allocation.kind, way.allocation.model_name), way.over_nodes].append(way)
    keys = {key for key, _ in by_kind} | {(kind, name) for (kind, _), group in mixed.items() for name in _inside(group)}
    models, links = device_models(keys), links_read(ways)
    steps = Steps(workload)
    found: dict[Allocation, Estimate] = {}
    for (key, nodes), group in by_kind.items():
        pairs = [(way.allocation, way.memory_limit_bytes) for way in group]
        model = over_nodes(models[key], nodes, links, workload)
        priced = estimate_all(steps, pairs, model, probe=(probes or {}).get(model.measured_key))
        found |= {estimate.allocation: estimate for estimate in priced}
    for (kind, nodes), group in mixed.items():
        of_parts = {name: over_nodes(models[kind, name], nodes, links, workload) for name in _inside(group)}
        found |= mixed_estimates(steps, group, of_parts, probes=probes, even_shares=even)
    return found


def _inside(group: Sequence[Candidate]) -> list[str]:
    """Names of the models that any of these mixtures has."""
    return sorted({name for way in group for name, _ in way.allocation.parts})


def offer_compute(
    row: OfferRow,
    workload: Workload,
    *,
    probes: Mapping[Key, Probe] | None = None,
    only: Allocation | None = None,
) -> tuple[Offer, list[str]]:
    """(the offer of `row`, what its figures rest on in sentences). `only`: the one way of which anything is known.

    Of its job what is left is priced, and what it holds itself does not stand in its way.
    """
    project, job, wish, deadline_at = row.project, row.job, Wish(**row.wish), row.deadline_at
    groups = groups_read(project, memory_bytes=row.memory_bytes)
    openings = openings_read(groups, project=project, without=job.pk if job else "")
    ways = candidates(workload, groups, wish=wish)
    if only is not None:
        ways = tuple(way for way in ways if way.allocation == only)
    estimates = estimates_of(workload, ways, probes, even=wish.even)
    staged = _staged(workload, groups, wish) if only is None and _too_large(ways, estimates, wish) else ()
    estimates |= estimates_of(workload, staged, probes, even=wish.even)
    priced = tuple(way for way in (*ways, *staged) if way.allocation in estimates)
    ways = with_tests(untested_steps(job) if job else row.untested_steps, priced, estimates, deadline_at)
    left = max(LEFT_LEAST, work_left(job)) if job else 1.0
    now_s = timezone.now().timestamp()

    def start_of(allocation: Allocation, run_s: float) -> float | None:
        parts = allocation.parts or ((allocation.model_name, allocation.count),)
        wanted = {(allocation.kind, name): count for name, count in parts}
        return earliest_together_s(openings.held, openings.capacity, wanted, run_s=run_s, now_s=now_s)

    rest = {way.allocation: estimates[way.allocation].of_share(left) for way in ways}
    ways = with_bringing(row, with_promises(row, ways, rest), groups)
    offer = recommend(
        ways, estimate_of=lambda way: rest[way.allocation], start_of=start_of, now_s=now_s,
        deadline_s=deadline_at.timestamp() if deadline_at else None, wish=wish,
        epochs=workload.epochs if left == 1.0 else 1, epoch_steps=workload.steps_per_epoch,
    )  # fmt: skip
    offer = _explained(replace(offer, left=left), groups, project=project, only=only)
    notes = [_LEFT.format(f"{left:.0%}")] if left < 1.0 else []
    notes += [_STAGED] if staged else []
    guessed = openings.guessed and any(way.promised is None for way in ways)
    notes += _notes(list(estimates.values()), guessed, probes or {}) + _declared_note(groups)
    notes += link_notes(ways, links_read(ways), workload) + _reserved_note(project)
    notes += _looks_notes(probes or {}) + tests_told(offer) + bringing_notes(offer.lines)
    return offer, ([_ONLY] if only is not None else []) + notes


def _too_large(ways: Iterable[Candidate], estimates: Mapping[Allocation, Estimate], wish: Wish) -> bool:
    """Whether no process can hold the model and its rows on the devices that the person left open or fixed."""
    asked = [estimates[way.allocation] for way in ways if wish.allows(way.allocation) and way.allocation in estimates]
    return wish.mode is None and bool(asked) and not any(estimate.fits for estimate in asked)


def _staged(workload: Workload, groups: Sequence[DeviceGroup], wish: Wish) -> tuple[Candidate, ...]:
    """Pipelines, of which each rank holds a part of the model."""
    found = candidates(workload, groups, wish=replace(wish, mode=PIPELINE))
    return tuple(way for way in found if way.allocation.mode == PIPELINE)


def _explained(
    offer: Offer, groups: Sequence[DeviceGroup], *, project: Project | None, only: Allocation | None
) -> Offer:
    """The offer in other words where what it lacks has another reason than the pool itself."""
    if not groups and (until_s := _reserved_until_s(project)) is not None:
        offer = reserved_offer(offer, until_s)
    if only is not None and not offer.wish.allows(only):
        offer = replace(offer, text=_ELSEWHERE.format(devices_words(only)))
    return offer


def _notes(estimates: list[Estimate], guessed: bool, probes: Mapping[Key, Probe]) -> list[str]:
    ways = [way.allocation for way in estimates if not way.allocation.parts]
    models = device_models({(way.kind, real_name(way.model_name)[0]) for way in ways} - probes.keys())
    unknown = {key: model for key, model in models.items() if not model.n_points}
    by_source: dict[str, list[str]] = defaultdict(list)
    for (kind, name), model in sorted(unknown.items()):
        source = _SHIPPED.format(model.transferred.model_name) if model.transferred else _SHEETS
        by_source[source].append(name or kind)
    notes = [_UNCALIBRATED.format(", ".join(names), source) for source, names in by_source.items()]
    if guessed:
        notes.append("Start times are a guess: a job without an estimated end is using devices.")
    return notes


def _looks_notes(probes: Mapping[Key, Probe]) -> list[str]:
    """What came of probes that were made twice."""
    return [said for (kind, name), probe in probes.items() if (said := twice_words(probe, name or kind))]
