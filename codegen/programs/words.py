"""Reads the words of text columns: what a text is about, as a few numbers.

Latent semantic analysis (Deerwester et al. 1990, "Indexing by Latent Semantic Analysis", doi:10.1002/(SICI)1097-4571
(199009)41:6<391::AID-ASI1>3.0.CO;2-9), learned from the training rows only:

- Words: runs of letters, digits and underscores, in lower case. Known are the most frequent ones.
- A text is a list of weights, one for each known word in it: more for a word that it repeats, much more for a word that
  few texts have (tf-idf), and of length 1 over all words, so that long texts weigh no more than short ones.
- Words that occur in the same texts lie in one direction: the few directions in which the texts differ most (a singular
  value decomposition, by random projections: Halko, Martinsson, Tropp 2011, arXiv:0909.4061) are the topics. A text
  becomes one number per topic: how far it lies in that direction.

The order of the words is not read. Where words are not set apart (Chinese, Japanese, Thai), little is learned.
"""

import base64
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from worker.runtime.pulse import pulse

BETWEEN_WORDS = r"[^\p{L}\p{N}_]+"
KNOWN_WORDS = 10_000  # most frequent words kept per column
LETTERS = 20_000  # of a longer text the beginning is read
LEAST_TEXTS = 3  # that a word occurs in
LEARN_ROWS = 20_000  # evenly spaced, that words and topics are learned from: more rows hardly change them
BLOCK_ROWS = 2048  # whose words are in memory at a time
OVERSAMPLING, PASSES = 10, 2  # of the random projections: directions more than wanted, times that they are refined
APART = 1e-3  # by how much at most words weigh more than they do, where topics are found: see `shaded`
NEGLIGIBLE = 1e-6  # directions in which texts differ by less, compared with the first, are rounding


def some_rows(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """So many of the texts as words and topics are learned from."""
    if len(texts) <= LEARN_ROWS:
        return texts
    return texts.take(pa.array(np.linspace(0, len(texts) - 1, LEARN_ROWS).astype(np.int64)))


def learn(texts: pa.ChunkedArray, topics: int) -> dict:
    """Known words, their weights and at most so many topics. Returns JSON values."""
    known = count_words(texts)
    weights = np.log((1 + len(texts)) / (1 + known["texts"].to_numpy())) + 1
    learned = {"words": known["word"].to_pylist(), "weights": weights.round(3).tolist()}
    directions = find_directions(weighted(learned, texts), topics)
    return learned | {"topics": directions.shape[1], "directions": packed(directions)}


def topic_numbers(learned: dict, texts: pa.ChunkedArray, name: str) -> dict[str, np.ndarray]:
    """Feature name -> float64 [N] for each topic, NaN where the text is missing."""
    numbers = np.full((len(texts), learned["topics"]), np.nan)
    directions = torch.from_numpy(unpacked(learned))
    if learned["topics"]:
        for rows, some in blocks(texts):
            numbers[rows] = (weighted(learned, some) @ directions).numpy()
    numbers[pc.is_null(texts).to_numpy()] = np.nan
    return {f"{name}: topic {number}": values for number, values in enumerate(numbers.T, 1)}


def blocks(texts: pa.ChunkedArray) -> Iterator[tuple[slice, pa.ChunkedArray]]:
    """(which rows, their texts), a few at a time."""
    for start in range(0, len(texts), BLOCK_ROWS):
        some = texts.slice(start, BLOCK_ROWS)
        yield slice(start, start + len(some)), some
        pulse.beat()


def split_words(texts: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """(row int64 [M], word [M]) of all words in the texts."""
    begun = pc.utf8_slice_codeunits(texts.cast(pa.string()), 0, LETTERS)
    lists = pc.split_pattern_regex(pc.utf8_lower(begun.combine_chunks()), BETWEEN_WORDS)
    rows, words = pc.list_parent_indices(lists), pc.list_flatten(lists)
    is_word = pc.not_equal(words, "")  # what stands before the first separator, or behind the last one
    return rows.filter(is_word).to_numpy().astype(np.int64), words.filter(is_word)


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


def unpacked(learned: dict) -> np.ndarray:
    """What `packed` has packed, float64 [words, topics]."""
    numbers = np.frombuffer(base64.b64decode(learned["directions"]), "<f2")
    return numbers.reshape(len(learned["words"]), learned["topics"]).astype(np.float64)
