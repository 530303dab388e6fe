"""Code on pages, in examples and in docstrings runs, with the shown output."""

from __future__ import annotations

import doctest
import importlib
import io
import json
import pkgutil
import re
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from thinned import thinned

import metricfast

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))

import blocks  # noqa: E402

README, INDEX = ROOT / "README.md", ROOT / "docs" / "index.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PICTURE = re.compile(r"^\s*# Picture: \w+", re.MULTILINE)
ANCHOR = re.compile(r"\]\(([^)#\s:]*)#([^)]*)\)")
# Modules that need an optional package.
NEED_MORE = {f"metricfast.{name}" for name in ("onnx", "torch") if name not in metricfast.__all__}
MODULES = [
    module.name
    for module in pkgutil.walk_packages(metricfast.__path__, "metricfast.")
    if not module.name.startswith("metricfast._") and module.name not in NEED_MORE
]


def close_figures():
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    close_figures()  # of other tests
    yield
    close_figures()


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_readme_begins_as_the_index_does():
    """Both have the same first block, so running one of them suffices."""
    shown = [blocks.BLOCK.findall(page.read_text(encoding="utf-8")) for page in (README, INDEX)]
    assert len(shown[0]) == 1 and shown[0] == shown[1]


# The slowest pages and examples. .ci/run runs them in a separate step.
LONG = {
    *("gerrymandering", "learners", "tabular", "uses"),  # pages
    *("anomaly_detection", "head_pose", "loss_curves", "pair_verification", "tuning"),
    *("arrangements", "before_and_after", "captions", "clustering", "dimensionality_reduction"),
    *("knn_classification", "knn_regression", "new_classes", "pipeline", "poses", "texts"),
    *("retrieval", "two_domains", "which_learner"),
}


@pytest.mark.parametrize(
    "page", thinned(PAGES[1:], lambda page: page.stem not in LONG), ids=page_id
)
def test_code_on_pages_runs_and_prints_what_is_shown(page):
    """All blocks of a page run in order and share their names, as a reader would type them."""
    if page.stem == "clicks":
        pytest.importorskip("wordllama")
    blocks.check(page)


