"""What the command line makes of CSV files as other programs write them."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("rich")
pytest.importorskip("safetensors")
pytest.importorskip("click.testing")

from test_cli import run  # noqa: E402

import metricfast  # noqa: E402

N = 60


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def frame():
    """Two numbers, the first of which shows the class."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=N)
    numbers = {"a": kind + rng.normal(size=N) / 4, "b": rng.normal(size=N)}
    return pd.DataFrame(numbers).round(3).assign(kind=np.array(["no", "yes"])[kind])


def write(path, frame, *, sep=",", encoding="utf-8", before="", end="\n"):
    """Write a file whose cells are texts as they are, without quotes."""
    lines = [sep.join(frame.columns), *(sep.join(map(str, row)) for row in frame.values.tolist())]
    Path(path).write_bytes((before + end.join(lines) + end).encode(encoding))


def fit(*options, path="train.csv", learner="covariance", target="kind", code=0):
    command = ("fit", path, "--target", target, "--learner", learner, "-o", "m.safetensors")
    return run(*command, *options, code=code)


def data_of(*options, path="train.csv"):
    """What a fit reports of its table."""
    return json.loads(fit(*options, "--json", path=path).stdout)["data"]


def transformed(path, *options):
    printed = run("transform", "m.safetensors", path, *options)
    return pd.read_csv(StringIO(printed.stdout)).to_numpy(), " ".join(printed.stderr.split())


FORMATS = {
    "iso": "%Y-%m-%d",
    "time": "%Y-%m-%dT%H:%M:%SZ",
    "dots": "%d.%m.%Y",
    "month_first": "%m/%d/%Y",
    "day_first": "%d/%m/%Y",
    "named": "%d %b %Y",
    "month_named": "%B %d, %Y",
}


@pytest.mark.parametrize("name", FORMATS)
def test_dates_of_csv_files_are_those_of_parquet_files(frame, name):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) * 5, unit="D")
    typed = frame.assign(day=days)
    typed.to_parquet("train.parquet")
    texts = pd.Series(days.strftime(FORMATS[name])).where(np.arange(N) != 7, "?")
    frame.assign(day=texts).to_csv("train.csv", index=False)
    data = data_of("--scale", "no")
    assert data["dates"] == {"day": "2020-01-01 to 2020-10-22"}
    assert data["missing"] == {"day": 1}
    # A file of a single date, which by itself might have either order.
    frame[:1].assign(day=pd.Timestamp("2020-03-04").strftime(FORMATS[name])).to_csv("new.csv")
    texts_mapped, _ = transformed("new.csv")
    frame[:1].assign(day=pd.Timestamp("2020-03-04")).to_parquet("new.parquet")
    np.testing.assert_allclose(texts_mapped, transformed("new.parquet")[0], rtol=1e-12)
    frame.assign(day="soon").to_csv("new.csv")
    wrong = run("transform", "m.safetensors", "new.csv", code=1).stderr
    assert "new.csv: The column 'day' must hold dates, got 'soon' in row 0" in wrong


def test_a_model_of_a_parquet_file_reads_dates_of_csv_files(frame):
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), unit="D")
    frame.assign(day=days, date=days.date).to_parquet("train.parquet")
    assert set(data_of(path="train.parquet")["dates"]) == {"day", "date"}
    expected, _ = transformed("train.parquet")
    frame.assign(day=days, date=days.date).to_csv("train.csv", index=False)
    np.testing.assert_allclose(transformed("train.csv")[0], expected, rtol=1e-9, atol=1e-9)


def test_dates_and_numbers_are_not_taken_for_each_other(frame):
    days = frame.assign(day=pd.date_range("2020-01-01", periods=N))
    numbers = frame.assign(day=np.arange(N) * 2)
    for train, new, kind in ((days, numbers, "dates"), (numbers, days, "numbers")):
        for suffix in ("csv", "parquet"):
            train.to_csv("train.csv", index=False)
            fit()
            new.to_csv("new.csv", index=False)
            new.to_parquet("new.parquet")
            wrong = run("transform", "m.safetensors", f"new.{suffix}", code=1).stderr
            assert f"new.{suffix}: The column 'day' must hold {kind}, got " in wrong


