from __future__ import annotations

import os

import pytest
from asgiref.sync import async_to_sync
from django.test import RequestFactory

from harness.csv import csv_chunks
from harness.responses import file_response
from harness.store import UnsafePath, open_beneath, range_parse, read_beneath
from worker.cells import cell


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-9", (0, 10)),
        ("bytes=90-", (90, 100)),
        ("bytes=-5", (95, 100)),
        ("bytes=50-500", (50, 100)),
        ("bytes=-500", (0, 100)),
        ("", None),
        ("bytes=-", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
    ],
)
def test_a_range_is_what_the_standard_says(header, span):
    found = range_parse(header, 100)
    assert (found and (found.start, found.stop)) == span


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=9-3", "bytes=-0"])
def test_a_range_outside_the_file_is_refused(header):
    with pytest.raises(ValueError, match="range"):
        range_parse(header, 100)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "work").mkdir(parents=True)
    (root / "work" / "good").write_text("good")
    (root / "work" / "link").symlink_to(tmp_path / "secret")
    (root / "work" / "up").symlink_to(tmp_path)
    os.mkfifo(root / "work" / "pipe")
    return root


def test_a_plain_file_below_the_root_is_read(folder):
    assert read_beneath(folder, "work/good") == b"good"


UNSAFE = ["work/link", "work/up/secret", "work/pipe", "work", "../secret", "/etc/passwd", "", "work/../../secret"]


@pytest.mark.parametrize("name", UNSAFE)
def test_links_pipes_folders_and_ways_out_are_refused(folder, name):
    with pytest.raises(UnsafePath):
        open_beneath(folder, name)


def test_a_missing_file_is_missing_and_a_large_one_too_large(folder):
    with pytest.raises(FileNotFoundError):
        open_beneath(folder, "work/none")
    with pytest.raises(UnsafePath, match="larger"):
        read_beneath(folder, "work/good", limit_bytes=3)


def test_a_file_is_served_in_parts_by_range(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(range(100)))

    def get(**headers):
        response = file_response(RequestFactory().get("/", headers=headers), path, filename='a"ü\n.bin')
        return response, b"".join(response.streaming_content) if response.streaming else b""

    whole, body = get()
    assert body == path.read_bytes() and whole["Content-Length"] == "100"
    assert "\n" not in whole["Content-Disposition"] and whole["X-Content-Type-Options"] == "nosniff"
    part, body = get(Range="bytes=10-19")
    assert (part.status_code, part["Content-Range"], body) == (206, "bytes 10-19/100", bytes(range(10, 20)))
    assert get(Range="bytes=100-")[0].status_code == 416


def test_under_asgi_a_file_is_never_read_whole(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * (3 << 20))
    request = RequestFactory().get("/")
    request.scope = {"type": "http"}
    response = file_response(request, path, filename="f")

    async def sizes():
        return [len(chunk) async for chunk in response.streaming_content]

    assert async_to_sync(sizes)() == [1 << 20] * 3


def test_no_cell_of_a_csv_is_a_formula():
    rows = [["=cmd|'/c calc'!A0", "+1+1", "-1-cmd", "@x", "\tx", -1.5, None, 'say "hi"']]
    text = b"".join(csv_chunks(["=head"], rows)).decode()
    assert text == "'=head\n'=cmd|'/c calc'!A0,'+1+1,'-1-cmd,'@x,'\tx,-1.5,,\"say \"\"hi\"\"\"\n"


@pytest.mark.parametrize("start", "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
def test_every_letter_that_begins_a_formula_somewhere_is_defused(start):
    assert cell(f"{start}1+1") == f"'{start}1+1"


def test_a_number_that_is_a_text_stays_as_it_is_in_a_csv():
    text = b"".join(csv_chunks(["x"], [["+1"], ["-1.5e3"], ["-.5"], ["-"], ["+1e"]])).decode()
    assert text.split() == ["x", "+1", "-1.5e3", "-.5", "'-", "'+1e"]
