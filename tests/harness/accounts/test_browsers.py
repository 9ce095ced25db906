"""Browsers are called by the name and system that people know them by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.accounts.browsers import UNKNOWN, browser_words

_MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 "
         "Safari/537.36 Edg/126.0.0.0", "Edge on Windows"),
        (f"{_MAC} Chrome/126.0.0.0 Safari/537.36", "Chrome on macOS"),
        (f"{_MAC} Chrome/126.0.0.0 Safari/537.36 OPR/111.0.0.0", "Opera on macOS"),
        (f"{_MAC} Version/17.5 Safari/605.1.15", "Safari on macOS"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 "
         "Mobile/15E148 Safari/604.1", "Safari on iPhone"),
        ("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36",
         "Chrome on Android"),
        ("curl/8.5.0", "curl"), ("Mozilla/5.0", UNKNOWN), ("", UNKNOWN), ("<script>", UNKNOWN),
    ],
)  # fmt: skip
def test_a_browser_is_called_by_name_and_system(agent: str, words: str) -> None:
    assert browser_words(agent) == words


@given(st.text(max_size=300))
def test_whatever_a_program_says_of_itself_has_a_short_name(agent: str) -> None:
    assert 0 < len(browser_words(agent)) <= 31
