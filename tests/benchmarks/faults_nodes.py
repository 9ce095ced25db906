"""Agents, supervisors, machines and networks that go and come back; see `bench_faults`."""

from __future__ import annotations

import time
from functools import cache

from tests.benchmarks.fault_lab import LONG, Fault, Lab, Row, attempts, restarted
from tests.e2e.far_node import FarNode, reserve_near
from tests.e2e.stack import END_TIMEOUT_S, RunningStack, all_gone, wait_for

CUT_S = 5.0


@cache
def far_of(lab: Lab) -> tuple[FarNode, RunningStack, str]:
    """A machine in a network namespace, joined to a stack of its own, and a dataset there."""
    node = FarNode(lab.folder)
    lab.at_close += [node.close, far_of.cache_clear]
    stack = lab.own_stack(**node.near_environment())
    node.join(stack)
    return node, stack, lab.upload(stack)


def _on_far(lab: Lab, name: str) -> tuple[FarNode, RunningStack, str, str]:
    """A job that trains on the far machine: (machine, stack, job, reservation that keeps the near one)."""
    node, stack, digits = far_of(lab)
    reservation = reserve_near(stack)
    job = stack.job_submit(digits, {"name": name, **LONG})
    stack.job_wait_step(job, 1)
    stack.job_wait_checkpoint(job)
    return node, stack, job, reservation


def _done(lab: Lab, stack: RunningStack, job: str, reservation: str) -> None:
    stack.request("DELETE", f"/pool/reservations/{reservation}")
    lab.cancel(job, stack)


def the_agent_is_killed(lab: Lab) -> Row:
    """SIGKILL to a node's agent: the run goes on and is found again."""
    job = lab.running("the agent is killed")
    step = int(lab.stack.job(job)["step"])
    lab.stack.kill_child("node")
    lab.stack.job_wait_step(job, step + 100)
    kept = len(attempts(lab.stack, job)) == 1
    lab.cancel(job)
    return Row(fault="the agent of a node is killed", outcome="the run goes on", good=kept, lost_steps=0)


def the_supervisor_is_killed(lab: Lab) -> Row:
    """SIGKILL to the process that watches over a run."""
    job = lab.running("the supervisor is killed")
    supervisor = lab.stack.supervisor(job)
    assert supervisor is not None
    row = restarted(lab.stack, job, "the supervisor of a run is killed", supervisor.kill)
    lab.cancel(job)
    return row


def the_machine_is_rebooted(lab: Lab) -> Row:
    """All processes of a machine end at once; its agent starts anew, on another boot of the kernel."""
    node, stack, job, reservation = _on_far(lab, "the machine is rebooted")
    row = restarted(stack, job, "a machine is rebooted", node.reboot)
    _done(lab, stack, job, reservation)
    return row


def the_network_is_away_for_five_seconds(lab: Lab) -> Row:
    """Neither side is told; then it is back."""
    node, stack, job, reservation = _on_far(lab, "five seconds")
    node.cut()
    time.sleep(CUT_S)
    step = int(stack.job(job)["step"])
    node.mend()
    stack.job_wait_step(job, step + 100)
    kept = len(attempts(stack, job)) == 1
    _done(lab, stack, job, reservation)
    return Row(fault="network of a node cut for 5 s", outcome="the run goes on", good=kept, lost_steps=0)


def the_network_stays_away(lab: Lab) -> Row:
    """The job moves to another node; the copy that nobody hears ends; the node comes back."""
    node, stack, job, reservation = _on_far(lab, "for good")
    old = stack.run_processes(job)
    stack.request("DELETE", f"/pool/reservations/{reservation}")
    cut_s = time.monotonic()
    row = restarted(stack, job, "network of a node cut for good, or the node lost", node.cut)
    wait_for(lambda: all_gone(old), timeout_s=END_TIMEOUT_S, what="the old copy ends")
    gone_s = time.monotonic() - cut_s
    node.mend()
    mended_s = time.monotonic()
    node.wait_state(stack, "up")
    figures = {"failover_s": row.restart_s or 0.0, "old_copy_gone_s": gone_s, "back_s": time.monotonic() - mended_s}
    lab.cancel(job, stack)
    return Row(**{**vars(row), "figures": figures})


FAULTS: tuple[Fault, ...] = (
    the_agent_is_killed,
    the_supervisor_is_killed,
    the_machine_is_rebooted,
    the_network_is_away_for_five_seconds,
    the_network_stays_away,
)
