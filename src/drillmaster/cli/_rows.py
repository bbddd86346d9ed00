"""Where verbs find the rows of a history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from drillmaster.cli import _completions as completions

__all__ = ["where"]

F = TypeVar("F", bound=Callable[..., Any])


def where(function: F) -> F:
    """Add --runs and --history, by which a verb finds its rows."""
    runs = click.option(
        "--runs",
        metavar="FOLDER",
        type=click.Path(path_type=Path),
        default=Path("runs"),
        show_default=True,
        help="Where run folders lie; those that are new are taken in first.",
        shell_complete=completions.folders,
    )
    named = click.option(
        "--history",
        "named",
        metavar="FILE|URL",
        envvar="DRILLMASTER_HISTORY",
        help="An SQLite file, or postgresql://USER@HOST/DATABASE. Default: history.sqlite among the runs, or "
        "$DRILLMASTER_HISTORY.",
        shell_complete=completions.files,
    )
    return runs(named(function))