def test_unclear_dates_are_reported(frame):
    month = np.arange(N) % 12 + 1
    frame["when"] = [f"{m}/{d}/2020" for m, d in zip(month, month[::-1], strict=True)]
    day = pd.Series(pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"))
    frame["day"] = day.where(day.index != 3, "soon")
    frame.to_csv("train.csv", index=False)
    printed = " ".join(fit().stderr.split())
    assert "when holds dates such as '1/12/2020', whose day and month are not clear" in printed
    assert "day is read as text: most values are dates, but not 'soon' (1)" in printed


@pytest.mark.parametrize("mark", ["?", "-", " ", "NA", "n/a", "None", "#DIV/0!"])
def test_marks_among_numbers_are_missing_values(frame, mark):
    texts = frame.assign(a=frame["a"].astype(object))
    texts.loc[4, "a"] = mark
    write("train.csv", texts)
    assert data_of()["missing"] == {"a": 1}
    if mark.strip():
        assert f"a: read as missing: {mark!r} (1)" in fit().stderr
    write("new.csv", texts[3:6])
    mapped, printed = transformed("new.csv")
    assert "new.csv: missing: a (1)" in printed
    assert np.isfinite(mapped).all()
    run("predict", "m.safetensors", "new.csv", "--database", "train.csv")


def test_a_text_among_numbers_is_reported_with_the_option_that_helps(frame):
    texts = frame.assign(a=frame["a"].astype(object))
    texts.loc[4, "a"] = "unknown"
    write("train.csv", texts)
    expected = f"a is read as text: {N - 1} of {N} values are numbers, but not 'unknown' (1)"
    assert expected in fit().stderr
    data = data_of("--na", "unknown")
    assert data["numbers"] == ["a", "b"] and data["missing"] == {"a": 1}
    _, printed = transformed("train.csv")  # the model remembers the option
    assert "missing: a (1)" in printed
    texts.loc[4, "a"] = "lost"
    write("new.csv", texts)
    assert "'a' must hold numbers, got 'lost' in row 4; --na 'lost'" in " ".join(
        run("transform", "m.safetensors", "new.csv", code=1).stderr.split()
    )
    transformed("new.csv", "--na", "lost")


def test_numbers_that_mean_missing_in_files_of_any_kind(frame):
    frame.loc[[2, 5], "a"] = -999
    frame.to_csv("train.csv", index=False)
    frame.to_parquet("train.parquet")
    for path in ("train.csv", "train.parquet"):
        assert data_of("--na", "-999", path=path)["missing"] == {"a": 2}
        assert "missing: a (2)" in transformed("train.parquet")[1]


def test_percent_signs_and_thousands(frame):
    plain = frame.assign(a=(1000 * (frame["a"] + 3)).round(), b=frame["b"].round(1))
    plain.to_csv("train.csv", index=False)
    fit("--scale", "no")
    expected, _ = transformed("train.csv")
    texts = plain.assign(
        a=plain["a"].map(lambda x: f'"{x:,.0f}"'), b=plain["b"].map(lambda x: f"{x:.1f} %")
    )
    write("train.csv", texts)
    found, printed = transformed("train.csv")
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert "thousands separator" in printed and "percent sign" in printed
    assert "thousands separator" in fit("--scale", "no").stderr
    np.testing.assert_allclose(transformed("train.csv")[0], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("texts", "options", "expected"),
    [
        (["1,5", "2,25"], (), [1.5, 2.25]),
        (["1.234,5", "1"], (), [1234.5, 1]),
        (["1,234.5", "7"], (), [1234.5, 7]),
        (["1.234.567", "1.234"], (), [1234567, 1234]),
        (["1 234", "5"], (), [1234, 5]),
        (["1'234.5", "-5"], (), [1234.5, -5]),
        (["\u22121", "1e3"], (), [-1, 1000]),
        (["1,234", "2,345"], (), [1.234, 2.345]),  # as ";" separates values
        (["1,234", "2,345"], ("--decimal", "."), [1234, 2345]),
        (["1,234", "2,345"], ("--thousands", ","), [1234, 2345]),
        (["1.234", "2.345"], (), [1.234, 2.345]),
        (["1.234", "2.345"], ("--decimal", ","), [1234, 2345]),
        (["1,23,456", "7"], ("--thousands", ","), [123456, 7]),
        (["1*234", "7"], ("--thousands", "*"), [1234, 7]),
        (["TRUE", "False"], (), [1, 0]),
    ],
)
def test_signs_of_numbers(texts, options, expected):
    column = np.repeat(texts, 10)
    write("train.csv", pd.DataFrame({"x": column, "kind": ["u"] * 10 + ["v"] * 10}), sep=";")
    assert data_of("--scale", "no", *options)["numbers"] == ["x"]
    table = json.loads(metricfast.io.load_metadata("m.safetensors")["table"])
    assert table["columns"][0]["mean"] == pytest.approx(np.mean(expected), rel=1e-12)
    frame = pd.DataFrame({"x": expected, "kind": "u"})
    frame.to_parquet("new.parquet")
    np.testing.assert_allclose(transformed("train.csv")[0][::10], transformed("new.parquet")[0])


def test_a_new_file_that_does_not_show_its_decimal_sign_has_that_of_the_training_file(frame):
    texts = frame.assign(a=frame["a"].map(lambda x: f"{x:.3f}".replace(".", ",")))
    write("train.csv", texts, sep="\t")
    fit("--scale", "no")
    new = pd.DataFrame({"a": ["1,234"], "b": ["0"], "kind": ["no"]})
    write("new.csv", new, sep="\t")
    texts.loc[0, ["a", "b"]] = ["1,234", 0]
    write("train.csv", texts, sep="\t")
    np.testing.assert_allclose(transformed("new.csv")[0][0], transformed("train.csv")[0][0])


def test_numbers_of_two_decimal_signs_are_reported(frame):
    write("train.csv", frame.assign(a=frame["a"].map(lambda x: f"{x:.2f}".replace(".", ","))),
          sep=";")  # fmt: skip
    printed = " ".join(fit().stderr.split())
    assert "a is read as text: its numbers have the decimal sign ','" in printed
    write("train.csv", frame.assign(a=frame["a"].map("{} kg".format)))
    assert "a is read as text: its numbers have a unit" in fit().stderr


CLASSES = ["None", "NA", "null", "nan", "?"]


@pytest.mark.parametrize("name", CLASSES)
def test_classes_may_have_names_of_missing_values(frame, name):
    texts = frame.assign(kind=frame["kind"].replace("no", name))
    texts.loc[0, "kind"] = ""
    write("train.csv", texts)
    data = data_of()
    assert data["rows_without_target"] == 1
    predicted = run("predict", "m.safetensors", "train.csv", "--database", "train.csv")
    found = pd.read_csv(StringIO(predicted.stdout), keep_default_na=False)
    assert set(found["predicted_kind"]) == {name, "yes"}
    write("train.csv", texts.assign(kind=texts["kind"].replace("yes", "1")))
    assert f"{name!r}, as classes; --na {name!r}" in fit().stderr or name == "nan"
    options = ("--na", name, "--na", "")
    assert "two classes at least, got one" in fit(*options, code=1).stderr


def test_a_text_among_continuous_labels_is_refused(frame):
    texts = frame.assign(a=frame["a"].astype(object))
    texts.loc[4, "a"] = "?"
    write("train.csv", texts)
    wrong = " ".join(fit(target="a", learner="mlkr", code=1).stderr.split())
    assert f"The target a holds {N - 1} numbers and 1 texts, such as '?': --na '?'" in wrong
    assert "rows without target, left out: 1" in fit("--na", "?", target="a", learner="mlkr").stderr


def test_blanks_around_classes_and_names_do_not_count(frame):
    texts = frame.assign(kind=[f" {k}{' ' * (i % 3)}" for i, k in enumerate(frame["kind"])])
    write("train.csv", texts.rename(columns={"b": " b", "kind": "kind "}))
    found = json.loads(run("compare", "train.csv", "--target", "kind", "--learner", "covariance",
                          "--json").stdout)  # fmt: skip
    assert "2 classes" in found["task"]
    assert found["data"]["numbers"] == ["a", "b"]


def test_an_index_is_left_out_and_columns_that_number_rows_are_reported(frame):
    frame = frame.sort_values("kind", ignore_index=True)
    frame.assign(id=range(1, N + 1)).to_csv("train.csv")
    data = data_of()
    assert data["numbers"] == ["a", "b", "id"]
    assert "numbers the rows" in data["left_out"]["Unnamed: 0"]
    assert data["remarks"] == ["id numbers the rows: --drop id leaves it out"]
    frame[20:].to_csv("train.csv")
    assert list(data_of()["left_out"]) == ["Unnamed: 0"]
    frame.sample(frac=1, random_state=0).to_csv("train.csv")
    assert list(data_of()["left_out"]) == ["Unnamed: 0"]


@pytest.mark.parametrize(
    ("sep", "encoding", "before", "end", "suffix"),
    [
        (";", "cp1252", "", "\r\n", ".csv"),
        (";", "utf-8", "\ufeffsep=;\r\n", "\r\n", ".csv"),
        ("\t", "utf-16", "", "\n", ".csv"),
        ("|", "utf-8", "", "\n", ".csv"),
        ("\t", "utf-8", "", "\n", ".tsv"),
        (",", "utf-8-sig", "", "\n", ".csv.gz"),
    ],
)
def test_separators_and_encodings(frame, sep, encoding, before, end, suffix):
    path = f"train{suffix}"
    write(path, frame.rename(columns={"a": "größe"}), sep=sep, encoding=encoding, before=before,
          end=end)  # fmt: skip
    if suffix.endswith(".gz"):
        Path(path).write_bytes(gzip.compress(Path(path).read_bytes()))
    assert data_of(path=path)["numbers"] == ["größe", "b"]
    run("predict", "m.safetensors", path, "--database", path)


def test_a_model_remembers_options(frame):
    texts = frame.assign(b=frame["b"].map(lambda x: f"{x:.3f}".replace(".", ",")), note="a:b")
    write("train.csv", texts, sep="~", encoding="cp1250")
    options = ("--sep", "~", "--encoding", "cp1250", "--decimal", ",", "--na", "ä")
    fit(*options)
    write("new.csv", texts.replace({"note": {"a:b": "ä"}}), sep="~", encoding="cp1250")
    for command in ("predict", "neighbors", "evaluate"):
        run(command, "m.safetensors", "new.csv", "--database", "train.csv")
    assert "missing: note" in transformed("new.csv")[1]
    write("new.csv", frame.assign(note="a:b"), sep=";")
    wrong = run("transform", "m.safetensors", "new.csv", code=1).stderr
    assert "lacks the columns" in wrong and "--sep" in wrong
    given = ("--sep", ";", "--encoding", "utf-8", "--decimal", ".")
    np.testing.assert_allclose(transformed("new.csv", *given)[0], transformed("train.csv")[0])


def test_cells_of_several_lines_and_columns_without_values(frame):
    notes = [f'"line {i}\nsecond, with a comma"' for i in range(N)]
    write("train.csv", frame.assign(note=notes, empty="", none="NA"))
    data = data_of()
    assert data["rows"] == N and data["numbers"] == ["a", "b"]
    assert data["left_out"]["empty"] == data["left_out"]["none"] == "no values"
    assert next(iter(data["left_out"])) == "note"


def test_truth_values_with_gaps_are_numbers(frame):
    frame["flag"] = pd.Series(["TRUE", "false", "", "NA"] * (N // 4))
    write("train.csv", frame)
    data = data_of()
    assert data["numbers"] == ["a", "b", "flag"] and data["missing"] == {"flag": N // 2}


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,a,kind\n1,2,x\n", (), "has two columns 'a'"),
        ("a,b,kind\n1,2,x\n1,2\n", (), "line 3 has 2 values, the header 3 names"),
        ("a,b,kind\n1,2,3,x\n", (), "line 2 has 4 values, the header 3 names"),
        ("Report,,\na,b,kind\n1,2,x\n", (), "first line of the file must have the names"),
        ("a;b;kind\n1;2;x\n", ("--sep", ","), "--sep names what separates columns"),
        ("a,b,kind\n1,2,ä\n", ("--encoding", "ascii"), "--encoding names another encoding"),
        ("", (), "it has no header"),
        ("a,b,kind\n", (), "has no rows"),
        ("a,kind\n,x\n,y\n", (), "left out: a (no values)"),
    ],
)
def test_errors_name_the_option_that_helps(text, options, message):
    Path("train.csv").write_text(text, encoding="utf-8")
    assert message in " ".join(fit(*options, code=1).stderr.split())


def test_a_damaged_archive_is_named(frame):
    Path("train.csv.gz").write_bytes(gzip.compress(frame.to_csv().encode())[:-20])
    assert "not compressed by gzip" in fit(path="train.csv.gz", code=1).stderr


def test_a_long_cell_is_read(frame):
    write("train.csv", frame.assign(note=["x" * 200_000] + ["y"] * (N - 1)))
    assert data_of()["categories"] == {"note": 2}


def test_arguments_that_no_file_can_have(frame):
    write("train.csv", frame)
    for option in (("--sep", ";;"), ("--encoding", "utf-99"), ("--decimal", "x")):
        fit(*option, code=2)
    assert "decimal sign" in fit("--decimal", ",", "--thousands", ",", code=2).stderr
