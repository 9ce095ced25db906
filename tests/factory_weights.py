"""Weights files for tests: safetensors written by hand, as torch is not loaded for them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

SHAPES = {"encoder.weight": [3, 2], "head.bias": [3]}


def header_of(shapes: Mapping[str, list[int]] = SHAPES) -> dict[str, Any]:
    """The header of a file with float32 tensors of these shapes."""
    body: dict[str, Any] = {}
    begin = 0
    for name, shape in shapes.items():
        size = 4
        for axis in shape:
            size *= axis
        body[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    return body


def file_of(header: Any, numbers: bytes) -> bytes:
    """A file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + numbers


def safetensors(shapes: Mapping[str, list[int]] = SHAPES, fill: int = 0) -> bytes:
    """A good file; another `fill` gives other bytes."""
    header = header_of(shapes)
    end = max(tensor["data_offsets"][1] for tensor in header.values())
    return file_of(header, bytes([fill]) * end)


def weights_make(
    user: Any, project: Any, filename: str = "mine.safetensors", body: bytes | None = None, **more: Any
) -> Any:
    """Upload one: more arguments are those of `upload_create`."""
    from harness.datasets.uploads import upload_append, upload_create
    from harness.datasets.weights import weights_finish

    body = safetensors() if body is None else body
    upload = upload_create(user=user, project=project, filename=filename, size_bytes=len(body), **more)
    upload_append(upload=upload, offset=0, chunk=[body])
    return weights_finish(upload=upload)
