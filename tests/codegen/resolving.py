"""Short hands for tests of resolve."""

from __future__ import annotations

import pytest

from codegen import spec_yaml
from codegen.resolve import resolve
from codegen.types import SpecError
from tests.codegen.model_profiles import TWO_CORES


def resolved(text: str, profile, hardware=TWO_CORES) -> dict:
    """The spec of a text, with each `auto` replaced."""
    return resolve(spec_yaml.load(text), profile, hardware).spec


def problems(text: str, profile, hardware=TWO_CORES) -> dict[str, str]:
    """What is wrong with it, by field."""
    with pytest.raises(SpecError) as caught:
        resolve(spec_yaml.load(text), profile, hardware)
    return dict(caught.value.problems)
