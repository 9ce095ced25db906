"""Parameter servers: ranks pull weights and push gradients without waiting for each other.

Each rank is a worker and, by threads of its own, the server of a shard of the weights. Work is handed out on demand:
a ticket is one rank's share of one step, so a slow rank takes fewer of them. A gradient of r rows of a batch of B moves
the weights by r / B of the learning rate: over an epoch they move as far as with whole batches. At the end of an epoch,
and where the run is to be saved or paused, the ranks meet, hold the same weights, and go on alike.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from safetensors import torch as safetensors
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.events import FailureCode
from worker.runtime.batches import BatchPlan
from worker.runtime.collective import Group, broadcast_bytes, gather_bytes
from worker.runtime.data import Part
from worker.runtime.failures import ProgramFailure
from worker.runtime.gradients import broadcast_model
from worker.runtime.modes.accumulated import Accumulated
from worker.runtime.modes.base import Batch
from worker.runtime.servers.frames import KEY_BYTES, STOPPED
from worker.runtime.servers.rounds import Rounds
from worker.runtime.servers.server import Server
from worker.runtime.servers.shard import Shard, owners, weights_of
from worker.runtime.servers.tickets import Agreed, Desk, Tickets
from worker.runtime.servers.worker import Worker

if TYPE_CHECKING:
    from worker.runtime.run import Run


NOT_YET = 1.0 - 1e-9
"""A spent time budget ends the epoch when all ranks have heard of it, not before."""


class Asynchronous(Accumulated):
    """A worker and a server.

    `staleness`: most updates of others between a pull and its push. `backup`: updates are made in step, without the
    gradients of so many ranks that come last; None: each gradient is an update.
    """

    def __init__(self, run: Run, micro_batches: int, staleness: int, backup: int | None = None) -> None:
        super().__init__(run, micro_batches)
        self.name = "async"
        self.staleness, self.backup = staleness, None if backup is None else min(backup, run.world_size - 1)
        self._first_step = 0
        self._round: int | None = None
        """Updates that the servers had made before the step under way, where updates are made in step."""
        self._net: nn.Module | None = None
        self._server: Server | None = None
        self._worker: Worker | None = None
        self._pushed = True

    @property
    def group(self) -> Group:
        """All ranks; they meet between epochs only."""
        assert self.run.group is not None  # noqa: S101 - this mode is chosen for several ranks only
        return self.run.group

    def place(self, net: nn.Module) -> nn.Module:
        """Share the first rank's weights; the servers start with the first batch, from a restored checkpoint."""
        if any(weight.is_complex() for weight in net.parameters()):
            message = "The model has complex weights, which parameter servers (mode async) do not keep."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Use mode sync.")
        self._net = net
        broadcast_model(net, self.group)
        self.run.teller.rows_per_step = self.run.batch_size
        self.run.teller.rank_values = self._told
        return net

    # ---- steps -------------------------------------------------------------------------------------------------
    def batches(self, part: Part, plan: BatchPlan, order: Tensor, first_step: int) -> Iterator[tuple[int, Batch]]:
        """Shares of steps as they are handed out; between steps the ranks meet if one of them wishes to."""
        run = self.run
        ranks, even = run.world_size, BatchPlan(rows=plan.rows, batch_size=plan.batch_size, world_size=run.world_size)
        self._first_step = self._first_step if self._server else run.position.step
        server, worker = self._start()
        step, done = first_step, run.position.step - first_step - self._first_step
        while step < even.steps:
            if run.rank == 0:
                server.open(step * ranks, even.steps * ranks)
            self._meet()  # nobody asks before all tickets are there
            ticket, agreed = worker.take(run.control.wishes())
            while ticket != STOPPED:
                step = ticket // ranks
                self._round = None if self.backup is None else done + step
                worker.pull(self._round or 0)
                run.control.agree(0.0, 0.0, min(agreed.time_spent, NOT_YET))
                self._pushed = False
                run.pace.met()  # what is timed, and slowed down where that is declared, is the work alone
                yield step, _rows(part, order, even.share(step, ticket % ranks), run.device)
                self._check_pushed()
                ticket, agreed = worker.take(run.control.wishes())
            step = self._settle(worker, agreed)
            if run.control.between_steps():
                break

    def average(self, loss: Tensor, share: float, wishes: tuple[float, ...]) -> Tensor | None:
        """Nothing: each rank's gradient moves the weights by itself."""
        return None

    def update(self, optimizer: Optimizer) -> None:
        """Send the gradient; its share of the batch is its share of the learning rate, or of the step's mean."""
        _, worker = self._start()
        share = 0.0 if self.run.loss_scale.overflowed else self._share  # of no gradient: others wait for the push
        worker.push([float(group["lr"]) for group in optimizer.param_groups], share, self._round)
        self._pushed = True

    def _check_pushed(self) -> None:
        if not self._pushed:
            message = "train.py moves the weights itself, but in mode async the parameter servers hold them."
            hint = "Call run.update(optimizer) instead of optimizer.step(), as the generated train.py does."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)

    # ---- meeting -----------------------------------------------------------------------------------------------
    def _settle(self, worker: Worker, agreed: Agreed) -> int:
        """All have stopped: the same weights everywhere. Returns the step at which the run stands."""
        run = self.run
        self._meet()
        worker.pull()
        averages = [
            part for part in run.checkpointer.parts.values() if isinstance(getattr(part, "net", None), nn.Module)
        ]
        if self._net is not None:
            self._average([buffer for buffer in self._net.buffers() if buffer.is_floating_point()], 1 / run.world_size)
        for average in averages:
            self._take_newest(average)
        server, _ = self._start()
        tickets = server.tickets if run.rank == 0 else None
        stands = torch.tensor([tickets.next // run.world_size if tickets else 0])
        self.group.broadcast_(stands)
        run.position.go_to(int(stands))
        run.control.agree(float(agreed.pause), float(agreed.save), agreed.time_spent)
        run.teller.metric(run.position.step, self._told())
        return int(stands)

    def _meet(self) -> None:
        """Until all ranks are here."""
        self.group.gather(torch.tensor([self.run.rank]))

    @torch.no_grad()
    def _average(self, tensors: list[Tensor], share: float) -> None:
        """Replace tensors by their sum over ranks, each times its share."""
        if not tensors:
            return
        flat = torch.cat([tensor.detach().reshape(-1).float() for tensor in tensors])
        flat = flat * share if share else torch.zeros_like(flat)  # 0 times what is infinite, as in masks, is no number
        self.group.sum_start(flat, "settle").wait()
        for tensor, piece in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(piece.view(tensor.shape))

    def _take_newest(self, average: Any) -> None:
        """A running average of weights follows each rank's own steps: take that of the rank that made most."""
        made = self.group.gather(torch.tensor([int(getattr(average, "updates", 0))])).tolist()
        newest = made.index(max(made))
        tensors = [tensor for tensor in average.net.state_dict().values() if tensor.is_floating_point()]
        self._average(tensors, 1.0 if self.run.rank == newest else 0.0)
        if hasattr(average, "updates"):
            average.updates = max(made)

    def _told(self) -> dict[str, float]:
        """How old gradients were when they reached this rank's shard: updates of others since their weights left it.

        Where updates are made in step: how many came too late and were dropped.
        """
        server = self._server
        if server is None or not server.shard.version:
            return {}
        name = f"rank{self.run.rank}/staleness"
        if self.backup is not None:
            return {f"rank{self.run.rank}/dropped": float(server.dropped)}
        return {name: server.staleness_sum / server.shard.version, f"{name}_most": float(server.staleness_most)}

    # ---- servers -----------------------------------------------------------------------------------------------
    def _start(self) -> tuple[Server, Worker]:
        """Server and worker of this rank; the first call makes them, on all ranks together."""
        if self._server is None or self._worker is None:
            run, optimizer = self.run, self._optimizer()
            key = broadcast_bytes(self.group, secrets.token_bytes(KEY_BYTES))
            weights = weights_of(optimizer)
            owner = owners([weight.numel() for weight in weights], run.world_size)
            desk: Desk = Tickets(workers=run.world_size, staleness=self.staleness)
            if self.backup is not None:
                desk = Rounds(workers=run.world_size, backup=self.backup)
            self._server = Server(Shard(optimizer, owner, run.rank), key, desk)
            told = gather_bytes(self.group, json.dumps(self._server.address).encode())
            addresses = [(str(host), int(port)) for host, port in map(json.loads, told)]
            self._worker = Worker(run.rank, addresses, key, weights, owner)
        return self._server, self._worker

    def _optimizer(self) -> Optimizer:
        found = [part for part in self.run.checkpointer.parts.values() if isinstance(part, Optimizer)]
        if len(found) != 1:
            message = f"run.restore(...) names {len(found)} optimizers; mode async shares out one over the servers."
            hint = "Name it as the generated train.py does: run.restore(net=net, optimizer=optimizer, ema=ema)."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)
        return found[0]

    # ---- checkpoints -------------------------------------------------------------------------------------------
    def state(self, parts: dict[str, Any]) -> dict[str, Any]:
        """As one process would have it: what the servers' optimizers know, put together."""
        states = super().state(parts)
        if self._server is None:
            return states
        known = self._gathered()
        for name, part in parts.items():
            if isinstance(part, Optimizer):
                weights = weights_of(part)
                states[name]["state"] = {
                    number: {key: _as_like(value, weights[number]) for key, value in sorted(entry.items())}
                    for number, entry in sorted(known.items())
                }
        return states

    def _gathered(self) -> dict[int, dict[str, Any]]:
        """All servers' optimizer states by weight, as plain bytes: nothing of a peer is unpickled."""
        assert self._server is not None  # noqa: S101 - asked for where it runs
        tensors: dict[str, Tensor] = {}
        values: dict[str, Any] = {}
        for number, entry in self._server.shard.state().items():
            for key, value in entry.items():
                place = f"{number}.{key}"
                if isinstance(value, Tensor):
                    tensors[place] = value.detach().clone()
                else:
                    values[place] = value
        known: dict[int, dict[str, Any]] = {}
        bodies = gather_bytes(self.group, safetensors.save(tensors))
        others = gather_bytes(self.group, json.dumps(values).encode())
        for body, other in zip(bodies, others, strict=True):
            for place, value in {**safetensors.load(body), **json.loads(other)}.items():
                number, _, key = place.partition(".")
                known.setdefault(int(number), {})[key] = value
        return known

    def close(self) -> None:
        """Leave the servers."""
        if self._worker is not None:
            self._worker.close()
        if self._server is not None:
            self._server.close()


def _rows(part: Part, order: Tensor, bounds: tuple[int, int], device: torch.device) -> Batch:
    index = order[slice(*bounds)].to(part.targets.device)
    *inputs, targets = (tensor.index_select(0, index).to(device) for tensor in (*part.inputs, part.targets))
    return tuple(inputs), targets


def _as_like(value: Any, weight: Tensor) -> Any:
    """In the weight's own order of elements, which fused optimizers count on."""
    if isinstance(value, Tensor) and value.shape == weight.shape:
        return torch.empty_like(weight, dtype=value.dtype, device="cpu").copy_(value)
    return value
