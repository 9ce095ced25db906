"""The file of a backup: what is changed by a bit or cut short is refused, and nothing leaves its folder."""

import hashlib
import io
import subprocess
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.backup.archive import ArchiveWriter, BackupError, archive_extract, archive_verify

LARGE = b"weights " * 300_000


def written(*names, body=b"content"):
    out = io.BytesIO()
    writer = ArchiveWriter(out, {"version": "1"})
    for name in names:
        writer.add_bytes(name, body)
    writer.close()
    return out.getvalue()


@pytest.fixture(scope="module")
def whole():
    out = io.BytesIO()
    writer = ArchiveWriter(out, {"version": "1", "rows": {}})
    writer.add_bytes("database.jsonl", b"{}\n")
    writer.add_folder("store/jobs/empty", mode=0o750, mtime_s=1_700_000_000)
    writer.add_file("store/jobs/a/w", io.BytesIO(LARGE), size_bytes=len(LARGE), mode=0o640, mtime_s=1_700_000_000)
    writer.add_bytes("store/odd \\ name\nwith a line", b"odd")
    writer.close()
    return out.getvalue()


def test_what_goes_in_comes_out_with_modes_times_and_empty_folders(whole, tmp_path):
    assert archive_verify(io.BytesIO(whole))["version"] == "1"
    places = {"": tmp_path / "home", "store/": tmp_path / "elsewhere"}
    assert archive_extract(io.BytesIO(whole), places) == 4
    file = tmp_path / "elsewhere/jobs/a/w"
    assert file.read_bytes() == LARGE
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime) == (0o640, 1_700_000_000)
    assert (tmp_path / "elsewhere/jobs/empty").is_dir()
    assert (tmp_path / "home/database.jsonl").read_bytes() == b"{}\n"


def test_tar_and_sha256sum_read_it_without_us(whole, tmp_path):
    (tmp_path / "backup").write_bytes(whole)
    subprocess.run(["tar", "xf", "backup"], cwd=tmp_path, check=True)
    done = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": OK") == 4


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_any_flipped_bit_is_refused(whole, data):
    place = data.draw(st.integers(0, len(whole) * 8 - 1))
    broken = bytearray(whole)
    broken[place // 8] ^= 1 << place % 8
    with pytest.raises(BackupError):
        archive_verify(io.BytesIO(bytes(broken)))


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_any_cut_or_appended_byte_is_refused(whole, data):
    with pytest.raises(BackupError):
        archive_verify(io.BytesIO(whole[: data.draw(st.integers(0, len(whole) - 1))]))
    with pytest.raises(BackupError):
        archive_verify(io.BytesIO(whole + data.draw(st.binary(min_size=1, max_size=200))))


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "store/../../evil", "store/x/../../../evil"])
def test_a_name_that_leads_outside_is_refused(name, tmp_path):
    home = tmp_path / "deep" / "home"
    with pytest.raises(BackupError):
        archive_extract(io.BytesIO(written(name)), {"": home, "store/": home / "store"})
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind, tmp_path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("store/link")
        entry.type, entry.linkname = kind, "/etc/passwd"
        tar.addfile(entry)
    with pytest.raises(BackupError):
        archive_extract(out, {"": tmp_path, "store/": tmp_path})
    assert not list(tmp_path.iterdir())


def test_a_file_twice_is_refused(tmp_path):
    with pytest.raises(BackupError):
        archive_extract(io.BytesIO(written("store/a", "store/a")), {"": tmp_path, "store/": tmp_path})


def test_a_file_that_shrinks_while_it_is_read_is_an_error_not_a_hole():
    writer = ArchiveWriter(io.BytesIO(), {})
    with pytest.raises(BackupError, match="shorter"):
        writer.add_file("store/log", io.BytesIO(b"short"), size_bytes=100)


def test_another_format_is_refused():
    with pytest.raises(BackupError, match="format 99"):
        archive_verify(io.BytesIO(_with_manifest(b'{"format": 99}')))


def _with_manifest(body):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(body)
        tar.addfile(entry, io.BytesIO(body))
    return out.getvalue() + b"dlh-backup sha256 " + hashlib.sha256(out.getvalue()).hexdigest().encode() + b"\n"
