"""The commands of `metricfast`, and how they fail."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from metricfast.cli import plain, show

__all__ = ["app"]

_VARIABLE = "_METRICFAST_COMPLETE"
_MODULES = {
    "compare": "metricfast.cli.compare",
    "fit": "metricfast.cli.learn",
    "transform": "metricfast.cli.apply",
    "predict": "metricfast.cli.predict",
    "neighbors": "metricfast.cli.apply",
    "evaluate": "metricfast.cli.judge",
    "inspect": "metricfast.cli.judge",
}


class _Group(click.Group):
    """Commands whose modules are loaded when they are asked for, and errors of theirs in a line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_MODULES, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _MODULES:
            command: click.Command = getattr(
                importlib.import_module(_MODULES[cmd_name]), f"{cmd_name}_command"
            )
            return command
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: show.tell(f"warning: {message}")
            try:
                return super().invoke(ctx)
            except (ValueError, TypeError, OSError, ImportError) as error:
                raise click.ClickException(str(error)) from error
            except KeyboardInterrupt:
                show.tell("interrupted")
                ctx.exit(130)


# Of commands that hand their arguments on.
_ANY: dict[str, Any] = {
    "context_settings": {"ignore_unknown_options": True},
    "add_help_option": False,
}
_arguments = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="metricfast", message="%(prog)s %(version)s")
def app() -> None:
    """Learned distances for tables in files: CSV, Parquet and npz.

    Exit codes: 0 done; 1 it could not be done; 2 wrong arguments; 130 interrupted.
    """


@app.command("demo", **_ANY)
@_arguments
def demo_command(arguments: tuple[str, ...]) -> None:
    """Answer five questions before and after learning, and draw a picture."""
    sys.exit(plain.run(["demo", *arguments]))


@app.command("info", **_ANY)
@_arguments
def info_command(arguments: tuple[str, ...]) -> None:
    """Print how this copy was built and what it runs on."""
    sys.exit(plain.run(["info", *arguments]))


@app.command("bench", **_ANY)
@_arguments
def bench_command(arguments: tuple[str, ...]) -> None:
    """Run the benchmarks, of a checkout of the sources."""
    if not Path("benchmarks/__main__.py").is_file():
        raise click.ClickException(
            "The benchmarks are not part of the installed package: run `metricfast bench` or "
            "`python -m benchmarks` in a checkout of the sources, as benchmarks/README.md tells."
        )
    sys.exit(
        subprocess.run([sys.executable, "-m", "benchmarks", *arguments], check=False).returncode
    )


@app.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print what makes a shell complete commands, options and learners.

    For bash: eval "$(metricfast completion bash)" in ~/.bashrc.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(app, {}, "metricfast", _VARIABLE).source())
