"""`drillmaster report`: a judged run as a page, and as files for other programs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from drillmaster.cli import _completions as completions

if TYPE_CHECKING:
    from drillmaster.passports import Judged
    from drillmaster.verdict import Verdict

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
Renders = dict[str, Callable[[], str]]
"""By option, how a form is made."""


def _file(name: str, what: str) -> Callable[[F], F]:
    return click.option(name, metavar="FILE", type=click.Path(path_type=Path), help=what)


@click.command("report")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@_file("--html", "Where to; - prints it. Default: RUN/report.html.")
@_file("--csv", "Write an interview's levels as a table, a row each; - prints it.")
@_file("--json-file", "Write all of it as JSON; - prints it.")
@_file("--junit", "Write the checks as a JUnit test report; - prints it.")
@_file("--prometheus", "Write verdict and figures for node_exporter's textfile collector; - prints them.")
@_file("--hdr", "Write an interview's latencies as an HdrHistogram log, a line a level and time; - prints it.")
@click.option("--from", "measured_from", metavar="TEXT", default="", help="Where an interview's load came from.")
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser, where there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written, and the figures, as JSON.")
def command(
    run: Path,
    html: Path | None,
    csv: Path | None,
    json_file: Path | None,
    junit: Path | None,
    prometheus: Path | None,
    hdr: Path | None,
    measured_from: str,
    open_it: bool,
    as_json: bool,
) -> None:
    """Write the page of a judged run, named by folder or id: one HTML file under 200 kB that needs no network, and prints on paper.

    Of a drill it holds the verdict, the outcome of every request as a picture and as a table, what the endpoint got of it
    (attempts, retries by layer, waits that were kept or cut short, tokens), every check with what was observed and what was
    allowed, the diagnosis, the manifest, and the machine form of it all. Of an interview: the ladder with its bounds, latency over
    time and its spread, first words and gaps, failures by kind, the client's fitness, the decision table, and what none of it
    proves; one that no gate has judged is shown as refused.

    Other forms are written beside the page where they are asked for, as many at once as one likes; where only other forms are asked
    for, no page is written. The exit code says whether they were written; the verdict's is the gate's.

    \b
    Examples:
      drillmaster report runs/20261129T153000Z-1a2b
      drillmaster report runs/20261129T153000Z-1a2b --open
      drillmaster report runs/20261129T153000Z-1a2b --json | jq .retries.storms
      drillmaster report runs/20261129T153000Z-1a2b --html /tmp/drill.html
      drillmaster report runs/20261130T120000Z-1a2b --html out/page.html --csv out/levels.csv --junit out/junit.xml
      drillmaster report runs/20261130T120000Z-1a2b --hdr out/latencies.hlog
      drillmaster report runs/20261130T120000Z-1a2b --prometheus /var/lib/node_exporter/diff_summary.prom
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import one_line
    from drillmaster.intake.friday_pages import is_friday
    from drillmaster.intake.runs import find_run, short
    from drillmaster.intake.written import STDOUT, is_interview, write_whole

    asked = {"html": html, "csv": csv, "json_file": json_file, "junit": junit, "prometheus": prometheus, "hdr": hdr}
    printed = [name for name, path in asked.items() if path == STDOUT]
    if len(printed) > 1:
        raise click.UsageError(
            f"--{_option(printed[0])} - and --{_option(printed[1])} - print both: write one to a file"
        )
    if printed and (as_json or open_it):
        word = _option(printed[0])
        raise click.UsageError(
            f"--{word} - prints the {'page' if word == 'html' else 'form'}: it goes with neither --json nor --open"
        )
    run = find_run(run)
    if is_interview(run):
        renders, more = _interview(run, measured_from)
    else:
        renders, more = (_friday if is_friday(run) else _drill)(run, measured_from)
    if not any(asked.values()) or open_it:
        asked["html"] = html or run / "report.html"
    texts = {name: renders[name]() for name, path in asked.items() if path is not None}
    written: dict[str, Path] = {}
    for name, text in texts.items():
        path = asked[name]
        assert path is not None
        if path == STDOUT:
            click.echo(text, nl=False)
            continue
        elsewhere = f"write it elsewhere: drillmaster report {short(run)} --{_option(name)} FILE (or - to print it)"
        written[name] = write_whole(path, text, instead=elsewhere)
    if as_json:
        page = texts.get("html")
        say_json(
            {
                "report": one_line(str(written["html"])) if "html" in written else None,
                "bytes": None if page is None else len(page.encode("utf-8", "backslashreplace")),
                "forms": {_option(name): one_line(str(path)) for name, path in written.items()},
                **more(),
            }
        )
    else:
        for path in written.values():
            click.echo(one_line(str(path)), err=bool(printed))
    if open_it:
        _open(written["html"])


