"""How long reading a program in the sandbox takes, and where it goes, and pricing five of them on a large pool.

    make bench-offer [ARGS="--nodes 16 --visits 5"]

Five families of programs are rendered as for people's jobs and read as a node reads them (a process of its own in the
sandbox, torch's import included); between them run processes that do only the first part of it, so that the differences
tell what each part takes. Each is read by a reader that waits for it, too, as on a node where one is ready. Then one
offer for each is priced by the portal's own code on a made pool: nodes of two models of core and of GPU, some cores
declared slower, so that mixtures are among the ways; with a deadline, so that the scheduler is asked what it would
promise of each. Beside the time by the clock stands that of the processor, which a busy machine changes less. The last
line is JSON.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from scheduler.estimation.sweep import SweepPoint
from tests.benchmarks.estimate_jobs import JOBS
from tests.benchmarks.estimate_programs import write_program
from tests.benchmarks.offer_parts import parts_s, steps_s
from tests.silent_broker import SilentBroker
from tests.waiting import wait_for
from worker.inspection import inspect
from worker.readers.pool import readers
from worker.sandbox import package_folder

BARS = {"trace_s": 3.0, "offers_s": 1.0}
CORES, GPUS, SLOWED = 32, 8, 8
"""Per node; the slowed ones are some of the cores."""


def one_per_family() -> list[SweepPoint]:
    """The first job of each family."""
    return list({job.family: job for job in reversed(JOBS)}.values())


def request_of(point: SweepPoint, root: Path) -> dict[str, Any]:
    """As control sends it to a node."""
    program, data = write_program(point, root)
    return {
        "request_id": point.point_id, "program_dir": str(program), "dataset_dir": str(data), "minimum_sandbox_level": 0,
    }  # fmt: skip


def read(request: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """(workload, seconds of the reading). Raises `RuntimeError` where the program cannot be read."""
    began_s = time.perf_counter()
    answer = inspect(request)
    taken_s = time.perf_counter() - began_s
    if not answer["ok"]:
        raise RuntimeError(f"{request['request_id']}: {answer['problem']}")
    return answer["workload"], taken_s


@contextmanager
def waiting(home: Path) -> Iterator[Callable[[], object]]:
    """A reader kept as an agent does; call what it gives to wait until it is ready."""
    os.environ |= {"DLH_HOME": str(home), "DLH_READERS": "1"}
    pool = readers()
    keeper = threading.Thread(target=pool.keep, daemon=True)
    keeper.start()
    try:
        yield lambda: wait_for(pool.waiting, what="a reader waits")
    finally:
        pool.close()
        keeper.join()


def read_waited(requests: dict[str, dict[str, Any]], home: Path, visits: int) -> dict[str, list[float]]:
    """Seconds of each reading by a reader that waited for it."""
    with waiting(home) as ready:
        taken: dict[str, list[float]] = {family: [] for family in requests}
        for _ in range(visits):
            for family, request in requests.items():
                ready()
                taken[family].append(read(request)[1])
    return taken


def read_all(
    requests: dict[str, dict[str, Any]], visits: int
) -> tuple[list[dict[str, Any]], dict[str, list[float]], dict[str, float]]:
    """(a workload per family, seconds of each reading of it, seconds of each part of a reading); rounds in turn."""
    compileall.compile_dir(package_folder("worker"), quiet=2)  # as a node does when it starts
    steps: list[dict[str, float]] = []
    traced: dict[str, list[float]] = {family: [] for family in requests}
    for _ in range(visits):
        steps.append(steps_s())
        found = {family: read(request) for family, request in requests.items()}
        for family, (_, taken_s) in found.items():
            traced[family].append(taken_s)
    middle = {name: median(step[name] for step in steps) for name in steps[0]}
    whole_s = median(median(taken) for taken in traced.values())
    return [workload for workload, _ in found.values()], traced, parts_s(middle, whole_s)


def portal(home: Path) -> Any:
    """A database of its own without a broker, whatever installation this shell is set up for; the person who asks."""
    for name in [name for name in os.environ if name.startswith("DLH_")]:
        del os.environ[name]
    os.environ |= {"DLH_HOME": str(home), "DJANGO_SETTINGS_MODULE": "harness.settings"}
    import django

    django.setup()
    from django.core.management import call_command

    from harness import broker
    from harness.accounts.models import User

    call_command("migrate", verbosity=0)
    broker.client = SilentBroker  # type: ignore[assignment]
    return User.objects.create_user("asker", password="not used here")


def pool(nodes: int) -> int:
    """Make so many nodes; return how many devices there are."""
    from harness.pool.models import Device, Node, NodeState

    for number in range(nodes):
        node = Node.objects.create(
            name=f"made-{number}", state=NodeState.UP, cpu_cores=CORES, memory_bytes=256 << 30, sandbox_level=3
        )
        model = number % 2
        Device.objects.bulk_create(
            Device(
                node=node, kind="cpu", index=index, model_name=f"Core {'AB'[model]}", memory_bytes=8 << 30,
                slowdown=2.0 if index >= CORES - SLOWED else 1.0,
            )
            for index in range(CORES)
        )  # fmt: skip
        Device.objects.bulk_create(
            Device(node=node, kind="cuda", index=index, model_name=f"GPU {'AB'[model]}", memory_bytes=80 << 30)
            for index in range(GPUS)
        )
    return nodes * (CORES + GPUS)


def price(user: Any, workloads: list[dict[str, Any]]) -> tuple[float, float, int]:
    """(seconds by the clock, of the processor, ways) of one offer per workload."""
    from harness.estimates.offers import Asked, offer_make_workload

    asked = Asked(deadline_at=datetime.now(UTC) + timedelta(days=30))
    began_s, busy_s = time.perf_counter(), time.process_time()
    offers = [offer_make_workload(user=user, workload=body, asked=asked) for body in workloads]
    taken = time.perf_counter() - began_s, time.process_time() - busy_s
    return *taken, sum(len(offer.body["lines"]) for offer in offers)


def main() -> None:
    """Read, price, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--visits", type=int, default=3, help="readings of each program")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-offer-") as folder:
        root = Path(folder)
        requests = {point.family: request_of(point, root) for point in one_per_family()}
        workloads, traced, parts = read_all(requests, chosen.visits)
        waited = read_waited(requests, root / "home", chosen.visits)
        for family, taken in traced.items():
            print(
                f"  {family:15} read in {median(taken):.2f} s (slowest {max(taken):.2f}), by one that waited in "
                f"{median(waited[family]):.2f} s (slowest {max(waited[family]):.2f})",
                flush=True,
            )
        for part, taken_s in parts.items():
            print(f"    {taken_s:5.2f} s  {part}", flush=True)
        user = portal(root / "home")
        devices = pool(chosen.nodes)
        rounds = [price(user, workloads) for _ in range(chosen.visits)]
    offers_s, busy_s, ways = zip(*rounds, strict=True)
    words = f"{median(offers_s):.2f} s, {median(busy_s):.2f} s of the processor"
    print(f"  {len(workloads)} offers on {devices} devices ({ways[0]} ways): {words}", flush=True)
    slowest_s = max(max(taken) for taken in waited.values())
    met = {"trace": slowest_s <= BARS["trace_s"], "offers": median(offers_s) <= BARS["offers_s"]}
    result = {
        "trace_s": traced,
        "waited_trace_s": waited,
        "parts_s": parts,
        "offers_s": offers_s,
        "offers_processor_s": busy_s,
        "devices": devices,
    }
    print(json.dumps({"benchmark": "offer", **result, "ways": ways[0], "bars": BARS, "met": met}))


if __name__ == "__main__":
    main()
