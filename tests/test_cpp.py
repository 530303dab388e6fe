"""The C++ tests, and programs that embed the library, built and run as their users would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metricfast

ROOT = Path(__file__).parents[1]
CONSUMER = ROOT / "tests" / "cpp" / "cmake_consumer"
# neighbours and distances of its three points, and a distance from its second source file
CONSUMER_OUTPUT = "1 2 1 5 1 1 7"


def run(*command: str | Path) -> str:
    tools = Path(sys.executable).parent
    eigen = [path / "cmeel.prefix" for path in map(Path, sys.path)]
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_PREFIX_PATH": os.pathsep.join(str(path) for path in eigen if path.is_dir()),
    }
    result = subprocess.run(
        [str(part) for part in command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def build(source: Path, directory: Path, *definitions: str) -> None:
    run("cmake", "-S", source, "-B", directory, "-DCMAKE_BUILD_TYPE=Release", *definitions)
    run("cmake", "--build", directory)


def use_wheel(directory: Path) -> str:
    return f"-Dmetricfast_DIR={metricfast.get_cmake_dir()}"


def use_source_tree(directory: Path) -> str:
    return f"-DMETRICFAST_SOURCE_TREE={ROOT}"


def use_install_prefix(directory: Path) -> str:
    build(ROOT, directory / "build")
    run("cmake", "--install", directory / "build", "--prefix", directory / "prefix")
    return f"-Dmetricfast_ROOT={directory / 'prefix'}"


def test_cpp_tests_pass(tmp_path: Path) -> None:
    build(ROOT, tmp_path, "-DMETRICFAST_BUILD_TESTS=ON")
    output = run("ctest", "--test-dir", tmp_path, "--output-on-failure", "--no-tests=error")
    assert "100% tests passed" in output


@pytest.mark.parametrize("use", [use_wheel, use_source_tree, use_install_prefix])
def test_consumer_program(use, tmp_path: Path) -> None:
    build(CONSUMER, tmp_path / "consumer", use(tmp_path))
    version, *numbers = run(tmp_path / "consumer" / "consumer").split()
    assert version == metricfast.__version__
    assert " ".join(numbers) == CONSUMER_OUTPUT


def test_wrong_version_is_refused(tmp_path: Path) -> None:
    project = (CONSUMER / "CMakeLists.txt").read_text()
    (tmp_path / "CMakeLists.txt").write_text(project.replace("metricfast 0.1", "metricfast 99"))
    with pytest.raises(AssertionError, match=r'compatible\s+with requested version "99"'):
        run("cmake", "-S", tmp_path, "-B", tmp_path / "build", use_wheel(tmp_path))


def test_example(tmp_path: Path) -> None:
    build(ROOT / "examples" / "cpp", tmp_path, use_wheel(tmp_path))
    before, after = map(float, re.findall(r"3-NN error, .*: +([0-9.e-]+)", run(tmp_path / "nca")))
    assert after < before

    points = tmp_path / "points.txt"
    points.write_text("".join(f"{i % 2} {i * i % 7} {i % 2}\n" for i in range(20)))
    assert "20 points, 2 coordinates" in run(tmp_path / "nca", points)
    points.write_text("1 2 0\n1 0\n")
    with pytest.raises(AssertionError, match="nca: each line must hold the same number of values"):
        run(tmp_path / "nca", points)
