"""Pairs of embeddings that adapters learn from: real sentences and docstrings, and made ones."""

from __future__ import annotations

__all__ = ["TASKS", "Pairs", "Task", "made", "spearman_terms"]

import importlib
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.stats import rankdata
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from sklearn.utils import gen_batches

from benchmarks import data

_MODULES = [
    "numpy", *(f"numpy.{name}" for name in ("fft", "linalg", "ma", "polynomial", "random")),
    *(f"scipy.{name}" for name in ("cluster.hierarchy", "fft", "integrate", "interpolate")),
    *(f"scipy.{name}" for name in ("io", "linalg", "ndimage", "optimize", "signal", "sparse")),
    *(f"scipy.{name}" for name in ("sparse.csgraph", "sparse.linalg", "spatial")),
    *(f"scipy.{name}" for name in ("spatial.distance", "special", "stats", "stats.mstats")),
    *(f"sklearn.{name}" for name in ("cluster", "covariance", "decomposition", "ensemble")),
    *(f"sklearn.{name}" for name in ("feature_extraction.text", "linear_model", "metrics")),
    *(f"sklearn.{name}" for name in ("model_selection", "neighbors", "pipeline")),
    *(f"sklearn.{name}" for name in ("preprocessing", "svm", "tree", "utils")),
]  # fmt: skip
# Rows of a block of made embeddings.
_BLOCK = 4096


class Pairs(NamedTuple):
    """Queries and a database.

    `y`: scores of rows that are pairs; or a sparse matrix, above 0 where a point of the database
    belongs to a query.
    """

    queries: np.ndarray
    y: Any
    database: np.ndarray

    @property
    def scored(self) -> bool:
        """True if `y` has a score for each row."""
        return isinstance(self.y, np.ndarray)

    def take(self, rows: np.ndarray) -> Pairs:
        """Return some queries; a database of scored pairs has the same rows."""
        database = self.database[rows] if self.scored else self.database
        return Pairs(self.queries[rows], self.y[rows], database)

    def values(self, queries: np.ndarray, database: np.ndarray) -> np.ndarray:
        """Return the average precision of each query, by mapped points.

        For scored pairs, return numbers whose mean is Spearman's correlation.
        """
        Z, Z_database = normalize(queries), normalize(database)
        if self.scored:
            return spearman_terms((Z * Z_database).sum(axis=1), self.y)
        similarities, found = Z @ Z_database.T, []
        for i, row in enumerate(similarities):
            own = row[self.y.indices[slice(*self.y.indptr[i : i + 2])]]
            places = [(row >= each).sum() for each in np.sort(own)[::-1]]
            found.append(np.mean(np.arange(1, len(own) + 1) / places))
        return np.array(found)


class Task(NamedTuple):
    """Pairs to train on and to test, and the side to map."""

    side: str
    train: Pairs
    test: Pairs

    def mapped(self, L: np.ndarray) -> np.ndarray:
        """Return the test values of a map."""
        database = self.test.database
        return self.test.values(
            self.test.queries @ L.T, database @ L.T if self.side == "both" else database
        )

    def given(self) -> np.ndarray | None:
        """Return the test values of points as given, if both sides have the same features."""
        same = self.test.queries.shape[1] == self.test.database.shape[1]
        return self.test.values(self.test.queries, self.test.database) if same else None


