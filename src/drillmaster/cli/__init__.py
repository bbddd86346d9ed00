"""The command line: one file a verb, imported when it is asked for."""

import contextlib
import functools
import importlib
import itertools
import math
import os
import signal
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import PathFinder

import click

from drillmaster.errors import Aborted, Exit, Problem

__all__ = ["Verb", "Verbs", "error_json", "main", "say_json"]


class Verb(click.Group):
    """A group that says of each of its commands the whole first sentence; Click cuts it at the edge."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(1_000)) for name, one in commands if one is not None and not one.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class Verbs(Verb):
    """A group whose commands are the modules of a package; a name with a dash is a module with an underscore."""

    def __init__(self, package: str, **extra: object) -> None:
        super().__init__(**extra)  # type: ignore[arg-type]  # click's own keywords pass through
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._names

    @functools.cached_property
    def _names(self) -> list[str]:
        import pkgutil

        path = importlib.import_module(self._package).__path__
        return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(path) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not self._there(cmd_name):
            return None
        module = importlib.import_module(f"{self._package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        _finite(command)
        return command

    def _there(self, name: str) -> bool:
        """Whether a verb has this name, without listing them all."""
        word = name.replace("-", "_")
        if not word.isidentifier() or word.startswith("_") or "_" in name:
            return False
        return PathFinder.find_spec(word, importlib.import_module(self._package).__path__) is not None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from drillmaster.strict import near

        # Click knows the commands of a group only where they were added one by one.
        verb = args[0]
        if verb[:1].isalnum() and self.get_command(ctx, verb) is None:
            meant = near(verb, self.list_commands(ctx))
            raise click.UsageError(f"No such command {verb!r}." + (f" Did you mean {meant!r}?" if meant else ""), ctx)
        return super().resolve_command(ctx, args)


def _finite(command: click.Command) -> None:
    """Have every option that is a number refuse what is none: Click takes `nan`, in a range too."""
    for param in command.params:
        if isinstance(param.type, click.types.FloatParamType) and param.callback is None:
            param.callback = _is_finite
    for inner in getattr(command, "commands", {}).values():
        _finite(inner)


def _is_finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"found {value}, wanted a finite number", ctx, param)
    return value


_SHELVES = {
    "Drill an agent": "demo init run report card verify debt history notify",
    "While a drill runs, or by hand": "inject lift note stop mark proxy fault standin seal",
    "Friday drills": "flags missions detector transcript replay matrix",
    "Endpoints and their clients": "interview probe compare passport ledger sdk-check locust-worker",
    "Gates over a change": "gate policy contract cutover evidence fixture tools workspace",
    "Guards in a worker": "guard store quota lease webhook",
}
"""What the first page of help lists its verbs under; each verb stands once."""


class _Root(Verbs):
    """The program: its many verbs are listed by what they are for."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in _SHELVES.items():
            commands = ((name, self.get_command(ctx, name)) for name in names.split())
            with formatter.section(heading):
                formatter.write_dl([(name, one.get_short_help_str(1_000)) for name, one in commands if one is not None])


@click.command(cls=_Root, package="drillmaster.cli", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="drillmaster")
def _root() -> None:
    """Reliability drills and fail-closed gates for LLM agents.

    Exit codes, everywhere: 0 pass, 1 fail, 2 refused or wrong usage, 3 a drill that was stopped.

    \b
    Begin with:
      drillmaster demo                    # two drills with nothing of yours involved
      drillmaster init eviction           # plan and policy of your own drill
      drillmaster fault try clean-end     # see one fault on the wire
      drillmaster VERB --help             # examples of each
    """


def error_json(problem: Problem) -> dict[str, object]:
    """A problem as `--json` prints it."""
    return {
        "error": {
            "place": problem.place,
            "found": problem.found,
            "wanted": problem.wanted,
            "remedy": problem.remedy,
        },
        "exit": int(problem.exit),
    }


def say_json(value: object) -> None:
    """Print one JSON document on a line of stdout, whatever a path in it holds: a byte that is no UTF-8 is its escape."""
    import msgspec

    click.echo(msgspec.json.encode(_encodable(msgspec.to_builtins(value))).decode())


def _encodable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(name): _encodable(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_encodable(inner) for inner in value]
    return value


