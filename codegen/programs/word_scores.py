"""Says how much the words of texts, rare ones too, speak for each target: a few scores beside the topics of words.py.

A topic is what many texts have in common: a rare word, however telling, is in none. Here each known word has a weight
of its own for each score: one score per class, or one alone for two classes or a number. It is a ridge regression
(Hoerl and Kennard 1970, doi:10.1080/00401706.1970.10488634), the weights w that make

    |targets - texts w|^2 + strength |w|^2

least, found by conjugate gradients (Hestenes and Stiefel 1952, doi:10.6028/jres.049.044), which need no more than
products with the sparse table of texts and words.

The model reads the scores as inputs (Wolpert 1992, "Stacked Generalization", doi:10.1016/S0893-6080(05)80023-1).
Weights that have seen the target of a row score it better than any new row, and the model would trust them too much.
So the training rows are dealt into a few folds, and each fold is scored by the weights that the others gave. Rows with
the same texts are in one fold; where the split keeps groups together, so do the folds.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from worker.runtime.pulse import pulse

FOLDS = 4
STRENGTHS = (1.0, 3.0, 10.0, 30.0)  # one of them is chosen; a text's weights have length 1
TRIED_ROWS = 5000  # that it is chosen with, at most
STEPS = 12  # of the conjugate gradients: always as many, so that rounding has no say in when they end
TINY = 1e-300  # instead of 0 below a fraction, where nothing is left to do


def aims(targets: np.ndarray, classes: int, scores: int) -> torch.Tensor:
    """What the scores are to foretell, float64 [N, at most `scores`], each of mean 0; `classes` is 0 of numbers.

    Of more classes than scores the most frequent ones have a score; a part of the data may have fewer classes.
    """
    if classes > 2:
        frequent = np.argsort(-np.bincount(targets, minlength=classes), kind="stable")[:scores]
        wanted = (targets[:, None] == np.sort(frequent)).astype(np.float64)
    else:
        wanted = targets[:, None] / (targets.std() or 1.0)
    return torch.from_numpy(wanted - wanted.mean(0))


def deal(columns: list[pa.ChunkedArray]) -> torch.Tensor:
    """The fold of each row, int64 [N]: by chance, always the same, and one for all rows that have the same in these."""
    values = [column.cast(pa.string()).combine_chunks() for column in columns]
    distinct = pc.binary_join_element_wise(*values, "\0", null_handling="replace").dictionary_encode()
    folds = np.random.default_rng(0).permutation(len(distinct.dictionary)) % FOLDS
    return torch.from_numpy(folds[distinct.indices.to_numpy()])


def find_weights(table: torch.Tensor, wanted: torch.Tensor, fold: torch.Tensor) -> torch.Tensor:
    """Weights of words, float64 [words, FOLDS + 1, scores]: learned without each of the folds, and from all rows.

    Of some strengths the one is taken whose scores of rows not seen are most like what they foretell.
    """
    some = torch.linspace(0, len(fold) - 1, min(len(fold), TRIED_ROWS), dtype=torch.float64).long()
    tried = table.index_select(0, some), wanted[some], fold[some]

    def likeness_with(strength: float) -> float:
        found = likeness(unseen_scores(tried[0], solve(*tried, strength), tried[2]), tried[1])
        return round(found, 9)  # of strengths that are as good, the first: rounding has no say

    return solve(table, wanted, fold, max(STRENGTHS, key=likeness_with))


def unseen_scores(table: torch.Tensor, weights: torch.Tensor, fold: torch.Tensor) -> torch.Tensor:
    """Scores of rows, float64 [N, scores], each by the weights that were learned without its fold."""
    return products(table, weights)[torch.arange(len(fold)), fold]


def likeness(scores: torch.Tensor, wanted: torch.Tensor) -> float:
    """Mean of the squared correlations: how far they lie apart in size does not count, as the model scales them."""
    sizes = (scores**2).sum(0) * (wanted**2).sum(0)
    return float(((scores * wanted).sum(0) ** 2 / sizes.clamp(min=TINY)).mean())


def solve(table: torch.Tensor, wanted: torch.Tensor, fold: torch.Tensor, strength: float) -> torch.Tensor:
    """The weights of `find_weights` with this strength.

    They solve (texts' texts + strength) weights = texts' targets, of all folds at once: each keeps the rows of others.
    """
    kept = (fold[:, None, None] != torch.arange(FOLDS + 1)[:, None]).double()
    rest = products(table.T, kept * wanted[:, None])  # of the right side, what the weights do not give yet
    weights, way, length = torch.zeros_like(rest), rest.clone(), (rest**2).sum(0)
    for _ in range(STEPS):  # in place, as these are large
        given = products(table.T, kept * products(table, way)).add_(way, alpha=strength)
        far = length / (way * given).sum(0).clamp(min=TINY)
        weights.addcmul_(far, way)
        rest.addcmul_(far, given, value=-1)
        before, length = length, (rest**2).sum(0)
        way.mul_(length / before.clamp(min=TINY)).add_(rest)
        pulse.beat()
    return weights


def products(table: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """`table` [A, B] times each of `numbers` [B, ...]: [A, ...]."""
    return (table @ numbers.flatten(1)).view(len(table), *numbers.shape[1:])
