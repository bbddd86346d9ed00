"""`drillmaster gate list`: what can be judged, and by what."""

import click

__all__ = ["command"]


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def command(as_json: bool) -> None:
    """List the gates: what each one judges, and how many checks it has.

    \b
    Examples:
      drillmaster gate list
      drillmaster gate list --json
    """
    from drillmaster.cli import say_json
    from drillmaster.gates import find, names
    from drillmaster.gates._asks import asks

    rows = [
        {
            "gate": name,
            "judges": (find(name).__doc__ or "").partition("\n")[0],
            "checks": [one.id for one in asks(name).check],
        }
        for name in names()
    ]
    if as_json:
        say_json(rows)
        return
    width = max(len(str(row["gate"])) for row in rows)
    for row in rows:
        click.echo(f"{row['gate']:<{width}}  {len(row['checks']):>3} checks  {row['judges']}")
