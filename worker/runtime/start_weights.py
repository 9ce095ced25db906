"""Weights that a model starts from: tensors of a safetensors file are taken by name and shape, before anything is
trained. No format that runs code is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from worker.events import FailureCode
from worker.plan import START_WEIGHTS
from worker.runtime.failures import ProgramFailure
from worker.words import counted

if TYPE_CHECKING:
    from worker.runtime.spec import Spec

_WRAPPERS = ("module.", "_orig_mod.")
"""What `DataParallel` and `torch.compile` put before every name."""
_NAMED = 5
"""So many tensors of a kind are named, the others counted."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How a file and a model go together, by the model's names."""

    taken: tuple[str, ...]
    taken_parameters: int
    parameters: int
    """Numbers that the model has in its parameters."""
    fresh: tuple[str, ...]
    """Tensors of the model that stay as they were built, each with the reason."""
    unknown: tuple[str, ...]
    """Tensors of the file that the model has no name for."""

    @property
    def words(self) -> str:
        """For the job page and the log."""
        tensors = len(self.taken) + len(self.fresh)
        told = (
            f"Starts from the weights file: {len(self.taken)} of {counted(tensors, 'tensor')} taken, "
            f"{self.taken_parameters:,} of {counted(self.parameters, 'parameter')}."
        )
        told += f" Left fresh: {_listed(self.fresh)}." if self.fresh else ""
        return f"{told}{self._unknown_words}"

    @property
    def misfit_words(self) -> str:
        """For a run that does not start, since not all of it fits."""
        tensors = len(self.taken) + len(self.fresh)
        told = f"Of the model's {counted(tensors, 'tensor')} {len(self.taken)} have their weights in the file."
        told += f" Without: {_listed(self.fresh)}." if self.fresh else ""
        return f"{told}{self._unknown_words}"

    @property
    def _unknown_words(self) -> str:
        return f" Not in the model: {_listed(self.unknown)}." if self.unknown else ""


def weights_take(net: nn.Module, spec: Spec, given: Path | None) -> Fit | None:
    """Put the weights that the spec names into the model; None where it names none.

    `given`: where the file lies; else beside the program. Raises `ProgramFailure`, and then leaves the model unfit.
    """
    wished = spec.get("model", {})
    if str(wished.get("weights", "auto")) == "auto":
        return None
    file = given or Path(START_WEIGHTS)
    try:
        with safe_open(file, framework="pt") as stored:
            fit = _taken(net, stored)
    except FileNotFoundError as error:
        hint = f"Put it beside train.py as {START_WEIGHTS}, or name it by --weights FILE; or take model.weights out."
        raise ProgramFailure(FailureCode.DATA_ERROR, "There is no weights file to start from.", hint) from error
    except SafetensorError as error:
        hint = "Write it by safetensors.torch.save_file(model.state_dict(), ...)."
        raise ProgramFailure(FailureCode.DATA_ERROR, f"The weights file cannot be read: {error}.", hint) from error
    _fit_check(fit, strict=wished.get("weights_match") == "all")
    return fit


def _taken(net: nn.Module, stored: Any) -> Fit:
    own = {name: value for name, value in net.state_dict().items() if isinstance(value, Tensor)}
    names = _names(list(stored.keys()))
    learnt = {id_of(weight): weight.numel() for weight in net.parameters() if not is_lazy(weight)}
    taken, fresh, stores = list[str](), dict[str, str](), set[int]()
    for name, tensor in own.items():
        if reason := _misfit(tensor, name, names, stored):
            fresh[name] = reason
            continue
        with torch.no_grad():
            tensor.copy_(stored.get_tensor(names[name]))
        if _is_ruined(tensor, is_learnt=id_of(tensor) in learnt):
            hint = "Save the weights of an earlier epoch, or as float32."
            raise ProgramFailure(FailureCode.DATA_ERROR, f"{name} of the weights file is not finite.", hint)
        taken.append(name)
        stores.add(id_of(tensor))
    # of tensors that share their memory, files have only one
    shared = [name for name in fresh if name not in names and id_of(own[name]) in stores]
    taken += shared
    left = tuple(f"{name} ({reason})" for name, reason in fresh.items() if name not in shared)
    unknown = tuple(sorted(set(names) - set(own)))
    parameters = sum(learnt.values())
    taken_parameters = sum(size for store, size in learnt.items() if store in stores)
    return Fit(
        taken=tuple(taken), taken_parameters=taken_parameters, parameters=parameters, fresh=left, unknown=unknown
    )


def _is_ruined(value: Tensor, *, is_learnt: bool) -> bool:
    """Whether a training that went wrong left it so, or it is too large for the model's kind of numbers; buffers, such
    as masks of attention, may be infinite."""
    return value.is_floating_point() and not bool((value.isfinite() if is_learnt else ~value.isnan()).all())


def id_of(tensor: Tensor) -> int:
    """The same for tensors that share their memory."""
    return tensor.data_ptr() or id(tensor)  # one without elements has no memory


def _names(stored: Sequence[str]) -> Mapping[str, str]:
    """Name in the model -> name in the file."""
    prefix = ""
    while wrapper := next((one for one in _WRAPPERS if all(name.startswith(prefix + one) for name in stored)), ""):
        if not stored:
            break
        prefix += wrapper
    return {name.removeprefix(prefix): name for name in stored}


def _misfit(tensor: Tensor, name: str, names: Mapping[str, str], stored: Any) -> str:
    """Why a tensor is not taken from the file; empty: it is."""
    if is_lazy(tensor):
        return "not built yet"
    if name not in names:
        return "not in the file"
    there = stored.get_slice(names[name])
    shape, here = list(there.get_shape()), list(tensor.shape)
    if shape != here:
        return f"{here}, in the file {shape}"
    is_float = there.get_dtype() in {"F64", "F32", "F16", "BF16"}
    if is_float != tensor.is_floating_point():
        return f"{str(tensor.dtype).removeprefix('torch.')}, in the file {there.get_dtype()}"
    return ""


def _fit_check(fit: Fit, *, strict: bool) -> None:
    """Raises `ProgramFailure` where nothing fits, or with `strict` where something does not."""
    if fit.parameters and not fit.taken_parameters:
        message = f"Nothing of the weights file fits the model. In the model: {_listed(fit.fresh)}."
        message += f" In the file: {_listed(fit.unknown)}." if fit.unknown else ""
        hint = "Tensors are taken by name and shape: give the file's tensors the names of the model's state_dict()."
        raise ProgramFailure(FailureCode.MODEL_WRONG_SHAPE, message, hint)
    if strict and (fit.fresh or fit.unknown):
        hint = "Let model.weights_match be `fitting` to take what fits and leave the rest fresh."
        raise ProgramFailure(FailureCode.MODEL_WRONG_SHAPE, f"The weights file does not fit. {fit.misfit_words}", hint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
