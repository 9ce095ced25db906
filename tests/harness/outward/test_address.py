from __future__ import annotations

import ipaddress
from dataclasses import replace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.outward.address import AddressRefused, Rules, addresses_for, number_check, resolve, url_read

PUBLIC = "93.184.215.14"
RULES = Rules(what="a webhook", setting="DLH_WEBHOOK_NETWORKS", letters_max=500)
PLAIN = replace(RULES, http_too=True)
TARGET = url_read("https://receiver.example/hook", RULES)


def answer(*texts: str):
    return lambda host, port: list(texts)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "100.100.100.200", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
        "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1",
    ],
)  # fmt: skip
def test_no_address_of_the_inside_is_gone_to(text):
    with pytest.raises(AddressRefused):
        addresses_for(TARGET, RULES, answer(text))
    with pytest.raises(AddressRefused):  # a public one beside it makes it no better
        addresses_for(TARGET, RULES, answer(PUBLIC, text))


@pytest.mark.parametrize("text", [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_addresses_of_the_outside_are_gone_to(text):
    assert [str(one) for one in addresses_for(TARGET, RULES, answer(text))] == [text]


def test_this_machines_own_public_addresses_are_not_gone_to(monkeypatch):
    class Nic:
        address = PUBLIC

    class Hardware:
        address = "00:00:5e:00:53:01"

    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {"eth0": [Hardware(), Nic()]})
    with pytest.raises(AddressRefused):
        addresses_for(TARGET, RULES, answer(PUBLIC))


def test_an_admin_allows_a_network_and_no_other():
    rules = replace(RULES, networks=(ipaddress.ip_network("10.1.2.0/24"), ipaddress.ip_network("fd12::/16")))
    assert len(addresses_for(TARGET, rules, answer("10.1.2.3", "fd12::1", "::ffff:10.1.2.4"))) == 3
    with pytest.raises(AddressRefused):
        addresses_for(TARGET, rules, answer("10.1.3.3"))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.0.0.1", "017700000001", "localhost"])
def test_another_way_to_write_loopback_leads_there_and_is_refused(host):
    with pytest.raises(AddressRefused):
        addresses_for(url_read(f"https://{host}/", RULES), RULES, resolve)


def test_a_name_without_an_address_is_not_there():
    with pytest.raises(OSError, match="no address"):
        addresses_for(TARGET, RULES, answer())


@pytest.mark.parametrize(
    "url",
    [
        "", "receiver.example", "http://receiver.example/", "ftp://receiver.example/", "file:///etc/passwd",
        "https://", "https:///path", "https://user:word@receiver.example/", "https://@receiver.example/",
        "https://receiver.example:22/", "https://receiver.example:25/", "https://receiver.example:0/",
        "https://receiver.example:99999/", "https://receiver.example/\r\nX: y", "https://receiver.example/a b",
        "https://[::1", "https://receiver.exämple/", "https://receiver.example\\@inside/",
        "https://r.example/" + "a" * 500,
    ],
)  # fmt: skip
def test_what_is_no_plain_https_url_is_refused(url):
    with pytest.raises(AddressRefused):
        url_read(url, RULES)


def test_a_url_is_taken_apart():
    target = url_read("https://Hooks.Example.:8443/a/b?token=x#part", RULES)
    assert (target.host, target.port, target.path) == ("hooks.example", 8443, "/a/b?token=x")
    assert target.origin == "https://hooks.example:8443"
    plain = url_read("http://[2606:2800::1]", PLAIN)
    assert (plain.scheme, plain.port, plain.path, plain.origin) == ("http", 80, "/", "http://[2606:2800::1]")


def test_a_number_that_is_refused_is_told_at_once_and_a_name_is_not_looked_up():
    number_check(url_read("https://localhost/", RULES), RULES)
    number_check(url_read(f"https://{PUBLIC}/", RULES), RULES)
    with pytest.raises(AddressRefused, match="DLH_WEBHOOK_NETWORKS"):
        number_check(url_read("https://[::1]/", RULES), RULES)


@given(st.text(max_size=80))
def test_any_text_is_a_url_or_refused(text):
    for url in (text, f"https://{text}"):
        try:
            target = url_read(url, PLAIN)
        except AddressRefused:
            continue
        assert target.scheme in {"http", "https"} and target.host and 0 < target.port < 65536
        assert target.path.startswith("/") and target.path.isprintable() and " " not in target.path


@given(st.ip_addresses())
def test_an_address_that_is_gone_to_is_a_public_one(address):
    try:
        addresses_for(TARGET, RULES, answer(str(address)))
    except AddressRefused:
        return
    assert address.is_global and not address.is_multicast
