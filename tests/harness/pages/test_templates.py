"""Templates are read and reviewed by line, so their lines stay short."""

from __future__ import annotations

from pathlib import Path

from django.conf import settings

LINE_LENGTH_MAX = 160


def test_no_line_of_a_template_is_longer_than_a_reviewer_can_read() -> None:
    templates = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
    assert templates
    long = [
        f"{path}:{number}: {len(line)} characters"
        for path in templates
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert not long, "\n".join(long)
