"""The header of a safetensors file, read and checked without the numbers: no code of the file is ever run, and a file
that passes can be read in every place that reads it later.

Format: 8 bytes with the length of the header (little-endian), the header as JSON, then the numbers of all tensors
without gaps. https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import Invalid
from worker.words import size_words

SUFFIX = ".safetensors"
PICKLE_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
HEADER_BYTES_MAX = 8 << 20
"""Some 60,000 tensors; the largest models have a few thousand."""
AXES_MAX = 16
DTYPE_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Kinds of numbers that a run can start from."""
CONVERT = (
    "Write it as safetensors where you trained it: from safetensors.torch import save_file; "
    'save_file(model.state_dict(), "weights.safetensors").'
)
_LENGTH = struct.Struct("<Q")
_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""How files of torch.save and pickle begin."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file holds."""

    tensors: int
    parameters: int
    dtypes: tuple[str, ...]


def is_weights(filename: str) -> bool:
    """Whether a file of this name holds weights. Raises `Invalid` for formats that run code when they are read."""
    name = filename.lower()
    if name.endswith(PICKLE_SUFFIXES):
        raise Invalid(
            f"{filename} is a pickle by its name, which can run any code when it is read: it is not taken.",
            field="filename", code="weights_pickle", hint=CONVERT,
        )  # fmt: skip
    return name.endswith(SUFFIX)


def header_read(path: Path) -> Header:
    """Read and check the header of a file. Raises `Invalid`."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = stream.read(_LENGTH.size)
        if len(start) < _LENGTH.size:
            raise _fault(f"it has {size} bytes, too few for a header")
        length = _LENGTH.unpack(start)[0]
        if length > HEADER_BYTES_MAX and start.startswith(_PICKLES):  # headers may have 640 bytes, 80 02 in hexadecimal
            raise _fault("it is a pickle (torch.save), which can run any code when it is read")
        if _LENGTH.size + length > size:
            raise _fault("it ends within its header: it was cut, or is of another format")
        if length > HEADER_BYTES_MAX:
            raise _fault(f"its header has {length:,} bytes, at most {size_words(HEADER_BYTES_MAX)} are read")
        body = _json(stream.read(length))
    return _checked(body, size - _LENGTH.size - length)


def _json(text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        body = dict(pairs)
        if len(body) < len(pairs):
            raise ValueError("a name occurs twice")
        return body

    try:
        body = json.loads(text.decode(), object_pairs_hook=unique, parse_int=_whole)
        json.dumps(body, ensure_ascii=False).encode()  # no half of a letter, which the library does not read
    except (ValueError, RecursionError) as error:
        raise _fault(f"its header is not JSON: {str(error)[:100]}") from error
    if not isinstance(body, dict) or not text.startswith(b"{"):
        raise _fault("its header is no JSON object")
    notes = body.pop("__metadata__", {})
    if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
        raise _fault("its __metadata__ is no map from names to texts")
    return body


def _checked(body: dict[str, Any], numbers_bytes: int) -> Header:
    """`numbers_bytes`: what follows the header. Raises `Invalid`."""
    if not body:
        raise _fault("it holds no tensors")
    spans, dtypes, parameters = [], set(), 0
    for name, tensor in body.items():
        dtype, count, begin, end = _tensor(name, tensor)
        spans.append((begin, end, name))
        dtypes.add(dtype)
        parameters += count
    stands = 0
    for begin, end, name in sorted(spans):
        if begin != stands:
            raise _fault(f"the numbers of {_shown(name)} do not follow those of the tensor before: gap or overlap")
        stands = end
    if stands > numbers_bytes:
        raise _fault(f"it was cut: {stands - numbers_bytes:,} bytes are missing")
    if stands < numbers_bytes:
        raise _fault(f"{numbers_bytes - stands:,} bytes at its end belong to no tensor")
    return Header(tensors=len(body), parameters=parameters, dtypes=tuple(sorted(dtypes)))


def _tensor(name: str, tensor: Any) -> tuple[str, int, int, int]:
    """(kind of numbers, how many, where they begin and end). Raises `Invalid`."""
    if not isinstance(tensor, dict) or {"dtype", "shape", "data_offsets"} != tensor.keys():
        raise _fault(f"{_shown(name)} is no tensor with dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = tensor["dtype"], tensor["shape"], tensor["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BYTES:
        kinds = ", ".join(DTYPE_BYTES)
        hint = f"Convert it to one of {kinds}, for example by tensor.float(), and save it again."
        raise _fault(f"{_shown(name)} has numbers of the kind {str(dtype)[:20]!r}", hint)
    if not _is_counts(shape) or len(shape) > AXES_MAX:
        raise _fault(f"the shape of {_shown(name)} is no list of at most {AXES_MAX} whole numbers")
    if not _is_counts(offsets) or len(offsets) != 2:
        raise _fault(f"the data_offsets of {_shown(name)} are not two whole numbers")
    count, (begin, end) = math.prod(shape), offsets
    if end - begin != count * DTYPE_BYTES[dtype]:
        raise _fault(f"{_shown(name)} has {end - begin:,} bytes, and its shape asks for {count * DTYPE_BYTES[dtype]:,}")
    return dtype, count, begin, end


def _whole(digits: str) -> int:
    return -1 if digits.startswith("-") else int(digits)  # the library takes no -0, either


def _is_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int and 0 <= one < 1 << 48 for one in value)


def _shown(name: str) -> str:
    return repr(name[:80])


def _fault(what: str, hint: str = CONVERT) -> Invalid:
    return Invalid(f"This is not a safetensors file that can be used: {what}.", field="file", code="weights", hint=hint)
