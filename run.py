#!/usr/bin/env python3
"""Run demo or tests, or build the site, on a machine with Python, a C++17 compiler and no more.

python3 run.py demo [options]    see what a learned distance gains, in two minutes
python3 run.py test [options]    run all tests; options go to pytest
python3 run.py docs [options]    build the site of docs/ into build/site, and check it

Everything is installed into .venv in this directory, and compiled again where the sources changed:
for this machine's processor, or with --all-levels for every processor, in three times the time.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
COMMANDS = {
    "demo": ("plot", ["metricfast", "demo"]),
    "test": ("test", ["pytest", "--numprocesses=auto", "--dist=worksteal"]),
    "docs": ("docs", ["docs"]),
}


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] not in COMMANDS:
        sys.exit(__doc__)
    if sys.version_info < (3, 10):
        sys.exit(f"metricfast needs Python 3.10 or newer, this is {sys.version.split()[0]}")
    all_levels = "--all-levels" in arguments
    options = [each for each in arguments[1:] if each != "--all-levels"]
    extra, command = COMMANDS[arguments[0]]
    install(extra, all_levels)
    sys.exit(subprocess.call([PYTHON, "-m", *command, *options], cwd=ROOT))


def install(extra, all_levels):
    if not PYTHON.exists():
        try:
            venv.create(ENVIRONMENT, with_pip=True)
        except subprocess.CalledProcessError:
            sys.exit(
                "this Python cannot make virtual environments: install its package python3-venv"
            )
    stamp = ENVIRONMENT / "installed-sources"
    sources = digest()
    built = stamp.read_text().split() if stamp.exists() else []
    if built[:1] != [sources] or (all_levels and "all" not in built):
        jobs = os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", str(compilers(free_memory())))
        doing = f"compiling metricfast, {jobs} files at a time"
        if not all_levels:
            defined = [os.environ.get("SKBUILD_CMAKE_DEFINE"), "METRICFAST_LEVELS=auto"]
            os.environ["SKBUILD_CMAKE_DEFINE"] = ";".join(filter(None, defined))
        pip(doing, "install", ".")
        stamp.write_text(f"{sources} {'all' if all_levels else 'one'}\n")
    pip("installing other packages", "install", f"metricfast[{extra}]")


def compilers(memory):
    """Return the number of compilers to run at a time; each takes up to 1 GB."""
    return max(1, int(min(os.cpu_count() or 1, memory / 1e9)))


def free_memory():
    """Bytes that are free, or may be used; infinite where the system does not say."""
    limits = [float("inf")]
    for file, pattern in [
        ("/proc/meminfo", r"MemAvailable: +(\d+) kB"),
        ("/sys/fs/cgroup/memory.max", r"(\d+)"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", r"(\d+)"),
    ]:
        path = pathlib.Path(file)
        found = re.search(pattern, path.read_text()) if path.exists() else None
        if found:
            limits.append(int(found[1]) * (1024 if "kB" in pattern else 1))
    return min(limits)


def pip(doing, *arguments):
    """Run pip and show for how long; what it prints is shown if it fails."""
    command = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    begin = time.monotonic()
    print(f"{doing} ...", end="", flush=True)
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, cwd=ROOT, stdout=printed, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if sys.stdout.isatty():
                    print(f"\r{doing} ... {time.monotonic() - begin:.0f} s", end="", flush=True)
        except KeyboardInterrupt:
            process.wait()
            sys.exit(130)
        print(f" done after {time.monotonic() - begin:.0f} s", flush=True)
        if process.returncode:
            printed.seek(0)
            sys.exit(f"{printed.read()}\ninstallation failed, see above")


def digest():
    """Fingerprint of what the installed package is made of."""
    files = [ROOT / "CMakeLists.txt", ROOT / "pyproject.toml"]
    for directory in ("cmake", "src"):
        files += sorted(f for f in (ROOT / directory).rglob("*") if f.suffix != ".pyc")
    content = hashlib.sha256()
    for file in files:
        if file.is_file():
            content.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return content.hexdigest()


if __name__ == "__main__":
    main()
