"""`drillmaster verify`: is a run as it was sealed, and if not, which file and line changed."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Exit, Problem, one_line

if TYPE_CHECKING:
    from drillmaster.evidence import Change, FileReport, Signature

__all__ = ["command"]


@click.command("verify")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option(
    "--signer", type=click.Path(path_type=Path), help="Whose signature it must be: KEY.pub or allowed_signers."
)
@click.option("--identity", help="The name to look for in an allowed_signers file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(run: Path, signer: Path | None, identity: str | None, as_json: bool) -> None:
    """Compare a run with its seal: exit 0 when it is as it was sealed, 2 when anything changed or there is no seal.

    Every changed file is named, and the lines in it. Lines that a worker wrote after the seal are counted as late; they
    are no change, and no gate reads them. A signature beside the seal that is not one of this seal is a change. An
    unsigned seal cannot show that nobody sealed again: compare the head with the one that was read out, or give
    --signer.

    \b
    Examples:
      drillmaster verify runs/20261129T153000Z-1a2b
      drillmaster verify runs/20261129T153000Z-1a2b --signer scribe.pub
      drillmaster verify runs/20261129T153000Z-1a2b --json
    """
    from drillmaster.cli import error_json, say_json
    from drillmaster.intake.runs import find_run
    from drillmaster.signing import verify
    from drillmaster.timeline import verify_run

    run = find_run(run)
    report = verify_run(run)
    signed = None
    wrong: Problem | None = None
    if signer is not None:
        try:
            signed = verify(run / "seal.json", signer, identity=identity)
        except Problem as problem:
            wrong = problem
    if as_json:
        import msgspec

        said = msgspec.to_builtins(report)
        said["unchanged"] = not report.changes
        said["signed_by"] = msgspec.to_builtins(signed)
        if wrong is not None:
            said |= error_json(wrong)
        say_json(said)
    else:
        if report.changes:
            _say(f"CHANGED {report.run}: not as it was sealed at {report.sealed_at}")
        else:
            _say(f"unchanged {report.run}: as it was sealed at {report.sealed_at}")
        for change in report.changes:
            _say(f"  {_change(change)}")
        width = max((len(one_line(name)) for name in report.files), default=0)
        for name, file in report.files.items():
            _say(f"  {one_line(name):<{width}}  {_file(name, file)}")
        _say(f"head {report.head}")
        if signed is not None:
            _say(f"signed by {signed.identity} {signed.fingerprint}")
        elif wrong is None:
            _say(_SIGNED[report.signed])
    if wrong is not None and as_json:
        print(f"drillmaster: {wrong}", file=sys.stderr)
        sys.exit(wrong.exit)
    if wrong is not None:
        raise wrong
    if report.changes:
        sys.exit(Exit.REFUSED)


_SIGNED: dict["Signature", str] = {
    "fits": "signed, by whom is not checked: add --signer KEY.pub",
    "stale": "a signature that is not one of this seal: ask the Scribe which of the two is theirs",
    "none": "not signed: compare the head with the one that was read out",
    "unknown": "a signature that could not be checked: install openssh-client, and add --signer KEY.pub",
}


def _say(line: str) -> None:
    """Print one line. Names and words of a seal are anybody's: what would repaint a terminal is shown as an escape."""
    click.echo(one_line(line))


def _change(change: "Change") -> str:
    place = change.file
    if change.last_line > change.line:
        place += f":{change.line}-{change.last_line}"
    elif change.line:
        place += f":{change.line}"
    return f"{place}: {change.kind}: {change.what}"


def _file(name: str, file: "FileReport") -> str:
    from drillmaster.timeline.folder import LATE_CAP_BYTES

    said = [f"{file.bytes:,} bytes" if name.endswith(".bin") else f"{file.lines:,} lines"]
    if file.late_bytes > LATE_CAP_BYTES:
        said.append(f"{file.late_bytes:,} bytes late")
    elif file.late_lines:
        said.append(f"{file.late_lines:,} late")
    said.extend(f"{count:,} {kind}" for kind, count in sorted(file.defects.items()))
    if file.first_defects:
        first = file.first_defects[0]
        said.append(f"first at line {first.line}: {first.found}")
    return ", ".join(said)
