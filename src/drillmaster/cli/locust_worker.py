"""`drillmaster locust-worker`: one engine of an interview that several machines share."""

import os
import sys

import click

__all__ = ["command"]


@click.command("locust-worker")
@click.option(
    "--master", required=True, metavar="HOST:PORT", help="Where `drillmaster interview --engine locust` listens."
)
@click.option(
    "--permit-host", metavar="HOST", help="Repeat the host that the plan has permission for: this machine's own yes."
)
@click.option(
    "--within",
    type=click.FloatRange(1, 86_400),
    default=300.0,
    show_default=True,
    metavar="S",
    help="How long to wait for the master.",
)
def command(master: str, permit_host: str | None, within: float) -> None:
    """Be one engine of an interview: wait for its Locust master, do one run's share, send every record back, and end.

    It starts before the master or after it. One worker a core is enough. Versions have to be the same on both sides. Keys come from
    this machine's own environment, by the names that the plan has; load goes to loopback, or to the host that plan and
    --permit-host both name, at the addresses that it has here. Ends with 0 when the run is over, 2 when it was refused or the
    master is gone, 3 when it was stopped.

    \b
    Examples:
      drillmaster locust-worker --master 127.0.0.1:5557
      MODEL_KEY=... drillmaster locust-worker --master 192.0.2.7:5557 --permit-host api.example.com
    """
    from drillmaster.adapters.drill.meeting import need_locust, parse_address

    need_locust("locust-worker")
    address = parse_address(master, place="--master")
    from drillmaster.adapters.drill.locust_worker import work

    sys.exit(
        work(
            address,
            within_s=within,
            permit_host=permit_host,
            environ=os.environ,
            say=lambda text: click.echo(text, err=True),
        )
    )
