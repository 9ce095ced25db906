"""`suggest`: every family that does the task, sized for data and machine, ranked, each with its reason."""

from __future__ import annotations

from codegen.catalog.base import Facts, Family
from codegen.catalog.training import MEMORY_SHARE
from codegen.choice import Choice, ranked_families, sized
from codegen.notes import Notes
from codegen.profile.types import DatasetProfile
from codegen.reading import read
from codegen.resolve import facts_of, resolve_split
from codegen.spec import TaskSpec
from codegen.types import Hardware, Suggestion
from worker.words import size_words


def suggest(spec: TaskSpec, profile: DatasetProfile, hardware: Hardware) -> list[Suggestion]:
    """Suggestions, rank 1 first. Raises `SpecError` if data or wishes leave nothing to suggest.

    The spec's family and knobs do not matter here; its size, training values and resources do.
    """
    notes = Notes()
    reading = read(spec, profile, notes)
    split = resolve_split(spec, profile, reading, notes)
    facts = facts_of(spec, profile, reading, split, hardware, notes)
    notes.stop_if_wrong()
    choices = []
    for place, family in enumerate(ranked_families(facts), start=1):
        choice = sized(spec, facts, family)
        choices.append((choice, choice.memory_bytes(facts), choice.fits(facts), _expected(family, facts, place)))
    choices.sort(key=lambda item: not item[2])
    return [_suggestion(facts, rank, *item) for rank, item in enumerate(choices, start=1)]


def _suggestion(facts: Facts, rank: int, choice: Choice, needed: int, fits: bool, expected: str) -> Suggestion:
    family = choice.family
    against = family.against(facts)
    if not fits:
        share = f"{MEMORY_SHARE * 100:.0f} % of the {size_words(facts.memory_bytes)} there are"
        against += f" Needs about {size_words(needed)}, more than {share}."
    return Suggestion(
        family=family.name,
        title=family.title,
        size=choice.size,
        rank=rank,
        reason=family.reason(facts),
        against=against,
        params=choice.params,
        parameters=choice.cost.parameters,
        flops_per_sample=choice.cost.flops,
        activation_bytes_per_sample=choice.cost.activation_bytes,
        memory_bytes=needed,
        fits=fits,
        expected_quality=expected,
        training=choice.training,
    )


def _expected(family: Family, facts: Facts, place: int) -> str:
    """`place`: by quality alone, whatever fits into memory."""
    what = "pictures of this size and number" if facts.images else "tables of this size"
    said = {1: "Best expected", 2: "Close behind"}.get(place, "Usually behind the others")
    return f"{said} on {what}; ranked by published comparisons ({family.source}) and our own runs, not by a trial here."
