"""The C++ tests, and programs that embed the library, built and run like a user's programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from thinned import thinned

import metricfast
from metricfast._core.dispatch import get_kernels

ROOT = Path(__file__).parents[1]
CPP_PAGE = ROOT / "docs" / "cpp.md"
MODELS_PAGE = ROOT / "docs" / "models.md"
CONSUMER = ROOT / "tests" / "cpp" / "cmake_consumer"
OUTER = ROOT / "tests" / "cpp" / "cmake_outer"
# neighbours and distances of its three points, and a distance from its second source file
CONSUMER_OUTPUT = "1 2 1 5 1 1 7"
CLANG = [f"clang++{version}" for version in ("", *(f"-{n}" for n in range(30, 11, -1)))]
# Code that must not compile, and the compiler's message.
MISUSE = {
    "view(Rows(Rows::Random(3, 2)));": "delete",
    "view(m.topRows(2));": "delete",
    "auto sum = m + m; view(sum);": "evaluate it into a RowMatrix first",
    "Eigen::MatrixXd columns(3, 2); view(columns);": "copy it into a RowMatrix first",
    "auto steps = m.col(0).transpose(); view(steps);": "copy them into a RowMatrix first",
    "Codes labels(std::vector<std::int64_t>{0, 1});": "delete",
    "view(std::vector<double>{0, 1}, 1, 2);": "delete",
}
# Lines that the example refuses, and its message.
BAD_LINES = {
    "nan 2 0": "nan is not a finite number",
    "x 2 0": "x is not a finite number",
    "1 2 0 -": "- is not a finite number",
    "1,2,0": "1,2,0 is not a finite number",
    "1 1e999 0": "1e999 is not a finite number",
    "1": "expected coordinates and a label",
    "1 0": "expected as many values",
    "1 2 0.5": "the last value, the label, is not an integer",
}


def run(*command: str | Path, directory: Path | None = None) -> str:
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "CMAKE_GENERATOR": "Ninja",
    }
    # CMake must find Eigen without hints, as on a fresh machine.
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


def configure(source: Path, directory: Path, *definitions: str) -> None:
    run("cmake", "-S", source, "-B", directory, *definitions)


def use_wheel(directory: Path) -> str:
    return f"-Dmetricfast_DIR={metricfast.get_cmake_dir()}"


def use_source_tree(directory: Path) -> str:
    return f"-DMETRICFAST_SOURCE_TREE={ROOT}"


def eigen_prefix() -> Path:
    return next(p for path in sys.path if (p := Path(path) / "cmeel.prefix").is_dir())


def installed(source: Path, directory: Path, *definitions: str) -> str:
    configure(source, directory / "build", *definitions)
    run("cmake", "--install", directory / "build", "--prefix", directory / "prefix")
    # packages outside of cmeel-eigen's environment need its path
    return f"-DCMAKE_PREFIX_PATH={directory / 'prefix'};{eigen_prefix()}"


def use_install_prefix(directory: Path) -> str:
    return installed(ROOT, directory, "-DMETRICFAST_BUILD_LIBRARY=OFF")


def use_install_prefix_of_another_project(directory: Path) -> str:
    return installed(OUTER, directory, *outer_definitions())


def outer_definitions() -> list[str]:
    return [
        f"-DMETRICFAST_SOURCE_TREE={ROOT}",
        f"-DOWN_EIGEN={eigen_prefix() / 'include' / 'eigen3'}",
        "-DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON",
    ]


def compiler(family: str) -> str:
    """Return a compiler of the family, or skip the test."""
    names = CLANG if family == "clang" else ["c++"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no {names[0]} in PATH")
    return found


def run_as_printed(commands: str, directory: Path) -> None:
    """Run the commands that a reader would paste into a shell."""
    assert "cmake --build build" in commands
    run("sh", "-ec", commands, directory=directory)


def configure_tests(directory: Path, family: str, optimise: str) -> None:
    """Configure the tests with warnings as errors."""
    configure(
        ROOT,
        directory,
        "-DMETRICFAST_BUILD_TESTS=ON",
        "-DMETRICFAST_BUILD_LIBRARY=OFF",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_CXX_FLAGS_RELEASE={optimise} -DNDEBUG",
        "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCMAKE_CXX_COMPILER={compiler(family)}",
    )


def run_tests(directory: Path, *options: str) -> None:
    output = run(
        "ctest", "--test-dir", directory, "--output-on-failure", "--no-tests=error", *options
    )
    assert "100% tests passed" in output


@pytest.mark.exhaustive
def test_cpp_tests_of_kernels_pass(tmp_path: Path) -> None:
    """Users get the code of the default compiler."""
    configure_tests(tmp_path, "default", "-O3")
    run("cmake", "--build", tmp_path, "--target", "kernel_tests")
    run_tests(tmp_path, "-L", "kernel")


@pytest.mark.exhaustive
def test_other_cpp_tests_pass(tmp_path: Path) -> None:
    """Also checks that each header compiles alone. Without optimisation, which is slow."""
    configure_tests(tmp_path, "default", "-O1")
    run("cmake", "--build", tmp_path, "--target", "headers_alone", "other_tests")
    run_tests(tmp_path, "-L", "other")


@pytest.mark.exhaustive
def test_cpp_tests_of_kernels_pass_with_clang(tmp_path: Path) -> None:
    """Clang rounds and inlines differently. It only checks the other tests for warnings."""
    configure_tests(tmp_path, "clang", "-O1")
    run("cmake", "--build", tmp_path, "--target", "kernel_tests")
    run_tests(tmp_path, "-L", "kernel")
    units = json.loads((tmp_path / "compile_commands.json").read_text())
    [others] = [unit["command"] for unit in units if "/other_tests.dir/" in unit["command"]]
    parse = others.replace(" -c ", " -fsyntax-only ")
    run("sh", "-ec", parse, directory=tmp_path)


@pytest.mark.exhaustive
def test_neighbors_on_arm(tmp_path: Path) -> None:
    """Emulated, with and without products of 8-bit integers."""
    cross, emulator = "aarch64-linux-gnu-g++", "qemu-aarch64"
    if not (shutil.which(cross) and shutil.which(emulator)):
        pytest.skip(f"no {cross} or {emulator} in PATH")
    include = ROOT / "src" / "cpp" / "include"
    headers = [f"-I{include}", "-isystem", eigen_prefix() / "include" / "eigen3"]
    tests = ROOT / "tests" / "cpp" / "test_neighbors.cpp"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wno-psabi", "-Werror", "-static"]
    run(cross, *flags, *headers, tests, "-o", tmp_path / "tests")
    asks = "#include <cstdio>\n#include <metricfast/simd/int8.hpp>\n"
    asks += 'int main() { std::printf("%d", metricfast::has_int8()); }'
    (tmp_path / "has.cpp").write_text(asks)
    run(cross, *flags, *headers, tmp_path / "has.cpp", "-o", tmp_path / "has")
    for processor, has in (("max", "1"), ("cortex-a57", "0")):
        assert run(emulator, "-cpu", processor, tmp_path / "has") == has
        output = run(emulator, "-cpu", processor, tmp_path / "tests")
        assert "passed bounds_of_integers_hold" in output


@pytest.mark.parametrize("family", thinned(["default", "clang"]))
def test_misuse_does_not_compile(family: str, tmp_path: Path) -> None:
    lines = ["#include <metricfast/core/types.hpp>", "using namespace metricfast;"]
    lines += ["using Rows = RowMatrix<double>;"]
    lines += [f"void f{i}(Rows &m) {{ {code} }}" for i, code in enumerate(MISUSE)]
    (tmp_path / "misuse.cpp").write_text("\n".join(lines))
    command = [
        compiler(family),
        *("-std=c++17", "-fsyntax-only", f"-I{metricfast.get_include()}"),
        *("-isystem", eigen_prefix() / "include" / "eigen3"),
        tmp_path / "misuse.cpp",
    ]
    with pytest.raises(AssertionError) as refused:
        run(*command)
    for line, said in enumerate(MISUSE.values(), start=4):
        assert f"misuse.cpp:{line}:" in str(refused.value) and said in str(refused.value)
    with pytest.raises(AssertionError, match="compile without -ffast-math"):
        run(*command, "-ffast-math")


@pytest.mark.parametrize(
    ("use", "threads"),
    thinned(
        [
            (use_source_tree, "ours"),
            (use_source_tree, "Eigen's"),
            (use_install_prefix, "ours"),
            (use_install_prefix_of_another_project, "Eigen's"),
        ],
        3,
    ),
)
def test_consumer_program(use, threads: str, tmp_path: Path) -> None:
    """Every way to find the headers works, and one program is built; the wheel's is on the page."""
    theirs = "ON" if threads == "Eigen's" else "OFF"
    built = tmp_path / "consumer"
    without = "-DMETRICFAST_BUILD_LIBRARY=OFF"
    configure(CONSUMER, built, use(tmp_path), without, f"-DMETRICFAST_EIGEN_THREADS={theirs}")
    commands = (built / "build.ninja").read_text()
    found = set(re.findall(r"-isystem (\S*(?:src/cpp|prefix)/include)\b", commands))
    assert any((Path(headers) / "metricfast" / "metricfast.hpp").exists() for headers in found)
    assert ("-DEIGEN_DONT_PARALLELIZE" in commands) == (threads == "ours")
    if use is use_install_prefix_of_another_project:
        run("cmake", "--build", built)
        expected = [metricfast.__version__, *CONSUMER_OUTPUT.split(), threads]
        assert run(built / "consumer").split() == expected


