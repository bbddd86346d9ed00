"""`drillmaster history`: the runs of a team in one table, taken in from their folders."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.entries import Taken
    from drillmaster.history import Entry

__all__ = ["command"]


@click.command("history")
@click.option(
    "--runs",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where run folders lie; those that are new are taken in first.",
    shell_complete=completions.folders,
)
@click.option(
    "--history",
    "named",
    metavar="FILE|URL",
    envvar="DRILLMASTER_HISTORY",
    help="An SQLite file, or postgresql://USER@HOST/DATABASE. Default: history.sqlite among the runs, or "
    "$DRILLMASTER_HISTORY.",
    shell_complete=completions.files,
)
@click.option("--drill", type=click.Choice(["interview", "eviction", "matrix"]), help="Only runs of this kind.")
@click.option("--name", help="Only runs of this job or service.")
@click.option("--last", type=click.IntRange(min=1), help="Only the newest so many.")
@click.option("--read-only", is_flag=True, help="Take nothing in; print what is there.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--ndjson", is_flag=True, help="Print one JSON object a run: timestamp, name, status, metrics, digests.")
def command(
    runs: Path,
    named: str | None,
    drill: str | None,
    name: str | None,
    last: int | None,
    read_only: bool,
    as_json: bool,
    ndjson: bool,
) -> None:
    """Take in the runs that are new and print all, oldest first.

    A run is known by its seal: one that is not sealed, or not as it was sealed, stands in no history and is named on stderr. A
    verdict that comes later is taken in the next time. Rows stay when folders go; while the folders are there, the history can be
    made again from them. Exit code 0, or 2 where it cannot be opened, or a run was sealed twice.

    \b
    Examples:
      drillmaster history
      drillmaster history --drill interview --name "diff summary" --last 5
      drillmaster history --history postgresql://drills@127.0.0.1/drills --ndjson > drills.ndjson
    """
    from drillmaster.cli import say_json
    from drillmaster.entries import Taken, take_in
    from drillmaster.errors import Exit
    from drillmaster.history import open_history

    if as_json and ndjson:
        raise click.UsageError("--json and --ndjson are two forms: give one")
    with open_history(str(runs / "history.sqlite") if named is None else named) as history:
        taken = Taken(new=(), judged=(), left_out={}) if read_only else take_in(history, runs)
        entries = history.entries(drill=drill, name=name, last=last)
        place = history.place
    if as_json:
        say_json({"history": place, "taken_in": taken, "entries": entries})
    elif ndjson:
        for entry in entries:
            say_json(_article(entry))
    else:
        _table(entries, taken, place)
    for run, why in taken.left_out.items():
        click.echo(f"left out: {run}: {why}", err=True)
    sys.exit(Exit.REFUSED if taken.sealed_twice else Exit.PASS)


def _article(entry: "Entry") -> dict[str, object]:
    """One run under the names that dashboards of the article's recorder read; `p95_latency` in seconds."""
    p95 = [value for name, value in entry.metrics.items() if name.endswith(".p95_s") and name.startswith("warm_c")]
    more = {"p95_latency": max(p95)} if p95 else {}
    return {
        "timestamp": entry.ended_at,
        "name": entry.name,
        "status": entry.status,
        "metrics": {**entry.metrics, **more},
        "drill": entry.drill,
        "run": entry.run,
        "stamps": entry.stamps,
        "at_least": entry.at_least,
        "evidence_digest": entry.evidence_digest,
        "policy_digest": entry.policy_digest,
        "plan_sha256": entry.plan_sha256,
        "payload_sha256": entry.payload_sha256,
    }


def _table(entries: "list[Entry]", taken: "Taken", place: str) -> None:
    from drillmaster.errors import one_line

    rows = [
        (entry.ended_at[:16].replace("T", " "), entry.drill, one_line(entry.name), entry.status, _figures(entry))
        for entry in entries
    ]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    for entry, row in zip(entries, rows, strict=True):
        stamps = f"  [{', '.join(entry.stamps)}]" if entry.stamps else ""
        click.echo(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) + f"  {row[4]}{stamps}"
        )
    came = f"{len(taken.new)} new" + (f", {len(taken.judged)} judged since" if taken.judged else "")
    click.echo(
        f"{len(entries)} runs in {place}, {came}" if entries else f"no runs in {place}: drillmaster demo makes two"
    )


def _figures(entry: "Entry") -> str:
    """The few figures that one looks for first."""
    if entry.drill != "interview":
        return "  ".join(
            f"{name} {_number(value, name in entry.at_least)}" for name, value in list(entry.metrics.items())[:3]
        )
    said = []
    for name, value in entry.metrics.items():
        label, _, figure = name.rpartition(".")
        cut = name in entry.at_least
        if figure == ("max_s" if label in ("cold", "drain") else "p95_s"):
            errors = entry.metrics.get(f"{label}.error_rate", 0.0)
            failed = f" ({errors:.2g} failed)" if errors else ""
            said.append(f"{label} {_number(value, cut)} s{failed}")
    return "  ".join(said)


def _number(value: float, cut: bool) -> str:
    return f"{'>= ' if cut else ''}{value:.3g}"
