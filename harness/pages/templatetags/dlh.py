"""How times and texts are written on the pages; figures as `harness.pages.figures` writes them, states and names as
`harness.pages.named` does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from django import template
from django.conf import settings
from django.http import QueryDict
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from codegen.profile.types import EXAMPLES, Finding
from harness.accounts.browsers import browser_words
from harness.moments import moment_of, moments_split
from harness.pages.figures import NONE, duration, figure, is_number, percent, short, signed, size
from harness.pages.named import (
    check_badge,
    check_words,
    clock_words,
    copy_badge,
    delivery_badge,
    input_word,
    sample_word,
    sandbox_word,
    scope_word,
    state_badge,
    sweep_badge,
    task_word,
    words,
)
from harness.pages.spec_fields import value_words
from harness.pages.undo import undo_form
from scheduler.offers.words import energy_words
from worker.words import counted

register = template.Library()
FOLDED_FROM = 120
"""Characters of a cell: some lines on a phone."""
register.filter(undo_form)
register.filter(browser_words)
for _write in (
    figure, short, size, duration, percent, signed,
    state_badge, sweep_badge, check_badge, copy_badge, delivery_badge, check_words, clock_words,
    task_word, sample_word, sandbox_word, scope_word, words, input_word,
):  # fmt: skip
    register.filter(_write)


@register.simple_tag
def accuracy_is_public() -> bool:
    """Whether people who are not signed in may read how good the estimates are."""
    return settings.PUBLIC_ACCURACY


@register.filter
def late(slack_s: Any) -> float | None:
    """By how much a negative slack is late, in seconds."""
    return -slack_s if is_number(slack_s) else None


@register.filter
def of_node(by_node: Mapping[str, Sequence[Any]], name: str) -> Sequence[Any]:
    """What there is of one node."""
    return by_node.get(name, ())


@register.filter
def milliseconds(seconds: Any) -> str:
    """Short times: `0.31 ms`."""
    return f"{figure(1000.0 * seconds, 3)} ms" if is_number(seconds) else NONE


@register.filter
def energy(energy_j: Any) -> str:
    """Joules in the unit that suits them."""
    return energy_words(energy_j) if is_number(energy_j) else NONE


@register.filter
def share(part: float | None, whole: float | None) -> float:
    """`part / whole` in percent, 0-100, safe for missing values."""
    if not part or not whole:
        return 0.0
    return max(0.0, min(100.0, 100.0 * part / whole))


@register.filter
def when(value: datetime | float | None, style: str = "full") -> SafeString | str:
    """A `<time>` that the browser rewrites in the reader's zone, on hover with its name. Style `ago` is relative."""
    moment = moment_of(value) if isinstance(value, int | float) else value
    if moment is None or moment == "":
        return NONE
    iso = moment.astimezone(UTC).isoformat(timespec="seconds")
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return format_html('<time datetime="{}" data-style="{}" title="{}">{}</time>', iso, style, iso, text)


@register.filter
def until(value: datetime | None, since: datetime) -> SafeString:
    """The end of a span, `near`: the browser leaves its day out where that is the day of the beginning."""
    return format_html('<span data-since="{}">{}</span>', since.astimezone(UTC).isoformat(), when(value, "near"))


@register.filter
def local_times(text: str) -> SafeString:
    """A sentence with the moments in it as `<time>`: the browser tells them in the reader's zone, as all others.

    What is markup already has its own.
    """
    if isinstance(text, SafeString):
        return text
    parts = moments_split(text)
    return format_html_join("", "{}", ((part if isinstance(part, str) else when(part),) for part in parts))


@register.filter
def code_words(text: str) -> SafeString:
    """A sentence with what stands between `backticks` as code; all of it is escaped."""
    parts = str(text).split("`")
    if len(parts) % 2 == 0:  # one that is not closed is a letter like others
        parts[-2:] = ["`".join(parts[-2:])]
    inside = (format_html("<code>{}</code>", part) if at % 2 else part for at, part in enumerate(parts))
    return format_html_join("", "{}", ((part,) for part in inside))


@register.filter
def past(value: datetime | None) -> bool:
    """Whether a moment is over; a missing one is not."""
    return value is not None and value < timezone.now()


@register.filter
def age_s(value: datetime | None) -> float | None:
    """Seconds since a moment."""
    return None if value is None else (timezone.now() - value).total_seconds()


