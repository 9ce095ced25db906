"""Datasets from web addresses in compose and chart: off without a way out; else control alone has one."""

import pytest

from tests.deploy import chart
from tests.deploy import test_compose as compose_file
from tests.deploy.test_object_store_chart import accepts, environment_of, spec_of

FILES = ("compose.yaml", "fetch.yaml")
GIVEN = {**compose_file.GIVEN, "DLH_FETCH_NETWORKS": "10.1.2.3/32"}
TOLD = {"DLH_FETCHES_AT_ONCE": "4", "DLH_FETCH_NETWORKS": "10.1.2.3/32"}
SERVING = {"portal", "control"}


def test_without_a_way_out_nothing_is_fetched(config):
    for name in SERVING:
        service = config("compose.yaml", **GIVEN)["services"][name]
        assert service["environment"]["DLH_FETCHES_AT_ONCE"] == "0"


def test_compose_gives_control_a_way_out_and_both_the_settings(config):
    told, plain = config(*FILES, **GIVEN), config("compose.yaml", **GIVEN)["services"]
    for name in SERVING:
        assert TOLD.items() <= told["services"][name]["environment"].items()
    assert {name for name, one in told["services"].items() if "addresses" in one["networks"]} == {"control"}
    assert not told["networks"]["addresses"].get("internal")
    for name in set(plain) - SERVING:
        assert told["services"][name] == plain[name], name


@pytest.mark.parametrize("part", sorted(SERVING))
def test_the_chart_gives_portal_and_control_the_settings(part):
    given = {**chart.GIVEN, "fetches": {"atOnce": 7, "networks": ["10.1.2.3/32", "fd00::/64"]}}
    environment = environment_of(spec_of(part, chart.render(given)))
    assert (environment["DLH_FETCHES_AT_ONCE"], environment["DLH_FETCH_NETWORKS"]) == ("7", "10.1.2.3/32,fd00::/64")


@pytest.mark.parametrize("fetches", [{"atOnce": -1}, {"networks": ["inside.example"]}, {"other": 1}])
def test_the_chart_refuses_what_the_harness_would_not_read(fetches):
    assert not accepts({**chart.GIVEN, "fetches": fetches})
