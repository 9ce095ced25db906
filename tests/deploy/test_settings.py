"""Settings of the operator guide that compose and chart have no word of their own for reach every part."""

import re
from pathlib import Path

import pytest

from tests.deploy import chart
from tests.deploy.conftest import DEPLOY
from tests.deploy.test_compose import FAR_GIVEN, GIVEN, PARTS
from tests.deploy.test_object_store_chart import accepts

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "operator-guide.md"
OURS = ("Portal", "Runs", "Nodes")
OF_CHART = ("DLH_DEBUG", "DLH_HOST", "DLH_PORT")
"""What would break its services and probes, or tell strangers of the source."""
NAMES = re.compile(r"`(DLH_[A-Z0-9_]+)`")


def in_guide():
    """Every setting of the parts that the guide's table has."""
    table = GUIDE.read_text().partition("## Settings")[2].partition("\n## ")[0]
    found, about = set(), ""
    for line in table.splitlines():
        if head := re.match(r"\| \*\*(\w+)", line):
            about = head[1]
        elif about in OURS and line.startswith("| `"):
            found |= set(NAMES.findall(line.split("|")[1]))
    return found


def environments(values):
    """The environment of each of our pods."""
    rendered = chart.render({**chart.GIVEN, **values})
    pods = {
        body["metadata"]["name"]: body["spec"]["template"]["spec"]
        for body in rendered
        if "template" in body.get("spec", {})
    }
    return {
        name: [(one["name"], one.get("value")) for one in pod["containers"][0]["env"]] for name, pod in pods.items()
    }


@pytest.fixture
def settings(tmp_path):
    """A file of settings for compose, and one that shall not count."""
    file = tmp_path / "settings.env"
    file.write_text("DLH_STORAGE_QUOTA_GIB=200\nDLH_REDIS_URL=redis://elsewhere:6379/0\n")
    return str(file)


def test_compose_gives_them_to_every_part_and_its_own_words_count_first(config, settings):
    given = config("compose.yaml", **GIVEN, DLH_SETTINGS=settings)["services"]
    plain = config("compose.yaml", **GIVEN)["services"]
    for name in PARTS:
        assert given[name]["environment"] == {**plain[name]["environment"], "DLH_STORAGE_QUOTA_GIB": "200"}


def test_a_node_on_another_host_reads_them_too(config, settings):
    for node in config("node.yaml", **FAR_GIVEN, DLH_SETTINGS=settings)["services"].values():
        assert node["environment"]["DLH_STORAGE_QUOTA_GIB"] == "200"
        assert node["environment"]["DLH_REDIS_URL"] == FAR_GIVEN["DLH_REDIS_URL"]


def test_the_chart_gives_them_to_every_pod_each_once_and_exactly():
    told = environments({"settings": {"DLH_STORAGE_QUOTA_GIB": 12_000_000, "DLH_LOG_LEVEL": "DEBUG"}})
    assert len(told) == 7
    for environment in told.values():
        assert dict(environment).items() >= {"DLH_STORAGE_QUOTA_GIB": "12000000", "DLH_LOG_LEVEL": "DEBUG"}.items()
        assert len(dict(environment)) == len(environment)


def test_a_group_of_nodes_may_have_its_own_and_the_others_have_those_of_all():
    nodes = [
        {**node, "settings": {"DLH_NODE_CORES": 4}} if node["name"] == "cpu" else node for node in chart.GIVEN["nodes"]
    ]
    told = environments({"nodes": nodes, "settings": {"DLH_NODE_CORES": 8}})
    cores = {name: dict(environment)["DLH_NODE_CORES"] for name, environment in told.items()}
    assert cores.pop("prod-dlh-node-cpu") == "4"
    assert set(cores.values()) == {"8"}


@pytest.mark.parametrize(("own", "of_all"), [(0, 1), ("", "ports")])
def test_a_group_may_have_nothing_of_what_all_others_have(own, of_all):
    nodes = [{**node, "settings": {"DLH_ANY": own}} if node["name"] == "cpu" else node for node in chart.GIVEN["nodes"]]
    told = environments({"nodes": nodes, "settings": {"DLH_ANY": of_all}})
    values = {name: dict(environment)["DLH_ANY"] for name, environment in told.items()}
    assert values.pop("prod-dlh-node-cpu") == str(own)
    assert set(values.values()) == {str(of_all)}


def test_what_the_chart_says_itself_and_what_is_secret_is_refused():
    every = dict.fromkeys((name for environment in environments({}).values() for name, _ in environment), "x")
    assert len(every) > 10
    for name in [*every, "DLH_SECRET_KEY", "DLH_SMTP_PASSWORD", "DLH_S3_KEY", *OF_CHART, "PATH", "LD_PRELOAD"]:
        assert not accepts({**chart.GIVEN, "settings": {name: "x"}}), name
    assert not accepts({**chart.GIVEN, "settings": {"DLH_LOG_LEVEL": True}})


def test_every_setting_of_the_guide_can_be_given_one_way_or_the_other():
    said = (DEPLOY / "chart" / "templates" / "_helpers.tpl").read_text() + "".join(
        path.read_text() for path in (DEPLOY / "chart" / "templates").glob("*.yaml")
    )
    fixed = {"DLH_HOST", "DLH_PORT", "DLH_DEBUG", "DLH_RUNS_END_WITH_NODE", "DLH_NODE_SECRET", "DLH_SECRET_KEY"}
    names = in_guide()
    assert len(names) > 30
    missing = {
        name
        for name in names - fixed
        if not re.search(rf"\b{name}(_FILE)?\b", said) and not accepts({**chart.GIVEN, "settings": {name: "1"}})
    }
    assert not missing
