"""What an offer is asked for by `dlh offer`, `dlh jobs offer` and `dlh submit`, and waiting for it."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from harness.client.cli.moments import is_span, moment_read
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
EARLIEST, NO_DEADLINE = "earliest", "none"
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
    return None if text == NO_DEADLINE else moment_read(text, "--deadline", field="deadline")


def moves(deadline: str) -> bool:
    """Whether the finish that is meant is another one each time it is asked for."""
    return deadline == EARLIEST or _counts_from_now(deadline)


def priced(client: Client, path: str, body: Json, *, deadline: str) -> Json:
    """The offer that is asked for, once it is priced or has failed. Raises `WaitTimeout`.

    A `deadline` that moves counts from the offer, not from before data were sent, and is asked for once more where a
    program had to be read first.
    """
    asked = client.send("POST", path, _from_now(body, deadline))
    found = ready(client, asked)
    if moves(deadline) and asked["state"] == "waiting" and found["state"] == "ready":
        found = ready(client, client.send("POST", path, _from_now(body, deadline)))
    return found


def _counts_from_now(deadline: str) -> bool:
    return deadline not in ("", NO_DEADLINE, EARLIEST) and is_span(deadline)


def _from_now(body: Json, deadline: str) -> Json:
    return {**body, "deadline": deadline_read(deadline)} if _counts_from_now(deadline) else body


def ready(client: Client, found: Json) -> Json:
    """Wait until the offer is priced or has failed. Raises `WaitTimeout`."""
    end_s = time.monotonic() + _WAIT_S
    waiting = found["state"] == "waiting"
    if waiting:
        notes().print("A node is reading the program...")
    while True:
        found = client.get_waiting(f"/offers/{segment(found['id'])}")
        probing = (found["probe"] or {}).get("state") == "waiting"
        if found["state"] != "waiting" and not probing:
            return found
        if time.monotonic() > end_s:
            raise WaitTimeout(f"No offer after {_WAIT_S:.0f} s.", hint="Check on the pool page that a node is up.")
        time.sleep(_POLL_S)
