"""Routes: resumable uploads, tus 1.0. A file `.safetensors` becomes a weights file, any other a dataset."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router

from harness.accounts.selectors import project_chosen
from harness.api import tus
from harness.api.auth import person
from harness.api.errors import error_response
from harness.api.schemas.base import Items
from harness.api.schemas.datasets import UploadOut
from harness.datasets import services
from harness.datasets.models import Upload
from harness.datasets.safetensors_header import is_weights
from harness.datasets.uploads import upload_get, upload_list
from harness.datasets.weights import weights_finish
from harness.errors import Conflict, HarnessError, Invalid
from harness.fetches.selectors import is_fetched

router = Router()
_RESUMABLE: dict[str, Any] = {
    "name": "Tus-Resumable",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "const": tus.VERSION},
}


def _header(name: str, description: str, *, required: bool = False, example: str = "") -> dict[str, Any]:
    schema = {"type": "string", "examples": [example]} if example else {"type": "string"}
    return {"name": name, "in": "header", "required": required, "description": description, "schema": schema}


_PIECE_BODY: dict[str, Any] = {"content": {tus.CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
_CHECKSUM = _header("Upload-Checksum", "Algorithm and base64 digest of this piece.", example="sha256 LPJNul+wow4=")
_CREATE_EXTRA = {
    "parameters": [
        _RESUMABLE,
        _header("Upload-Length", "Bytes of the whole file.", required=True, example="25165824"),
        _header(
            "Upload-Metadata",
            "Keys `filename` (required), `project` (slug; without it `default_project` of `/me`, refused where "
            "there is none), `name`, `options` (JSON), each with a base64 value.",
            required=True,
            example="filename aXJpcy5jc3Y=,project dmlzaW9u",
        ),
        _CHECKSUM,
    ],
    "requestBody": {**_PIECE_BODY, "required": False},
}
_PATCH_EXTRA = {
    "parameters": [_RESUMABLE, _header("Upload-Offset", "Where the piece begins.", required=True), _CHECKSUM],
    "requestBody": {**_PIECE_BODY, "required": True},
}
_PLAIN_EXTRA = {"parameters": [_RESUMABLE]}


def _told(error: HarnessError) -> HttpResponse:
    response = error_response(error)
    response["Tus-Resumable"] = tus.VERSION
    if isinstance(error, tus.WrongVersion):
        response["Tus-Version"] = tus.VERSION
    if isinstance(error, Conflict) and error.code == "locked":
        response.status_code = 423
    return response


def _append(request: HttpRequest, upload: Upload, offset: int) -> None:
    tus.content_type_check(request)
    is_checked = "Upload-Checksum" in request.headers
    services.upload_append(upload=upload, offset=offset, chunk=tus.pieces(request), whole=is_checked)


def _finish_if_whole(upload: Upload) -> None:
    if upload.offset_bytes != upload.size_bytes:
        return
    if is_weights(upload.filename):
        weights_finish(upload=upload)
    elif upload.dataset_id is None:
        services.upload_finish(upload=upload, name=upload.name, options=upload.options)


@router.api_operation(["OPTIONS"], "", response={204: None}, summary="What uploads can do", url_name="upload_options")
def upload_options(request: HttpRequest) -> HttpResponse:
    """Version, extensions, largest size, checksum algorithms."""
    return tus.capabilities()


@router.get("", response=Items[UploadOut], summary="Unfinished uploads")
def uploads(request: HttpRequest) -> dict[str, Any]:
    """One's own, newest first. One person may have a limited number of them (429 `too_many`)."""
    return {"items": [_out(row) for row in upload_list(user=person(request)).filter(fetch=None)]}


def _sent(request: HttpRequest, upload_id: str) -> Upload:
    """An upload whose bytes the caller sends. Raises `NotFound`, `Conflict` for one that control fetches."""
    upload = upload_get(user=person(request), upload_id=upload_id)
    if is_fetched(upload):
        raise Conflict("Control fetches this one from a web address.", hint="See /fetches.")
    return upload


def _out(upload: Upload) -> dict[str, Any]:
    names = ("filename", "offset_bytes", "size_bytes")
    expires_at = upload.updated_at + timedelta(days=settings.UPLOAD_EXPIRES_DAYS)
    told = {name: getattr(upload, name) for name in names}
    return {"id": upload.pk, "project": upload.project.slug, "expires_at": expires_at, **told}


@router.post("", response={201: None}, summary="Begin an upload", openapi_extra=_CREATE_EXTRA)
def upload_create(request: HttpRequest) -> HttpResponse:
    """Answers `Location`, where the pieces go. A body is taken as the first piece."""
    try:
        tus.version_check(request)
        user = person(request)
        size_bytes = tus.number_header(request, "Upload-Length")
        named = tus.metadata(request)
        if not named.get("filename"):
            raise Invalid("Upload-Metadata names no filename.", field="filename", hint="See the tus protocol.")
        upload = services.upload_create(
            user=user,
            project=project_chosen(user=user, slug=named.get("project", "")),
            filename=named["filename"],
            size_bytes=size_bytes,
            name=named.get("name", ""),
            options=tus.options_read(named.get("options", "")),
        )
        if request.content_type == tus.CONTENT_TYPE:
            _append(request, upload, 0)
            _finish_if_whole(upload)
    except HarnessError as error:
        return _told(error)
    response = tus.answer(201, upload)
    response["Location"] = f"{request.path.rstrip('/')}/{upload.pk}"
    return response


@router.api_operation(
    ["HEAD"], "/{upload_id}", response={200: None}, summary="Where an upload stands", openapi_extra=_PLAIN_EXTRA
)
def upload_head(request: HttpRequest, upload_id: str) -> HttpResponse:
    """Answers `Upload-Offset` and `Upload-Length`; `Dataset-Id` or `Weights-Id` once all bytes have arrived."""
    try:
        tus.version_check(request)
        upload = _sent(request, upload_id)
        # The last PATCH may have been cut after its bytes arrived: asking again must end it.
        _finish_if_whole(upload)
    except HarnessError as error:
        return _told(error)
    response = tus.answer(200, upload)
    response["Upload-Length"] = str(upload.size_bytes)
    response["Upload-Metadata"] = f"filename {base64.b64encode(upload.filename.encode()).decode()}"
    return response


@router.patch("/{upload_id}", response={204: None}, summary="Send a piece", openapi_extra=_PATCH_EXTRA)
def upload_patch(request: HttpRequest, upload_id: str) -> HttpResponse:
    """Append at `Upload-Offset`. Answers the new offset, and `Dataset-Id` or `Weights-Id` after the last byte.

    409 wrong offset, 413 too large, 423 another request writes, 460 wrong checksum, 507 disk full.
    """
    try:
        tus.version_check(request)
        upload = _sent(request, upload_id)
        _append(request, upload, tus.number_header(request, "Upload-Offset"))
        _finish_if_whole(upload)
    except HarnessError as error:
        return _told(error)
    return tus.answer(204, upload)


@router.delete("/{upload_id}", response={204: None}, summary="Give an upload up", openapi_extra=_PLAIN_EXTRA)
def upload_delete(request: HttpRequest, upload_id: str) -> HttpResponse:
    """Forget what has arrived. What a finished upload has become stays."""
    try:
        tus.version_check(request)
        services.upload_delete(upload=upload_get(user=person(request), upload_id=upload_id))
    except HarnessError as error:
        return _told(error)
    return tus.answer(204)
