"""The images: a linter finds nothing, each step can be done, nobody is root, versions are pinned, no secret gets in."""

import importlib.util
import json
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from tests.deploy.conftest import DEPLOY
from tests.deploy.dockerfile import FILES, REPOSITORY, context, let_in, stages
from tests.untested import untested

APT_LISTS = Path("/var/lib/apt/lists")
NO_LISTS = untested("Debian packages of the images", "needs Debian bookworm's package lists (apt-get update)")
NO_NODE = untested("the image's pages", "there is no node here")


@pytest.mark.parametrize("name", FILES)
def test_the_linter_finds_nothing(tool, name):
    done = tool("hadolint", "--failure-threshold", "info", DEPLOY / "images" / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", FILES)
def test_what_runs_is_no_root_has_no_compiler_and_says_whether_it_works(name):
    *builders, last = stages(name)
    assert builders
    assert last.of("USER") == ["10001:10001"]
    assert last.exec_form("HEALTHCHECK")[-2] == "health"
    assert not any("g++" in words or "pip" in words for words in last.commands)


@pytest.mark.parametrize("name", FILES)
def test_everything_is_installed_by_the_constraints_and_horovod_is_built_by_our_script(name):
    builder = stages(name)[-2]
    assert any("PIP_CONSTRAINT=/app/deploy/constraints.txt" in line for line in builder.of("ENV"))
    assert any("deploy/horovod/build.sh" in words for words in builder.commands)


@pytest.mark.parametrize("name", FILES)
def test_everything_that_is_copied_is_there_and_let_in(name):
    sent = context()
    found = stages(name)
    for stage in found:
        for origin, sources, _ in stage.copies():
            if origin:
                assert origin in {other.name for other in found[: found.index(stage)]}
                continue
            for source in sources:
                inside = [file for file in sent if source == "." or file == source or file.startswith(f"{source}/")]
                assert inside, f"COPY {source}"


@pytest.mark.parametrize("name", FILES)
def test_what_a_step_reads_was_copied_by_a_step_before_it(name):
    """A file of ours in a RUN, or in PIP_CONSTRAINT, must be there by then."""
    for stage in stages(name):
        there: set[str] = set()
        for kind, text in stage.steps:
            if kind == "COPY" and "--from" not in text:
                there |= set(text.split()[:-1])
            for wanted in re.findall(r"deploy/[\w./]*\w", text) if kind in {"RUN", "ENV"} else ():
                later = kind == "ENV"  # it is read by the commands that follow
                known = there | ({wanted} if later else set())
                assert any(wanted == place or wanted.startswith(f"{place}/") or place == "." for place in known), wanted
                assert let_in(wanted)


@pytest.mark.parametrize("name", FILES)
def test_what_one_stage_takes_from_another_is_made_there(name):
    found = {stage.name: stage for stage in stages(name)}
    for stage in found.values():
        for origin, sources, _ in stage.copies():
            for source in sources if origin else ():
                made = found[origin].of("WORKDIR") + [words[-1] for words in found[origin].commands if "venv" in words]
                assert any(source == place or source.startswith(f"{place}/") for place in made), source


def packages(stage):
    """Names that `apt-get install` is given."""
    return [
        word for words in stage.commands if words[:2] == ["apt-get", "install"]
        for word in words[2:] if not word.startswith("-")
    ]  # fmt: skip


def test_every_debian_package_exists_in_the_release_of_the_base_images():
    release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
    if "VERSION_CODENAME=bookworm" not in release or not list(APT_LISTS.glob("*bookworm*Packages*")):
        pytest.skip(NO_LISTS)
    found = stages("Dockerfile")
    assert all(stage.base.endswith(("-bookworm", "-bookworm-slim")) for stage in found)
    names = {name for stage in found for name in packages(stage)}
    assert {"g++", "bubblewrap", "tini"} <= names
    show = ["apt-cache", "show", "--no-all-versions", *sorted(names)]
    shown = subprocess.run(show, capture_output=True, text=True, check=False).stdout
    assert set(re.findall(r"^Package: (\S+)$", shown, re.MULTILINE)) == names


@pytest.mark.parametrize("name", FILES)
def test_the_programs_that_change_and_compile_horovod_are_installed_where_it_is_built(name):
    assert {"g++", "make", "patch"} <= set(packages(stages(name)[-2]))


@pytest.mark.parametrize("name", FILES)
def test_the_programs_that_the_sandbox_and_the_start_need_are_installed_in_what_runs(name):
    last = stages(name)[-1]
    assert {"bubblewrap", "tini", "libgomp1"} <= set(packages(last))
    assert last.exec_form("ENTRYPOINT")[0] == "/usr/bin/tini"


@pytest.mark.parametrize("name", FILES)
def test_entry_point_command_and_health_check_exist(name):
    from harness.stack.part import REQUIRED

    last = stages(name)[-1]
    entry = last.exec_form("ENTRYPOINT")
    assert entry[1:4] == ["--", "python", "-m"] and importlib.util.find_spec(entry[4])
    (part,) = last.exec_form("CMD")
    health = last.exec_form("HEALTHCHECK")
    assert part in REQUIRED and health == ["python", "-m", entry[4], "health", part]


@pytest.mark.parametrize("name", FILES)
def test_a_node_in_a_container_ends_its_runs_before_it_is_ended(name, monkeypatch):
    from worker.home import ends_runs

    (given,) = [line for line in stages(name)[-1].of("ENV") if "RUNS" in line]
    monkeypatch.setenv(*given.split("="))
    assert ends_runs()


def pinned():
    lines = (DEPLOY / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in map(str.lower, lines) if line and not line.startswith("#"))


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def extras(name):
    """Those of this project that the image is built with: `postgres,s3`."""
    (editable,) = [words[-1] for words in stages(name)[-2].commands if "--editable" in words]
    return editable.removeprefix(".").strip("[]")


def test_the_image_of_portal_and_control_can_use_postgresql_and_an_object_store_and_that_of_gpu_nodes_neither():
    assert extras("Dockerfile").split(",") == ["postgres", "s3"]
    assert extras("Dockerfile.cuda") == ""


@pytest.mark.parametrize("name", FILES)
def test_every_python_package_of_the_image_and_what_it_needs_is_pinned(name):
    """Offline: what each package needs is what the ones installed here say."""
    from packaging.requirements import Requirement

    pins = {plain(name) for name in pinned()}
    asked = [
        word for words in stages(name)[-2].commands if words[0].endswith("/pip") and words[1] == "install"
        for word in words[2:] if re.fullmatch(r"[\w.-]+(\[\w+\])?", word) and word[0] not in "-."
    ]  # fmt: skip
    assert {"torch", "numpy", "cmake", "setuptools"} <= set(asked)
    waiting = [Requirement(word) for word in asked if "$" not in word]
    waiting += [Requirement(f"deep-learning-harness[{extras(name)}]")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        key = plain(wanted.name), frozenset(wanted.extras)
        if key in seen:
            continue
        seen.add(key)
        assert key[0] in pins or key[0] == "deep-learning-harness", wanted
        try:
            needs = metadata.requires(wanted.name) or []
        except metadata.PackageNotFoundError:
            continue  # a build tool that is not installed here
        for text in needs:
            requirement = Requirement(text)
            if any(
                requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in ("", *wanted.extras)
            ):
                waiting.append(requirement)
    assert len(seen) > 40


def test_the_pages_are_built_from_what_their_stage_copies_alone(tmp_path):
    """That stage, done by hand: in a folder with only what its COPY steps bring, and the packages installed here."""
    node = shutil.which("node")
    if node is None or not (REPOSITORY / "node_modules").is_dir():
        pytest.skip(NO_NODE)
    (stage,) = [stage for stage in stages("Dockerfile") if stage.name == "pages"]
    for _, sources, target in stage.copies():
        for file in context():
            for source in sources:
                if file == source or file.startswith(f"{source}/"):
                    place = tmp_path / target / (file.removeprefix(source).lstrip("/") or Path(source).name)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(REPOSITORY / file, place)
    (tmp_path / "node_modules").symlink_to((REPOSITORY / "node_modules").resolve())
    assert ["npm", "run", "build"] in stage.commands
    script = json.loads((tmp_path / "package.json").read_text())["scripts"]["build"].split()
    done = subprocess.run([node, *script[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "harness/frontend/dist/dlh/app.js").is_file()


def test_only_sources_go_into_an_image():
    sent = context()
    assert {"manage.py", "harness/settings.py", "templates", "worker/agent.py"} - {"templates"} <= sent
    assert not [
        name for name in sent if name.split("/")[0] in {"var", "tests", "docs", ".git", ".venv", "node_modules"}
    ]
    assert not [
        name for name in sent if name.startswith("deploy/") and "horovod" not in name and "constraints" not in name
    ]
    assert not [name for name in sent if "__pycache__" in name or "frontend/dist" in name]


@pytest.mark.parametrize(
    "path",
    [
        "var/secrets/secret_key", "deploy/compose/.env", "deploy/compose/secrets/nodes/cache-1", ".env", ".git/config",
        "harness/frontend/dist/dlh/app.js", "worker/__pycache__/agent.pyc", "node_modules/x", "tests/conftest.py",
    ],
)  # fmt: skip
def test_what_is_secret_or_made_is_kept_out(path):
    assert not let_in(path)


@pytest.mark.parametrize("path", ["harness/settings.py", "deploy/horovod/build.sh", "templates/a/b.html", ".npmrc"])
def test_sources_are_let_in(path):
    assert let_in(path)


@pytest.mark.parametrize("name", FILES)
def test_no_layer_holds_a_secret(name):
    words = re.compile(r"secret|passw|token|credential|private", re.IGNORECASE)
    for stage in stages(name):
        assert not [text for text in stage.of("ARG", "ENV", "LABEL", "COPY", "ADD") if words.search(text)]
        assert not [command for command in stage.commands if any("://" in word and "@" in word for word in command)]
    keys = re.compile(r"(^|/)(id_[a-z0-9]+|\.env|\.netrc|\.pypirc|.*\.(pem|key|p12|sqlite3?))$")
    assert not [file for file in context() if keys.search(file)]
    npm = (REPOSITORY / ".npmrc").read_text()
    assert "_auth" not in npm.lower() and "token" not in npm.lower()


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_a_package_that_this_python_cannot_compile_does_not_end_the_build(name):
    (line,) = [text for text in stages(name)[-2].of("RUN") if "compileall" in text]
    assert re.search(r"compileall -q /app\s+&&", line), "ours must compile"
    assert re.search(r"compileall -q /opt/dlh/lib\b[^&]*\|\| true; }", line)