def test_subproject_builds_what_is_linked(tmp_path: Path) -> None:
    """The default build compiles no kernel. A program that links the library builds the level."""
    level = metricfast.build_info()["isa"]
    configure(OUTER, tmp_path, *outer_definitions(), f"-DMETRICFAST_LEVELS={level}")
    assert run("ninja", "-C", tmp_path, "-t", "commands", "all") == ""
    commands = run("ninja", "-C", tmp_path, "-t", "commands", "program")
    assert set(re.findall(r"-o \S*libmetricfast_(\w+)\.", commands)) == {level}


def blocks(page: Path, section: str = "") -> dict[str, str]:
    """Return the first code block of a page, or of its section, in each language."""
    text = page.read_text()
    text = text[text.index(section) :]
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return dict(reversed(found))


def test_programs_with_the_compiled_library(tmp_path: Path) -> None:
    """Programs need no Eigen, print the page's output, and refuse bad arguments."""
    text = CPP_PAGE.read_text()
    text = text[text.index("## The compiled library") : text.index("## The headers")]
    found = blocks(CPP_PAGE, "## The compiled library")
    programs = dict(
        zip(
            ("neighbors", "train", "serve", "filter", "infer", "retrieve"),
            re.findall(r"```cpp\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL),
            strict=True,
        )
    )
    tests = ROOT / "tests" / "cpp"
    refusals = f"""
        foreach(program refusals other_version)
            add_executable(${{program}} {tests}/library/${{program}}.cpp)
            target_include_directories(${{program}} PRIVATE {tests})
            target_link_libraries(${{program}} PRIVATE metricfast::metricfast)
        endforeach()
    """
    (tmp_path / "CMakeLists.txt").write_text(found["cmake"] + refusals)
    for name, (code, _) in programs.items():
        (tmp_path / f"{name}.cpp").write_text(code)
    run_as_printed(found["sh"], tmp_path)
    assert "igen" not in (tmp_path / "build" / "build.ninja").read_text()
    for name, (_, printed) in programs.items():
        assert run(tmp_path / "build" / name) == printed
    run(tmp_path / "build" / "refusals")
    run(tmp_path / "build" / "other_version")
    without_cmake = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[1]
    run("sh", "-ec", without_cmake.replace("g++", compiler("default")), directory=tmp_path)
    assert run(tmp_path / "neighbors") == programs["neighbors"][1]
    # the same in Python
    X, L = np.array([[0.0, 9], [1, -7], [3, 4], [6, 0], [10, 5]]), np.array([[1.0, 0]])
    distances, rows = metricfast.kneighbors(X, X, 2, L=L)
    lines = [f"point {i}: next is {rows[i, 1]} at {distances[i, 1]:g}" for i in range(5)]
    assert programs["neighbors"][1] == "\n".join([*lines, ""])
    loss, L, lines = metricfast.losses.NCA("log", reduction="sum"), np.array([[0.1, 0.1]]), []
    for step in range(101):
        value, gradient = loss(X @ L.T, [0, 0, 0, 1, 1])
        if step % 50 == 0:
            lines.append(f"loss {value:.6g} at L = {L[0, 0]:.6g} {L[0, 1]:.6g}")
        L = L - 0.001 * gradient.T @ X
    assert programs["train"][1] == "\n".join([*lines, ""])
    numbers, classes = np.array([[0.0], [1], [3], [6], [7], [10]]), [0, 0, 1, 1, 1, 0]
    sets = metricfast.inference.both(
        numbers, None, classes, classes, 3, loss_matrix=[[0, 50], [20, 0]]
    )
    printed = np.array(re.findall(r"-?\d+", programs["infer"][1]), int).reshape(6, 9)
    for found, row in zip(sets, (printed[:, 1:5], printed[:, 5:]), strict=True):
        assert (row == np.column_stack([found.indices, found.values])).all()


@pytest.mark.exhaustive
def test_the_program_of_the_page(tmp_path: Path) -> None:
    """The page's files and commands, as a reader would type them."""
    found = blocks(CPP_PAGE, "## With CMake")
    (tmp_path / "CMakeLists.txt").write_text(found["cmake"])
    (tmp_path / "main.cpp").write_text(found["cpp"])
    run_as_printed(found["sh"], tmp_path)
    output = run(tmp_path / "build" / "consumer")
    assert "\nall the same\n" in output and "n_neighbors must be at least 1" in output
    assert ("bytes of 8-bit coordinates\n" in output) == get_kernels().has_int8()


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ in PATH")
def test_the_command_without_cmake(tmp_path: Path) -> None:
    program = """
        #include <iostream>
        #include <metricfast/distance/distance.hpp>
        #include <metricfast/version.hpp>
        int main() {
            const metricfast::RowMatrix<double> a{{0, 3}}, b{{4, 0}};
            std::cout << (a - b).norm() << METRICFAST_VERSION_MAJOR;
        }
    """
    (tmp_path / "main.cpp").write_text(program)
    command = blocks(CPP_PAGE, "## Without CMake")["sh"].replace("-O3", "-O0 -Wall -Werror")
    run("sh", "-ec", command, directory=tmp_path)
    assert run(tmp_path / "consumer") == f"5{metricfast.__version__.partition('.')[0]}"


@pytest.mark.exhaustive
def test_the_program_of_the_page_on_models(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    saving = re.search(r"^```python\n(.*?)^```$", MODELS_PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(saving[1], names)
    headers = blocks(CPP_PAGE, "## With CMake")
    # The program of the other page is compiled with -O3, which takes longer.
    (tmp_path / "CMakeLists.txt").write_text(headers["cmake"].replace("-O3", "-O1"))
    (tmp_path / "main.cpp").write_text(blocks(MODELS_PAGE, "### With the headers")["cpp"])
    run_as_printed(headers["sh"], tmp_path)
    library = """
        find_package(metricfast REQUIRED)
        add_executable(consumer main.cpp)
        target_link_libraries(consumer PRIVATE metricfast::metricfast)
    """
    compiled = tmp_path / "compiled"
    compiled.mkdir()
    start = "cmake_minimum_required(VERSION 3.21)\nproject(models LANGUAGES CXX)\n"
    (compiled / "CMakeLists.txt").write_text(start + library)
    (compiled / "main.cpp").write_text(blocks(MODELS_PAGE, "## In C++ programs")["cpp"])
    run_as_printed(headers["sh"], compiled)
    flowers = np.array([[5.1, 3.5, 1.4, 0.2], [6.2, 2.9, 4.3, 1.3], [6.3, 3.3, 6.0, 2.5]])
    nearest = metricfast.NearestNeighbors(n_neighbors=2, metric=names["learner"]).fit(flowers)
    rows = nearest.kneighbors([[6.0, 3.0, 5.0, 1.8]], return_distance=False)[0]
    for built in (tmp_path, compiled):
        output = run(built / "build" / "consumer", directory=tmp_path)
        embedded = np.array(re.findall(r"-?\d+\.\d+", output)[:6], float).reshape(3, 2)
        np.testing.assert_allclose(embedded, names["learner"].transform(flowers), rtol=1e-4)
        assert re.search(r"nearest: +(\d) +(\d) at", output).groups() == tuple(map(str, rows))


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


@pytest.mark.exhaustive
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
