"""What an offer is asked for by `dlh offer`, `dlh jobs offer` and `dlh submit`, and waiting for it."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from harness.client.cli.common import moment_read
from harness.client.cli.output import notes
from harness.client.client import Client, Json
from harness.client.errors import BadInput, WaitTimeout
from harness.client.transport import segment

DeadlineOption = Annotated[
    str,
    typer.Option(
        help="Deadline: 2030-01-31T18:00 or 2030-01-31 for its end (this machine's time), 90m or 1h30m from now, "
        "none, or earliest: the earliest finish that can be promised; default: as in the spec."
    ),
]
DeviceOption = Annotated[str, typer.Option(help="Fix the kind of device: cpu, cuda or any; default: as in the spec.")]
DeviceModelOption = Annotated[
    str,
    typer.Option(
        help="Fix the model of device as `dlh pool` and the table name it, such as 'NVIDIA A100'; any: none; default: "
        "as in the spec."
    ),
]
CountOption = Annotated[
    int | None, typer.Option(min=0, help="Fix the number of devices; 0: any; default: as in the spec.")
]
ModeOption = Annotated[
    str,
    typer.Option(
        help="How the devices work together: single, replicated, sync, async, pipeline or pipeline+sync; "
        "default: as in the spec."
    ),
]
EARLIEST = "earliest"
_DEVICES = ("cpu", "cuda", "any")
_DEVICES_HINT = "Use cpu, cuda (NVIDIA GPUs), or any, which leaves it open."
_WAIT_S = 300.0
_POLL_S = 0.5


def wishes(deadline: str, device: str, device_model: str, count: int | None, mode: str) -> Json:
    """What was given; null leaves open what the spec fixes. Raises `BadInput`."""
    body: Json = {}
    if deadline == EARLIEST:
        body["earliest"] = True
    elif deadline:
        body["deadline"] = deadline_read(deadline)
    if device:
        if device not in _DEVICES:
            raise BadInput(f"There is no kind of device {device!r} for --device.", hint=_DEVICES_HINT, field="device")
        body["device"] = None if device == "any" else device
    if device_model:
        body["device_model"] = None if device_model == "any" else device_model
    if count is not None:
        body["count"] = count or None
    if mode:
        body["mode"] = mode
    return body


def deadline_read(text: str) -> str | None:
    """A moment; null for `none`. Raises `BadInput`."""
    return None if text == "none" else moment_read(text, "--deadline", field="deadline")


def priced(client: Client, path: str, body: Json) -> Json:
    """The offer that is asked for, once it is priced or has failed; the earliest finish of a program that was not read
    yet is asked for once more. Raises `WaitTimeout`."""
    asked = client.send("POST", path, body)
    found = ready(client, asked)
    if body.get("earliest") and asked["state"] == "waiting" and found["state"] == "ready":
        found = ready(client, client.send("POST", path, body))
    return found


def ready(client: Client, found: Json) -> Json:
    """Wait until the offer is priced or has failed. Raises `WaitTimeout`."""
    end_s = time.monotonic() + _WAIT_S
    waiting = found["state"] == "waiting"
    if waiting:
        notes().print("A node is reading the program...")
    while True:
        found = client.get(f"/offers/{segment(found['id'])}")
        probing = (found["probe"] or {}).get("state") == "waiting"
        if found["state"] != "waiting" and not probing:
            return found
        if time.monotonic() > end_s:
            raise WaitTimeout(f"No offer after {_WAIT_S:.0f} s.", hint="Check on the pool page that a node is up.")
        time.sleep(_POLL_S)
