from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Set before NumPy is loaded: waiting BLAS threads would take processor time from other pytest
# workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

from metricfast import get_library_dir
from metricfast._core.dispatch import available_isas

# A shell that starts the tests in the background may ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # for the benchmarks
DATA = Path(os.environ.get("METRICFAST_DATA", ROOT.parent / "shared" / "data"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "levels: needs modules built for x86-64-v2, v3 and v4")
    config.addinivalue_line("markers", "data: looks for real data in METRICFAST_DATA")
    config.addinivalue_line(
        "markers", "exhaustive: tries for all what others try for some; run with -m exhaustive"
    )


def pytest_report_header() -> str:
    return f"metricfast: {', '.join(available_isas())}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests on real data; deselect exhaustive tests and tests of levels that are not built."""
    for item in items:
        if "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
    built = {file.stem for file in Path(get_library_dir()).iterdir()}
    left_out = set() if "exhaustive" in config.option.markexpr else {"exhaustive"}
    if not built.issuperset(f"libmetricfast_{level}" for level in ("v2", "v3", "v4")):
        left_out.add("levels")
    kept = [
        item for item in items if left_out.isdisjoint(mark.name for mark in item.iter_markers())
    ]
    config.hook.pytest_deselected(items=list(set(items).difference(kept)))
    items[:] = kept


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path for a model file."""
    return tmp_path / "model.safetensors"


@pytest.fixture
def no_thread_survives() -> Iterator[None]:
    """Check that no thread that reads points is left after the test."""
    yield
    assert not [t for t in threading.enumerate() if t.name.startswith("metricfast-reads")]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client with two workers in this process."""
    from dask_cases import cluster

    with cluster(2) as found:
        yield found


@pytest.fixture
def real_data() -> Callable[[str], dict[str, np.ndarray]]:
    """A function that loads a data set by name; it skips the test without the data folder."""
    if not DATA.is_dir():
        pytest.skip(f"no data folder {DATA}: set METRICFAST_DATA")

    def load(name: str) -> dict[str, np.ndarray]:
        with np.load(DATA / f"{name}.npz") as arrays:
            return dict(arrays)

    return load
