from __future__ import annotations

import pytest
from django.conf import settings

from harness.datasets import purging, selectors, services
from harness.datasets.models import Dataset
from harness.datasets.reading import dataset_read
from harness.errors import Conflict, Invalid

pytestmark = pytest.mark.django_db


def test_other_types_are_read_anew_and_the_old_content_stays_for_its_jobs(dataset, people, broker, tasks_sent):
    before = dataset.sha256
    services.dataset_update(user=people.mate, dataset=dataset, column_types={"length": "category"}, target="kind")
    assert dataset.state == "profiling" and dataset.sha256 != before
    assert settings.STORE.dataset(before).packed.is_dir()
    dataset_read(dataset.pk)
    dataset.refresh_from_db()
    assert selectors.dataset_profile(dataset).column("length").type == "category"
    services.dataset_update(user=people.mate, dataset=dataset, column_types={"length": ""}, target="")
    assert dataset.sha256 == before and dataset.state == "ready"


def test_an_older_name_of_two_lines_that_is_sent_along_stays(dataset, people, broker, tasks_sent):
    Dataset.objects.update(name="two\u2028lines")
    dataset.refresh_from_db()
    services.dataset_update(user=people.mate, dataset=dataset, name="two\u2028lines", target="kind")
    dataset.refresh_from_db()
    assert (dataset.name, dataset.options["target"]) == ("two\u2028lines", "kind")


def test_a_dataset_that_could_not_be_read_is_renamed_without_reading_it_again(dataset, people, broker, tasks_sent):
    Dataset.objects.update(state="failed", problem={"code": "one_class", "message": "m", "hint": ""})
    dataset.refresh_from_db()
    tasks_sent.clear()
    services.dataset_update(user=people.mate, dataset=dataset, name="Other")
    dataset.refresh_from_db()
    assert (dataset.name, dataset.state, dataset.problem["code"], tasks_sent) == ("Other", "failed", "one_class", [])
    services.dataset_update(user=people.mate, dataset=dataset)
    dataset.refresh_from_db()
    assert dataset.state != "failed" and dataset.problem is None


def test_a_guessed_target_stays_a_guess_when_types_are_changed(dataset, people, broker, tasks_sent):
    before, guess = dataset.sha256, dataset.profile["target"]
    other = next(column["name"] for column in dataset.profile["columns"] if column["name"] != guess)
    services.dataset_update(user=people.mate, dataset=dataset, column_types={other: "category"})
    assert dataset.options == {"column_types": {other: "category"}, "target_guess": guess}
    dataset_read(dataset.pk)
    dataset.refresh_from_db()
    assert dataset.profile["target"] == guess and "set by hand" not in dataset.profile["target_reason"]
    services.dataset_update(user=people.mate, dataset=dataset, column_types={other: "text"}, target=guess)
    assert dataset.options == {"column_types": {other: "text"}, "target": guess}
    services.dataset_update(user=people.mate, dataset=dataset, target="")
    assert dataset.options == {"column_types": {other: "text"}}
    services.dataset_update(user=people.mate, dataset=dataset, column_types={other: ""})
    assert dataset.options == {} and dataset.sha256 == before, "nothing is left of a guess that needs no keeping"


def test_a_guessed_target_that_is_read_as_text_is_told_to_be_given_up(dataset, people, broker, tasks_sent):
    guess = dataset.profile["target"]
    services.dataset_update(user=people.mate, dataset=dataset, column_types={guess: "text"})
    told = f"{guess} was guessed as the target and cannot be it as text: set `target`, or another is guessed."
    assert selectors.target_notes(dataset) == [told]
    dataset_read(dataset.pk)
    dataset.refresh_from_db()
    other, why = dataset.profile["target"], dataset.profile["target_reason"]
    assert other != guess and f"'{guess}', which was guessed before types were changed, cannot be" in why
    services.dataset_update(user=people.mate, dataset=dataset, target=other)
    assert selectors.target_notes(dataset) == []


