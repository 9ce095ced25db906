"""`python -m codegen.profile SOURCE OUT --name NAME --options JSON`: progress as JSON lines, as control calls it in the
sandbox.

Ends with {"ok": true}, or with {"problem": {...}} and exit code 3 where the data is at fault.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codegen.profile import profile_dataset
from codegen.profile.types import ColumnType, DataError, DataProblem, ProfileOptions

EXIT_DATA = 3


def options_from_json(text: str) -> ProfileOptions:
    """`ProfileOptions` from JSON. Raises `DataError` for an unknown option or type."""
    try:
        body = json.loads(text)
        types = {name: ColumnType(kind) for name, kind in (body.pop("column_types", None) or {}).items()}
        return ProfileOptions(column_types=types, **body)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(
            DataProblem(
                code="bad_options",
                message=f"The options could not be read: {error}",
                hint="Options are column_types (numeric, category, text, date, identifier, constant), target, "
                "delimiter, encoding and header.",
            )
        ) from error


def main(arguments: list[str] | None = None) -> int:
    """Exit code: 0, or 3 where the data is at fault."""
    parser = argparse.ArgumentParser(prog="python -m codegen.profile", description="Profile and pack a dataset.")
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", default="", help="file name in problems, of the same suffixes; default: SOURCE's")
    parser.add_argument("--options", default="{}", help="ProfileOptions as JSON")
    given = parser.parse_args(arguments)
    try:
        options = options_from_json(given.options)
        profile_dataset(given.source, given.out, options, _tell_progress, name=given.name)
    except DataError as error:
        _tell({"problem": asdict(error.problem)})
        return EXIT_DATA
    _tell({"ok": True})
    return 0


def _tell_progress(share: float, note: str) -> None:
    _tell({"progress": round(share, 4), "note": note})


def _tell(body: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(body) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
