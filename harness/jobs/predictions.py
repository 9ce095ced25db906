"""Requests that a node answers: predictions with a job's weights, and trial runs of a draft's program."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from codegen.spec import Task
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.broker import publish_job, task_send_on_commit
from harness.bucket.wanted import wanted_check
from harness.datasets.content import space_check
from harness.errors import Conflict, Invalid, TooMany, Unavailable
from harness.ids import new_id
from harness.jobs import programs
from harness.jobs.answer_models import AWAITED, NO_ANSWER
from harness.jobs.check_queue import check_asked, check_ended
from harness.jobs.inputs import input_check, input_suffix, problem_named
from harness.jobs.models import Checkpoint, Job, JobEvent, Prediction
from harness.jobs.pace import trial_count
from harness.jobs.program_checks import program_syntax_check
from harness.jobs.sizes import job_size_due
from harness.jobs.start_weights import node_tries, only_older_nodes
from harness.jobs.states import job_note
from harness.jobs.thresholds import threshold_check
from harness.plain import plain
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue, pool_setting_get
from harness.storage.room import storage_check
from harness.store import FileTooLarge, UnsafePath, json_beneath, open_beneath
from scheduler.placing.obstacles import HOW_TO_JOIN
from worker.plan import RunPaths
from worker.states import TERMINAL, JobState
from worker.trees import tree_remove

WEIGHTS_FILE, RESULTS_FILE = "work/results/model.safetensors", "work/results/results.json"
FROM_END = "end of the data"
"""Stands for the name of an input where a forecast goes on from the data themselves."""
_OUTPUT_BYTES_MAX, _OUTPUT_VALUES_MAX = 32 << 20, 2_000_000
"""All of them are read each time that somebody looks at a part: of 10 classes 120,000 rows fit, of a number 400,000."""
ANSWER_LIMIT_S = 300.0
"""A request without an answer for this long has failed, unless one still comes."""


def prediction_create(
    *, user: User, job: Job, input_name: str, data: bytes, checkpoint: str = "", threshold: str = ""
) -> Prediction:
    """Have a node predict for the rows or pictures in `data`, with the final weights or those of a checkpoint.

    `FROM_END` as the name, without data: a forecast goes on from the end of the job's data.
    `threshold`: `CLASS=P`, from which probability on what is of a class is called by it.

    Raises `NotFound`, `Forbidden`, `Invalid`, `TooLarge`, `TooMany`, `NoSpace`, `Conflict` (no weights yet),
    `Unavailable` (no node; or what it needs was lost, and comes back).
    """
    require(user, job.project, Role.MEMBER)
    from_end = input_name == FROM_END and not data
    if from_end:
        _forecast_check(job)
    else:
        input_check(job, input_name, data)
    space_check(len(data))
    storage_check(job.project, len(data))
    _waiting_check(user)
    weights_check(job, checkpoint)
    if threshold:
        threshold_check(threshold, _classes(job), taken=takes_threshold(job))
    wanted_check(f"datasets/{job.dataset_sha256 or job.dataset.sha256}", "packed")
    node = answering_node(job, sees_store=True)
    prediction = Prediction(id=new_id(), job=job, owner=user, checkpoint=checkpoint, input_name=input_name[:255])
    folder = _paths(job).prediction(prediction.pk)
    with ExitStack() as undo:
        undo.callback(tree_remove, folder)  # without its row nobody would find it
        folder.mkdir(parents=True)
        if not from_end:
            (folder / f"input.{input_suffix(input_name)}").write_bytes(data)
        prediction.save(force_insert=True)
        undo.pop_all()
    request = {"prediction_id": prediction.pk, "checkpoint": checkpoint, **node_request(job)}
    request |= {"threshold": threshold} if threshold else {}
    request |= {"from_end": True} if from_end else {}
    task_send_on_commit("node.predict", [request], queue=node_queue(node), expires_s=ANSWER_LIMIT_S)
    return prediction


def _forecast_check(job: Job) -> None:
    """Raise `Invalid` where only rows or pictures can be predicted for."""
    if job.task != Task.FORECAST:
        hint = "Give the rows or pictures to predict for."
        raise Invalid("This job is no forecast, which alone goes on from its data.", field="input", hint=hint)


def takes_threshold(job: Job) -> bool:
    """Whether the job's program can call rows by a class from a probability on: not of numbers, nor an older one."""
    return "--threshold" in programs.files_read(_paths(job).program).get("predict.py", "")


