"""A threshold for a class goes with a prediction to the node, where the program takes one."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings

from harness.errors import Invalid
from harness.jobs import services
from harness.jobs.models import Checkpoint, Prediction

pytestmark = pytest.mark.django_db


def test_a_threshold_is_passed_on_to_the_node(
    job: Any, people: Any, node_make: Any, tasks_sent: list[Any], django_capture_on_commit_callbacks: Any
) -> None:
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    for threshold in ("-1=0.3", ""):
        with django_capture_on_commit_callbacks(execute=True):
            services.prediction_create(
                user=people.mate,
                job=job,
                input_name="a.csv",
                data=b"a\n1\n",
                checkpoint="step-00000010",
                threshold=threshold,
            )
    first, second = (args[0] for name, args, _ in tasks_sent if name == "node.predict")
    assert first["threshold"] == "-1=0.3" and "threshold" not in second


def test_a_program_that_takes_none_is_not_asked_with_one(job: Any, people: Any, node_make: Any) -> None:
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    (settings.STORE.job(job.pk).program / "predict.py").write_text("print('of before')\n")
    with pytest.raises(Invalid, match="takes no threshold") as refused:
        services.prediction_create(
            user=people.mate,
            job=job,
            input_name="a.csv",
            data=b"a\n1\n",
            checkpoint="step-00000010",
            threshold="iris=0.3",
        )
    assert refused.value.field == "threshold" and not Prediction.objects.exists()


@pytest.mark.parametrize(
    ("threshold", "told"),
    [
        ("iris", "'iris' is not a class and a probability. Write CLASS=P with P from 0 to 1 and one of"),
        ("iris=1.5", "'iris=1.5' is not a class and a probability"),
        ("iris=nan", "'iris=nan' is not a class and a probability"),
        ("=0.3", "'=0.3' is not a class and a probability"),
        ("rose=0.3", "'rose' is no class of this model. Its classes are iris, a=b."),
    ],
)
def test_what_is_no_class_and_probability_is_refused_before_a_node_is_asked(
    job: Any, people: Any, node_make: Any, threshold: str, told: str
) -> None:
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True, exist_ok=True)
    (results / "results.json").write_text('{"classes": ["iris", "a=b"]}')
    asked = {"user": people.mate, "job": job, "input_name": "a.csv", "data": b"a\n1\n", "checkpoint": "step-00000010"}
    with pytest.raises(Invalid) as refused:
        services.prediction_create(**asked, threshold=threshold)
    assert told in f"{refused.value} {refused.value.hint}" and refused.value.field == "threshold"
    assert not Prediction.objects.exists()
    services.prediction_create(**asked, threshold="a=b=0.3")
    assert Prediction.objects.count() == 1


@pytest.mark.parametrize("body", ["", "[]", '{"classes": "iris"}', '{"classes": [1]}'])
def test_what_cannot_be_read_of_the_classes_leaves_them_to_the_program(
    job: Any, people: Any, node_make: Any, body: str
) -> None:
    node_make()
    Checkpoint.objects.create(job=job, name="step-00000010", step=10, epoch=1)
    results = settings.STORE.job(job.pk).results
    results.mkdir(parents=True, exist_ok=True)
    (results / "results.json").write_text(body)
    asked = {"user": people.mate, "job": job, "input_name": "a.csv", "data": b"a\n1\n", "checkpoint": "step-00000010"}
    services.prediction_create(**asked, threshold="rose=0.3")
    assert Prediction.objects.count() == 1
