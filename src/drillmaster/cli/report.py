"""`drillmaster report`: the page of a run."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path), help="Where to; - prints it. Default: RUN/report.html."
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option("--json", "as_json", is_flag=True, help="Print path and size as JSON.")
def command(run: Path, html: Path | None, open_it: bool, as_json: bool) -> None:
    """Write the page of a judged run: one HTML file under 200 kB that needs no network, and prints on paper.

    It holds the verdict, the outcome of every request as a picture and as a table, every check with what was observed and
    what was allowed, the diagnosis, the manifest, and the machine form of it all.

    \b
    Examples:
      drillmaster report runs/20261129T153000Z-1a2b
      drillmaster report runs/20261129T153000Z-1a2b --open
      drillmaster report runs/20261129T153000Z-1a2b --html /tmp/drill.html
    """
    import msgspec

    from drillmaster import reports
    from drillmaster.errors import one_line
    from drillmaster.intake.written import STDOUT, judged_run, write_whole

    if html == STDOUT and (as_json or open_it):
        raise click.UsageError("--html - prints the page: it goes with neither --json nor --open")
    page = reports.form("html").render(*judged_run(run))
    if html == STDOUT:
        click.echo(page, nl=False)
        return
    path = write_whole(html if html is not None else run / "report.html", page)
    if as_json:
        said = {"report": one_line(str(path)), "bytes": len(page.encode("utf-8", "backslashreplace"))}
        click.echo(msgspec.json.encode(said).decode())
    else:
        click.echo(one_line(str(path)))
    if open_it:
        click.launch(path.resolve().as_uri())