def _option(name: str) -> str:
    return name.replace("_", "-")


def _interview(run: Path, measured_from: str) -> tuple[Renders, Callable[[], dict[str, Any]]]:
    """How each form of an interview is made, and what --json adds."""
    from drillmaster.clock import SystemClock
    from drillmaster.intake.runs import short
    from drillmaster.load.showing import judged_again, view_of
    from drillmaster.reports import form

    judged = judged_again(run, now_ns=SystemClock().wall_ns(), measured_from=measured_from)
    command = f"drillmaster gate interview {short(run)} --policy {judged.page.thresholds or 'FILE'}"
    view = view_of(judged, gate_command=command)
    verdict = judged.verdict
    if not judged.thresholds:
        click.echo(f"not judged yet, so it says refused: {command}", err=True)
    renders: Renders = {
        "html": lambda: form("interview_html").render(verdict, view),
        "csv": lambda: form("csv").render(verdict, view),
        "json_file": lambda: form("interview_json").render(verdict, view),
        "junit": lambda: form("junit").render(verdict),
        "prometheus": lambda: form("prometheus").render(verdict, view),
        "hdr": lambda: _hdr(judged),
    }
    return renders, lambda: {"interview": form("interview_json").document(verdict, view)}


def _hdr(judged: "Judged") -> str:
    from drillmaster.clock import parse_rfc3339
    from drillmaster.reports import form

    assert judged.run is not None  # it was read from a folder
    started_at = judged.run.manifest.started_at
    text: str = form("hdr").render(
        judged.interview,
        run=judged.run.interview.name,
        started_s=(parse_rfc3339(started_at) or 0) / 1e9,
        started_at=started_at,
    )
    return text


def _drill(run: Path, measured_from: str) -> tuple[Renders, Callable[[], dict[str, Any]]]:
    """The same of a drill with a fault."""
    import msgspec

    from drillmaster.intake.runs import short
    from drillmaster.intake.written import judged_run
    from drillmaster.reports import form

    verdict, view = judged_run(run)

    renders = _of_a_drill(
        measured_from,
        verdict,
        view.service,
        page=lambda: form("html").render(verdict, view),
        found="a drill with a fault, which has no levels",
        figures=f"drillmaster report {short(run)} --json",
    )
    return renders, lambda: {"retries": msgspec.to_builtins(view.retries)}


def _of_a_drill(
    measured_from: str, verdict: "Verdict", service: str, *, page: Callable[[], str], found: str, figures: str
) -> Renders:
    """The forms that any drill has. `found` and `figures` tell who asks for an interview's what this is, and where to look."""
    from drillmaster.errors import Problem
    from drillmaster.reports import form

    if measured_from:
        raise click.UsageError("--from is for an interview: it says where the load came from")

    def of_levels(option: str) -> str:
        raise Problem(option, found=found, wanted="an interview", remedy=f"take its figures from: {figures}")

    return {
        "html": page,
        "csv": lambda: of_levels("--csv"),
        "json_file": lambda: form("json").render(verdict),
        "junit": lambda: form("junit").render(verdict),
        "prometheus": lambda: form("prometheus").render(verdict, service=service),
        "hdr": lambda: of_levels("--hdr"),
    }


def _friday(run: Path, measured_from: str) -> tuple[Renders, Callable[[], dict[str, Any]]]:
    """The same of a Friday drill."""
    from drillmaster.intake.friday_pages import judged_friday
    from drillmaster.intake.runs import short
    from drillmaster.reports import form

    verdict, view = judged_friday(run)

    renders = _of_a_drill(
        measured_from,
        verdict,
        view.service,
        page=lambda: form("friday_html").render(verdict, view),
        found="a Friday drill, whose missions are in events/missions.jsonl",
        figures=f"drillmaster report {short(run)} --json-file FILE",
    )
    rows = {row.id: {"status": row.status, "observed": row.observed, "target": row.objective} for row in view.rows}
    return renders, lambda: {"rows": rows}


def _open(path: Path) -> None:
    """Open a page in the desktop's browser, if there is one; where there is none, its path has been printed."""
    import os
    import shutil
    import subprocess

    opener = shutil.which("xdg-open")
    if opener is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    subprocess.Popen(  # noqa: S603 # the desktop's own opener, on a file of ours
        [opener, path.resolve().as_uri()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
