"""A state is sent as JSON and numbers: it comes back as it was, and nothing but a state comes in."""

from __future__ import annotations

import json
import random
from collections import Counter, OrderedDict
from typing import Any

import pytest
import torch

from tests.worker.runtime.test_handing import same, state
from worker.runtime.outline import made_of, outline_of, packed, unpacked
from worker.runtime.rng import rng_state
from worker.runtime.storable import parts_check


def test_a_state_comes_back_bit_by_bit_with_its_types_and_orders() -> None:
    held = {**state(), "rng": rng_state(torch.device("cpu")), 3: {(1, "a"): {1, 2}}, "b": b"\x00\xff", "c": 1 - 2j}
    held |= {"kinds": [None, True, 1, 1.0, float("inf"), -0.0, 10**40, "ü\n", torch.bfloat16], "deep": [[[()]]]}
    back = unpacked(packed(held))
    assert same(held, back)
    assert [type(item) for item in back["kinds"]] == [type(item) for item in held["kinds"]]
    net, sent = back["parts"]["net"], held["parts"]["net"]
    assert isinstance(net, OrderedDict) and net._metadata == sent._metadata
    assert net["0.weight"].stride() == sent["0.weight"].stride() != net["0.weight"].contiguous().stride()


def test_whatever_a_checkpoint_can_hold_is_sent_as_what_it_is() -> None:
    kinds = [torch.float16, torch.device("cuda", 1), torch.strided, torch.per_channel_affine, Counter("aab")]
    parts_check({"own": kinds})
    back = unpacked(packed(kinds))
    assert back == kinds
    assert [type(item) for item in back] == [type(item) for item in kinds]


def test_conjugated_numbers_are_sent_as_what_they_are() -> None:
    turned = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert torch.equal(unpacked(packed({"turned": turned}))["turned"], turned)


def test_what_a_checkpoint_could_not_hold_is_refused_where_it_is_sent() -> None:
    with pytest.raises(TypeError, match="holds a Random"):
        packed({"x": [random.Random(0)]})


def test_a_restored_optimizer_goes_on_with_the_same_bits() -> None:
    def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        torch.autograd.backward(net(torch.ones(2, 4)).square().sum())
        optimizer.step()
        optimizer.zero_grad()

    torch.manual_seed(0)
    nets = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]
    one, other = (torch.optim.AdamW(net.parameters(), fused=True) for net in nets)
    step(nets[0], one)
    sent = unpacked(packed({"net": nets[0].state_dict(), "optimizer": one.state_dict()}))
    nets[1].load_state_dict(sent["net"])
    other.load_state_dict(sent["optimizer"])
    for net, optimizer in zip(nets, (one, other), strict=True):
        step(net, optimizer)
    assert same(nets[0].state_dict(), nets[1].state_dict())


WRONG: dict[str, Any] = {
    "no list of a kind": ["module", "os"],
    "no type of numbers": ["tensor", "load", [1], [1]],
    "a name that is no word": ["dtype", ["float32"]],
    "an order that is none": ["tensor", "float32", [2], [-1]],
    "a key that cannot be one": ["dict", [[["list", []], 1]]],
    "nothing": [],
}


@pytest.mark.parametrize("outline", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_outline_is_refused(outline: Any) -> None:
    with pytest.raises(ValueError, match="no outline"):
        made_of(json.dumps(outline).encode(), [])


def test_numbers_that_are_cut_off_or_too_many_are_refused() -> None:
    body = packed({"weight": torch.ones(5)})
    for wrong in (body[:-1], body + b"\0", body[:4]):
        with pytest.raises(ValueError, match="is no state"):
            unpacked(wrong)


def test_an_outline_names_its_tensors_in_order() -> None:
    tensors: list[torch.Tensor] = []
    outline = outline_of([torch.ones(2), {"a": torch.zeros(3, dtype=torch.int8)}], tensors)
    assert [tuple(tensor.shape) for tensor in tensors] == [(2,), (3,)]
    assert b"int8" in outline and len(outline) < 200
