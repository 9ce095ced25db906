"""A program in another precision than was measured: products go by the data sheets, the rest stays as it was."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.estimation.calibration import CalibrationError, from_csv, from_json, to_csv, to_json
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.doubt import is_far
from scheduler.estimation.estimate import estimate
from scheduler.estimation.finished import Finished, RanOut
from scheduler.estimation.fit import fit_device_model
from scheduler.estimation.in_precision import in_precision, of_gang
from scheduler.estimation.learning import corrected
from scheduler.estimation.precision import KEPT_IN_16_BITS, Precision
from scheduler.estimation.prior import prior_for
from scheduler.estimation.probe import Probe
from scheduler.estimation.values import Allocation, Basis, Estimate, Interval
from scheduler.workload import Workload
from tests.scheduler.made_workloads import points, workload

V100, H100 = "Tesla V100-SXM2-16GB", "NVIDIA H100 80GB HBM3"
NAMES = (
    V100,
    "Tesla T4",
    "Tesla P100-PCIE-16GB",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA L4",
    H100,
    "NVIDIA RTX 3090",
    "other",
)
WORK = workload(layers=5, filters=256, size=56, batch=64)
"""Most of its step is products."""


def asked(work: Workload, precision: str) -> Workload:
    return replace(work, precision=precision)


def way(name: str, rows: int = 64) -> Allocation:
    return Allocation(kind="cuda", model_name=name, count=1, mode="single", batch_split=(rows,))


def told(model: DeviceModel, precision: str, work: Workload = WORK, probe: Probe | None = None) -> Estimate:
    return estimate(asked(work, precision), way(model.model_name, work.batch_size), model, probe=probe)


def width(interval: Interval) -> float:
    return math.log(interval.high / interval.low)


@pytest.fixture(scope="module")
def fitted() -> DeviceModel:
    """Of an H100 that has the made device's law, measured in bfloat16."""
    return fit_device_model([replace(point, kind="cuda", model_name=H100) for point in points(40)])


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    better=st.sampled_from(["auto", "bf16", "fp16"]),
    layers=st.integers(1, 6),
    filters=st.integers(4, 256),
    size=st.integers(8, 64),
    batch=st.integers(2, 256),
)
@example(name="Tesla P100-PCIE-16GB", better="bf16", layers=1, filters=4, size=8, batch=2)
def test_float32_is_never_foretold_to_be_faster_than_16_bits_on_a_gpu(
    name, better, layers, filters, size, batch
) -> None:
    work, model = workload(layers=layers, filters=filters, size=size, batch=batch), prior_for("cuda", name)
    in_32, in_16 = told(model, "float32", work), told(model, better, work)
    for one, other in ((in_32.step_s, in_16.step_s), (in_32.peak_bytes, in_16.peak_bytes)):
        assert one.mid >= other.mid * (1 - 1e-12) and one.high >= other.high * (1 - 1e-12)


def test_a_v100_that_nobody_has_calibrated_takes_several_times_as_long_in_float32() -> None:
    model = prior_for("cuda", V100)
    in_16, in_32 = told(model, "auto"), told(model, "float32")
    assert 3.0 < in_32.step_s.mid / in_16.step_s.mid < 8.0
    assert in_32.time_basis is in_16.time_basis is Basis.ASSUMED
    assert "another precision" not in in_32.note, "its data sheet tells of both"
    assert width(in_32.step_s) == pytest.approx(width(in_16.step_s))


def test_a_moved_prior_is_what_the_table_says_of_that_precision() -> None:
    model = prior_for("cuda", V100)
    moved = in_precision(model, asked(WORK, "float32"))
    assert math.exp(moved.members[0]["conv"][0] - model.members[0]["conv"][0]) == pytest.approx(0.4 * 125 / 0.7 / 15.7)
    unmoved = [name for name in model.members[0] if moved.members[0][name] == tuple(model.members[0][name])]
    assert not {"conv", "gemm", "attention_flops"} & set(unmoved)
    assert {"conv_bytes", "elementwise", "norm", "optimizer_bytes", "operators", "step"} <= set(unmoved)


