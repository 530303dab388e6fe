#!/usr/bin/env python3
"""Run demo or tests, or build the site, on a machine with Python, a C++17 compiler and no more.

python3 run.py demo [options]    see what a learned distance gains, in two minutes
python3 run.py test [options]    run the tests; options go to pytest
python3 run.py docs [options]    build the site of docs/ into build/site, and check it

The demo takes --output FILE.png, or --all [DATA ...] to compare all learners on data sets.

It makes an environment in .venv, installs this directory there, editable, with what the command
needs, and compiles what has changed: for this machine's processor, or with --all-levels for every
processor, in three times the time.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
# pip 21.3 is the first with editable installs of projects without setup.py.
BUILD_TOOLS = ["pip>=21.3", "scikit-build-core", "pybind11", "cmeel-eigen", "cmake", "ninja"]
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
COMMANDS = {
    "demo": ("plot", ["metricfast", "demo"]),
    "test": ("test", ["pytest", "--numprocesses=auto", "--dist=worksteal"]),
    "docs": ("docs", ["docs"]),
}


def main():
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        sys.exit()
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
    require_compiler()
    make_environment()
    if all_levels:
        defined = [os.environ.get("SKBUILD_CMAKE_DEFINE"), "METRICFAST_LEVELS="]
        os.environ["SKBUILD_CMAKE_DEFINE"] = ";".join(filter(None, defined))
    begin = time.monotonic()
    print("installing into .venv, compiling what has changed ...", end="", flush=True)
    pip(*BUILD_TOOLS)
    pip("--no-build-isolation", "--editable", f".[{extra}]")
    print(f" done after {time.monotonic() - begin:.0f} s", flush=True)


def require_compiler():
    compilers = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
    if os.name != "nt" and not any(map(shutil.which, compilers)):
        sys.exit(
            "no C++ compiler found: install one, such as by `apt install g++` (Debian, Ubuntu), "
            "`dnf install gcc-c++` (Fedora) or `xcode-select --install` (macOS)"
        )


def make_environment():
    """Make the environment; repair one that was interrupted, or make it anew if that fails."""
    for clear in (not PYTHON.exists(), True):
        if not has_pip():
            with contextlib.suppress(subprocess.CalledProcessError):
                venv.create(ENVIRONMENT, with_pip=True, clear=clear)
    if not has_pip():
        sys.exit("this Python cannot make virtual environments: install its package python3-venv")


def has_pip():
    # The help of a command imports nearly all of pip.
    command = [PYTHON, "-m", "pip", "install", "--help"]
    return PYTHON.exists() and not subprocess.call(command, **SILENT)


def pip(*arguments):
    """Run pip install, which prints only if it fails."""
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.call([*command, *arguments], cwd=ROOT):
        sys.exit("\ninstallation failed, see above")


if __name__ == "__main__":
    main()
