"""The architecture: who may import whom, and what the core may use."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "src" / "cpp" / "include" / "metricfast"
PACKAGE = ROOT / "src" / "metricfast"

ROOMS = ["embeddings", "distance", "search", "engine", "inference", "losses", "constrained"]
# A file imports from its own layer or from those above it here. "x/" is every file of a directory.
CPP_LAYERS = [
    ["version"],
    ["core/"],
    [f"{room}/types" for room in [*ROOMS, "model"]],
    ["library/kernel"],
    [f"library/{name}" for name in ("constrained", "embeddings", "losses", "models", "search")],
    ["library"],
    ["library/calls"],
    ["simd/"],
    ["embeddings/"],
    ["distance/", "search/"],
    ["engine/", "inference/"],
    ["losses/", "constrained/"],
    ["model/"],
    ["model"],
    ["metricfast"],
]
PYTHON_LAYERS = [
    ["_kernels", "_core/threadpool", "_core/kernels", "_core/types", "_exports"],
    ["_core/dispatch", "_core/frames", "_core/arguments", "exceptions"],
    ["_core/", "_labels/", "distances/", "losses/", "embeddings/"],
    ["selection/"],
    ["samplers", "constraints", "metrics/"],
    ["training/"],
    ["learners/base/"],
    ["learners/tuples/", "learners/closed/"],
    ["learners/trained"],
    ["learners/linear", "learners/impostors", "learners/lmnn_targets"],
    [*(f"learners/{name}" for name in ("nca", "mcml", "mlkr", "ldml", "ncmml", "lmnn"))],
    ["learners/embedding/"],
    ["learners/gerrymandering/", "learners/kernel/"],
    ["learners/auto_data", "learners/auto"],
    ["predictors/"],
    ["learners/__init__"],
    ["comparison/"],
    ["__init__", "callbacks", "neighbors", "inference", "solvers", "sources", "stopping"],
    ["_checked_model", "onnx", "torch", "_paths"],
    ["dask/", "io", "plotting/"],
    ["_demo"],
    ["__main__"],
]
# Eigen, the C++ standard library, and platform-specific headers.
CORE_MAY_INCLUDE = r"Eigen/\w+|\w+|(arm_neon|cpuid|cxxabi|immintrin|sched)\.h|sys/(auxv|mman)\.h"


def cpp_includes(name: str) -> Iterator[str]:
    text = (CORE / f"{name}.hpp").read_text()
    yield from re.findall(r'^#include "metricfast/(.+)\.hpp"', text, re.MULTILINE)


def python_imports(name: str) -> Iterator[str]:
    for node in ast.walk(ast.parse((PACKAGE / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            yield from (
                module_file(a.name) for a in node.names if a.name.split(".")[0] == PACKAGE.name
            )
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}.py: relative import"
            module = node.module or ""
            # Importing the package here could deadlock with threads that import its modules.
            assert module != PACKAGE.name, f"{name}.py: take from a module, not the package"
            if module.split(".")[0] == PACKAGE.name:
                yield module_file(module)


def module_file(dotted: str) -> str:
    """Return the file, without suffix, of the module metricfast.a.b."""
    path = "/".join(dotted.split(".")[1:])
    if (PACKAGE / path / "__init__.py").is_file():
        return f"{path}/__init__".lstrip("/")
    return path


GRAPHS = {
    "C++": (
        CPP_LAYERS,
        {
            name: set(cpp_includes(name))
            for name in (
                p.relative_to(CORE).with_suffix("").as_posix() for p in CORE.rglob("*.hpp")
            )
        },
    ),
    "Python": (
        PYTHON_LAYERS,
        {
            name: set(python_imports(name))
            for name in (
                p.relative_to(PACKAGE).with_suffix("").as_posix() for p in PACKAGE.rglob("*.py")
            )
        },
    ),
}


def layer_of(name: str, layers: list[list[str]]) -> int:
    for i, layer in enumerate(layers):
        if any(
            name == entry or (entry.endswith("/") and name.startswith(entry)) for entry in layer
        ):
            return i
    raise AssertionError(f"{name} is in no layer: place it in {Path(__file__).name}")


@pytest.mark.parametrize("language", GRAPHS)
def test_imports_follow_the_layers(language: str) -> None:
    layers, graph = GRAPHS[language]
    assert len(graph) > 5
    wrong = [
        f"{name} imports {used}"
        for name, uses in graph.items()
        for used in uses
        if layer_of(used, layers) > layer_of(name, layers)
    ]
    assert wrong == []


@pytest.mark.parametrize("language", GRAPHS)
def test_imports_have_no_cycle(language: str) -> None:
    TopologicalSorter(GRAPHS[language][1]).prepare()


def test_only_dispatch_imports_compiled_modules() -> None:
    graph = GRAPHS["Python"][1]
    assert [name for name, uses in graph.items() if "_kernels" in uses] == ["_core/dispatch"]


# What deals parts outside of `selection/`: validation points of one training, which no judge uses,
# predictors that vote, and the demo.
DEALERS = {"training/stopping", "predictors/soft_training", "_demo"}
# Modules outside of `selection/` with intervals of scores, corrected tests between learners, or the
# standard error of a report of pairs.
TESTERS = {"metrics/_score", "comparison/statistics", "metrics/_pairs"}
DRAWS = {"permutation", "permuted", "shuffle", "choice", "array_split"}
RANDOM = re.compile(r"\.(rand|random|random_sample|uniform)\(")
HELD_OUT = re.compile(
    r"_?(train|tests?|held(_out)?|((of|each|n)_)?(folds?|splits)|valid|validation)"
)
# Functions of scipy.stats that are not tests.
PLAIN = {"rankdata", "mode"}


def names_in(tree: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    return found | {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}


def called_in(tree: ast.AST) -> set[str]:
    functions = [each.func for each in ast.walk(tree) if isinstance(each, ast.Call)]
    return {getattr(each, "attr", getattr(each, "id", "")) for each in functions}


def deals(tree: ast.AST) -> bool:
    """Return whether code imports splitters, or draws and names parts in one function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            masks = [each.left for each in ast.walk(node) if isinstance(each, ast.Compare)]
            drawn = called_in(node) & DRAWS or any(map(RANDOM.search, map(ast.unparse, masks)))
            found = bool(drawn) and any(map(HELD_OUT.fullmatch, names_in(node)))
        elif isinstance(node, ast.ImportFrom) and node.module == "sklearn.model_selection":
            found = any(re.search("[Ff]old|[Ss]plit|Leave", each.name) for each in node.names)
        else:
            found = False
        if found:
            return True
    return False


