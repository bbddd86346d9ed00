"""`drillmaster transcript`: what was said in the missions of a run, for people to read. It writes nothing."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.evidence import Manifest, Seal
    from drillmaster.rules.transcripts import Census
    from drillmaster.transcripts.reading import Entry, Transcript

__all__ = ["command", "found_transcript", "open_run"]

_SHOWN_CHARS = 4_000
_run = click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("transcript", cls=Verb)
def command() -> None:
    """Read the transcripts of a run's missions: list them all, show one, or draw some for people to read.

    A run that is sealed is read as it was sealed; one that goes on, as far as it has come.

    \b
    Examples:
      drillmaster transcript list runs/20261204T160000Z-1a2b
      drillmaster transcript show runs/20261204T160000Z-1a2b m171a2b
      drillmaster transcript draw runs/20261204T160000Z-1a2b --count 20
    """


def open_run(run: Path) -> "tuple[Path, Seal | None, Manifest]":
    """The run's folder, its seal where it has one, and its manifest. Raises Problem where it changed since it was sealed."""
    import shlex

    from drillmaster.errors import Refused
    from drillmaster.evidence import Manifest
    from drillmaster.intake import read_strict
    from drillmaster.intake.runs import find_run
    from drillmaster.timeline import read_seal, verify_run

    run = find_run(run)
    manifest = read_strict(run / "manifest.json", Manifest)
    if not (run / "seal.json").exists():
        return run, None, manifest
    report = verify_run(run, read_lines=False)
    if report.changes:
        raise Refused(
            str(run),
            found=f"{report.changes[0].file}, which changed since it was sealed",
            wanted="a run as it was sealed",
            remedy=f"drillmaster verify {shlex.quote(str(run))}",
        )
    return run, read_seal(run), manifest


def found_transcript(run: Path, seal: "Seal | None", manifest: "Manifest", mission: str) -> "Transcript":
    """One mission's transcript. Raises Problem, with a name that is near, where there is none."""
    from drillmaster.errors import Problem
    from drillmaster.intake.runs import short
    from drillmaster.strict import near
    from drillmaster.transcripts import read_mission, read_started

    found = read_mission(run, seal, mission, run=manifest.run)
    if found is None:
        meant = near(mission, list(read_started(run, seal)))
        raise Problem(
            str(run),
            found=f"no line of mission {mission[:40]}" + (f"; did you mean {meant}?" if meant else ""),
            wanted="a mission with a transcript",
            remedy=f"drillmaster transcript list {short(run)}",
        )
    return found


@command.command("list")
@_run
@click.option("--lacking", is_flag=True, help="Only missions whose transcript is not complete.")
@_json
def list_(run: Path, lacking: bool, as_json: bool) -> None:
    """Print each mission of a run with its transcript: parts, lines, how it went, and what is lacking.

    Exit code 0 where all are complete, 1 where one is not, 2 where the run started no mission.

    \b
    Examples:
      drillmaster transcript list runs/20261204T160000Z-1a2b
      drillmaster transcript list runs/20261204T160000Z-1a2b --lacking --json
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Exit, one_line
    from drillmaster.rules.transcripts import SAID

    run, seal, manifest = open_run(run)
    census = _census(run, seal, manifest)
    missions = [one for one in census.missions if one.why is not None or not lacking]
    if as_json:
        say_json({"run": census.run, "sealed": seal is not None, **_counts(census), "missions": missions})
    else:
        for one in missions:
            how = "ok" if one.ok else "not ok"
            said = f"{one.parts} part{'s' * (one.parts != 1)}, {one.lines} lines, {how}"
            if one.why is not None:
                said = f"LACKING: {SAID[one.why]}" + (f" ({one.file}:{one.line})" if one.file else "")
            click.echo(one_line(f"{one.mission:<20} {said}"))
        click.echo(
            f"{census.complete} of {census.expected} complete in {census.files} files"
            + (f", {census.by_proxy} as far as a proxy sees" if census.by_proxy else "")
            + (f", {census.spoilt} lines that are none" if census.spoilt else "")
            + (f", {census.lost} lines that their writers lost" if census.lost else "")
            + (f", {census.strangers} missions of no start here" if census.strangers else "")
            + ("" if seal is not None else "; the run is not sealed")
        )
    sys.exit(Exit.REFUSED if not census.expected else Exit.FAIL if census.lacking else Exit.PASS)


@command.command("draw")
@_run
@click.option("--count", type=click.IntRange(1, 1_000), default=20, show_default=True, help="So many.")
@click.option("--seed", help="Default: the run's own.")
@_json
def draw(run: Path, count: int, seed: str | None, as_json: bool) -> None:
    """Draw missions for people to read: those with the smallest SHA-256 of `SEED:MISSION`, which anybody can repeat.

    A mission without a transcript can be drawn: whoever wants to read it has found something.

    \b
    Examples:
      drillmaster transcript draw runs/20261204T160000Z-1a2b
      drillmaster transcript draw runs/20261204T160000Z-1a2b --count 5 --seed 2026-12-04
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Exit

    run, seal, manifest = open_run(run)
    census = _census(run, seal, manifest)
    named = str(manifest.seed) if seed is None else seed
    drawn = census.draw(named, count)
    if as_json:
        say_json({"run": census.run, "seed": named, "of": census.expected, "missions": drawn})
    else:
        for mission in drawn:
            click.echo(mission)
        click.echo(f"{len(drawn)} of {census.expected}, by seed {named}", err=True)
    sys.exit(Exit.PASS if drawn else Exit.REFUSED)