def test_a_measured_device_answers_in_another_precision_with_a_wider_range_and_says_so(fitted: DeviceModel) -> None:
    assert fitted.precision is Precision.BFLOAT16
    in_16, in_32 = told(fitted, "auto"), told(fitted, "float32")
    ratio = in_32.step_s.mid / in_16.step_s.mid
    assert 1.5 < ratio < 989 / 494, "products take twice as long, the rest what it took"
    assert width(in_32.step_s) > width(in_16.step_s) + math.log(ratio)
    assert in_32.time_basis is Basis.MODELLED
    assert "steps in tf32 modelled from another precision, bfloat16" in in_32.note
    assert "another precision" not in in_16.note


def test_what_is_no_product_takes_as_long_in_any_precision(fitted: DeviceModel) -> None:
    small = workload(layers=1, filters=2, size=8, batch=2)
    assert told(fitted, "float32", small).step_s.mid == pytest.approx(told(fitted, "auto", small).step_s.mid, rel=0.1)


def test_the_16_bits_of_a_hopper_are_alike_but_for_a_little_doubt(fitted: DeviceModel) -> None:
    bf16, fp16 = told(fitted, "bf16"), told(fitted, "fp16")
    assert bf16 == replace(told(fitted, "auto"))
    assert fp16.step_s.mid == bf16.step_s.mid and fp16.peak_bytes == bf16.peak_bytes
    assert width(bf16.step_s) < width(fp16.step_s) < width(bf16.step_s) + 0.11
    assert "float16 modelled from another precision" in fp16.note


def test_float32_keeps_more_for_the_backward_pass(fitted: DeviceModel) -> None:
    share = {
        name: in_precision(fitted, asked(WORK, name)).memory.coefficients["activations"] for name in ("auto", "float32")
    }
    assert share["float32"] == pytest.approx(share["auto"] / KEPT_IN_16_BITS)
    in_16, in_32 = told(fitted, "auto").peak_bytes, told(fitted, "float32").peak_bytes
    assert in_32.mid > in_16.mid and in_32.high / in_32.mid > in_16.high / in_16.mid


def test_a_core_that_was_measured_in_float32_is_much_slower_in_float16() -> None:
    model, work = fit_device_model(points(40)), workload(layers=5, filters=64, size=40)
    assert model.precision is Precision.FLOAT32

    def step(precision: str) -> Interval:
        one = Allocation(kind="cpu", model_name=model.model_name, count=1, mode="single", batch_split=(32,))
        return estimate(asked(work, precision), one, model).step_s

    assert step("auto") == step("float32")
    assert step("fp16").mid > 3 * step("float32").mid
    assert step("bf16").mid == pytest.approx(step("float32").mid) and width(step("bf16")) > width(step("float32"))


def test_a_model_is_moved_once(fitted: DeviceModel) -> None:
    moved = in_precision(fitted, asked(WORK, "float32"))
    assert in_precision(moved, asked(WORK, "float32")) is moved
    assert in_precision(fitted, WORK) is fitted
    with pytest.raises(ValueError, match="is not moved on"):
        in_precision(moved, asked(WORK, "fp16"))


def test_a_probe_counts_in_its_own_precision(fitted: DeviceModel) -> None:
    slow_s = 10 * told(fitted, "float32").step_s.mid
    probe = Probe(allocation=way(H100), step_s=(slow_s, slow_s))
    found = told(fitted, "float32", probe=probe)
    assert found.step_s.mid == pytest.approx(slow_s) and found.time_basis is Basis.MEASURED
    assert width(found.step_s) < 0.1 and "another precision" not in found.note
    usual_s = told(fitted, "float32").step_s.mid
    assert not is_far(replace(probe, step_s=(usual_s,)), asked(WORK, "float32"), fitted)
    assert is_far(replace(probe, step_s=(1e4 * usual_s,)), asked(WORK, "float32"), fitted)


def finished(model: DeviceModel, precision: str, factor: float, count: int) -> list[Finished]:
    foretold = told(model, precision)
    peak = foretold.peak_bytes.mid
    return [
        Finished(
            workload=asked(WORK, precision), allocation=way(model.model_name), step_s=factor * foretold.step_s.mid,
            peak_bytes=peak,
        )
        for _ in range(count)
    ]  # fmt: skip


