"""A node's own cache and the portal behind it: what a run or a request needs is brought here before it starts."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from worker.home import cache_dir, cache_limit_bytes, node_name, node_secret, portal_url
from worker.plan import RunPaths, RunPlan
from worker.transfer.brought import Brought, Content
from worker.transfer.cache import AHEAD, STARTING, Cache, CacheFull
from worker.transfer.fetch import AWAY_LIMIT_S, PLAIN, Damaged, Manner, Source, tree_fetch
from worker.transfer.fetches import fetch_note
from worker.transfer.folders import Folders, dataset_name
from worker.transfer.heeding import heeding
from worker.transfer.owed import owed_settled, owed_words
from worker.transfer.portal import Portal, PortalRefused, patiently
from worker.transfer.signed import Signed
from worker.transfer.tree import CHECKPOINT_NAME, FILE_NAME, JOB_FOLDER, Tree, dataset_folder, job_folder, tree_here
from worker.transfer.unreturned import unreturned
from worker.trees import tree_remove

LISTINGS_MAX = 3
"""A folder may change between its listing and its last file: so often it is listed anew."""
CHECK_S = 0.3
"""So long one content that is here already is hashed before a run starts on it: 100 to 400 MiB; `worker.transfer.scrub`
reads the rest while the run goes on."""
Stop = Callable[[], bool]
_log = logging.getLogger(__name__)


class Listed(NamedTuple):
    """What the portal says of a folder: its files, and signed addresses of those that the object store has as well."""

    tree: Tree
    addresses: dict[str, str]


def listed_read(rows: list[dict[str, Any]]) -> Listed:
    """Of the portal's answer. Raises `ValueError`."""
    return Listed(Tree.from_list(rows), {str(row["name"]): str(row["url"]) for row in rows if row.get("url")})


