"""A model as a chain of pieces that only hear their neighbours, found in the model itself; and stages made of them.

The model's forward is outlined by `torch.fx`: its submodules stay whole, only `nn.Sequential` is looked into. A cut is
possible where exactly one tensor, one row per row of the batch, goes on from what was done to what is still to do.
Nothing here knows a family: whatever is sequential enough can be cut, and the rest is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

TRIED_ROWS = (2, 3)
"""The first dimension of what is handed on must follow the rows."""
HINT = "Use mode sync, or write forward as a chain of submodules, each called with what the one before it returned."


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """What one piece hands to the next, apart from the number of rows."""

    shape: tuple[int, ...]
    """Of one row, as it is sent: pictures that lie with their channels side by side are sent so."""
    dtype: torch.dtype
    channels_last: bool

    def leave(self, tensor: Tensor) -> Tensor:
        """As it is sent: dense, and in float32 where autocast made it shorter."""
        tensor = tensor.to(self.dtype)
        return (tensor.permute(0, 2, 3, 1) if self.channels_last else tensor).contiguous()

    def enter(self, tensor: Tensor) -> Tensor:
        """Inverse of `leave`; the gradient goes back as dense as the tensor came."""
        even: Tensor = _EvenGradient.apply(tensor)  # type: ignore[no-untyped-call]
        return even.permute(0, 3, 1, 2) if self.channels_last else even

    def empty(self, rows: int, device: torch.device | str, *, gradient: bool = False) -> Tensor:
        """Room for so many rows."""
        return torch.empty(rows, *self.shape, dtype=self.dtype, device=device).requires_grad_(gradient)

    @property
    def row_bytes(self) -> int:
        """Bytes per row."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Consecutive operations with weights of their own."""

    name: str
    nodes: tuple[fx.Node, ...]
    entry: fx.Node | None
    """The value that comes in; None: the inputs of the model."""
    exit: fx.Node
    boundary: Boundary
    """Of what goes out."""


class Chain:
    """A model and its pieces. Raises `ProgramFailure` for a model that is no chain."""

    def __init__(self, net: nn.Module, inputs: Sequence[Tensor]) -> None:
        self.net = net
        self.home = inputs[0].device
        graph = _outline(net)
        seen = _boundaries(net, graph, inputs)
        self._placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.pieces = tuple(_pieces(net, graph, seen))

    def piece_bytes(self, number: int) -> int:
        """Of the weights of one piece."""
        held = {key: one for node in self.pieces[number].nodes for key, one in _weights(self.net, node).items()}
        return sum(one.numel() * one.element_size() for one in held.values())

    def stage_name(self, first: int, end: int) -> str:
        """The submodules of pieces `first` to `end` (not included), first to last."""
        return _name([node for piece in self.pieces[first:end] for node in piece.nodes])

    def stage(self, first: int, end: int) -> fx.GraphModule:
        """Pieces `first` to `end` (not included) as a module; weights, and their names, are those of the model."""
        pieces = self.pieces[first:end]
        graph, known = fx.Graph(), {}
        entry = pieces[0].entry
        for node in self._placeholders if entry is None else [entry]:
            known[node] = graph.node_copy(node) if entry is None else graph.placeholder("handed_on")
        for node in (node for piece in pieces for node in piece.nodes if node.op not in ("placeholder", "output")):
            known[node] = graph.node_copy(node, lambda one: known[one])
        graph.output(known[pieces[-1].exit])
        module = fx.GraphModule(self.net, graph)
        lasting = self.net.state_dict().keys()
        for prefix, owner in module.named_modules():
            for name in owner._buffers:
                if f"{prefix}.{name}".lstrip(".") not in lasting:
                    owner._non_persistent_buffers_set.add(name)
        return module


