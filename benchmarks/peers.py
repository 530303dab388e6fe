"""The interpreter of each package, and the client of worker processes."""

from __future__ import annotations

__all__ = [
    "INTERPRETERS",
    "ROOT",
    "PeerFailedError",
    "PeerMissingError",
    "RevisionError",
    "Run",
    "Worker",
    "interpreter",
    "python_of",
    "set_up",
]

import json
import os
import select
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OLDER = ["metric-learn==0.7.0", "scikit-learn==1.4.2", "numpy==1.26.4", "PyLMNN==1.6.4", "six"]
OLDER_PEERS = {"metric-learn", "PyLMNN"}
# Interpreters of the contestants that were built for this run.
INTERPRETERS: dict[str, Path] = {}

# A core type set in the shell would slow down every package that bundles OpenBLAS.
UNPINNED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NVPL_BLAS_DEBUG_CPU_TYPE")
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "METRICFAST_NUM_THREADS",
)


class PeerMissingError(Exception):
    """The package, or the environment for it, is not installed."""


class PeerFailedError(Exception):
    """The package raised an error, crashed, or exceeded its time limit."""


class RevisionError(Exception):
    """A revision of this repository does not exist, or cannot be built."""


def python_of(environment: Path) -> Path:
    """Return the interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _older_environment() -> Path:
    chosen = os.environ.get("METRICFAST_PEER_PYTHON")
    return Path(chosen) if chosen else python_of(ROOT / ".bench-env")


def interpreter(peer: str) -> Path:
    """Return the interpreter that `peer` runs under."""
    if peer in INTERPRETERS:
        return INTERPRETERS[peer]
    return _older_environment() if peer in OLDER_PEERS else Path(sys.executable)


def set_up(base: str | None = None) -> None:
    """Create the environment of peers that need older packages.

    `base` is a Python for which NumPy 1.26 has wheels (3.10 to 3.12); by default the running one.
    """
    python = _older_environment()
    folder = python.parent.parent
    if base is None:
        venv.create(folder, with_pip=True)
    else:
        subprocess.run([base, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", *OLDER], check=True)


def _environment(threads: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNPINNED}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    kept["PYTHONWARNINGS"] = "ignore"
    return kept | dict.fromkeys(THREAD_LIMITS, str(threads))


@dataclass
class Run:
    """One run: wall-clock and processor seconds, and peak memory above the memory in use before."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int | None


class Worker:
    """A separate process of one peer, ready to run one call.

    Raises
    ------
    PeerMissingError
        If the package cannot be imported.
    PeerFailedError
        If preparing the call fails.
    """

    def __init__(
        self, peer: str, call: str, arrays: dict[str, str], params: dict[str, Any], threads: int
    ) -> None:
        python = interpreter(peer)
        if not python.exists():
            raise PeerMissingError("no environment: run `python -m benchmarks setup-peers`")
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(threads),
            cwd=ROOT,
        )
        self.threads = threads
        try:
            opened = self._ask(
                300, do="open", function=call, arrays=arrays, threads=threads, params=params
            )
        except BaseException:
            self.close()
            raise
        self.versions: dict[str, str] = opened["versions"]

    def run(self, timeout: float, digest: Path | None = None) -> Run:
        """Run the call once; optionally save the digest of its result."""
        return Run(**self._ask(timeout, do="run", digest=digest and str(digest)))

    def _ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerFailedError("the process has died") from error
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            raise PeerFailedError(f"> {timeout:.0f} s")
        reply = self._process.stdout.readline()
        if not reply:
            raise PeerFailedError(f"the process died with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(reply)
        if "missing" in answer:
            raise PeerMissingError(answer["missing"])
        if "failed" in answer:
            raise PeerFailedError(answer["failed"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
