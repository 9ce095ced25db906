"""Reads the words of text columns: what a text is about, and what it says of the target, as some numbers.

Latent semantic analysis (Deerwester et al. 1990, "Indexing by Latent Semantic Analysis", doi:10.1002/(SICI)1097-4571
(199009)41:6<391::AID-ASI1>3.0.CO;2-9), learned from the training rows only:

- Words: runs of letters, digits and underscores, in lower case. Of scripts that set no words apart (Chinese, Japanese,
  Thai ...) each letter is a word, and each two that follow each other; so are emoji. Known are the most frequent ones.
- A text is a list of weights, one for each known word in it: more for a word that it repeats, much more for a word that
  few texts have (tf-idf), and of length 1 over all words, so that long texts weigh no more than short ones.
- Words that occur in the same texts lie in one direction: the few directions in which the texts differ most (a singular
  value decomposition, by random projections: Halko, Martinsson, Tropp 2011, arXiv:0909.4061) are the topics. A text
  becomes one number per topic: how far it lies in that direction.
- Beside its topics a text has a few scores: how much its words speak for each target (word_scores.py).

The order of the words is not read.
"""

import base64
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
import word_scores

from worker.runtime.columns import Columns
from worker.runtime.pulse import pulse

ALONE = (  # ranges of what is a word by itself: Thai and Lao, Burmese, Khmer, kana, Han, emoji
    "\u0e01-\u0eff\u1000-\u109f\u1780-\u17dd\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f"
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u2600-\u27bf\U0001f300-\U0001faff"
)
BETWEEN_WORDS = rf"[^\p{{L}}\p{{N}}_{ALONE}]+"
KNOWN_WORDS, TOPIC_WORDS = 30_000, 10_000  # most frequent words kept per column; those of them that topics consist of
LETTERS = 20_000  # of a longer text the beginning is read
LEAST_TEXTS = 2  # that a word occurs in
LEARN_ROWS, TOPIC_ROWS = 100_000, 20_000  # learned from at most, evenly spaced: more rows hardly change the topics
LEARN_LETTERS = 1 << 24  # learned from at most, of all columns together: they limit the memory that it takes
BLOCK_ROWS = 2048  # whose words are in memory at a time
OVERSAMPLING, PASSES = 10, 2  # of the random projections: directions more than wanted, times that they are refined
APART = 1e-3  # by how much at most words weigh more than they do, where topics are found: see `shaded`
NEGLIGIBLE = 1e-6  # directions in which texts differ by less, compared with the first, are rounding


class Read(NamedTuple):
    """What was learned from the texts of some training rows."""

    rows: np.ndarray  # their places among the training rows, int64 [N]
    learned: dict[str, dict]  # column -> its known words with their weights, topics and scores: JSON values
    numbers: dict[str, dict[str, np.ndarray]]  # column -> feature -> what these rows have, float64 [N]
    unseen: dict[str, np.ndarray]  # those of the features that are scores, which have not seen the rows' targets


def learn(shape, table: Columns, targets: np.ndarray, classes: int, groups: pa.ChunkedArray | None = None) -> Read:
    """Learn from training rows what topics and scores of texts are; `classes` is 0 where targets are numbers.

    `groups`: what the split keeps together, where it does, so that scores are of groups never seen, as in the test.
    """
    if not shape.texts:  # somebody took them out of spec.yaml
        return Read(np.empty(0, np.int64), {}, {}, {})
    rows = rows_to_learn(table, shape.texts, shape.get("learn_rows"))
    texts = {name: table.take(rows)[name] for name in shape.texts}
    learned = {name: learn_words(some) for name, some in texts.items()}
    tables = {name: weighted(learned[name], some) for name, some in texts.items()}
    wanted = word_scores.aims(targets[rows], classes, shape.scores)
    for name, some in tables.items():
        learned[name] |= learn_topics(some, shape.topics) | {"scores": wanted.shape[1]}

    # the words of all columns foretell the targets together; a column's scores are its part of the sum
    fold = word_scores.deal(list(texts.values()) if groups is None else [groups.take(pa.array(rows))])
    found = word_scores.find_weights(torch.cat(list(tables.values()), 1).coalesce(), wanted, fold)
    numbers, unseen = {}, {}
    for name, weights in zip(texts, found.split([some.shape[1] for some in tables.values()]), strict=True):
        weights = weights.half().double()  # as they are kept
        learned[name]["score_weights"] = packed(weights[:, -1].numpy())
        values, topics = multiplied(learned[name], tables[name]), learned[name]["topics"]
        values[:, topics:] = word_scores.unseen_scores(tables[name], weights, fold)
        numbers[name] = named(learned[name], values, texts[name], name)
        unseen |= list(numbers[name].items())[topics:]
    return Read(rows, learned, numbers, unseen)


