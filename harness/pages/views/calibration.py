"""Calibration, which only admins start, and how good the estimates are: for everybody to see."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from harness.accounts.access import is_admin, require_admin
from harness.calibration import exchange, selectors
from harness.calibration.known import device_model
from harness.calibration.models import DeviceModelRow
from harness.calibration.paces_told import paces_told
from harness.csv import csv_chunks
from harness.errors import HarnessError, Invalid, TooLarge
from harness.measuring import services
from harness.measuring.ran_out import out_of_memory_count
from harness.pages.accuracy_public import public_accuracy
from harness.pages.calibration_view import accuracy_chart_of, accuracy_charts, accuracy_rows, jobs_count, run_line
from harness.pages.fit_view import model_sections, section_charts
from harness.pages.pool_forms import EVERY_MODEL, CalibrationForm
from harness.pages.web import asks_part, change, chart_csv, form_page, page, person, show
from harness.pool.models import Device, Node, NodeState
from harness.responses import chunks_response
from worker.words import counted

_CSV = "text/csv; charset=utf-8"


@page("GET", "HEAD")
def calibration(request: HttpRequest) -> HttpResponseBase:
    """Sweeps, the model of each kind of device, and how well it does; for admins with what starts and stops sweeps."""
    return _calibration(request, CalibrationForm())


def _calibration(request: HttpRequest, form: CalibrationForm, *, status: int = 200) -> HttpResponseBase:
    """`form`: what starts a sweep, as it was sent where that was refused."""
    told: dict[str, Any] = {
        "runs": [run_line(run) for run in selectors.run_list()],
        "shipped": selectors.shipped_uses(),
        "may_measure": is_admin(person(request)),
    }
    if asks_part(request):
        return show(request, "calibration/runs.html", told, nav="pool")
    models = list(selectors.model_list())
    chosen = _model(request, models)
    context: dict[str, Any] = {
        **told,
        "models": models,
        "chosen": chosen,
        "form": _with_choices(form),
        **_chosen(chosen),
        "counts": selectors.point_counts(chosen.kind, chosen.model_name) if chosen else {},
    }
    return show(request, "calibration/page.html", context, nav="pool", status=status)


def _with_choices(form: CalibrationForm) -> CalibrationForm:
    """The form with the nodes and devices that are there now."""
    form.set_nodes(Node.objects.filter(state=NodeState.UP).order_by("name").values_list("name", flat=True))
    models_there = Device.objects.filter(away_since=None, node__state=NodeState.UP).exclude(model_name="")
    form.set_models(models_there.order_by("kind", "model_name").values_list("model_name", flat=True).distinct())
    return form


def _model(request: HttpRequest, models: list[DeviceModelRow]) -> DeviceModelRow | None:
    wanted = request.GET.get("model", "")
    return next((row for row in models if str(row.pk) == wanted), models[0] if models and not wanted else None)


def _chosen(row: DeviceModelRow | None) -> dict[str, Any]:
    """The model of a kind of device as estimates use it, and how its fit does."""
    if row is None:
        return {"known": None, "sections": [], "paces": []}
    model = device_model(row.kind, row.model_name)
    paces = [one for told in paces_told().values() for one in told if (one.kind, one.model_name) == model.key]
    return {"known": model, "sections": model_sections(row, model), "paces": paces}


@form_page("calibration")
def calibration_begin(request: HttpRequest) -> HttpResponseBase:
    """Start a sweep. What is refused can be corrected."""
    user = person(request)
    require_admin(user)
    form = _with_choices(CalibrationForm(request.POST))
    # Node and model are checked by the service, which knows all of them.
    node, kind, model = (request.POST.get(name, "") for name in ("node", "kind", "model"))
    try:
        if "minutes" in form.errors:
            hint = "Ten minutes measure about 200 points on a core."
            raise Invalid("The budget is from 0.2 to 1,440 minutes.", hint=hint)
        budget_s = 60.0 * form.cleaned_data["minutes"]
        if model == EVERY_MODEL:
            services.calibrations_start(user=user, kind=kind, budget_s=budget_s)
        else:
            services.calibration_start(user=user, node=node, kind=kind, model_name=model, budget_s=budget_s)
    except HarnessError as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return _calibration(request, form, status=422)
    begins = "The calibration begins as soon as the devices are idle. They take no new jobs until it ends."
    messages.success(request, begins)
    return redirect("calibration")


@page("POST")
def calibration_end(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """Stop a sweep."""
    return change(
        request,
        lambda: services.calibration_stop(user=person(request), run_id=run_id),
        done="The calibration is stopped. What it has measured is kept.",
        to=reverse("calibration"),
    )


@page("POST")
def calibration_take_in(request: HttpRequest) -> HttpResponseBase:
    """Import points."""
    require_admin(person(request))
    told: dict[str, int] = {}

    def take() -> None:
        file = request.FILES.get("file")
        if not isinstance(file, UploadedFile) or file.size is None:
            raise Invalid("No file was sent.", field="file", hint="Choose a file that an export wrote.")
        if file.size > exchange.IMPORT_BYTES_MAX:
            raise TooLarge("The file is too large.", hint="Import it in parts.")
        try:
            text = file.read().decode()
        except UnicodeDecodeError as error:
            raise Invalid("The file is not UTF-8 text.", field="file", hint="Choose an exported file.") from error
        told.update(exchange.points_import(user=person(request), text=text))

    answer = change(request, take, done="", to=reverse("calibration"))
    if told:
        added, known = counted(told["added"], "point was", "points were"), counted(told["known"], "was", "were")
        messages.success(request, f"{added} added, {known} known already.")
    return answer


@page("GET", "HEAD")
def calibration_points(request: HttpRequest, form: str) -> HttpResponseBase:
    """All points as CSV or JSON."""
    text = exchange.points_export(form=form, kind=request.GET.get("kind", ""), model_name=request.GET.get("device", ""))
    chunks = iter([text.encode()])
    return chunks_response(request, chunks, content_type=exchange.FORMATS[form], filename=f"calibration.{form}")


@page("GET", "HEAD")
def calibration_chart(request: HttpRequest, name: str) -> HttpResponseBase:
    """Figures of one chart of the calibration page."""
    row = _model(request, list(selectors.model_list()))
    return chart_csv(request, section_charts(_chosen(row)["sections"]), name)


@require_safe
def accuracy(request: HttpRequest) -> HttpResponseBase:
    """How good the estimates of finished jobs were: for everybody, without naming a job or a project.

    Who is not signed in sees means over jobs alone, or nothing where the operator wants it so.
    """
    if settings.PUBLIC_ACCURACY and not request.user.is_authenticated:
        return render(request, "calibration/accuracy_public.html", public_accuracy())
    return _accuracy(request)


@page("GET", "HEAD")
def _accuracy(request: HttpRequest) -> HttpResponseBase:
    rows = selectors.finished_rows()
    context = {
        "jobs": jobs_count(rows),
        "newest": selectors.has_older(),
        "out_of_memory": out_of_memory_count(),
        "figures": accuracy_rows(selectors.accuracy(rows)),
        "charts": accuracy_charts(rows),
        "models": list(selectors.model_list()),
        "shipped": selectors.shipped_uses(),
    }
    return show(request, "calibration/accuracy.html", context, nav="accuracy")


@page("GET", "HEAD")
def accuracy_chart(request: HttpRequest, name: str) -> HttpResponseBase:
    """Figures of one chart of the page of accuracy; `jobs` has everything."""
    rows = selectors.finished_rows()
    if name == "jobs":
        columns, lines = selectors.finished_table(rows)
        return chunks_response(request, csv_chunks(columns, lines), content_type=_CSV, filename="estimates.csv")
    return chart_csv(request, accuracy_chart_of(rows, name), name)
