"""What holds for every template: lines that a reviewer can read, and controls that work for everybody."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings

LINE_LENGTH_MAX = 160
CONTROL = re.compile(r"<(a|button|summary)\b([^<]*?\saria-label=\"([^\"]*)\"[^<]*?)>([^<]*)</\1>")
INCLUDE = re.compile(r"{%\s*include \"([^\"]+)\"[^%]*%}")
FORM = re.compile(r"<form\b(.*?)</form>", re.DOTALL)


def test_no_line_of_a_template_is_longer_than_a_reviewer_can_read() -> None:
    long = [
        f"{path}:{number}: {len(line)} characters"
        for path in _templates()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert not long, "\n".join(long)


def test_what_a_control_shows_is_part_of_what_it_is_called() -> None:
    """Who speaks to their machine says what they see."""
    found = [
        (path.name, label, " ".join(shown.split()))
        for path in _templates()
        for *_, label, shown in CONTROL.findall(path.read_text())
        if re.search(r"\w", shown)
    ]
    assert found
    assert [one for one in found if "{" not in one[2] and one[2] not in one[1]] == []


def test_every_form_can_be_sent_without_a_script() -> None:
    """As each page says where there are none; and what is chosen by keys is not sent at the first of them."""
    folder, texts = Path(settings.BASE_DIR) / "templates", {path: path.read_text() for path in _templates()}
    every = "".join(texts.values())
    found = []
    for path, text in texts.items():
        for form in FORM.findall(text):
            has_button = "<button" in INCLUDE.sub(lambda part: texts[folder / part[1]], form)
            named = re.search(r'\sid="([^"{]+)"', form.split(">")[0])
            if not has_button and not (named and f'form="{named[1]}"' in every):
                found.append(f"{path}: {form[:80]}")
    assert found == []


def _templates() -> list[Path]:
    found = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))
    assert found
    return found
