"""`drillmaster webhook`: receive signed events, work on them, rehearse what can go wrong."""

from pathlib import Path

import click

from drillmaster.cli import Verb
from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.group("webhook", cls=Verb)
def command() -> None:
    """Receive a provider's webhooks: verify, store, answer; then work.

    What is verified, and how long a body may take, stands in one file (`kind: webhook`). docs/howto/receive-webhooks.md

    \b
    Examples:
      drillmaster webhook init webhook.yaml
      drillmaster webhook prepare webhook.yaml
      drillmaster webhook serve webhook.yaml --port 8080
    """


_settings = click.argument(
    "settings", type=click.Path(exists=True, dir_okay=False, path_type=Path), shell_complete=completions.files
)
_host = click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
_allow = click.option("--allow-host", metavar="ADDR", help="Say an address that is not loopback a second time.")
_port = click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)


@command.command()
@click.argument("settings", type=click.Path(path_type=Path), default=Path("webhook.yaml"))
def init(settings: Path) -> None:
    """Write a settings file with blanks, each explained. One that is there stays as it is.

    \b
    Examples:
      drillmaster webhook init webhook.yaml
    """
    from drillmaster.cli import _webhook

    _webhook.init(settings)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def schemes(as_json: bool) -> None:
    """List who signs how: the headers, what is signed, how old it may be, and where the provider says so.

    \b
    Examples:
      drillmaster webhook schemes
    """
    from drillmaster.cli import _webhook

    _webhook.schemes(as_json=as_json)


@command.command()
@_settings
def prepare(settings: Path) -> None:
    """Make the inbox that the file names, and the lab's, where they are not there. Nothing else ever makes one.

    \b
    Examples:
      drillmaster webhook prepare webhook.yaml
    """
    from drillmaster.cli import _webhook

    _webhook.prepare(settings)


@command.command()
@_settings
@_host
@_allow
@_port
def serve(settings: Path, host: str, allow_host: str | None, port: int) -> None:
    """Receive events: 202 for what is signed and stored, and for nothing else. Serves until SIGTERM.

    No model, no rule and no other host is asked before the answer. It does not start without a key of at least 24 bytes, nor with
    an inbox that nobody prepared.

    \b
    Examples:
      drillmaster webhook serve webhook.yaml --port 8080
    """
    from drillmaster.cli import _webhook

    _webhook.serve(settings, host=host, allow_host=allow_host, port=port)


@command.command()
@_settings
@_host
@_allow
@_port
@click.option(
    "--look-in",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="A file or folder in which no production key may be, besides the environment. May be given again.",
)
def lab(settings: Path, host: str, allow_host: str | None, port: int, look_in: tuple[Path, ...]) -> None:
    """Receive unsigned fixtures at the lab's hostname, into an inbox of their own. What is signed is refused.

    It does not start where it finds a key of production's: a variable or file of a key's name, or a text with a key's digest. It
    says where, and shows nothing of it.

    \b
    Examples:
      drillmaster webhook lab webhook.yaml --port 8090 --look-in /etc/lab
    """
    from drillmaster.cli import _webhook

    _webhook.lab(settings, host=host, allow_host=allow_host, port=port, look_in=look_in)


@command.command()
@_settings
@click.option("--rule", required=True, metavar="MODULE:NAME", help="The team's rule: an object with a method `decide`.")
@click.option("--model", metavar="MODULE:NAME", help="A function that takes the redacted copy and gives a note.")
@click.option(
    "--apply", metavar="MODULE:NAME", help="A function that writes what belongs to an effect, in its transaction."
)
@click.option("--once", is_flag=True, help="Work until nothing is waiting, and end.")
def work(settings: Path, rule: str, model: str | None, apply: str | None, once: bool) -> None:
    """Work on what was received: the team's rule, one effect an event, and a model's note where it comes in time.

    A process of its own: what answers the provider moves no money.

    \b
    Examples:
      drillmaster webhook work webhook.yaml --rule billing.rules:rule
      drillmaster webhook work webhook.yaml --rule billing.rules:rule --model billing.notes:ask --once
    """
    from drillmaster.cli import _webhook

    _webhook.work(settings, rule=rule, model=model, apply=apply, once=once)


_by = click.option("--by", required=True, metavar="NAME", help="Who looked at it.")


@command.command()
@_settings
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def status(settings: Path, as_json: bool) -> None:
    """Count what is in the inbox, and list what waits for a person. Exit code 1 where something does.

    That is an event that is parked, and a body that came under the identifier of another one.

    \b
    Examples:
      drillmaster webhook status webhook.yaml
    """
    from drillmaster.cli import _webhook

    _webhook.status(settings, as_json=as_json)


@command.command()
@_settings
@click.argument("event_id")
@_by
def again(settings: Path, event_id: str, by: str) -> None:
    """Let an event that is parked be worked on again, with its attempts counted anew.

    \b
    Examples:
      drillmaster webhook again webhook.yaml evt_1Nv0 --by ada
    """
    from drillmaster.cli import _webhook

    _webhook.again(settings, event_id, by=by)


@command.command()
@_settings
@click.argument("event_id")
@_by
def looked(settings: Path, event_id: str, by: str) -> None:
    """Say that a person looked at what is open of an event. It is closed without an effect; bodies stay.

    \b
    Examples:
      drillmaster webhook looked webhook.yaml evt_1Nv0 --by ada
    """
    from drillmaster.cli import _webhook

    _webhook.looked(settings, event_id, by=by)


@command.command()
@_settings
@click.option("--days", required=True, type=click.IntRange(1, 3_650), help="Longer ago than so many days.")
def forget(settings: Path, days: int) -> None:
    """Empty the bodies of events that ended long ago. Identifiers, digests and effects stay, so that none comes a second time.

    \b
    Examples:
      drillmaster webhook forget webhook.yaml --days 90
    """
    from drillmaster.cli import _webhook

    _webhook.forget(settings, days=days)


@command.command()
@click.option(
    "--rounds", default=50, show_default=True, type=click.IntRange(1, 100_000), help="Kills between insert and reply."
)
@click.option(
    "--inbox", metavar="URL", help="postgresql://USER@HOST/DATABASE of a database for rehearsals. Default: a file."
)
@click.option(
    "--wait-s",
    default=20.0,
    show_default=True,
    type=click.FloatRange(0.1, 3_600),
    help="An answer or an effect that is not there after so long is missing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def drill(rounds: int, inbox: str | None, wait_s: float, as_json: bool) -> None:
    """Rehearse five checks with real processes: a bad signature, a model that hangs, a duplicate, a model that is away, a kill.

    A terminator and a worker are started on loopback with a key of the rehearsal's own. The last check kills the terminator
    with SIGKILL between the insert and the answer, so many times, and sends each event again: nothing may be lost, nothing
    doubled. Exit code 1 where a check fails.

    \b
    Examples:
      drillmaster webhook drill
      drillmaster webhook drill --rounds 1000 --inbox postgresql://drills@/rehearsals
    """
    from drillmaster.cli import _webhook

    _webhook.drill(rounds=rounds, inbox=inbox, wait_s=wait_s, as_json=as_json)
