"""Asking for a file at an address: where it may lead, and what a hostile server can do."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time

import pytest

from harness.fetches import source
from harness.fetches.source import Asked, Source
from harness.fetches.trouble import FetchRefused, FetchTrouble
from harness.outward.address import Rules
from tests.file_servers import CSV, chunked, drips, files_running, redirect, status, whole
from tests.harness.fetches.conftest import LOOPBACK
from tests.untested import untested

CLOSED = Rules(what="a dataset's address", setting="DLH_FETCH_NETWORKS", letters_max=4000, http_too=True)
OPEN = Rules(what=CLOSED.what, setting=CLOSED.setting, letters_max=4000, http_too=True, networks=LOOPBACK)


def read(url, rules=OPEN, **more):
    with Source(Asked(url=url, rules=rules, **more)) as found:
        return b"".join(iter(found.read, b""))


def refused(url, **more):
    with pytest.raises(FetchTrouble) as caught:
        read(url, **more)
    return caught.value


@pytest.mark.parametrize("act", [whole(), chunked(), whole(Content_Length="")])
def test_a_file_arrives_whole_however_its_length_is_told(files, act):
    files.acts["/t.csv"] = act
    assert read(files.url("/t.csv?token=a")) == CSV
    ((path, headers),) = files.asked
    assert path == "/t.csv?token=a"
    assert headers["Accept-Encoding"] == "identity" and not {"Authorization", "Cookie", "Referer"} & set(headers)


def test_redirects_are_followed_a_few_times(files):
    files.acts |= {"/a": redirect("/b"), "/b": redirect(files.url("/c"), 307), "/c": whole()}
    assert read(files.url("/a")) == CSV
    files.acts["/loop"] = redirect("/loop")
    assert refused(files.url("/loop")).code == "redirects"
    assert len(files.asked) == 3 + source.HOPS_MAX


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/", "http://10.0.0.1/", "http://[::1]/", "file:///etc/passwd", "ftp://a/"],
)
def test_a_redirect_to_the_inside_is_not_followed(files, location):
    files.acts["/t.csv"] = redirect(location)
    trouble = refused(files.url("/t.csv"))
    assert isinstance(trouble, FetchRefused) and trouble.code == "refused_address"


def test_a_redirect_to_a_name_of_the_inside_is_refused_although_the_first_name_was_allowed(files):
    with files_running() as inside:
        files.acts["/t.csv"] = redirect(f"http://inside.example:{inside.port}/secret")
        addresses = {"public.example": ["127.0.0.1"], "inside.example": ["127.0.0.1", "::1"]}
        trouble = refused(f"http://public.example:{files.port}/t.csv", by=lambda host, port: addresses[host])
        assert trouble.code == "refused_address" and "inside.example" in trouble.message
        assert inside.asked == []


def test_a_name_is_looked_up_once_and_only_what_was_found_is_connected_to(files):
    files.acts["/t.csv"] = whole()
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    assert read(f"http://data.example:{files.port}/t.csv", by=rebinding) == CSV
    assert asked == ["data.example"]
    # The next request looks again, and what it finds then is judged anew.
    assert refused(f"http://data.example:{files.port}/t.csv", by=rebinding).code == "refused_address"


def test_what_is_inside_is_not_asked_unless_an_admin_allows_it(files):
    files.acts["/t.csv"] = whole()
    trouble = refused(files.url("/t.csv"), rules=CLOSED)
    assert "DLH_FETCH_NETWORKS" in trouble.message and files.asked == []


def test_a_way_from_https_to_http_is_not_gone(certificate):
    context, trusting = certificate
    with files_running(context) as secure:
        secure.acts |= {"/good.csv": whole(), "/t.csv": redirect("http://data.example/t.csv")}
        place = f"https://data.example:{secure.port}"
        more = {"by": lambda *_: ["127.0.0.1"], "context": trusting}
        assert read(f"{place}/good.csv", **more) == CSV
        assert refused(f"{place}/t.csv", **more).code == "redirects"
        assert refused(f"{place}/good.csv", by=more["by"]).code == "tls"
        assert refused(f"https://other.example:{secure.port}/", **more).code == "tls"


@pytest.fixture
def certificate(tmp_path):
    """(Serving, trusting) contexts of data.example."""
    if shutil.which("openssl") is None:
        pytest.skip(untested("fetching with TLS", "there is no openssl"))
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=data.example", "-addext", "subjectAltName=DNS:data.example"]
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(["openssl", "req", *made, *names], check=True, capture_output=True)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*paths)
    return serving, ssl.create_default_context(cafile=str(paths[0]))


@pytest.mark.parametrize(
    ("code", "told", "is_final"),
    [
        (401, "sign_in", True), (403, "sign_in", True), (404, "not_found", True), (410, "not_found", True),
        (400, "answered", True), (204, "answered", True), (429, "server", False), (503, "server", False),
    ],
)  # fmt: skip
def test_its_answer_says_what_is_wrong_and_whether_to_try_again(files, code, told, is_final):
    files.acts["/t.csv"] = status(code, Retry_After="7")
    trouble = refused(files.url("/t.csv"))
    assert (trouble.code, isinstance(trouble, FetchRefused)) == (told, is_final)
    assert str(code) in trouble.message and trouble.wait_s == (0 if is_final else 7)


def test_nobody_there_and_no_such_name_are_told_apart(files):
    with files_running() as gone:
        pass
    assert refused(gone.url("/t.csv")).code == "connection_refused"

    def unknown(host, port):
        raise OSError

    assert refused("http://data.example/t.csv", by=unknown).code == "no_address"


@pytest.mark.parametrize("act", [whole(Content_Length=str(len(CSV) + 9)), chunked(ends=False)])
def test_a_connection_that_ends_too_early_is_no_whole_file(files, act):
    files.acts["/t.csv"] = act
    assert refused(files.url("/t.csv")).code == "cut_off"


def test_bytes_beyond_the_length_that_was_told_are_not_read(files):
    files.acts["/t.csv"] = whole(Content_Length="10")
    assert read(files.url("/t.csv")) == CSV[:10]


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "first",
    [
        b"H", HEAD + b"X-A: ", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ",
    ],
)  # fmt: skip
def test_whoever_drips_where_no_byte_of_the_file_comes_is_left(files, monkeypatch, first):
    monkeypatch.setattr(source, "ANSWER_S", 0.3)
    monkeypatch.setattr(source, "SILENT_S", 0.3)
    files.acts["/t.csv"] = drips(first)
    assert refused(files.url("/t.csv")).code in {"too_slow", "broken"}


def test_whoever_says_nothing_any_more_is_left_and_not_taken_for_the_end(files, monkeypatch):
    monkeypatch.setattr(source, "SILENT_S", 0.3)
    files.acts["/t.csv"] = drips(HEAD + b"\r\nab", b"")
    assert refused(files.url("/t.csv")).code == "too_slow"


def test_redirects_one_after_the_other_take_no_longer_than_one_answer_may(files, monkeypatch):
    monkeypatch.setattr(source, "HOPS_S", 0.3)

    def slow(location):
        def act(handler):
            time.sleep(0.2)
            redirect(location)(handler)

        return act

    files.acts |= {"/a": slow("/b"), "/b": slow("/c"), "/c": slow("/d"), "/d": whole()}
    assert refused(files.url("/a")).code == "too_slow"


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, br"])
def test_a_packing_that_nobody_asked_for_is_refused(files, encoding):
    files.acts["/t.csv"] = whole(Content_Encoding=encoding)
    assert refused(files.url("/t.csv")).code == "encoding"