def weighs_evidence(tree: ast.AST) -> bool:
    """Return whether code imports tests or distributions, or computes standard errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("scipy", "scipy.stats"):
            names = {each.name for each in node.names}
            if "stats" in names or (node.module == "scipy.stats" and names - PLAIN):
                return True
        elif isinstance(node, ast.keyword) and node.arg == "ddof":
            return True
    return bool(names_in(tree) & {"ndtr", "erf", "erfc"})


def test_only_selection_holds_data_out_and_weighs_evidence() -> None:
    found: dict[str, set[str]] = {"deals": set(), "tests": set()}
    for path in PACKAGE.rglob("*.py"):
        name, tree = (
            path.relative_to(PACKAGE).with_suffix("").as_posix(),
            ast.parse(path.read_text()),
        )
        if not name.startswith("selection/"):
            found["deals"] |= {name} if deals(tree) else set()
            found["tests"] |= {name} if weighs_evidence(tree) else set()
    assert found == {"deals": DEALERS, "tests": TESTERS}


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (deals, "def f(y):\n    test = rng.permutation(y)[:9]"),
        (deals, "def f(folds):\n    shuffle(x)"),
        (deals, "class A:\n    def f(self, n):\n        held_out = self.rng.random(n) < 0.2"),
        (deals, "def f(n):\n    train, test = np.array_split(np.arange(n), 2)"),
        (deals, "g = lambda train: rng.choice(train, 3)"),
        (deals, "from sklearn.model_selection import KFold"),
        (deals, "from sklearn.model_selection import train_test_split as halves"),
        (weighs_evidence, "from scipy import stats"),
        (weighs_evidence, "from scipy.stats import norm, rankdata"),
        (weighs_evidence, "error = costs.std(ddof=1) / np.sqrt(len(costs))"),
        (weighs_evidence, "from scipy.special import ndtr\np = ndtr(-z)"),
    ],
)
def test_a_second_dealer_or_test_of_evidence_is_found(
    found: Callable[[ast.AST], bool], code: str
) -> None:
    assert found(ast.parse(code))


def test_the_page_on_architecture_names_every_room() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    rooms = {f"{path.parent.relative_to(PACKAGE).as_posix()}/" for path in PACKAGE.rglob("*.py")}
    rooms |= {f"include/metricfast/{path.name}/" for path in CORE.iterdir() if path.is_dir()}
    assert {room for room in rooms - {"./", "learners/"} if f"`{room}`" not in page} == set()


@pytest.mark.parametrize("header", sorted(CORE.rglob("*.hpp")), ids=lambda p: p.name)
def test_core_uses_eigen_and_the_standard_library_alone(header: Path) -> None:
    text = header.read_text()
    included = re.findall(r"^\s*#\s*include\s+<(.+)>", text, re.MULTILINE)
    assert [name for name in included if not re.fullmatch(CORE_MAY_INCLUDE, name)] == []
    assert not re.search(r"#\s*pragma\s+omp|\bomp_|\bpybind11\b", text)
