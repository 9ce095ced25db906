"""`dlh pool links`: the links between nodes, as their agents timed them."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.client.cli.common import open_client
from harness.client.cli.output import JsonFlag, console, json_print, table_print, when
from harness.client.client import Json
from harness.client.errors import BadInput
from worker.words import counted, size_words

_NETWORKS = {
    "hosts": "hosts', in clear",
    "vxlan": "own, in clear",
    "wireguard_kernel": "own, encrypted (kernel)",
    "wireguard_process": "own, encrypted (process)",
}
_HEAD = ("Nodes", "There and back", "Each way", "Noise", "Network", "Measured", "State")


def commands_add(pool: typer.Typer) -> None:
    """Add the command to `dlh pool`."""
    pool.command("links")(pool_links)


def pool_links(
    context: typer.Context,
    measure: Annotated[bool, typer.Option("--measure", help="Time them again; for admins.")] = False,
    node: Annotated[str, typer.Option("--node", help="Only links of this node.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Latency and bandwidth between nodes, as timed by their agents: what jobs over several nodes are priced with."""
    with open_client(context) as client:
        asked: Json = client.send("POST", "/pool/links", {"node": node}) if measure else {}
        pool: Json = client.get("/pool")
    found: list[Json] = pool["links"]
    if node and node not in {one["name"] for one in pool["nodes"]}:
        raise BadInput(f"There is no node {node}.", hint="`dlh pool` lists what exists.")
    links = [link for link in found if not node or node in (link["first"], link["second"])]
    if as_json:
        json_print({**asked, "items": links} if measure else {"items": links})
        return
    if measure:
        many = counted(asked["links"], "link is", "links are")
        console().print(f"{many} timed as soon as the nodes are idle; dlh pool links shows them.", markup=False)
    elif links:
        table_print(_HEAD, map(_row, links))
    else:
        console().print("No link has been timed yet: that takes two nodes that are up and idle.", markup=False)


def _row(link: Json) -> tuple[object, ...]:
    nodes = f"{link['first']} - {link['second']}"
    if link["measured_at"] is None:
        return nodes, "", "", "", "", "", _state(link)
    network = _NETWORKS.get(link["network"], link["network"])
    noise = f"±{100 * link['round_trip_noise']:.0f} %, ±{100 * link['bytes_noise']:.0f} %"
    rate = f"{size_words(link['bytes_per_s'])}/s"
    there_and_back = f"{1000 * link['round_trip_s']:.3g} ms"
    return nodes, there_and_back, rate, noise, network, when(link["measured_at"]), _state(link)


def _state(link: Json) -> str:
    if link["problem"]:
        return f"failed: {link['problem']}"
    if link["waits"]:
        away = link.get("away", ())  # an older portal names none
        return f"waits for {' and '.join(away)} to take work again" if away else "waits for idle nodes"
    return "" if link["current"] else "not used: ranks would now use another path"
