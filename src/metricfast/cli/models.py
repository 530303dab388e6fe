"""Models of tables: a learner, and how rows become its points, in one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

import metricfast
from metricfast._core.types import Floats
from metricfast.cli.data import Data
from metricfast.cli.encoding import TableEncoder, is_number, numbers
from metricfast.cli.format import Format
from metricfast.comparison.units import ChosenUnits
from metricfast.training.fingerprint import fingerprint

__all__ = ["Model"]

# Of the metadata of a model file.
_KEY = "table"


@dataclass
class Model:
    """A fitted learner, and how rows of a table become its points.

    `encoder`: None of a model that was not made from a table.
    `units`: the mean and the standard deviation of each feature, or None.
    `target`: the column of labels.
    `continuous`: whether these are continuous.
    `trained_on`: a digest of the points that it was fitted to.
    `format`: how the texts of a file are read.
    """

    learner: Any
    encoder: TableEncoder | None = None
    units: tuple[Floats, Floats] | None = None
    target: str | None = None
    continuous: bool | None = None
    trained_on: str | None = None
    format: Format = field(default_factory=Format)

    @classmethod
    def fit(cls, learner: BaseEstimator, data: Data, scale: bool | str, continuous: bool) -> Model:
        """Fit the encoding, the units and the learner."""
        frame, labels = data.frame, data.labels
        encoder = data.encoder().fit(frame)
        points = encoder.transform(frame)
        units = ChosenUnits(scale, continuous=continuous).fit(points, labels)
        scaler = units.scaler_
        model = cls(learner, encoder, None, data.target, continuous, format=data.remembered())
        model.units = (scaler.mean_, scaler.scale_) if units.scaled_ else None
        points = model.points(frame)
        model.learner, model.trained_on = learner.fit(points, labels), fingerprint(points)
        return model

    @property
    def kinds(self) -> dict[str, str]:
        """What the columns of a table hold, by name: "numbers", "dates" or "text"."""
        found = {}
        for each in self.encoder.columns_ if self.encoder is not None else ():
            number = "dates" if each.name in self.format.dates else "numbers"
            found[each.name] = "text" if each.mean is None else number
        return found

    def points(self, frame: Any) -> Any:
        """Return the points that rows are, as the learner takes them."""
        if self.encoder is None:
            return self._plain(frame)
        points = self.encoder.transform(frame)
        if self.units is None:
            return points
        mean, scale = self.units
        scaled: Floats = (points - mean) / scale
        return scaled

    def _plain(self, frame: Any) -> Any:
        """Return the numbers of a table, for a model that knows of no table."""
        named = getattr(self.learner, "feature_names_in_", None)
        if named is not None and set(named) <= set(frame.columns):
            return frame[list(named)]
        names = [name for name in frame.columns if is_number(frame[name])]
        wanted = self.learner.n_features_in_
        if len(names) != wanted:
            raise ValueError(
                f"The model takes {wanted} columns of numbers, and was saved without their names; "
                f"the table has {len(names)}."
            )
        return np.stack([numbers(frame[name]) for name in names], axis=1)

    def save(self, path: Path) -> None:
        """Write a model file, which `metricfast.load` reads too."""
        assert self.encoder is not None
        state = {
            "columns": self.encoder.state(),
            "units": None if self.units is None else [each.tolist() for each in self.units],
            "target": self.target,
            "continuous": self.continuous,
            "trained_on": self.trained_on,
            "format": asdict(self.format),
        }
        metricfast.save(self.learner, path, metadata={_KEY: json.dumps(state)})

    @classmethod
    def load(cls, path: Path, format: Format | None = None) -> Model:
        """Read a model file; ValueError if it is none.

        `format`: how texts are read, where it is to differ from the format of the training file.
        """
        learner = metricfast.load(path)
        text = metricfast.io.load_metadata(path).get(_KEY)
        if text is None:
            return cls(learner, format=format or Format())
        try:
            state = json.loads(text)
            units = state["units"]
            model = cls(
                learner,
                TableEncoder.of(state["columns"]),
                None if units is None else (np.array(units[0]), np.array(units[1])),
                state["target"],
                state["continuous"],
                state["trained_on"],
                Format.of(state["format"]) if "format" in state else Format(),
            )
            n_columns = len(model.encoder.get_feature_names_out())  # type: ignore[union-attr]
            widths = {n_columns, *[each.shape for each in model.units or ()]}
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{path} does not say how a table is encoded: {error}") from error
        if widths - {n_columns, (n_columns,)} or n_columns != learner.n_features_in_:
            raise ValueError(
                f"{path} is of {learner.n_features_in_} features, its table of {n_columns}."
            )
        if format is not None:
            model.format = format.over(model.format)
        return model
