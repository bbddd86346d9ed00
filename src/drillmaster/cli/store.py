"""`drillmaster store`: prepare the store that a team's guards count in, and see whether it will do."""

import click

from drillmaster.cli import Verb
from drillmaster.cli._quantities import Seconds
from drillmaster.errors import Exit

__all__ = ["command"]

_url = click.argument("url", metavar="URL")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group("store", cls=Verb)
def command() -> None:
    """Prepare the store that guards count in, and see whether it will do.

    A store that nobody prepared denies everything: a file that was not mounted, or a server that came back empty, must not look
    like one in which nothing was spent. docs/howto/keep-a-quota.md

    \b
    Examples:
      drillmaster store prepare sqlite:guards.db
      drillmaster store check redis://127.0.0.1:6379/0
    """


@command.command()
@_url
def prepare(url: str) -> None:
    """Make in a store what guards need; what is there already stays.

    URL is sqlite:PATH, postgresql://USER@HOST/DATABASE or redis://HOST:PORT/DATABASE. Run it once, by hand, and again after an
    upgrade; never in a worker.

    \b
    Examples:
      drillmaster store prepare sqlite:/var/lib/agent/guards.db
      drillmaster store prepare postgresql://guards@db.internal/guards
    """
    from drillmaster.stores.opening import open_store

    store = open_store(url)
    store.prepare()
    click.echo(f"prepared {store.place}")
    store.close()


@command.command()
@_url
@click.option(
    "--within", "within_s", type=Seconds(), default="500ms", show_default=True, help="The time limit of workers."
)
@_json
def check(url: str, within_s: float, as_json: bool) -> None:
    """Ask a store a question that changes nothing: is it prepared, in time, and will it keep what it is told?

    Exit code 1 where it answers, and would lose what was spent when it is started again; 2 where it does not answer, or was not
    prepared.

    \b
    Examples:
      drillmaster store check redis://127.0.0.1:6379/0
      drillmaster store check sqlite:guards.db --within 100ms --json
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.stores.checking import check_store

    found = check_store(url, within_s=within_s)
    kept = {
        True: "it keeps what it is told",
        False: "IT DOES NOT KEEP what it is told",
        None: "whether it keeps what it is told",
    }
    if as_json:
        say_json({"kind": "store", **msgspec.to_builtins(found)})
    else:
        click.echo(
            f"{found.place}: prepared, answers in {found.answer_us / 1_000:.1f} ms\n{kept[found.keeps]}: {found.how}"
        )
    if found.keeps is False:
        raise SystemExit(Exit.FAIL)
