"""`drillmaster stop`: end the drill. The Lead's order."""

import click

from drillmaster.cli import _completions as completions

__all__ = ["command"]


@click.command("stop")
@click.argument("run", required=False, shell_complete=completions.runs_going_on)
@click.option("--why", default="", help="One line for the record.")
@click.option("--by", default="", help="Who orders it. Default: the plan's Lead.")
@click.option("--token-file", metavar="FILE", help="The Lead's token. Default: the one in the state folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def command(run: str | None, why: str, by: str, token_file: str | None, as_json: bool) -> None:
    """Lift the fault, seal what there is, and end the drill with exit code 3. A stopped drill is not judged.

    RUN is the live run's id or folder; without it the only live one is meant.

    \b
    Examples:
      drillmaster stop
      drillmaster stop 20261129T153000Z-1a2b --why 'as agreed'
    """
    from drillmaster.conduct import SAID, Role, State
    from drillmaster.run.verbs import give_order

    name, told = give_order("stop", run=run, token_file=token_file, seat=Role.LEAD, text=why, by=by)
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode({"run": name, "state": told.state, "text": told.text}).decode())
    else:
        click.echo(f"{told.text}; run {name} is {SAID[State(told.state)]}")
