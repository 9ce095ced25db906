"""Data templates: which rows are learned from, and which are kept to try what was learned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.codegen.data_tables import ROWS, load_table, make_table
from worker.runtime.split import same_rows, split_rows


def test_every_row_is_in_exactly_one_part_and_classes_are_balanced(tmp_path):
    dataset = load_table(tmp_path, make_table())
    rows = torch.cat([dataset.train.rows, dataset.val.rows, dataset.test.rows])
    assert sorted(rows.tolist()) == list(range(ROWS))
    for part in (dataset.train, dataset.val, dataset.test):
        assert part.targets.float().mean().item() == pytest.approx(0.75, abs=0.02)
    assert list(dataset.classes) == ["high", "low"]


def test_the_split_is_the_same_for_the_same_seed_and_another_for_another(tmp_path):
    first = load_table(tmp_path, make_table(), seed=1).test.rows
    assert torch.equal(first, load_table(tmp_path, make_table(), seed=1).test.rows)
    assert not torch.equal(first, load_table(tmp_path, make_table(), seed=2).test.rows)


def test_a_class_with_one_row_stays_in_training():
    labels = np.array([0] * 20 + [1] * 20 + [2])
    for seed in range(20):
        assert 40 in split_rows(41, 0.2, 0.2, seed, labels)["train"]


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_every_class_keeps_a_row_to_learn_from(share):
    labels = np.array([0] * 300 + [1, 1, 2, 2, 3, 3, 3])
    for seed in range(50):
        assert set(labels[split_rows(len(labels), share, share, seed, labels)["train"]]) == {0, 1, 2, 3}


def test_rows_that_are_alike_go_to_the_same_part():
    copies = np.arange(300) % 100
    for given in (None, ["train"] * 200 + ["test"] * 100):
        for labels in (None, copies % 3):
            parts = split_rows(300, 0.2, 0.2, 0, labels, given, copies=copies)
            assert sorted(np.concatenate(list(parts.values()))) == list(range(300))
            assert not set(copies[parts["train"]]) & set(copies[parts["val"]])
            assert given or not set(copies[parts["train"]]) & set(copies[parts["test"]])
            assert len(parts["val"]) == pytest.approx(40 if given else 60, abs=6)


def test_rows_without_copies_are_split_as_ever():
    labels = np.arange(200) % 4
    for given in (None, ["train", "train", "test", "val"] * 50, ["train", "train", "train", "test"] * 50):
        plain, told = (split_rows(200, 0.2, 0.1, 3, labels, given, copies=copies) for copies in (None, np.arange(200)))
        assert all(np.array_equal(plain[name], told[name]) for name in plain)


def repeated(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(copies, labels) of rows in groups of 1 to 30 equal ones."""
    generator = np.random.default_rng(seed)
    copies = np.repeat(np.arange(rows), generator.choice([1, 1, 1, 2, 3, 30], rows))[:rows]
    labels = (generator.random(rows) < 0.1).astype(np.int64)[copies]
    order = generator.permutation(rows)
    return copies[order], labels[order]


@pytest.mark.parametrize("seed", range(8))
def test_parts_keep_their_shares_and_classes_however_rows_repeat(seed):
    copies, labels = repeated(4000, seed)
    parts = split_rows(4000, 0.15, 0.2, seed, labels, copies=copies)
    for label, rows in enumerate(np.bincount(labels)):
        assert abs(np.count_nonzero(labels[parts["test"]] == label) - 0.2 * rows) <= 30
        assert abs(np.count_nonzero(labels[parts["val"]] == label) - 0.15 * rows) <= 60
    assert not set(copies[parts["train"]]) & set(copies[np.concatenate([parts["val"], parts["test"]])])


