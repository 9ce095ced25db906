"""What is taken for an address, what is said of others, and who may have one fetched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.accounts.models import AuditEvent
from harness.datasets.models import Upload
from harness.datasets.uploads import uploads_expire
from harness.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from harness.fetches.models import Fetch
from harness.fetches.names import name_of_answer, name_of_url
from harness.fetches.rules import url_check
from harness.fetches.running import fetches_begin
from harness.fetches.selectors import fetch_get, fetch_list
from harness.fetches.services import fetch_again, fetch_cancel, fetch_create
from harness.fetches.share_pages import page_answered, share_page

URL = "https://data.example.org/a/iris.csv?token=secret"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ftp://data.example.org/iris.csv", "starts with https:// or http://"),
        ("file:///etc/passwd", "starts with https:// or http://"),
        ("iris.csv", "starts with https:// or http://"),
        ("https://me:word@data.example.org/iris.csv", "names no user and no password"),
        ("https://127.0.0.1/iris.csv", "DLH_FETCH_NETWORKS"),
        ("http://169.254.169.254/latest/meta-data/", "DLH_FETCH_NETWORKS"),
        ("http://data.example.org:22/", "port 22"),
        ("https://[::1", "not a valid URL"),
        ("https://data.example.org/" + "a" * 4000, "4000 characters"),
        ("https://data.example.org/a\nb", "4000 characters"),
    ],
)
def test_what_is_no_address_to_fetch_from_is_told_at_once(url, told, people):
    with pytest.raises(Invalid) as caught:
        fetch_create(user=people.owner, project=people.project, url=url)
    assert told in caught.value.message and caught.value.field == "url"
    assert not Upload.objects.exists()


def test_an_address_is_written_as_browsers_do():
    assert url_check(" https://data.example.org/my data/ä.csv?q=ü#part ") == (
        "https://data.example.org/my%20data/%C3%A4.csv?q=%C3%BC"
    )
    assert url_check("https://bücher.example/a%20b.csv") == "https://xn--bcher-kva.example/a%20b.csv"
    assert url_check("https://straße.example:8443/a.csv") == "https://xn--strae-oqa.example:8443/a.csv"


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("☃.net", "xn--n3h.net"),
        ("my_data.bücher.example", "my_data.xn--bcher-kva.example"),
        ("r3---sn.bücher.de", "r3---sn.xn--bcher-kva.de"),
        ("STRAßE.de", "xn--strae-oqa.de"),
        ("bücher。example.", "xn--bcher-kva.example."),
        ("my_bücher.example", "xn--my_bcher-95a.example"),
    ],
)
def test_hosts_that_browsers_take_are_asked_as_browsers_do(host, asked):
    assert url_check(f"https://{host}/a.csv") == f"https://{asked}/a.csv"


@pytest.mark.parametrize("host", ["-bü.de", "a..bü.de", 70 * "é" + ".de", 70 * "☃" + ".de", "☃%.de"])
def test_of_a_host_that_cannot_be_written_in_ascii_here_its_xn_form_is_asked_for(host):
    with pytest.raises(Invalid, match="xn--"):
        url_check(f"https://{host}/a.csv")


@given(st.text(max_size=80))
def test_any_text_is_an_address_or_refused(text):
    for url in (text, f"https://{text}", f"https://data.example.org/{text}"):
        try:
            found = url_check(url)
        except Invalid:
            continue
        assert found.isascii() and url_check(found) == found
        name = name_of_url(found)
        assert name and "/" not in name and name.isprintable()


@pytest.mark.parametrize(
    ("url", "direct"),
    [
        ("https://github.com/a/b/blob/main/x/iris.csv", "https://github.com/a/b/raw/main/x/iris.csv"),
        ("https://gitlab.com/a/b/-/blob/main/iris.csv", "https://gitlab.com/a/b/-/raw/main/iris.csv"),
        (
            "https://huggingface.co/datasets/a/b/blob/main/iris.csv",
            "https://huggingface.co/datasets/a/b/resolve/main/iris.csv",
        ),
        (
            "https://www.dropbox.com/scl/fi/abc/iris.csv?rlkey=k&dl=0",
            "https://www.dropbox.com/scl/fi/abc/iris.csv?rlkey=k&dl=1",
        ),
        ("https://www.dropbox.com/s/abc/iris.csv", "https://www.dropbox.com/s/abc/iris.csv?dl=1"),
        ("https://drive.google.com/file/d/abc/view?usp=sharing", ""),
        ("https://www.kaggle.com/datasets/uciml/iris", ""),
    ],
)
def test_the_page_of_a_file_is_told_from_the_file_and_the_direct_address_offered(url, direct):
    with pytest.raises(Invalid) as caught:
        url_check(url)
    assert caught.value.code == "share_page" and caught.value.hint
    assert caught.value.details == ({"direct_url": direct} if direct else None)
    assert not direct or url_check(direct) == direct


@pytest.mark.parametrize(
    "url",
    [
        "https://raw.githubusercontent.com/a/b/main/iris.csv", "https://github.com/a/b/releases/download/v1/iris.csv",
        "https://www.kaggle.com/api/v1/datasets/download/uciml/iris", "https://notgithub.com/a/b/blob/main/iris.csv",
        "https://drive.google.com/uc?export=download&id=abc", "https://github.com/a/b/blob/main/iris.csv?raw=true",
    ],
)  # fmt: skip
def test_addresses_of_files_are_left_as_they_are(url):
    assert share_page(url) is None and url_check(url) == url
    assert page_answered(url).hint


@pytest.mark.parametrize(
    ("disposition", "kind", "url", "name"),
    [
        ('attachment; filename="iris 1.csv"', "", "https://a/get", "iris 1.csv"),
        ("attachment; filename*=UTF-8''bl%C3%BCten.csv", "", "https://a/get", "blüten.csv"),
        ('attachment; filename="bl\u00c3\u00bcten.csv"', "", "https://a/get", "blüten.csv"),
        ("attachment; filename*=nothing''%ff.csv; filename=a.csv", "", "https://a/get", None),
        ('attachment; filename="../../etc/passwd"', "", "https://a/get", "passwd"),
        ('attachment; filename="C:\\\\temp\\\\a.csv"', "", "https://a/get", "a.csv"),
        ('attachment; filename=".."', "text/csv", "https://a/get", "get.csv"),
        ("", "text/csv; charset=utf-8", "https://a/export/", "export.csv"),
        ("", "", "https://a/", "data"),
        ("", "application/zip", "https://a/%2e%2e%2fpictures", "pictures.zip"),
        ("", "", "https://a/a%00b%0a.csv", "ab.csv"),
    ],
)
def test_a_file_is_called_as_its_server_says_and_never_leads_elsewhere(disposition, kind, url, name):
    found = name_of_answer(disposition, kind, url, url)
    assert found == name or (name is None and found)


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_header_gives_a_bare_name(disposition, kind):
    name = name_of_answer(disposition, kind, "https://a/get", "https://a/get")
    assert name and name.isprintable() and not {"/", "\\"} & set(name) and not name.startswith(".")


def test_a_change_is_written_to_the_record_without_what_may_be_secret(people):
    fetch = fetch_create(user=people.mate, project=people.project, url=URL, name="Iris")
    (event,) = AuditEvent.objects.filter(action="dataset_fetch")
    assert (event.actor, event.project) == (people.mate, people.project)
    assert "data.example.org/a/iris.csv" in event.target and "secret" not in event.target
    assert (fetch.upload.filename, fetch.upload.name, fetch.state) == ("iris.csv", "Iris", "waiting")
    assert "secret" in fetch.url and "secret" not in fetch.shown_url


def test_only_members_have_something_fetched_and_only_its_owner_sees_it(people):
    for user, refusal in ((people.viewer, Forbidden), (people.outsider, NotFound)):
        with pytest.raises(refusal):
            fetch_create(user=user, project=people.project, url=URL)
    fetch = fetch_create(user=people.owner, project=people.project, url=URL)
    for user in (people.mate, people.admin):
        assert not fetch_list(user=user).exists()
        with pytest.raises(NotFound):
            fetch_get(user=user, fetch_id=fetch.pk)
    assert fetch_get(user=people.owner, fetch_id=fetch.pk) == fetch


def test_they_count_among_the_unfinished_uploads_and_go_with_them(people, settings):
    settings.UPLOADS_OPEN_MAX = 1
    fetch = fetch_create(user=people.owner, project=people.project, url=URL)
    with pytest.raises(TooMany):
        fetch_create(user=people.owner, project=people.project, url=URL)
    settings.UPLOAD_EXPIRES_DAYS = -1
    assert uploads_expire() == 1 and not Fetch.objects.exists()
    assert not settings.STORE.upload(fetch.pk).exists()


def test_an_installation_may_fetch_nothing(people, settings):
    settings.FETCHES_AT_ONCE = 0
    with pytest.raises(Conflict, match="fetches nothing"):
        fetch_create(user=people.owner, project=people.project, url=URL)
    fetches_begin()


def test_only_one_that_failed_is_tried_again(people):
    fetch = fetch_create(user=people.owner, project=people.project, url=URL)
    with pytest.raises(Conflict):
        fetch_again(user=people.owner, fetch=fetch)
    Fetch.objects.update(state="failed", tries=5, problem={"code": "x", "message": "m", "hint": ""})
    again = fetch_again(user=people.owner, fetch=fetch)
    assert (again.state, again.tries, again.problem) == ("waiting", 0, None)
    fetch_cancel(user=people.owner, fetch=again)
    assert not Fetch.objects.exists() and not Upload.objects.exists()