def test_a_target_that_a_person_set_stays_when_types_are_changed(dataset, people, broker, tasks_sent):
    guess = dataset.profile["target"]
    other = next(column["name"] for column in dataset.profile["columns"] if column["name"] != guess)
    services.dataset_update(user=people.mate, dataset=dataset, target=other)
    dataset_read(dataset.pk)
    dataset.refresh_from_db()
    services.dataset_update(user=people.mate, dataset=dataset, column_types={guess: "text", other: "category"})
    assert dataset.options == {"column_types": {guess: "text", other: "category"}, "target": other}
    dataset_read(dataset.pk)
    dataset.refresh_from_db()
    assert (dataset.profile["target"], dataset.profile["target_reason"]) == (other, "set by hand")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"column_types": {"length": "nonsense"}}, "options.column_types.length"),
        ({"column_types": {"lenght": "numeric"}}, "column_types.lenght"),
        ({"options": {"nonsense": 1}}, "options.nonsense"),
        ({"options": {"target_guess": "kind"}}, "options.target_guess"),
        ({"name": " "}, "name"),
    ],
)
def test_a_wrong_change_names_the_field(change, field, dataset, people):
    with pytest.raises(Invalid) as caught:
        services.dataset_update(user=people.owner, dataset=dataset, **change)
    assert caught.value.field == field


@pytest.mark.parametrize("wrong", [{"column_types": {"nope": "category"}}, {"options": {"nonsense": 1}}, {"target": 5}])
def test_a_change_that_is_refused_is_not_half_made(wrong, dataset, people):
    before = dataset.name
    with pytest.raises(Invalid):
        services.dataset_update(user=people.owner, dataset=dataset, name="renamed", **wrong)
    dataset.refresh_from_db()
    assert dataset.name == before


@pytest.fixture
def while_hashed(monkeypatch):
    """Have something happen while the source of a dataset is hashed: `while_hashed(function)`."""
    hashed = services.file_sha256

    def arrange(happens):
        def file_sha256(path):
            happens()
            return hashed(path)

        monkeypatch.setattr(services, "file_sha256", file_sha256)

    return arrange


def test_a_dataset_deleted_while_it_is_hashed_stays_deleted(dataset, people, while_hashed, tasks_sent):
    tasks_sent.clear()
    while_hashed(lambda: services.dataset_delete(user=people.owner, dataset=Dataset.objects.get(pk=dataset.pk)))
    with pytest.raises(Conflict):
        services.dataset_update(user=people.mate, dataset=dataset, column_types={"length": "category"})
    row = Dataset.objects.get(pk=dataset.pk)
    assert row.deleted_at is not None and (row.state, row.options) == ("ready", {}) and not tasks_sent


def test_a_dataset_purged_while_it_is_hashed_is_told_so(dataset, people, while_hashed):
    while_hashed(lambda: purging.dataset_purge(user=people.owner, dataset=dataset, at_once=True))
    with pytest.raises(Conflict):
        services.dataset_update(user=people.mate, dataset=dataset, column_types={"length": "category"})


def test_a_name_given_while_a_dataset_is_hashed_is_kept(dataset, people, while_hashed):
    while_hashed(lambda: Dataset.objects.filter(pk=dataset.pk).update(name="its new name"))
    services.dataset_update(user=people.mate, dataset=dataset, column_types={"length": "text"})
    row = Dataset.objects.get(pk=dataset.pk)
    assert (row.name, row.state, row.options["column_types"]) == ("its new name", "profiling", {"length": "text"})


def test_of_two_who_have_a_dataset_read_in_another_way_the_later_is_refused(dataset, people, while_hashed):
    def first():
        while_hashed(lambda: None)
        row = Dataset.objects.get(pk=dataset.pk)
        services.dataset_update(user=people.owner, dataset=row, column_types={"length": "category"})

    while_hashed(first)
    with pytest.raises(Conflict):
        services.dataset_update(user=people.mate, dataset=dataset, name="mine", target="kind")
    row = Dataset.objects.get(pk=dataset.pk)
    assert row.name != "mine" and row.options == {"column_types": {"length": "category"}, "target_guess": "kind"}


def test_a_dataset_in_the_trash_is_not_renamed_by_who_saw_it_before(dataset, people):
    services.dataset_delete(user=people.owner, dataset=Dataset.objects.get(pk=dataset.pk))
    with pytest.raises(Conflict):
        services.dataset_update(user=people.mate, dataset=dataset, name="late")
    assert Dataset.objects.get(pk=dataset.pk).name != "late"
