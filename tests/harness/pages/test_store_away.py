"""Pages that name the free space of the store's disk are there while that disk is not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.store import StorePaths
from tests.harness.held_store import store_held

FREE = {"home": r"<dd>\s*[\d.]+ [KMGT]iB", "pool_storage": r"[\d.]+ [KMGT]iB free on the disk"}


def read(client: Client, name: str) -> str:
    answer = client.get(reverse(name))
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


@pytest.mark.parametrize("name", FREE)
def test_a_store_that_holds_whoever_asks_it_holds_no_page(
    owner: Client, settings: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert re.search(FREE[name], read(owner, name))
    with store_held(settings, monkeypatch) as asked:
        held = [read(owner, name), read(owner, name)]
    assert len(asked) == 1, "each page leaves a thread behind"
    for text in held:
        assert "does not answer" in text and not re.search(FREE[name], text) and "nearly full" not in text
    assert re.search(FREE[name], read(owner, name)), "a store that is back stays away"


@pytest.mark.parametrize("name", FREE)
def test_a_store_that_refuses_is_told_on_the_page(owner: Client, settings: Any, name: str, tmp_path: Any) -> None:
    (tmp_path / "file").touch()
    settings.STORE = StorePaths(tmp_path / "file" / "store")
    assert "does not answer" in read(owner, name)
