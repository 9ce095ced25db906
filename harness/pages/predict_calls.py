"""How a program asks a trained model: texts to copy for the command line, Python and curl, with the job's columns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pprint import pformat
from typing import Any

LINE_LENGTH = 72
"""A row that is longer is written with a line for each column."""


@dataclass(frozen=True)
class Call:
    """One way to ask."""

    id: str
    title: str
    text: str


def calls(job_id: str, portal: str, row: dict[str, Any], *, from_end: bool = False) -> list[Call]:
    """The ways to ask for `row` (a value for each input column; empty for pictures) at the portal of that address;
    `from_end`: for a forecast from the end of the data."""
    if from_end:
        return _from_end(job_id, portal)
    return [
        Call("by-dlh", "Command line", _dlh(job_id, row)),
        Call("by-python", "Python", _python(job_id, portal, row)),
        Call("by-curl", "curl", _curl(f"{portal}/api/v1/jobs/{job_id}/predictions", row)),
    ]


def _from_end(job_id: str, portal: str) -> list[Call]:
    client = f'Client({json.dumps(portal)}, os.environ["DLH_TOKEN"])'
    lines = ["import os", "from harness.client import Client", "", f"with {client} as client:"]
    lines += [f"    answer = client.predict({json.dumps(job_id)})", 'print(answer["output"] or answer["problem"])']
    address = f"{portal}/api/v1/jobs/{job_id}/predictions"
    return [
        Call("by-dlh", "Command line", f"dlh predict {job_id}\n\n# from newer rows\ndlh predict {job_id} rows.csv"),
        Call("by-python", "Python", "\n".join(lines)),
        Call("by-curl", "curl", _curl(address, {}, from_end=True)),
    ]


def _dlh(job_id: str, row: dict[str, Any]) -> str:
    if not row:
        return f"dlh predict {job_id} pictures.zip"
    return f"cat > rows.json <<'ROWS'\n{_json([row])}\nROWS\ndlh predict {job_id} rows.json"


def _python(job_id: str, portal: str, row: dict[str, Any]) -> str:
    lines = ["import os", "from harness.client import Client"]
    if row:
        given, tell = f"rows = {pformat([row], sort_dicts=False, width=LINE_LENGTH)}", "rows"
    else:
        lines.insert(1, "from pathlib import Path")
        given, tell = 'picture = Path("picture.png")', "picture"
    ask = [
        f'with Client({json.dumps(portal)}, os.environ["DLH_TOKEN"]) as client:',
        f"    answer = client.predict({json.dumps(job_id)}, {tell})",
        'print(answer["output"] or answer["problem"])',
    ]
    return "\n".join([*lines, "", given, *ask])


def _curl(address: str, row: dict[str, Any], *, from_end: bool = False) -> str:
    signed = '-H "Authorization: Bearer $DLH_TOKEN"'
    if from_end:
        kind = '-H "Content-Type: application/json"'
        asked = f"curl {address} \\\n  {signed} \\\n  {kind} -d '{json.dumps({'from_end': True})}'"
    elif not row:
        asked = f"curl {address} \\\n  {signed} \\\n  -F input=@picture.png"
    else:
        kind = '-H "Content-Type: application/json"'
        asked = f"curl {address} \\\n  {signed} \\\n  {kind} -d @- <<'ROWS'\n{_json({'records': [row]})}\nROWS"
    return (
        f"{asked}\n\n# its answer names the prediction: ask for it until it is done\ncurl {address}/ID \\\n  {signed}"
    )


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LINE_LENGTH else json.dumps(value, indent=1, ensure_ascii=False)
