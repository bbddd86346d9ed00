"""`drillmaster gate explain`: what a check asks, why, and how it is mended."""

import sys

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("explain")
@click.argument("reason", metavar="CHECK|GATE", shell_complete=completions.checks)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def command(reason: str, as_json: bool) -> None:
    """Explain a check by its id, in every gate that has one of that name, or all checks of a gate.

    \b
    Examples:
      drillmaster gate explain policy-signed
      drillmaster gate explain canary
      drillmaster gate explain eviction.fallback
    """
    from drillmaster.cli import say_json
    from drillmaster.errors import Problem, one_line
    from drillmaster.gates import names
    from drillmaster.gates._asks import Asked, asks, shared
    from drillmaster.strict import near

    books = {"every gate": shared(), **{name: asks(name) for name in names()}}
    gate, dot, inner = reason.partition(".")
    found: list[tuple[str, Asked]] = []
    if reason in books:
        found = [(reason, one) for one in books[reason].check]
    elif dot and gate in books and books[gate].owning(inner):
        found = [(gate, one) for one in [books[gate].owning(inner)] if one is not None]
    else:
        found = [(name, one) for name, book in books.items() if (one := book.owning(reason)) is not None]
    if not found:
        ids = [one.id for book in books.values() for one in book.check]
        meant = near(reason, [*ids, *books])
        raise Problem(
            "gate explain",
            found=repr(one_line(reason)[:60]),
            wanted="the id of a check, or a gate",
            remedy=f"did you mean {meant}?" if meant else "drillmaster gate list --json names all checks",
        )
    if as_json:
        say_json(
            [
                {"gate": name, "check": one.id, "asks": one.asks, "because": one.because, "mend": one.mend}
                for name, one in found
            ]
        )
        sys.exit(0)
    for number, (name, one) in enumerate(found):
        click.echo(("\n" if number else "") + f"{one.id} ({name})")
        click.echo(f"  asks: {one.asks}\n  because: {one.because}\n  mend: {one.mend}")
