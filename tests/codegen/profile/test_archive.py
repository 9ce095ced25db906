"""Hostile archives: each is refused with the entry named, and nothing is ever written outside."""

from __future__ import annotations

import io
import random
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codegen.profile.archive import ArchiveLimits, TarPictures, ZipPictures, is_ignored, open_archive
from codegen.profile.streams import ByteSource
from codegen.profile.types import DataError, DataProblem
from tests.codegen.profile.uploads import Lab, picture, tar_of, two_classes, zip_of

SMALL = ArchiveLimits(entries=50, file_bytes=1 << 20, total_bytes=2 << 20, ratio=100, ratio_floor_bytes=1 << 16)


def archive_of(path: Path, body: bytes, limits: ArchiveLimits = SMALL) -> ZipPictures | TarPictures:
    path.write_bytes(body)
    gzipped = body.startswith(b"\x1f\x8b")
    return open_archive(ByteSource(path, gzipped), is_zip=body.startswith(b"PK"), limits=limits)


def refused(path: Path, body: bytes, limits: ArchiveLimits = SMALL) -> DataProblem:
    with pytest.raises(DataError) as caught:
        archive = archive_of(path, body, limits)
        for _ in archive.read({entry.name for entry in archive.entries()}):
            pass
    return caught.value.problem


BAD_NAMES = [
    "../evil.png",
    "a/../../evil.png",
    "a/..",
    "..\\evil.png",
    "a\\..\\evil.png",
    "a\\b.png",
    "/abs/evil.png",
    "C:/evil.png",
    "C:\\evil.png",
    "a/\x1b[2Jevil.png",
    "a/new\nline.png",
    "a//b.png",
    "a/./b.png",
    "x/" * 40 + "deep.png",
    "n" * 2000 + ".png",
]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_unsafe_names_are_refused(tmp_path: Path, name: str, pack: object) -> None:
    body = pack({"a/ok.png": b"x", name: b"evil"})  # type: ignore[operator]
    assert refused(tmp_path / "upload", body).code in ("unsafe_name", "name_collision")


def test_a_nul_in_a_zip_name_is_refused(tmp_path: Path) -> None:
    body = zip_of({"a/evilX.png": b"x"}).replace(b"evilX.png", b"evil\0.png")
    assert refused(tmp_path / "upload", body).code in ("unsafe_name", "broken_archive")


