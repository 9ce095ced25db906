"""The API as Python: `Client(url, token)`; every answer is plain JSON values. Raises `ApiError`, `Unreachable`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.client.calls import Calls, params_given
from harness.client.calls import Json as Json
from harness.client.config import config_load
from harness.client.errors import ApiError, BadInput, WaitTimeout
from harness.client.transport import Progress, segment
from harness.client.upload import Upload, UploadMemory, file_sha256

ENDED = frozenset({"succeeded", "failed", "cancelled"})
"""States that a job leaves only on a person's request."""


class Client(Calls):
    """One person at one portal."""

    @staticmethod
    def from_config() -> Client:
        """By `~/.config/dlh/config.json` and the environment."""
        config = config_load()
        return Client(config.url, config.token, project=config.project)

    def me(self) -> Json:
        """Who we are, and our projects."""
        body: Json = self.get("/me")
        return body

    # --- datasets

    def datasets(self, **filters: Any) -> list[Json]:
        """All datasets we see (in `project`, if set)."""
        return list(self.items("/datasets", **{"project": self.project, **filters}))

    def dataset(self, id_or_name: str) -> Json:
        """A dataset by id, or the one of that name. Raises `ApiError` 404, `BadInput` where several have it."""
        try:
            body: Json = self.get(f"/datasets/{segment(id_or_name)}")
            return body
        except ApiError as error:
            if error.status != 404:
                raise
            found = self.items("/datasets", project=self.project, query=id_or_name)
            same = [item for item in found if item["name"] == id_or_name]
            if len(same) > 1:
                ids = ", ".join(f"{item['id']} (in {item['project']}, {item['created_at'][:16]})" for item in same)
                raise BadInput(
                    f"{len(same)} datasets are named {id_or_name}: {ids}.", hint="Use an id instead."
                ) from error
            if not same:
                told = {"message": f"There is no dataset {id_or_name!r} that you can see.", "code": error.code}
                where = f" in the project {self.project}" if self.project else ""
                raise ApiError(404, {**told, "hint": f"`dlh data list` shows those{where}."}) from error
            return same[0]

    def dataset_profile(self, dataset_id: str) -> Json:
        """What is known of a dataset that has been read."""
        body: Json = self.get(f"/datasets/{segment(dataset_id)}/profile")
        return body

    def dataset_same(self, path: Path, progress: Progress | None = None, *, options: Json | None = None) -> Json | None:
        """A dataset of ours made of exactly this file and read with these options, if there is one.

        Without options one that is read as it is comes first, then the newest that somebody has read otherwise since.
        """
        project = self.project
        if not project and len((me := self.me())["projects"]) > 1:
            project = me.get("default_project") or ""
            if not project:  # where it is to be is open, which the upload is told
                return None
        digest = file_sha256(path, progress)
        found = self.get("/datasets", project=project, bytes_sha256=digest, filename=path.name, page_size=20)
        usable = [item for item in found["items"] if item["state"] != "failed"]
        as_wished = [item for item in usable if item["options"] == (options or {})]
        return next(iter(as_wished if options else [*as_wished, *usable]), None)

    def dataset_add(
        self,
        path: Path,
        *,
        name: str = "",
        options: str = "",
        progress: Progress | None = None,
        memory: UploadMemory | None = None,
    ) -> Json:
        """Upload a file; `options` is a JSON object. Goes on with an upload that was cut. The dataset is read next."""
        metadata = {"project": self.project, "name": name, "options": options}
        dataset_id = Upload(self.transport, path, metadata, memory=memory).run(progress)
        return self.dataset(dataset_id)

    def weights_files(self, **filters: Any) -> list[Json]:
        """All weights files that we see (in `project`, if set)."""
        return list(self.items("/weights", **{"project": self.project, **filters}))

    def weights_add(
        self, path: Path, *, project: str = "", name: str = "", progress: Progress | None = None,
        memory: UploadMemory | None = None,
    ) -> Json:  # fmt: skip
        """Upload a .safetensors file, unless the project has its bytes (by that `name`, where one is given)."""
        known = self.weights_files(project=project, sha256=file_sha256(path)) if project else []
        if same := next((one for one in known if name in {"", one["name"]}), None):
            return same
        made_id = Upload(self.transport, path, {"project": project, "name": name}, memory=memory).run(progress)
        made: Json = self.get(f"/weights/{segment(made_id)}")
        return made

    def dataset_fetch(self, url: str, *, name: str = "", options: Json | None = None) -> Json:
        """Have the portal fetch a dataset from a web address; `fetch_wait` waits for its end."""
        made: Json = self.send(
            "POST", "/fetches", {"url": url, "project": self.project, "name": name, "options": options or {}}
        )
        return made

    def fetch_wait(
        self, fetch_id: str, *, timeout_s: float | None = None, progress: Callable[[Json], None] | None = None
    ) -> Json:
        """Wait until a fetch is `done` (then it names its `dataset`) or has `failed`. Raises `WaitTimeout`."""
        return self._wait(
            f"/fetches/{segment(fetch_id)}", lambda body: body["state"] in {"done", "failed"}, timeout_s, progress
        )

    def dataset_wait(
        self, dataset_id: str, *, timeout_s: float | None = None, progress: Callable[[Json], None] | None = None
    ) -> Json:
        """Wait until a dataset is ready or has failed. Raises `WaitTimeout`."""
        return self._wait(
            f"/datasets/{segment(dataset_id)}", lambda body: body["state"] != "profiling", timeout_s, progress
        )

    # --- jobs

    def job(self, job_id: str) -> Json:
        """One job."""
        body: Json = self.get(f"/jobs/{segment(job_id)}")
        return body

    def job_part(self, job_id: str, part: str, **params: Any) -> Json:
        """`results`, `checkpoints`, `attempts`, `events`, `series`, `samples`, `logs`, `program`, ... of a job."""
        body: Json = self.get(f"/jobs/{segment(job_id)}/{part}", **params)
        return body

    def job_create(self, body: Json) -> Json:
        """A draft, or with `submit` a queued job; see `JobIn` in the API's docs."""
        made: Json = self.send("POST", "/jobs", {"project": self.project, **body} if self.project else body)
        return made

    def job_do(self, job_id: str, verb: str, body: Json | None = None) -> Json:
        """`submit`, `cancel`, `pause`, `resume`, `clone`, `restore`, `check`."""
        answer: Json = self.send("POST", f"/jobs/{segment(job_id)}/{verb}", body)
        return answer

    def job_wait(
        self, job_id: str, *, timeout_s: float | None = None, progress: Callable[[Json], None] | None = None
    ) -> Json:
        """Wait until a job has ended. Raises `WaitTimeout`."""
        return self._wait(f"/jobs/{segment(job_id)}", lambda body: body["state"] in ENDED, timeout_s, progress)

    def predict(
        self,
        job_id: str,
        data: Path | list[Json] | None = None,
        *,
        checkpoint: str = "",
        threshold: str = "",
        timeout_s: float = 300.0,
    ) -> Json:
        """Send a file, or rows as `{column: value}`, wait for the prediction and return it with its first rows.

        Without either a forecast goes on from the end of the data.
        `threshold`, `CLASS=P`: what is of that class with a probability of P or more is called by it, nothing else.
        Raises `WaitTimeout`.
        """
        asked = self.prediction_ask(job_id, data, checkpoint=checkpoint, threshold=threshold)
        return self.prediction_wait(job_id, asked["id"], timeout_s=timeout_s)

    def prediction_ask(
        self, job_id: str, data: Path | list[Json] | None = None, *, checkpoint: str = "", threshold: str = ""
    ) -> Json:
        """Send what `predict` sends, and return the prediction, which is made from then on."""
        place = f"/jobs/{segment(job_id)}/predictions"
        asked_with = params_given({"checkpoint": checkpoint, "threshold": threshold})
        if isinstance(data, Path):
            with data.open("rb") as stream:
                files = {"input": (data.name, stream)}
                sent: Json = self.transport.json("POST", place, files=files, data=asked_with)
                return sent
        given = {"from_end": True} if data is None else {"records": data}
        asked: Json = self.send("POST", place, {**given, **asked_with})
        return asked

    def prediction_wait(self, job_id: str, prediction_id: str, *, timeout_s: float = 300.0) -> Json:
        """Wait for a prediction and return it with its first rows. Raises `WaitTimeout`."""
        place = f"/jobs/{segment(job_id)}/predictions/{segment(prediction_id)}"
        try:
            return self._wait(place, lambda body: body["state"] != "waiting", timeout_s, None)
        except WaitTimeout as error:
            error.hint = f"It continues: `dlh predictions {job_id} {prediction_id}` has its answer later."
            raise

    def onnx_make(self, job_id: str, *, checkpoint: str = "", timeout_s: float = 900.0) -> Json:
        """Have the final weights, or those of a checkpoint, exported as ONNX; wait until it is `done` or `failed`.

        Raises `WaitTimeout`.
        """
        place, params = f"/jobs/{segment(job_id)}/onnx", params_given({"checkpoint": checkpoint})
        self.transport.json("POST", place, params=params)
        return self._wait(place, lambda body: body["state"] != "waiting", timeout_s, None, **params)
