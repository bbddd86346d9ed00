"""`drillmaster cutover`: rehearse what a cutover plan promises."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Problem, one_line

if TYPE_CHECKING:
    from drillmaster.gates.cutover import FreezeProof, HaltDrill
    from drillmaster.kits.cutover_halt import Course

__all__ = ["command"]

_PATH = click.Path(path_type=Path)


@click.group("cutover", cls=Verb)
def command() -> None:
    """Rehearse the halt of a dual-write cutover, on stores of its own.

    \b
    Examples:
      drillmaster cutover rehearse --plan cutover/plan.json
      drillmaster cutover read-back --plan cutover/plan.json -- ./read-flags --service ledger-writer
    """


@command.command("rehearse")
@click.option("--service", metavar="NAME", help="The service whose halt it is, as the plan has it.")
@click.option(
    "--plan",
    type=_PATH,
    metavar="FILE",
    help="The plan it is rehearsed for; its service is taken, its digest recorded.",
    shell_complete=completions.files,
)
@click.option(
    "--halted-by",
    metavar="NAME",
    help="Who halts, as the roster has them. Default: asked for in the terminal, and timed.",
)
@click.option(
    "--rows", type=click.IntRange(30, 1_000_000), default=2_000, show_default=True, help="Rows in both stores."
)
@click.option(
    "--drift",
    type=click.IntRange(3, 1_000),
    default=7,
    show_default=True,
    help="Rows that will differ; at most a third.",
)
@click.option(
    "--compare-every",
    "compare_every_s",
    type=Seconds(),
    default="1s",
    show_default=True,
    help="How often the stores are compared.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Which rows are made up, and which drift.")
@click.option("--folder", type=_PATH, metavar="DIR", help="Keep both stores there. Default: a folder that is removed.")
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    help="Where the record goes; - prints it. Default: halt-drill.json, beside the plan where one is named.",
    shell_complete=completions.files,
)
@click.option(
    "--sign", "key", type=_PATH, metavar="KEY", help="Sign the record with this SSH key, as evidence: FILE.sig."
)
def rehearse(
    service: str | None,
    plan: Path | None,
    halted_by: str | None,
    rows: int,
    drift: int,
    compare_every_s: float,
    seed: int,
    folder: Path | None,
    out: Path | None,
    key: Path | None,
) -> None:
    """Write two stores, let synthetic rows differ, find it, have a person halt, restore, and record how long each took.

    This is the kit `cutover-halt`. The record is what `drillmaster gate cutover` asks for. No row is anybody's. Exit code 0,
    2 where it could not be rehearsed, 3 where it was interrupted; then there is no record.

    \b
    Examples:
      drillmaster cutover rehearse --plan cutover/plan.json
      drillmaster cutover rehearse --service ledger-writer --halted-by bea@example.com
    """
    import tempfile

    from drillmaster.kits.cutover_halt import Course

    named, digest = _subject(service, plan)
    _signable(out, key)
    out = out or (plan.with_name("halt-drill.json") if plan is not None else Path("halt-drill.json"))
    if drift * 3 > rows:
        raise Problem("--drift", found=str(drift), wanted=f"at most a third of {rows} rows", remedy="add --drift 7")
    if not 0 < compare_every_s <= 600:
        raise Problem(
            "--compare-every", found=f"{compare_every_s:g} s", wanted="over 0 to 600 s", remedy="add --compare-every 1s"
        )
    course = Course(
        service=named,
        plan_digest=digest,
        rows=rows,
        drift=drift,
        compare_every_s=compare_every_s,
        give_up_s=60 + 10 * compare_every_s,
        seed=seed,
    )
    if folder is not None:
        _rehearse(folder, course, halted_by, out, key)
        return
    with tempfile.TemporaryDirectory(prefix="drillmaster-cutover-") as made:
        _rehearse(Path(made) / "stores", course, halted_by, out, key)


@command.command("read-back")
@click.option(
    "--plan",
    type=_PATH,
    metavar="FILE",
    required=True,
    help="The plan whose freeze was set.",
    shell_complete=completions.files,
)
@click.option(
    "--out",
    type=_PATH,
    metavar="FILE",
    help="Where the proof goes; - prints it. Default: freeze-proof.json beside the plan.",
    shell_complete=completions.files,
)
@click.option(
    "--sign", "key", type=_PATH, metavar="KEY", help="Sign the proof with this SSH key, as evidence: FILE.sig."
)
@click.argument("read", metavar="-- COMMAND...", nargs=-1, required=True)
def read_back(plan: Path, out: Path | None, key: Path | None, read: tuple[str, ...]) -> None:
    """Ask flag store and router, by a command of yours, whether the freeze took, and write down what they answered and when.

    COMMAND prints one JSON object of what it read: flag, frozen, percent, flag_default_on, dual_write, old_writer. The proof is
    what `drillmaster gate cutover` asks for inside the window. Exit code 0, or 2.

    \b
    Examples:
      drillmaster cutover read-back --plan cutover/plan.json -- ./read-flags --service ledger-writer
    """
    from drillmaster.clock import SystemClock
    from drillmaster.intake.readback import read_back as ask

    _signable(out, key)
    _write(ask(plan, read, SystemClock()), plan.with_name("freeze-proof.json") if out is None else out, key)


def _subject(service: str | None, plan: Path | None) -> tuple[str, str]:
    """Give the service, and the digest of the plan, "" without one."""
    if plan is None:
        if service is None or not service.strip():
            raise Problem(
                "cutover rehearse",
                found="no service",
                wanted="whose halt is rehearsed",
                remedy="add --service NAME, or --plan cutover/plan.json",
            )
        return service.strip()[:200], ""
    from drillmaster import strict
    from drillmaster.intake import read_bytes
    from drillmaster.rules.cutover_plan import read_plan

    data = read_bytes(plan, 1 << 20)
    found = read_plan(strict.load(data, place=str(plan), fmt="json")).service
    if found is None or (service is not None and service != found):
        raise Problem(
            f"{plan}: /service",
            found=strict.shown(found),
            wanted=strict.shown(service) if service is not None else "a name",
            remedy="name the plan of this service",
        )
    return found, strict.digest_bytes(data)


def _rehearse(folder: Path, course: "Course", halted_by: str | None, out: Path, key: Path | None) -> None:
    import sqlite3
    import sys
    import time

    from drillmaster.clock import SystemClock
    from drillmaster.kits.cutover_halt import rehearse as rehearse_once

    def tell(line: str) -> None:
        click.echo(one_line(line), err=True)

    def ask(question: str) -> str:
        answer: str = click.prompt(question, err=True)
        return answer

    try:
        done = rehearse_once(
            folder,
            course,
            SystemClock(),
            halted_by=halted_by,
            ask=ask if sys.stdin is not None and sys.stdin.isatty() else None,
            wait=time.sleep,
            tell=tell,
        )
    except sqlite3.Error as error:
        raise Problem(
            str(folder),
            found=f"a store that cannot be used ({error})",
            wanted="two stores of this rehearsal's own",
            remedy="name an empty folder: --folder DIR",
        ) from None
    _write(done.record, out, key)


def _signable(out: Path | None, key: Path | None) -> None:
    """Raise Problem for a key that cannot sign what will be written, before anything is done for it."""
    if key is None:
        return
    from drillmaster.intake.written import STDOUT
    from drillmaster.signing import key_of

    if out == STDOUT:
        raise Problem("--sign", found="no file to sign: --out -", wanted="a file", remedy="add --out FILE")
    key_of(key)


def _write(record: "HaltDrill | FreezeProof", out: Path, key: Path | None) -> None:
    import shlex

    import msgspec

    from drillmaster.intake.written import STDOUT, write_whole

    text = msgspec.json.format(msgspec.json.encode(record), indent=1).decode() + "\n"
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    write_whole(out, text)
    click.echo(one_line(f"wrote {out}"), err=True)
    if key is not None:
        from drillmaster.signing import EVIDENCE, sign

        click.echo(one_line(f"signed {sign(out, key, namespace=EVIDENCE)}"), err=True)
    click.echo(one_line(f"next: git add {shlex.quote(str(out))}, beside the plan"), err=True)
