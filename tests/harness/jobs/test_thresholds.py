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
