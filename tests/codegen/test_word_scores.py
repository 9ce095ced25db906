"""Scores of texts: what single words say of the target, learned without the rows that are scored."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.codegen.data_tables import REVIEWS_SHAPE, TABULAR, load_table, make_reviews, table_spec
from tests.codegen.programs import module

SCORES = module("word_scores.py")
ROWS = 600


def rare_words(rows: int = ROWS, seed: int = 2) -> pa.Table:
    """Texts of which one rare word tells the class and the amount, among a few that all have."""
    generator = np.random.default_rng(seed)
    kinds = generator.integers(0, 3, rows)
    telling = 3 * generator.integers(0, 20, rows) + kinds
    common = generator.integers(0, 20, (rows, 4))
    notes = [
        f"w{one} w{two} t{tell} w{three} w{four}" for tell, (one, two, three, four) in zip(telling, common, strict=True)
    ]
    amounts = 10.0 * kinds + generator.normal(size=rows)
    return pa.table({"note": notes, "kind": [f"class {kind}" for kind in kinds], "amount": amounts})


SHAPE = {
    "numeric": [], "indicators": [], "dates": [], "texts": ["note"], "topics": 8, "scores": 3, "categorical": [],
    "target": "kind",
}  # fmt: skip


def sparse(*shape: int, seed: int = 0) -> torch.Tensor:
    dense = np.random.default_rng(seed).normal(size=shape) * (np.random.default_rng(seed + 1).random(shape) < 0.3)
    return torch.from_numpy(dense).to_sparse()


def test_the_weights_of_all_folds_are_those_of_whole_ridge_regressions():
    table, wanted = sparse(60, 12), torch.from_numpy(np.random.default_rng(3).normal(size=(60, 2)))
    fold = torch.arange(60) % SCORES.FOLDS
    weights = SCORES.find_weights(table, wanted, fold)
    dense = table.to_dense()
    solved = []
    for strength in SCORES.STRENGTHS:
        kept = [fold != number for number in range(SCORES.FOLDS + 1)]
        parts = [(dense[rows], wanted[rows]) for rows in kept]
        solved.append(torch.stack([(x.T @ x + strength * torch.eye(12)).inverse() @ x.T @ y for x, y in parts], 1))
    assert min(float((weights - one).abs().max()) for one in solved) < 1e-6


def test_the_target_of_a_row_has_no_say_in_its_own_score():
    table, wanted = sparse(80, 30), torch.from_numpy(np.random.default_rng(3).normal(size=(80, 1)))
    fold, changed = torch.arange(80) % SCORES.FOLDS, wanted.clone()
    changed[5] += 100
    before, after = (
        SCORES.unseen_scores(table, SCORES.solve(table, one, fold, 1.0), fold) for one in (wanted, changed)
    )
    assert torch.equal(before[fold == fold[5]], after[fold == fold[5]])
    assert (before[fold != fold[5]] != after[fold != fold[5]]).any()


def test_rows_with_the_same_texts_are_in_one_fold_and_folds_are_of_one_size():
    rows = [f"text {row % 200}" for row in range(800)]
    columns = [pa.chunked_array([rows[:300], rows[300:]]), pa.chunked_array([[None] * 800], pa.string())]
    fold = SCORES.deal(columns)
    assert torch.equal(fold[:200].repeat(4), fold) and fold.bincount().tolist() == [200] * 4
    assert torch.equal(SCORES.deal(columns), fold)


def test_each_class_has_a_score_or_the_most_frequent_ones_and_two_classes_or_a_number_have_one():
    targets = np.array([0, 1, 1, 2, 3, 3, 3])
    assert (SCORES.aims(targets, 4, 4).argmax(1).numpy() == targets).all()
    few = SCORES.aims(targets, 4, 2)
    assert few.shape == (7, 2) and (few > 0).nonzero().tolist() == [[1, 0], [2, 0], [4, 1], [5, 1], [6, 1]]
    for classes, some in ((2, targets % 2), (0, targets / 1e9), (0, np.zeros(7))):
        one = SCORES.aims(some, classes, 1)
        assert one.shape == (7, 1) and float(one.mean()) == pytest.approx(0)
        assert float(one.std(correction=0)) == pytest.approx(1 if some.any() else 0)


@pytest.mark.parametrize("words", [0, 5])
def test_no_word_and_no_difference_in_the_target_give_scores_of_zero(words: int):
    table, fold = sparse(20, words).coalesce(), torch.arange(20) % SCORES.FOLDS
    weights = SCORES.find_weights(table, torch.zeros(20, 2, dtype=torch.float64), fold)
    assert weights.shape == (words, SCORES.FOLDS + 1, 2) and not weights.any()


def test_rare_words_tell_classes_apart_that_topics_do_not(tmp_path):
    dataset = load_table(tmp_path, rare_words(), **SHAPE)
    names = dataset.shape["features"]
    scores = dataset.test.inputs[0][:, [names.index(f"note: score {number}") for number in (1, 2, 3)]]
    assert float((scores.argmax(1) == dataset.test.targets).double().mean()) > 0.85


@pytest.mark.parametrize(("classes", "scores"), [(1, 0), (2, 1)])
def test_rows_of_a_sorted_table_may_have_fewer_classes_than_the_spec_tells_scores(tmp_path, classes: int, scores: int):
    """Programs are traced and tried on some rows of a large table."""
    kinds = pa.array([f"class {row % classes}" for row in range(ROWS)])
    dataset = load_table(tmp_path, rare_words().set_column(1, "kind", kinds), **SHAPE)
    assert sum("score" in name for name in dataset.shape["features"]) == scores
    again = TABULAR.transform(dataset.preprocess, rare_words())[0]
    assert again.shape == (ROWS, len(dataset.shape["features"]))


def test_a_column_that_is_named_as_a_score_keeps_its_own_numbers(tmp_path):
    name, numbers = "note: score 1", np.arange(ROWS) % 7.0
    dataset = load_table(tmp_path, rare_words().append_column(name, pa.array(numbers)), **SHAPE | {"numeric": [name]})
    own, rows = dataset.train.inputs[0][:, 0].numpy(), dataset.train.rows.numpy()
    assert dataset.shape["features"][0] == name and np.corrcoef(own, numbers[rows])[0, 1] > 0.99


def test_a_number_has_one_score(tmp_path):
    shape = SHAPE | {"target": "amount", "scores": 1}
    dataset = load_table(tmp_path, rare_words(), task="tabular_regression", **shape)
    score = dataset.test.inputs[0][:, dataset.shape["features"].index("note: score 1")]
    assert float(torch.corrcoef(torch.stack([score, dataset.test.targets]))[0, 1]) > 0.7


def test_training_rows_have_scores_that_have_not_seen_them(tmp_path):
    """Of targets by chance they tell nothing, though words that few rows have can tell all of those."""
    table = rare_words()
    chance = pa.array(np.random.default_rng(5).permutation(table["kind"].to_pylist()))
    dataset = load_table(tmp_path, table.set_column(1, "kind", chance), **SHAPE)
    place = dataset.shape["features"].index("note: score 1")
    trained = dataset.train.inputs[0][:, place], (dataset.train.targets == 0).float()
    again = TABULAR.transform(dataset.preprocess, table.take(pa.array(dataset.train.rows.numpy())))[0][:, place]
    assert abs(float(torch.corrcoef(torch.stack(trained))[0, 1])) < 0.15
    assert float(torch.corrcoef(torch.stack([again, trained[1]]))[0, 1]) > 0.3


def test_scores_of_training_rows_have_not_seen_their_group_where_the_split_keeps_groups_together(tmp_path):
    """Each group has a word of its own, and a class by chance, which that word would tell."""
    generator, of = np.random.default_rng(4), np.arange(ROWS) % 60
    kinds = generator.integers(0, 3, 60)[of]
    common = generator.integers(0, 20, (ROWS, 2))
    notes = [f"name{group} w{one} w{two}" for group, (one, two) in zip(of, common, strict=True)]
    table = pa.table({"note": notes, "kind": [f"class {kind}" for kind in kinds], "user": of})
    pq.write_table(table, tmp_path / "table.parquet")
    likeness = []
    for by in ("random", "group"):
        spec = table_spec(**SHAPE)
        spec["data"]["split"] |= {"by": by, "column": "user"}
        train = TABULAR.load(spec, tmp_path).train
        score, wanted = train.inputs[0][:, -3], (train.targets == 0).float()
        likeness.append(float(torch.corrcoef(torch.stack([score, wanted]))[0, 1]))
    assert likeness[0] > 0.8 and likeness[1] < 0.1


def test_of_strengths_that_are_as_good_the_first_is_taken():
    table, fold = torch.ones(40, 1, dtype=torch.float64).to_sparse().coalesce(), torch.arange(40) % SCORES.FOLDS
    wanted = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 1)))
    first = SCORES.solve(table, wanted, fold, SCORES.STRENGTHS[0])
    assert torch.equal(SCORES.find_weights(table, wanted, fold), first)


def test_scores_are_the_same_with_other_threads(tmp_path):
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(load_table(tmp_path, make_reviews(), **REVIEWS_SHAPE))
    finally:
        torch.set_num_threads(threads)
    assert found[0].preprocess["texts"] == found[1].preprocess["texts"]
    assert torch.equal(found[0].train.inputs[0], found[1].train.inputs[0])


def test_of_several_columns_each_has_its_own_part_of_the_score(tmp_path):
    table = rare_words()
    words = [text.split() for text in table["note"].to_pylist()]
    table = table.set_column(0, "note", pa.array([" ".join(word[:2]) for word in words]))
    table = table.append_column("rest", pa.array([" ".join(word[2:]) for word in words]))
    dataset = load_table(tmp_path, table, **SHAPE | {"texts": ["note", "rest"]})
    names, right = dataset.shape["features"], {}
    for column in ("note", "rest"):
        scores = dataset.test.inputs[0][:, [names.index(f"{column}: score {number}") for number in (1, 2, 3)]]
        right[column] = float((scores.argmax(1) == dataset.test.targets).double().mean())
    assert right["rest"] > 0.85 and right["note"] < 0.6
