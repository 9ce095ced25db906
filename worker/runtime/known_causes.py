"""What is known of exceptions that a program ends with: cause and next step in plain words."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from urllib.error import HTTPError, URLError

MESSAGE_CHARS = 300
"""A headline is no longer; the log has the whole."""
ASKS_FOR_GPU = (
    "not compiled with CUDA", "no NVIDIA driver", "No CUDA GPUs", "_cuda_setDevice", "Cannot get CUDA generator",
    "requires CUDA support", "Attempting to deserialize object on a CUDA device",
    "CUDA driver version is insufficient", "no CUDA-capable device is detected",
)  # fmt: skip
"""What torch says where a program names `cuda` and there is no GPU; the last two by its CUDA build, without a driver or
without a device."""
KNOWN = (
    (
        ("'Byte'", "got Byte and", "unsigned char"),
        "A layer that expects floats was given the bytes of pictures.",
        "Let `forward` begin with `pictures = pictures.float() / 255`: pictures come as bytes, 0 to 255.",
    ),
    (
        ("Expected more than 1 value per channel when training",),
        "Batch normalisation needs more than one row, and a step here had only one.",
        "Set training.batch_size to at least twice the number of ranks, and training.accumulate to 1.",
    ),
    (
        ("uninitialized parameter",),
        "The model has layers that take their size from the first batch (LazyLinear and the like).",
        "Give them their sizes in build(spec): the model is measured, shared out and loaded before it sees rows.",
    ),
    (
        ("does not require grad and does not have a grad_fn",),
        "The output of the model does not depend on its parameters, so nothing can be learned.",
        "Take torch.no_grad() and .detach() out of forward.",
    ),
    (
        ("device-side assert",),
        "A class number or an index is out of range. A GPU tells that late: the line to blame may come before.",
        "Run it on a CPU (python train.py --device cpu): there the line itself fails, and says what is out of range.",
    ),
    (
        ASKS_FOR_GPU,
        "The program asks for a GPU (CUDA), but this device is not one.",
        "Leave `.cuda()` and `.to(...)` out: train.py moves the model and the rows to the device of the run. Where a "
        "device must be named, write `run.device` for 'cuda' in train.py, and that of an input, such as "
        "`numeric.device` or `pictures.device`, in forward.",
    ),
    (
        ("from the 'Sparse", "support sparse gradients", "layout torch.sparse_coo"),
        "Sparse gradients are not supported.",
        "Build the layer with sparse=False, which is the default of Embedding and EmbeddingBag.",
    ),
)
"""(what torch says of it, message, hint)"""
_UNREACHABLE = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN}
_NO_ADDRESS = ("Name or service not known", "Temporary failure in name resolution", "Network is unreachable")
"""As texts: libraries wrap what the system says into errors of their own."""


def headline(error: BaseException) -> str:
    """Kind and first line of an exception, at a length that can be read."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next((line for line in lines if line), "")
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return told if len(told) <= MESSAGE_CHARS else f"{told[:MESSAGE_CHARS].rstrip()} ..."


def known_cause(error: BaseException) -> tuple[str, str] | None:
    """(message, hint) of what is known; None where nothing is."""
    if any(_wants_network(each) for each in _chain(error)):
        message = f"The program asked the network for something, and programs have no network ({headline(error)})."
        hint = (
            "Leave out what downloads: build the model without pretrained weights (weights=None) and torch.hub, and "
            "bring weights along as a weights file (model.weights)."
        )
        return message, hint
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        message = f"The program wrote where it may not ({headline(error)})."
        hint = "Write into the folder `run.settings.work`, which stays with the job, or into tempfile.gettempdir()."
        return message, hint
    return next(((message, hint) for texts, message, hint in KNOWN if any(text in str(error) for text in texts)), None)


def asks_for_gpu(error: BaseException) -> bool:
    """Whether a program names `cuda` where there is no GPU."""
    return any(text in str(each) for each in _chain(error) for text in ASKS_FOR_GPU)


def not_finite_hint(clip_norm: object, computes_in: str, *, is_saved: bool) -> str:
    """What helps against losses or weights that are no finite numbers. `clip_norm` and `computes_in`: what the run has;
    `is_saved`: it has a checkpoint."""
    clips = isinstance(clip_norm, int | float) and 0 < clip_norm <= 1
    more = ", and look for extreme values in the data" if clips else " or set training.clip_norm to 1"
    more += ", or set training.precision to float32" if computes_in == "float16" else ""
    kept = " Checkpoints made before are kept." if is_saved else " There is no checkpoint yet."
    return f"Lower the learning rate (a tenth is a good try){more}.{kept}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """It and what it came from."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        origins = (each.__cause__, each.__context__, getattr(each, "reason", None))
        waiting += [origin for origin in origins if isinstance(origin, BaseException)]


def _wants_network(error: BaseException) -> bool:
    """Whether a name was to be resolved, or a connection made to another machine."""
    if not isinstance(error, OSError) or isinstance(error, HTTPError):
        return False
    if isinstance(error, socket.gaierror) or error.errno in _UNREACHABLE:
        return True
    refused = isinstance(error, URLError) and isinstance(error.reason, ConnectionError | PermissionError | TimeoutError)
    return refused or any(text in str(error) for text in _NO_ADDRESS)
