"""The generated data.py for pictures: parts, statistics, sizes, augmentation."""

from __future__ import annotations

import io
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests.codegen.programs import module, program_spec

IMAGES = module("data_images.py")


def write_pictures(folder, count: int = 60, mode: str = "RGB", size: tuple[int, int] = (12, 10), split=None):
    generator = np.random.default_rng(0)
    blobs = []
    for _ in range(count):
        shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
        out = io.BytesIO()
        Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8), mode).save(out, "PNG")
        blobs.append(out.getvalue())
    columns = {"image": blobs, "label": [str(index % 11) for index in range(count)]}
    if split:
        columns["__split__"] = [split[index % len(split)] for index in range(count)]
    pq.write_table(pa.table(columns), folder / "images.parquet")


def load_pictures(folder, channels: int = 3, size: int = 8):
    body = {
        "data": {"split": {"validation": 0.2, "test": 0.2, "stratify": True}},
        "training": {"seed": 0},
        "shape": {"channels": channels, "height": size, "width": size},
    }
    return IMAGES.load(program_spec(body), folder)


def test_copies_of_a_picture_are_never_in_two_parts(tmp_path):
    write_pictures(tmp_path)
    table = pq.read_table(tmp_path / "images.parquet")
    pq.write_table(pa.concat_tables([table, table]), tmp_path / "images.parquet")
    dataset = load_pictures(tmp_path)
    originals = [set((part.rows % 60).tolist()) for part in (dataset.train, dataset.val, dataset.test)]
    assert all(originals)
    assert sum(map(len, originals)) == len(set.union(*originals)) == 60


def test_mean_and_deviation_are_those_of_all_classes_though_the_file_is_ordered_by_class(tmp_path, monkeypatch):
    blobs = []
    for grey in range(200):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8), grey, dtype=np.uint8)).save(out, "PNG")
        blobs.append(out.getvalue())
    labels = ["dark"] * 100 + ["light"] * 100
    pq.write_table(pa.table({"image": blobs, "label": labels}), tmp_path / "images.parquet")
    monkeypatch.setattr(IMAGES, "STATISTICS_PICTURES", 20)
    shape = load_pictures(tmp_path, channels=1).shape
    assert shape["channel_mean"] == pytest.approx([100 / 255], abs=0.04)
    assert shape["channel_std"] == pytest.approx([58 / 255], abs=0.03)


def test_reading_takes_twice_what_is_kept_and_no_more(tmp_path):
    write_pictures(tmp_path, count=1500)
    tracemalloc.start()
    try:
        dataset = load_pictures(tmp_path, size=48)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    kept_bytes = sum(part.inputs[0].nbytes for part in (dataset.train, dataset.val, dataset.test))
    assert peak_bytes < 2.2 * kept_bytes


def test_mean_and_deviation_are_exact(tmp_path):
    write_pictures(tmp_path, count=40)
    dataset = load_pictures(tmp_path)
    values = dataset.train.inputs[0].double() / 255
    assert dataset.shape["channel_mean"] == pytest.approx(values.mean((0, 2, 3)).tolist())
    assert dataset.shape["channel_std"] == pytest.approx(values.std((0, 2, 3), correction=0).tolist())


@pytest.mark.parametrize(("mode", "channels"), [("RGB", 3), ("L", 1), ("L", 3), ("RGB", 1)])
def test_pictures_become_bytes_of_one_size(tmp_path, mode, channels):
    write_pictures(tmp_path, mode=mode)
    dataset = load_pictures(tmp_path, channels)
    (pictures,) = dataset.train.inputs
    assert pictures.dtype == torch.uint8
    assert pictures.shape[1:] == (channels, 8, 8)
    assert list(dataset.classes) == [str(number) for number in range(11)]
    assert len(dataset.shape["channel_mean"]) == channels
    assert dataset.shape["channel_mean"][0] == pytest.approx(0.5, abs=0.05)


def test_a_picture_to_predict_is_prepared_as_in_training(tmp_path):
    write_pictures(tmp_path)
    dataset = load_pictures(tmp_path)
    blobs = pq.read_table(tmp_path / "images.parquet")["image"].to_pylist()
    records = [Image.open(io.BytesIO(blobs[row])) for row in dataset.test.rows.tolist()]
    (pictures,) = IMAGES.transform(json.loads(json.dumps(dataset.preprocess)), records)
    assert torch.equal(pictures, dataset.test.inputs[0])


def test_pictures_with_folders_of_parts_keep_them(tmp_path):
    write_pictures(tmp_path, split=("train", "train", "test"))
    dataset = load_pictures(tmp_path)
    assert dataset.test.rows.tolist() == list(range(2, 60, 3))


def test_a_shift_moves_whole_pictures_by_at_most_an_eighth():
    pictures = torch.zeros(64, 1, 16, 16, dtype=torch.uint8)
    pictures[:, :, 8, 8] = 255
    moved = IMAGES.random_shift(pictures, torch.Generator().manual_seed(0))
    places = moved.flatten(1).argmax(dim=1)
    rows, columns = places // 16, places % 16
    assert moved.shape == pictures.shape
    assert (moved == 255).flatten(1).sum(dim=1).eq(1).all()
    assert rows.min() == 6 and rows.max() == 10
    assert columns.min() == 6 and columns.max() == 10


def test_a_flip_mirrors_about_half_of_the_pictures():
    pictures = torch.arange(4, dtype=torch.uint8).expand(400, 1, 4, 4).contiguous()
    flipped = IMAGES.random_flip(pictures, torch.Generator().manual_seed(0))
    mirrored = (flipped[:, 0, 0, 0] == 3).sum().item()
    assert 150 < mirrored < 250
    assert torch.equal(flipped.sort(dim=3).values, pictures)


def test_augmentation_is_repeatable_from_the_generators_state():
    pictures = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
    first = IMAGES.augment((pictures,), "shift_flip", torch.Generator().manual_seed(5))[0]
    again = IMAGES.augment((pictures,), "shift_flip", torch.Generator().manual_seed(5))[0]
    assert torch.equal(first, again)
