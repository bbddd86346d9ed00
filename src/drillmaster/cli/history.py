"""`drillmaster history`: the runs of a team in one table, taken in from their folders."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from drillmaster.cli import Verb
from drillmaster.cli._rows import where

if TYPE_CHECKING:
    from drillmaster.entries import Taken
    from drillmaster.history import Entry
    from drillmaster.trends import Better

__all__ = ["command"]

DRILLS = ("interview", "eviction", "matrix", "friday")

_drill = click.option("--drill", type=click.Choice(DRILLS), help="Only runs of this kind.")
_name = click.option("--name", help="Only runs of this job or service.")
_read_only = click.option("--read-only", is_flag=True, help="Take nothing in; print what is there.")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("history", cls=Verb, invoke_without_command=True)
@where
@_drill
@_name
@click.option("--last", type=click.IntRange(min=1), help="Only the newest so many.")
@_read_only
@_json
@click.option("--ndjson", is_flag=True, help="Print one JSON object a run: timestamp, name, status, metrics, digests.")
@click.pass_context
def command(
    ctx: click.Context,
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
      drillmaster history compare --drill friday
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Exit

    if ctx.invoked_subcommand is not None:
        if any(ctx.get_parameter_source(one) == ParameterSource.COMMANDLINE for one in ctx.params):
            raise click.UsageError(f"options go behind the word: drillmaster history {ctx.invoked_subcommand} --help")
        return
    if as_json and ndjson:
        raise click.UsageError("--json and --ndjson are two forms: give one")
    entries, taken, place = rows(runs, named, drill=drill, name=name, last=last, read_only=read_only)
    if as_json:
        say_json({"history": place, "taken_in": taken, "entries": entries})
    elif ndjson:
        for entry in entries:
            say_json(_article(entry))
    else:
        _table(entries, taken, place)
    tell_left_out(taken)
    sys.exit(Exit.REFUSED if taken.sealed_twice else Exit.PASS)


def rows(
    runs: Path,
    named: str | None,
    *,
    drill: str | None = None,
    name: str | None = None,
    last: int | None = None,
    read_only: bool = False,
) -> "tuple[list[Entry], Taken, str]":
    """Take in what is new, and give the rows, what was taken in, and the history's name. Raises Problem."""
    from drillmaster.entries import Taken, take_in
    from drillmaster.history import open_history

    with open_history(str(runs / "history.sqlite") if named is None else named) as history:
        taken = Taken(new=(), judged=(), left_out={}) if read_only else take_in(history, runs)
        return history.entries(drill=drill, name=name, last=last), taken, history.place


def tell_left_out(taken: "Taken") -> None:
    """Name the runs that stand in no history, on stderr."""
    for run, why in taken.left_out.items():
        click.echo(f"left out: {run}: {why}", err=True)


@command.command("trend")
@where
@_drill
@_name
@click.option("--last", type=click.IntRange(2, 200), default=12, show_default=True, help="Of so many runs.")
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="This figure; can be given again. Default: all."
)
@_read_only
@_json
def trend(
    runs: Path,
    named: str | None,
    drill: str | None,
    name: str | None,
    last: int,
    figures: tuple[str, ...],
    read_only: bool,
    as_json: bool,
) -> None:
    """Print each figure from run to run: its values as a line, the newest, and the median with a 95 % interval.

    The interval is two order statistics, whose ranks come from the binomial distribution: nothing is taken of how values spread. It
    needs six runs. Runs that were refused, stopped or never judged are left out; so are those with other stamps or another
    payload than the newest.

    \b
    Examples:
      drillmaster history trend --drill friday
      drillmaster history trend --drill friday --figure p95_latency --last 26
      drillmaster history trend --drill interview --name "diff summary" --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cli._history_compare import tell_trends, trends

    entries, taken, _ = rows(runs, named, drill=drill, name=name, read_only=read_only)
    found = trends(entries, last=last, figures=figures)
    if as_json:
        say_json({"trends": found})
    else:
        tell_trends(found)
    tell_left_out(taken)


@command.command("compare")
@where
@_drill
@_name
@click.option(
    "--newest", type=click.IntRange(1, 20), default=1, show_default=True, help="So many of the newest runs ..."
)
@click.option(
    "--before", type=click.IntRange(2, 180), default=26, show_default=True, help="... against so many before."
)
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="This figure; can be given again. Default: all."
)
@click.option(
    "--lower-is-better", "lower", multiple=True, metavar="NAME", help="Which way is worse, where no name says it."
)
@click.option("--higher-is-better", "higher", multiple=True, metavar="NAME", help="The other way.")
@click.option("--any-payload", is_flag=True, help="Compare with runs that asked something else, too.")
@_read_only
@_json
def compare(
    runs: Path,
    named: str | None,
    drill: str | None,
    name: str | None,
    newest: int,
    before: int,
    figures: tuple[str, ...],
    lower: tuple[str, ...],
    higher: tuple[str, ...],
    any_payload: bool,
    read_only: bool,
    as_json: bool,
) -> None:
    """Say of each figure whether the newest runs are worse than those before, and by at least how much.

    It is the exact one-sided Wilcoxon-Mann-Whitney test at 95 %, and the Hodges-Lehmann bound that belongs to it: both go by ranks,
    since figures of drills have long tails and few runs. One new run can only be told worse than 19 before it, two than 5, three
    than 3: fewer are refused, and each line says how many there were. Of many figures some come out worse by chance, one in twenty:
    where one is worse, the last line says which are so among all of them, by Holm.
    Exit code 0 where none is worse, 1 where one is, 2 where nothing could be compared.

    \b
    Examples:
      drillmaster history compare --drill friday
      drillmaster history compare --drill friday --newest 3 --before 10
      drillmaster history compare --drill friday --figure p95_latency --figure detector_delay_ms --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cli._history_compare import compared, tell_compared
    from drillmaster.errors import Exit

    entries, taken, _ = rows(runs, named, drill=drill, name=name, read_only=read_only)
    ways: dict[str, Better] = {**dict.fromkeys(lower, "lower"), **dict.fromkeys(higher, "higher")}
    found = compared(entries, newest=newest, before=before, figures=figures, ways=ways, any_payload=any_payload)
    if as_json:
        say_json({"compared": found})
    else:
        tell_compared(found)
    tell_left_out(taken)
    words = {one.word for group in found for one in group.figures}
    sys.exit(Exit.FAIL if "worse" in words else Exit.PASS if "not worse" in words else Exit.REFUSED)


