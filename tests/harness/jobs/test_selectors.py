from __future__ import annotations

import pytest
from django.conf import settings

from harness.errors import Invalid
from harness.jobs import logs, selectors
from harness.jobs.logs import LogPart
from harness.jobs.models import Job, MetricPoint, ResourceSample
from harness.jobs.selectors import JobFilters
from harness.jobs.series import reduce_rows

pytestmark = pytest.mark.django_db


def points_make(job, key, values):
    MetricPoint.objects.bulk_create(
        MetricPoint(job=job, key=key, step=step, epoch=step / 10, value=value, time_s=100.0 + step)
        for step, value in enumerate(values)
    )


def test_a_list_takes_the_same_queries_for_one_job_and_for_many(job_make, people, django_assert_num_queries):
    def shown():
        page = selectors.job_list(user=people.viewer, page_size=50)
        return [(job.name, job.owner.username, job.dataset.name, job.project.slug) for job in page.items]

    first = job_make()
    with django_assert_num_queries(2):
        assert len(shown()) == 1
    rows = [{field.attname: getattr(first, field.attname) for field in Job._meta.concrete_fields} for _ in range(20)]
    Job.objects.bulk_create(Job(**{**row, "id": f"copy{number}"}) for number, row in enumerate(rows))
    with django_assert_num_queries(2):
        assert len(shown()) == 21


def test_a_list_is_filtered_sorted_and_paged_by_the_server(job_make, people):
    a, b, c = (job_make(name=name) for name in ("a", "b", "c"))
    Job.objects.filter(pk=a.pk).update(metric_best=0.5, state="succeeded", tags=["k:v"])
    Job.objects.filter(pk=b.pk).update(metric_best=0.9, state="failed")

    def names(sort="name", page=1, page_size=50, **filters):
        found = selectors.job_list(
            user=people.owner, filters=JobFilters(**filters), sort=sort, page=page, page_size=page_size
        )
        return "".join(job.name for job in found.items)

    assert names() == "abc" and names(sort="-name") == "cba"
    assert names(sort="-metric") == "bac" and names(sort="metric") == "abc"
    assert names(page=2, page_size=2) == "c"
    assert names(states=("failed", "draft")) == "bc"
    assert names(metric_min=0.6) == "b" and names(tag="k:v") == "a" and names(query="flow") == "abc"
    assert names(owner="mate") == "" and names(dataset=c.dataset_id) == "abc" and names(task="none") == ""
    assert names(deleted=True) == ""
    assert names(before=b.created_at) == "a" and names(since=b.created_at) == "bc"


@pytest.mark.parametrize("tag", ["näher", "größe:12", "日本", 'the "best"', "100%_\\"])
def test_a_list_is_filtered_by_any_tag_that_a_job_may_have(tag, job_make, people):
    job, other = job_make(), job_make()
    Job.objects.filter(pk=job.pk).update(tags=["old", tag])
    Job.objects.filter(pk=other.pk).update(tags=[f"{tag}2", tag[:-1]])
    page = selectors.job_list(user=people.owner, filters=JobFilters(tag=tag))
    assert [found.pk for found in page.items] == [job.pk]


@pytest.mark.parametrize("sort", ["owner__password", "-project__members__password", "", "?", "created; drop"])
def test_a_list_is_sorted_by_known_names_only(sort, people):
    with pytest.raises(Invalid):
        selectors.job_list(user=people.owner, sort=sort)


def test_a_page_that_makes_no_sense_is_refused(people):
    for page, page_size in ((0, 10), (1, 0), (1, 100_000)):
        with pytest.raises(Invalid):
            selectors.job_list(user=people.owner, page=page, page_size=page_size)
    with pytest.raises(Invalid):
        selectors.job_list(user=people.owner, filters=JobFilters(states=("nonsense",)))


def test_a_long_curve_is_cut_but_keeps_its_ends_spikes_and_gaps():
    values = [1.0] * 10_000
    values[3333], values[7777], values[5000] = 99.0, -99.0, None
    kept = reduce_rows(enumerate(values), len(values), 300)
    assert len(kept) <= 300
    assert kept[0] == (0, 1.0) and kept[-1] == (9999, 1.0)
    assert {(3333, 99.0), (7777, -99.0), (5000, None)} <= set(kept)
    assert kept == sorted(kept, key=lambda pair: pair[0])


