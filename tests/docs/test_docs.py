"""What the documents name exists: pages, files, commands with their flags, settings, specs, states, families."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from codegen import spec_yaml
from codegen.catalog import FAMILIES
from codegen.modes import MODES
from harness.client.cli.app import app
from scheduler.policies import names as policy_names
from tests.docs.pages import PAGES, ROOT, anchors, cells, commands, fences, links, spans, table, tables, text
from worker.states import HOLDS_DEVICES, TRANSITIONS

DOCS = ROOT / "docs"
_READ = {".py", ".sh", ".yaml", ".env", ""}
SOURCES = ("harness", "worker", "scheduler", "codegen", "deploy", "tests", "templates")


def _ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_ids)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=_ids)
def test_every_row_of_a_table_has_the_cells_of_its_head(page: Path) -> None:
    for lines in tables(page):
        assert len({len(cells(line)) for line in lines}) == 1, lines[0]


@pytest.mark.parametrize("page", PAGES, ids=_ids)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    for span in spans(page):
        if re.fullmatch(rf"({'|'.join(SOURCES)})/[\w./*{{}}-]+", span) and "NAME" not in span:
            assert list(ROOT.glob(span.rstrip("/"))), span


@lru_cache(maxsize=1)
def _dlh() -> Any:
    """All of `dlh`, as typer's own click."""
    return typer.main.get_command(app)


