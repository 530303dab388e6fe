"""Texts of CSV files as numbers, truth values and dates."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from metricfast.cli.format import Format

__all__ = ["Values", "decimal_of", "is_text", "read_as", "recognised"]

# Missing values of a column of numbers or dates, in small letters.
_MARKS = frozenset(
    (
        *("na", "#na", "n/a", "#n/a", "#n/a n/a", "<na>", "n.a.", "n.a", "k.a.", "nan", "-nan"),
        *("null", "none", "nil", "missing", "-1.#ind", "1.#ind", "-1.#qnan", "1.#qnan", "\\n"),
        *("#div/0!", "#value!", "#ref!", "#num!", "#name?", "?", "-", "--", "---", "\u2013"),
        *("\u2014", ".", "..", "...", "…", "*", "/"),
    )
)
_TRUTH = {"true": 1.0, "false": 0.0}
# Between thousands: an apostrophe of typography and two blanks that do not break, too.
_GROUPS = ",. '\u2019\u00a0\u202f"
_LEADING_ZERO = r"[+-]?0\d+"
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y", "%d/%m/%y"),
    *("%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%B-%Y", "%d/%b/%Y", "%d-%b-%y"),
    *("%d. %b %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"),
)
_FORMATS = tuple(f"{day}{time}" for day in _DAYS for time in _TIMES)
_ISO = re.compile(r"(1[5-9]|2[01])\d\d[-/.]\d{1,2}([-/.]\d{1,2}([T ].*)?)?")
_NUMBER_OF_UNIT = r"[-+]?[$€£¥]?\s*\d[\d.,]*\s*[^\d\s]{0,5}"
# Texts that decide which formats of dates are tried on all.
_SAMPLE = 50


@dataclass
class Values:
    """The values of a column.

    `dates`: the format of pandas.to_datetime, None for other values.
    `marks`: texts that were read as missing, and how often.
    `remarks`: what else the user should know.
    """

    series: Any
    dates: str | None = None
    marks: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)


def is_text(series: Any) -> bool:
    """Report whether a column holds texts."""
    return str(series.dtype) in ("object", "str", "string", "string[pyarrow]")


def recognised(texts: Any, format: Format, *, label: bool = False) -> Values:
    """Read texts as numbers, truth values or dates if they all are, else leave them.

    `label`: whether the texts are labels, of which no text means a missing value.
    """
    name = str(texts.name)
    if label:
        zeros = texts.str.fullmatch(_LEADING_ZERO, na=False).any()
        found = Values(texts) if zeros else _numbers(texts, format)
        return Values(texts) if zeros or _rest(texts, found.series).any() else found
    marked = texts.str.lower().isin(_MARKS)
    known = texts.mask(marked)
    marks = Counter(texts[marked].tolist())
    if not known.notna().any():
        return Values(known.astype("float64"), marks=marks)
    numbers = _numbers(known, format)
    unread = _rest(known, numbers.series)
    if not unread.any():
        return replace(numbers, marks=marks)
    truth = known.str.lower().map(_TRUTH)
    if not _rest(known, truth).any():
        return Values(truth if known.isna().any() else truth.astype(bool), marks=marks)
    dates = _dates(known)
    if len(dates) == 1:
        ((each, series),) = dates.items()
        return Values(series, each, marks)
    found = Values(texts)
    if dates:
        found.remarks.append(
            f"{name} holds dates such as {known[unread].iloc[0]!r}, whose day and month are not "
            "clear: write them as 2020-12-31"
        )
    elif 2 * unread.sum() < known.notna().sum():
        found.remarks.append(
            f"{name} is read as text: {int((known.notna() & ~unread).sum())} of "
            f"{int(known.notna().sum())} values are numbers, but not {_quoted(known[unread])}; "
            f"{_remedy(known[unread])}"
        )
    elif (format_ := _most_dates(known)) is not None:
        others = known[_rest(known, _read(known, format_))]
        found.remarks.append(
            f"{name} is read as text: most values are dates, but not {_quoted(others)}; "
            f"{_remedy(others)}"
        )
    elif _unit(known):
        found.remarks.append(
            f"{name} is read as text: its numbers have a unit, as {_quoted(known[unread])}; write "
            "the numbers alone"
        )
    else:
        other = "," if format.decimal == "." else "."
        swapped = _numbers(known, replace(format, decimal=other, thousands=None))
        if not _rest(known, swapped.series).any():
            found.remarks.append(
                f"{name} is read as text: its numbers have the decimal sign {other!r}, as "
                f"{_quoted(known[unread])}, others in the file have {format.decimal!r}; write all "
                f"alike, or name it by --decimal {other}"
            )
    return found


def read_as(kind: str, texts: Any, format: Format) -> Values:
    """Read texts as "numbers" or "dates"; raise ValueError for a text that is none."""
    name = str(texts.name)
    marked = texts.str.lower().isin(_MARKS)
    known = texts.mask(marked)
    if kind == "dates":
        each = format.dates.get(name, "ISO8601")
        dates = _dates(known, each)
        if len(dates) == 1:
            ((each, series),) = dates.items()
        else:
            series = _read(known, each)
        found = Values(series, each)
        unread = _rest(known, series)
    else:
        found = _numbers(known, format)
        truth = known.str.lower().map(_TRUTH)
        found.series = found.series.where(truth.isna(), truth)
        unread = _rest(known, found.series)
    if unread.any():
        row = int(unread.to_numpy().argmax())
        raise ValueError(
            f"The column {name!r} must hold {kind}, got {known.iloc[row]!r} in row {row}; "
            f"{_remedy(known[unread])}."
        )
    found.marks = Counter(texts[marked].tolist())
    return found


def decimal_of(columns: Iterable[Any], format: Format) -> str:
    """Return the decimal sign of a file, "." or ",".

    1,234 may be a fraction or a thousand. Other numbers of the file decide, then the training file,
    then the separator: where it is ";", "," is the decimal sign.
    """
    if format.decimal:
        return format.decimal
    if format.thousands and format.thousands in ".,":
        return "," if format.thousands == "." else "."
    columns = list(columns)
    unread = [t[_rest(t, _plain(t))] for t in columns]
    signs = [t[t.str.fullmatch(r"[+-]?\d*[\d.,]*[.,][\d.,]*\s*%?", na=False)] for t in unread]
    commas = any(t.str.contains(",", regex=False).any() for t in signs)
    if not any(len(t) for t in signs) and format.usual_decimal in (None, "."):
        return "."
    sure = [sign for sign in ",." if any(_surely(t, sign) for t in columns)]
    if len(sure) == 1:
        return sure[0]
    return format.usual_decimal or ("," if format.sep == ";" and commas and not sure else ".")


def _surely(texts: Any, decimal: str) -> bool:
    """Report whether a text is a number by this decimal sign, and none by the other."""
    d, g = re.escape(decimal), re.escape("," if decimal == "." else ".")
    fraction = rf"(?:0|[1-9]\d{{3,}}|0\d+)?{d}\d*|\d+{d}(?:\d{{0,2}}|\d{{4,}})"
    grouped = rf"[1-9]\d{{0,2}}(?:{g}\d{{3}})+{d}\d*|[1-9]\d{{0,2}}(?:{g}\d{{3}}){{2,}}"
    return bool(texts.str.fullmatch(rf"[+-]?(?:{fraction}|{grouped})\s*%?", na=False).any())


def _plain(texts: Any) -> Any:
    return importlib.import_module("pandas").to_numeric(texts, errors="coerce")


def _rest(texts: Any, found: Any) -> Any:
    """Return where a text has no value among those found."""
    return texts.notna() & found.isna()


def _numbers(texts: Any, format: Format) -> Values:
    """Read texts as numbers; NaN where they are none."""
    decimal = format.decimal or "."
    plain = texts if decimal == "." else texts.mask(texts.str.contains(".", regex=False, na=False))
    series = _plain(plain)
    unread = _rest(texts, series)
    found = Values(series)
    if not unread.any():
        return found
    signs = "".join(sign for sign in _GROUPS if sign != decimal)
    d = re.escape(decimal)
    number = re.compile(rf"[+-]?(?:\d+(?:{d}\d*)?|{d}\d+)(?:[eE][+-]?\d+)?")
    groups = rf"[+-]?[1-9]\d{{0,2}}([{re.escape(signs)}])\d{{3}}(?:\1\d{{3}})*(?:{d}\d*)?"
    if format.thousands is not None:
        signs = format.thousands
        groups = rf"[+-]?\d[\d{re.escape(signs)}]*(?:{d}\d*)?" if signs else number.pattern
    grouped = re.compile(groups)
    without = str.maketrans("", "", signs)
    percent, thousands = Counter[str](), Counter[str]()
    read: dict[str, float] = {}
    for text, count in Counter(texts[unread].tolist()).items():
        digits = text.replace("\u2212", "-")
        if digits.endswith("%"):
            digits = digits[:-1].rstrip()
        if not number.fullmatch(digits):
            if not grouped.fullmatch(digits):
                continue
            thousands[text] = count
            digits = digits.translate(without)
        read[text] = float(digits.replace(decimal, "."))
        if text.endswith("%"):
            percent[text] = count
    found.series = series.astype("float64").where(~unread, texts.map(read).astype("float64"))
    for what, counts in (("a percent sign", percent), ("a thousands separator", thousands)):
        if counts:
            example = next(iter(counts))
            remark = f"{texts.name}: {counts.total()} values have {what}: {example!r} is read as "
            found.remarks.append(remark + f"{read[example]:g}")
    if thousands and format.thousands is None:
        found.remarks[-1] += "; --decimal and --thousands name other signs"
    return found


def _dates(texts: Any, first: str | None = None) -> dict[str, Any]:
    """Read texts as dates by each format that fits all of them and has a result of its own.

    `first`: a format that decides if it fits.
    """
    known = texts.dropna().drop_duplicates()
    found: dict[str, Any] = {}
    iso = all(map(_ISO.fullmatch, known))
    formats = ("ISO8601",) if iso else _FORMATS
    for each in dict.fromkeys(formats if first is None else (first, *formats)):
        if _read(known[:_SAMPLE], each).isna().any() or _read(known, each).isna().any():
            continue
        series = _read(texts, each)
        if each == first:
            return {each: series}
        if not any(series.equals(other) for other in found.values()):
            found[each] = series
    return found


def _most_dates(texts: Any) -> str | None:
    """Return a format of dates that fits more than half of the first texts, None if none does."""
    sample = texts.dropna().drop_duplicates()[:_SAMPLE]
    share = {each: float(_read(sample, each).notna().mean()) for each in ("ISO8601", *_FORMATS)}
    best = max(share, key=lambda each: share[each])
    return best if share[best] > 0.5 else None


def _read(texts: Any, format: str) -> Any:
    pandas = importlib.import_module("pandas")
    return pandas.to_datetime(texts, format=format, errors="coerce", utc=True)


def _unit(texts: Any) -> str:
    """Return the unit that all texts have in addition to a number, "" if there is none."""
    known = texts.dropna()
    units = set(known.str.replace(r"[-+\d.,\s]", "", regex=True))
    return units.pop() if len(units) == 1 and known.str.fullmatch(_NUMBER_OF_UNIT).all() else ""


def _quoted(texts: Sequence[str]) -> str:
    counts = Counter(texts)
    each = ", ".join(f"{text!r} ({count})" for text, count in counts.most_common(3))
    return each + ", …" * (len(counts) > 3)


def _remedy(texts: Any) -> str:
    return f"--na {texts.iloc[0]!r} reads this text as missing"
