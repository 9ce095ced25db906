"""Which tables of offers were shown on this machine."""

from __future__ import annotations

from pathlib import Path

from harness.client.shown import ShownOffer, ShownOffers


def shown(offer: str, *, job: str = "job", url: str = "http://a", made_at: str = "1") -> ShownOffer:
    return ShownOffer(url=url, job=job, id=offer, made_at=made_at)


def test_the_table_that_was_shown_last_is_the_one_a_number_is_of(tmp_path: Path) -> None:
    memory = ShownOffers(tmp_path / "offers.json")
    for row in (shown("one"), shown("two"), shown("other", job="another"), shown("far", url="http://b")):
        memory.write(row)
    assert memory.last(url="http://a", job="job") == shown("two")
    memory.write(shown("one", made_at="2"))
    assert memory.last(url="http://a", job="job") == memory.last(url="http://a", job="job", offer="one")
    assert memory.last(url="http://a", job="job", offer="one") == shown("one", made_at="2")
    assert memory.last(url="http://a", job="job", offer="far") is None


def test_a_file_that_holds_nonsense_counts_as_none_and_is_written_anew(tmp_path: Path) -> None:
    memory = ShownOffers(tmp_path / "offers.json")
    for text in ("", "{", "[1]", '{"a": 1}', '[{"url": "x"}]'):
        memory.path.write_text(text)
        assert memory.read() == []
    memory.write(shown("one"))
    assert memory.read() == [shown("one")]


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    memory = ShownOffers(tmp_path / "offers.json")
    for number in range(120):
        memory.write(shown(str(number)))
    assert len(memory.read()) == 100 and memory.last(url="http://a", job="job") == shown("119")
