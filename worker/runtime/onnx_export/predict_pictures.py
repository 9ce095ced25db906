"""Predict with model.onnx for pictures; needs numpy, onnxruntime and Pillow, which decodes the pictures.

    pip install numpy onnxruntime pillow
    python predict_onnx.py --output predictions.csv picture.png other.jpg
    python predict_onnx.py --threshold CLASS=P ...    what is of CLASS with a probability of P or more is called so

model.onnx takes bytes, uint8 [batch, channels, height, width]: the picture upright, grey or RGB, transparent parts on
white, its middle cut to a square and scaled. The mean and deviation of the training pictures are inside the model.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from worker.runtime.onnx_export.answers import ThresholdError, answers_of, write_csv
from worker.runtime.onnx_export.answers import unread as read_error
from worker.runtime.pictures import PictureError, picture_read

HERE = Path(__file__).parent
CHUNK = 64  # pictures predicted at once


def encode(preprocess: dict[str, Any], pictures: list[Image.Image]) -> list[np.ndarray]:
    """[uint8 [N, channels, height, width]] of plain pictures."""
    shape = preprocess["shape"]
    size = (shape["width"], shape["height"])
    arrays = []
    for picture in pictures:
        plain = picture.convert("L" if shape["channels"] == 1 else "RGB")
        if plain.size != size:
            plain = ImageOps.fit(plain, size, Image.Resampling.BILINEAR)
        arrays.append(np.atleast_3d(np.asarray(plain)).transpose(2, 0, 1))
    return [np.stack(arrays) if arrays else np.empty((0, shape["channels"], *size[::-1]), np.uint8)]


def predict(
    pictures: list[Path], folder: Path = HERE, *, threshold: str = "", unread: list[str] | None = None
) -> list[dict[str, Any]]:
    """The answer for each picture, with the files in `folder`; nothing in that of one that cannot be read, of which
    `unread` is told why. Raises `ThresholdError`, and `PictureError` or `OSError` where no picture can be read."""
    import onnxruntime

    about = json.loads((folder / "onnx.json").read_text(encoding="utf-8"))
    preprocess = json.loads((folder / "preprocess.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    found: dict[int, dict[str, Any]] = {}
    errors: list[PictureError | OSError] = []
    for start in range(0, len(pictures), CHUNK):
        chunk = {}
        for at, path in enumerate(pictures[start : start + CHUNK], start):
            try:
                chunk[at] = picture_read(path.name, path.read_bytes())
            except (PictureError, OSError) as error:
                errors.append(error)
        if chunk:
            tensors = encode(preprocess, list(chunk.values()))
            outputs = session.run(None, {given["name"]: tensors[given["place"]] for given in about["inputs"]})
            found |= zip(chunk, answers_of(about["classes"], outputs, threshold=threshold), strict=True)
    if errors and not found:
        raise errors[0]
    if unread is not None:
        why = [f"{read_error(error)}." if isinstance(error, OSError) else str(error) for error in errors]
        unread += [f"{text} It has no prediction." for text in why]
    nothing = dict.fromkeys(next(iter(found.values()), ()))
    return [found.get(at, nothing) for at in range(len(pictures))]


def main() -> None:
    """Read, predict, write."""
    parser = argparse.ArgumentParser(description="Predict with model.onnx.")
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--threshold", default="", metavar="CLASS=P")
    options = parser.parse_args()
    unread: list[str] = []
    try:
        found = predict(options.pictures, threshold=options.threshold, unread=unread)
    except ThresholdError as error:
        sys.exit(str(error))
    except PictureError as error:
        sys.exit(f"{error}\n{error.hint}")
    except OSError as error:
        sys.exit(read_error(error))
    named = zip(options.pictures, found, strict=True)
    write_csv([{"name": path.name} | answer for path, answer in named], options.output, unread=len(unread))
    print(*unread, sep="\n", end="\n" if unread else "", file=sys.stderr)


if __name__ == "__main__":
    main()
