"""`drillmaster seal`: digests of a finished run's files, and the head that a Scribe signs or reads out."""

from pathlib import Path

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Refused, one_line

__all__ = ["command"]


@click.command("seal")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), shell_complete=completions.runs)
@click.option("--sign", "key", type=click.Path(path_type=Path), help="An SSH key; its signature is RUN/seal.json.sig.")
@click.option("--json", "as_json", is_flag=True, help="Print the seal's head, time and counts as JSON.")
def command(run: Path, key: Path | None, as_json: bool) -> None:
    """Seal a run, named by folder or id: sync its files, digest them, write RUN/seal.json. A run is sealed once.

    `run` seals by itself; this is for a run whose conductor was killed. While a drill goes on its run cannot be sealed.

    A run that is sealed and unchanged is left as it is (and signed, with --sign); one that changed is refused. An
    unsigned seal shows every change by somebody who did not make a new seal; it cannot show who sealed, or that nobody
    sealed again. The head, read out or signed, can.

    \b
    Examples:
      drillmaster seal runs/20261129T153000Z-1a2b
      drillmaster seal runs/20261129T153000Z-1a2b --sign ~/.ssh/id_ed25519
    """
    from drillmaster.cli import say_json
    from drillmaster.clock import SystemClock
    from drillmaster.intake.runs import find_run
    from drillmaster.run.seats import live_at
    from drillmaster.signing import sign
    from drillmaster.timeline import seal_run

    run = find_run(run)
    live = live_at(run)
    if live is not None:
        raise Refused(
            str(run),
            found=f"a drill that goes on (pid {live.pid})",
            wanted="one that is over: a run is sealed once",
            remedy=f"wait for its end, or stop it: drillmaster stop {live.run}",
        )
    seal = seal_run(run, SystemClock())
    signature = sign(run / "seal.json", key) if key is not None else None
    lines = sum(file.lines for file in seal.files.values())
    if as_json:
        say_json(
            {
                "run": run.resolve().name,
                "sealed_at": seal.sealed_at,
                "head": seal.head,
                "files": len(seal.files),
                "lines": lines,
                "signature": str(signature) if signature else None,
            }
        )
        return
    click.echo(f"sealed {len(seal.files)} files, {lines:,} lines at {seal.sealed_at}")
    click.echo(f"head {seal.head}")
    if signature:
        click.echo(f"signed {one_line(str(signature))}")
