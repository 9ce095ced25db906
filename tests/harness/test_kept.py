"""What tests of a module share is given to each as it was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.kept import Kept, kept


@pytest.fixture(scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept[SimpleNamespace]]:
    from harness.accounts.models import Project

    folder = tmp_path_factory.mktemp("made")

    def make() -> SimpleNamespace:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("as made")
        return SimpleNamespace(project=Project.objects.create(name="As made", slug="kept"), folder=folder)

    with kept(request, make, lambda world: [world.folder]) as found:
        yield found


@pytest.fixture
def world(made: Kept[SimpleNamespace], db: None) -> Iterator[SimpleNamespace]:
    with made.lent() as world:
        yield world


@pytest.mark.parametrize("turn", ["first", "second", "third"])
def test_rows_files_and_values_are_as_they_were_made_whatever_the_last_test_did(
    world: SimpleNamespace, turn: str
) -> None:
    from harness.accounts.models import Project

    file: Path = world.folder / "inner" / "file"
    assert world.project.name == Project.objects.get(slug="kept").name == "As made"
    assert Project.objects.count() == 1
    assert [path.name for path in world.folder.iterdir()] == ["inner"] and file.read_text() == "as made"
    world.project.name = turn
    Project.objects.create(name=turn, slug=turn)
    (world.folder / turn).write_text("new")
    if turn == "first":
        world.project.save()
        file.write_text("changed")
    else:
        Project.objects.filter(slug="kept").delete()
        file.unlink()


def test_a_module_that_commits_may_not_keep_a_world(request: pytest.FixtureRequest) -> None:
    item = SimpleNamespace(path=request.path, fixturenames=["live_server"], nodeid="this one")
    asked = SimpleNamespace(session=SimpleNamespace(items=[item]), path=request.path)
    with pytest.raises(pytest.UsageError, match="this one"), kept(asked, lambda: None, lambda _: []):
        pass
