"""`dlh notifications`: what you are told of, and where; set, test, secret."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import ExitCode, JsonFlag, console, json_print, pairs_print, table_print, when
from harness.client.client import Client, Json
from harness.client.errors import BadInput

app = typer.Typer(help="Notifications by e-mail and webhook: show, set, test, secret.", invoke_without_command=True)
TEST_WAIT_S = 30.0
_KINDS = {
    "job_finished": "finished jobs", "job_failed": "failed jobs", "promise_at_risk": "promises at risk",
    "storage_full": "full storage",
}  # fmt: skip
_LAST_SHOWN = 5
_SWITCHES = {
    "finished": "job_finished", "failed": "job_failed", "at-risk": "promise_at_risk", "storage": "storage_full",
}  # fmt: skip
KindsOption = list[str] | None


@app.callback()
def notifications_show(context: typer.Context, as_json: JsonFlag = False) -> None:
    """What you are told of, where, and what became of the newest messages."""
    if context.invoked_subcommand:
        return
    with open_client(context) as client:
        found: Json = client.get("/notifications")
    json_print(found) if as_json else _show(found)


def _show(found: Json) -> None:
    email = found["email"] if found["by_email"] else "off"
    chosen = [words for name, words in _KINDS.items() if found[name]]
    pairs_print(
        [
            ("E-mail", f"{email} ({found['email_obstacle']})" if found["email_obstacle"] else email),
            ("Webhook", found["webhook"] or "off"),
            ("Of", ", ".join(chosen) or "nothing"),
            ("Times in e-mails", found.get("time_zone") or "as in the browser last used"),
            ("All jobs of", ", ".join(found["projects"]) or "no project: only your own jobs"),
        ]
    )
    console().print()
    _deliveries_print(found["deliveries"][:_LAST_SHOWN])


def _deliveries_print(rows: list[Json]) -> None:
    told = ((when(row["created_at"]), row["channel"], row["title"], row["state"], row["problem"]) for row in rows)
    table_print(("At", "By", "Message", "State", "Problem"), told)


@app.command("set")
def notifications_set(  # noqa: PLR0913
    context: typer.Context,
    email: Annotated[
        bool | None, typer.Option("--email/--no-email", help="Send e-mail to your account's address.")
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(help="URL that receives JSON (Slack's kind works too); none turns it off.")
    ] = None,
    on: Annotated[KindsOption, typer.Option(help=f"Turn on: {', '.join(_SWITCHES)}; may be repeated.")] = None,
    off: Annotated[KindsOption, typer.Option(help="Turn off; may be repeated.")] = None,
    watch: Annotated[list[str] | None, typer.Option(help="Notify me of every job in this project (slug).")] = None,
    unwatch: Annotated[
        list[str] | None, typer.Option(help="Notify me only of my own jobs in this project (slug).")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Times in e-mails are of this zone, such as Europe/Berlin; none: of the browser."
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change what is given. The secret of a new webhook is printed once."""
    body: dict[str, Any] = {"by_email": email, "webhook_url": _or_none(webhook), "time_zone": _or_none(time_zone)}
    body |= {_switch(name): True for name in on or ()} | {_switch(name): False for name in off or ()}
    with open_client(context) as client:
        if watch or unwatch:
            before = client.get("/notifications")["projects"]
            body["projects"] = sorted({*before, *(watch or ())} - set(unwatch or ()))
        changes = {name: value for name, value in body.items() if value is not None}
        found: Json = client.send("PATCH", "/notifications", changes)
    if as_json:
        json_print(found)
        return
    _show(found)
    if found["secret"]:
        console().print(f"\nSigned with (shown once): {found['secret']}", markup=False, soft_wrap=True)


def _or_none(value: str | None) -> str | None:
    """What is given, with nothing for `none`."""
    return "" if value == "none" else value


def _switch(name: str) -> str:
    if name not in _SWITCHES:
        raise BadInput(f"There is no notification called {name!r}.", hint=f"One of: {', '.join(_SWITCHES)}.")
    return _SWITCHES[name]


@app.command("secret")
def notifications_secret(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Make a new secret of the webhook and print it once. The old one stops working."""
    with open_client(context) as client:
        made = client.send("POST", "/notifications/secret")
    json_print(made) if as_json else console().print(made["secret"], markup=False, soft_wrap=True)


@app.command("test")
def notifications_test(context: typer.Context, as_json: JsonFlag = False) -> None:
    """Send a message by each channel that is on, and wait for what becomes of it. Ends with 1 where one fails."""
    with open_client(context) as client:
        wanted = [row["id"] for row in client.send("POST", "/notifications/test")["items"]]
        rows = _waited(client, wanted)
    json_print(rows) if as_json else _deliveries_print(rows)
    if any(row["state"] != "delivered" for row in rows):
        raise typer.Exit(ExitCode.JOB_FAILED)


def _waited(client: Client, wanted: list[str]) -> list[Json]:
    """The messages once each has ended, or as they are after a while."""
    ends_s = time.monotonic() + TEST_WAIT_S
    while True:
        rows: list[Json] = [row for row in client.get_waiting("/notifications")["deliveries"] if row["id"] in wanted]
        if all(row["ended_at"] for row in rows) or time.monotonic() > ends_s:
            return rows
        time.sleep(0.5)
