"""Small pools, jobs and what becomes of them when a decision is carried out at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from scheduler.place import place
from scheduler.types import (
    ChangeKind,
    DeviceView,
    JobView,
    NodeView,
    Option,
    PoolView,
    Quota,
    Reserved,
    Running,
)

GIB = 2**30


def node(name="n1", *, cpus=2, gpus=0, busy=(), level=3, memory_gib=16, held_gib=0, takes_work=True, near="", **more):
    """`busy` names devices that somebody holds; `reserved` and `models` are by device, like `cuda0`."""
    models, reserved = more.get("models", {}), more.get("reserved", {})
    kinds = [("cpu", index) for index in range(cpus)] + [("cuda", index) for index in range(gpus)]
    devices = tuple(
        DeviceView(
            device_id=f"{name}/{kind}{index}",
            kind=kind,
            index=index,
            free=f"{kind}{index}" not in busy,
            model_name=models.get(f"{kind}{index}", ""),
            reserved=reserved.get(f"{kind}{index}", ()),
        )
        for kind, index in kinds
    )
    return NodeView(
        name=name,
        takes_work=takes_work,
        sandbox_level=level,
        memory_bytes=memory_gib * GIB,
        memory_held_bytes=held_gib * GIB,
        devices=devices,
        near=near,
    )


def pool(*nodes, spans=False):
    return PoolView(nodes=nodes, spans_nodes=spans)


def way(count=1, *, kind="cpu", run_s=0.0, memory_gib=0, model=""):
    """`run_s=0`: no estimate."""
    return Option(
        kind=kind,
        count=count,
        model_name=model,
        rate_per_s=1 / run_s if run_s else 0.0,
        power_w=100.0 * count,
        memory_bytes=memory_gib * GIB,
    )


def job(job_id, *options, at=0.0, **more):
    return JobView(job_id=job_id, options=options or (way(),), submitted_s=at, **more)


def hard_quota(devices, kinds=None, *, name=""):
    """A quota whose project never borrows; of some kinds only where they are named."""
    return Quota(devices=devices, hard=frozenset(devices if kinds is None else kinds), name=name)


def runs(view, node_name, *devices, since=0.0, leaving=False, option=None):
    """The job, running on devices like `cpu0`."""
    return replace(
        view,
        running=Running(
            option=option or view.options[0],
            nodes=(node_name,),
            device_ids=tuple(f"{node_name}/{device}" for device in devices),
            started_s=since,
            last_change_s=since,
            leaving=leaving,
        ),
    )


def _counts(move):
    """Devices on each node of a start or a change."""
    there = Counter(device.partition("/")[0] for device in move.device_ids)
    return tuple(there[node_] for node_ in move.nodes)


def carry_out(decision, jobs, view, now_s):
    """(jobs, pool) once everything has happened at once: paused jobs have left, gangs have started, wherever they were
    lost before."""
    by_id = {job_.job_id: job_ for job_ in jobs}
    for change in decision.changes:
        by_id[change.job_id] = replace(
            by_id[change.job_id],
            running=None
            if change.kind is ChangeKind.PAUSE
            else replace(
                by_id[change.job_id].running,
                option=change.option,
                nodes=change.nodes,
                device_ids=change.device_ids,
                counts=_counts(change),
                last_change_s=now_s,
            ),
        )
    for start in decision.placements:
        by_id[start.job_id] = replace(
            by_id[start.job_id],
            running=Running(
                option=start.option,
                nodes=start.nodes,
                device_ids=start.device_ids,
                counts=_counts(start),
                started_s=now_s,
                last_change_s=now_s,
            ),
            avoid={},
        )
    for job_id in decision.promised:
        by_id[job_id] = replace(by_id[job_id], promised=True)
    jobs_after = [by_id[job_.job_id] for job_ in jobs]
    return jobs_after, held_by(jobs_after, view, jobs)


def held_by(jobs, view, before=()):
    """The pool with exactly these jobs on it; what jobs not shown `before` hold stays held."""
    held = {device for job_ in jobs if job_.running for device in job_.running.device_ids}
    freed = {device for job_ in before if job_.running for device in job_.running.device_ids} - held
    memory = Counter()
    for sign, group in ((-1, before), (1, jobs)):
        for job_ in group:
            for name, share in job_.running.memory_on.items() if job_.running else ():
                memory[name] += sign * share
    return replace(
        view,
        nodes=tuple(
            replace(
                node_,
                memory_held_bytes=node_.memory_held_bytes + memory[node_.name],
                devices=tuple(
                    replace(device, free=device.device_id not in held and (device.free or device.device_id in freed))
                    for device in node_.devices
                ),
            )
            for node_ in view.nodes
        ),
    )


def _way(random):
    return way(
        random.choice([1, 1, 2, 2, 3, 4, 5]),
        kind=random.choice(["cpu", "cpu", "cuda"]),
        run_s=random.choice([0.0, 50.0, 100.0, 400.0]),
        memory_gib=random.choice([0, 0, 0, 4, 12, 20]),
        model=random.choice(["", "", "", "A"]),
    )


def _job(random, number):
    return job(
        f"j{number:02}-{random.randrange(100)}",
        *(_way(random) for _ in range(random.choice([1, 1, 2]))),
        at=random.uniform(0, 100),
        priority=random.choice([0, 0, 1, 2, -1]),
        rank=random.choice([0, 0, 0, -1, 1]),
        project=random.choice("pqr"),
        minimum_sandbox_level=random.choice([0, 0, 1, 3]),
        slowdown=random.choice([1.0, 1.5]),
        can_pause=random.random() < 0.6,
    )


def _reserved(random):
    start_s = random.choice([0.0, 150.0, 300.0])
    return (Reserved(start_s=start_s, end_s=random.choice([350.0, 1000.0]), project=random.choice(["", "p"])),)


def _node(random, number):
    cpus, gpus = random.choice([0, 1, 2, 3, 4, 8]), random.choice([0, 0, 1, 2, 3])
    names = [f"cpu{index}" for index in range(cpus)] + [f"cuda{index}" for index in range(gpus)]
    return node(
        f"n{number}",
        cpus=cpus,
        gpus=gpus,
        busy=tuple(name for name in names if random.random() < 0.15),
        level=random.choice([1, 3, 3]),
        memory_gib=random.choice([2, 16, 32]),
        takes_work=random.random() < 0.9,
        models={name: "A" for name in names if random.random() < 0.5},
        reserved={name: _reserved(random) for name in names if random.random() < 0.08},
        near=random.choice(["", "rack1", "rack2"]),
    )


def _quota(random):
    """Each kind that it limits is hard or not."""
    devices = {kind: random.randint(0, 5) for kind in ("cpu", "cuda") if random.random() < 0.7}
    (hard,) = random.choices([(), ("cpu",), ("cuda",), ("cpu", "cuda")])
    return hard_quota(devices, devices.keys() & hard)


def scene(seed):
    """(jobs, pool, quotas) of all sorts. Drawn from one number: drawing each part by hypothesis costs far more."""
    random = Random(seed)
    jobs = [_job(random, number) for number in range(random.randint(1, 12))]
    quotas = {name: _quota(random) for name in "pq" if random.random() < 0.5}
    view = pool(*(_node(random, number) for number in range(random.randint(0, 4))), spans=random.random() < 0.4)
    return [_lost(random, job_, view) for job_ in jobs], view, quotas


def moded(seed):
    """The same where gangs may span nodes and each way has a mode: some stay on one node."""
    (jobs, view, quotas), random = scene(seed), Random(seed + 2)
    return [_moded(random, job_) for job_ in jobs], replace(view, spans_nodes=True), quotas


def mixed(seed):
    """The same of two models of devices, where some gangs are a mixture of both."""
    (jobs, view, quotas), random = moded(seed), Random(seed + 9)
    nodes = [
        replace(node_, devices=tuple(replace(device, model_name=device.model_name or "B") for device in node_.devices))
        for node_ in view.nodes
    ]
    jobs = [replace(job_, options=tuple(_mixed(random, option) for option in job_.options)) for job_ in jobs]
    return jobs, replace(view, nodes=tuple(nodes)), quotas


def weak(seed):
    """The same, of nodes that most have a weaker sandbox, or none."""
    (jobs, view, quotas), random = mixed(seed), Random(seed + 5)
    nodes = [replace(node_, sandbox_level=random.choice([0, 0, 1, 3])) for node_ in view.nodes]
    return jobs, replace(view, nodes=tuple(nodes)), quotas


def _mixed(random, option):
    if option.count == 1 or option.mode not in {"", "sync"} or random.random() >= 0.5:
        return option
    first = random.randint(1, option.count - 1)
    return replace(option, model_name="A+B", parts=(("A", first), ("B", option.count - first)))


def _moded(random, job_):
    modes = [random.choice(["", "single", "replicated", "sync"]) for _ in job_.options]
    return replace(
        job_, options=tuple(replace(option, mode=mode) for option, mode in zip(job_.options, modes, strict=True))
    )


def dated(seed):
    """The same where some jobs have a deadline, close or far."""
    (jobs, view, quotas), random = scene(seed), Random(seed + 1)
    return [_dated(random, job_) for job_ in jobs], view, quotas


def _dated(random, job_):
    known = any(option.rate_per_s for option in job_.options)
    dated_ = replace(job_, deadline_s=random.choice([260.0, 320.0, 500.0, 800.0, 2200.0]))
    return dated_ if known and random.random() < 0.6 else job_


def _lost(random, job_, view):
    """Some jobs were lost on some nodes."""
    if random.random() < 0.8:
        return job_
    return replace(job_, avoid={node_.name: random.randint(1, 3) for node_ in view.nodes if random.random() < 0.5})


def comes_to_rest(jobs, view, now_s, **how):
    """Whether decisions that are carried out at once end, after at most one more than there are jobs."""
    for _ in range(len(jobs) + 2):
        decision = place(jobs, view, now_s, **how)
        if not decision.placements and not decision.changes:
            return True
        jobs, view = carry_out(decision, jobs, view, now_s)
    return False
