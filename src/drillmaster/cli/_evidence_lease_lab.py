"""`drillmaster evidence new lease-lab`: have a lab host say what it holds, and where its packets leave."""

from pathlib import Path

import click

from drillmaster.cli import _completions as completions

__all__ = ["lease_lab"]


@click.command("lease-lab")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="Where to write it; - prints it.",
    shell_complete=completions.files,
)
@click.option("--host", metavar="NAME", help="The host's name, where it does not know its own. Default: uname -n.")
@click.option(
    "--pid",
    "pids",
    metavar="PID",
    type=click.IntRange(min=1),
    multiple=True,
    help="A process whose environment is looked at, besides this shell's. Can be given again.",
)
def lease_lab(out: Path, host: str | None, pids: tuple[int, ...]) -> None:
    """Write down, on the lab host, the names of its environment and its routing tables, for `drillmaster gate leases`.

    Names are written and never a value. Routes are read from the kernel (`ip`, or /proc/net/route), and nothing is sent anywhere.
    Run it where the harness runs, in its own shell, or name its process. Exit code 0, or 2.

    \b
    Examples:
      drillmaster evidence new lease-lab --out lease-lab.json
      drillmaster evidence new lease-lab --pid "$(pgrep -o -f harness)" --host lab-7 --out lease-lab.json
    """
    import os

    import msgspec

    from drillmaster.clock import SystemClock
    from drillmaster.errors import Problem
    from drillmaster.intake.lease_lab import environment_of, lab_file
    from drillmaster.intake.written import STDOUT, write_whole

    name = os.uname().nodename if host is None else host
    if not name.strip():
        raise Problem(
            "evidence new lease-lab",
            found="no name",
            wanted="the host's name, as the policy has it",
            remedy="add --host NAME",
        )
    environments = [environment_of(os.environ, None), *(environment_of(None, pid) for pid in pids)]
    file = lab_file(host=name, environments=environments, folder=Path.cwd(), now_ns=SystemClock().wall_ns())
    text = msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n"
    if out == STDOUT:
        click.echo(text, nl=False)
        return
    write_whole(out, text)
    names = sum(len(one.names) for one in environments)
    tables = {"all": "all tables", "main": "the main table", "none": "no table could be read"}[file.data.tables]
    click.echo(f"{out}: {name}, {names:,} names, {len(file.data.routes):,} routes ({tables})")
    click.echo(f"next: drillmaster gate leases {out} --image image.json --policy FILE")