@dataclass(frozen=True)
class Depot:
    """Where a node without the store keeps things, and whom it asks."""

    cache: Cache
    portal: Portal
    manner: Manner = PLAIN

    def run_paths(self, plan: RunPlan) -> RunPaths:
        """Files of a job on this node. Raises `ValueError`."""
        folder = job_folder(plan.job_dir)
        self.cache.hold(folder).release()  # used now: it stays until the supervisor holds it
        return RunPaths(self.cache.path(folder), plan.part(node_name()))

    def forget(self, job_id: str) -> None:
        """Remove what is kept of a job here."""
        folder = f"jobs/{job_id}"
        if JOB_FOLDER.fullmatch(folder):
            self.cache.remove(folder)

    def content(self, folder: str, brought: Brought, stopped: Stop) -> Content:
        """A folder of the store as this cache has it, fetched if need be. Raises `TransferError`, `OSError`."""
        listed, folders = self._listed(folder, stopped), Folders(self.cache.root)
        for left in reversed(range(LISTINGS_MAX)):
            try:
                folders.note(folder, listed.tree.digest)  # it is known on its way here already, and kept
                found = self._content(folder, listed, brought, stopped)
                folders.note(folder, found.tree.digest)
                return found
            except (PortalRefused, Damaged):  # a file of the listing was changed, or removed, meanwhile
                before, listed = listed, self._listed(folder, stopped)
                if listed.tree == before.tree or not left:
                    raise
        raise AssertionError  # pragma: no cover

    def _listed(self, folder: str, stopped: Stop) -> Listed:
        return listed_read(self._told("/trees", stopped, folder=folder)["files"])

    def _told(self, path: str, stopped: Stop, **query: str) -> Any:
        """The portal's answer, which may take minutes; soon after nobody wants it any more `Stopped` is raised."""
        with self.portal.apart() as own, heeding(stopped, lambda: own.connections):
            return patiently(lambda: own.json("GET", path, **query), limit_s=AWAY_LIMIT_S, stopped=stopped)

    def _content(self, folder: str, listed: Listed, brought: Brought, stopped: Stop) -> Content:
        tree, addresses = listed
        name, making = f"contents/{tree.digest}", f"incoming/{tree.digest}"
        place = self.cache.path(name)
        with self.cache.alone(making, stopped):
            brought.holds.append(self.cache.hold(name))
            if place.is_dir():
                here = Content(place, tree, place.stat().st_ino)
                if self._is_good(here, brought):
                    brought.cached_bytes += tree.bytes
                    return here
                brought.holds.pop().release()  # it went with what was put aside
                self.cache.aside_remove()
                brought.holds.append(self.cache.hold(name))
            kept = self._fetch(Source("/files", {"folder": folder}, addresses), tree, making, brought, stopped)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            kept.rename(place)
            return Content(place, tree, place.stat().st_ino)

    def _is_good(self, here: Content, brought: Brought) -> bool:
        """Whether a content is as it arrived, as far as that is soon told; else it is put aside."""
        checked = here.check(CHECK_S)
        if checked.bad:
            _log.error("%s in the cache had become damaged: fetched again", ", ".join(checked.bad))
            self.cache.put_aside(here.tree.digest, here.inode, checked.bad)
            brought.damaged += checked.bad
        elif not checked.whole:
            self.cache.want(here.tree.digest)
        return not checked.bad

    def is_damaged(self, content: Content, limit_s: float, stopped: Stop) -> bool:
        """Whether a content that a run used was not as it should be, now that it ended badly. Raises `OSError`."""
        if content.aside:
            return True
        if not (bad := content.check(limit_s).bad):
            return False
        with self.cache.alone(f"incoming/{content.tree.digest}", stopped):
            self.cache.put_aside(content.tree.digest, content.inode, bad)
        return True

    def _fetch(self, source: Source, tree: Tree, making: str, brought: Brought, stopped: Stop) -> Path:
        """The tree in a folder that is ready to be renamed into its place."""
        place = self.cache.path(making)
        place.mkdir(parents=True, exist_ok=True, mode=0o755)
        here = sum(path.stat().st_size for path in place.iterdir() if not path.name.startswith("."))
        self._room_make(max(0, tree.bytes - here), stopped)
        began_s = time.monotonic()
        with closing(Signed()) as signed:
            fetched = tree_fetch(self.portal, source, tree, place, stopped=stopped, signed=signed, manner=self.manner)
        if dataset_name(source.query.get("folder", "")):
            fetch_note(self.cache, fetched, tree.bytes, time.monotonic() - began_s)
        brought.fetched_bytes += fetched
        brought.signed_bytes += signed.read_bytes
        brought.cached_bytes += max(0, tree.bytes - fetched)
        return place

    def _room_make(self, need_bytes: int, stopped: Stop) -> None:
        kept = Folders(self.cache.root).kept()
        try:
            self.cache.room_make(need_bytes, kept=kept, spare=self.manner.ahead)
        except CacheFull:
            if self.manner.ahead:
                raise
            owed_settled(self.cache, self.portal)
            with self.cache.alone(AHEAD, stopped):  # what is being fetched ahead gives way in a moment, and its room
                try:
                    self.cache.room_make(need_bytes, kept=kept)
                except CacheFull as error:
                    raise CacheFull(f"{error}{owed_words(self.cache)}") from error

    def checkpoints(self, plan: RunPlan, paths: RunPaths, brought: Brought, stopped: Stop) -> None:
        """Have here the checkpoints that the store has, and what it never got of this course. Raises `TransferError`,
        `OSError`."""
        base = f"/runs/{plan.job_id}/{plan.token}/checkpoints"
        told = self._told(base, stopped)
        wanted = {str(row["name"]): listed_read(row["files"]) for row in told["checkpoints"]}
        if not all(CHECKPOINT_NAME.fullmatch(name) for name in wanted):
            raise ValueError("the store has a checkpoint with a name that may not be written")
        brought.unreturned = unreturned(
            paths.work, resume_from=plan.resume_from, course_from=int(told.get("course_from", 0)),
            damaged={str(name): int(number) for name, number in told.get("damaged", {}).items()}, stopped=stopped,
        )  # fmt: skip
        own = {one.name for one in brought.unreturned}
        wanted = {name: listed for name, listed in wanted.items() if name not in own}
        for path in [path for path in paths.checkpoints.iterdir() if path.name not in own]:
            if path.name not in wanted or not _is_same(paths.work, path.name, wanted[path.name].tree):
                tree_remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for name, (tree, addresses) in wanted.items():
            making, place = f"incoming/{tree.digest}", paths.checkpoints / name
            if place.is_dir():
                brought.cached_bytes += tree.bytes
                continue
            with self.cache.alone(making, stopped):
                if self._came_ahead(tree, place, stopped):
                    brought.cached_bytes += tree.bytes
                    continue
                made = self._fetch(Source(f"{base}/{name}", {}, addresses), tree, making, brought, stopped)
                made.rename(place)

    def _came_ahead(self, tree: Tree, place: Path, stopped: Stop) -> bool:
        """Give a job its checkpoint where it came ahead, and is as it came. Call with its `incoming/` locked alone.

        It moves: the run may write there, and nobody else needs it.
        """
        content = f"contents/{tree.digest}"
        if not (here := self.cache.path(content)).is_dir():
            return False
        if tree_here(self.cache.root, Path(content)) != tree:
            self.cache.put_aside(tree.digest, here.stat().st_ino, [])
            return False
        with self.cache.alone(content, stopped), suppress(FileNotFoundError):
            here.rename(place)
        return place.is_dir()

    def program(self, folder: str, target: Path, brought: Brought, stopped: Stop) -> None:
        """Make `target` hold the program of a job folder of the store. Raises as `content`."""
        files_copy(self.content(f"{folder}/program", brought, stopped).path, target)

    def run_bring(self, plan: RunPlan, paths: RunPaths, *, first: bool, stopped: Stop) -> Brought:
        """All that this node's part of an attempt needs. Raises `TransferError`, `OSError`, `ValueError`.

        Where it fails nothing is held.
        """
        folder, brought = job_folder(plan.job_dir), Brought()
        try:
            brought.holds.append(self.cache.hold(folder))
            with self.cache.holding(STARTING):
                self.program(folder, paths.program, brought, stopped)
                brought.dataset = self.content(dataset_folder(plan.dataset_dir), brought, stopped)
                if plan.weights_dir:
                    brought.weights = self.content(dataset_folder(plan.weights_dir), brought, stopped)
                if first:
                    self.checkpoints(plan, paths, brought, stopped)
        except BaseException:
            brought.release()
            raise
        return brought

    def run_hold(self, plan: RunPlan) -> Brought:
        """Keep the folder of a run that has ended, whatever it needed before. Raises `ValueError`."""
        return Brought(holds=[self.cache.hold(job_folder(plan.job_dir))])

    @contextmanager
    def request_here(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """A request for a short run with its folders brought here. Raises as `run_bring`."""
        with ExitStack() as stack:
            brought, here = Brought(), dict(request)
            stack.callback(brought.release)
            with self.cache.holding(STARTING):
                if request.get("job_dir"):
                    folder = job_folder(str(request["job_dir"]))
                    entry = f"jobs/request-{request_id(request)}"
                    root, hold = self.cache.path(entry), self.cache.hold(entry)
                    stack.callback(self.cache.remove, entry)
                    stack.callback(hold.release)
                    self.program(folder, RunPaths(root).program, brought, lambda: False)
                    here["job_dir"] = str(root)
                for name in ("dataset_dir", "weights_dir"):
                    if request.get(name):
                        content = self.content(dataset_folder(str(request[name])), brought, lambda: False)
                        here[name] = str(content.path)
            yield here


def request_id(request: dict[str, Any]) -> str:
    """Of a short run, fit for a file name. Raises `ValueError`."""
    found = str(request.get("request_id") or request.get("check_id") or "")
    if not FILE_NAME.fullmatch(found):
        raise ValueError(f"{found!r} is not the id of a request")
    return found


def files_copy(source: Path, target: Path) -> None:
    """Make `target` a copy of a flat folder, in one step."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    tree_remove(draft)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, draft)
    tree_remove(target)
    draft.rename(target)


def _is_same(work: Path, name: str, tree: Tree) -> bool:
    return tree_here(work, Path("checkpoints") / name) == tree


def depot_here() -> Depot | None:
    """This node's depot; None on a node that sees the store's folder."""
    root = cache_dir()
    return Depot(Cache(root, cache_limit_bytes()), Portal(portal_url(), node_secret())) if root else None


def run_paths(plan: RunPlan) -> RunPaths:
    """Where the files of a job lie for this node. Raises `ValueError` for a plan that names no job of the store."""
    depot = depot_here()
    return RunPaths(Path(plan.job_dir), plan.part(node_name())) if depot is None else depot.run_paths(plan)
