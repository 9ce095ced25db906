"""Sample datasets that have been read, each file made once per process: the digits are 1,797 pictures to encode."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any


def dataset_from_sample(user: Any, project: Any, sample: str) -> Any:
    """A ready dataset of a sample: read here and now, as control would."""
    from django.conf import settings

    from codegen.profile import profile_dataset
    from codegen.profile.types import ProfileOptions
    from harness.datasets.content import content_key, file_sha256, options_check, options_plain
    from harness.datasets.services import dataset_create_from_file

    path = _sample(sample)
    key = content_key(file_sha256(path), path.name, options_plain(options_check({})))
    packed = settings.STORE.dataset(key).packed
    if not (packed / "profile.json").exists():
        packed.mkdir(parents=True, exist_ok=True)
        profile_dataset(path, packed, ProfileOptions(), lambda done, note: None)
    return dataset_create_from_file(user=user, project=project, name=f"{sample} (sample)", path=path)


@cache
def _sample(name: str) -> Path:
    from harness.datasets.samples import sample_file

    folder = Path(tempfile.mkdtemp(prefix="dlh-sample-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return sample_file(name, folder)
