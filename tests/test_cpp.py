"""The C++ tests, and programs that embed the library, built and run as their users would."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import metricfast

ROOT = Path(__file__).parents[1]
CPP_PAGE = ROOT / "docs" / "cpp.md"
CONSUMER = ROOT / "tests" / "cpp" / "cmake_consumer"
# neighbours and distances of its three points, and a distance from its second source file
CONSUMER_OUTPUT = "1 2 1 5 1 1 7"
# lines that the example refuses, and what it says
BAD_LINES = {
    "nan 2 0": "nan is no finite number",
    "x 2 0": "x is no finite number",
    "1 2 0 -": "- is no finite number",
    "1,2,0": "1,2,0 is no finite number",
    "1 1e999 0": "1e999 is no finite number",
    "1": "expected coordinates and a label",
    "1 0": "expected as many values",
    "1 2 0.5": "the last value, the label, is no integer",
}


def run(*command: str | Path, directory: Path | None = None) -> str:
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CMAKE_GENERATOR": "Ninja",
    }
    # Eigen must be found without a hint, as on a machine where nothing is set.
    for hint in ("CMAKE_PREFIX_PATH", "Eigen3_DIR", "Eigen3_ROOT"):
        environment.pop(hint, None)
    result = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
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
    run("cmake", "-S", ROOT, "-B", directory / "build")
    run("cmake", "--install", directory / "build", "--prefix", directory / "prefix")
    # what is not beside cmeel-eigen is told of it
    eigen = [path / "cmeel.prefix" for path in map(Path, sys.path)]
    prefixes = [directory / "prefix", *(path for path in eigen if path.is_dir())]
    return f"-DCMAKE_PREFIX_PATH={';'.join(map(str, prefixes))}"


def run_as_printed(commands: str, directory: Path) -> None:
    """Run what a reader would paste into a shell."""
    assert "cmake --build build" in commands
    run("sh", "-ec", commands, directory=directory)


def test_cpp_tests_pass(tmp_path: Path) -> None:
    build(ROOT, tmp_path, "-DMETRICFAST_BUILD_TESTS=ON")
    output = run("ctest", "--test-dir", tmp_path, "--output-on-failure", "--no-tests=error")
    assert "100% tests passed" in output


def assert_consumer_runs(program: Path) -> None:
    assert run(program).split() == [metricfast.__version__, *CONSUMER_OUTPUT.split()]


@pytest.mark.parametrize("use", [use_source_tree, use_install_prefix])
def test_consumer_program(use, tmp_path: Path) -> None:
    build(CONSUMER, tmp_path / "consumer", use(tmp_path))
    assert_consumer_runs(tmp_path / "consumer" / "consumer")


def test_commands_of_the_page(tmp_path: Path) -> None:
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", CPP_PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shutil.copytree(CONSUMER, tmp_path, dirs_exist_ok=True)
    run_as_printed(commands, tmp_path)
    assert_consumer_runs(tmp_path / "build" / "consumer")


def test_missing_eigen_is_named(tmp_path: Path) -> None:
    missing = "-DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON"
    with pytest.raises(AssertionError, match=r"pip\s+install\s+cmeel-eigen[^,]*,\s+found\s+none"):
        run("cmake", "-S", CONSUMER, "-B", tmp_path / "wheel", use_wheel(tmp_path), missing)
    with pytest.raises(AssertionError, match=r"pip\s+install\s+cmeel-eigen[^,]*,\s+found\s+none"):
        run("cmake", "-S", ROOT, "-B", tmp_path / "source", missing)


def test_old_eigen_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Eigen3Config.cmake").touch()
    (tmp_path / "Eigen3ConfigVersion.cmake").write_text("set(PACKAGE_VERSION 3.3.9)")
    old = f"-DEigen3_DIR={tmp_path}"
    for source in (CONSUMER, ROOT):
        with pytest.raises(AssertionError, match=r"found\s+3\.3\.9\s+in"):
            run("cmake", "-S", source, "-B", tmp_path / source.name, use_wheel(tmp_path), old)


def test_wrong_version_is_refused(tmp_path: Path) -> None:
    project = (CONSUMER / "CMakeLists.txt").read_text()
    (tmp_path / "CMakeLists.txt").write_text(project.replace("metricfast 0.1", "metricfast 99"))
    with pytest.raises(AssertionError, match=r'compatible\s+with requested version "99"'):
        run("cmake", "-S", tmp_path, "-B", tmp_path / "build", use_wheel(tmp_path))


def test_example(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "cpp", tmp_path, dirs_exist_ok=True)
    comment = re.findall(r"^# ?(.*)$", (tmp_path / "CMakeLists.txt").read_text(), re.MULTILINE)
    run_as_printed("\n".join(comment[comment.index("") :]), tmp_path)
    nca = tmp_path / "build" / "nca"
    before, after = map(float, re.findall(r"3-NN error, .*: +([0-9.e-]+)", run(nca)))
    assert after < before

    points = tmp_path / "points.txt"
    good = "".join(f"{i % 2} {i * i % 7} {i % 2}\n" for i in range(20))
    points.write_text(f"{good}\n")
    assert "20 points, 2 coordinates" in run(nca, points)
    for line, message in BAD_LINES.items():
        points.write_text(f"{good}\n{line}\n")
        with pytest.raises(AssertionError, match=f"points.txt, line 22: {message}"):
            run(nca, points)