def _classes(job: Job) -> list[str]:
    """By the results of the run; none before it has some, or where they cannot be read."""
    try:
        results = json_beneath(_paths(job).root, RESULTS_FILE)
    except (OSError, UnsafePath):
        return []
    found = results.get("classes") if isinstance(results, dict) else None
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _waiting_check(user: User) -> None:
    """Raise `TooMany` where a person has many predictions waiting: they are made one after the other, on the queue by
    which runs are started and stopped."""
    if Prediction.objects.filter(owner=user, state="waiting").count() >= settings.PREDICTIONS_WAITING_MAX:
        raise TooMany(
            f"{settings.PREDICTIONS_WAITING_MAX} of your predictions wait for an answer.",
            hint="Wait for some of them; many rows or pictures in one file are one prediction.",
        )


def _paths(job: Job) -> RunPaths:
    paths: RunPaths = settings.STORE.job(job.pk)
    return paths


def node_request(job: Job) -> dict[str, Any]:
    """What a node must know to run a job's program beside training."""
    return {
        "job_id": job.pk,
        "job_dir": str(_paths(job).root),
        "dataset_dir": str(settings.STORE.dataset(job.dataset_sha256 or job.dataset.sha256).packed),
        "own_code": job.own_code,
        "minimum_sandbox_level": pool_setting_get().minimum_sandbox_level(own_code=job.own_code),
    }


def weights_check(job: Job, checkpoint: str) -> None:
    """Raise where the weights of a checkpoint, or without a name the final ones, are not there: `Invalid`, `Conflict`,
    `Unavailable` (lost, and comes back)."""
    if checkpoint:
        if not Checkpoint.objects.filter(job=job, name=checkpoint, removed_at=None).exists():
            hint = "The job's page and dlh show list them; without one the final weights are used."
            raise Invalid(f"There is no checkpoint {checkpoint}.", field="checkpoint", hint=hint)
        wanted_check(f"jobs/{job.pk}", f"work/checkpoints/{checkpoint}")
        return
    try:
        open_beneath(_paths(job).root, WEIGHTS_FILE).close()
    except (FileNotFoundError, UnsafePath) as error:
        wanted_check(f"jobs/{job.pk}", WEIGHTS_FILE)
        message, hint = no_final_weights(job)
        raise Conflict(message, hint=hint) from error


def no_final_weights(job: Job) -> tuple[str, str]:
    """(why there are none, what to do instead)."""
    if job.state == JobState.DRAFT:
        return "This job has no final weights yet.", "It is a draft: submit it. Wait until it ends."
    if job.state not in TERMINAL:
        return "This job has no final weights yet.", "Wait until it ends, or name one of its checkpoints."
    kept = Checkpoint.objects.filter(job=job, removed_at=None).order_by("-step").values_list("name", flat=True)
    hint = f"Name one of its checkpoints: {', '.join(kept)}." if kept else "It has no checkpoint: submit a clone of it."
    return f"This job ended ({job.state}) without final weights.", hint


def answering_node(job: Job, *, sees_store: bool = False, trains: bool = False) -> str:
    """The node the job ran on, else the one with most idle devices.

    `sees_store`: not one with a cache of its own, which fetches programs and data but neither inputs nor weights.
    `trains`: one that makes steps as a run does, from the weights that the job starts from.
    """
    nodes = list(Node.objects.filter(state__in=[NodeState.UP, NodeState.DRAIN]).prefetch_related("devices__allocation"))
    if nodes and sees_store and not (nodes := [node for node in nodes if "cache" not in node.description]):
        raise Unavailable(
            "No node that sees the store's folder is up.",
            hint="Predictions are made on such a node; an admin starts one, the portal's own machine will do.",
        )
    if nodes and trains and not (nodes := [node for node in nodes if node_tries(node, job)]):
        raise only_older_nodes()
    if not nodes:
        raise Unavailable("No node is up.", hint=f"An admin starts a node's agent; see the pool page. {HOW_TO_JOIN}")
    attempt = job.attempts.order_by("-number").first()
    before = attempt.run_plan.nodes if attempt else ()

    def idle(node: Node) -> int:
        return sum(not hasattr(device, "allocation") for device in node.devices.all())

    return max(nodes, key=lambda node: (node.name in before, node.state == NodeState.UP, idle(node), node.name)).name