def _tell_json(argv: list[str], problem: Problem) -> None:
    """Print a problem as JSON where JSON was asked for: a script finds one document on stdout, whatever happened."""
    asked = "--json" in argv or "--format=json" in argv or ("--format", "json") in itertools.pairwise(argv)
    told = error_json(problem)
    if argv[:1] == ["probe"]:  # its result is a document either way, and says a verdict
        asked, told = True, {"verdict": "refused", "why": [str(problem)], **told}
    if asked:
        with contextlib.suppress(OSError):
            say_json(told)


def main(command: click.Command = _root, argv: list[str] | None = None) -> None:
    """Run the command line (`argv` None: this process's). What goes wrong is told in one line and in the exit code.

    With --json it is on stdout too, as the one document there. What a file or folder did that no verb foresaw is told as a
    problem of that path, and not as ours. A crash must not look like a failed gate, nor Ctrl-C, nor a
    reader that went away: an internal error and SIGTERM exit 2, an interrupt 3, and what the verb decided stays decided
    whoever reads it.
    """
    from drillmaster.cli import _streams

    _streams.open_standard()
    with _terminated(), _streams.forgiving() as out:
        code = _code_of(command, sys.argv[1:] if argv is None else argv)
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        code, said = _streams.final_code(code, out.lost)
        if said is not None:
            print(f"drillmaster: {said}", file=sys.stderr)
    sys.exit(code)


def _code_of(command: click.Command, words: list[str]) -> int:
    """Run a command; its exit code. Not by click's own `main`, which turns a broken pipe, whoever's, into exit code 1."""
    if "_DRILLMASTER_COMPLETE" in os.environ:
        command.main(list(words), prog_name="drillmaster")
    try:
        with command.make_context("drillmaster", list(words)) as context:
            command.invoke(context)
        return Exit.PASS
    except click.exceptions.Exit as done:
        return done.exit_code
    except SystemExit as done:
        if done.code is None or isinstance(done.code, int):
            return done.code or Exit.PASS
        print(f"drillmaster: {done.code}", file=sys.stderr)
        return Exit.REFUSED
    except (click.exceptions.Abort, KeyboardInterrupt, EOFError):
        print("drillmaster: stopped", file=sys.stderr)
        _tell_json(words, Aborted("drillmaster", found="an interrupt", wanted="the end", remedy="start it again"))
        return Exit.ABORTED
    except click.ClickException as usage:
        usage.show()
        where = usage.ctx.command_path if isinstance(usage, click.UsageError) and usage.ctx else "drillmaster"
        said = Problem(where, found=usage.format_message(), wanted="a command line of it", remedy=f"{where} --help")
        _tell_json(words, said)
        return Exit.REFUSED
    except Problem as problem:
        return _told(words, problem)
    except Exception as error:
        if os.environ.get("DRILLMASTER_DEBUG"):
            raise
        of_path = _of_a_path(error)
        if of_path is not None:
            return _told(words, of_path)
        found = f"internal error, {type(error).__name__}: {error}"
        print(f"drillmaster: {found}; for the whole of it set DRILLMASTER_DEBUG=1", file=sys.stderr)
        _tell_json(words, Problem("drillmaster", found=found, wanted="none", remedy="set DRILLMASTER_DEBUG=1"))
        return Exit.REFUSED


def _told(words: list[str], problem: Problem) -> int:
    print(f"drillmaster: {problem}", file=sys.stderr)
    _tell_json(words, problem)
    return problem.exit


def _of_a_path(error: Exception) -> Problem | None:
    """What the system said of a path, or of the folder we stand in; None where an error is no such thing, but a bug of ours."""
    if not isinstance(error, OSError):
        return None
    from drillmaster.timeline.opening import complaint

    if error.filename is not None:
        found, remedy = complaint(error)
        return Problem(os.fsdecode(error.filename), found=found, wanted="a path that can be used", remedy=remedy)
    with contextlib.suppress(OSError):
        os.stat(os.getcwd())  # noqa: PTH109, PTH116  # whether it is there, and nothing of it
        return None
    return Problem(
        "the folder you are in",
        found="that it was removed",
        wanted="one that is there",
        remedy="cd to one, and do it again",
    )


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """Make SIGTERM an exit with code 2, where the verb has nothing better to do with it."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(Exit.REFUSED)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if ours and signal.getsignal(signal.SIGTERM) is end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