@pytest.mark.parametrize(
    "names", [("a/x.png", "a/X.PNG"), ("a/x.png", "a/x.png"), ("a/é.png", "a/e\u0301.png"), ("a", "a/x.png")]
)
@pytest.mark.parametrize("pack", ["zip", "tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_collide_are_refused(tmp_path: Path, names: tuple[str, str], pack: str) -> None:
    target = io.BytesIO()
    if pack == "zip":
        with zipfile.ZipFile(target, "w") as archive:
            for name in names:
                archive.writestr(name, b"x")
    else:
        with tarfile.open(fileobj=target, mode="w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name))
    assert refused(tmp_path / "upload", target.getvalue()).code == "name_collision"


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_anything_but_files_and_folders_in_a_tar_is_refused(tmp_path: Path, kind: bytes) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("a/link.png")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    problem = refused(tmp_path / "upload", target.getvalue())
    assert (problem.code, problem.file) == ("unsafe_entry", "a/link.png")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_in_a_zip_are_refused(tmp_path: Path, kind: int) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo("a/link.png")
        info.create_system, info.external_attr = 3, (kind | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    assert refused(tmp_path / "upload", target.getvalue()).code == "unsafe_entry"


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    body = bytearray(zip_of({"a/1.png": b"x"}))
    at = body.index(b"PK\x01\x02")
    body[at + 8] |= 1
    assert refused(tmp_path / "upload", bytes(body)).code == "encrypted_entry"


def test_a_zip_bomb_is_refused_by_its_real_bytes(tmp_path: Path) -> None:
    assert refused(tmp_path / "upload", zip_of({"a/1.png": bytes(900_000)})).code == "archive_bomb"


def test_a_file_larger_than_it_may_be_is_refused(tmp_path: Path) -> None:
    noise = picture(1, size=(800, 800), kind="BMP")
    assert refused(tmp_path / "upload", zip_of({"a/1.bmp": noise})).code == "archive_bomb"
    assert refused(tmp_path / "upload", tar_of({"a/1.bmp": noise})).code == "archive_bomb"


def test_many_files_beyond_the_total_are_refused(tmp_path: Path) -> None:
    noise = picture(1, size=(500, 500), kind="BMP")
    files = {f"a/{number}.bmp": noise for number in range(4)}
    assert refused(tmp_path / "upload", zip_of(files)).code == "archive_bomb"
    assert refused(tmp_path / "upload", tar_of(files)).code == "archive_bomb"


def test_a_size_header_that_lies_is_refused(tmp_path: Path) -> None:
    body = bytearray(zip_of({"a/1.png": bytes(range(256)) * 40}))
    at = body.index(b"PK\x01\x02")
    struct.pack_into("<I", body, at + 24, 10)
    assert refused(tmp_path / "upload", bytes(body)).code == "broken_archive"


@pytest.mark.parametrize("packed", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_entry_is_named_however_it_is_packed(tmp_path: Path, packed: int) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packed) as archive:
        archive.writestr("a/1.png", random.Random(3).randbytes(5000))
    body = bytearray(made.getvalue())
    body[60:200] = bytes(140)
    problem = refused(tmp_path / "upload", bytes(body))
    assert (problem.code, problem.file) == ("broken_archive", "a/1.png")


@pytest.mark.parametrize("told", [{"GNU.sparse.map": "x"}, {"GNU.sparse.size": "x"}])
def test_a_tar_whose_notes_are_no_numbers_is_refused(tmp_path: Path, told: dict[str, str]) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("a/1.png")
        entry.size, entry.pax_headers = 5, told
        archive.addfile(entry, io.BytesIO(b"12345"))
    assert refused(tmp_path / "upload", made.getvalue()).code == "broken_archive"


def test_overlapping_entries_are_refused(tmp_path: Path) -> None:
    body = bytearray(zip_of({"a/1.png": b"x" * 50, "a/2.png": b"y" * 50}))
    second = body.index(b"PK\x01\x02", body.index(b"PK\x01\x02") + 1)
    struct.pack_into("<I", body, second + 42, 0)
    assert refused(tmp_path / "upload", bytes(body)).code in ("archive_bomb", "broken_archive")


@pytest.mark.parametrize("pack", [zip_of, tar_of])
def test_too_many_entries_are_refused(tmp_path: Path, pack: object) -> None:
    body = pack({f"a/{number}.png": b"x" for number in range(60)})  # type: ignore[operator]
    assert refused(tmp_path / "upload", body).code == "too_many_entries"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_cut_archives_are_refused(lab: Lab, share: float) -> None:
    for name, body in (
        ("a.zip", zip_of(two_classes())),
        ("a.tar.gz", tar_of(two_classes())),
        ("a.tar", tar_of(two_classes(), "w")),
    ):
        if name == "a.tar" and share > 0.9:
            continue
        problem = lab.problem(name, body[: int(len(body) * share)])
        assert problem.code in ("broken_archive", "cut_file"), name


def test_a_hostile_archive_is_refused_by_the_whole_profile(lab: Lab) -> None:
    for pack in (zip_of, tar_of):
        problem = lab.problem("upload", pack({**two_classes(), "../../evil.png": picture(1)}))
        assert problem.code == "unsafe_name" and "evil" in (problem.file or "")
    assert not list(lab.root.parent.rglob("*evil*"))


def test_files_of_operating_systems_are_known() -> None:
    names = ["__MACOSX/a/._1.png", "a/.DS_Store", "a/Thumbs.db", "a/._1.png", ".git/a.png"]
    names += ["pics/.ipynb_checkpoints/1.png", "pics/@eaDir/1.png"]
    assert all(is_ignored(name) for name in names) and not is_ignored("a/1.png")


NAME = st.text(st.sampled_from("abAB./\\\x00\x1f:é~ ") | st.characters(max_codepoint=0x2FF), min_size=1, max_size=12)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(names=st.lists(NAME, min_size=1, max_size=6), as_tar=st.booleans())
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_whatever_the_names_only_plain_relative_ones_come_out(tmp_path: Path, names: list[str], as_tar: bool) -> None:
    target = io.BytesIO()
    if as_tar:
        with tarfile.open(fileobj=target, mode="w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(name.replace("\0", "0")))
    else:
        with zipfile.ZipFile(target, "w") as archive:
            for name in names:
                info = zipfile.ZipInfo("x")
                info.filename = info.orig_filename = name
                archive.writestr(info, b"x")
    before = sorted(path.name for path in tmp_path.iterdir() if path.name != "upload")
    try:
        entries = archive_of(tmp_path / "upload", target.getvalue()).entries()
    except DataError as error:
        assert error.problem.hint
    else:
        for entry in entries:
            parts = entry.name.split("/")
            assert ".." not in parts and "" not in parts and "\\" not in entry.name
            assert not any(ord(letter) < 32 for letter in entry.name)
            assert (tmp_path / "box" / entry.name).resolve().is_relative_to((tmp_path / "box").resolve())
        keys = [entry.name.casefold() for entry in entries]
        assert len(set(keys)) == len(keys)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "upload") == before