def _command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, and what is left of them."""
    found = _dlh()
    while words and words[0] in getattr(found, "commands", {}):
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize("page", PAGES, ids=_ids)
def test_every_dlh_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for line in commands(page, "dlh"):
        words = line.replace("|", " ").split()
        command, rest = _command(words)
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        assert rest != words or words[0].startswith("-"), f"there is no command dlh {line}"
        assert not hasattr(command, "commands") or not rest or rest[0] in known, f"there is no command dlh {line}"
        assert [word for word in rest if word.startswith("--") and word.split("=")[0] not in known] == [], line


def test_every_make_target_of_a_page_exists() -> None:
    rules = re.findall(r"^([a-z][a-z -]*):", text(ROOT / "Makefile"), re.MULTILINE)
    targets = {name for rule in rules for name in rule.split()}
    benches = {path.stem.removeprefix("bench_") for path in (ROOT / "tests" / "benchmarks").glob("bench_*.py")}
    targets |= {f"bench-{name}" for name in benches} | {"bench-NAME"}
    for page in PAGES:
        for line in commands(page, "make"):
            words = [word for word in line.split() if "=" not in word and re.fullmatch(r"[a-zA-Z-]+", word)]
            assert not words or words[0] in targets, f"{page.name}: make {line}"


@pytest.mark.parametrize("page", [DOCS / "user-guide.md", DOCS / "modes.md"], ids=_ids)
def test_examples_of_specs_are_valid(page: Path) -> None:
    examples = fences(page, "yaml")
    assert examples
    for example in examples:
        spec_yaml.load(example)


def test_the_example_of_an_own_model_answers_each_row() -> None:
    import torch

    example, _ = fences(DOCS / "user-guide.md", "python")
    names: dict[str, Any] = {}
    exec(example, names)
    net = names["build"](SimpleNamespace(shape=SimpleNamespace(features=["a", "b"], outputs=3)))
    assert net(torch.zeros(5, 2), torch.zeros(5, 1, dtype=torch.long)).shape == (5, 3)


def test_every_setting_is_read_somewhere_and_every_setting_of_the_portal_is_documented() -> None:
    files = (path for folder in SOURCES[:5] for path in (ROOT / folder).rglob("*") if path.suffix in _READ)
    read = set(re.findall(r"DLH_[A-Z0-9_]+[A-Z0-9]", "\n".join(path.read_text() for path in files if path.is_file())))
    for page in PAGES:
        named = re.findall(r"`(DLH_[A-Z0-9_]+[A-Z0-9])[=`]", text(page))
        assert [name for name in named if not {name, name.removesuffix("_FILE")} & read] == [], page.name
    settings = set(re.findall(r'"(DLH_[A-Z0-9_]+)"', text(ROOT / "harness" / "settings.py")))
    assert settings - set(re.findall(r"DLH_[A-Z0-9_]+", text(DOCS / "operator-guide.md"))) == set()


def test_every_setting_is_also_read_from_a_file_but_for_those_that_the_guide_excepts() -> None:
    guide = text(DOCS / "operator-guide.md")
    section, settings = "", set()
    for line in guide[guide.index("## Settings") : guide.index("## Several machines")].splitlines():
        section = line if line.startswith("| **") else section
        if line.startswith("| `DLH_") and "**Nodes**" not in section:
            settings |= set(re.findall(r"`(DLH_[A-Z0-9_]+)`", line.split("|")[1]))
    assert {"DLH_TOKEN", "DLH_SECRET_KEY", "DLH_STORE"} <= settings and "DLH_NODE_CORES" not in settings
    (excepted,) = re.findall(r"`NAME_FILE=[^)]*\), except\n([^.]*)\.", guide)
    others = {
        ROOT / "harness" / "stack" / "demo.py",  # gets them from the stack, which made them
        ROOT / "harness" / "pages" / "predict_calls.py",  # an example for a person's own program
    }
    plainly = {
        name
        for path in (ROOT / "harness").rglob("*.py")
        if path not in others
        for name in re.findall(r'environ(?:\.get\(|\[)"(DLH_[A-Z0-9_]+)"(?!\] *=)', path.read_text())
    }
    assert plainly & settings <= set(re.findall(r"`(DLH_[A-Z0-9_]+)`", excepted))


def test_the_table_of_states_is_that_of_the_code() -> None:
    rows = {row[0].strip("`"): row for row in table(DOCS / "architecture.md", "| state |")}
    assert set(rows) == {str(state) for state in TRANSITIONS}
    for state, after in TRANSITIONS.items():
        assert set(re.findall(r"`(\w+)`", rows[str(state)][3])) == {str(new) for new in after}, state
        assert ("held" in rows[str(state)][2]) == (state in HOLDS_DEVICES), state


def test_the_tasks_that_control_and_nodes_do_are_told() -> None:
    told = text(DOCS / "architecture.md").split("Control's beat", 1)[1].split("\n\n", 1)[0]
    beats = re.findall(r'_beat\("(control\.\w+)"', (ROOT / "harness/celery.py").read_text())
    of_nodes = re.findall(r'name="node\.(\w+)"', (ROOT / "worker/tasks.py").read_text())
    named = set(re.findall(r"`(?:node\.)?([\w.]+)`", told))
    assert beats and of_nodes and {*beats, *of_nodes} == named


def test_the_table_of_families_is_that_of_the_catalog() -> None:
    rows = {row[0].strip("`"): row for row in table(DOCS / "user-guide.md", "| family |")}
    assert set(rows) == set(FAMILIES)
    for name, family in FAMILIES.items():
        if family.knobs:
            assert re.findall(r"`(\w+)`", rows[name][2]) == [knob.name for knob in family.knobs], name


def test_policies_and_modes_are_all_described() -> None:
    assert {row[0].strip("`") for row in table(DOCS / "scheduling.md", "| name | rule |")} == set(policy_names())
    assert {row[0].strip("`") for row in table(DOCS / "modes.md", "| mode | processes |")} == set(MODES)


def test_every_decision_is_listed_once() -> None:
    listed = [link for link in links(DOCS / "decisions" / "README.md") if re.match(r"\d{3}-", link)]
    assert sorted(listed) == sorted(path.name for path in (DOCS / "decisions").glob("[0-9]*.md"))


def test_every_test_that_the_table_of_faults_names_is_there() -> None:
    named = re.findall(r"\b((?:e2e|worker|harness)/[\w/]*test_\w+)", text(DOCS / "faults.md"))
    assert named
    assert [name for name in named if not (ROOT / "tests" / f"{name}.py").exists()] == []


def test_every_photograph_of_the_portal_is_shown_in_the_readme_and_taken_by_make_pictures() -> None:
    there = {path.name for path in (DOCS / "images").glob("*.png")}
    assert there == {Path(link).name for link in links(ROOT / "README.md") if link.endswith(".png")}
    assert there == set(re.findall(r'"(\w+\.png)"', text(ROOT / "tests" / "e2e" / "pictures.py")))