def prediction_done(report: dict[str, Any]) -> None:
    """Take in a node's answer: `{prediction_id, problem?}`; the output lies in the prediction's folder."""
    prediction = Prediction.objects.select_related("job").filter(pk=str(report.get("prediction_id", ""))).first()
    if prediction is None:
        return
    problem = problem_named(plain(report.get("problem")) or None, prediction.input_name)
    rows = None
    if problem is None:
        try:
            rows = len(prediction_output(prediction)["rows"])
        except FileTooLarge as error:
            hint = "Predict for fewer rows or pictures at once."
            problem = {"message": f"There is more output than can be shown: {error}.", "hint": hint}
        except (FileNotFoundError, UnsafePath, ValueError, KeyError, TypeError):
            problem = {"message": "The program wrote no readable output.", "hint": "See what predict.py writes."}
        except OSError as error:
            hint = "Predict again; if it lasts, tell an admin, who looks at the store's disk."
            problem = {"message": f"The output could not be read: {error.strerror}.", "hint": hint}
    _prediction_end(prediction, rows=rows, problem=problem)


def _prediction_end(prediction: Prediction, *, rows: int | None, problem: dict[str, Any] | None) -> None:
    with transaction.atomic():
        ended = Prediction.objects.filter(AWAITED, pk=prediction.pk).update(
            state="failed" if problem else "done", rows=rows, problem=problem, finished_at=timezone.now()
        )
        if ended:
            job_size_due(prediction.job_id)
            data = {"prediction_id": prediction.pk, "state": "failed" if problem else "done", "rows": rows}
            publish_job(prediction.job.project_id, prediction.job_id, "prediction", data)


def predictions_expire() -> int:
    """Fail requests that no node answered yet. Returns how many."""
    limit = timezone.now() - timedelta(seconds=ANSWER_LIMIT_S)
    late = list(Prediction.objects.select_related("job").filter(state="waiting", created_at__lt=limit))
    for prediction in late:
        _prediction_end(prediction, rows=None, problem=NO_ANSWER)
    return len(late)


def prediction_output(prediction: Prediction) -> dict[str, Any]:
    """`{columns, rows}`. Raises `FileNotFoundError`, `UnsafePath` (`FileTooLarge`), `ValueError`."""
    folder = _paths(prediction.job).prediction(prediction.pk)
    body = json_beneath(folder, "output.json", _OUTPUT_BYTES_MAX, _OUTPUT_VALUES_MAX)
    if not isinstance(body, dict) or not all(isinstance(body.get(key), list) for key in ("columns", "rows")):
        raise ValueError("output.json is not {columns, rows}")
    if not all(isinstance(row, list) for row in body["rows"]):
        raise ValueError("a row of output.json is not a list")
    return body


def program_check(*, user: User, job: Job) -> str:
    """Have a node try the program: compile, import, build, first steps on real rows. Returns the id of the answer.

    The answer becomes a `program` event of the job and a live word. Raises `NotFound`, `Forbidden`, `Invalid`,
    `Unavailable`, `Conflict` (only nodes that would try it with other weights).
    """
    require(user, job.project, Role.MEMBER)
    trial_count(user)
    program = programs.program_of(_paths(job))
    program_syntax_check(program.files)
    check_id = f"{job.pk}-{new_id()}"
    request = {"check_id": check_id, **node_request(job), "weights_dir": job.weights_dir}
    node = answering_node(job, trains=True)
    check_asked(check_id, node, program.sha256)
    task_send_on_commit("node.check", [request], queue=node_queue(node), expires_s=ANSWER_LIMIT_S)
    return check_id


def check_done(report: dict[str, Any]) -> None:
    """Take in a node's answer to `program_check`; an answer that comes twice counts once."""
    check_id = str(report.get("check_id", ""))
    asked = check_ended(check_id)
    job = Job.objects.filter(pk=check_id.partition("-")[0]).first()
    if job is None or JobEvent.objects.filter(job=job, kind="program", data__check_id=check_id).exists():
        return
    try:
        report = plain(report)
    except ValueError as error:
        report = {"check_id": check_id, "problem": {"message": f"The answer cannot be read: {error}.", "hint": ""}}
    problem = report.get("problem") if isinstance(report.get("problem"), dict) else None
    message = "The program runs." if report.get("ok") else str((problem or {}).get("message", "The program fails."))
    keep = ("check_id", "ok", "problem", "parameters", "output_shape")
    notes = report.get("notes") if isinstance(report.get("notes"), list) else []
    told = {key: report.get(key) for key in keep} | {"notes": [str(note) for note in notes or ()]}
    told["program_sha256"] = asked.program_sha256 if asked else ""
    job_note(job, "program", message, data=told)