def spearman_terms(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return numbers whose mean is Spearman's correlation.

    Their standard deviation, divided by the root of their number, is its standard error.
    """
    x, y = ((rank - rank.mean()) / (rank.std() or 1) for rank in map(rankdata, (a, b)))
    correlation = (x * y).mean()
    return np.asarray(x * y - correlation * (x**2 + y**2) / 2 + correlation)


def _sentences(draw: int) -> list[Pairs]:
    """Return judged pairs of sentences, for training and for tests.

    They are as published, or with draw > 0, drawn from all pairs. No test sentence of a draw is in
    a training pair.
    """
    with np.load(data.folder() / "stsb_static.npz") as saved:
        parts = [
            [np.asarray(saved[f"{part}_{name}"], np.float32) for name in "ayb"]
            for part in ("train", "test")
        ]
    if draw:
        rows = np.split(_shuffled(sum(len(y) for _, y, _ in parts), draw), [len(parts[0][1])])
        whole = [np.concatenate(each) for each in zip(*parts, strict=True)]
        parts = [[each[some] for each in whole] for some in rows]
        known = {row.tobytes() for i in (0, 2) for row in parts[0][i]}
        new = [
            i for i, both in enumerate(zip(*parts[1][::2], strict=True))
            if known.isdisjoint(row.tobytes() for row in both)
        ]  # fmt: skip
        parts[1] = [each[new] for each in parts[1]]
    return [Pairs(*each) for each in parts]


def _shuffled(n: int, draw: int) -> np.ndarray:
    return np.random.default_rng(draw).permutation(n)


def judged(side: str, draw: int = 0) -> Task:
    """Return pairs of sentences that people have judged."""
    return Task(side, *_sentences(draw))


def close(side: str, draw: int = 0) -> Task:
    """Return pairs of sentences that people have judged to mean the same, or nearly.

    No sentence is in two pairs.
    """
    found = []
    for pairs in _sentences(draw):
        known, kept = set[bytes](), []
        for i in np.flatnonzero(pairs.y >= 4):
            both = {pairs.queries[i].tobytes(), pairs.database[i].tobytes()}
            if len(both - known) == 2:
                kept.append(i)
            known |= both
        found.append(Pairs(pairs.queries[kept], _rows(len(kept)), pairs.database[kept]))
    return Task(side, *found)


def _rows(n: int) -> csr_array:
    return csr_array(eye_array(n))


@dataclass(frozen=True)
class _Docstrings:
    """First paragraphs of docstrings, the rest of them, and its embeddings."""

    summaries: np.ndarray
    bodies: np.ndarray
    texts: list[str]
    mentions: csr_array  # of other docstrings in their sections "See Also"


@cache
def _docstrings() -> _Docstrings:
    from wordllama import WordLlama

    folder = Path(inspect.getfile(WordLlama)).parent
    model = WordLlama.load(cache_dir=folder, disable_download=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated
        found = dict(_read())
    names = {name: i for i, name in enumerate(found)}
    pairs = [
        (i, names[each])
        for i, (_, body) in enumerate(found.values())
        for each in body.partition("See Also --------")[2].partition("----")[0].split()
        if each in names and names[each] != i
    ]
    rows, columns = zip(*sorted(set(pairs)), strict=True)
    shape = len(found), len(found)
    mentions = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    summaries, bodies = zip(*found.values(), strict=True)
    encoded = (model.embed(list(each)).astype(np.float32) for each in (summaries, bodies))
    return _Docstrings(*encoded, list(bodies), mentions)


def _read() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield names, first paragraphs and the rest of docstrings; a first paragraph once."""
    known = set[str]()
    for module in map(importlib.import_module, _MODULES):
        for name in sorted(dir(module)):
            thing = getattr(module, name)
            text = inspect.getdoc(thing) or ""
            if name[0] == "_" or inspect.ismodule(thing):
                continue
            head, *rest = text.split("\n\n")
            if "(" in head[: len(name) + 1] and rest:  # the signature
                head, *rest = rest
            summary, body = (" ".join(each.split()) for each in (head, " ".join(rest)))
            if summary not in known and len(summary) >= 20 and len(body) >= 200:
                known.add(summary)
                yield name, (summary, body)


def _parts(draw: int) -> tuple[_Docstrings, np.ndarray, np.ndarray]:
    docs = _docstrings()
    order = _shuffled(len(docs.summaries), draw)
    return docs, *np.split(order, [2 * len(order) // 3])


def docstrings(side: str, draw: int = 0) -> Task:
    """Return first paragraphs of docstrings, which find the rest of them."""
    docs, train, test = _parts(draw)
    return Task(
        side, *(Pairs(docs.summaries[n], _rows(len(n)), docs.bodies[n]) for n in (train, test))
    )


def clicks(side: str, draw: int = 0) -> Task:
    """Return first paragraphs, which find their own docstring and those that it mentions.

    New queries search the documents that others have clicked on.
    """
    docs, train, test = _parts(draw)
    relevant = csr_array(_rows(len(docs.bodies)) + docs.mentions)
    return Task(side, *(Pairs(docs.summaries[n], relevant[n], docs.bodies) for n in (train, test)))


def encoders(side: str, draw: int = 0) -> Task:
    """Return docstrings that search the same ones under an encoder of word counts."""
    docs, train, test = _parts(draw)
    counts = TfidfVectorizer(sublinear_tf=True, min_df=3).fit_transform(docs.texts)
    old = TruncatedSVD(128, random_state=0).fit_transform(counts).astype(np.float32)
    return Task(side, *(Pairs(docs.bodies[n], _rows(len(n)), old[n]) for n in (train, test)))


def articles(side: str, draw: int = 0) -> Task:
    """Return images that search the texts of their articles."""
    with np.load(data.folder() / "wikipedia_image_text.npz") as saved:
        image, text, n = (saved[name] for name in ("image", "text", "n_train"))
    rows = _shuffled(len(image), draw) if draw else np.arange(len(image))
    parts = [
        [np.asarray(each[some], np.float32) for each in (image, text)]
        for some in np.split(rows, [int(n)])
    ]
    return Task(side, *(Pairs(a, _rows(len(a)), b) for a, b in parts))


def made(
    side: str, draw: int = 0, n: int = 2000, n_features: int = 256, scored: bool = False,
    n_test: int = 1000, noise: float = 2.0,
) -> Task:  # fmt: skip
    """Return made embeddings whose topics are smaller than what their texts do not share.

    With ``noise=0``, the rest is alike in all directions: little or nothing can be learned.
    """
    rng = np.random.default_rng(draw)
    directions = rng.normal(size=(48, n_features))
    topics = rng.normal(size=(n + n_test, 24))

    def embeddings(topics: np.ndarray) -> np.ndarray:
        if not noise:
            rotated = topics @ np.linalg.qr(directions.T)[0].T[:24]
            return np.asarray(rotated + 0.8 * rng.normal(size=rotated.shape), np.float32)
        own = topics + 0.9 * rng.normal(size=topics.shape)
        others = np.hstack([own, noise * rng.normal(size=topics.shape)])
        found = np.empty((len(topics), n_features), np.float32)
        for some in gen_batches(len(topics), _BLOCK):
            part = others[some] @ directions
            found[some] = part + 3 * rng.normal(size=part.shape)
        return found

    parts = slice(n), slice(n, None)
    if not scored:
        tables = embeddings(topics), embeddings(topics)
        return Task(
            side, *(Pairs(*(tables[0][s], _rows(len(topics[s])), tables[1][s])) for s in parts)
        )
    others = topics + rng.normal(size=topics.shape) * rng.uniform(0, 3, size=(len(topics), 1))
    y = (normalize(topics) * normalize(others)).sum(axis=1) + 0.1 * rng.normal(size=len(topics))
    tables = embeddings(topics), embeddings(others)
    return Task(side, *(Pairs(tables[0][some], y[some], tables[1][some]) for some in parts))


# Name: how to make it, and the sides that are mapped.
TASKS = {
    "judged sentences": (judged, ("both", "query")),
    "close sentences": (close, ("both", "query")),
    "docstrings": (docstrings, ("both", "query")),
    "clicks on docstrings": (clicks, ("both", "query")),
    "another encoder": (encoders, ("query",)),
    "images and texts": (articles, ("query",)),
    "made scores": (partial(made, scored=True), ("both", "query")),
    "made clicks": (made, ("both", "query")),
}
