"""What a weights file must be, and what is said of one that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from safetensors.numpy import load, save

from harness.datasets.safetensors_header import HEADER_BYTES_MAX, header_read, is_weights
from harness.errors import Invalid
from tests.factory_weights import file_of, header_of, safetensors

NUMBERS = bytes(36)


def read(folder: Path, body: bytes) -> Any:
    (folder / "file").write_bytes(body)
    return header_read(folder / "file")


def changed(name: str = "head.bias", **fields: Any) -> bytes:
    header = header_of()
    return file_of({**header, name: {**header[name], **fields}}, NUMBERS)


def test_a_good_file_tells_what_it_holds(tmp_path: Path) -> None:
    header = read(tmp_path, safetensors())
    assert (header.tensors, header.parameters, header.dtypes) == (2, 9, ("F32",))


def test_what_the_library_writes_is_read_and_what_passes_here_it_reads(tmp_path: Path) -> None:
    tensors = {"a": numpy.ones((2, 3), numpy.float16), "b": numpy.zeros((0, 4)), "c": numpy.array(7)}
    header = read(tmp_path, save(tensors, {"format": "pt"}))
    assert (header.tensors, header.parameters, header.dtypes) == (3, 7, ("F16", "F64", "I64"))
    assert load(safetensors())["head.bias"].shape == (3,)


def test_metadata_and_padding_of_the_header_are_no_tensors(tmp_path: Path) -> None:
    text = json.dumps({"__metadata__": {"format": "pt"}, **header_of()}).encode() + b"    "
    assert read(tmp_path, file_of(text, NUMBERS)).tensors == 2


@pytest.mark.parametrize("length", [0x0280, 0x0380, 0x0480, 0x0580])
def test_a_header_as_long_as_a_pickle_begins_is_a_header_all_the_same(tmp_path: Path, length: int) -> None:
    assert read(tmp_path, file_of(json.dumps(header_of()).encode().ljust(length), NUMBERS)).tensors == 2


def test_a_number_alone_and_an_empty_tensor_are_tensors(tmp_path: Path) -> None:
    assert read(tmp_path, safetensors({"steps": [], "none": [0, 4]})).parameters == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"abc", "too few for a header"),
        (b"\xff" * 20, "or is of another format"),
        (b"trained on Tuesday: 0.25, 0.5", "or is of another format"),
        (file_of(b" " * (HEADER_BYTES_MAX + 1), b""), f"at most {HEADER_BYTES_MAX >> 20} MiB are read"),
        (safetensors()[:30], "ends within its header"),
        (safetensors()[:-1], "1 bytes are missing"),
        (safetensors() + b"x", "1 bytes at its end belong to no tensor"),
        (file_of(b"{not json", NUMBERS), "not JSON"),
        (file_of(b"\xff\xfe", NUMBERS), "not JSON"),
        (file_of(b"[" * 100_000, NUMBERS), "not JSON"),
        (file_of(b'{"a": 1, "a": 2}', NUMBERS), "a name occurs twice"),
        (file_of([1], NUMBERS), "no JSON object"),
        (file_of(b"  " + json.dumps(header_of()).encode(), NUMBERS), "no JSON object"),
        (file_of({"__metadata__": {"step": 3}, **header_of()}, NUMBERS), "__metadata__"),
        (file_of({"__metadata__": {}}, b""), "no tensors"),
        (file_of({"a": 5}, NUMBERS), "'a' is no tensor"),
        (changed(dtype="F8_E4M3"), "numbers of the kind 'F8_E4M3'"),
        (changed(dtype=["F32"]), "numbers of the kind"),
        (changed(shape=[-3]), "shape of 'head.bias'"),
        (changed(shape=[True]), "shape of 'head.bias'"),
        (changed(shape=[1] * 17), "shape of 'head.bias'"),
        (changed(shape=[1 << 50]), "shape of 'head.bias'"),
        (changed(shape=[4]), "has 12 bytes, and its shape asks for 16"),
        (changed(data_offsets=[24]), "data_offsets of 'head.bias'"),
        (changed(data_offsets=[36, 24]), "has -12 bytes"),
        (changed(data_offsets=[12, 24]), "gap or overlap"),
        (changed(data_offsets=[28, 40]), "gap or overlap"),
        (changed("encoder.weight", data_offsets=[12, 36]), "gap or overlap"),
        (changed(more=float("nan")), "and nothing else"),
        (file_of(header_of({"\ud800": [1]}), bytes(4)), "not JSON"),
        (file_of({"__metadata__": {"by": "\udfff"}, **header_of()}, NUMBERS), "not JSON"),
        (file_of(json.dumps(header_of()).replace("[0,", "[-0,").encode(), NUMBERS), "data_offsets of 'encoder.weight'"),
    ],
)
def test_a_file_that_is_damaged_cut_or_lies_is_refused_in_words(tmp_path: Path, body: bytes, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        read(tmp_path, body)
    assert said in caught.value.message and caught.value.hint


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x80\x04\x95"])
def test_a_pickle_is_known_by_its_first_bytes_and_told_how_to_be_converted(tmp_path: Path, start: bytes) -> None:
    with pytest.raises(Invalid, match="pickle") as caught:
        read(tmp_path, start + bytes(40))
    assert 'save_file(model.state_dict(), "weights.safetensors")' in caught.value.hint


@pytest.mark.parametrize("name", ["a.pt", "a.PTH", "pytorch_model.bin", "last.ckpt", "a.pkl"])
def test_a_pickle_is_refused_by_its_name_before_a_byte_is_sent(name: str) -> None:
    with pytest.raises(Invalid, match="pickle by its name") as caught:
        is_weights(name)
    assert "save_file" in caught.value.hint


def test_weights_are_told_from_data_by_their_name() -> None:
    assert is_weights("A.SafeTensors") and not is_weights("flowers.csv")