def test_the_service_of_an_adapter():
    """Eight clients ask while the map is replaced: each answer is by one map, and none is lost."""
    pytest.importorskip("fastapi")
    client = pytest.importorskip("fastapi.testclient").TestClient
    rng = np.random.default_rng(0)
    queries, texts = rng.normal(size=(2, 200, 6))
    np.save("texts.npy", texts)
    maps = []
    for seed in range(2):
        adapter = metricfast.AdapterLearner("query", judge=None, random_state=seed)
        adapter.fit(queries[100 * seed :][:100], X_database=texts[100 * seed :][:100])
        metricfast.save(adapter, f"{seed}.safetensors")
        mapped = adapter.transform(queries, side="query") @ adapter.transform(texts, "database").T
        maps.append(np.argsort(-mapped, axis=1)[:, :3].tolist())
    assert maps[0] != maps[1]
    page = (ROOT / "docs/service.md").read_text(encoding="utf-8")
    program = re.search(r"^## An adapter$.*?^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shutil.copy("0.safetensors", "adapter.safetensors")
    exec(program[1], names := {})

    def ask(number):
        found = client(names["app"]).post(
            "/search", params={"n_neighbors": 3}, json=[queries[number].tolist()]
        )
        return found.status_code, found.json()[0] in (each[number] for each in maps)

    with ThreadPoolExecutor(8) as clients:
        answers = clients.map(ask, range(100))
        for i in range(6):
            shutil.copy(f"{1 - i % 2}.safetensors", "new.safetensors")
            Path("new.safetensors").replace("adapter.safetensors")
            assert client(names["app"]).post("/reload").status_code == 200
        assert list(answers) == 100 * [(200, True)]
    for wrong in ([[1, 2]], [[1, 2], [3]], []):
        found = client(names["app"]).post("/search", json=wrong)
        assert found.status_code == 400, found.text
    assert "6" in client(names["app"]).post("/search", json=[[1, 2]]).json()["detail"]


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ("```python\nprint(1)\n```\n", "prints\n1"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "prints\n1"),
        ("```python\nx = 1\n```\n\n![a](img/drawn/a.png)\n", "draws no picture"),
    ],
)
def test_a_page_that_shows_something_else_fails(shown, message, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(shown)
    with pytest.raises(AssertionError, match=message):
        blocks.check(page)


def test_output_and_pictures_are_written_into_a_page(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    drawing = "```python\nfrom matplotlib import pyplot\n\npyplot.plot([1])\n```\n"
    page.write_text(f"A\n\n```python\nprint(1)\n```\n\nB\n\n{drawing}\n![a](img/drawn/a.png)\n")
    blocks.write(page)
    assert "print(1)\n```\n\n```text\n1\n```\n\nB" in page.read_text()
    assert (tmp_path / "docs/img/drawn/a.png").exists()
    blocks.check(page)
    before = page.read_text()
    blocks.write(page)
    assert page.read_text() == before


def test_the_quick_start_and_its_program_print_the_same(capsys):
    text = (ROOT / "docs/quickstart.md").read_text(encoding="utf-8")
    runpy.run_path(str(ROOT / "examples/quick_start.py"), run_name="__main__")
    first = next(block["text"] for block in blocks.BLOCK.finditer(text) if block["text"])
    assert capsys.readouterr().out.startswith(first)


def test_the_first_learners_to_try_have_low_errors_in_the_table():
    """Compare docs/learners.md and docs/quickstart.md with the table of docs/differences.md."""
    text = (ROOT / "docs/differences.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \|((?: [\d.]+(?: / \S+)? \|){8})$", text, re.MULTILINE)
    errors = {name: [float(e) for e in re.findall(r"(?:^|\|) ([\d.]+)", row)] for name, row in rows}
    above = {
        name: [round(a - b, 1) for a, b in zip(errors[name], errors["LMNN"], strict=True)]
        for name in ("NCA", "LFDA", "RCA_Supervised")
    }
    assert [sum(a > 0.5 for a in above["NCA"]), sum(a < 0 for a in above["NCA"])] == [1, 4]
    for name in ("LFDA", "RCA_Supervised"):
        assert sum(a <= 0.5 for a in above[name]) > 4
        assert abs(errors[name][-1] - errors["Euclidean"][-1]) < 0.5
    less = [np.sign(a - b) for a, b in zip(errors["NCA"], errors["LFDA"], strict=True)]
    assert [less.count(-1), less.count(1)] == [3, 3]


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("https:", "http:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_into_pages_lead_to_a_heading(page):
    for target, anchor in ANCHOR.findall(page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = [
            re.sub(r"[^\w\- ]", "", h.lower()) for h in re.findall(r"^#+ (.*)$", text, re.M)
        ]
        assert anchor in [h.replace(" ", "-") for h in headings], f"{page.name}: {target}#{anchor}"


def test_what_the_page_on_extending_quotes_stands_in_the_files_so():
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    quotes = re.findall(
        r"\]\(\.\./([^)]+)\)(?:(?!\]\(\.\./).)*?^```(?:cpp|pyi?)\n(.*?)^```$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert len(quotes) == 6
    for path, quote in quotes:
        file = (ROOT / path).read_text(encoding="utf-8")
        assert " ".join(quote.split()) in " ".join(file.split()), path


def test_every_page_is_linked_from_the_index_or_the_guide():
    texts = [page.read_text(encoding="utf-8") for page in (INDEX, INDEX.with_name("guide.md"))]
    assert {page.name for page in PAGES[1:]} - {"index.md"} <= set(LINK.findall("\n".join(texts)))


def test_every_page_has_its_place_on_the_site():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES[1:])
    trees = re.findall(r"^```{toctree}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^(?:.*<)?(\w+)>?$", "".join(trees), re.MULTILINE)
    assert sorted(listed) == sorted(page.stem for page in PAGES[1:] if page.stem != "index")


def test_every_learner_has_a_section_on_its_mathematics():
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("math_*.md"))
    sections = dict(re.findall(r"^## (\w+)$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    learners = {name.removesuffix("_Supervised") for name in metricfast.learners.__all__}
    learners |= {"MultiMetricLMNN", "NCAClassifier", "NCARegressor"}
    assert learners <= set(sections) | {"AutoLearner", "FixedDatabase"}
    for name in learners & set(sections):
        for part in ("**Objective", "**Cost", "**When"):
            assert part.lower() in sections[name].lower().replace("** and **", " **"), (name, part)


def test_every_public_name_has_a_page_of_the_reference(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    pages = importlib.import_module("pages")
    modules = [getattr(metricfast, name) for name in metricfast.__all__]
    modules = [metricfast, *(value for value in modules if isinstance(value, ModuleType))]
    names = pages.public_names(modules)
    made = dict(pages.reference(names))
    for module in modules:
        found = {name.path: name.page for name in names[module.__name__]}
        public = {name for name in module.__all__ if callable(getattr(module, name))}
        assert set(found) == {f"{module.__name__}.{name}" for name in public}
        assert set(found.values()) <= set(made)


def test_the_check_of_the_site_sees_what_is_wrong(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    check = importlib.import_module("check")
    monkeypatch.setattr(check.pages, "public_modules", list)
    monkeypatch.setattr(check.glossary, "names", {"RAG": "index"}.copy)
    index = {"docnames": ["index"], "terms": {"lmnn": 0}, "indexentries": {"rag": [[0, "", True]]}}
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    page = tmp_path / "index.html"
    page.write_text(
        '<meta name="viewport" content="width=device-width"><h1 id="top">'
        '<a href="#top"></a><img src="index.html" alt="A red dot in the middle">'
        '<div class="formula"><table></table></div><p style="max-width: 900px">'
    )
    assert check.problems(tmp_path) == []
    page.write_text(
        '<a href="#nowhere"></a><a href="none.html"></a><img src="index.html" alt="index.html">'
        '<table></table><p style="width: 900px"><script src="https://else.where/a.js"></script>'
    )
    index["indexentries"].clear()
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(index)})")
    assert len(check.problems(tmp_path)) == 8


def test_a_page_without_its_style_looks_different(monkeypatch, tmp_path):
    """A page with a few other lines looks as before."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    looks = importlib.import_module("looks")
    monkeypatch.setattr(looks, "FOLDER", tmp_path / "kept")

    def problems(*screens):
        shots = []
        for screen in screens:
            image.fromarray(screen.astype(np.uint8)).save(shot := io.BytesIO(), "png")
            shots.append(shot.getvalue())
        return looks.problems("reference/page", shots, tmp_path)

    screen = np.full((900, 640), 255)
    screen[100:200, 50:600] = screen[300:800, 50:600] = 100
    (first,) = problems(screen, screen[:, :320])
    assert first.startswith("reference/page: 100% looks different")
    (tmp_path / "looks").rename(looks.FOLDER)
    assert problems(screen, screen[:, :320]) == []
    other = screen.copy()
    other[240:300, 50:600] = 100
    assert problems(other, screen[:, :320]) == []
    assert len(problems(np.full_like(screen, 255), screen[:, :320])) == 1
    assert len(problems(screen, screen[:, :160])) == 1


def test_the_glossary_has_the_words_of_other_fields(monkeypatch):
    """The check of the site looks for each name of the glossary in the index of the search."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    words = {
        "anomalies": "anomaly detection, outlier detection",
        "cameras": "person re-identification",
        "clicks": "fine-tune, RAG, rerank, semantic search, sentence embeddings",
        "embeddings_you_own": "hard negatives",
        "embeddings": "triplet loss",
        "columns": "feature importance",
        "must_link": "cannot-link, must-link, semi-supervised clustering",
        "neighbors": "cosine similarity, metadata filter, similarity search, vector database",
        "plotting": "dimensionality reduction",
        "records": "deduplicate, entity resolution, near duplicates, record linkage",
        "repeated": "batch effect, repeated measurements",
        "regression": "k-NN regression",
        "retrieval": "few-shot",
        "scale": "online learning",
        "service": "web service",
        "thresholds": "face verification, false accept, identification, signature verification",
    }
    pages = importlib.import_module("glossary").names()
    asked = [(word, page) for page, names in words.items() for word in names.split(", ")]
    assert [(word, page) for word, page in asked if pages.get(word) != page] == []


def test_fractions_have_braces(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    found = importlib.import_module("check").BARE_FRACTION.search
    assert all(map(found, [r"\frac12 x", r"\frac c2", r"\frac1\alpha", r"\frac{1}23"]))
    assert not found(r"\frac{1}{2} x") and not found(r"\frac{a_{ij}} {n_c}")
    sources = [*PAGES, *EXAMPLES, *Path(metricfast.__file__).parent.rglob("*.py")]
    assert [path for path in sources if found(path.read_text(encoding="utf-8"))] == []


def marked(example: Path):
    reads = "METRICFAST_DATA" in example.read_text(encoding="utf-8")
    marks = [pytest.mark.data] if reads else []
    if example.stem in LONG:
        marks.append(pytest.mark.exhaustive)
    return pytest.param(example, marks=marks, id=page_id(example))


@pytest.mark.parametrize("example", [marked(example) for example in EXAMPLES])
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")  # sys.exit() fails the test
    assert capsys.readouterr().out
    figures = sys.modules["matplotlib.pyplot"].get_fignums()
    described = PICTURE.findall(example.read_text(encoding="utf-8"))
    assert len(figures) <= len(described), "each figure needs its comment '# Picture: ...'"


def test_a_thumbnail_is_one_panel_of_the_first_figure(monkeypatch, tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    stub = SimpleNamespace(figure_rst=lambda paths, *_: str(paths))
    monkeypatch.setitem(sys.modules, "sphinx_gallery", stub)
    monkeypatch.setitem(sys.modules, "sphinx_gallery.scrapers", stub)
    pictures = importlib.import_module("pictures")
    assert set(pictures.THUMBNAILS) <= {example.stem for example in EXAMPLES}
    monkeypatch.setattr(pictures, "THUMBNAILS", {"a": [1]})
    pyplot.subplots(1, 4, figsize=(8, 2))

    class Paths(list):  # as of sphinx-gallery: the paths that have been taken
        def __iter__(self):
            return self

        def __next__(self):
            self.append(str(tmp_path / f"{len(self)}.png"))
            return self[-1]

    paths = Paths()
    block = ("code", "# Picture: four panels\n", 1)
    images = {"src_file": "a.py", "image_path_iterator": paths}
    shown = pictures.DescribedPictures()(block, images, {"src_dir": str(tmp_path)})
    assert len(paths) == 2 and shown == str([paths[1]])
    small, large = (pyplot.imread(paths[i]).shape for i in range(2))
    assert small[1] < large[1] / 3


def test_an_example_without_its_data_fails(monkeypatch):
    monkeypatch.setattr("sys.argv", ["poses.py", "missing.npz"])
    with pytest.raises(SystemExit, match=r"no file missing\.npz"):
        runpy.run_path(str(ROOT / "examples/finding/poses.py"), run_name="__main__")


@pytest.mark.parametrize("example", EXAMPLES, ids=page_id)
def test_examples_have_a_title_and_pictures_their_words(example):
    text = example.read_text(encoding="utf-8")
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text), "an example begins with its title, underlined"
    assert PICTURE.search(text), "say what the picture shows"
    assert (example.parent / "GALLERY_HEADER.rst").exists()


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_public_names_have_an_example():
    missing = [
        name
        for name in metricfast.__all__
        if callable(getattr(metricfast, name)) and ">>>" not in getattr(metricfast, name).__doc__
    ]
    assert missing == []