def test_finished_jobs_teach_their_own_precision_and_the_other_a_little(fitted: DeviceModel) -> None:
    jobs = [*finished(fitted, "float32", 2.0, 6), *finished(fitted, "auto", 1.0, 6)]
    model, beside = corrected(fitted, jobs), 2.0 ** (2 / (6 + 2 + 3))
    assert model.correction.factor == pytest.approx(beside), "six jobs of the other precision count as two"
    assert (model.correction.n_jobs, model.correction.n_other) == (6, 6)
    assert model.corrections["tf32"].factor == pytest.approx(2.0 ** (6 / 9))
    assert told(model, "auto").step_s.mid == pytest.approx(beside * told(fitted, "auto").step_s.mid)
    assert told(model, "float32").step_s.mid == pytest.approx(2.0 ** (6 / 9) * told(fitted, "float32").step_s.mid)
    assert width(told(model, "float32").step_s) < width(told(fitted, "float32").step_s)
    assert model.n_finished == 12
    assert DeviceModel.from_dict(model.to_dict()) == model
    assert corrected(model, jobs) == model, "an earlier correction is replaced"


@pytest.mark.parametrize("name", [V100, H100])
def test_a_device_that_jobs_showed_to_be_slow_is_slow_in_other_precisions_too(name: str) -> None:
    model, work = prior_for("cuda", name), workload(layers=1, filters=8, size=64, batch=64)
    once = Finished(workload=work, allocation=way(name), step_s=3 * told(model, "auto", work).step_s.mid)
    taught = corrected(model, [once] * 10)
    in_16, in_32, before = told(taught, "auto", work), told(taught, "float32", work), told(model, "float32", work)
    assert in_32.step_s.mid >= in_16.step_s.mid
    assert in_32.step_s.mid == pytest.approx(taught.correction.factor * before.step_s.mid)
    assert "10 finished jobs in another precision" in in_32.note and "another precision" not in in_16.note


def test_what_jobs_teach_of_a_precision_begins_from_what_the_device_is_like(fitted: DeviceModel) -> None:
    usual = finished(fitted, "auto", 2.0, 6)
    model = corrected(fitted, [*usual, *finished(fitted, "float32", 2.0, 1)])
    known = corrected(fitted, usual).correction.factor
    assert model.corrections["tf32"].factor == pytest.approx(known * (2.0 / known) ** (1 / 4))


@pytest.mark.parametrize(("count", "share"), [(1, 1 / 5), (3, 1 / 3), (100, 0.493)])
def test_a_device_with_jobs_in_another_precision_alone_is_corrected_by_half_of_what_they_say(
    fitted: DeviceModel, count: int, share: float
) -> None:
    model = corrected(fitted, finished(fitted, "float32", 2.0, count))
    assert model.correction.factor == pytest.approx(2.0**share, rel=1e-3)
    assert (model.correction.n_jobs, model.n_finished) == (0, count)
    in_16 = told(model, "auto")
    assert in_16.step_s.mid == pytest.approx(model.correction.factor * told(fitted, "auto").step_s.mid)
    assert f"{count} finished job{'s' * (count > 1)} in another precision" in in_16.note
    in_float16 = told(model, "fp16")
    assert in_float16.step_s.mid == pytest.approx(in_16.step_s.mid), "nor has anybody told of that"
    assert corrected(model, finished(fitted, "float32", 2.0, count)) == model


def test_jobs_in_a_precision_do_not_teach_it_by_way_of_the_others_as_well(fitted: DeviceModel) -> None:
    alone = corrected(fitted, finished(fitted, "float32", 2.0, 6))
    assert alone.corrections["tf32"].factor == pytest.approx(2.0 ** (6 / 9))
    both = corrected(fitted, [*finished(fitted, "float32", 2.0, 6), *finished(fitted, "fp16", 2.0, 6)])
    by_other = 2.0 ** (2 / 5)
    assert both.corrections["tf32"].factor == pytest.approx(by_other * (2.0 / by_other) ** (6 / 9))
    assert both.correction.factor == pytest.approx(2.0 ** (4 / 7))


