"""A list of jobs gives the columns that are asked for, sorted by any of them, in the same number of queries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.http import QueryDict
from django.utils import timezone

from harness.errors import Invalid
from harness.estimates.models import JobEstimate
from harness.jobs.columns import (
    COLUMNS_MAX,
    COMPUTED,
    DEFAULT,
    FIELDS,
    column_get,
    columns_get,
    columns_values,
    spec_fields,
    with_bases,
)
from harness.jobs.listing import listing_query, listing_read
from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.jobs.selectors import job_list, job_metric_keys, job_order
from harness.pages.job_columns import column_head, columns_shown

pytestmark = [pytest.mark.usefixtures("tasks_sent"), pytest.mark.django_db]
EVERY = (*FIELDS, *COMPUTED, "metric:val/loss", "spec:training.epochs")


def shown(people: Any, *keys: str, sort: str = "name") -> list[tuple[Any, ...]]:
    """(name, values) of the owner's jobs."""
    columns = columns_get(keys)
    page = job_list(user=people.owner, columns=columns, sort=sort, without=("last_values",))
    return [(job.name, *columns_values(job, columns).values()) for job in page.items]


def used(job: Job, **energy_j: float) -> None:
    """An ended attempt of a job on two cores, by node."""
    now = timezone.now()
    JobAttempt.objects.create(job=job, number=1, plan={}, option={"kind": "cpu", "count": len(energy_j)})
    for node, joules in energy_j.items():
        DeviceUse.objects.create(
            node_name=node, device_kind="cpu", device_index=0, job=job, job_name=job.name, project=job.project,
            project_name="p", owner=job.owner, owner_name="o", token=1, started_at=now - timedelta(seconds=9),
            ended_at=now, energy_j=joules, energy_basis="assumed",
        )  # fmt: skip


def told(job: Job, **fields: Any) -> None:
    Job.objects.filter(pk=job.pk).update(**fields)


def test_each_job_has_its_own_metrics_spec_values_energy_and_devices(job_make, people):
    a, b = job_make(name="a", training={"epochs": 7, "optimizer": "sgd"}), job_make(name="b", training={"epochs": 30})
    told(a, last_values={"val/loss": 0.25, "größe, m": 3.0, "val/nan": None})
    used(a, here=40.0, there=2.5)
    keys = ("energy_j", "devices", "device", "spec:training.epochs", "metric:val/loss", "metric:größe, m")
    assert shown(people, *keys) == [("a", 42.5, 2, "cpu", 7, 0.25, 3.0), ("b", None, None, None, 30, None, None)]
    assert shown(people, "spec:training.optimizer", "metric:val/nan")[0] == ("a", "sgd", None)
    assert shown(people, "dataset", "project", "owner", "parent")[1] == (
        "b",
        b.dataset.name,
        b.project.slug,
        "owner",
        None,
    )


def test_what_was_foretold_stands_beside_what_came_true_and_sorts(job_make, people):
    for name, run_s in (("a", 100.0), ("b", 9.0), ("c", None)):
        job = job_make(name=name)
        told(job, run_s=2.0)
        if run_s is not None:
            body = {"run_s": {"low": 1.0, "mid": run_s, "high": 200.0}, "energy_j": {"mid": 5.5}}
            JobEstimate.objects.create(job=job, inspection_key="k", estimate=body)
    keys = ("predicted_run_s", "run_s", "predicted_energy_j")
    found = shown(people, *keys, sort="predicted_run_s")
    assert found == [("b", 9.0, 2.0, 5.5), ("a", 100.0, 2.0, 5.5), ("c", None, 2.0, None)]
    assert column_head(column_get("predicted_run_s")).kind == "run_s"


def test_an_energy_is_told_with_what_most_of_its_figure_rests_on(job_make, people):
    a, b = job_make(name="a"), job_make(name="b")
    used(a, here=40.0, there=2.5)
    DeviceUse.objects.filter(node_name="here").update(energy_basis="measured")
    estimate = {"energy_j": {"mid": 5.5}, "energy_basis": "modelled"}
    JobEstimate.objects.create(job=b, inspection_key="k", estimate=estimate)
    assert shown(people, "energy_basis", "predicted_energy_basis") == [("a", "measured", None), ("b", None, "modelled")]
    columns = columns_get(("energy_j", "predicted_energy_j"))
    jobs = job_list(user=people.owner, columns=with_bases(columns), sort="name").items
    cells = [(cell.value, cell.basis) for _, line, _ in columns_shown(jobs, columns)["lines"] for cell in line]
    assert cells == [(42.5, "measured"), (None, ""), (None, ""), (5.5, "modelled")]


@pytest.mark.parametrize(
    "value", ["1e5", "NaN", "null", "007", "age", 7, 0.5, True, False, None, ["a", "b"], {"c": "1"}]
)
def test_a_value_of_a_spec_is_as_it_was_written(job, people, value):
    told(job, resolved={"spec": {"data": {"target": value}}})
    ((_, found),) = shown(people, "spec:data.target", sort="spec:data.target")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("sort", "order"), [("metric:val/loss", "bac"), ("-metric:val/loss", "abc"),
                                             ("spec:training.learning_rate", "bca"), ("-energy_j", "cba"),
                                             ("-devices", "cba")])  # fmt: skip
