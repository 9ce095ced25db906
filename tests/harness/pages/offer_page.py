"""The cost tab as a person's browser asks for it, for the tests of what it shows and takes."""

from __future__ import annotations

from typing import Any

from django.test import Client
from django.urls import reverse

from harness.estimates.models import OfferRow
from harness.estimates.selectors import offer_of_job
from harness.jobs.models import Job


def cost(client: Client, job: Job) -> str:
    return client.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode()


def ask(client: Client, job: Job, **given: str) -> Any:
    return client.post(reverse("job_offer_new", args=[job.pk]), {"asked": "1", **given}, headers={"HX-Request": "true"})


def current(job: Job) -> OfferRow:
    offer = offer_of_job(job)
    assert offer is not None
    return offer
