"""The chart, by Helm's own library: linted, refused without what has no default, and each object fits its schema."""

from functools import cache

import pytest
import yaml

from tests.deploy.conftest import DEPLOY

CHART = DEPLOY / "chart"
FAR_CACHE = {"gib": 100, "volume": "claim", "storageClass": "local"}
GIVEN = {
    "publicUrl": "https://harness.example.org",
    "image": {"repository": "registry.example.org/dlh", "tag": "0.1.0"},
    "secrets": {"existingSecret": "dlh", "nodeSecrets": "dlh-nodes"},
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
        {"name": "far", "kind": "statefulset", "replicas": 2, "store": "cache", "cache": FAR_CACHE},
        {"name": "edge", "kind": "daemonset", "store": "cache", "cache": {"gib": 20}},
    ],
}
KUBERNETES = ("1.25", "1.37")


def render(values):
    """Every object that these values give."""
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name="prod", namespace="ml")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [body for text in texts for body in yaml.safe_load_all(text) if body]


@cache
def objects():
    """Those of `GIVEN`."""
    return render(GIVEN)


def of_kind(kind, among=None):
    return {body["metadata"]["name"]: body for body in among or objects() if body["kind"] == kind}


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
        {"control": {"replicas": 1, "eventStreams": 33}},
        {"nodes": [{"name": "Big Node", "kind": "pod"}]},
        {"nodes": [{"name": "far", "kind": "statefulset", "store": "cache"}]},
        {"nodes": [{"name": "far", "kind": "statefulset", "store": "shared", "cache": {"gib": 5}}]},
        {"nodes": [{"name": "far", "kind": "daemonset", "store": "cache", "cache": {"gib": 5, "volume": "claim"}}]},
        {"networkPolicy": {"enabled": True, "redis": []}},
    ],
)
def test_passwords_in_urls_and_misspelt_values_are_refused(wrong):
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmError):
        chart.validate_schema(chart.merge_values({**GIVEN, **wrong}))


def test_every_pod_is_without_root_rights_and_token():
    assert len(pods()) == 7
    for spec in pods().values():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}


FAR = ("prod-dlh-node-far", "prod-dlh-node-edge")


def volume(spec, name):
    return next((volume for volume in spec["volumes"] if volume["name"] == name), None)


def mounts(spec):
    return {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}


def test_secrets_come_by_reference_and_a_node_gets_the_brokers_only():
    for name, spec in pods().items():
        if name in FAR:
            continue
        secret = volume(spec, "secrets")["secret"]
        keys = {item["key"] for item in secret["items"]}
        assert secret["secretName"] == "dlh"
        wanted = {"redis-password"} if "node" in name else {"redis-password", "database-password", "secret-key"}
        assert keys == wanted
    assert not of_kind("Secret")


def test_a_node_that_shares_the_store_has_its_volume_and_one_with_a_cache_has_not():
    for name, spec in pods().items():
        has = volume(spec, "store") is not None, "store" in mounts(spec)
        assert has == ((False, False) if name in FAR else (True, True)), name


@pytest.mark.parametrize(("name", "gib"), [("prod-dlh-node-far", "100"), ("prod-dlh-node-edge", "20")])
def test_a_node_with_a_cache_sees_its_own_secret_alone_and_has_its_limit(name, gib):
    spec = pods()[name]
    environment = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
    secret = mounts(spec)["node-secrets"]
    assert secret["subPathExpr"] == "$(DLH_NODE_NAME)" and secret["readOnly"]
    assert environment["DLH_NODE_SECRET_FILE"] == secret["mountPath"]
    assert volume(spec, "node-secrets")["secret"]["secretName"] == "dlh-nodes"
    assert volume(spec, "secrets") is None and "DLH_REDIS_PASSWORD_FILE" not in environment
    assert (environment["DLH_CACHE"], environment["DLH_CACHE_GIB"]) == (mounts(spec)["cache"]["mountPath"], gib)
    host = environment["DLH_URL"].removeprefix("http://")
    assert host in of_kind("Service")
    portal = {item["name"]: item.get("value") for item in pods()["prod-dlh-portal"]["containers"][0]["env"]}
    assert portal["DLH_ALLOWED_HOSTS"] == host


