"""What may be named between the store and a node."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.transfer.tree import Tree, TreeFile, dataset_folder, job_folder, tree_here, tree_read

SHA = "a" * 64
NAMES = st.text(max_size=30) | st.sampled_from(
    ["..", ".", "../x", "/etc/passwd", "a/b", "a\\b", ".hidden", "a\0", "x\n"]
)


@given(NAMES)
def test_a_name_that_leaves_its_folder_or_hides_is_never_taken(name: str) -> None:
    try:
        tree = Tree.from_list([{"name": name, "bytes": 1, "sha256": SHA}])
    except ValueError:
        return
    assert tree.files[0].name == name
    assert not set(name) & set("/\\\0\n") and not name.startswith(".") and name.isascii()


@pytest.mark.parametrize(
    "body",
    [
        None, {}, "x", [1], [{}], [{"name": "a", "bytes": -1, "sha256": SHA}],
        [{"name": "a", "bytes": True, "sha256": SHA}], [{"name": "a", "bytes": 1, "sha256": "A" * 64}],
        [{"name": "a", "bytes": 1, "sha256": SHA}] * 2,
        [{"name": f"f{number}", "bytes": 1, "sha256": SHA} for number in range(501)],
    ],
)  # fmt: skip
def test_what_is_no_listing_is_refused(body: object) -> None:
    with pytest.raises(ValueError, match=r"not a list|not a file|twice"):
        Tree.from_list(body)


def test_a_tree_is_named_by_all_it_holds_in_any_order() -> None:
    one, two = ({"name": name, "bytes": 1, "sha256": SHA} for name in ("a", "b"))
    tree = Tree.from_list([two, one])
    assert tree == Tree.from_list([one, two]) == Tree.from_list(tree.to_list())
    others = [Tree((TreeFile(name="a", bytes=2, sha256=SHA), *tree.files[1:])), Tree(tree.files[:1]), Tree(())]
    assert len({tree.digest, *(other.digest for other in others)}) == 4


@pytest.mark.parametrize("path", ["/s/jobs/abc123", "/s/inspections/rates-x", "/any/where/calibration/run1/cnn-3"])
def test_folders_of_the_store_are_known_by_their_ends(path: str) -> None:
    assert path.endswith(job_folder(path))
    assert dataset_folder(f"/s/datasets/{SHA}/packed") == f"datasets/{SHA}/packed"


@pytest.mark.parametrize(
    "path", ["/etc", "/s/jobs", "/s/jobs/..", "/s/secrets/x", "jobs/a/program", "/s/datasets/x/packed"]
)
def test_no_other_folder_is_known(path: str) -> None:
    for known in (job_folder, dataset_folder):
        with pytest.raises(ValueError, match="not a folder of the store"):
            known(path)


def test_a_folder_that_is_gone_is_none_and_one_that_cannot_be_read_now_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoints" / "step-1"
    folder.mkdir(parents=True)
    (folder / "weights").write_text("x")
    assert tree_read(tmp_path, Path("checkpoints/step-2")) is None
    (folder / "link").symlink_to("weights")
    assert tree_read(tmp_path, Path("checkpoints/step-1")) is None
    (folder / "link").unlink()

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("worker.telemetry.tail.os.open", full)
    with pytest.raises(OSError, match="Too many open files"):
        tree_read(tmp_path, Path("checkpoints/step-1"))
    assert tree_here(tmp_path, Path("checkpoints/step-1")) is None