def test_rows_of_a_table_that_repeat_lie_in_one_part_and_are_counted(tmp_path):
    table = make_table(300).slice(0, 200)
    dataset = load_table(tmp_path, pa.concat_tables([table, table, table.slice(0, 50)]))
    part_of = np.empty(450, dtype="<U5")
    for name in ("train", "val", "test"):
        part_of[getattr(dataset, name).rows.numpy()] = name
    assert (part_of[:200] == part_of[200:400]).all() and (part_of[:50] == part_of[400:]).all()
    assert set(part_of) == {"train", "val", "test"}
    assert list(dataset.notes) == ["250 rows repeat another: copies lie in one part of the split."]
    assert list(load_table(tmp_path, table).notes) == []


def test_rows_are_copies_only_if_the_target_is_the_same_and_they_are_rare():
    table = pa.table({"a": [1.0, 1.0, None, None, 2.0] * 40, "b": ["x", "x", None, "", "y"] * 40})
    targets = np.array([0, 0, 0, 0, 1] * 40)
    once = pa.concat_tables([table.slice(0, 5), pa.table({"a": np.arange(100.0), "b": [f"{n}" for n in range(100)]})])
    numbers = same_rows(once, np.resize(targets, 105))
    assert [int(np.argmax(numbers == number)) for number in numbers[:5]] == [0, 0, 2, 3, 4]
    assert len(np.unique(same_rows(once, np.arange(105)))) == 105
    assert len(same_rows(table.slice(0, 0), targets[:0], targets[:0])) == 0
    assert len(np.unique(same_rows(table, targets))) == 200  # forty times the same: common, and so in every part
    apart = same_rows(table, np.arange(200) // 10, np.arange(200) // 10)
    assert len(np.unique(apart)) == 200  # the same inputs have other targets, too: alike by chance


@pytest.mark.parametrize("noise", [2.0, 0.5, 0.02], ids=["doubtful", "likely", "nearly certain"])
def test_what_a_test_says_of_a_table_of_few_answers_holds_for_new_rows(noise):
    found = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        yes_share = generator.beta(noise, noise, 512)
        cells = generator.integers(0, 512, 3000)
        labels = (generator.random(3000) < yes_share[cells]).astype(np.int64)
        answers = pa.table({"a": cells // 64, "b": cells // 8 % 8, "c": cells % 8})
        parts = split_rows(3000, 0.15, 0.2, seed, labels, copies=same_rows(answers, labels, labels))
        learnt = np.bincount(cells[parts["train"]], 2.0 * labels[parts["train"]] - 1.0, minlength=512) > 0
        told = (learnt[cells[parts["test"]]] == labels[parts["test"]]).mean()
        found.append(told - np.where(learnt, yes_share, 1 - yes_share).mean())
    assert np.mean(found) == pytest.approx(0.0, abs=0.03)  # with such rows as copies 0.3 too low


def test_copies_stay_copies_though_a_few_are_labelled_in_two_ways():
    generator = np.random.default_rng(0)
    observed = np.repeat(np.arange(500), 2)
    values, labels = generator.random(500)[observed], generator.integers(0, 2, 500)[observed]
    labels[:40:2] = 1 - labels[:40:2]
    table = pa.table({"value": values, "answer": generator.integers(0, 3, 500)[observed]})
    assert len(np.unique(same_rows(table, labels, labels))) == 520


def test_copies_across_a_split_that_the_data_brings_are_told(tmp_path):
    table = make_table(100).append_column("__split__", pa.array(["train"] * 80 + ["test"] * 20))
    table = pa.concat_tables([table, table.slice(0, 3).set_column(7, "__split__", pa.array(["test"] * 3))])
    (note,) = load_table(tmp_path, table).notes
    assert note.startswith("3 validation or test rows repeat training rows")


def test_a_given_split_is_kept_and_a_lacking_part_comes_from_training():
    given = ["train"] * 80 + ["test"] * 20
    parts = split_rows(100, 0.25, 0.5, 0, None, given)
    assert parts["test"].tolist() == list(range(80, 100))
    assert len(parts["val"]) == pytest.approx(20, abs=1)
    assert set(parts["val"]) <= set(range(80))
