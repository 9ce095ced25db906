"""The chart, by Helm's own library: linted, refused without what has no default, and each object fits its schema."""

from functools import cache

import pytest
import yaml

from tests.deploy.conftest import DEPLOY

CHART = DEPLOY / "chart"
GIVEN = {
    "publicUrl": "https://harness.example.org",
    "image": {"repository": "registry.example.org/dlh", "tag": "0.1.0"},
    "secrets": {"existingSecret": "dlh"},
    "database": {"url": "postgres://dlh@postgres.example.org:5432/dlh"},
    "redis": {"url": "redis://redis.example.org:6380/0"},
    "store": {"size": "100Gi", "storageClass": "shared"},
    "nodes": [
        {"name": "cpu", "kind": "statefulset", "replicas": 2},
        {
            "name": "gpu",
            "kind": "daemonset",
            "image": "registry.example.org/dlh:cuda",
            "nodeSelector": {"gpu": "yes"},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        },
    ],
}
KUBERNETES = ("1.25", "1.37")


@cache
def objects():
    """Every rendered object, by kind and name."""
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(GIVEN, name="prod", namespace="ml")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [body for text in texts for body in yaml.safe_load_all(text) if body]


def of_kind(kind):
    return {body["metadata"]["name"]: body for body in objects() if body["kind"] == kind}


def pods():
    return {
        body["metadata"]["name"]: body["spec"]["template"]["spec"]
        for kind in ("Deployment", "StatefulSet", "DaemonSet", "Job")
        for body in of_kind(kind).values()
    }


def test_the_linter_finds_nothing():
    import helm_python

    told = helm_python.lint(str(CHART), GIVEN, strict=True)
    assert not told["errors"]
    assert not [message for message in told["messages"] if message["severity"] >= 2]


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_fits_the_schema_of_kubernetes(version):
    import kubernetes_validate

    assert len(objects()) >= 10
    for body in objects():
        kubernetes_validate.validate(body, version, strict=True)


@pytest.mark.parametrize("missing", ["publicUrl", "image", "secrets", "database", "redis", "store"])
def test_without_what_has_no_default_nothing_is_rendered(missing):
    import helm_python

    values = {name: value for name, value in GIVEN.items() if name != missing}
    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError):
        chart.validate_schema(chart.merge_values(values))


@pytest.mark.parametrize(
    "wrong",
    [
        {"database": {"url": "postgres://dlh:password@host/dlh"}},
        {"redis": {"url": "redis://:password@host:6379/0"}},
        {"publicUrl": "harness.example.org"},
        {"replicas": 3},
        {"nodes": [{"name": "Big Node", "kind": "pod"}]},
    ],
)
def test_passwords_in_urls_and_misspelt_values_are_refused(wrong):
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError):
        chart.validate_schema(chart.merge_values({**GIVEN, **wrong}))


def test_every_pod_is_without_root_rights_and_token():
    assert len(pods()) == 5
    for spec in pods().values():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_secrets_come_by_reference_and_a_node_gets_the_brokers_only():
    for name, spec in pods().items():
        (secret,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
        keys = {item["key"] for item in secret["items"]}
        assert secret["secretName"] == "dlh"
        wanted = {"redis-password"} if "node" in name else {"redis-password", "database-password", "secret-key"}
        assert keys == wanted
    assert not of_kind("Secret")


def test_the_parts_are_commands_that_exist_and_get_what_they_ask_for():
    from harness.stack.part import REQUIRED

    for spec in pods().values():
        (container,) = spec["containers"]
        (part,) = container["args"]
        given = {item["name"].removesuffix("_FILE") for item in container["env"]} | {"DLH_STORE"}
        assert set(REQUIRED[part]) <= given, part


def test_nodes_open_connections_to_nodes_and_the_broker_only():
    policy = of_kind("NetworkPolicy")["prod-dlh-nodes"]["spec"]
    assert policy["podSelector"]["matchLabels"]["dlh/role"] == "node"
    peers, ports = policy["egress"]
    assert set(peers) == {"to"}
    assert {item["port"] for item in ports["ports"]} == {53, 6380}
    labels = of_kind("StatefulSet")["prod-dlh-node-cpu"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_portals_service_finds_the_portal():
    service = of_kind("Service")["prod-dlh-portal"]["spec"]
    labels = of_kind("Deployment")["prod-dlh-portal"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    (rule,) = of_kind("Ingress")["prod-dlh"]["spec"]["rules"]
    assert rule["host"] == "harness.example.org"
