"""What of a weights file a model takes, what stays fresh, and when a run is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from worker.runtime.failures import ProgramFailure
from worker.runtime.spec import Spec, as_spec
from worker.runtime.start_weights import Fit, weights_take


def model(outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, outputs))


def spec(match: str = "fitting") -> Spec:
    return as_spec({"model": {"weights": "mine", "weights_match": match}})


def taken(net: nn.Module, tensors: dict[str, Tensor], folder: Path, match: str = "fitting") -> Fit:
    save_file(tensors, folder / "given.safetensors")
    fit = weights_take(net, spec(match), folder / "given.safetensors")
    assert fit is not None
    return fit


def trained() -> dict[str, Tensor]:
    net = model()
    for value in net.state_dict().values():
        value.fill_(7)
    return net.state_dict()


def refused(net: nn.Module, tensors: dict[str, Tensor], folder: Path, match: str = "fitting") -> Any:
    with pytest.raises(ProgramFailure) as caught:
        taken(net, tensors, folder, match)
    return caught.value


def test_all_that_has_the_same_name_and_shape_is_taken_buffers_too(tmp_path: Path) -> None:
    net = model()
    fit = taken(net, trained(), tmp_path, "all")
    assert all(bool((value == 7).all()) for value in net.state_dict().values())
    assert fit.words == "Starts from the weights file: 9 of 9 tensors taken, 53 of 53 parameters."


def test_a_head_for_other_classes_stays_as_it_was_built_and_is_named(tmp_path: Path) -> None:
    net = model(outputs=8)
    built = net[2].weight.detach().clone()
    fit = taken(net, trained(), tmp_path)
    assert torch.equal(net[2].weight, built) and bool((net[0].weight == 7).all())
    assert "7 of 9 tensors taken, 35 of 83 parameters" in fit.words
    assert "Left fresh: 2.weight ([8, 5], in the file [3, 5]), 2.bias ([8], in the file [3])." in fit.words


def test_tensors_without_a_place_in_the_model_are_told(tmp_path: Path) -> None:
    fit = taken(model(), {**trained(), "decoder.weight": torch.ones(2)}, tmp_path)
    assert fit.unknown == ("decoder.weight",) and "Not in the model: decoder.weight." in fit.words


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod."])
def test_names_that_a_wrapper_put_before_all_others_are_taken_without_it(tmp_path: Path, wrapper: str) -> None:
    fit = taken(model(), {f"{wrapper}{name}": value for name, value in trained().items()}, tmp_path, "all")
    assert len(fit.taken) == 9


def test_numbers_of_another_width_are_converted(tmp_path: Path) -> None:
    net = model()
    halves = {name: value.half() if value.is_floating_point() else value for name, value in trained().items()}
    taken(net, halves, tmp_path, "all")
    assert net[0].weight.dtype == torch.float32 and bool((net[0].weight == 7).all())


def test_whole_numbers_are_not_taken_for_weights(tmp_path: Path) -> None:
    fit = taken(model(), {**trained(), "0.weight": torch.ones(5, 4, dtype=torch.int64)}, tmp_path)
    assert fit.fresh == ("0.weight (float32, in the file I64)",)


def test_of_weights_that_two_layers_share_the_file_needs_one_name(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    net[1].weight = net[0].weight
    fit = taken(net, {"0.weight": torch.full((4, 4), 7.0)}, tmp_path, "all")
    assert fit.taken == ("0.weight", "1.weight") and fit.taken_parameters == fit.parameters == 16


def test_a_file_of_which_nothing_fits_is_refused_with_the_names_of_both(tmp_path: Path) -> None:
    error = refused(model(), {"encoder.weight": torch.ones(5, 4)}, tmp_path)
    assert error.message.startswith("Nothing of the weights file fits the model. In the model: 0.weight (not in")
    assert error.message.endswith("In the file: encoder.weight.") and "state_dict()" in error.hint


def test_counters_alone_are_no_fit(tmp_path: Path) -> None:
    assert "Nothing" in refused(model(), {"1.num_batches_tracked": torch.tensor(3)}, tmp_path).message


@pytest.mark.parametrize("more", [{"extra": torch.ones(1)}, {"2.bias": torch.ones(8)}])
def test_where_all_must_match_a_tensor_that_does_not_is_refused(tmp_path: Path, more: dict[str, Tensor]) -> None:
    error = refused(model(), {**trained(), **more}, tmp_path, "all")
    assert error.message.startswith("The weights file does not fit. Of the model's") and "weights_match" in error.hint
    assert "Starts from" not in error.message


def test_weights_that_are_no_numbers_are_refused_by_name(tmp_path: Path) -> None:
    error = refused(model(), {**trained(), "2.bias": torch.tensor([1.0, float("nan"), 1.0])}, tmp_path)
    assert error.message == "2.bias of the weights file is not finite."


def test_a_number_that_is_too_large_for_the_model_is_refused(tmp_path: Path) -> None:
    error = refused(model(), {**trained(), "2.bias": torch.full((3,), 1e300, dtype=torch.float64)}, tmp_path)
    assert error.message == "2.bias of the weights file is not finite."


def test_a_mask_of_infinite_numbers_is_taken_and_one_of_no_numbers_refused(tmp_path: Path) -> None:
    net = model()
    net.register_buffer("mask", torch.zeros(2))
    assert not taken(net, {**trained(), "mask": torch.tensor([0.0, -torch.inf])}, tmp_path).fresh
    assert net.state_dict()["mask"].tolist() == [0.0, -torch.inf]
    error = refused(net, {**trained(), "mask": torch.tensor([0.0, torch.nan])}, tmp_path)
    assert error.message == "mask of the weights file is not finite."


def test_a_file_that_is_missing_or_none_of_weights_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailure, match="no weights file to start from") as caught:
        weights_take(model(), spec(), tmp_path / "none.safetensors")
    assert "beside train.py as weights.safetensors" in caught.value.hint
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors at all")
    with pytest.raises(ProgramFailure, match="cannot be read"):
        weights_take(model(), spec(), tmp_path / "bad.safetensors")


def test_a_spec_that_names_none_starts_from_fresh_weights(tmp_path: Path) -> None:
    save_file(trained(), tmp_path / "given.safetensors")
    assert weights_take(model(), as_spec({"model": {"family": "mlp"}}), tmp_path / "given.safetensors") is None
