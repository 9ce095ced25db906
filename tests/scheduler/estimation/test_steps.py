"""Steps of one program: each is told as if it were asked for alone, and none is foretold twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.estimation import steps
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Corrector
from scheduler.estimation.estimate import estimate, estimate_all
from scheduler.estimation.intervals import are_near
from scheduler.estimation.predict import predict, summary
from scheduler.estimation.prior import prior_for
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation
from scheduler.kinds import declared_name
from scheduler.offers.candidates import DeviceGroup
from scheduler.offers.mixed_estimates import mixed_estimates
from scheduler.offers.recommend import candidates
from scheduler.workload import at_batch
from tests.scheduler.made_workloads import KIND, NAME, workload

WORK = workload(layers=4, filters=48, batch=64)


def fitted() -> DeviceModel:
    """An ensemble that disagrees, a corrector, and programs that count as near at about half the rows."""
    assumed, generator = prior_for(KIND, NAME), np.random.default_rng(3)
    members = tuple(
        {name: tuple(value + 0.02 * generator.normal() for value in row) for name, row in assumed.members[0].items()}
        for _ in range(4)
    )
    prints = tuple(tuple(map(float, summary(at_batch(WORK, rows)))) for rows in (30, 64, 200))
    spread = replace(assumed.spread, near_distance=0.3)
    corrector = Corrector(inputs=prints, alpha=(0.1, -0.05, 0.02), length=1.0)
    return replace(assumed, members=members, spread=spread, fingerprints=prints, corrector=corrector)


MODEL = fitted()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=6), min_size=1, max_size=4))
def test_a_step_is_told_as_if_it_were_asked_for_alone(asked: list[list[int]]) -> None:
    known = Steps(WORK)
    for rows in asked:
        found = known.on(MODEL, rows)
        for number in rows:
            alone, step = at_batch(WORK, number), found[number]
            one = predict(MODEL, [alone])
            assert step.alone_s == pytest.approx(np.exp(one.log_step_s[0]), rel=1e-9)
            assert step.disagreement == pytest.approx(one.disagreement[0], rel=1e-6)
            assert step.forward_share == pytest.approx(one.forward_share[0], rel=1e-9)
            assert step.near == are_near(MODEL, np.array([summary(alone)]))[0]
            assert known.totals(number) == replace(alone, operators=())


def test_a_second_model_of_a_kind_of_device_is_refused_and_one_of_slower_devices_is_not() -> None:
    known = Steps(WORK)
    at_speed = known.on(MODEL, [8])[8]
    assert known.on(replace(MODEL, slowdown=2.0), [8])[8] == at_speed
    with pytest.raises(ValueError, match="two models"):
        known.on(prior_for(KIND, NAME), [8])


def test_rows_that_are_foreseen_are_looked_at_together_and_told_alike() -> None:
    known, alone = Steps(WORK, foreseen=[8, 64]), Steps(WORK)
    found = known.on(MODEL, [16])
    assert set(found) == {8, 16, 64}
    for rows, step in found.items():
        assert step.alone_s == pytest.approx(alone.on(MODEL, [rows])[rows].alone_s, rel=1e-9)


def test_parts_of_a_step_are_asked_for_once_for_kinds_of_device_of_which_the_same_is_known() -> None:
    known, asked = Steps(WORK), []
    for model in (MODEL, replace(MODEL, model_name="another core"), replace(MODEL, model_name="third", corrector=None)):
        parts = known.kept_with(known.on(model, [8]), lambda model=model: asked.append(model.model_name) or (1.0, 2.0))
        assert parts == (1.0, 2.0)
    assert asked == [NAME, "third"]


def test_kinds_of_device_of_which_the_same_is_known_share_their_steps_and_others_do_not() -> None:
    known, twin = Steps(WORK), replace(MODEL, model_name="another core")
    other = replace(MODEL, model_name="a third", corrector=None)
    assert known.on(MODEL, [8]) is known.on(twin, [8])
    assert known.on(other, [8])[8].alone_s != known.on(MODEL, [8])[8].alone_s


def test_programs_are_near_at_some_rows_and_far_at_others() -> None:
    assert {step.near for step in Steps(WORK).on(MODEL, range(1, 300, 10)).values()} == {True, False}


MODELS = {NAME: MODEL, declared_name(NAME, 2.0): replace(MODEL, slowdown=2.0), "Other": prior_for(KIND, "Other")}
GROUPS = [
    DeviceGroup(kind=KIND, model_name=name, sizes=(8,), nodes=("n",), memory_bytes=2**31) for name in sorted(MODELS)
]
WAYS = candidates(WORK, GROUPS)


def on_one(name: str) -> list[tuple[Allocation, float | None]]:
    """Ways on like devices of that name, and their limits."""
    return [(way.allocation, way.memory_limit_bytes) for way in WAYS if way.allocation.model_name == name]


@pytest.mark.parametrize("name", MODELS)
def test_ways_that_are_priced_together_cost_what_each_costs_alone(name: str) -> None:
    for one in estimate_all(Steps(WORK), on_one(name), MODELS[name]):
        limit = dict(on_one(name))[one.allocation]
        alone = estimate(WORK, one.allocation, MODELS[name], memory_limit_bytes=limit)
        assert one.step_s.mid == pytest.approx(alone.step_s.mid) and one.run_s.high == pytest.approx(alone.run_s.high)
        assert (one.peak_bytes, one.fits) == (alone.peak_bytes, alone.fits)


def test_an_offer_foretells_each_step_of_a_kind_of_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told: Counter[tuple[str, int]] = Counter()
    real = steps._foretold

    def counting(model, at):
        told.update((model.model_name, number) for number in at.rows)
        return real(model, at)

    monkeypatch.setattr(steps, "_foretold", counting)
    known = Steps(WORK)
    for name, model in MODELS.items():
        estimate_all(known, on_one(name), model)
    assert mixed_estimates(known, [way for way in WAYS if way.allocation.parts], MODELS)
    assert set(told.values()) == {1}
    assert {name for name, _ in told} == {NAME, "Other"}
