"""`drillmaster report`: the page of a run."""

from pathlib import Path

import click

__all__ = ["command"]


@click.command("report")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Where to. Default: RUN/report.html.")
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

    from drillmaster.intake.written import write_page

    path = write_page(run, html)
    if as_json:
        said = {"report": str(path), "bytes": path.stat().st_size}
        click.echo(msgspec.json.encode(said).decode())
    else:
        click.echo(str(path))
    if open_it:
        click.launch(path.resolve().as_uri())