@command.command("metrics")
@where
@_read_only
@click.option(
    "--textfile",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to, whole or not at all. Default: stdout.",
)
def metrics(runs: Path, named: str | None, read_only: bool, textfile: Path | None) -> None:
    """Print the history for Prometheus, or write it for node_exporter's textfile collector.

    Runs by drill and verdict are counted; figures are of the newest run of each drill and service. No time stamps, which the
    collector refuses: when a run ended is a metric.

    \b
    Examples:
      drillmaster history metrics
      drillmaster history metrics --textfile /var/lib/node_exporter/drillmaster.prom
    """
    from drillmaster.cli._history_metrics import page
    from drillmaster.intake.written import write_whole

    entries, taken, place = rows(runs, named, read_only=read_only)
    text = page(entries)
    if not entries:
        click.echo(f"no runs in {place}: drillmaster demo makes two", err=True)
    if textfile is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{write_whole(textfile, text)}: {len(entries)} runs")
    tell_left_out(taken)


@command.command("serve-metrics")
@where
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:9464",
    show_default=True,
    help="Loopback; port 0 takes a free one.",
)
def serve_metrics(runs: Path, named: str | None, listen: str) -> None:
    """Serve GET /metrics on loopback, for Prometheus to scrape, until it is stopped. New runs are taken in as they come.

    \b
    Examples:
      drillmaster history serve-metrics
      drillmaster history serve-metrics --history postgresql://drills@127.0.0.1/drills --listen 127.0.0.1:9500
    """
    from drillmaster.cli._history_metrics import page, serve
    from drillmaster.errors import Problem, Refused
    from drillmaster.sanity import is_loopback, parse_listen

    place = parse_listen(listen)
    if place is None or not is_loopback(place[0]):
        raise Refused(
            "--listen",
            found=listen[:80],
            wanted="HOST:PORT on loopback: these are figures of your services",
            remedy="name 127.0.0.1:PORT, or write a file instead: drillmaster history metrics --textfile FILE",
        )
    rows(runs, named)  # what cannot be opened is said now
    try:
        serve(*place, lambda: page(rows(runs, named)[0]), ready=lambda url: click.echo(url))
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise Problem(
            "--listen",
            found=f"{listen}: {(error.strerror or type(error).__name__).lower()}",
            wanted="a free port",
            remedy="name another one: --listen 127.0.0.1:0",
        ) from None


@command.command("dashboard")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("grafana"),
    show_default=True,
    help="Where to.",
)
@_json
def dashboard(folder: Path, as_json: bool) -> None:
    """Write a Grafana dashboard over these metrics, and the provider by which Grafana finds it.

    The data source is a variable, so any Prometheus will do. Files that are already there are left as they are.

    \b
    Examples:
      drillmaster history dashboard
      drillmaster history dashboard --dir ops/grafana --json
    """
    from drillmaster.cli import say_json
    from drillmaster.cli._history_metrics import dashboard_files
    from drillmaster.intake.written import write_new

    written = {folder / name: write_new(folder / name, text) for name, text in dashboard_files().items()}
    if as_json:
        say_json(
            {
                "written": [str(path) for path, new in written.items() if new],
                "kept": [str(path) for path, new in written.items() if not new],
            }
        )
        return
    for path, new in written.items():
        click.echo(f"{path}: {'written' if new else 'was there and is left as it is'}")


def _article(entry: "Entry") -> dict[str, object]:
    """One run under the names that dashboards of the article's recorder read; `p95_latency` in seconds, null with its reason.

    A Friday drill that no gate has judged is refused there: who plots it knows four words.
    """
    p95 = [value for name, value in entry.metrics.items() if name.endswith(".p95_s") and name.startswith("warm_c")]
    more = {"p95_latency": max(p95)} if p95 else {}
    unjudged = entry.drill == "friday" and entry.status == "unjudged"
    return {
        "timestamp": entry.ended_at,
        "name": entry.name,
        "status": "refused" if unjudged else entry.status,
        "metrics": {**entry.metrics, **more, **dict.fromkeys(entry.missing)},
        "missing": entry.missing,
        "drill": entry.drill,
        "run": entry.run,
        "stamps": entry.stamps,
        "at_least": entry.at_least,
        "proved": entry.proved,
        "commit": entry.commit,
        "clean": entry.clean,
        "evidence_digest": entry.evidence_digest,
        "policy_digest": entry.policy_digest,
        "plan_sha256": entry.plan_sha256,
        "payload_sha256": entry.payload_sha256,
        **({"why": "no gate has judged it"} if unjudged else {}),
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
    return f"{'>= ' if cut else ''}{f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'}"
