"""How a test says that a machine does not allow it: a run's summary repeats these words, where nobody overlooks them.

What is left out on purpose, as for the other database, needs none of this.
"""

NOT_TESTED = "NOT TESTED"


def untested(what: str, why: str) -> str:
    """The reason of a skip."""
    return f"{what.upper()} {NOT_TESTED}: {why}"
