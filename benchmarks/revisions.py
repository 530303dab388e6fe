"""Other revisions of this repository as contestants, each built in a separate environment."""

from __future__ import annotations

__all__ = ["install", "resolve"]

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.peers import ROOT, RevisionError, python_of

FOLDER = ROOT / ".bench-revisions"
BUILD_TOOLS = ("scikit_build_core", "pybind11", "cmeel")
WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"
IMPORTED = "import metricfast; print(metricfast.__file__)"


def resolve(revision: str) -> str:
    """Return the full name of the commit that `revision` means.

    Raises
    ------
    RevisionError
        If it means none.
    """
    command = ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"]
    found = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        raise RevisionError(f"no revision {revision!r}: {found.stderr or 'git knows none'}".strip())
    return found.stdout.strip()


def like_ours() -> tuple[str, bool]:
    """Return the built instruction set levels, and whether the running install is editable."""
    import metricfast

    url = distribution("metricfast").read_text("direct_url.json") or ""
    return ";".join(metricfast.build_info()["available_isas"]), '"editable": true' in url


def install(commit: str) -> Path:
    """Return the interpreter of an environment that has the library as of `commit`.

    The build has the same options and instruction sets as the running library, and is cached for
    later runs. All other packages come from the running interpreter.

    Raises
    ------
    RevisionError
        If it cannot be built, or another library than the one that was built is imported.
    """
    levels, editable = like_ours()
    traits = [*levels.split(";"), *(["editable"] if editable else [])]
    folder = FOLDER / "-".join([commit[:12], *traits])
    python = python_of(folder / "environment")
    if not (folder / "complete").exists():
        print(f"building {commit[:12]}, takes some minutes", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _extract(commit, folder / "source")
        _environment(folder / "environment")
        _build(folder / "source", python, levels, editable)
        (folder / "complete").touch()
    imported = _output([str(python), "-c", IMPORTED])
    if not Path(imported).is_relative_to(folder):
        raise RevisionError(f"{commit[:12]} is hidden by {imported}: is it in PYTHONPATH?")
    return python


def _output(command: list[str], **settings: str) -> str:
    environment = os.environ | settings
    done = subprocess.run(
        command, check=False, cwd=FOLDER, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise RevisionError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def _extract(commit: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".zip")
    subprocess.run(["git", "archive", "-o", str(archive), commit], cwd=ROOT, check=True)
    shutil.unpack_archive(archive, folder)


def _environment(folder: Path) -> None:
    """Create an environment that also finds the running one's packages, after its own."""
    venv.create(folder, symlinks=os.name != "nt")
    packages = _output([str(python_of(folder)), "-c", WHERE])
    seen = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (Path(packages) / "running.pth").write_text("\n".join(seen) + "\n")


def _build(source: Path, python: Path, levels: str, editable: bool) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    if all(importlib.util.find_spec(tool) for tool in BUILD_TOOLS):
        command.append("--no-build-isolation")
    command += [f"-Cbuild-dir={source.parent / 'build'}"]
    command += [f"-Ccmake.define.METRICFAST_LEVELS={levels}"]
    settings = {}
    if shutil.which("ccache"):
        # Paths are relative to the revision's folder, so that ccache shares files between
        # revisions.
        settings = {"CCACHE_BASEDIR": str(source.parent), "CCACHE_NOHASHDIR": "1"}
        command += ["-Ccmake.define.CMAKE_CXX_COMPILER_LAUNCHER=ccache"]
    _output([*command, *(["-e"] if editable else []), str(source)], **settings)