def rows_to_learn(table: Columns, names: list[str], most: int | None = None) -> np.ndarray:
    """Places of the rows to learn from: all, or evenly spaced ones where rows or letters are very many.

    `most`: of them, for whoever needs topics but no good ones, such as the trace of a program.
    """
    lengths = [pc.utf8_length(table[name].cast(pa.string())) for name in names]
    lengths = [pc.min_element_wise(length, LETTERS, skip_nulls=False) for length in lengths]
    letters = sum(pc.sum(length).as_py() or 0 for length in lengths)
    count = min(table.num_rows, most or LEARN_ROWS, table.num_rows * LEARN_LETTERS // max(letters, 1))
    return np.linspace(0, table.num_rows - 1, count).astype(np.int64)


def learn_words(texts: pa.ChunkedArray) -> dict:
    """Known words and their weights: JSON values."""
    known = count_words(texts)
    weights = np.log((1 + len(texts)) / (1 + known["texts"].to_numpy())) + 1
    return {"words": known["word"].to_pylist(), "weights": weights.round(3).tolist(), "alone": ALONE}


def learn_topics(table: torch.Tensor, topics: int) -> dict:
    """At most so many topics: JSON values."""
    some = np.linspace(0, len(table) - 1, min(len(table), TOPIC_ROWS)).astype(np.int64)
    directions = find_directions(frequent(table.index_select(0, torch.from_numpy(some))), topics)
    return {"topics": directions.shape[1], "directions": packed(directions)}


def text_numbers(learned: dict, texts: pa.ChunkedArray, name: str) -> dict[str, np.ndarray]:
    """Feature name -> float64 [N] for each topic and score, NaN where the text is missing."""
    values = np.empty((len(texts), learned["topics"] + learned["scores"]))
    for rows, some in blocks(texts):
        values[rows] = multiplied(learned, weighted(learned, some))
    return named(learned, values, texts, name)


def multiplied(learned: dict, table: torch.Tensor) -> np.ndarray:
    """The topics and scores of texts, float64 [N, topics + scores]."""
    most = frequent(table)
    directions = unpacked(learned["directions"], most.shape[1], learned["topics"])
    score_weights = unpacked(learned["score_weights"], table.shape[1], learned["scores"])
    return torch.cat([most @ directions, table @ score_weights], 1).numpy()


def frequent(table: torch.Tensor) -> torch.Tensor:
    """The part of the table with the words that topics consist of, which come first."""
    return table.narrow_copy(1, 0, min(TOPIC_WORDS, table.shape[1])).coalesce()


def named(learned: dict, values: np.ndarray, texts: pa.ChunkedArray, name: str) -> dict[str, np.ndarray]:
    """Feature name -> its values, NaN where the text is missing."""
    values[pc.is_null(texts).to_numpy()] = np.nan
    kinds = [f"{kind} {number}" for kind in ("topic", "score") for number in range(1, learned[f"{kind}s"] + 1)]
    return {f"{name}: {kind}": column for kind, column in zip(kinds, values.T, strict=True)}


def blocks(texts: pa.ChunkedArray) -> Iterator[tuple[slice, pa.ChunkedArray]]:
    """(which rows, their texts), a few at a time."""
    for start in range(0, len(texts), BLOCK_ROWS):
        some = texts.slice(start, BLOCK_ROWS)
        yield slice(start, start + len(some)), some
        pulse.beat()


def split_words(texts: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """(row int64 [M], word [M]) of all words in the texts."""
    begun = pc.utf8_slice_codeunits(texts.cast(pa.string()), 0, LETTERS)
    lowered = pc.utf8_lower(begun.combine_chunks())
    some_alone = pc.any(pc.match_substring_regex(lowered, f"[{ALONE}]")).as_py()
    if some_alone:
        lowered = pc.replace_substring_regex(lowered, f"([{ALONE}])", r" \1 ")
    lists = pc.split_pattern_regex(lowered, BETWEEN_WORDS)
    rows, words = pc.list_parent_indices(lists), pc.list_flatten(lists)
    is_word = pc.not_equal(words, "")  # what stands before the first separator, or behind the last one
    rows, words = rows.filter(is_word).to_numpy().astype(np.int64), words.filter(is_word)
    return with_pairs(rows, words) if some_alone else (rows, words)


def with_pairs(rows: np.ndarray, words: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The words, and each two of one row that follow each other and are words by themselves."""
    by_itself = pc.match_substring_regex(words, f"^[{ALONE}]$").to_numpy(zero_copy_only=False)
    first = np.flatnonzero(by_itself[:-1] & by_itself[1:] & (rows[:-1] == rows[1:]))
    pairs = pc.binary_join_element_wise(words.take(pa.array(first)), words.take(pa.array(first + 1)), "")
    return np.concatenate([rows, rows[first]]), pa.concat_arrays([words, pairs])


def count_words(texts: pa.ChunkedArray) -> pa.Table:
    """Columns `word` and `texts` (how many it occurs in) of the known words, most frequent first."""
    counted = []
    for _, some in blocks(texts):
        rows, words = split_words(some)
        encoded = words.dictionary_encode()
        distinct = np.unique(rows * len(encoded.dictionary) + encoded.indices.to_numpy())  # a word once per row
        in_texts = np.bincount(distinct % max(1, len(encoded.dictionary)), minlength=len(encoded.dictionary))
        counted.append(pa.table({"word": encoded.dictionary, "texts": in_texts}))
    counts = pa.concat_tables(counted).group_by("word").aggregate([("texts", "sum")]).rename_columns(["word", "texts"])
    often = counts.filter(pc.field("texts") >= LEAST_TEXTS).sort_by([("texts", "descending"), ("word", "ascending")])
    return often.slice(0, KNOWN_WORDS)


def weighted(learned: dict, texts: pa.ChunkedArray) -> torch.Tensor:
    """The weights of the known words in each text, sparse float64 [N, words]."""
    known, weights = pa.array(learned["words"], pa.string()), np.asarray(learned["weights"])
    cells, values = [np.empty(0, np.int64)], [np.empty(0)]
    for rows, some in blocks(texts):
        row, word = split_words(some)
        place = pc.fill_null(pc.index_in(word, known), -1).to_numpy()
        cell, times = np.unique((row * len(known) + place)[place >= 0], return_counts=True)
        row, place = np.divmod(cell, max(1, len(known)))
        value = (1 + np.log(times)) * weights[place]
        length = np.sqrt(np.bincount(row, value**2, minlength=len(some)))
        cells.append(cell + rows.start * len(known))
        values.append(value / length[row])
    places = np.stack(np.divmod(np.concatenate(cells), max(1, len(known))))
    places, values = torch.from_numpy(places), torch.from_numpy(np.concatenate(values))
    size = (len(texts), len(known))
    return torch.sparse_coo_tensor(places, values, size, is_coalesced=True, check_invariants=False)


def find_directions(table: torch.Tensor, topics: int) -> np.ndarray:
    """The directions in which texts differ most, float64 [words, at most `topics`]; the same in each process."""
    if min(table.shape) == 0:
        return np.empty((table.shape[1], 0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        at_most = min(topics + OVERSAMPLING, *table.shape)
        _, sizes, directions = torch.svd_lowrank(shaded(table), q=at_most, niter=PASSES)
    pulse.beat()
    told = int((sizes > NEGLIGIBLE * sizes[0]).sum())
    found = directions[:, : min(topics, told)].numpy()
    largest = np.take_along_axis(found, np.abs(found).argmax(0)[None], axis=0)  # which end of a direction is up ...
    return found * np.sign(largest)  # ... is said by its heaviest word: the computation leaves it open


def shaded(table: torch.Tensor) -> torch.Tensor:
    """The table with each word weighing a shade more or less.

    Where texts differ as much in two directions, and where two words are as heavy, rounding would choose the topics:
    differently with other threads or processors, as ranks of one model and a resumed run may have.
    """
    places, values = table.indices(), table.values()
    shades = 1 + APART * torch.frac(places[1].double() * 0.6180339887498949)  # the golden ratio's: none alike
    return torch.sparse_coo_tensor(places, values * shades, table.shape, is_coalesced=True, check_invariants=False)


def packed(directions: np.ndarray) -> str:
    """Numbers as text, as a list of them would be ten times as long: their float16 bytes, in Base64."""
    return base64.b64encode(directions.astype("<f2").tobytes()).decode()


@lru_cache(maxsize=128)  # rows to predict for come in many small parts
def unpacked(text: str, rows: int, columns: int) -> torch.Tensor:
    """What `packed` has packed, float64 [rows, columns]."""
    numbers = np.frombuffer(base64.b64decode(text), "<f2").astype(np.float64)
    return torch.from_numpy(numbers).view(rows, columns)
