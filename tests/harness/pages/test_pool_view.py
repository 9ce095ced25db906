"""The page of the pool: the nodes of a large one come in parts and are found by words and state."""

from __future__ import annotations

import re
from types import SimpleNamespace

from django.test import Client
from django.utils import timezone

from harness.pages.views.pool import NODES_SHOWN
from harness.pool.models import Device, IdlePower, Node
from harness.release import release


def add(count: int, **more: object) -> None:
    """So many nodes with a core each."""
    for number in range(count):
        node = Node.objects.create(**{"name": f"rack-{number:03}", "state": "up", "cpu_cores": 1, **more})
        Device.objects.create(node=node, kind="cpu", index=0, model_name="Example Epyc")


def shown(client: Client, query: str = "") -> str:
    return re.sub(r"\s+", " ", client.get(f"/pool/{query}").content.decode())


def names(page: str) -> list[str]:
    return re.findall(r'<h2 id="node-([^"]+)"', page)


def test_a_small_pool_is_shown_whole_and_has_nothing_to_find(world: SimpleNamespace, owner: Client) -> None:
    page = shown(owner)
    assert len(names(page)) == Node.objects.count() and 'name="q"' not in page


def test_a_large_pool_comes_in_pages(world: SimpleNamespace, owner: Client) -> None:
    add(NODES_SHOWN + 5)
    every = list(Node.objects.order_by("name").values_list("name", flat=True))
    first, second = shown(owner), shown(owner, "?page=2")
    assert names(first) == every[:NODES_SHOWN] and names(second) == every[NODES_SHOWN:]
    assert f"<dd>{Device.objects.count()}</dd>" in first and "page 2 of 2" in second


def test_whoever_adds_a_node_to_a_large_pool_goes_on_to_its_other_pages(world: SimpleNamespace, owner: Client) -> None:
    add(NODES_SHOWN + 5)
    owner.force_login(world.admin)
    page = owner.post("/pool/nodes/", {"name": "rack-new"}).content.decode()
    (further,) = re.findall(r'rel="next" href="([^"]+)"', page)
    assert "rack-new now" in page and owner.get(further).status_code == 200 and further == "/pool/?page=2"


def test_nodes_are_found_by_name_rack_model_and_state(world: SimpleNamespace, owner: Client) -> None:
    add(NODES_SHOWN)
    Node.objects.filter(name="rack-003").update(near="Hall B")
    Node.objects.filter(name="rack-004").update(state="down")
    assert names(shown(owner, "?q=hall+b")) == ["rack-003"]
    assert names(shown(owner, "?q=epyc+004")) == ["rack-004"]
    assert "rack-004" in names(shown(owner, "?state=down")) and "rack-003" not in names(shown(owner, "?state=down"))
    assert "No such node" in shown(owner, "?q=nowhere") and names(shown(owner, "?q=nowhere")) == []


def test_a_drained_node_that_is_down_says_so_and_can_be_let_in_again(world: SimpleNamespace, owner: Client) -> None:
    add(1, state="down")
    owner.force_login(world.admin)
    place = "/pool/nodes/rack-000/undrain/"
    assert place not in shown(owner) and "It was drained" not in shown(owner)
    Node.objects.filter(name="rack-000").update(drain_wanted=True)
    assert place in shown(owner) and "It was drained" in shown(owner)
    drained = {node["name"]: node["drain_wanted"] for node in owner.get("/api/v1/pool").json()["nodes"]}
    assert drained["rack-000"] and not drained["node-1"]
    told = owner.post(place, follow=True).content.decode()
    assert "rack-000 is down: it accepts jobs once it is back." in told and "accepts jobs again" not in told


def test_a_node_whose_clock_is_off_is_told_to_take_jobs_once_that_is_right(
    world: SimpleNamespace, owner: Client
) -> None:
    add(1, state="drain", drain_wanted=True, description={"clock_off_s": 40.0})
    owner.force_login(world.admin)
    told = owner.post("/pool/nodes/rack-000/undrain/", follow=True).content.decode()
    assert "rack-000 accepts jobs once its clock is right." in told and "accepts jobs again" not in told
    assert Node.objects.get(name="rack-000").state == "drain"
    assert "Its clock is 40 s ahead" in shown(owner)
    Node.objects.filter(name="rack-000").update(state="down")
    assert "Its clock is" not in shown(owner), "while it is down there is nothing to mend"


def test_two_machines_that_report_as_one_node_are_told_while_it_is_not_down(
    world: SimpleNamespace, owner: Client
) -> None:
    add(1, state="drain", drain_wanted=True, description={"twins_at": 1.0})
    owner.force_login(world.admin)
    place, banner = "/pool/nodes/rack-000/undrain/", "Two machines report as this node."
    text = shown(owner)
    assert banner in text and "dlh node join URL TOKEN --home OTHER" in text and place not in text
    told = owner.post(place, follow=True).content.decode()
    assert "rack-000 accepts jobs once one machine alone reports as it." in told
    Node.objects.filter(name="rack-000").update(state="down", drain_wanted=True)
    assert banner not in shown(owner) and place in shown(owner)


def test_an_admin_may_slow_down_the_devices_of_the_nodes_that_are_shown(world: SimpleNamespace, owner: Client) -> None:
    add(NODES_SHOWN)
    owner.force_login(world.admin)
    options = re.findall(r'<option value="(rack-\d+) cpu:0"', shown(owner, "?q=rack-01"))
    assert options == [f"rack-{number:03}" for number in range(10, 20)]


def test_what_a_device_draws_idle_is_told_with_what_it_rests_on(world: SimpleNamespace, owner: Client) -> None:
    add(2)
    node = Node.objects.get(name="rack-000")
    before = shown(owner, "?q=rack-000")
    IdlePower.objects.create(node=node, model_name="Example Epyc", watts=1.75, read_at=timezone.now())
    assert "1 W idle, assumed" in before and "1.8 W idle, measured" in shown(owner)
    assert "1.8 W idle, modelled" in shown(owner), "of the other one, which has no meter"


def test_a_node_of_another_release_than_the_portal_is_told(world: SimpleNamespace, owner: Client) -> None:
    node = Node.objects.first()
    assert node is not None
    for its, is_told in ((release(), False), ("99.1", True)):
        Node.objects.filter(pk=node.pk).update(description={**node.description, "release": its})
        assert (f"the portal has {release()}: what one of them" in shown(owner)) is is_told
