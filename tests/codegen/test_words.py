"""Words of text columns: what is learned from them, from which rows, and that new texts are read the same way."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import torch

from codegen.profile.types import ColumnType
from codegen.reading import scores_of_a_text, table_shape, topics_of_a_text
from codegen.resolve import resolve
from codegen.spec import TaskSpec
from tests.codegen.data_tables import REVIEWS_SHAPE, TABULAR, load_table, make_reviews
from tests.codegen.model_profiles import TWO_CORES, column, table
from tests.codegen.programs import module
from worker.runtime.spec import as_spec

WORDS = module("words.py")


def texts(*values: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def learn(some: pa.ChunkedArray, topics: int) -> dict:
    learned = WORDS.learn_words(some)
    learned |= WORDS.learn_topics(WORDS.weighted(learned, some), topics)
    return learned | {"scores": 0, "score_weights": ""}


def directions(learned: dict) -> torch.Tensor:
    return WORDS.unpacked(learned["directions"], len(learned["words"]), learned["topics"])


def numbers(learned: dict, some: pa.ChunkedArray) -> np.ndarray:
    return np.stack(list(WORDS.text_numbers(learned, some, "t").values()), axis=1)


def test_a_word_is_a_run_of_letters_and_digits_in_lower_case():
    rows, words = WORDS.split_words(texts("Größe: 3,5 m²!", None, "", " (don't) ΟΔΟΣ\nsnake_case"))
    assert words.to_pylist() == ["größe", "3", "5", "m²", "don", "t", "οδοσ", "snake_case"]
    assert rows.tolist() == [0, 0, 0, 0, 3, 3, 3, 3]


def test_where_words_are_not_set_apart_letters_and_pairs_of_them_are_words():
    rows, words = WORDS.split_words(texts("日本 ABC語", "ไม่", None, "great 👍👍!", "plain"))
    found = [sorted(word for row, word in zip(rows, words.to_pylist(), strict=True) if row == at) for at in range(5)]
    assert found[0] == sorted(["日", "本", "日本", "abc", "語"])
    assert found[1] == sorted(["ไ", "ม", "\u0e48", "ไม", "ม\u0e48"])
    assert found[2:] == [[], sorted(["great", "👍", "👍", "👍👍"]), ["plain"]]


def test_reviews_in_a_script_without_spaces_are_told_apart_as_those_with_spaces(tmp_path):
    generator = np.random.default_rng(3)
    labels = [("good", "bad")[row % 2] for row in range(400)]
    fitting = {"good": ["好吃", "喜欢", "满意"], "bad": ["难吃", "讨厌", "失望"]}
    fillers = ["今天", "我们", "这家", "店的", "东西", "真的", "非常"]

    def said(label):
        parts = [*generator.choice(fillers, 4), generator.choice(fitting[label])]
        return "".join(generator.permutation(parts)) + f"{generator.integers(10**6)}"

    table = pa.table({"review": [said(label) for label in labels], "label": labels})
    data = load_table(tmp_path, table, **{**REVIEWS_SHAPE, "numeric": [], "indicators": []})
    score = data.test.inputs[0][:, data.shape["features"].index("review: score 1")].numpy()
    assert abs(np.corrcoef(score, data.test.targets.numpy())[0, 1]) > 0.9


def test_of_a_very_long_text_the_beginning_is_read():
    _, words = WORDS.split_words(texts("word " * 4000 + "last"))
    assert len(words) == 4000 and set(words.to_pylist()) == {"word"}


def test_the_most_frequent_words_are_known_each_counted_once_per_text(monkeypatch):
    monkeypatch.setattr(WORDS, "BLOCK_ROWS", 2)
    some = texts("a a a b", "a b", "c a", "b", "c c c c", None, "d d d d")
    assert WORDS.count_words(some).to_pydict() == {"word": ["a", "b", "c"], "texts": [3, 3, 2]}
    monkeypatch.setattr(WORDS, "KNOWN_WORDS", 1)
    assert WORDS.count_words(some)["word"].to_pylist() == ["a"]


def test_the_weight_of_a_word_is_its_tf_idf_in_a_text_of_length_one():
    some = texts("a a b", "a b", "a b", "a")
    weights = WORDS.weighted(learn(some, 2), some).to_dense().numpy()
    expected = np.array([1 + np.log(2), round(np.log(5 / 4) + 1, 3)])
    np.testing.assert_allclose(weights[0], expected / np.linalg.norm(expected))
    np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1)


def test_topics_are_the_directions_of_a_whole_singular_value_decomposition():
    some = make_reviews()["review"]
    learned = learn(some, 8)
    weights = WORDS.weighted(learned, some).to_dense().numpy()
    largest = np.linalg.svd(weights, compute_uv=False)[:8]
    kept = np.linalg.norm(np.nan_to_num(numbers(learned, some)))
    assert kept == pytest.approx(np.linalg.norm(largest), rel=0.02)


@pytest.mark.parametrize(
    "some",
    [texts(*(f"a{row % 20} b{row // 20 % 20}" for row in range(800))), texts(*(f"w{row % 40}" for row in range(800)))],
    ids=["pairs", "one_word_each"],
)
def test_topics_are_the_same_where_texts_differ_as_much_in_many_directions(some, monkeypatch):
    """There another order of sums, as of another processor, would rotate them: here it is that of the texts."""
    learned, turned = learn(some, 16), learn(pa.chunked_array([some.combine_chunks()[::-1]]), 16)
    assert torch.equal(directions(learned), directions(turned))


def test_no_two_words_weigh_alike_where_topics_are_found():
    words = WORDS.KNOWN_WORDS
    table = torch.ones(1, words, dtype=torch.float64).to_sparse()
    shades = WORDS.shaded(table).values()
    assert len(shades.unique()) == words and 1 <= shades.min() < shades.max() <= 1 + WORDS.APART


def test_topics_are_the_same_whatever_was_drawn_before_and_draw_nothing_themselves():
    some = make_reviews()["review"]
    torch.manual_seed(1)
    first, after = learn(some, 8), torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    assert learn(some, 8) == first


def test_a_text_alone_has_the_numbers_that_it_has_among_others(monkeypatch):
    some = make_reviews()["review"]
    learned = learn(some, 8)
    whole = numbers(learned, some)
    monkeypatch.setattr(WORDS, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(numbers(learned, some), whole, atol=1e-12)
    np.testing.assert_allclose(numbers(learned, some.slice(3, 1)), whole[3:4], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "most", "taken"), [("LEARN_ROWS", 3, [0, 2, 4]), ("LEARN_LETTERS", 8, [0, 2, 4]), ("LETTERS", 0, range(5))]
)
def test_of_very_many_or_long_texts_words_are_learned_from_some_at_even_distances(name, most, taken, monkeypatch):
    table = pa.table({"a": ["long", "long", None, "", "long"], "b": [None] * 5})
    assert WORDS.rows_to_learn(table, ["a", "b"]).tolist() == list(range(5))
    monkeypatch.setattr(WORDS, name, most)
    assert WORDS.rows_to_learn(table, ["a", "b"]).tolist() == list(taken)


@pytest.mark.parametrize("values", [["x"] * 9, [None] * 9, [str(row) for row in range(9)]], ids=["one", "none", "each"])
def test_texts_that_have_nothing_in_common_or_no_difference_give_few_topics(values: list[str | None]):
    learned = learn(texts(*values), 8)
    assert learned["topics"] == (1 if values[0] == "x" else 0)
    assert len(WORDS.text_numbers(learned, texts("x", None), "t")) == learned["topics"]


def test_whoever_needs_no_good_topics_learns_from_fewer_rows():
    table = make_reviews()
    targets = np.arange(table.num_rows) % 2
    few, all_rows = (
        WORDS.learn(as_spec({**REVIEWS_SHAPE, **more}), table, targets, 2) for more in ({"learn_rows": 50}, {})
    )
    assert (len(few.rows), len(all_rows.rows)) == (50, table.num_rows)
    assert few.numbers["review"].keys() == all_rows.numbers["review"].keys()


def test_reviews_are_told_apart_by_their_words(tmp_path):
    dataset = load_table(tmp_path, make_reviews(), **REVIEWS_SHAPE)
    topics = [place for place, name in enumerate(dataset.shape["features"]) if "topic" in name]
    assert len(topics) == 8
    numeric, targets = dataset.train.inputs[0], dataset.train.targets.double()
    related = [abs(torch.corrcoef(torch.stack([numeric[:, place].double(), targets]))[0, 1]) for place in topics]
    assert max(related) > 0.8


def test_only_words_of_training_rows_are_learned(tmp_path):
    reviews = make_reviews()
    dataset = load_table(tmp_path, reviews, **REVIEWS_SHAPE)
    changed = np.array(reviews["review"].to_pylist(), dtype=object)
    changed[dataset.test.rows.numpy()] = "quite other words than those before"
    again = load_table(tmp_path, reviews.set_column(0, "review", pa.array(changed, pa.string())), **REVIEWS_SHAPE)
    assert again.preprocess["texts"] == dataset.preprocess["texts"]
    assert torch.isfinite(again.test.inputs[0]).all()


def test_predictions_read_words_exactly_as_training_did(tmp_path):
    reviews = make_reviews()
    dataset = load_table(tmp_path, reviews, **REVIEWS_SHAPE)
    preprocess = json.loads(json.dumps(dataset.preprocess))
    records = reviews.take(pa.array(dataset.test.rows.numpy())).drop_columns(["label"])
    assert torch.equal(TABULAR.transform(preprocess, records)[0], dataset.test.inputs[0])


def test_a_column_of_text_becomes_fewer_numbers_where_rows_are_few_or_texts_many():
    assert [topics_of_a_text(rows, 1) for rows in (5, 400, 25_600, 10**6)] == [1, 2, 128, 128]
    assert [topics_of_a_text(rows, 2) for rows in (400, 25_600)] == [1, 64]
    assert [topics_of_a_text(10**6, count) for count in (2, 8, 100)] == [128, 32, 8]


def test_a_column_of_text_has_a_score_per_class_within_limits_and_one_for_two_classes_or_a_number():
    assert [scores_of_a_text(outputs, 1) for outputs in (1, 2, 3, 20, 300)] == [1, 1, 3, 20, 20]
    assert [scores_of_a_text(300, count) for count in (3, 8, 100)] == [20, 8, 1]


def test_the_spec_names_topics_and_scores_of_each_text_behind_all_other_numbers():
    columns = [column("note", ColumnType.TEXT, missing=3), column("age", ColumnType.NUMERIC)]
    shape = table_shape(columns, 600)
    lengths = ["age", "note: characters", "note: missing", "note: words"]
    assert shape["features"] == [*lengths, *(f"note: topic {number}" for number in (1, 2, 3)), "note: score 1"]
    assert (shape["topics"], shape["scores"]) == (3, 1)
    assert not {"topics", "scores"} & set(table_shape(columns[1:], 30))


def test_what_becomes_of_a_text_is_told_with_the_choices():
    (told,) = [guess for guess in resolve(TaskSpec(), table(400), TWO_CORES).guesses if guess.field == "shape.topics"]
    assert told.value == 2 and "the words of note become" in told.reason and "400 rows bear no more" in told.reason
    without = TaskSpec.model_validate({"data": {"exclude": ["note"]}})
    assert "shape.topics" not in {guess.field for guess in resolve(without, table(200), TWO_CORES).guesses}
