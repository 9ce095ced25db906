"""Nothing that a rank or a node of an elastic run sends is ever unpickled: it is a person's program."""

from __future__ import annotations

import ast
import http.client
import io
import os
import pickle
import socket
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from worker.elastic.json_lines import Line
from worker.elastic.rendezvous import Rendezvous
from worker.home import REPOSITORY
from worker.launch_config import LaunchConfig, LocalRank
from worker.runtime.collective import Group
from worker.runtime.handing import state_handed
from worker.runtime.outline import unpacked

LOADERS = {"checkpoint.py", "serving.py"}
"""They read a checkpoint, whose hash they have checked. Even the restricted loader was got round twice."""
PICKLERS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Is there once a body was unpickled: this very one would do it."""
    tried = tmp_path / "tried"
    pickle.loads(pickle.dumps(Evil(tried)))
    assert tried.is_dir()
    return tmp_path / "ran"


def test_a_pickle_that_is_put_to_the_meeting_place_is_kept_as_bytes(mark: Path) -> None:
    ranks = [LocalRank(rank=rank, local_rank=rank, stdout_fd=-1, stderr_fd=-1, environment={}) for rank in range(2)]
    config = LaunchConfig(
        argv=[], workdir="/", requests="/nowhere", status_fd=-1, backend="horovod", hosts=[("localhost", 2)],
        hostname="localhost", address="127.0.0.1", interface="lo", ranks=ranks, least=1,
    )  # fmt: skip
    rendezvous, body = Rendezvous(config), pickle.dumps(Evil(mark))
    port = int(rendezvous.open([("localhost", 2)])[0]["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    for scope in ("worker_addresses", "runfunc", "rank_and_size", "global"):
        for method, sent in (("PUT", body), ("GET", None), ("DELETE", None)):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request(method, f"/{scope}/0", body=sent)
            connection.getresponse().read()
            connection.close()
    rendezvous.open([("localhost", 1)])
    assert not mark.exists()


def test_a_pickle_on_the_line_between_processes_or_nodes_is_no_line(mark: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(pickle.dumps(Evil(mark)) + b'\n{"ready": 1}\n')
        assert list(Line(ours).read()) == [{"ready": 1}]
    assert not mark.exists()


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_state_that_a_rank_hands_on_is_read_as_numbers_alone(mark: Path, wrapped: bool) -> None:
    buffer = io.BytesIO()
    torch.save(({"parts": Evil(mark)}, 0.0), buffer)
    body = buffer.getvalue() if wrapped else pickle.dumps(Evil(mark))

    class Sends:
        def broadcast_(self, tensor: torch.Tensor) -> None:
            sent = (
                torch.tensor([len(body)])
                if tensor.dtype is torch.int64
                else torch.frombuffer(bytearray(body), dtype=torch.uint8)
            )
            tensor.copy_(sent)

    with pytest.raises(ValueError, match="no outline"):
        state_handed(cast(Group, Sends()), 1, None)
    for sent in (body, len(body).to_bytes(8, "little") + body):
        with pytest.raises(ValueError, match="what another rank sent is no"):
            unpacked(bytearray(sent))
    assert not mark.exists()


def test_no_file_of_a_node_imports_what_unpickles_or_loads_more_than_weights() -> None:
    for file in sorted((REPOSITORY / "worker").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not {name.name.partition(".")[0] for name in node.names} & PICKLERS, file
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in PICKLERS, file
            elif isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert not called.endswith(("broadcast_object", "allgather_object", "broadcast_object_list")), file
                if called.endswith("torch.load"):
                    assert "weights_only=True" in ast.unparse(node), f"{file}:{node.lineno}"
                    assert file.name in LOADERS, f"{file}:{node.lineno}"