def test_a_long_band_keeps_the_spikes_of_its_ends():
    rows = [(step, 1.0, 3.0, 2.0) for step in range(10_000)]
    rows[3333], rows[7777] = (3333, -99.0, 3.0, 2.0), (7777, 1.0, 99.0, 2.0)
    kept = reduce_rows(iter(rows), len(rows), 300, values=3)
    assert len(kept) <= 300 and {rows[3333], rows[7777]} <= set(kept)


def test_a_short_curve_is_exact_on_every_axis(job):
    points_make(job, "train/loss", [3.0, None, 1.0])
    points_make(job, "val/loss", [4.0])
    assert selectors.job_series_keys(job) == ["train/loss", "val/loss"]
    curve = selectors.job_series(job=job, keys=["train/loss"])["train/loss"]
    assert curve == {"x": [0, 1, 2], "y": [3.0, None, 1.0], "total": 3, "reduced": False}
    assert selectors.job_series(job=job, x="relative")["train/loss"]["x"] == [0.0, 1.0, 2.0]
    assert selectors.job_series(job=job, x="time", start=1)["train/loss"]["x"] == [101.0, 102.0]
    with pytest.raises(Invalid):
        selectors.job_series(job=job, x="nonsense")


def test_the_csv_of_curves_has_every_point_exactly(job):
    points_make(job, "a", [0.1, None])
    text = b"".join(selectors.job_series_csv(job=job)).decode()
    assert text.splitlines() == ["key,step,epoch,time_s,value", "a,0,0.0,100.0,0.1", "a,1,0.1,101.0,"]


def test_samples_are_thinned_evenly(job):
    ResourceSample.objects.bulk_create(
        ResourceSample(job=job, token=1, time_s=second, data={"ranks": []}) for second in range(1000)
    )
    shown = selectors.job_samples(job=job, points=11)
    assert [round(sample["time_s"]) for sample in shown][::5] == [0, 499, 999]


@pytest.fixture
def logged(job):
    folder = settings.STORE.job(job.pk).logs / "attempt-2"
    folder.mkdir(parents=True)
    lines = [f"line {number}" for number in range(1, 41)]
    lines[9] = "UserWarning: odd"
    lines[19] = "\x1b[31mRuntimeError: bad\x1b[0m"
    lines[29] = "10%\r50%\r100% done"
    (folder / "rank-0.log").write_text("\n".join(lines) + "\n")
    (folder / "rank-1.log").write_text("other <b>rank</b>\n")
    (folder / "rank-2.log").symlink_to("/etc/passwd")
    (folder.parent / "attempt-1").mkdir()
    (folder.parent / "attempt-1" / "rank-0.log").write_text("first try\n")
    return job


def lines_of(answer):
    return [(line["rank"], line["line"], line["text"]) for line in answer["lines"]]


def test_logs_are_those_of_the_newest_attempt_unless_asked(logged):
    answer = selectors.job_logs(job=logged, rank=1)
    assert lines_of(answer) == [(1, 1, "other <b>rank</b>")]
    assert (answer["tokens"], answer["ranks"], answer["token"]) == ([1, 2], [0, 1], 2)
    assert lines_of(selectors.job_logs(job=logged, token=1)) == [(0, 1, "first try")]


def test_logs_are_searched_over_all_lines_and_numbered(logged):
    assert lines_of(selectors.job_logs(job=logged, query="LINE 37")) == [(0, 37, "line 37")]
    assert [line["line"] for line in selectors.job_logs(job=logged, level="warning")["lines"]] == [10, 20]
    assert lines_of(selectors.job_logs(job=logged, level="error")) == [(0, 20, "RuntimeError: bad")]
    assert lines_of(selectors.job_logs(job=logged, query="done")) == [(0, 30, "100% done")]


