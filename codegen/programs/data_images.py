"""Reads the pictures, splits them and turns them into tensors.

The packed pictures are plain already: upright, grey or RGB with 8 bits, transparent parts on white (predict.py makes
new ones alike). They are cut to a square in their middle, scaled to one size and kept as bytes (uint8 [N, channels,
height, width], a quarter of the memory of floats); the model turns them into floats with the mean and deviation of the
training pictures.
"""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image, ImageOps

from worker.runtime.data import Dataset, Part
from worker.runtime.pulse import pulse
from worker.runtime.split import said_of_copies, said_of_random, split_rows

STATISTICS_PICTURES = 5000  # the mean and deviation are taken from at most so many training pictures


def load(spec, folder: Path) -> Dataset:
    """Read `images.parquet` below `folder` and return the prepared parts."""
    path = folder / "images.parquet"
    pictures = read_pictures(path, spec.shape.channels, spec.shape.height, spec.shape.width)
    columns = [name for name in ("label", "__split__") if name in pq.read_schema(path).names]
    table = pq.read_table(path, columns=columns)
    labels = [str(label) for label in table["label"].to_pylist()]
    classes = sorted(set(labels), key=natural_order)
    number = {name: index for index, name in enumerate(classes)}
    targets = np.array([number[label] for label in labels], dtype=np.int64)
    given = table["__split__"].to_pylist() if "__split__" in columns else None
    split = spec.data.split
    stratify = targets if split.stratify else None
    copies = same_pixels(pictures)  # a copy of a training picture would be no test
    parts = split_rows(len(targets), split.validation, split.test, spec.training.seed, stratify, given, copies=copies)

    every = max(1, -(-len(parts["train"]) // STATISTICS_PICTURES))  # the file may be ordered by class
    mean, std = mean_and_std(pictures, parts["train"][::every])
    shape = {
        "channels": spec.shape.channels,
        "height": spec.shape.height,
        "width": spec.shape.width,
        "classes": classes,
        "outputs": len(classes),
        "channel_mean": [float(value) for value in mean],
        "channel_std": [float(value) or 1.0 for value in std],
    }
    preprocess = {"classes": classes, "shape": shape}

    def part(name: str) -> Part:
        rows = torch.from_numpy(parts[name])
        return Part(
            inputs=(torch.from_numpy(pictures[parts[name]]),),
            targets=torch.from_numpy(targets[parts[name]]),
            rows=rows,
        )

    notes = said_of_copies(copies, parts)
    said = said_of_random(parts, stratify, given)
    return Dataset(part("train"), part("val"), part("test"), classes, preprocess, shape, notes, said)


def natural_order(name: str):
    """Sort key that puts '2' before '10'."""
    try:
        number = float(name)
    except ValueError:
        return (1, 0.0, name)
    return (0, number, name) if number == number else (1, 0.0, name)  # "nan" is neither before nor after a number


def read_pictures(path: Path, channels: int, height: int, width: int) -> np.ndarray:
    """All pictures of the file as uint8 [N, channels, height, width], decoded in threads, a batch at a time."""
    file = pq.ParquetFile(path)
    pictures = np.empty((file.metadata.num_rows, channels, height, width), dtype=np.uint8)
    done = 0
    with ThreadPoolExecutor() as threads:
        for batch in file.iter_batches(batch_size=256, columns=["image"]):
            blobs = (io.BytesIO(blob) for blob in batch["image"].to_pylist())
            arrays = threads.map(lambda blob: picture_array(Image.open(blob), channels, height, width), blobs)
            for picture in arrays:
                pictures[done] = picture
                done += 1
            pulse.beat()  # many pictures take minutes: the run lives
    return pictures


def same_pixels(pictures: np.ndarray) -> np.ndarray:
    """A number for each picture, int64 [N]: equal for pictures that are alike in every pixel."""
    digests = np.array([hashlib.blake2b(picture, digest_size=16).digest() for picture in pictures])
    return np.unique(digests, return_inverse=True)[1]


def mean_and_std(pictures: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each channel of these rows, 0 to 1, by how often each of the 256 values occurs: floats would take memory."""
    counts = np.zeros((pictures.shape[1], 256))
    for row in rows:
        for channel, pixels in enumerate(pictures[row]):
            counts[channel] += np.bincount(pixels.ravel(), minlength=256)
        pulse.beat()
    shares = counts / counts.sum(axis=1, keepdims=True)
    values = np.arange(256) / 255
    mean = shares @ values
    return mean, np.sqrt((shares * (values - mean[:, None]) ** 2).sum(axis=1))


def picture_array(picture: Image.Image, channels: int, height: int, width: int) -> np.ndarray:
    """One picture as uint8 [channels, height, width], its middle cut to the wanted proportions."""
    picture = picture.convert("L" if channels == 1 else "RGB")
    if picture.size != (width, height):
        picture = ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR)
    return np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1)


def transform(preprocess: dict, records: list[Image.Image]) -> tuple[torch.Tensor, ...]:
    """Prepare pictures that are upright, 8 bits, grey or RGB: (uint8 [N, channels, height, width],)."""
    shape = preprocess["shape"]
    size = (shape["channels"], shape["height"], shape["width"])
    arrays = [picture_array(picture, *size) for picture in records]
    return (torch.from_numpy(np.stack(arrays) if arrays else np.empty((0, *size), dtype=np.uint8)),)


def augment(inputs: tuple[torch.Tensor, ...], how: str, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Random changes of a training batch, drawn anew for each picture: `none`, `shift` or `shift_flip`."""
    (pictures,) = inputs
    if how in ("shift", "shift_flip"):
        pictures = random_shift(pictures, generator)
    if how == "shift_flip":
        pictures = random_flip(pictures, generator)
    return (pictures,)


def random_shift(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Move each picture [C, H, W] by up to an eighth in both directions; its border pixels fill the gap."""
    count, _, height, width = pictures.shape

    def places(size: int) -> torch.Tensor:
        reach = max(1, size // 8)
        move = torch.randint(-reach, reach + 1, (count, 1), generator=generator, device=generator.device)
        return (torch.arange(size) + move.cpu()).clamp(0, size - 1).to(pictures.device)  # [N, size]

    rows, columns = places(height), places(width)
    picture = torch.arange(count, device=pictures.device)
    # indexing at places 0, 2 and 3 puts them first: [N, H, W, C]
    return pictures[picture[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_flip(pictures: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Mirror each picture left and right with probability one half."""
    flip = torch.rand(len(pictures), generator=generator, device=generator.device) < 0.5
    return torch.where(flip.to(pictures.device)[:, None, None, None], pictures.flip(-1), pictures)
