"""One part by itself: it names what is missing, keeps passwords off its command line, and says whether it works."""

import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.env import SettingsError
from harness.stack import part
from harness.stack.stack import http_answers

WEB = {
    "DLH_DATABASE_URL": "postgres://dlh@database:5432/dlh",
    "DLH_REDIS_URL": "redis://broker:6379/0",
    "DLH_SECRET_KEY": "k" * 40,
    "DLH_PUBLIC_URL": "https://harness.example.org",
    "DLH_STORE": "/store",
}


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("DLH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DLH_HOME", str(tmp_path))


@pytest.fixture
def given(monkeypatch):
    def give(**more):
        for name, value in {**WEB, **more}.items():
            monkeypatch.setenv(name, value)

    return give


@pytest.mark.parametrize("name", sorted(part.REQUIRED))
def test_a_part_names_everything_that_is_missing(name):
    with pytest.raises(SettingsError) as caught:
        part.environment(name)
    assert all(variable in str(caught.value) for variable in part.REQUIRED[name])


def test_what_is_missing_is_told_without_a_trace(capsys):
    assert part.main(["portal"]) == part.EXIT_REFUSED
    assert "portal needs DLH_DATABASE_URL" in capsys.readouterr().err


def test_passwords_come_from_files_into_the_urls(given, monkeypatch, tmp_path):
    (tmp_path / "database").write_text("p@ss/word\n")
    (tmp_path / "broker").write_text("other\n")
    given(DLH_DATABASE_PASSWORD_FILE=str(tmp_path / "database"), DLH_REDIS_PASSWORD_FILE=str(tmp_path / "broker"))
    settled = part.environment("portal")
    assert settled["DLH_DATABASE_URL"] == "postgres://dlh:p%40ss%2Fword@database:5432/dlh"
    assert settled["DLH_REDIS_URL"] == "redis://:other@broker:6379/0"
    assert not any("other" in word or "p%40ss" in word for word in part.command("portal", []))


def test_the_settings_understand_what_a_part_is_given(given):
    from harness.env import database

    given(DLH_DATABASE_PASSWORD="p@ss/word")
    found = database(part.environment("control")["DLH_DATABASE_URL"], None)
    assert (found["USER"], found["PASSWORD"], found["HOST"]) == ("dlh", "p@ss/word", "database")


def test_a_password_in_the_url_wins(given):
    given(DLH_REDIS_URL="redis://:mine@broker:6379/0", DLH_REDIS_PASSWORD="other")
    assert part.environment("control")["DLH_REDIS_URL"] == "redis://:mine@broker:6379/0"


def test_a_node_is_the_agent_which_holds_its_home_alone():
    assert part.command("node", []) == [sys.executable, "-P", "-m", "worker.agent"]


@pytest.mark.parametrize(("level", "taken"), [("", "INFO"), ("debug", "DEBUG")])
def test_celery_gets_the_level_that_the_settings_take(monkeypatch, level, taken):
    monkeypatch.setenv("DLH_LOG_LEVEL", level)
    command = part.command("control", [])
    assert command[command.index("--loglevel") + 1] == taken


def test_a_node_needs_neither_database_nor_secret_key(monkeypatch):
    monkeypatch.setenv("DLH_REDIS_URL", WEB["DLH_REDIS_URL"])
    monkeypatch.setenv("DLH_STORE", "/store")
    monkeypatch.setenv("DLH_NODE_NAME", "gpu-7.example.org")
    assert part.environment("node")["DLH_NODE_NAME"] == "gpu-7-example-org"


@pytest.mark.parametrize("name", ["control", "node"])
def test_a_part_is_well_while_it_touches_its_file(name, tmp_path):
    alive = tmp_path / "run" / f"{name}.alive"
    assert part.main(["health", name]) == 1
    alive.parent.mkdir()
    alive.touch()
    assert part.main(["health", name]) == 0
    old = time.time() - 2 * part.ALIVE_WITHIN_S
    os.utime(alive, (old, old))
    assert part.main(["health", name]) == 1


def test_a_portal_that_does_not_answer_is_not_well(monkeypatch):
    monkeypatch.setenv("DLH_PORT", "1")
    assert part.main(["health", "portal"]) == 1


def test_an_unknown_part_is_refused(capsys):
    assert part.main(["janitor"]) == part.EXIT_REFUSED
    assert part.main(["health", "janitor"]) == part.EXIT_REFUSED
    assert "portal | control" in capsys.readouterr().err


def test_the_secret_of_the_object_store_goes_to_portal_and_control_alone(given):
    objects = {"DLH_S3_URL": "s3://pool", "DLH_S3_KEY": "k", "DLH_S3_SECRET": "s"}
    given(**objects)
    for name in ("portal", "control", "store"):
        assert objects.items() <= part.environment(name).items()
    assert not [name for name in part.environment("node") if name.startswith("DLH_S3_")]


def test_a_wrong_object_store_is_named_before_anything_starts(given, capsys):
    given(DLH_S3_URL="pool", DLH_S3_KEY="k", DLH_S3_SECRET="s")
    assert part.main(["control"]) == part.EXIT_REFUSED
    assert "DLH_S3_URL must look like" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("DLH_REDIS_URL", "broker:6379"),
        ("DLH_REDIS_URL", "redis://[broker:6379"),
        ("DLH_REDIS_URL", "http://broker:6379"),
        ("DLH_DATABASE_URL", "postgres://dlh:a/b@database:5432/dlh"),
        ("DLH_DATABASE_URL", "mysql://database/dlh"),
    ],
)
def test_an_address_that_cannot_be_one_is_named_before_the_part_starts(given, capsys, name, wrong):
    given(**{name: wrong}, DLH_REDIS_PASSWORD="other", DLH_DATABASE_PASSWORD="p")
    assert part.main(["control"]) == part.EXIT_REFUSED
    assert name in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_the_portals_health_is_asked_where_it_listens_past_a_proxy_that_the_engine_names(monkeypatch, host):
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    if host != "127.0.0.1":
        monkeypatch.setenv("DLH_HOST", host)
    with ThreadingHTTPServer((host, 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DLH_PORT", str(server.server_port))
        assert part.health("portal") == 0 and http_answers(f"http://{host}:{server.server_port}/")
        server.shutdown()
    assert part.health("portal") == 1


@pytest.mark.parametrize(
    ("listens", "asked"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("10.0.0.7", "10.0.0.7")],
)
def test_a_portal_that_listens_everywhere_is_asked_at_the_address_of_this_machine(monkeypatch, listens, asked):
    monkeypatch.setenv("DLH_HOST", listens)
    assert part._own_host() == asked
