"""One picture of a dataset, for pages that show single rows."""

from __future__ import annotations

import io

from PIL import Image, UnidentifiedImageError

from codegen.profile.types import IMAGES_FILE, DataKind
from harness.datasets.models import Dataset
from harness.datasets.selectors import dataset_folder, dataset_profile
from harness.errors import NotFound

_SHOWN_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp", "BMP": "image/bmp"}


def dataset_row_image(dataset: Dataset, row: int) -> tuple[bytes, str]:
    """(encoded picture, content type) of a 0-based row of the packed form. Raises `NotFound`, `Conflict`."""
    import polars as pl

    profile = dataset_profile(dataset)
    if profile.kind != DataKind.IMAGES or not 0 <= row < profile.rows:
        raise NotFound("There is no such picture.")
    frame = pl.scan_parquet(dataset_folder(dataset) / IMAGES_FILE).select("image").slice(row, 1).collect()
    if frame.is_empty():
        raise NotFound("There is no such picture.")
    body = bytes(frame.item())
    try:
        with Image.open(io.BytesIO(body)) as picture:
            kind = _SHOWN_TYPES.get(picture.format or "")
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise NotFound("This picture cannot be shown.") from error
    if kind is None:
        raise NotFound("Pictures of this format cannot be shown.")
    return body, kind
