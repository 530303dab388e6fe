"""Peers of the study of tables: CatBoost, LightGBM, XGBoost and RealMLP, all with defaults.

Each is given one thread, a seed, and the names of the columns of categories. The extra
`bench-tables` installs them; RealMLP is in the package pytabkit and needs PyTorch.
"""

from __future__ import annotations

__all__ = ["PEERS", "MissingPeerError", "Peer"]

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any


class MissingPeerError(Exception):
    """A package that is not installed."""


def _class(package: str, kind: str, of_classes: bool) -> Any:
    """Return the classifier or regressor of a package."""
    try:
        module = import_module(package)
    except ImportError as error:
        raise MissingPeerError(
            f"{package} cannot be imported ({error}): pip install '.[bench-tables]'"
        ) from error
    return getattr(module, kind + ("Classifier" if of_classes else "Regressor"))


def _as_text(X: Any) -> tuple[Any, list[str]]:
    """Return a frame whose categories are strings, and their columns; arrays as they are."""
    if not hasattr(X, "select_dtypes"):
        return X, []
    columns = list(X.select_dtypes("category").columns)
    X = X.copy()
    for column in columns:
        X[column] = X[column].astype(object).fillna("missing").astype(str)
    return X, columns


class Peer:
    """A model that is given the categories of frames in the form that its package takes.

    CatBoost takes strings; the others a type of column that knows the categories of `fit`, of which
    others are missing.
    """

    def __init__(self, model: Any, *, strings: bool = False) -> None:
        self.model, self.strings = model, strings
        self.known: dict[str, Any] = {}

    def _given(self, X: Any) -> Any:
        X, _ = _as_text(X)
        return X.astype(self.known) if self.known else X

    def fit(self, X: Any, y: Any) -> Any:
        text, columns = _as_text(X)
        if self.strings:
            self.model.fit(text, y, cat_features=columns or None)
            return self
        self.known = {c: text[c].astype("category").dtype for c in columns}
        self.model.fit(self._given(X), y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model.predict(self._given(X))

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(self._given(X))


def catboost(of_classes: bool) -> Any:
    kind = _class("catboost", "CatBoost", of_classes)
    model = kind(thread_count=1, random_seed=0, verbose=False, allow_writing_files=False)
    return Peer(model, strings=True)


def lightgbm(of_classes: bool) -> Any:
    kind = _class("lightgbm", "LGBM", of_classes)
    return Peer(kind(n_jobs=1, random_state=0, verbose=-1))


def xgboost(of_classes: bool) -> Any:
    kind = _class("xgboost", "XGB", of_classes)
    return Peer(kind(n_jobs=1, random_state=0, enable_categorical=True))


def realmlp(of_classes: bool) -> Any:
    kind = _class("pytabkit", "RealMLP_TD_", of_classes)
    for name in ("pytorch_lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    return Peer(kind(device="cpu", n_threads=1, random_state=0))


PEERS: dict[str, Callable[[bool], Any]] = {
    "catboost": catboost,
    "lightgbm": lightgbm,
    "xgboost": xgboost,
    "realmlp": realmlp,
}
