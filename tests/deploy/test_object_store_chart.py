"""The object store in the chart: portal and control sign in there, nodes never do, and half a setting is refused."""

from functools import cache

import pytest

from tests.deploy import chart
from tests.deploy.object_store import ENDPOINT, REGION, SIGNED_IN, URL, WANTED, knows, settings_in

PEER = {"ipBlock": {"cidr": "203.0.113.7/32"}}


GIVEN = {
    **chart.GIVEN,
    "secrets": {**chart.GIVEN["secrets"], "s3Key": "bucket-key", "s3Secret": "bucket-secret"},
    "objectStore": {"url": URL, "endpoint": ENDPOINT, "region": REGION},
}


TRUSTING = {**GIVEN, "objectStore": {**GIVEN["objectStore"], "caConfigMap": "roots"}}


@cache
def rendered():
    return chart.render(GIVEN)


def spec_of(part, objects=None):
    return chart.of_kind("Deployment", objects or rendered())[f"prod-dlh-{part}"]["spec"]["template"]["spec"]


def environment_of(spec):
    return {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}


def test_without_a_url_no_object_of_the_chart_knows_of_it():
    assert not knows(chart.objects())


@pytest.mark.parametrize("part", sorted(SIGNED_IN))
def test_with_a_url_portal_and_control_of_the_chart_have_what_the_harness_reads(part, tmp_path, monkeypatch):
    spec = spec_of(part)
    environment = environment_of(spec)
    assert settings_in(environment, tmp_path, monkeypatch) == WANTED
    paths = {item["path"]: item["key"] for item in chart.volume(spec, "secrets")["secret"]["items"]}
    folder = chart.mounts(spec)["secrets"]["mountPath"]
    for name, key in (("s3_key", "bucket-key"), ("s3_secret", "bucket-secret")):
        assert environment[f"DLH_{name.upper()}_FILE"] == f"{folder}/{name}" and paths[name] == key
    assert set(paths) == {"redis_password", "database_password", "secret_key", "s3_key", "s3_secret"}


def test_nodes_and_prepare_of_the_chart_are_as_without_it():
    def others(objects):
        return {
            (body["kind"], body["metadata"]["name"]): body
            for body in objects
            if body["metadata"]["name"] not in {f"prod-dlh-{part}" for part in SIGNED_IN}
        }

    assert others(rendered()) == others(chart.objects())
    assert not knows(list(others(rendered()).values()))


@pytest.mark.parametrize("version", chart.KUBERNETES)
def test_every_object_with_it_fits_the_schema_of_kubernetes(version):
    import kubernetes_validate

    whole = {**TRUSTING["objectStore"], "restore": True}
    for body in chart.render(
        {**GIVEN, "objectStore": whole, "networkPolicy": {"enabled": True, "objectStore": [PEER]}}
    ):
        kubernetes_validate.validate(body, version, strict=True)


