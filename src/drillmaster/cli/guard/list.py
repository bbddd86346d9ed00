"""`drillmaster guard list`: what can be decided."""

import click

__all__ = ["command"]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> None:
    """List the guards: what each one decides, and where it counts.

    \b
    Examples:
      drillmaster guard list
      drillmaster guard list --json
    """
    from drillmaster.cli import say_json
    from drillmaster.guards import find, names
    from drillmaster.intake.guards_files import kind_of

    rows = []
    for name in names():
        kind = kind_of(name)
        rows.append(
            {
                "guard": name,
                "decides": (find(name).__doc__ or "").partition("\n")[0],
                "counts": "store" if kind.by_law else "process" if kind.state is not None else "nothing",
                "reasons": list(kind.reasons),
            }
        )
    if as_json:
        say_json(rows)
        return
    width = max(len(str(row["guard"])) for row in rows)
    for row in rows:
        click.echo(f"{row['guard']:<{width}}  counts: {row['counts']:<7}  {row['decides']}")
