"""`drillmaster gate selftest`: every check of every gate is shown to go red, and green."""

import sys

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("selftest")
@click.argument("gates", metavar="[GATE]...", nargs=-1, shell_complete=completions.gates)
@click.option("--json", "as_json", is_flag=True, help="Print a row a check as JSON.")
def command(gates: tuple[str, ...], as_json: bool) -> None:
    """Show every check evidence on which it must go red, and some on which it must be green; exit 1 where one does not.

    A gate plays its own self-test before it judges, once for each version of the code, and judges nothing where a check
    cannot go red.

    \b
    Examples:
      drillmaster gate selftest
      drillmaster gate selftest canary --json
    """
    import msgspec

    from drillmaster.cli import say_json
    from drillmaster.errors import Exit, one_line
    from drillmaster.gates import find, names
    from drillmaster.gates._selftest import selftest

    for name in gates:
        find(name)
    rows = [row for name in gates or names() for row in selftest(name)]
    broken = [row for row in rows if not row.holds]
    if as_json:
        say_json([{**msgspec.to_builtins(row), "holds": row.holds} for row in rows])
    else:
        width = max(len(f"{row.gate} {row.check}") for row in rows)
        for row in rows:
            said = "; ".join(row.problems) or f"red {row.red}, green {row.green}"
            click.echo(one_line(f"{'ok  ' if row.holds else 'FAIL'} {f'{row.gate} {row.check}':<{width}}  {said}"))
        click.echo(f"{len(rows)} checks, {len(broken)} that cannot be believed")
    sys.exit(Exit.FAIL if broken or not rows else Exit.PASS)