def authorities(spec):
    """Where the file of certificates is to be seen; None where it is not."""
    found = chart.volume(spec, "objects-ca")
    if found is None:
        return None
    assert found["configMap"] == {"name": "roots", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    return f"{chart.mounts(spec)['objects-ca']['mountPath']}/ca.crt"


def test_the_certificate_of_a_private_authority_is_shown_to_all_who_speak_to_it_and_nobody_else():
    made = chart.render(TRUSTING)
    for part in SIGNED_IN:
        spec = spec_of(part, made)
        assert environment_of(spec)["DLH_S3_CA_FILE"] == authorities(spec)
        assert authorities(spec_of(part)) is None and "DLH_S3_CA_FILE" not in environment_of(spec_of(part))
    for kind in ("StatefulSet", "DaemonSet"):
        for name, body in chart.of_kind(kind, made).items():
            spec = body["spec"]["template"]["spec"]
            trusted = authorities(spec)
            assert (trusted is not None) == (name in chart.FAR) and environment_of(spec).get("SSL_CERT_FILE") == trusted
    (prepare,) = chart.of_kind("Job", made).values()
    assert authorities(prepare["spec"]["template"]["spec"]) is None


def test_a_restore_is_made_only_by_hand_and_as_control_sees_the_store():
    values = {**TRUSTING, "objectStore": {**TRUSTING["objectStore"], "restore": True}}
    made = chart.render(values)
    job = chart.of_kind("Job", made)["prod-dlh-restore"]
    spec, control = job["spec"]["template"]["spec"], spec_of("control", made)
    (container,), (serving,) = spec["containers"], control["containers"]
    assert container["args"] == ["store", "pull"] and container["image"] == serving["image"]
    assert spec["volumes"] == control["volumes"] and spec["securityContext"] == control["securityContext"]
    for field in ("env", "volumeMounts", "securityContext"):
        assert container[field] == serving[field]
    assert "restore" not in str(chart.render(TRUSTING))


def accepts(values):
    import helm_python

    with helm_python.Chart.load(str(chart.CHART)) as loaded:
        try:
            loaded.validate_schema(loaded.merge_values(values))
        except helm_python.HelmError:
            return False
    return True


def test_the_whole_setting_is_taken():
    import helm_python

    assert accepts(GIVEN) and accepts({**GIVEN, "objectStore": {"url": "s3://bucket"}})
    told = helm_python.lint(str(chart.CHART), GIVEN, strict=True)
    assert not told["errors"]


@pytest.mark.parametrize(
    ("secrets", "store"),
    [
        ({}, GIVEN["objectStore"]),
        ({"s3Key": "a"}, GIVEN["objectStore"]),
        ({"s3Secret": "a"}, GIVEN["objectStore"]),
        ({"s3Key": "a", "s3Secret": "b"}, {}),
        ({"s3Key": "a", "s3Secret": "b"}, {"endpoint": ENDPOINT}),
        ({}, {"endpoint": ENDPOINT}),
        ({}, {"region": REGION}),
        ({}, {"caConfigMap": "roots"}),
        ({}, {"restore": True}),
    ],
)
def test_half_a_setting_is_refused(secrets, store):
    assert not accepts({**chart.GIVEN, "secrets": {**chart.GIVEN["secrets"], **secrets}, "objectStore": store})


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "https://bucket"},
        {"url": "s3://Bucket"},
        {"url": "s3://key:secret@bucket"},
        {"endpoint": "objects.example.org"},
        {"endpoint": "https://key:secret@objects.example.org"},
        {"key": "a"},
    ],
)
def test_misspelt_places_and_keys_in_them_are_refused(wrong):
    assert not accepts({**GIVEN, "objectStore": {**GIVEN["objectStore"], **wrong}})


def policies(endpoint, **more):
    values = {**GIVEN, "objectStore": {"url": URL, "endpoint": endpoint}}
    values["networkPolicy"] = {"enabled": True, "objectStore": [PEER], **more}
    return {name: body["spec"] for name, body in chart.of_kind("NetworkPolicy", chart.render(values)).items()}


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        (ENDPOINT, 9000),
        ("https://objects.example.org/", 443),
        ("http://objects.example.org", 80),
        ("http://[fd00::7]", 80),
        ("http://[fd00::7]:9000", 9000),
        ("", 443),
    ],
)
def test_only_nodes_with_a_cache_reach_it_at_the_named_place_and_port(endpoint, port):
    made = policies(endpoint)
    portal, store = made["prod-dlh-nodes-cache"]["egress"]
    assert store == {"to": [PEER], "ports": [{"port": port, "protocol": "TCP"}]}
    assert portal == policies(endpoint, objectStore=[])["prod-dlh-nodes-cache"]["egress"][0]
    assert not chart.reaches(made["prod-dlh-nodes"], "203.0.113.7", port)
    assert not chart.reaches({"egress": [store]}, "203.0.113.8", port)


def test_unless_its_place_is_named_nodes_do_not_reach_it():
    assert len(policies(ENDPOINT, objectStore=[])["prod-dlh-nodes-cache"]["egress"]) == 1
    unused = {**chart.GIVEN, "networkPolicy": {"enabled": True, "objectStore": [PEER]}}
    policy = chart.of_kind("NetworkPolicy", chart.render(unused))["prod-dlh-nodes-cache"]["spec"]
    assert len(policy["egress"]) == 1


def test_no_policy_limits_where_portal_and_control_connect_to():
    made = policies(ENDPOINT)
    assert all(made[f"prod-dlh-{part}"]["policyTypes"] == ["Ingress"] for part in SIGNED_IN)
