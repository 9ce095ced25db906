"""Who reaches whom in the chart: policies of its nodes, the portal's service, and what it does before it leaves."""

from tests.deploy.chart import GIVEN, of_kind, pods, reaches, render


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