class _Outline(fx.Tracer):
    """Sees in which order a model calls its parts."""

    proxy_buffer_attributes = True

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Everything but a plain Sequential may decide by values or by the training mode, which an outline cannot."""
        return type(m) is not nn.Sequential


class _EvenGradient(torch.autograd.Function):
    """The tensor itself; what is sent back must lie densely in memory."""

    @staticmethod
    def forward(_context: Any, tensor: Tensor) -> Tensor:
        """The same tensor."""
        return tensor.view_as(tensor)

    @staticmethod
    def backward(_context: Any, *gradients: Any) -> Any:
        """Dense."""
        return gradients[0].contiguous()


class _Recorder(fx.Interpreter):
    """Notes which values could be handed on."""

    def __init__(self, module: fx.GraphModule, rows: int) -> None:
        super().__init__(module)
        self.rows = rows
        self.seen: dict[str, Boundary] = {}
        """By name of the operation."""

    def run_node(self, n: fx.Node) -> Any:
        """Run it and look at what comes out."""
        value = super().run_node(n)
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1 and len(value) == self.rows:
            last = value.ndim == 4 and value.is_contiguous(memory_format=torch.channels_last)
            shape = value.permute(0, 2, 3, 1).shape if last else value.shape
            self.seen[n.name] = Boundary(shape=tuple(shape[1:]), dtype=value.dtype, channels_last=last)
        return value


def _outline(net: nn.Module) -> fx.Graph:
    """The graph of calls. Raises `ProgramFailure` where forward decides by values, or by `self.training`."""
    was_training = net.training
    graphs = []
    try:
        for training in (False, True):
            net.train(training)
            graphs.append(_Outline().trace(net))
    except Exception as error:
        message = f"The model cannot be cut into stages: its forward cannot be outlined ({_first_line(error)})."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, HINT) from error
    finally:
        net.train(was_training)
    texts = {graph.python_code("self").src for graph in graphs}
    if len(texts) > 1:
        message = "The model cannot be cut into stages: its forward looks at `self.training` itself."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Put that part of forward into a submodule.")
    return graphs[0]


@torch.no_grad()
def _boundaries(net: nn.Module, graph: fx.Graph, inputs: Sequence[Tensor]) -> dict[fx.Node, Boundary]:
    """Values of the graph that have one row per row of the batch."""
    was_training = net.training
    net.eval()
    try:
        recorders = [_Recorder(fx.GraphModule(net, graph), rows) for rows in TRIED_ROWS]
        for recorder in recorders:
            recorder.run(*(tensor[torch.arange(recorder.rows) % len(tensor)] for tensor in inputs))
    finally:
        net.train(was_training)
    few, more = (recorder.seen for recorder in recorders)
    return {node: few[node.name] for node in graph.nodes if few.get(node.name, few) == more.get(node.name)}


def _pieces(net: nn.Module, graph: fx.Graph, seen: dict[fx.Node, Boundary]) -> Iterator[Piece]:
    """Cut wherever one value goes on, then join pieces that have no weights, or share some."""
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    last_use = {node: max((place[user] for user in node.users), default=-1) for node in nodes}
    cuts: list[tuple[int, fx.Node]] = []
    alive: set[fx.Node] = set()
    for number, node in enumerate(nodes[:-1]):
        alive = {one for one in alive if last_use[one] > number}
        if last_use[node] > number:
            alive.add(node)
        if len(alive) == 1 and (value := next(iter(alive))) in seen and value.op != "placeholder":
            cuts.append((number + 1, value))
    result = nodes[-1].args[0]
    if not isinstance(result, fx.Node) or result not in seen:
        message = "The model cannot be cut into stages: it does not return one tensor of numbers."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, HINT)
    cuts.append((len(nodes), result))
    start, entry = 0, None
    for end, value in _kept_cuts(net, nodes, cuts):
        part = tuple(nodes[start:end])
        yield Piece(name=_name(part), nodes=part, entry=entry, exit=value, boundary=seen[value])
        start, entry = end, value


def _kept_cuts(
    net: nn.Module, nodes: Sequence[fx.Node], cuts: Sequence[tuple[int, fx.Node]]
) -> list[tuple[int, fx.Node]]:
    """Of the cuts, the last always and others where each side has weights to train and none is on both sides."""
    weights = [_weights(net, node) for node in nodes]
    trained = [any(weight.requires_grad for weight in each.values()) for each in weights]
    users: dict[int, list[int]] = {}
    for number, each in enumerate(weights):
        for key in each:
            users.setdefault(key, []).append(number)
    unused = [name for name, weight in net.named_parameters() if id(weight) not in users]
    if unused:
        message = f"The model cannot be cut into stages: its forward never uses {', '.join(unused[:5])}."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Leave these weights out, or use mode sync.")
    kept: list[tuple[int, fx.Node]] = []
    start = 0
    for end, value in cuts[:-1]:
        shared = any(numbers[0] < end <= numbers[-1] for numbers in users.values())
        if any(trained[start:end]) and any(trained[end:]) and not shared and not _overwritten(net, value):
            kept.append((end, value))
            start = end
    return [*kept, cuts[-1]]


def _overwritten(net: nn.Module, value: fx.Node) -> bool:
    """Whether a module works in place on the value: what was handed on must stay as it came."""
    modules = [net.get_submodule(str(user.target)) for user in value.users if user.op == "call_module"]
    return any(getattr(module, "inplace", False) for module in modules)


def _weights(net: nn.Module, node: fx.Node) -> dict[int, nn.Parameter]:
    """Parameters that an operation uses, by identity."""
    if node.op == "call_module":
        return {id(weight): weight for weight in net.get_submodule(str(node.target)).parameters()}
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        value = getattr(net.get_submodule(owner), name)
        return {id(value): value} if isinstance(value, nn.Parameter) else {}
    return {}


def _name(nodes: Sequence[fx.Node]) -> str:
    """The submodules that operations call, first to last."""
    names = [str(node.target) for node in nodes if node.op == "call_module"] or [node.name for node in nodes]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
