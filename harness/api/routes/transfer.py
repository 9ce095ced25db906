"""Routes: a node that does not see the store's folder fetches what a run needs and gives back what it made."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from ninja import Router

from harness.api.auth import NodeSecret
from harness.api.document import media
from harness.api.routes.nodes import node_of
from harness.api.schemas.base import Done
from harness.api.schemas.transfer import (
    AwaitedJobsOut,
    CheckpointsOut,
    CheckpointTreeOut,
    CommitIn,
    HeldRunsIn,
    OffsetOut,
    TreeOut,
    UploadsIn,
    UploadsOut,
)
from harness.errors import Invalid
from harness.jobs.control.saved import checkpoints_damaged, course_begin
from harness.responses import file_response
from harness.transfer import awaited, lending, returns, trees
from worker.transfer.tree import Tree

router = Router(auth=NodeSecret())


def _tree(body: list[dict[str, object]]) -> Tree:
    try:
        return Tree.from_list(body)
    except ValueError as error:
        raise Invalid(f"These are not the files of a run: {error}.", field="files") from error


def _rows(tree: Tree) -> list[dict[str, object]]:
    """Its files, with addresses in the object store where it has them."""
    addresses = lending.addresses_get(tree)
    return [{**row, "url": addresses.get(row["name"], "")} for row in tree.to_list()]


@router.get("/trees", response=TreeOut, exclude_defaults=True, summary="Files of a program, dataset or checkpoint")
def tree(request: HttpRequest, folder: str) -> TreeOut:
    """Names, sizes and SHA-256, by which a node finds them in its cache. For joined nodes; checkpoints only while their
    job waits, and for nodes that could run it."""
    return TreeOut.model_validate({"files": _rows(trees.tree_get(folder, node_of(request)))})


@router.get("/files", summary="Bytes of a program, dataset or checkpoint", openapi_extra=media(ranges=True))
def file(request: HttpRequest, folder: str, name: str) -> HttpResponseBase:
    """One file of the folder; honours `Range`. For joined nodes."""
    return file_response(request, trees.file_open(folder, name, node_of(request)), filename=name)


@router.get(
    "/runs/{job_id}/{token}/checkpoints",
    response=CheckpointsOut,
    exclude_defaults=True,
    summary="Checkpoints to continue from",
)
def checkpoints(request: HttpRequest, job_id: str, token: int) -> CheckpointsOut:
    """For the nodes of a job's newest attempt."""
    sender = returns.sender_get(node_of(request), job_id, token)
    found = returns.checkpoints_get(sender)
    rows = [CheckpointTreeOut.model_validate({"name": name, "files": _rows(made)}) for name, made in found.items()]
    job = sender.attempt.job
    return CheckpointsOut(checkpoints=rows, course_from=course_begin(job), damaged=checkpoints_damaged(job))


@router.get(
    "/runs/{job_id}/{token}/checkpoints/{checkpoint}",
    summary="Bytes of a checkpoint",
    openapi_extra=media(ranges=True),
)
def checkpoint_file(request: HttpRequest, job_id: str, token: int, checkpoint: str, name: str) -> HttpResponseBase:
    """One file of it; honours `Range`. For the nodes of a job's newest attempt."""
    sender = returns.sender_get(node_of(request), job_id, token)
    return file_response(request, returns.checkpoint_open(sender, checkpoint, name), filename=name)


@router.put("/runs/{job_id}/{token}/pieces", response=OffsetOut, summary="Return bytes of a file")
def piece(request: HttpRequest, job_id: str, token: int, kind: str, name: str, file: str, offset: int) -> OffsetOut:
    """They are kept beside the run until all are there; see *commit*. 409 `wrong_offset` tells where to go on."""
    sender = returns.sender_get(node_of(request), job_id, token)
    body = request.body
    return OffsetOut(offset=returns.piece_write(sender, kind=kind, name=name, file=file, offset=offset, body=body))


@router.post("/runs/{job_id}/{token}/uploads", response=UploadsOut, summary="Where to put large files past the portal")
def uploads(request: HttpRequest, job_id: str, token: int, body: UploadsIn) -> UploadsOut:
    """Addresses in the object store, none where there is none or it is away. What is put counts only after *commit*."""
    sender = returns.sender_get(node_of(request), job_id, token)
    made = _tree([dict(item) for item in body.files])
    found = returns.uploads_get(sender, kind=body.kind, name=body.name, tree=made)
    return UploadsOut.model_validate({"uploads": [{"name": name, "url": url} for name, url in found.items()]})


@router.post("/runs/{job_id}/{token}/commit", response=Done, summary="Put what was returned in place")
def commit(request: HttpRequest, job_id: str, token: int, body: CommitIn) -> Done:
    """In one step, after the SHA-256 of every file was checked. 409 `stale_attempt` for any but the newest attempt."""
    made = _tree([dict(item) for item in body.files])
    node = node_of(request)
    returns.tree_commit(node, job_id, token, kind=body.kind, name=body.name, tree=made, removed=body.removed)
    return Done()


@router.put("/runs/{job_id}/{token}/logs/{rank}", response=OffsetOut, summary="Append to a rank's log")
def log(request: HttpRequest, job_id: str, token: int, rank: int, offset: int) -> OffsetOut:
    """409 `wrong_offset` tells where to go on."""
    node, body = node_of(request), request.body
    return OffsetOut(offset=returns.log_append(node, job_id, token, rank=rank, offset=offset, body=body))


@router.put("/runs/{job_id}/{token}/exit", response=Done, summary="Leave the record of the end")
def exit_record(request: HttpRequest, job_id: str, token: int) -> Done:
    """Found by control if it did not hear of the end."""
    returns.exit_write(node_of(request), job_id, token, request.body)
    return Done()


@router.post("/unreturned", response=AwaitedJobsOut, summary="What could not be returned and is still awaited")
def unreturned(request: HttpRequest, body: HeldRunsIn) -> AwaitedJobsOut:
    """The rest may be removed. For the nodes of these attempts."""
    tokens = {run.job_id: run.token for run in body.runs}
    return AwaitedJobsOut(awaited=awaited.awaited_get(node_of(request), tokens))
