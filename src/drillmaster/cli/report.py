"""`drillmaster report`: the page of a run."""

from pathlib import Path

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("report")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Where to; - prints it. Default: RUN/report.html."
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser, where there is one.")
@click.option("--json", "as_json", is_flag=True, help="Print path, size and the accounting of retries as JSON.")
def command(run: Path, html: Path | None, open_it: bool, as_json: bool) -> None:
    """Write the page of a judged run, named by folder or id: one HTML file under 200 kB that needs no network, and prints on paper.

    It holds the verdict, the outcome of every request as a picture and as a table, what the endpoint got of it (attempts,
    retries by layer, waits that were kept or cut short, tokens), every check with what was observed and what was allowed,
    the diagnosis, the manifest, and the machine form of it all. --json gives the accounting of retries too.

    \b
    Examples:
      drillmaster report runs/20261129T153000Z-1a2b
      drillmaster report runs/20261129T153000Z-1a2b --open
      drillmaster report runs/20261129T153000Z-1a2b --json | jq .retries.storms
      drillmaster report runs/20261129T153000Z-1a2b --html /tmp/drill.html
    """
    import msgspec

    from drillmaster import reports
    from drillmaster.cli import say_json
    from drillmaster.errors import one_line
    from drillmaster.intake.runs import find_run, short
    from drillmaster.intake.written import STDOUT, judged_run, write_whole

    if html == STDOUT and (as_json or open_it):
        raise click.UsageError("--html - prints the page: it goes with neither --json nor --open")
    run = find_run(run)
    verdict, view = judged_run(run)
    page = reports.form("html").render(verdict, view)
    if html == STDOUT:
        click.echo(page, nl=False)
        return
    elsewhere = f"write it elsewhere: drillmaster report {short(run)} --html FILE (or - to print it)"
    path = write_whole(html if html is not None else run / "report.html", page, instead=elsewhere)
    if as_json:
        size = len(page.encode("utf-8", "backslashreplace"))
        retries = msgspec.to_builtins(view.retries)
        say_json({"report": one_line(str(path)), "bytes": size, "retries": retries})
    else:
        click.echo(one_line(str(path)))
    if open_it:
        _open(path)


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
