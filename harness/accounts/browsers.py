"""A browser in words, out of what it says of itself."""

from __future__ import annotations

import re

UNKNOWN = "Unknown browser"
# Most browsers name others, too, whose pages they want: what is more special stands first.
_BROWSERS = (
    ("Edge", r"\bEdg(?:e|A|iOS)?/"),
    ("Opera", r"\b(?:OPR|Opera)\b"),
    ("Firefox", r"\b(?:Firefox|FxiOS)/"),
    ("Chromium", r"\bChromium/"),
    ("Chrome", r"\b(?:Headless)?(?:Chrome|CriOS)/"),
    ("Safari", r"\bVersion/\S+ (?:Mobile/\S+ )?Safari/"),
)
_SYSTEMS = (
    ("iPad", r"\biPad\b"),
    ("iPhone", r"\biPhone\b"),
    ("Android", r"\bAndroid\b"),
    ("Windows", r"\bWindows\b"),
    ("macOS", r"\bMac OS X\b|\bMacintosh\b"),
    ("ChromeOS", r"\bCrOS\b"),
    ("Linux", r"\bLinux\b|\bX11\b"),
)


def browser_words(user_agent: str) -> str:
    """`Firefox on Linux`; what is not known is left out, a program is called as it calls itself."""
    browser = _first(_BROWSERS, user_agent)
    if not browser:
        program = re.match(r"[A-Za-z][\w.-]{0,30}", user_agent)
        return program[0] if program and program[0] != "Mozilla" else UNKNOWN
    system = _first(_SYSTEMS, user_agent)
    return f"{browser} on {system}" if system else browser


def _first(known: tuple[tuple[str, str], ...], user_agent: str) -> str:
    return next((name for name, pattern in known if re.search(pattern, user_agent)), "")
