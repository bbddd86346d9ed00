"""`drillmaster guard serve`: guards for workers in other languages, over loopback."""

import os

import click

from drillmaster.cli import _completions as completions
from drillmaster.errors import Problem, Refused

__all__ = ["STORE", "TOKEN", "command"]

TOKEN = "DRILLMASTER_GUARD_TOKEN"  # noqa: S105 # the name of the variable, and no token
STORE = "DRILLMASTER_GUARD_STORE"


@click.command("serve")
@click.option(
    "--guards",
    required=True,
    metavar="FILE",
    help="The guards file, with the limits.",
    shell_complete=completions.files,
)
@click.option(
    "--store",
    metavar="URL",
    envvar=STORE,
    help="Where guards count that workers share. DRILLMASTER_GUARD_STORE says it too, where the URL has a password.",
)
@click.option(
    "--listen",
    "where",
    metavar="HOST:PORT",
    default="127.0.0.1:8787",
    show_default=True,
    help="Or unix:PATH. Port 0 takes a free one.",
)
@click.option("--allow-host", metavar="ADDR", help="Say an address that is not loopback a second time.")
@click.option(
    "--log",
    metavar="FILE",
    help="Where decisions are written. Default: the file that DRILL_LOG names.",
    shell_complete=completions.files,
)
@click.option(
    "--allowed-share",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="The share of allowed decisions that is written. Denials are all written.",
)
@click.option(
    "--store-within-s",
    type=click.FloatRange(0.01, 30),
    default=0.5,
    show_default=True,
    help="The longest that the store may take.",
)
@click.option(
    "--read-within-s", type=click.FloatRange(0.1, 60), default=5.0, show_default=True, help="For one whole request."
)
@click.option(
    "--connections", type=click.IntRange(1, 20_000), default=1_024, show_default=True, help="At most so many at once."
)
def command(
    guards: str,
    store: str | None,
    where: str,
    allow_host: str | None,
    log: str | None,
    allowed_share: float,
    store_within_s: float,
    read_within_s: float,
    connections: int,
) -> None:
    """Answer workers in any language: POST facts to /v1/NAME, get the decision. Prints its address, serves until SIGTERM.

    Only an allowed decision is a 200. A worker that gets no answer denies by itself: docs/howto/guard-from-another-language.md has
    the client. SIGHUP reads the guards file again, and keeps the last good one. GET /metrics is for Prometheus.

    It listens on loopback or a socket file. Another address is said twice, and then a token is needed: clients send it as
    `Authorization: Bearer`, and DRILLMASTER_GUARD_TOKEN holds it here. On loopback it is asked for where that is set.

    \b
    Examples:
      drillmaster guard serve --guards guards.yaml --store redis://127.0.0.1:6379/0
      drillmaster guard serve --guards guards.yaml --store sqlite:guards.db --listen unix:/run/guards.sock
      curl -d @facts.json -H 'content-type: application/json' http://127.0.0.1:8787/v1/retry
    """
    from drillmaster.adapters.worker.answering import serve
    from drillmaster.adapters.worker.guarding import Guarding, no_store
    from drillmaster.adapters.worker.recording import Recorder
    from drillmaster.adapters.worker.serving import Bounds, listen, spoken
    from drillmaster.standins import check_host

    token = os.environ.get(TOKEN, "")
    if not where.startswith("unix:"):
        host, _ = spoken(where)
        try:
            check_host(host, allow_host)
        except Problem as problem:
            mend = f"if you mean it, say it twice: --listen {where} --allow-host {host}"
            mend = mend if isinstance(problem, Refused) else "--listen 127.0.0.1:8787"
            raise type(problem)("--listen", found=problem.found, wanted=problem.wanted, remedy=mend) from None
        if host == allow_host and not _is_loopback(host) and not token:
            raise Refused(
                "--listen",
                found=f"{host}, which other machines can reach, and no token",
                wanted="one that clients have to know",
                remedy=f"export {TOKEN}=$(openssl rand -hex 32), and give it to the workers",
            )
    if token and (len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token):
        raise Problem(
            TOKEN,
            found=f"{len(token)} characters" if len(token) < 16 else "characters that no header can carry",
            wanted="16 or more letters and digits",
            remedy=f"export {TOKEN}=$(openssl rand -hex 32)",
        )
    guarding = Guarding.open(
        guards,
        store=store,
        within_s=store_within_s,
        recorder=Recorder(log, allowed_share=allowed_share),
    )
    if guarding.guards.needs_store and store is None:
        raise no_store(guarding.guards)
    sock, name = listen(where)
    if store is not None and guarding.guards.needs_store:
        _say_what_denies(store, store_within_s)
    # What was begun is answered at the end, however long the store may take.
    bounds = Bounds(connections=connections, read_s=read_within_s, drain_s=store_within_s + 5)
    serve(guarding, sock, name, token=token, bounds=bounds)


def _say_what_denies(store: str, within_s: float) -> None:
    """Ask the store once, and say where it gives no answer. The server serves all the same: a store can come later."""
    from drillmaster.stores import Unavailable
    from drillmaster.stores.checking import ask_store

    try:
        ask_store(store, within_s=within_s)
    except Unavailable as problem:
        click.echo(f"{problem}; until it answers, all that counts in it is denied", err=True)


def _is_loopback(host: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(host).is_loopback
