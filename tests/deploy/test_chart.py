"""The chart, by Helm's own library: linted, refused without what has no default, and each object fits its schema."""

import pytest

from tests.deploy.chart import CHART, FAR, GIVEN, KUBERNETES, mounts, objects, of_kind, pods, render, volume


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


def test_a_group_of_no_nodes_has_none():
    sets = of_kind("StatefulSet", render({**GIVEN, "nodes": [{"name": "cpu", "kind": "statefulset", "replicas": 0}]}))
    assert sets["prod-dlh-node-cpu"]["spec"]["replicas"] == 0
    sets = of_kind("StatefulSet", render({**GIVEN, "nodes": [{"name": "cpu", "kind": "statefulset"}]}))
    assert sets["prod-dlh-node-cpu"]["spec"]["replicas"] == 1


@pytest.mark.parametrize("name", ["2024", "null"])
def test_a_name_that_yaml_reads_as_something_else_stays_a_text(name):
    import kubernetes_validate

    keys = ("existingSecret", "nodeSecrets", "secretKey", "oidcClientSecret", "s3Key", "s3Secret")
    values = {
        "secrets": {**GIVEN["secrets"], **dict.fromkeys(keys, name)},
        "store": {"existingClaim": name},
        "objectStore": {"url": "s3://pool", "caConfigMap": name},
        "portal": {"replicas": 1, "ingress": {"enabled": True, "className": name, "tlsSecret": name}},
        "backup": {"schedule": "@daily", "size": "1Gi", "storageClass": name},
    }
    for body in render({**GIVEN, **values}, name=name):
        kubernetes_validate.validate(body, KUBERNETES[-1], strict=True)


def test_a_name_that_is_too_long_for_pods_is_refused_in_words():
    import helm_python

    longest = "a" * (52 - len("prod-dlh-node-"))
    for name in (longest, longest + "a"):
        group = {"name": name, "kind": "statefulset"}
        if name == longest:
            assert of_kind("StatefulSet", render({**GIVEN, "nodes": [group]}))
            continue
        with pytest.raises(helm_python.HelmError, match="too long by 1 letters"):
            render({**GIVEN, "nodes": [group]})
        assert of_kind("DaemonSet", render({**GIVEN, "nodes": [{**group, "kind": "daemonset"}]}))


def test_every_pod_is_without_root_rights_and_token():
    assert len(pods()) == 7
    for spec in pods().values():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}


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
