"""The command line: ``metricfast`` and ``python -m metricfast``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

from metricfast.cli import plain

__all__ = ["main"]

_NEEDED = ("click", "rich", "pandas", "safetensors")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; bad arguments exit with code 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return plain.run(given, missing)
    app = importlib.import_module("metricfast.cli.app").app
    try:
        app.main(given, prog_name="metricfast")
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