def test_peaks_teach_alike_whatever_the_precision(fitted: DeviceModel) -> None:
    """Those of float32 that are as foretold say that what was foretold of 16 bits is right."""
    taught = corrected(fitted, finished(fitted, "float32", 1.0, 20))
    for precision in ("auto", "float32"):
        assert told(taught, precision).peak_bytes.mid == pytest.approx(told(fitted, precision).peak_bytes.mid)
    limit_bytes = 2 * told(fitted, "float32").peak_bytes.high
    lost = RanOut(workload=asked(WORK, "float32"), allocation=way(H100), limit_bytes=limit_bytes)
    assert told(corrected(fitted, [], [lost]), "float32").peak_bytes.high > limit_bytes


def test_a_model_from_before_was_measured_in_what_auto_takes(fitted: DeviceModel) -> None:
    body = fitted.to_dict()
    for name in ("precision", "usual", "corrections", "moved"):
        del body[name]
    assert DeviceModel.from_dict(body) == fitted


def test_points_tell_their_precision_and_those_from_before_have_what_auto_takes() -> None:
    (point,) = points(1)
    (on_v100, on_core) = (replace(point, kind="cuda", model_name=V100), point)
    assert (on_v100.computed_in, on_core.computed_in) == (Precision.FLOAT16, Precision.FLOAT32)
    measured = replace(on_v100, precision="float32")
    for write, read in ((to_json, from_json), (to_csv, from_csv)):
        assert read(write([measured]))[0].computed_in is Precision.FLOAT32
    old = "\n".join(line.rpartition(",")[0] for line in to_csv([on_v100]).splitlines())
    assert from_csv(old)[0].computed_in is Precision.FLOAT16
    with pytest.raises(CalibrationError, match="row 1: precision is 'fp8'"):
        from_json(to_json([measured]).replace('"precision": "float32"', '"precision": "fp8"'))


def test_a_fit_looks_at_the_precision_of_most_points() -> None:
    known = points(20)
    odd = [
        replace(point, workload=asked(point.workload, "bf16"), step_s=(9.0,), point_id=f"odd-{point.point_id}")
        for point in known[:5]
    ]
    assert fit_device_model([*odd, *known]) == fit_device_model(known)
    assert fit_device_model([replace(point, precision="bfloat16") for point in known]).precision is Precision.BFLOAT16


def test_a_gpu_that_the_table_does_not_know_is_asked_in_what_its_points_took_for_auto() -> None:
    known = [replace(point, kind="cuda", model_name="GTX 1080", precision="float32") for point in points(20)]
    model = fit_device_model(known)
    assert prior_for("cuda", "GTX 1080").usual is Precision.BFLOAT16
    assert in_precision(model, WORK) is model and model.precision is model.usual is Precision.FLOAT32
    assert in_precision(model, asked(WORK, "bf16")).moved is not None
    assert DeviceModel.from_dict(model.to_dict()) == model


def test_points_of_before_count_beside_newer_ones_on_a_gpu_that_the_table_does_not_know() -> None:
    told = [replace(point, kind="cuda", model_name="GTX 1080", precision="float32") for point in points(20)]
    mixed = [*(replace(point, precision="") for point in told[:12]), *told[12:]]
    assert fit_device_model(mixed) == fit_device_model(told)


def test_unlike_gpus_compute_in_the_best_that_all_of_them_can() -> None:
    def agreed(*names: str, wanted: str = "auto") -> str:
        return of_gang(asked(WORK, wanted), [("cuda", name) for name in names]).precision

    assert agreed(H100, "NVIDIA A100") == agreed(V100, "Tesla T4") == "auto", "each takes that alone, too"
    assert agreed(H100, V100) == "fp16" and agreed(V100, "Tesla P100") == agreed(H100, "Tesla P100") == "float32"
    assert agreed(H100, V100, wanted="bf16") == "bf16"


def test_a_workload_with_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="precision is 'fp8'"):
        asked(WORK, "fp8")
    body = WORK.to_dict()
    del body["precision"]
    assert Workload.from_dict(body).precision == "auto"
