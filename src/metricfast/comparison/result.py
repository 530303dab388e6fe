"""The result of a comparison, as values, text and HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

EUCLIDEAN, SCALED = "Euclidean", "scaled Euclidean"
CONSTANT = "one answer"  # predicts the most frequent class or the mean
HEADINGS = ("", "score", "95 % interval", "difference", "adjusted p", "", "fit s")


def p_text(p_value: float) -> str:
    """Format a p-value with three decimals; small values become "<.001", NaN an empty string."""
    text = "" if math.isnan(p_value) else f"{p_value:.3f}"
    return "<.001" if text == "0.000" else text


@dataclass(frozen=True)
class Row:
    """The result of a learner.

    Attributes
    ----------
    learner : str
    score, low, high : float
        The score of held-out points and its 95 % interval; NaN of a learner that has not been
        tried on every fold.
    difference : float
        The score minus the score of the baseline: the Euclidean distance of given or standardised
        points, whichever is better.
    p_value : float
        The chance to see as large a difference with any of the learners if none differed.
    change : str
        "better" or "worse" where that chance is less than one in twenty, else "".
    fit_seconds : float
        The mean of the folds.
    n_folds : int
        On how many folds it was tried.
    note : str
        Why it was not on all.
    """

    learner: str
    score: float = math.nan
    low: float = math.nan
    high: float = math.nan
    difference: float = math.nan
    p_value: float = math.nan
    change: str = ""
    fit_seconds: float = math.nan
    n_folds: int = 0
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row for display."""
        if math.isnan(self.score):
            return (self.learner, self.note)
        return (
            self.learner,
            f"{self.score:.4f}",
            f"[{self.low:.4f}, {self.high:.4f}]",
            "" if math.isnan(self.difference) else f"{self.difference:+.4f}",
            p_text(self.p_value),
            self.change,
            f"{self.fit_seconds:.2f}",
        )


@dataclass(repr=False)
class Comparison:
    """The result of :func:`metricfast.compare`.

    Attributes
    ----------
    rows : list of Row
        The best first, what was not tried on every fold last.
    task : str
        A description of the score and of the data.
    baseline : str
        The row that the others are compared with.
    best_name_ : str
        The row of the highest score.
    best_score_ : float
        Its score. It is too high for new points, since it is the highest of several.
    expected_score_ : float
        The score of the best of as many, chosen by some points, on other points (Tsamardinos et
        al., 2018): what to expect of `best_estimator_`.
    best_estimator_ : Pipeline
        Refitted on all points: what was said as `preprocessing`, the units, and a predictor of
        neighbours under the learner, which is ``best_estimator_[-1].metric_``, or one that predicts
        by itself, such as `NCAClassifier`.
    interrupted_ : bool
        Whether Ctrl-C ended the comparison.
    """

    rows: list[Row]
    task: str
    baseline: str
    best_name_: str
    best_score_: float
    expected_score_: float
    interrupted_: bool = False
    best_estimator_: Any = None

    @property
    def table(self) -> Any:
        """The rows as a pandas DataFrame; without pandas a dictionary of the same columns."""
        columns = {
            each.name: [getattr(row, each.name) for row in self.rows] for each in fields(Row)
        }
        try:
            from pandas import DataFrame
        except ImportError:
            return columns
        return DataFrame(columns)

    def verdict(self) -> str:
        """Return a summary in sentences."""
        lines = []
        for word in ("better", "worse"):
            those = [row.learner for row in self.rows if row.change == word]
            lines.append(f"{word} than {self.baseline} beyond chance: {', '.join(those) or 'none'}")
        if not any(row.change == "better" for row in self.rows):
            lines[0] += f"; keep {self.baseline}, which costs nothing"
        best, expected = f"{self.best_score_:.4f}", f"{self.expected_score_:.4f}"
        n = sum(not math.isnan(row.score) for row in self.rows)
        lines.append(f"best: {self.best_name_} {best}")
        if expected not in (best, "nan"):
            lines[-1] += f"; expect {expected} on new points, since the best of {n} had luck too"
        return "\n".join([*lines, *["interrupted"] * self.interrupted_])

    def __repr__(self) -> str:
        """Return the table as text."""
        return "\n".join([self.task, *_lines([row.cells() for row in self.rows]), self.verdict()])

    def _repr_html_(self) -> str:
        rows = "".join(_html_row(row.cells(), picture=self._picture(row)) for row in self.rows)
        return (
            f"<table class='metricfast-comparison'><caption>{html.escape(self.task)}</caption>"
            f"<thead>{_html_row(HEADINGS, 'th')}</thead><tbody>{rows}</tbody></table>"
            f"<p>{'<br>'.join(html.escape(self.verdict()).splitlines())}</p>"
        )

    def _picture(self, row: Row) -> str:
        """Return an SVG picture of the interval of a learner, and the band of the baseline."""
        if math.isnan(row.score):
            return ""
        base = next(each for each in self.rows if each.learner == self.baseline)
        least = min(each.low for each in self.rows if each.low > base.low - 0.5)
        width = max(each.high for each in self.rows if each.high == each.high) - least or 1.0
        ends = [row.low, row.high, row.score, base.low, base.high]
        low, high, at, left, right = (max(100 * (end - least) / width, 0) for end in ends)
        return (
            "<td><svg width='160' height='12' viewBox='0 0 100 8' preserveAspectRatio='none'>"
            f"<rect x='{left:.1f}' width='{right - left:.1f}' height='8' fill='#777' opacity='.2'/>"
            f"<path d='M{low:.1f} 4H{high:.1f}M{at:.1f} 1V7' stroke='currentColor'/></svg></td>"
        )


def _lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table. In a row of two cells, the second is a note."""
    table = [HEADINGS, *rows]
    whole = [row for row in table if len(row) == len(HEADINGS)]
    widths = [max(len(row[i]) for row in whole) for i in range(len(HEADINGS))]
    widths[0] = max(len(row[0]) for row in table)
    for row in table:
        rest = zip(row[1:], widths[1:], strict=False)
        padded = [cell.rjust(width) if len(row) > 2 else cell for cell, width in rest]
        yield "  ".join([row[0].ljust(widths[0]), *padded]).rstrip()


def _html_row(cells: Sequence[str], tag: str = "td", picture: str = "") -> str:
    span = f" colspan='{len(HEADINGS) - 1}'" if len(cells) == 2 else ""
    first = f"<th style='text-align: left'>{html.escape(cells[0])}</th>"
    rest = "".join(f"<{tag}{span}>{html.escape(each)}</{tag}>" for each in cells[1:])
    return f"<tr>{first}{rest}{picture}</tr>"
