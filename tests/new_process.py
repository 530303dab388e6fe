"""Run code in a new Python process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(
    code: str, *arguments: str | Path, check: bool = True, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run code with arguments and environment variables; None removes a variable."""
    variables = os.environ | environment
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={name: value for name, value in variables.items() if value is not None},
        check=check,
        capture_output=True,
        text=True,
        timeout=300,
    )