def test_the_cache_is_a_claim_or_an_emptydir_with_room_for_running_jobs():
    (claim,) = of_kind("StatefulSet")["prod-dlh-node-far"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "200Gi"
    assert claim["spec"]["storageClassName"] == "local"
    assert volume(pods()["prod-dlh-node-far"], "cache") is None
    assert volume(pods()["prod-dlh-node-edge"], "cache")["emptyDir"] == {"sizeLimit": "40Gi"}
    sized = {**GIVEN, "nodes": [{**GIVEN["nodes"][3], "cache": {"gib": 20, "size": "33Gi"}}]}
    (node,) = of_kind("DaemonSet", render(sized)).values()
    assert volume(node["spec"]["template"]["spec"], "cache")["emptyDir"] == {"sizeLimit": "33Gi"}


def test_where_redis_has_no_users_of_their_own_nodes_with_a_cache_get_the_shared_password():
    redis = {**GIVEN["redis"], "ownUsers": False}
    spec = of_kind("StatefulSet", render({**GIVEN, "redis": redis}))["prod-dlh-node-far"]["spec"]["template"]["spec"]
    assert [item["key"] for item in volume(spec, "secrets")["secret"]["items"]] == ["redis-password"]
    assert "DLH_REDIS_PASSWORD_FILE" in {item["name"] for item in spec["containers"][0]["env"]}


def test_prepare_is_shown_the_secrets_of_all_nodes_and_nobody_else_is():
    whole = {
        name for name, spec in pods().items() if "subPathExpr" not in mounts(spec).get("node-secrets", "subPathExpr")
    }
    assert whole == {"prod-dlh-prepare-1"}
    told = {item["name"]: item.get("value") for item in pods()["prod-dlh-prepare-1"]["containers"][0]["env"]}
    assert told["DLH_NODE_SECRETS"] == mounts(pods()["prod-dlh-prepare-1"])["node-secrets"]["mountPath"]


def test_without_the_secrets_of_its_nodes_with_a_cache_nothing_is_rendered():
    import helm_python

    with pytest.raises(helm_python.HelmError, match="nodeSecrets"):
        render({**GIVEN, "secrets": {"existingSecret": "dlh"}})
    shared = {**GIVEN, "secrets": {"existingSecret": "dlh"}, "nodes": GIVEN["nodes"][:2]}
    assert "node-secrets" not in str(render(shared))


def test_the_parts_are_commands_that_exist_and_get_what_they_ask_for():
    from harness.stack.far_node import NEEDS
    from harness.stack.part import REQUIRED

    for spec in pods().values():
        (container,) = spec["containers"]
        (part,) = container["args"]
        given = {item["name"].removesuffix("_FILE") for item in container["env"]}
        assert set(NEEDS if "DLH_CACHE" in given else REQUIRED[part]) <= given | {"DLH_STORE"}, part


def test_as_many_control_processes_read_events_as_is_said():
    control = {"control": {"replicas": 3, "eventStreams": 12}}
    deployment = of_kind("Deployment", render({**GIVEN, **control}))["prod-dlh-control"]
    assert deployment["spec"]["replicas"] == 3
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "DLH_EVENT_STREAMS", "value": "12"} in container["env"]
    for name, spec in pods().items():
        given = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
        is_node = name.startswith("prod-dlh-node-")
        assert given.get("DLH_EVENT_STREAMS") in ({None} if is_node else {None, "8"}), name


def nodes_policy(**given):
    values = {**GIVEN, "networkPolicy": {"enabled": True, **given}}
    return of_kind("NetworkPolicy", render(values))["prod-dlh-nodes"]["spec"]