@command.command("show")
@_run
@click.argument("mission")
@click.option("--full", is_flag=True, help="Bodies whole, however long.")
@_json
def show(run: Path, mission: str, full: bool, as_json: bool) -> None:
    """Print one mission from beginning to end, as a person reads it. What was a secret is `***`.

    \b
    Examples:
      drillmaster transcript show runs/20261204T160000Z-1a2b m171a2b
      drillmaster transcript show runs/20261204T160000Z-1a2b m171a2b --json
    """
    import msgspec

    from drillmaster.errors import Exit, one_line
    from drillmaster.transcripts.covering import cover_line

    run, seal, manifest = open_run(run)
    found = found_transcript(run, seal, manifest, mission)
    if as_json:
        # Of a run that is not sealed nobody has covered yet what a foreign writer left.
        said = msgspec.json.encode(
            {
                "mission": found.mission,
                "run": manifest.run,
                "defects": found.defects,
                "parts": [
                    {
                        "file": part.file,
                        "ended": part.ended,
                        "ok": part.ok,
                        "entries": [_entry(one) for one in part.entries],
                    }
                    for part in found.parts
                ],
            }
        )
        click.echo(cover_line(said).decode())
    else:
        for part in found.parts:
            click.echo(one_line(f"--- {part.file}"))
            for one in part.entries:
                click.echo(_told(one, full))
        for defect in found.defects:
            click.echo(one_line(f"DEFECT: {defect}"))
    sys.exit(Exit.FAIL if found.defects else Exit.PASS)


def _census(run: Path, seal: "Seal | None", manifest: "Manifest") -> "Census":
    from drillmaster.transcripts import read_census, read_started

    return read_census(run, seal, read_started(run, seal), run=manifest.run)


def _counts(census: "Census") -> dict[str, Any]:
    return {
        name: getattr(census, name)
        for name in (
            "expected", "complete", "by_proxy", "unsent", "strangers", "files", "lines", "spoilt", "first_spoilt", "lost", "whys"
        )
    }  # fmt: skip  # words


def _entry(one: "Entry") -> dict[str, Any]:
    said = {"kind": one.kind, "t": one.t, "seq": one.seq, **one.fields}
    if one.pieces:
        said["chunks"] = [[at_ms, data.decode("utf-8", "replace")] for at_ms, data in one.pieces]
    elif one.body is not None:
        said["body"] = one.text
    return said


def _told(one: "Entry", full: bool) -> str:
    """An entry as lines: its kind and what is in it, a body below, indented, and no control in any of it."""
    import msgspec

    from drillmaster.errors import one_line
    from drillmaster.transcripts.redacting import redact, redact_headers, redact_text

    fields = dict(one.fields)
    headers = fields.pop("headers", None)
    words = [f"{one.t[11:23]} {one.kind.upper().replace('_', ' ')}"]
    words += [
        f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for name, value in fields.items()
    ]
    lines = [one_line(redact_text(" ".join(words)))]
    if isinstance(headers, list):
        pairs = [(str(one[0]), str(one[1])) for one in headers if isinstance(one, list) and len(one) == 2]
        lines += [one_line(f"    {name}: {value}") for name, value in redact_headers(pairs)]
    if one.body:
        pieces = redact([data for _, data in one.pieces] or [one.body])
        text = b"".join(pieces).decode("utf-8", "replace")
        cut = not full and len(text) > _SHOWN_CHARS
        lines += [f"  | {one_line(line)}" for line in text[: _SHOWN_CHARS if cut else None].splitlines()]
        if cut:
            lines.append(f"  | ... {len(text) - _SHOWN_CHARS:,} characters more; --full shows them")
        if one.pieces:
            lines.append(f"  ({len(one.pieces)} pieces over {one.pieces[-1][0]:.0f} ms)")
    return "\n".join(lines)
