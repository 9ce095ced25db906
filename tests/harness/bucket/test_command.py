"""`python -m harness.bucket`, as `dlh store`, `dlh doctor` and the start of the stack call it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from harness.bucket import __main__ as bucket_main
from harness.bucket.client import Bucket
from harness.bucket.mirror import MARK
from harness.client.cli import store as command
from harness.env import REPOSITORY
from harness.stack import stack
from harness.stack.home import StackError


@pytest.fixture
def environment(object_server, tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DLH_")}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return {**kept, "DLH_HOME": str(tmp_path / "home"), **object_server.environment(uuid.uuid4().hex)}


def run(environment, name, *options):
    argv = [sys.executable, "-m", "harness.bucket", name, *options]
    return subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


def test_a_check_says_that_it_works_and_whose_the_place_is(environment, object_server):
    done = run(environment, "check", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["place"].startswith("pool/"), done.stderr
    place = environment["DLH_S3_URL"].removeprefix("s3://pool/")
    there = Bucket(object_server.given(place))
    assert not there.names(MARK)  # a check lays no claim to the place, the first copy does
    there.text_put(MARK, "another")
    taken = run(environment, "check")
    assert taken.returncode == 2 and "another store" in taken.stderr
    there.remove(MARK)
    none = run({name: value for name, value in environment.items() if not name.startswith("DLH_S3_")}, "pull")
    assert none.returncode == 2 and "DLH_S3_URL is not set" in none.stderr


def test_how_the_copy_stands_is_told_without_the_object_store(environment):
    first = run(environment, "status", "--json")
    assert first.returncode == 0 and json.loads(first.stdout)["state"] == "first", first.stderr
    away = {**environment, "DLH_S3_ENDPOINT": "http://127.0.0.1:9"}
    noted = {"place": f"http://127.0.0.1:9 {environment['DLH_S3_URL'].removeprefix('s3://')}", "began_s": time.time()}
    noted |= {"complete_s": time.time(), "step": "wait", "files": 7}
    file = Path(environment["DLH_HOME"]) / "store" / "bucket" / "state.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    for trouble, code in (("it is away", 1), ("", 0)):
        file.write_text(json.dumps({**noted, "trouble": trouble}))
        told = run(away, "status", "--json")
        assert told.returncode == code and json.loads(told.stdout)["files"] == 7
        assert (f"{trouble}; wait." in run(away, "status").stdout) == bool(trouble)
    assert json.loads(run(environment, "status", "--json").stdout)["files"] == 0  # noted of another place


def test_the_start_refuses_what_only_a_person_can_put_right_and_goes_on_without_what_is_away(environment, capsys):
    stack.bucket_check({name: value for name, value in environment.items() if not name.startswith("DLH_S3_")})
    assert capsys.readouterr().out == ""
    with pytest.raises(StackError, match="DLH_S3_SECRET") as caught:
        stack.bucket_check({**environment, "DLH_S3_SECRET": "another"})
    assert environment["DLH_S3_SECRET"] not in str(caught.value)
    stack.bucket_check({**environment, "DLH_S3_ENDPOINT": "http://127.0.0.1:9"})
    assert "tried again by itself" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_is_told_in_words(options, monkeypatch, capsys):
    def interrupted(_tell):
        raise KeyboardInterrupt

    monkeypatch.setitem(bucket_main._COMMANDS, "push", interrupted)
    monkeypatch.setattr(sys, "argv", ["bucket", "push", *options])
    assert bucket_main.main() == 130
    told = capsys.readouterr()
    words = json.loads(told.out)["error"]["message"] if options else told.err
    assert "what was copied is kept" in words


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize(
    ("code", "step"),
    [
        (errno.ENOSPC, "free space on that disk or mend it, then run the same command again"),
        (errno.EACCES, "run the same command as the user of the harness"),
        (errno.EPERM, "run the same command as the user of the harness"),
        (errno.EMFILE, ""),
    ],
)
def test_what_a_disk_refuses_is_told_in_words_with_the_step_that_helps(code, step, options, monkeypatch, capsys):
    def refused(_tell):
        raise OSError(code, os.strerror(code), "/store/bucket/.pull-1")

    monkeypatch.setitem(bucket_main._COMMANDS, "pull", refused)
    monkeypatch.setattr(sys, "argv", ["bucket", "pull", *options])
    assert bucket_main.main() == bucket_main.EXIT_REFUSED
    told = capsys.readouterr()
    words = f"{os.strerror(code)} (/store/bucket/.pull-1)"
    if options:
        error = json.loads(told.out)["error"]
        assert (error["message"].rstrip("."), error["hint"].rstrip(".")) == (words, step)
    else:
        assert told.err == f"Cannot continue: {words}{'; ' if step else ''}{step}.\n"


def test_the_doctor_has_a_line_about_it(environment, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DLH_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    monkeypatch.chdir(REPOSITORY)
    assert command.finding() is None
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert command.finding()["state"] == "ok"
    monkeypatch.setenv("DLH_S3_KEY", "nobody")
    found = command.finding()
    assert found["state"] == "bad" and "DLH_S3_KEY" in found["text"] and "correct" in found["step"]
