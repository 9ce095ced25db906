"""An object store behind a certificate of a private authority, as Caddy makes one: trusted by its file, else named."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.bucket.client import Bucket
from harness.bucket.trouble import BucketTrouble
from tests.untested import untested

CADDY = Path(sys.executable).parent / "caddy"
WAIT_S = 60.0
CADDYFILE = """{{
    admin off
    skip_install_trust
    auto_https disable_redirects
    storage file_system "{folder}"
}}
https://localhost:{port} {{
    tls internal
    reverse_proxy 127.0.0.1:{behind}
}}
"""


@pytest.fixture
def encrypted(object_server, tmp_path):
    """(endpoint, file of its authority)."""
    program = str(CADDY) if CADDY.exists() else shutil.which("caddy")
    if program is None:
        pytest.skip(untested("object store by TLS", "caddy comes as a wheel for Linux on x86-64 only"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    file = tmp_path / "Caddyfile"
    file.write_text(CADDYFILE.format(folder=tmp_path / "caddy", port=port, behind=object_server.port))
    command = [program, "run", "--adapter", "caddyfile", "--config", str(file)]
    with (tmp_path / "caddy.log").open("wb") as log:
        process = subprocess.Popen(command, env={"HOME": str(tmp_path)}, stdout=log, stderr=log)
    authority, end_s = tmp_path / "caddy" / "pki" / "authorities" / "local" / "root.crt", time.monotonic() + WAIT_S
    while not authority.exists() or not _listens(port):
        assert process.poll() is None and time.monotonic() < end_s, (tmp_path / "caddy.log").read_text()[-2000:]
        time.sleep(0.05)
    yield f"https://localhost:{port}", str(authority)
    process.kill()
    process.wait()


def _listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_private_certificate_is_trusted_by_the_file_of_its_authority(encrypted, object_server):
    endpoint, authority = encrypted
    assert Bucket(replace(object_server.given("tls", endpoint=endpoint), ca_file=authority)).check() > 0


def test_without_it_the_setting_is_named_and_a_person_has_to_act(encrypted, object_server):
    endpoint, _ = encrypted
    with pytest.raises(BucketTrouble, match="certificate") as caught:
        Bucket(object_server.given("tls", endpoint=endpoint)).check()
    assert "DLH_S3_CA_FILE" in caught.value.step and not caught.value.away
