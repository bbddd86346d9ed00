"""The command line: one file a verb, imported when it is asked for."""

import importlib
import os
import pkgutil
import sys

import click

from drillmaster.errors import Exit, Problem

__all__ = ["Verbs", "main"]


class Verbs(click.Group):
    """A group whose commands are the modules of a package; a name with a dash is a module with an underscore."""

    def __init__(self, package: str, **extra: object) -> None:
        super().__init__(**extra)  # type: ignore[arg-type]  # click's own keywords pass through
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        path = importlib.import_module(self._package).__path__
        return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.command(cls=Verbs, package="drillmaster.cli", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="drillmaster")
def _root() -> None:
    """Reliability drills and fail-closed gates for LLM agents.

    Exit codes, everywhere: 0 pass, 1 fail, 2 refused or wrong usage, 3 a drill that was stopped.
    """


def main(command: click.Command = _root, argv: list[str] | None = None) -> None:
    """Run the command line (`argv` None: this process's). What goes wrong is told in one line and in the exit code.

    A crash must not look like a failed gate, nor Ctrl-C: an internal error exits 2 and an interrupt 3, not 1.
    """
    try:
        command(argv, prog_name="drillmaster", standalone_mode=False)
    except click.exceptions.Abort:
        print("drillmaster: stopped", file=sys.stderr)
        sys.exit(Exit.ABORTED)
    except click.ClickException as usage:
        usage.show()
        sys.exit(Exit.REFUSED)
    except Problem as problem:
        print(f"drillmaster: {problem}", file=sys.stderr)
        sys.exit(problem.exit)
    except BrokenPipeError:
        sys.exit(Exit.REFUSED)
    except Exception as error:
        if os.environ.get("DRILLMASTER_DEBUG"):
            raise
        print(
            f"drillmaster: internal error, {type(error).__name__}: {error}; for the whole of it set DRILLMASTER_DEBUG=1",
            file=sys.stderr,
        )
        sys.exit(Exit.REFUSED)