def test_a_search_that_takes_too_long_says_where_it_stopped_and_goes_on_from_there(logged, monkeypatch):
    rank_log = settings.STORE.job(logged.pk).logs / "attempt-2" / "rank-0.log"
    rank_log.write_text("".join(f"line {number}\n" for number in range(1, 3501)))
    monkeypatch.setattr(logs, "_SEARCH_LIMIT_S", -1.0)
    first = selectors.job_logs(job=logged, query="line 3333")
    assert not first["lines"] and first["more"] and (first["stopped_rank"], first["stopped_line"]) == (0, 1000)
    last = selectors.job_logs(job=logged, query="line 3333", rank=0, part=LogPart(after_line=3000))
    assert lines_of(last) == [(0, 3333, "line 3333")]
    assert not last["more"] and last["stopped_rank"] is last["stopped_line"] is None


@pytest.mark.parametrize("limit", [1, 2])
def test_no_match_is_lost_on_the_line_where_the_time_of_a_search_is_up(logged, monkeypatch, limit):
    rank_log = settings.STORE.job(logged.pk).logs / "attempt-2" / "rank-0.log"
    rank_log.write_text("".join(f"{'hit' if number in (1, 1000, 2500) else 'miss'}\n" for number in range(1, 3501)))
    monkeypatch.setattr(logs, "_SEARCH_LIMIT_S", -1.0)
    found, more, place = [], True, 0
    while more:
        answer = selectors.job_logs(job=logged, query="hit", rank=0, part=LogPart(limit=limit, after_line=place))
        found += [line["line"] for line in answer["lines"]]
        more, place = answer["more"], answer["stopped_line"] or (found[-1] if answer["lines"] else place)
    assert found == [1, 1000, 2500]


def test_logs_come_in_parts_from_the_start_or_the_end(logged):
    first = selectors.job_logs(job=logged, rank=0, part=LogPart(limit=3))
    assert [line["line"] for line in first["lines"]] == [1, 2, 3] and first["more"]
    then = selectors.job_logs(job=logged, rank=0, part=LogPart(limit=3, after_line=3))
    assert [line["line"] for line in then["lines"]] == [4, 5, 6]
    last = selectors.job_logs(job=logged, rank=0, part=LogPart(limit=2, tail=True))
    assert [line["line"] for line in last["lines"]] == [39, 40]


def test_logs_before_and_after_a_place_run_on_over_the_ranks(logged):
    earlier = selectors.job_logs(job=logged, part=LogPart(limit=3, tail=True, before=(1, 1)))
    assert [(line["rank"], line["line"]) for line in earlier["lines"]] == [(0, 38), (0, 39), (0, 40)]
    assert earlier["more"]
    first = selectors.job_logs(job=logged, part=LogPart(limit=3, tail=True, before=(0, 3)))
    assert [line["line"] for line in first["lines"]] == [1, 2] and not first["more"]
    later = selectors.job_logs(job=logged, part=LogPart(after=(0, 39)))
    assert [(line["rank"], line["line"]) for line in later["lines"]] == [(0, 40), (1, 1)]
    searched = selectors.job_logs(job=logged, query="line 3", part=LogPart(limit=1, tail=True, before=(0, 39)))
    assert [line["line"] for line in searched["lines"]] == [38] and searched["more"]


def test_logs_are_downloaded_whole_and_without_escapes(logged):
    text = b"".join(selectors.job_logs_text(job=logged, token=0)).decode()
    assert "first try" in text and "RuntimeError: bad" in text and "\x1b" not in text and "root:" not in text


def test_what_a_node_sent_as_it_is_gives_no_orders_to_a_terminal(logged):
    file = settings.STORE.job(logged.pk).logs / "attempt-2" / "rank-1.log"
    file.write_text("a\x9b2Jb\x1b[31m\x1bP1$r\x1b\\c\x85d\te\x07\r\n")
    assert selectors.job_logs(job=logged, rank=1)["lines"][0]["text"] == "a2Jbcd\te"
    assert b"a2Jbcd\te\n" in b"".join(selectors.job_logs_text(job=logged, rank=1))


def test_a_job_without_logs_has_none(job):
    assert selectors.job_logs(job=job)["lines"] == []
    assert list(selectors.job_logs_text(job=job)) == []