@register.filter
def folded(value: Any, most: int = FOLDED_FROM) -> SafeString | str:
    """What is longer than `most` characters as its beginning, a click on which shows the whole; else as it is."""
    text = str(value)
    if len(text) <= most:
        return text
    return format_html(
        '<details class="fold"><summary><span class="fold-begin">{}</span> <span class="fold-more">Show all</span>'
        '<span class="fold-less">Show less</span></summary><div class="fold-whole">{}</div></details>',
        Truncator(text).chars(most), text,
    )  # fmt: skip


@register.filter
def figure_or_moment(value: Any) -> SafeString | str:
    """A cell of the table behind a chart: a moment in the reader's zone, a figure, else a text, folded where long."""
    return when(value) if isinstance(value, datetime) else folded(figure(value))


@register.filter
def unbroken(sentence: str) -> str:
    """With percent signs, and signs of both ways, kept on the line of their number."""
    return sentence.replace(" %", "\u00a0%").replace("± ", "±\u00a0")


@register.filter
def item(mapping: Mapping[Any, Any] | None, key: Any) -> Any:
    """Look a key up."""
    return None if not mapping else mapping.get(key)


@register.filter
def at(values: Sequence[Any] | None, index: int) -> Any:
    """The value at a place; None beyond the end."""
    return values[index] if values and index < len(values) else None


@register.filter
def rows_untold(finding: Finding) -> str:
    """Rows of a finding that its message does not name, `Rows 5, 21`: of many some, which it says. Lines of a
    file are no rows: it always names them."""
    rows = finding.rows
    if not rows or re.search(rf"\b(line|row) {rows[0]:,}\b", finding.message):
        return ""
    named = ", ".join(map(str, rows))
    most = f" (at most {EXAMPLES} are named)" if len(rows) >= EXAMPLES else ""
    return f"Row{'s' if len(rows) > 1 else ''} {named}{most}"


@register.filter
def plain(value: Any) -> str:
    """A spec value as a person would type it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(plain(part) for part in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(part)}" for key, part in value.items()) or "none"
    if value is None:
        return NONE
    return figure(value) if isinstance(value, float) else str(value)


@register.filter
def guess_value(guess: Mapping[str, Any]) -> str:
    """What was chosen for a field, as the form calls it."""
    return value_words(str(guess["field"]), guess["value"]) or plain(guess["value"])


@register.filter
def diff_class(line: str) -> str:
    """CSS class of one line of a unified diff."""
    if line.startswith(("+++", "---", "@@")):
        return "hunk"
    return {"+": "add", "-": "del"}.get(line[:1], "same")


@register.filter
def marked(text: str, query: str) -> SafeString | str:
    """A line with what was searched for marked, whatever its case."""
    if not query:
        return text
    parts = re.split(f"({re.escape(query)})", text, flags=re.IGNORECASE)
    pieces = ((format_html("<mark>{}</mark>", part) if at % 2 else part,) for at, part in enumerate(parts))
    return format_html_join("", "{}", pieces)


@register.filter
def pretty_yaml(value: Any) -> str:
    """YAML text with the keys in their order, as a person would write it."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The page's query string with some keys changed; None or an empty text drops a key."""
    params: QueryDict = context["request"].GET.copy()
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    text = params.urlencode()
    return f"?{text}" if text else "?"


@register.simple_tag(takes_context=True)
def query_page(context: template.Context, key: str, number: Any) -> str:
    """The page's query string for another page of the list that this key counts; empty: `page`."""
    return query(context, **{key or "page": number})


@register.filter
def trash_end(deleted_at: datetime) -> datetime:
    """When something in the trash goes for good."""
    return deleted_at + timedelta(days=settings.TRASH_DAYS)


@register.simple_tag
def trash_time() -> str:
    """How long what was deleted can be brought back."""
    return counted(settings.TRASH_DAYS, "day")


@register.simple_tag
def history_time() -> str:
    """How long the use of the pool is known that belongs to no job any more."""
    return counted(settings.HISTORY_DAYS, "day")


@register.inclusion_tag("parts/sparkbars.html")
def sparkbars(counts: Sequence[int], ends: Sequence[str] = (), told: Sequence[str] = ()) -> dict[str, Any]:
    """A histogram as a small picture with its figures in words; `told`: of each bar, on hover."""
    top = max(counts, default=0) or 1
    width = 100.0 / max(1, len(counts))
    bars = [
        {"x": round(index * width, 2), "width": round(width * 0.86, 2), "y": round(30 - 30 * count / top, 2),
         "height": round(30 * count / top, 2), "told": told[index] if told else ""}
        for index, count in enumerate(counts)
    ]  # fmt: skip
    label = f"histogram from {ends[0]} to {ends[-1]}" if ends else "histogram"
    return {"bars": bars, "label": f"{label}, {len(counts)} bins, highest {top:,} rows"}
