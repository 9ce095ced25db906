"""What the chart gives, rendered by Helm's own library."""

from functools import cache

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


def render(values, name="prod"):
    """Every object that these values give to a release of this name."""
    import helm_python

    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=name, namespace="ml")
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


FAR = ("prod-dlh-node-far", "prod-dlh-node-edge")


def volume(spec, name):
    return next((volume for volume in spec["volumes"] if volume["name"] == name), None)


def mounts(spec):
    return {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}


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
