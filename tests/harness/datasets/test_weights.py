"""Weights files of a project: stored once, counted once, kept while jobs start from them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from harness.datasets import weights
from harness.datasets.content import file_copy
from harness.datasets.models import Upload, WeightsFile
from harness.datasets.uploads import upload_append, upload_create, upload_list
from harness.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge
from harness.jobs.control.contents import content_purge, contents_tidy
from harness.jobs.control.sizing import sizes_refresh
from harness.storage.models import ContentSize
from harness.storage.use import storage_of
from tests.factory_weights import safetensors, weights_make

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


@pytest.fixture
def mine(people: SimpleNamespace) -> Any:
    return weights_make(people.owner, people.project)


def packed(made: WeightsFile) -> Path:
    return Path(settings.STORE.dataset(made.sha256).packed)


def test_an_upload_becomes_a_weights_file_that_ranks_may_read(mine: Any) -> None:
    assert (mine.name, mine.tensors, mine.parameters, mine.dtypes) == ("mine", 2, 9, ["F32"])
    (file,) = packed(mine).iterdir()
    assert file.name == "weights.safetensors" and file.read_bytes() == safetensors()
    assert file.stat().st_mode & 0o777 == 0o644


def test_an_upload_that_has_become_one_is_no_unfinished_one_and_says_so_again(mine: Any, people: Any) -> None:
    upload = Upload.objects.get(weights=mine)
    assert not upload_list(user=people.owner).exists()
    assert weights.weights_finish(upload=upload) == mine


def test_the_same_bytes_are_stored_once_and_by_one_name_are_one_file(mine: Any, people: Any) -> None:
    assert weights_make(people.owner, people.project) == mine
    other = weights_make(people.mate, people.project, name="other")
    there = weights_make(people.outsider, people.elsewhere)
    assert len({mine.pk, other.pk, there.pk}) == 3 and other.sha256 == there.sha256 == mine.sha256


def test_a_project_pays_once_for_the_same_bytes(mine: Any, people: Any) -> None:
    used_bytes = storage_of(people.project).use.used_bytes
    assert used_bytes >= mine.size_bytes
    weights_make(people.owner, people.project, name="other")
    assert storage_of(people.project).use.used_bytes == used_bytes


def test_what_was_measured_of_it_stays_as_long_as_it_does(mine: Any, people: Any) -> None:
    sizes_refresh()
    assert ContentSize.objects.filter(pk=mine.sha256).exists()
    weights.weights_delete(user=people.owner, weights=mine)
    sizes_refresh()
    assert not ContentSize.objects.exists()


def test_no_file_has_the_name_that_stands_for_fresh_weights(people: Any) -> None:
    assert weights_make(people.owner, people.project, "auto.safetensors").name == "auto.safetensors"
    assert weights_make(people.owner, people.project, " spaced .safetensors").name == "spaced"


@pytest.mark.parametrize(
    ("filename", "name"), [("two\x85lines.safetensors", "two lines"), ("\u2028\x80.safetensors", "weights")]
)
def test_a_file_whose_name_no_page_shows_becomes_weights_of_one_line(people: Any, filename: str, name: str) -> None:
    assert weights_make(people.owner, people.project, filename).name == name


def test_an_older_upload_whose_name_has_two_lines_becomes_weights_of_one(people: Any) -> None:
    body = safetensors()
    upload = upload_create(user=people.owner, project=people.project, filename="a.safetensors", size_bytes=len(body))
    Upload.objects.filter(pk=upload.pk).update(name="two\nlines")
    upload_append(upload=upload, offset=0, chunk=[body])
    upload.refresh_from_db()
    assert weights.weights_finish(upload=upload).name == "two lines"


def test_its_folder_is_new_once_the_file_lies_there_so_that_the_object_store_gets_it(
    people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_given: Any) -> None:
        raise OSError

    def slowly(source: Path, target: Path) -> None:
        file_copy(source, target)
        os.utime(target.parent.parent, (0, 0))

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(weights, "file_copy", slowly)
    assert packed(weights_make(people.owner, people.project)).parent.stat().st_mtime > 0


def test_a_file_that_cannot_be_used_is_refused_and_leaves_nothing(people: Any) -> None:
    settings.STORE.uploads.mkdir(parents=True, exist_ok=True)
    before = set(settings.STORE.uploads.iterdir())
    with pytest.raises(Invalid, match="it was cut"):
        weights_make(people.owner, people.project, body=safetensors()[:-2])
    assert not Upload.objects.exists() and not WeightsFile.objects.exists()
    assert set(settings.STORE.uploads.iterdir()) == before


def test_an_upload_with_bytes_missing_is_no_weights_file_yet(people: Any) -> None:
    upload = upload_create(user=people.owner, project=people.project, filename="a.safetensors", size_bytes=100)
    upload_append(upload=upload, offset=0, chunk=[bytes(40)])
    with pytest.raises(Conflict, match="60 bytes are missing"):
        weights.weights_finish(upload=upload)


def test_weights_have_a_limit_of_their_own(people: Any, settings: Any) -> None:
    settings.WEIGHTS_LIMIT_BYTES = 10
    with pytest.raises(TooLarge) as caught:
        weights_make(people.owner, people.project)
    assert "DLH_WEIGHTS_LIMIT_GIB" in caught.value.hint


def test_a_viewer_brings_none_along(people: Any) -> None:
    with pytest.raises(Forbidden):
        weights_make(people.viewer, people.project)


def test_others_of_the_project_see_it_and_outsiders_do_not_learn_of_it(mine: Any, people: Any) -> None:
    for user in (people.owner, people.mate, people.viewer):
        assert weights.weights_get(user=user, weights_id=mine.pk) == mine
    with pytest.raises(NotFound):
        weights.weights_get(user=people.outsider, weights_id=mine.pk)
    with pytest.raises(NotFound):
        weights.weights_delete(user=people.outsider, weights=mine)


def test_its_owner_and_admins_of_the_project_delete_it_with_its_bytes(mine: Any, people: Any, tasks_sent: Any) -> None:
    theirs = weights_make(people.mate, people.project, "theirs.safetensors", safetensors(fill=1))
    with pytest.raises(Forbidden):
        weights.weights_delete(user=people.mate, weights=mine)
    weights.weights_delete(user=people.owner, weights=theirs)
    weights.weights_delete(user=people.owner, weights=mine)
    assert not WeightsFile.objects.exists()
    assert content_purge(mine.sha256) and not packed(mine).exists()


def test_bytes_that_another_project_names_stay(mine: Any, people: Any) -> None:
    weights_make(people.outsider, people.elsewhere)
    weights.weights_delete(user=people.owner, weights=mine)
    assert not content_purge(mine.sha256) and packed(mine).exists()
    contents_tidy()
    assert packed(mine).exists()


def test_a_spec_names_one_by_its_id_or_by_a_name_that_no_other_has(mine: Any, people: Any) -> None:
    for named in (mine.pk, "mine"):
        assert weights.weights_named(people.project, named) == mine
    weights_make(people.owner, people.project, body=safetensors(fill=1))
    with pytest.raises(Invalid, match="2 weights files of Birds are named mine"):
        weights.weights_named(people.project, "mine")
    with pytest.raises(Invalid, match="There is no weights file"):
        weights.weights_named(people.elsewhere, mine.pk)


def test_a_copy_of_one_whose_process_was_killed_goes_and_one_that_is_made_now_stays(
    mine: Any, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_source: Path, draft: Path) -> None:
        draft.write_bytes(safetensors()[:20])
        raise SystemExit

    def no_link(*_given: Any) -> None:
        raise OSError

    with monkeypatch.context() as dies:
        dies.setattr(os, "link", no_link)
        dies.setattr("harness.datasets.content.shutil.copyfile", killed)
        dies.setattr(Path, "unlink", lambda *_given, **_named: None)
        with pytest.raises(SystemExit):
            weights_make(people.owner, people.project, "other.safetensors", safetensors(fill=1))
    (half,) = settings.STORE.datasets.glob("*/packed/.*")
    made = weights_make(people.owner, people.project, "other.safetensors", safetensors(fill=1))
    assert half.parent == packed(made)
    contents_tidy()
    assert half.exists(), "somebody may be writing it"
    os.utime(half, (0, 0))
    contents_tidy()
    assert [path.name for path in packed(made).iterdir()] == ["weights.safetensors"]
