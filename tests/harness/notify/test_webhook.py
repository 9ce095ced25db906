from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from harness.notify import webhook
from harness.notify.trouble import DeliveryRefused, DeliveryTrouble
from harness.notify.webhook import webhook_post
from tests.harness.notify.conftest import LOOPBACK
from tests.receivers import hooks_running
from tests.untested import untested

HEADERS = {"Content-Type": "application/json"}


def post(url, **more):
    webhook_post(url, b'{"a":1}', HEADERS, networks=LOOPBACK, http_too=True, **more)


def test_a_message_arrives_whole(hooks):
    post(hooks.url)
    ((path, headers, body),) = hooks.got
    assert (path, body) == ("/hook?token=abc", b'{"a":1}')
    assert headers["Content-Type"] == "application/json" and headers["Host"] == f"127.0.0.1:{hooks.port}"


def test_it_connects_to_the_address_that_was_checked_and_asks_for_no_other(hooks):
    asked = []

    def changing(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    post(f"http://receiver.example:{hooks.port}/", by=changing)
    assert asked == ["receiver.example"]
    assert hooks.got[0][1]["Host"] == f"receiver.example:{hooks.port}"


def test_what_is_inside_is_not_connected_to(hooks):
    with pytest.raises(DeliveryRefused, match="DLH_WEBHOOK_NETWORKS"):
        webhook_post(hooks.url, b"{}", HEADERS, http_too=True)
    with pytest.raises(DeliveryRefused, match="https"):
        webhook_post(hooks.url, b"{}", HEADERS, networks=LOOPBACK)
    assert hooks.got == []


@pytest.mark.parametrize(("status", "final"), [(404, True), (410, True), (400, True), (429, False), (500, False)])
def test_its_answer_says_whether_to_try_again_and_its_body_is_not_told(hooks, status, final):
    hooks.statuses = [status]
    with pytest.raises(DeliveryTrouble, match=f"It answered {status}") as caught:
        post(hooks.url)
    assert isinstance(caught.value, DeliveryRefused) == final
    assert "nobody may see" not in str(caught.value)


def test_a_redirect_is_not_followed(hooks):
    with hooks_running() as inside:
        hooks.statuses, hooks.location = [307], inside.url
        with pytest.raises(DeliveryRefused, match="redirect"):
            post(hooks.url)
        assert len(hooks.got) == 1 and inside.got == []


def test_nobody_there_and_no_such_name_may_be_tried_again(hooks):
    with hooks_running() as gone:
        pass
    with pytest.raises(DeliveryTrouble, match="refused the connection") as caught:
        post(gone.url)
    assert not isinstance(caught.value, DeliveryRefused)

    def unknown(host, port):
        raise OSError

    with pytest.raises(DeliveryTrouble, match=r"no address for receiver\.example"):
        post("http://receiver.example/", by=unknown)


@pytest.mark.parametrize("how", ["silent", "drips"])
def test_whoever_answers_too_slowly_is_left(hooks, monkeypatch, how):
    monkeypatch.setattr(webhook, "ANSWER_S", 0.3)
    hooks.drips = how == "drips"
    if how == "silent":
        hooks.silent.set()
    with pytest.raises(DeliveryTrouble, match="in time"):
        post(hooks.url)


def test_a_port_without_tls_is_told_as_that_and_may_be_tried_again(hooks):
    with pytest.raises(DeliveryTrouble, match="may not speak HTTPS on that port") as caught:
        post(hooks.url.replace("http://", "https://"))
    assert not isinstance(caught.value, DeliveryRefused) and hooks.got == []


@pytest.fixture
def certificate(tmp_path):
    """(Certificate, key) of receiver.example, by itself."""
    if shutil.which("openssl") is None:
        pytest.skip(untested("webhooks with TLS", "there is no openssl"))
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=receiver.example", "-addext", "subjectAltName=DNS:receiver.example"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    return paths


def test_a_certificate_must_be_of_the_name_and_trusted(certificate):
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=str(certificate[0]))
    with hooks_running(serving) as secure:
        post(f"https://receiver.example:{secure.port}/", by=lambda *_: ["127.0.0.1"], context=trusting)
        assert len(secure.got) == 1
        for url, context in (
            (f"https://other.example:{secure.port}/", trusting),
            (f"https://receiver.example:{secure.port}/", None),
        ):
            with pytest.raises(DeliveryRefused, match="certificate"):
                post(url, by=lambda *_: ["127.0.0.1"], context=context)
        assert len(secure.got) == 1