def test_a_list_is_sorted_by_the_figures_of_a_column_and_those_without_come_last(job_make, people, sort, order):
    rates = {"a": 0.02, "b": 1e-05, "c": 0.001}
    a, b, c = (job_make(name=name, training={"learning_rate": rate}) for name, rate in rates.items())
    told(a, last_values={"val/loss": 10.0})
    told(b, last_values={"val/loss": 9.5})
    told(c, last_values={"val/loss": None})
    used(b, one=5.0)
    used(c, one=50.0, two=50.0)
    assert "".join(name for name, *_ in shown(people, sort=sort)) == order


def test_any_number_of_jobs_and_columns_takes_the_same_queries(job_make, people, django_assert_num_queries):
    first = job_make()
    with django_assert_num_queries(2):
        assert len(shown(people, *EVERY)) == 1
    rows = [{field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields} for _ in range(20)]
    Job.objects.bulk_create(Job(**{**row, "id": f"copy{number}"}) for number, row in enumerate(rows))
    with django_assert_num_queries(2):
        assert len(shown(people, *EVERY)) == 21


def test_only_the_metrics_that_are_shown_are_read(job_make, people):
    told(job_make(), last_values={f"key{number}": 1.0 for number in range(200)})
    columns = columns_get(["metric:key7"])
    job = job_list(user=people.owner, columns=columns, without=("last_values",)).items[0]
    assert "last_values" in job.get_deferred_fields() and "key8" not in str(vars(job))


@pytest.mark.parametrize("key", ["metric:", 'metric:a"b', "metric:a\\", "metric:5", "metric:-1", "metric:a\x00",
                                 "metric:" + 81 * "a", "spec:names", "spec:training", "spec:training.epochs.x",
                                 "owner__password", "resolved", ""])  # fmt: skip
def test_what_is_no_column_is_refused_before_the_database_is_asked(key, people):
    for read in (lambda: columns_get([key, "state"]), lambda: job_list(user=people.owner, sort=f"-{key}")):
        with pytest.raises(Invalid):
            read()


def test_any_field_of_the_spec_is_a_column_if_it_is_named(job_make, people):
    job_make(name="a", model={"family": "mlp"}, data={"exclude": ["colour"]})
    job_make(name="b", model={"family": "resmlp"})
    keys = ("spec:model.family", "spec:data.exclude", "spec:name")
    assert shown(people, *keys) == [("a", "mlp", ["colour"], "a"), ("b", "resmlp", [], "b")]
    assert [row[0] for row in shown(people, "model.family", sort="-model.family")] == ["b", "a"]
    for path in ("name", "task", "model.family", "model.params", "data.dataset", "budget.deadline", "data.features"):
        assert column_get(f"spec:{path}").key == f"spec:{path}" and path not in spec_fields()
        shown(people, f"spec:{path}", sort=f"spec:{path}")


def test_columns_come_once_each_in_the_order_asked_for_and_not_too_many():
    assert [column.key for column in columns_get(["owner", "state", "owner"])] == ["owner", "state"]
    assert tuple(column.key for column in columns_get([])) == DEFAULT
    with pytest.raises(Invalid):
        columns_get([f"spec:{path}" for path in spec_fields()[: COLUMNS_MAX + 1]])


def test_the_metrics_on_offer_are_those_of_jobs_that_a_person_sees(job_make, people):
    told(job_make(), last_values={"val/loss": 1.0, "5": 2.0}, running_at=timezone.now())
    assert job_metric_keys(user=people.viewer) == ["val/loss"]
    assert job_metric_keys(user=people.outsider) == []


def test_an_address_says_the_same_when_it_is_written_the_short_way(people):
    given = QueryDict("page=3&view=x&q=&column=owner&column=metric:a%26b&state=failed&sort=-energy_j&until=2026-01-02")
    short = listing_query(given)
    assert short == "state=failed&until=2026-01-02&sort=-energy_j&column=owner&column=metric%3Aa%26b"
    assert listing_read(QueryDict(short), user=people.owner) == listing_read(given, user=people.owner)
    usual = QueryDict(mutable=True)
    usual.setlist("column", list(DEFAULT))
    usual["sort"] = "-created"
    assert listing_query(usual) == ""


@pytest.mark.parametrize(
    "query", ["metric_min=nan", "metric_max=inf", "metric_min=x", "state=gone", "sort=x", "column=x"]
)
def test_an_address_that_no_list_can_show_is_refused(people, query):
    with pytest.raises(Invalid):
        listing_read(QueryDict(query), user=people.owner)


def test_a_column_is_found_by_what_people_call_it() -> None:
    for word, key in (
        *(("model", "family"), ("time", "run_s"), ("seed", "spec:training.seed"), ("val/loss", "metric:val/loss")),
        *(("training.seed", "spec:training.seed"), ("epochs", "epochs"), ("device", "device")),
    ):
        assert column_get(word).key == key
        assert key == "epochs" or job_order(f"-{word}").descending
    assert job_order("model").expression.name == "family" and job_order("best").expression.name == "metric_best"
    for wrong in ("schedule", "password", "", "val/a\\b"):
        with pytest.raises(Invalid):
            column_get(wrong)
