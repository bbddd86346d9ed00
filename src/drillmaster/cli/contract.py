"""`drillmaster contract`: the lock of contracts, as its owners move it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, one_line

if TYPE_CHECKING:
    from drillmaster.intake.locking import Bench, Outcome

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])


@click.group("contract", cls=Verb)
def command() -> None:
    """Lock the bytes that other systems obey, review the ones to come, and make final what was merged.

    The lock is a file in the repository; `gate contract` judges changes against it. A review is a commit of its own, by a person
    who did not write the bytes.

    \b
    Examples:
      drillmaster contract lock
      drillmaster contract pend contracts/order.schema.json --reviewer bea@example.com --expires 2026-12-10
      drillmaster gate contract --base origin/main
    """


def _places(function: F) -> F:
    """Options of where the repository, its policy and its default branch are."""
    for option in (
        click.option(
            "--base", metavar="REF", help="The branch the change is for. Default: origin's, else main or master."
        ),
        click.option(
            "--policy",
            metavar="FILE",
            help="Policy file. Default: .drillmaster/contract-policy.yaml.",
            shell_complete=completions.files,
        ),
        click.option("--repo", type=click.Path(path_type=Path), default=Path(), help="A folder in the repository."),
        click.option("--now", metavar="TIME", help="Act as of this RFC 3339 time instead of now."),
    ):
        function = option(function)
    return function


def _bench(repo: Path, policy: str | None, base: str | None, now: str | None) -> "Bench":
    from drillmaster.cli.gate._verdicts import now_ns
    from drillmaster.intake.locking import Bench
    from drillmaster.intake.state import state_root

    return Bench(repo, policy, base, now_ns=now_ns(now), state=state_root())


def _end(outcome: "Outcome") -> None:
    for line in outcome.lines:
        click.echo(one_line(line))
    sys.exit(Exit.FAIL if outcome.failed else Exit.PASS)


@command.command("lock")
@_places
def lock(repo: Path, policy: str | None, base: str | None, now: str | None) -> None:
    """Write the first lock, of all contracts that HEAD has.

    It is for the default branch, in a change of its own: what it names must not change beside it.

    \b
    Examples:
      drillmaster contract lock
      drillmaster contract lock --repo ../shop --policy .drillmaster/contract-policy.yaml
    """
    _end(_bench(repo, policy, base, now).first())


@command.command("pend")
@click.argument("path", metavar="FILE", shell_complete=completions.files)
@click.option("--reviewer", required=True, metavar="NAME", help="Who read these bytes: an identity of the roster.")
@click.option(
    "--expires", required=True, metavar="DAY", help="Last day on which the review counts, such as 2026-12-10."
)
@click.option("--second", default="", metavar="NAME", help="Another reviewer, for identity, money and deletion.")
@click.option("--reason", default="", metavar="TEXT", help="Why, in a few words.")
@click.option("--deleted", is_flag=True, help="The file is to go.")
@_places
def pend(
    path: str,
    reviewer: str,
    expires: str,
    second: str,
    reason: str,
    deleted: bool,
    repo: Path,
    policy: str | None,
    base: str | None,
    now: str | None,
) -> None:
    """Write into the lock that a contract, as HEAD has it, was reviewed.

    The examples of its consumers are tried first; where one does not come out nothing is written, and the exit code is 1.

    \b
    Examples:
      drillmaster contract pend contracts/order.schema.json --reviewer bea@example.com --expires 2026-12-10
      drillmaster contract pend contracts/old.json --deleted --reviewer bea@example.com --expires 2026-12-10 --reason "v1 has ended"
    """
    bench = _bench(repo, policy, base, now)
    _end(bench.pend(path, reviewer=reviewer, expires=expires, second=second, reason=reason, deleted=deleted))


@command.command("drop")
@click.argument("paths", metavar="[FILE]...", nargs=-1, shell_complete=completions.files)
@click.option("--failing", is_flag=True, help="All whose examples do not come out.")
@_places
def drop(
    paths: tuple[str, ...], failing: bool, repo: Path, policy: str | None, base: str | None, now: str | None
) -> None:
    """Take reviews back: the bytes were others than they should be.

    With --failing the exit code is 1 where something was dropped.

    \b
    Examples:
      drillmaster contract drop contracts/order.schema.json
      drillmaster contract drop --failing
    """
    if not paths and not failing:
        raise click.UsageError("found neither FILE nor --failing, wanted what to drop; drillmaster contract drop FILE")
    _end(_bench(repo, policy, base, now).drop(paths, failing=failing))


@command.command("finalize")
@_places
def finalize(repo: Path, policy: str | None, base: str | None, now: str | None) -> None:
    """Make final what was reviewed and merged. On the default branch only.

    An example that does not come out drops the review instead, and the exit code is 1.

    \b
    Examples:
      drillmaster contract finalize
      drillmaster contract finalize --base origin/main
    """
    _end(_bench(repo, policy, base, now).finalize())