def test_nodes_open_connections_to_ranks_of_nodes_name_resolution_and_the_broker_only():
    from worker.sandbox import EPHEMERAL_PORTS

    policy = of_kind("NetworkPolicy")["prod-dlh-nodes"]["spec"]
    assert policy["podSelector"]["matchLabels"]["dlh/role"] == "node"
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ranks, names, broker = policy["egress"]
    low, high = EPHEMERAL_PORTS
    assert ranks["ports"] == [{"port": low, "endPort": high, "protocol": "TCP"}]
    assert ranks["to"] == [{"podSelector": policy["podSelector"]}]
    assert policy["ingress"] == [{"from": ranks["to"], "ports": ranks["ports"]}]
    assert {item["port"] for item in names["ports"]} == {53}
    assert {item["port"] for item in broker["ports"]} == {6380}
    for name in ("cpu", "far"):
        labels = of_kind("StatefulSet")[f"prod-dlh-node-{name}"]["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def reaches(policy, address, port):
    """Whether a rule of the policy lets an address outside the cluster through."""
    import ipaddress

    place = ipaddress.ip_address(address)

    def within(text):
        return place in ipaddress.ip_network(text)

    def through(peer):
        block = peer.get("ipBlock", {"cidr": "127.0.0.1/32"})
        return within(block["cidr"]) and not any(within(part) for part in block.get("except", ()))

    return any(
        any(through(peer) for peer in rule["to"])
        and ("ports" not in rule or port in [p["port"] for p in rule["ports"]])
        for rule in policy["egress"]
    )


def test_nodes_reach_the_internet_on_no_port_unless_it_is_switched_on():
    for port in (53, 443, 6380):
        assert not reaches(nodes_policy(), "203.0.113.7", port)
        assert not reaches(nodes_policy(), "2001:db8::7", port)
    assert reaches(nodes_policy(), "10.1.2.3", 6380) and not reaches(nodes_policy(), "10.1.2.3", 443)
    opened = nodes_policy(nodesInternet=True)
    assert reaches(opened, "203.0.113.7", 443) and reaches(opened, "2001:db8::7", 443)
    assert not any(reaches(opened, inside, 443) for inside in ("10.1.2.3", "169.254.169.254", "fd00::1"))


def test_the_broker_may_be_narrowed_to_its_address():
    narrow = nodes_policy(redis=[{"ipBlock": {"cidr": "10.9.9.9/32"}}])
    assert reaches(narrow, "10.9.9.9", 6380) and not reaches(narrow, "10.1.2.3", 6380)


def test_a_portal_that_leaves_takes_requests_until_proxies_have_heard_of_it():
    (container,) = pods()["prod-dlh-portal"]["containers"]
    word, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep" and 1 <= int(seconds) < pods()["prod-dlh-portal"].get("terminationGracePeriodSeconds", 30)


def test_only_nodes_with_a_cache_reach_the_portal_which_lets_them_in():
    policy = of_kind("NetworkPolicy")["prod-dlh-nodes-cache"]["spec"]
    selected = policy["podSelector"]["matchLabels"].items()
    for kind, name, store in (("StatefulSet", "cpu", "shared"), ("StatefulSet", "far", "cache")):
        labels = of_kind(kind)[f"prod-dlh-node-{name}"]["spec"]["template"]["metadata"]["labels"]
        assert labels["dlh/store"] == store and (selected <= labels.items()) == (store == "cache")
    (rule,) = policy["egress"]
    portal = of_kind("Deployment")["prod-dlh-portal"]["spec"]["template"]
    (peer,) = rule["to"]
    assert peer["podSelector"]["matchLabels"].items() <= portal["metadata"]["labels"].items()
    assert rule["ports"][0]["port"] == portal["spec"]["containers"][0]["ports"][0]["containerPort"]
    proxy = {"namespaceSelector": {"matchLabels": {"name": "ingress"}}}
    values = {**GIVEN, "networkPolicy": {"enabled": True, "portalFrom": [proxy]}}
    (entry,) = of_kind("NetworkPolicy", render(values))["prod-dlh-portal"]["spec"]["ingress"]
    assert entry["from"] == [proxy, {"podSelector": policy["podSelector"]}]


def test_the_portals_service_finds_the_portal():
    service = of_kind("Service")["prod-dlh-portal"]["spec"]
    labels = of_kind("Deployment")["prod-dlh-portal"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    (rule,) = of_kind("Ingress")["prod-dlh"]["spec"]["rules"]
    assert rule["host"] == "harness.example.org"
